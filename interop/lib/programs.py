"""The programs: their set-up, and one run of each."""

import os
import signal
import subprocess
import threading
from typing import NamedTuple

import tools
from paths import INTEROP, WORK

LIMIT_SECONDS = 1200
# Programs that run now.
RUNNING = set()


class Program(NamedTuple):
    """A folder with a `run`; the names it must report on; the topics and groups it needs; whether it shares the machine
    with others of its kind: it waits more than it works, and never restarts the server; whether it has the cases with
    credentials, and whether these run over TLS (the client of go4, 2.1.2, has none)."""
    folder: str
    contract: str
    topics: str
    small: bool = False
    auth: bool = False
    tls: bool = False


OWN_MQADMIN = "mqadmin-own"
GRPC = ("scenarios.txt", "topics.txt")
REMOTING = ("scenarios-remoting.txt", "topics-remoting.txt")
OTHERS = ("scenarios-others.txt", "topics-others.txt")
# The cases with credentials, which the programs that have them run when they are called with AUTH or the name of a case.
AUTH = "auth"
AUTH_CONTRACT, AUTH_TOPICS = "scenarios-auth.txt", "topics-auth.txt"
PROGRAMS = {
    "java": Program("java", *GRPC, auth=True, tls=True),
    "go": Program("go", *GRPC, auth=True, tls=True),
    "node": Program("node", *GRPC, auth=True),
    "python": Program("python", *GRPC, auth=True),
    "rust": Program("rust", *GRPC, auth=True),
    # One program, two clients: 4.9 and 5.x, both over Remoting.
    "java49": Program("java4", *REMOTING, auth=True, tls=True),
    "java5r": Program("java4", *REMOTING, auth=True, tls=True),
    "go4": Program("go4", *REMOTING, auth=True),
    # The C++ client, by way of its binding for Python.
    "cpp": Program("cpp", *OTHERS, small=True),
    "ali-ons": Program("ali-ons", *OTHERS, small=True),
    # One program, six clients, each with a driver of its own.
    "java36": Program("others", *OTHERS, small=True),
    "java42": Program("others", *OTHERS, small=True),
    "ons": Program("others", *OTHERS, small=True),
    "camel": Program("others", *OTHERS, small=True),
    "spring": Program("others", *OTHERS, small=True),
    "spring5": Program("others", "scenarios-others.txt", "topics-spring5.txt", small=True),
    # One program, two tools: Apache's own and the one that is part of the redstart binary.
    "mqadmin": Program("mqadmin", "mqadmin/commands.txt", "topics-mqadmin.txt", auth=True),
    OWN_MQADMIN: Program("mqadmin", "mqadmin/commands.txt", "topics-mqadmin.txt", auth=True),
}
LANGUAGES = list(PROGRAMS)


def script(language):
    return INTEROP / PROGRAMS[language].folder / "run"


def names(file):
    """The names in a list of scenarios."""
    lines = (INTEROP / file).read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def is_auth(scenario):
    return scenario == AUTH or scenario in names(AUTH_CONTRACT)


def topics(languages):
    """The files of topics, each with the languages that need it."""
    files = {}
    for language in languages:
        files.setdefault(INTEROP / PROGRAMS[language].topics, []).append(language)
    return files


def setup(language):
    environment = {**os.environ, "INTEROP_WORK": str(WORK), "INTEROP_NAME": language}
    tools.run([script(language), "setup"], cwd=script(language).parent, env=environment)


def run(language, arguments, environment, log, report):
    """Runs one program to its end, passing its result lines on as they come."""
    with open(log, "ab") as errors:
        child = subprocess.Popen(
            [str(script(language)), *arguments],
            cwd=script(language).parent, env={**os.environ, **environment, "INTEROP_NAME": language},
            start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace")
    # A session of its own, so that one signal reaches whatever the script started.
    watchdog = threading.Timer(LIMIT_SECONDS, os.killpg, (child.pid, signal.SIGKILL))
    watchdog.start()
    RUNNING.add(child)
    try:
        for line in child.stdout:
            if not report.line(line.rstrip("\n")):
                print(f"     {line}", end="", flush=True)
        code = child.wait()
    finally:
        watchdog.cancel()
        RUNNING.discard(child)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return code


def kill_running():
    """Ends the programs that still run, so that the threads that wait for them end too."""
    for child in list(RUNNING):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
