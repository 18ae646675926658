"""Sends numbered messages with the official Python client (gRPC): a producer for each node, the next one after an error. The client
takes several addresses as well, but then sends an `:authority` that is no authority, and no server built on h2 accepts that. Run with a
Python that has it.

    official.py ENDPOINTS TOPIC SIZE

Prints a line for each message that was acknowledged: its number, when its first attempt began, and how long it waited, in seconds of a
monotonic clock. A message is sent again until it is acknowledged. Ends when standard input does.
"""

import os
import sys
import threading
import time

from rocketmq import ClientConfiguration, Credentials, Message, Producer


def main():
    endpoints, topic, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    producers = [Producer(ClientConfiguration(endpoint, Credentials()), [topic], tls_enable=False) for endpoint in endpoints.split(";")]
    for producer in producers:
        producer.startup()
    number = at = 0
    while not ended.is_set():
        message = Message()
        message.topic = topic
        message.body = f"0:{number}:".encode().ljust(size, b"x")
        began, failed = time.monotonic(), 0
        while True:
            try:
                producers[at % len(producers)].send(message)
                break
            except Exception as error:  # noqa: BLE001
                failed, at = failed + 1, at + 1
                print(f"! {time.monotonic():.3f} {type(error).__name__}: {str(error)[:200]!r}", file=sys.stderr, flush=True)
                time.sleep(0.05)
        print(f"{number} {began:.6f} {time.monotonic() - began:.6f} {failed}", flush=True)
        number += 1
    os._exit(0)


main()
