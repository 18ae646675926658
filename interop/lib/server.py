"""A running server of either kind, described by a state file that `restart` can read from another process."""

import json
from pathlib import Path

import apache
import process
import redstart

KINDS = {kind.NAME: kind for kind in (redstart, apache)}


class Server:
    def __init__(self, state):
        self.state = state
        self.kind = KINDS[state["kind"]]

    @classmethod
    def prepare(cls, kind, folder, asks=False, tls=False):
        """`asks`: for credentials; lib/auth.py names the administrator. `tls`: its ports refuse plaintext (Redstart)."""
        folder.mkdir(parents=True)
        state = {"kind": kind, "folder": str(folder), "processes": {}, "tls": tls, **KINDS[kind].prepare(folder, asks)}
        return cls(state)

    @classmethod
    def load(cls, path):
        return cls(json.loads(Path(path).read_text()))

    @property
    def path(self):
        return Path(self.state["folder"]) / "state.json"

    def save(self):
        # Renamed into place: the run may be reading it to stop what a restart just started.
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps(self.state, indent=1))
        draft.rename(self.path)

    def address(self, port):
        return f"127.0.0.1:{self.state[port]}"

    def brokers(self):
        """The addresses of all brokers; the first is that of `broker_port`."""
        return [f"127.0.0.1:{port}" for port in self.state.get("broker_ports", [self.state["broker_port"]])]

    def java_environment(self):
        """For the Java clients of Remoting, which use TLS when this property says so and then trust any certificate."""
        return {"JAVA_TOOL_OPTIONS": "-Dtls.enable=true"} if self.state["tls"] else {}

    def start(self):
        self.kind.start_others(self.state)
        self.start_broker()

    def restart(self, how):
        self.kind.stop_broker(self.state, how)
        self.start_broker()

    def start_broker(self):
        self.kind.launch_broker(self.state)
        # Before the wait: whoever interrupts it must find the new process.
        self.save()
        self.kind.await_broker(self.state)

    def stop(self):
        """Stops everything, in the reverse order of starting, also what a restart started."""
        if self.path.exists():
            self.state = Server.load(self.path).state
        for started in reversed(list(self.state["processes"].values())):
            process.stop(started)
