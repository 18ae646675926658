"""A listener that always fails: retries counted exactly, then the dead-letter topic."""

import time
from collections import defaultdict

from rocketmq import ConsumeResult

from clients import receive
from harness import check, check_equal

# The group is created with retryMaxTimes 2: one delivery and two retries.
ATTEMPTS = [1, 2, 3]
# Longer than any retry step, so a fourth attempt would have come.
QUIET_S = 6


def retry_dlq(clients):
    attempts = defaultdict(list)

    def fail(message):
        attempts[message.message_id].append(message.delivery_attempt)
        return ConsumeResult.FAILURE

    clients.push_consumer(fail)
    time.sleep(3)  # the first assignment scan comes after one second, then the first receive
    producer = clients.producer()

    def send(body):
        message = clients.message(body)
        message.keys = "dead"
        message.add_property("color", "red")
        return producer.send(message).message_id

    # The dead-letter topic may only exist after the first dead letter, and its reader, being a new group, may start
    # behind that one: hence a first message that opens the topic and a second that is looked for.
    opener = send("opener")
    exhausted(attempts, opener)
    reader = dead_letter_reader(clients)
    dead = send("dead letter")
    exhausted(attempts, dead)

    arrivals = receive(reader, 2, within=40)
    letters = [arrival.message for arrival in arrivals if arrival.body == "dead letter"]
    check(letters, f"not in the dead-letter topic, found {len(arrivals)} others")
    check_equal(letters[0].message_id, dead, "message id of the dead letter")
    check_equal(letters[0].tag, clients.tag, "tag of the dead letter")
    check_equal(letters[0].properties.get("color"), "red", "property of the dead letter")
    time.sleep(QUIET_S)
    check_equal(attempts[opener], ATTEMPTS, "attempts of the first message")
    check_equal(attempts[dead], ATTEMPTS, "attempts of the second message")


def exhausted(attempts, message_id):
    deadline = time.time() + 80
    while len(attempts[message_id]) < len(ATTEMPTS):
        check(time.time() < deadline, f"attempts so far: {attempts[message_id]}")
        time.sleep(0.1)


def dead_letter_reader(clients):
    deadline = time.time() + 40
    while True:
        try:
            return clients.simple_consumer(clients.named("push-retry-dlq-reader"), f"%DLQ%{clients.group}")
        except Exception:
            if time.time() > deadline:
                raise
            time.sleep(1)
