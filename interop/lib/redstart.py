"""Redstart: one binary, four ports."""

import os
import signal

import auth
import net
import process
import tools
from levels import DELAY_LEVELS
from paths import ROOT

NAME = "redstart"


def binary():
    """INTEROP_REDSTART names a binary to use as it is; otherwise the workspace's release build."""
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return os.environ.get("INTEROP_REDSTART", f"{target}/release/redstart")


def setup():
    if "INTEROP_REDSTART" in os.environ:
        return
    tools.run(["cargo", "build", "--release", "--bin", "redstart"], cwd=ROOT)


def prepare(folder, asks):
    """Chooses ports and lays out the data folder; starts nothing."""
    secret_file = folder / "admin-secret"
    if asks:
        secret_file.write_text(auth.secret(auth.ADMIN) + "\n")
    # The broker takes its port - 2 as well, as Apache does (the "VIP" or "fast" port). Every further shard is a broker, ten above.
    count = int(os.environ.get("INTEROP_SHARDS", "1"))
    first = net.free_block(5 + 10 * (count - 1))
    return {"namesrv_port": first, "broker_port": first + 3, "grpc_port": first + 4, "data": str(folder / "data"),
            "broker_ports": [first + 3 + 10 * shard for shard in range(count)],
            "admin_secret_file": str(secret_file) if asks else None}


def certificate(state):
    """For clients that verify it."""
    return f"{state['data']}/tls.crt"


def launch_broker(state):
    command = [
        binary(), "serve", "--data-dir", state["data"], "--listen", "127.0.0.1",
        "--namesrv-port", state["namesrv_port"], "--broker-port", state["broker_port"],
        "--grpc-port", state["grpc_port"], "--http-port", 0,
        # A minute is the default; the scenario of a forgotten transaction need not take that long.
        "--transaction-check-after", "3", "--transaction-check-interval", "3",
        "--message-delay-levels", DELAY_LEVELS,
    ]
    if len(state["broker_ports"]) > 1:
        command += ["--shards", len(state["broker_ports"])]
    if state["admin_secret_file"]:
        command += ["--auth", "--admin-secret-file", state["admin_secret_file"]]
    if state["tls"]:
        command += ["--remoting-tls", "enforcing", "--grpc-tls", "enforcing"]
    command += os.environ.get("INTEROP_REDSTART_FLAGS", "").split()
    state["processes"]["broker"] = process.spawn(command, f"{state['folder']}/redstart.log")


def await_broker(state):
    for port in ("namesrv_port", "broker_port", "grpc_port"):
        net.wait_open(state[port], state["processes"]["broker"])


def stop_broker(state, how):
    process.stop(state["processes"]["broker"], signal.SIGKILL if how == "kill" else signal.SIGTERM)


def start_others(state):
    """Nothing: the name server is part of the same process."""
    del state
