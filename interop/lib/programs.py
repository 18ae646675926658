"""The language programs: their set-up, and one run of each."""

import os
import signal
import subprocess
import threading

import tools
from paths import INTEROP, WORK

LANGUAGES = ["java", "go", "node", "python", "rust"]
LIMIT_SECONDS = 1200


def script(language):
    return INTEROP / language / "run"


def setup(language):
    environment = {**os.environ, "INTEROP_WORK": str(WORK)}
    tools.run([script(language), "setup"], cwd=INTEROP / language, env=environment)


def run(language, scenario, environment, log, report):
    """Runs one program to its end, passing its result lines on as they come."""
    with open(log, "ab") as errors:
        child = subprocess.Popen(
            [str(script(language)), *([scenario] if scenario else [])],
            cwd=INTEROP / language, env={**os.environ, **environment}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace")
    # A session of its own, so that one signal reaches whatever the script started.
    watchdog = threading.Timer(LIMIT_SECONDS, os.killpg, (child.pid, signal.SIGKILL))
    watchdog.start()
    try:
        for line in child.stdout:
            if not report.line(line.rstrip("\n")):
                print(f"     {line}", end="", flush=True)
        code = child.wait()
    finally:
        watchdog.cancel()
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return code
