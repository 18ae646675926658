"""One group, several consumers; and one group across a restart of the server."""

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from clients import SERVER, bodies, receive
from harness import check, check_equal

# gRPC waits up to two minutes between its attempts to connect again when the server was away for long.
RECONNECT_S = 130

CONSUMERS = 3
MESSAGES = 30


def share_queue(clients):
    """Consumers outnumber the queues; each message still goes to exactly one of them."""
    with ThreadPoolExecutor(CONSUMERS) as pool:
        consumers = list(pool.map(lambda _: clients.simple_consumer(), range(CONSUMERS)))
        producer = clients.producer()
        ids = [producer.send(clients.message(str(i))).message_id for i in range(MESSAGES)]

        got = []
        lock = threading.Lock()
        deadline = time.time() + 20

        def consume(consumer):
            share = 0
            while len(got) < MESSAGES and time.time() < deadline:
                arrivals = receive(consumer, 1, within=0.001, batch=2)
                share += len(arrivals)
                with lock:
                    got.extend(arrival.message.message_id for arrival in arrivals)
            return share

        shares = list(pool.map(consume, consumers))
    check_equal(sorted(got), sorted(ids), "ids of all consumers together")
    check(sum(share > 0 for share in shares) > 1, f"one consumer got everything: {shares}")
    return f"shares {'/'.join(map(str, shares))}"


def resume_after_restart(clients):
    """Nothing acknowledged comes again, nothing waiting is lost, and the clients that were there go on."""
    consumer = clients.simple_consumer()
    producer = clients.producer()
    done = ["done-1", "done-2", "done-3"]
    waiting = ["waiting-1", "waiting-2", "waiting-3"]
    for body in done:
        producer.send(clients.message(body))
    check_equal(sorted(bodies(receive(consumer, len(done)))), done, "bodies before the restart")
    for body in waiting:
        producer.send(clients.message(body))

    subprocess.run([os.environ["INTEROP_CONTROL"], "restart"], check=True, stdout=subprocess.DEVNULL)
    back = time.time()
    persist(lambda: producer.send(clients.message("after")), within=RECONNECT_S)
    clients_used = "same"
    try:
        arrivals = persist(lambda: some(receive(consumer, 4, within=15)), within=40 if SERVER == "apache" else RECONNECT_S)
    except Exception:
        # This client opens its settings stream again only after minutes. Apache has forgotten it until then;
        # Redstart must serve it from what the request says.
        if SERVER != "apache":
            raise
        clients_used = "new"
        arrivals = some(receive(clients.simple_consumer(), 4, within=15))
    check_equal(sorted(bodies(arrivals)), ["after", *waiting], "bodies after the restart")
    return f"{clients_used} clients served again {arrivals[0].at - back:.1f} s after the restart"


def some(arrivals):
    check(arrivals, "nothing arrives after the restart")
    return arrivals


def persist(action, within):
    """Clients need a moment to connect again; an error only counts when it lasts."""
    deadline = time.time() + within
    while True:
        try:
            return action()
        except Exception:
            if time.time() > deadline:
                raise
            time.sleep(0.5)
