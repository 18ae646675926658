"""The results as a table."""

import statistics
from dataclasses import dataclass

RATE, TIME, CPU, MEMORY, START = "{:,.0f}/s", "{:.2f} ms", "{:.1f} µs", "{:,.0f} MiB", "{:.2f} s"
NAMES = {"grpc": "gRPC", "remoting": "Remoting"}


@dataclass
class Row:
    """One measured value of both sides."""

    protocol: str
    name: str
    ours: float
    theirs: float
    form: str
    wanted: str
    # Whose value the second is.
    other: str = "apache"

    def cells(self):
        ours, theirs = self.form.format(self.ours), self.form.format(self.theirs)
        if self.other == "apache-sync":
            theirs += " (SYNC_FLUSH)"
        return [NAMES[self.protocol], self.name, ours, theirs, f"{self.ours / self.theirs:.2f}", self.wanted]


def load(name, *path):
    """Reads one value of a load's report."""
    def read(result):
        value = result[name]
        for key in path:
            value = value[key]
        return value
    return read


def send(name, key):
    return [
        (name, load(key, "per_second"), RATE, "≥ 3"),
        ("… server CPU a message", load(key, "server", "cpu_us_per_message"), CPU, "≤ 0.33"),
        ("… p99", load(key, "latency_ms", "p99"), TIME, ""),
    ]


def receive(name, wanted):
    return [
        (name, load("receive", "per_second"), RATE, wanted),
        ("… server CPU a message", load("receive", "server", "cpu_us_per_message"), CPU, "≤ 0.33"),
    ]


PACED = [
    ("send at half of Apache's maximum: p50", load("paced", "latency_ms", "p50"), TIME, ""),
    ("… p99", load("paced", "latency_ms", "p99"), TIME, "≤ 0.33"),
    ("… p99.9", load("paced", "latency_ms", "p999"), TIME, ""),
]
SERVER = [
    ("memory, idle", load("idle_memory"), MEMORY, ""),
    ("memory, after the loads", load("receive", "server", "memory_mib"), MEMORY, ""),
    ("start until all ports answer", load("start"), START, ""),
]
ROWS = {
    "grpc": [*send("send, 64 in flight", "send"), *PACED, *receive("receive and acknowledge", "≥ 3"), *SERVER],
    "remoting": [
        *send("send, 64 in flight", "send"), *send("send, 1,024 in flight", "send_many"), *PACED,
        *receive("pull of a backlog", "≥ 2"), *SERVER,
    ],
}
# Apache that waits for the disk too.
SYNC = [("send, 64 in flight, both durable", load("send", "per_second"), RATE, "≥ 5")]


def rows(results):
    found = []
    for protocol, sides in results.items():
        for other, table in (("apache", ROWS[protocol]), ("apache-sync", SYNC)):
            for name, value, form, wanted in table:
                ours, theirs = (statistics.median(map(value, sides[kind])) for kind in ("redstart", other))
                found.append(Row(protocol, name, ours, theirs, form, wanted, other))
    return found


def render(found, results, options):
    rates = ", ".join(f"{sides['apache'][0]['rate']:,}/s over {NAMES[name]}" for name, sides in results.items())
    lines = [
        f"1 KiB messages, 8 queues, 4 connections, {options.seconds} s a load after {options.warm_up} s, median of "
        f"{options.rounds} rounds; the backlog was {options.backlog:,} messages; half of Apache's maximum was {rates}.",
        "",
        "| protocol | load | Redstart (fsync) | Apache 5.5 (async flush) | ratio | wanted |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(row.cells())} |" for row in found]
    return "\n".join(lines) + "\n"
