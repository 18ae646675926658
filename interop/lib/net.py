"""Ports on loopback."""

import random
import socket
import time

from process import alive

# Below the range the kernel hands to outgoing connections, so that a free port stays free.
FIRST, LAST = 20000, 32000


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_block(length):
    """The first port of `length` free ones in a row."""
    for _ in range(1000):
        first = random.randrange(FIRST, LAST)
        if all(is_free(port) for port in range(first, first + length)):
            return first
    raise RuntimeError("no free ports")


def wait_open(port, process, patience=90.0):
    """Waits until the port accepts connections; a server that died in the meantime ends the wait."""
    deadline = time.monotonic() + patience
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            pass
        if not alive(process):
            raise RuntimeError(f"the server stopped while starting; see {process['log']}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"port {port} did not open in {patience:.0f} s; see {process['log']}")
        time.sleep(0.1)
