"""Lite topics of one parent: a consumer gets those it has subscribed to, each in order, and one that is stuck alone."""

import threading
import time

from rocketmq import ConsumeResult

from clients import receive
from harness import check, check_equal


# This client (5.1.2) takes a new name apart and subscribes to its letters; the name itself comes with the full list, which
# it sends every 30 seconds.
SUBSCRIBED_S = 45


def labels(name, start, end):
    return [f"{name}{i}" for i in range(start, end)]


def of(lite, names):
    return [f"{name} of {lite}" for name in names]


def sender(clients):
    producer = clients.producer()

    def send(lite, names):
        for name in names:
            message = clients.message(name)
            message.lite_topic = lite
            producer.send(message)
    return send


def push(clients):
    stuck, healthy, other = (f"{name}-{clients.tag}" for name in ("stuck", "healthy", "other"))
    send = sender(clients)
    # Before anybody has subscribed: a lite topic is often made by its first message.
    send(other, labels("other", 0, 1))
    send(healthy, labels("healthy", 0, 3))

    done = []
    failed, released = threading.Event(), threading.Event()

    def consume(message):
        label = message.body.decode()
        if label == "stuck0" and not released.is_set():
            failed.set()
            return ConsumeResult.FAILURE
        done.append(f"{label} of {message.lite_topic}")
        return ConsumeResult.SUCCESS

    def expect(expected):
        deadline = time.time() + SUBSCRIBED_S
        while len(done) < len(expected) and time.time() < deadline:
            time.sleep(0.05)
        check_equal(list(done), expected, "received")

    consumer = clients.lite_push_consumer(consume)
    consumer.subscribe_lite(healthy)
    consumer.subscribe_lite(stuck)
    expect(of(healthy, labels("healthy", 0, 3)))

    send(stuck, labels("stuck", 0, 3))
    check(failed.wait(30), "the first message did not come")
    send(other, labels("other", 1, 2))
    send(healthy, labels("healthy", 3, 8))
    expect(of(healthy, labels("healthy", 0, 8)))
    released.set()
    everything = of(healthy, labels("healthy", 0, 8)) + of(stuck, labels("stuck", 0, 3))
    expect(everything)

    consumer.unsubscribe_lite(healthy)
    send(healthy, labels("healthy", 8, 9))
    send(stuck, labels("stuck", 3, 4))
    everything += of(stuck, labels("stuck", 3, 4))
    expect(everything)
    time.sleep(3)
    expect(everything)


def simple(clients):
    mine, other = (f"{name}-{clients.tag}" for name in ("mine", "other"))
    send = sender(clients)
    send(mine, labels("mine", 0, 1))
    send(other, labels("other", 0, 1))
    consumer = clients.lite_simple_consumer()
    consumer.subscribe_lite(mine)
    first = receive(consumer, 1, within=SUBSCRIBED_S, ack=False)
    check_equal([(a.body, a.message.lite_topic) for a in first], [("mine0", mine)], "received")
    send(mine, labels("mine", 1, 3))
    check_equal(receive(consumer, 1, within=0.001), [], "received while one is in flight")
    consumer.ack(first[0].message)
    rest = receive(consumer, 2, batch=1)
    check_equal([arrival.body for arrival in rest], labels("mine", 1, 3), "received")
    consumer.unsubscribe_lite(mine)
    send(mine, labels("mine", 3, 4))
    check_equal(receive(consumer, 1, within=0.001), [], "received after unsubscribing")
