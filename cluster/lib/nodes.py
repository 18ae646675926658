"""Three nodes of a cluster on loopback."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

# Below the range that the kernel hands to outgoing connections, so that a free port stays free.
FIRST, LAST = 20000, 32000
PORTS = ("peer", "grpc", "namesrv", "http", "vip", "spare", "broker")


def free_block(length):
    for _ in range(1000):
        first = random.randrange(FIRST, LAST)
        try:
            for port in range(first, first + length):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")


class Node:
    def __init__(self, number, folder, binary):
        self.number, self.binary = number, binary
        self.folder = pathlib.Path(folder) / f"node-{number}"
        self.folder.mkdir(parents=True)
        first = free_block(len(PORTS))
        self.ports = {name: first + at for at, name in enumerate(PORTS)}
        self.process = None

    def start(self, nodes, secret):
        peers = ",".join(f"{node.number}=127.0.0.1:{node.ports['peer']}" for node in nodes)
        log = open(self.folder / "log", "ab")
        ports = [f"--{name}-port={self.ports[name]}" for name in ("grpc", "namesrv", "http", "broker")]
        self.process = subprocess.Popen(
            [self.binary, "serve", f"--data-dir={self.folder}/data", f"--node-id={self.number}", f"--peers={peers}",
             f"--cluster-secret-file={secret}", "--segment-bytes=32MiB", *ports],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        log.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, patience=30):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience)

    def is_up(self):
        return self.process is not None and self.process.poll() is None

    def ask(self, path="/cluster", method="GET"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['http']}{path}", method=method)
        with urllib.request.urlopen(request, timeout=15) as answer:
            return json.loads(answer.read())

    def status(self):
        """`None` while it does not answer."""
        try:
            return self.ask()
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            return None


class Cluster:
    def __init__(self, folder, binary, count=3):
        self.folder = pathlib.Path(folder)
        self.secret = self.folder / "secret"
        self.secret.write_text(os.urandom(24).hex() + "\n")
        self.secret.chmod(0o600)
        self.nodes = [Node(number, folder, binary) for number in range(1, count + 1)]

    def start(self):
        for node in self.nodes:
            node.start(self.nodes, self.secret)

    def start_node(self, node):
        node.start(self.nodes, self.secret)

    def leader(self, patience=20.0):
        """The node that says that it leads, in the highest term."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            statuses = [(status["term"], node) for node in self.nodes if node.is_up()
                        and (status := node.status()) and status["role"] == "leader"]
            if statuses:
                return max(statuses, key=lambda found: found[0])[1]
            time.sleep(0.05)
        raise RuntimeError("no node leads")

    def settled(self, lag=0, patience=60.0):
        """Waits until all nodes are up, linked, and have applied the same frames, but for so many of the last ones under load."""
        until = time.monotonic() + patience
        statuses = []
        while time.monotonic() < until:
            statuses = [node.status() for node in self.nodes]
            if all(statuses):
                linked = all(peer["connected"] for status in statuses for peer in status["peers"])
                applied = {status["applied"] for status in statuses}
                if linked and max(applied) - min(applied) <= lag and any(status["role"] == "leader" for status in statuses):
                    return max(applied)
            time.sleep(0.1)
        raise RuntimeError(f"the nodes did not become the same: {statuses}")

    def end(self):
        for node in self.nodes:
            if node.is_up():
                node.kill()
