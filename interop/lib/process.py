"""Processes this run started, known by pid and start time so that a reused pid is never signalled."""

import os
import signal
import subprocess
import time


def start_time(pid):
    """The kernel's start tick of a live process, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    state, started = fields[0], fields[19]
    return None if state == "Z" else started


def spawn(command, log, **options):
    """Starts a server in a session of its own: Ctrl-C must reach it through our clean-up only."""
    with open(log, "ab") as output:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, **options)
    return {"pid": child.pid, "started": start_time(child.pid), "log": str(log)}


def alive(process):
    try:
        # A child of ours stays a zombie until it is waited for.
        os.waitpid(process["pid"], os.WNOHANG)
    except ChildProcessError:
        pass
    return process["started"] is not None and start_time(process["pid"]) == process["started"]


def stop(process, signal_number=signal.SIGTERM, patience=60.0):
    """Signals the process and waits until it is gone; after `patience` seconds it is killed."""
    if not alive(process):
        return
    os.kill(process["pid"], signal_number)
    deadline = time.monotonic() + patience
    while alive(process):
        if time.monotonic() > deadline:
            os.kill(process["pid"], signal.SIGKILL)
            deadline = float("inf")
        time.sleep(0.05)
