"""Order per message group, and what an unacknowledged message holds back."""

import time
from concurrent.futures import ThreadPoolExecutor

from clients import SERVER
from harness import check, check_equal

PER_GROUP = 4
CALM = ["calm-1", "calm-2", "calm-3", "calm-4"]
POISON = "poison"
INVISIBLE_S = 15


def fifo_order(clients):
    """Apache blocks the whole queue of an unacknowledged message; Redstart only its group, also inside one queue."""
    if SERVER == "apache":
        return one_blocked_group(clients, "fifo-order", must_finish=1)
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(one_blocked_group, clients, name, len(CALM)) for name in ("fifo-order", "fifo-same-queue")]
        return "; in one queue ".join(run.result() for run in runs)


def one_blocked_group(clients, name, must_finish):
    topic = clients.named(name)
    consumer = clients.simple_consumer(group=topic, topic=topic)
    producer = clients.producer([topic])
    for i in range(PER_GROUP):
        for group in [POISON, *CALM]:
            message = clients.message(str(i), topic)
            message.message_group = group
            producer.send(message)

    # The first poison message is taken and not acknowledged; everything else is.
    seen = {group: [] for group in [POISON, *CALM]}
    poisoned_at = None
    calm_done = 0
    deadline = time.time() + 60
    while len(seen[POISON]) < PER_GROUP + 1 and time.time() < deadline:
        for message in consumer.receive(1, INVISIBLE_S) or []:
            log = seen[message.message_group]
            log.append(int(message.body))
            if message.message_group != POISON:
                calm_done += len(log) == PER_GROUP and len(seen[POISON]) <= 1
            elif len(log) == 1:
                poisoned_at = time.time()
                continue
            elif len(log) == 2:
                check(time.time() - poisoned_at >= INVISIBLE_S - 0.5,
                      "poison moved on before its first message was due again")
                check_equal(message.delivery_attempt, 2, "attempt of the poison message")
            consumer.ack(message)

    for group in CALM:
        check_equal(seen[group], [0, 1, 2, 3], f"order of {group}")
    check_equal(seen[POISON], [0, 0, 1, 2, 3], "order of poison")
    check(calm_done >= must_finish, f"only {calm_done} healthy groups were served beside the failing one")
    return f"{calm_done} of {len(CALM)} healthy groups done while one was blocked"
