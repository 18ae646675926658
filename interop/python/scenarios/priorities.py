"""Messages of a higher priority overtake a backlog of lower ones."""

from clients import bodies, receive
from harness import check_equal

SENT = [1, 3, 2, 1, 3, 2, 1, 3]
EXPECTED = ["3-1", "3-4", "3-7", "2-2", "2-5", "1-0", "1-3", "1-6"]


def order(clients):
    consumer = clients.simple_consumer()
    producer = clients.producer()
    for i, priority in enumerate(SENT):
        message = clients.message(f"{priority}-{i}")
        message.priority = priority
        producer.send(message)
    check_equal(bodies(receive(consumer, len(SENT), batch=1)), EXPECTED, "order")
