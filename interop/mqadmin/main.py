"""Runs every command of mqadmin, or the one named on the command line, and prints a line for each. See ../README.md."""

import os
import re
import shutil
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from access import CASES, Operator
from checks import ALONE, LANES, commands
from shell import Broken, OwnShell, Shell, World


PRINTING = threading.Lock()
# The tool whose commands run: `mqadmin`, or `mqadmin-own` for the one in the redstart binary.
NAME = os.environ.get("INTEROP_NAME", "mqadmin")


def attempt(world, name, run):
    started = time.monotonic()
    try:
        note = run(world) or ""
        verdict = "PASS"
    except Broken as broken:
        verdict, note = "FAIL", str(broken)
    except (IndexError, KeyError, ValueError, TypeError, OSError) as unexpected:
        # Output of another shape than the command has.
        traceback.print_exc()
        verdict, note = "FAIL", f"unexpected output: {unexpected!r}"
    mark = "" if verdict == "PASS" else ":"
    with PRINTING:
        print(re.sub(r"\s+", " ", f"{verdict} {NAME} {name}{mark} {note}").strip(), flush=True)
        print(f"{name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    return verdict == "PASS"


def lane(chosen):
    """Runs these commands one after the other, in a JVM of their own."""
    if not chosen:
        return True
    shell = Shell() if NAME == "mqadmin" else OwnShell()
    try:
        world = World(shell)
        return all([attempt(world, name, run) for name, run in chosen.items()])
    except (Broken, ValueError) as broken:
        with PRINTING:
            for name in chosen:
                print(f"FAIL {NAME} {name}: the name server does not tell the cluster: {broken}", flush=True)
        return False
    finally:
        shell.close()
        shutil.rmtree(shell.folder, ignore_errors=True)


def signed(names):
    """The cases with credentials, one after the other: they share the file that names the user."""
    shell = Shell() if NAME == "mqadmin" else OwnShell()
    try:
        operator = Operator(shell, NAME)
        return all([attempt(operator, name, run) for name, run in CASES.items() if names == ["auth"] or name in names])
    finally:
        shell.close()
        shutil.rmtree(shell.folder, ignore_errors=True)


def chosen(modules):
    names = sys.argv[1:]
    return {name: run for name, run in commands(modules).items() if not names or name in names}


def main():
    names = sys.argv[1:]
    if names == ["auth"] or CASES.keys() & names:
        return 0 if signed(names) else 1
    with ThreadPoolExecutor(len(LANES)) as pool:
        results = list(pool.map(lambda modules: lane(chosen(modules)), LANES))
    return 0 if all(results) & lane(chosen(ALONE)) else 1


if __name__ == "__main__":
    sys.exit(main())
