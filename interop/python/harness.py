"""Runs scenarios side by side, each within its time limit, and prints one result line per scenario."""

import os
import queue
import sys
import threading
import time
from dataclasses import dataclass
from typing import Callable

from clients import Clients

# Scenarios wait far more than they work, so a few share the clock.
PARALLEL = int(os.environ.get("INTEROP_PARALLEL", "5"))

OUTPUT = threading.Lock()


@dataclass(frozen=True)
class Scenario:
    name: str
    run: Callable
    limit_s: float = 60
    alone: bool = False


class Skip(Exception):
    """The released client cannot express the scenario."""


def skip(reason):
    raise Skip(reason)


def check(condition, reason):
    if not condition:
        raise AssertionError(reason)


def check_equal(actual, expected, what):
    check(actual == expected, f"{what}: expected {expected!r}, got {actual!r}")


def run_scenarios(lang, scenarios, names):
    unknown = set(names) - {scenario.name for scenario in scenarios}
    if unknown:
        print(f"unknown scenario: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [scenario for scenario in scenarios if not names or scenario.name in names]
    Clients(lang, "plaintext").await_server()
    together = run_together(lang, [scenario for scenario in chosen if not scenario.alone])
    return max([together, *(0 if report(lang, scenario) else 1 for scenario in chosen if scenario.alone)])


def run_together(lang, scenarios):
    """Runs scenarios side by side; the exit code."""
    results = []
    waiting = queue.SimpleQueue()
    for scenario in scenarios:
        waiting.put(scenario)

    def work():
        while True:
            try:
                scenario = waiting.get_nowait()
            except queue.Empty:
                return
            results.append(report(lang, scenario))

    workers = [threading.Thread(target=work) for _ in range(PARALLEL)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return 0 if all(results) else 1


def report(lang, scenario):
    """Prints the scenario's line; true unless it failed."""
    clients = Clients(lang, scenario.name)
    started = time.monotonic()
    outcome = []

    def run():
        try:
            note = scenario.run(clients)
            outcome.append(("PASS", f" {note}" if note else ""))
        except Skip as reason:
            outcome.append(("SKIP", f": {reason} (client lacks the feature)"))
        except BaseException as error:
            outcome.append(("FAIL", f": {type(error).__name__}: {' '.join(str(error).split())[:400]}"))

    # Nothing can stop a thread that hangs inside the client: it is left behind and the scenario fails.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(scenario.limit_s)
    verdict, text = outcome[0] if outcome else ("FAIL", f": not done within {scenario.limit_s} s")
    with OUTPUT:  # print writes the line and its end apart
        print(f"{verdict} {lang} {scenario.name}{text}", flush=True)
    print(f"{lang} {scenario.name} took {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    threading.Thread(target=clients.close, daemon=True).start()
    return verdict != "FAIL"
