"""One server under load."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import apache
import redstart
import remoting
from server import Server

BENCH = Path(__file__).resolve().parent
TOPIC, BACKLOG, GROUP = "bench-load", "bench-backlog", "bench-group"
PORTS = {"grpc": "grpc_port", "remoting": "namesrv_port"}
apache.HEAP = "2g"
SETTLE_SECONDS = 5


class Side:
    """`kind` is redstart, apache, or apache-sync: that is Apache which syncs before it acknowledges."""

    def __init__(self, kind, protocol, folder, options):
        self.protocol, self.options, self.folder = protocol, options, folder
        program, _, sync = kind.partition("-")
        apache.SETTINGS = settings(folder, bool(sync))
        self.server = Server.prepare(program, folder)

    def start(self):
        began = time.monotonic()
        self.server.start()
        self.start_seconds = time.monotonic() - began
        broker = self.server.state["broker_port"]
        for topic in (TOPIC, BACKLOG):
            remoting.create_topic(broker, topic)
            remoting.await_route(self.server.state["namesrv_port"], topic)
        remoting.create_group(broker, GROUP)
        # A new group begins at the newest message of its first receive: it must have received before the load.
        self.load("consume", "--warm-up", 0, "--seconds", 1, "--connections", 1, "--receivers", 1)
        self.idle_memory = self.memory()

    def pids(self):
        return [started["pid"] for started in self.server.state["processes"].values()]

    def memory(self):
        pages = (Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in self.pids())
        return sum(map(int, pages)) * 4096 / 2**20

    def load(self, kind, *arguments, topic=TOPIC):
        command = [redstart.binary(), "bench", kind, "--json", "--protocol", self.protocol,
                   "--server", self.server.address(PORTS[self.protocol]), "--topic", topic]
        if kind != "produce":
            command += ["--group", GROUP]
        for pid in self.pids():
            command += ["--server-pid", pid]
        done = subprocess.run([str(part) for part in (*command, *arguments)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, check=True)
        result = json.loads(done.stdout)
        if result["failures"]:
            print(f"  {result['failures']} calls failed: {result['first_failure']}", file=sys.stderr)
        return result

    def timed(self, kind, *arguments):
        return self.load(kind, "--seconds", self.options.seconds, "--warm-up", self.options.warm_up, *arguments)

    def stop(self):
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        # What the disk still does for one server must not be held against the next.
        os.sync()
        time.sleep(SETTLE_SECONDS)


def settings(folder, sync):
    """Apache's configuration, with the flush mode added."""
    made = folder.parent / f"{folder.name}-settings"
    shutil.copytree(BENCH / "apache", made, dirs_exist_ok=True)
    if sync:
        with open(made / "broker.conf", "a", encoding="utf-8") as config:
            config.write("flushDiskType=SYNC_FLUSH\n")
    return made
