"""The scenarios of scenarios-others.txt with the C++ client, side by side: they mostly wait."""

import os
import sys
import threading
import time
import traceback

from clients import Clients, message, ok

LIMIT_S = 200
PATIENCE_S = 60
# A consumer looks for new topics, as that of its retries, every 30 s.
RETRY_PATIENCE_S = 120
# Levels 1 and 2 of lib/levels.py.
LEVELS_S = {1: 1.0, 2: 3.0}
LATE_S_MAX = 5.0
OUTPUT = threading.Lock()


class Skip(Exception):
    """The released client cannot express the scenario."""


def check(condition, reason):
    if not condition:
        raise AssertionError(reason)


def eventually(condition, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Inbox(list):
    def take(self, arrival):
        self.append(arrival)
        return True

    def labels(self, stem=""):
        return [arrival.label for arrival in list(self) if arrival.label.startswith(stem)]

    def get(self, label, seconds=PATIENCE_S):
        check(eventually(lambda: label in self.labels(), seconds), f"{label} did not come, only {self.labels()}")
        return next(arrival for arrival in list(self) if arrival.label == label)

    def exactly(self, labels, seconds=PATIENCE_S):
        eventually(lambda: len(self) >= len(labels), seconds)
        time.sleep(0.3)
        check(sorted(self.labels()) == sorted(labels), f"got {self.labels()} instead of {labels}")


def send(clients):
    inbox = Inbox()
    clients.listen(inbox.take)
    producer = clients.producer()
    sync = [f"sync{n}" for n in range(10)]
    for n, label in enumerate(sync):
        ok(producer.send_sync(message(clients.name, label, tag="t", key=f"k{n}")))
    done, failed = [], []
    kept = [message(clients.name, f"async{n}") for n in range(10)]
    for one in kept:
        producer.send_async(one, done.append, failed.append)
    check(eventually(lambda: len(done) + len(failed) == 10), f"{len(done)} of 10 callbacks")
    check(not failed, f"asynchronous sends failed: {failed}")
    for n in range(10):
        producer.send_oneway(message(clients.name, f"oneway{n}"))
    inbox.exactly(sync + [f"{kind}{n}" for kind in ("async", "oneway") for n in range(10)])
    for arrival in inbox:
        check(arrival.topic == clients.name and arrival.attempt == 0, f"came as {arrival}")
        if arrival.label in sync:
            check(arrival.tag == "t" and f"sync{arrival.key[1:]}" == arrival.label, f"came as {arrival}")


def tags(clients):
    inbox = Inbox()
    clients.listen(inbox.take, expression="a || b")
    producer = clients.producer()
    for n in range(5):
        for tag in ("a", "b", "c", ""):
            ok(producer.send_sync(message(clients.name, f"{tag}{n}", tag=tag)))
    # One queue: the last message proves that nothing unwanted comes after it.
    ok(producer.send_sync(message(clients.name, "last", tag="a")))
    inbox.get("last")
    inbox.exactly([f"{tag}{n}" for n in range(5) for tag in "ab"] + ["last"], 1)


def orderly(clients):
    inbox, failures = Inbox(), []

    def take(arrival):
        if arrival.label == "red0" and len(failures) < 2:
            failures.append(arrival)
            return False
        return inbox.take(arrival)

    clients.listen(take, orderly=True)
    producer = clients.producer()
    keys = ("red", "blue", "green")
    for n in range(10):
        for number, key in enumerate(keys):
            ok(producer.send_orderly(message(clients.name, f"{key}{n}"), number))
    eventually(lambda: len(inbox) >= 30)
    for key in keys:
        check(inbox.labels(key) == [f"{key}{n}" for n in range(10)], f"{key} came as {inbox.labels(key)}, after {len(failures)} failures")
    check(len(inbox) == 30 and len(failures) == 2, f"{len(inbox)} deliveries, {len(failures)} failures")


def delay(clients):
    inbox = Inbox()
    clients.listen(inbox.take)
    producer = clients.producer()
    # A consumer that has only just begun takes what was due meanwhile all at once.
    ok(producer.send_sync(message(clients.name, "first", level=1)))
    inbox.get("first")
    due = {}
    # The later one first: the order of sending must not matter.
    for level in (2, 1):
        due[f"level{level}"] = time.time() + LEVELS_S[level]
        ok(producer.send_sync(message(clients.name, f"level{level}", level=level)))
    late = {label: inbox.get(label).at - at for label, at in due.items()}
    time.sleep(0.3)
    check(inbox.labels() == ["first", "level1", "level2"], f"came as {inbox.labels()}")
    # The server's clock and ours are rounded to milliseconds apart.
    check(min(late.values()) > -0.002 and max(late.values()) < LATE_S_MAX, f"late by {late}")
    return f"{max(late.values()) * 1000:.0f} ms late"


def retry(clients):
    inbox, failures = Inbox(), []

    def take(arrival):
        if arrival.label == "bad" and len(failures) < 2:
            failures.append(arrival)
            return False
        return inbox.take(arrival)

    clients.listen(take)
    producer = clients.producer()
    ok(producer.send_sync(message(clients.name, "bad", tag="t", key="k")))
    ok(producer.send_sync(message(clients.name, "good")))
    taken = inbox.get("bad", RETRY_PATIENCE_S)
    attempts = [failure.attempt for failure in failures] + [taken.attempt]
    check(attempts == [0, 1, 2], f"attempts {attempts}")
    check((taken.topic, taken.tag, taken.key) == (clients.name, "t", "k"), f"it came again as {taken}")
    inbox.exactly(["bad", "good"], 1)
    return "without dead letters"


def transaction(_):
    raise Skip("the library of the wheel has no transactions")


def broadcast(clients):
    inboxes = (Inbox(), Inbox())
    for inbox in inboxes:
        clients.listen(inbox.take, broadcast=True)
    producer = clients.producer()

    def primed():
        ok(producer.send_sync(message(clients.name, "primer")))
        time.sleep(0.5)
        return all(inboxes)

    # A broadcasting consumer may begin at the newest message. There is one queue: who has got one message gets all later ones.
    check(eventually(primed), "no primer came")
    labels = [f"m{n}" for n in range(20)]
    for label in labels:
        ok(producer.send_sync(message(clients.name, label)))
    for inbox in inboxes:
        eventually(lambda inbox=inbox: len(inbox.labels("m")) >= len(labels))
        time.sleep(0.3)
        check(sorted(inbox.labels("m")) == sorted(labels), f"got {inbox.labels('m')}")


SCENARIOS = (retry, orderly, delay, broadcast, tags, send, transaction)


def run(scenario, failed):
    name = scenario.__name__
    outcome = []

    def work():
        clients = Clients(f"cpp-{name}")
        try:
            outcome.append(("PASS", f" {scenario(clients) or ''}".rstrip()))
        except Skip as reason:
            outcome.append(("SKIP", f": {reason} (client lacks the feature)"))
        except BaseException as error:
            traceback.print_exc()
            outcome.append(("FAIL", f": {type(error).__name__}: {' '.join(str(error).split())[:400]}"))

    # Nothing can stop a thread that hangs inside the client: it is left behind and the scenario fails.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    verdict, text = outcome[0] if outcome else ("FAIL", f": not done within {LIMIT_S} s")
    with OUTPUT:  # print writes the line and its end apart
        print(f"{verdict} cpp {name}{text}", flush=True)
    if verdict == "FAIL":
        failed.append(name)


def main(names):
    failed = []
    threads = [threading.Thread(target=run, args=(scenario, failed))
               for scenario in SCENARIOS if not names or scenario.__name__ in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.flush()
    # The client's threads would keep the process; and it takes its time to close.
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
