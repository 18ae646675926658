"""Reads the programs' result lines and keeps the score."""

import fnmatch
import re
import threading

from paths import INTEROP

LINE = re.compile(r"^(PASS|FAIL|SKIP) (\S+) ([^\s:]+):?(?: (.*))?$")


def known_differences(server):
    """What may fail against this server: a pattern of LANG/SCENARIO, how it fails, and the reason."""
    path = INTEROP / server / "differences"
    if not path.exists():
        return []
    lines = (line.strip() for line in path.read_text().splitlines())
    return [tuple(part.strip() for part in line.split("|", 2)) for line in lines if line and line[0] != "#"]


class Report:
    def __init__(self, server):
        self.differences = known_differences(server)
        self.counts = {"PASS": 0, "FAIL": 0, "SKIP": 0, "DIFF": 0}
        self.seen = {}
        # Small programs run side by side.
        self.lock = threading.RLock()

    def line(self, text):
        """Takes one line of a program; True if it was a result."""
        match = LINE.match(text)
        if not match:
            return False
        self.result(match[1], match[2], match[3], match[4] or "")
        return True

    def result(self, verdict, language, scenario, note):
        with self.lock:
            if scenario in self.seen.setdefault(language, set()):
                verdict, note = "FAIL", f"reported twice ({verdict} {note})"
            self.seen[language].add(scenario)
            reason = self.difference(language, scenario, note) if verdict == "FAIL" else None
            if reason is not None:
                verdict, note = "DIFF", f"{reason} ({note})"
            self.counts[verdict] += 1
            mark = "" if verdict == "PASS" else ":"
            print(f"{verdict} {language} {scenario}{mark} {note}".rstrip(), flush=True)

    def difference(self, language, scenario, note):
        """The reason, if this very failure is listed: the same scenario failing in another way is a finding."""
        name = f"{language}/{scenario}"
        for pattern, symptom, reason in self.differences:
            if fnmatch.fnmatch(name, pattern) and symptom in note:
                return reason
        return None

    def missing(self, language, expected):
        for scenario in expected:
            if scenario not in self.seen.get(language, set()):
                self.result("FAIL", language, scenario, "the program reported nothing")

    def summary(self):
        if self.counts["DIFF"]:
            print(f"{self.counts['DIFF']} known differences, not counted")
        print(f"{self.counts['PASS']} passed, {self.counts['FAIL']} failed, {self.counts['SKIP']} skipped", flush=True)
        return self.counts["FAIL"] == 0
