"""What must be refused, beside a message that must be accepted."""

import hashlib

from clients import bodies, leftovers, receive
from harness import check, check_equal

MIB_4 = 4 * 1024 * 1024


def type_mismatch(clients):
    """The client compares with the types in the route, so the refusal proves that the route lists the right ones."""
    topic = clients.named("type-mismatch-normal")
    consumer = clients.simple_consumer(topic=topic)
    producer = clients.producer([topic])
    wrong = clients.message("fifo", topic)
    wrong.message_group = "g"
    refused(lambda: producer.send(wrong), "message type not match")
    producer.send(clients.message("normal", topic))
    check_equal(bodies(receive(consumer, 1)), ["normal"], "bodies")
    check_equal(leftovers(consumer), [], "bodies after the normal one")
    return "refused by the client from the route"


def body_4mib(clients):
    consumer = clients.simple_consumer()
    producer = clients.producer()
    body = bytes(i % 251 for i in range(MIB_4))
    producer.send(clients.message(body))
    refused(lambda: producer.send(clients.message(body + b"x")), "exceeds the threshold, max size=4194304")
    arrivals = receive(consumer, 1)
    check_equal(len(arrivals), 1, "number of messages")
    check_equal(digest(arrivals[0].message.body), digest(body), "digest of the body")
    return "sent and received; more refused by the client from the settings"


def unknown_topic(clients):
    """The client drops the server's code and only says that there is no route."""
    producer = clients.producer([])
    topic = clients.named("no-such-topic")
    refused(lambda: producer.send(clients.message("lost", topic)), f"failed to fetch topic:{topic} route")


def refused(send, expected):
    try:
        send()
    except Exception as error:
        check(expected in str(error), f"refused for another reason: {error}")
    else:
        check(False, "accepted")


def digest(body):
    return hashlib.sha256(body).hexdigest()
