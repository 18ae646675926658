"""SimpleConsumer: acknowledgement, invisible time, receipt handles."""

import time

from rocketmq.grpc_protocol import Code
from rocketmq.v5.exception import ClientException

from clients import SERVER, Arrival, bodies, leftovers, receive
from harness import check, check_equal

# The shortest invisible time a receive may ask for.
INVISIBLE_S = 10
# Apache wakes no waiting poll for a redelivery, so it can take a round of its revive and a whole poll longer.
EARLY_S = 0.5
LATE_S = 15 if SERVER == "apache" else 3


def ack(clients):
    consumer = send_bodies(clients, ["a", "b", "c"])
    arrivals = receive(consumer, 3, invisible=INVISIBLE_S)
    check_equal(sorted(bodies(arrivals)), ["a", "b", "c"], "bodies")
    time.sleep(INVISIBLE_S + 1)
    check_equal(leftovers(consumer), [], "bodies that came again although acknowledged")


def no_ack(clients):
    consumer = send_bodies(clients, ["again"])
    first = the_only(receive(consumer, 1, invisible=INVISIBLE_S, ack=False))
    check_equal(first.message.delivery_attempt, 1, "first delivery attempt")
    second = the_only(receive(consumer, 1, within=INVISIBLE_S + LATE_S))
    return check_redelivery(first, second, INVISIBLE_S)


def change_invisible(clients):
    """One message becomes visible sooner than it was received for, the other later."""
    consumer = send_bodies(clients, ["sooner", "later"])
    firsts = receive(consumer, 2, invisible=INVISIBLE_S, ack=False)
    check_equal(sorted(bodies(firsts)), ["later", "sooner"], "first deliveries")
    changes = {"sooner": 3, "later": 17}
    changed = {}
    for first in firsts:
        handle = first.message.receipt_handle
        consumer.change_invisible_duration(first.message, changes[first.body])
        check(first.message.receipt_handle not in (None, "", handle), "no new receipt handle")
        changed[first.body] = Arrival(first.message, time.time())
    seconds = receive(consumer, 2, within=changes["later"] + LATE_S)
    check_equal(bodies(seconds), ["sooner", "later"], "redeliveries")
    return ", ".join(
        f"{second.body}: {check_redelivery(changed[second.body], second, changes[second.body])}" for second in seconds)


def stale_handle(clients):
    consumer = send_bodies(clients, ["stale"])
    first = the_only(receive(consumer, 1, invisible=INVISIBLE_S, ack=False))
    second = the_only(receive(consumer, 1, within=INVISIBLE_S + LATE_S, ack=False))
    try:
        consumer.ack(first.message)
    except ClientException as refusal:
        check_equal(refusal.code, Code.INVALID_RECEIPT_HANDLE, "code of the refusal")
    else:
        check(False, "the handle of an earlier delivery was accepted")
    consumer.ack(second.message)


def the_only(arrivals):
    check_equal(len(arrivals), 1, "number of messages")
    return arrivals[0]


def check_redelivery(first, second, invisible_s):
    check_equal(second.message.message_id, first.message.message_id, "message id of the redelivery")
    check_equal(second.message.delivery_attempt, 2, "delivery attempt of the redelivery")
    after = second.at - first.at
    check(after >= invisible_s - EARLY_S, f"came again after {after:.1f} s, invisible for {invisible_s}")
    check(after <= invisible_s + LATE_S, f"came again only after {after:.1f} s, invisible for {invisible_s}")
    return f"again after {after * 1000:.0f} ms"


def send_bodies(clients, texts):
    consumer = clients.simple_consumer()
    producer = clients.producer()
    for text in texts:
        producer.send(clients.message(text))
    return consumer
