"""Delayed messages: never early, and cancelled when recalled in time."""

import time

from clients import SERVER, bodies, leftovers, receive
from harness import check, check_equal

LATE_MAX_S = 5 if SERVER == "apache" else 1


def delay(clients):
    consumer = clients.simple_consumer()
    producer = clients.producer()
    # This client sends whole seconds.
    due = [int(time.time()) + 3, int(time.time()) + 6]
    for at in due:
        producer.send(delayed(clients, str(at), at))
    arrivals = receive(consumer, len(due))
    check_equal([int(body) for body in bodies(arrivals)], due, "messages by due time")
    late = [arrival.at - at for arrival, at in zip(arrivals, due)]
    for seconds in late:
        check(seconds >= 0, f"came {-seconds:.3f} s early")
        check(seconds <= LATE_MAX_S, f"came {seconds:.3f} s late")
    return f"late by {' and '.join(f'{seconds * 1000:.0f}' for seconds in late)} ms"


def recall(clients):
    consumer = clients.simple_consumer()
    producer = clients.producer()
    at = int(time.time()) + 6
    receipt = producer.send(delayed(clients, "recalled", at))
    producer.send(delayed(clients, "kept", at))
    check(receipt.recall_handle, "the send receipt has no recall handle")
    recalled = producer.recall_message(clients.topic, receipt.recall_handle)
    check_equal(recalled, receipt.message_id, "id of the recalled message")
    check_equal(bodies(receive(consumer, 1)), ["kept"], "bodies")
    check_equal(leftovers(consumer), [], "bodies after the kept one")


def delayed(clients, body, at):
    message = clients.message(body)
    message.delivery_timestamp = at
    return message
