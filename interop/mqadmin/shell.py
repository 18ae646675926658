"""The JVM that runs the commands, and what a check works with."""

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

WORK = Path(os.environ["INTEROP_WORK"])
LIMIT_SECONDS = 30.0


class Broken(Exception):
    """The server did something else than it should."""


def check(condition, otherwise):
    if not condition:
        raise Broken(otherwise)


class Shell:
    def __init__(self):
        class_path = f"{WORK}/mqadmin/classes:{(WORK / 'admin' / 'classpath').read_text().strip()}"
        self.folder = Path(tempfile.mkdtemp(prefix="mqadmin-", dir=WORK / "mqadmin"))
        self.child = subprocess.Popen(
            ["java", "-Xmx512m", "-XX:+UseSerialGC", f"-Duser.home={self.folder}", f"-Drocketmq.home.dir={self.folder}",
             "-cp", class_path, "Shell"],
            # consumerStatus leaves files where it runs.
            cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, words, limit=LIMIT_SECONDS, until=""):
        """The output, and whether the command ended (or printed `until`) within the limit."""
        request = "\x01".join([str(int(limit * 1000)), until, *map(str, words)]) + "\n"
        self.child.stdin.write(request.encode())
        self.child.stdin.flush()
        head = self.child.stdout.readline().split()
        if len(head) != 2:
            raise Broken(f"the JVM ended at: {' '.join(map(str, words))}")
        output = self.child.stdout.read(int(head[0])).decode(errors="replace")
        return output, head[1] == b"true"

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class OwnShell(Shell):
    """Runs the commands of the redstart binary; the clients that they show are Java's all the same."""

    def call(self, words, limit=LIMIT_SECONDS, until=""):
        if words[0] == "client":
            return super().call(words, limit, until)
        path = self.folder / "output"
        with open(path, "wb") as output:
            child = subprocess.Popen([os.environ["INTEROP_OWN_MQADMIN"], "mqadmin", *map(str, words)], cwd=self.folder,
                                     env={**os.environ, "ROCKETMQ_HOME": str(self.folder)},
                                     stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + limit

        def said():
            return bool(until) and until in path.read_text(errors="replace")

        while child.poll() is None and time.monotonic() < deadline and not said():
            time.sleep(0.02)
        ended = child.poll() is not None or said()
        # Some commands go on until they are ended.
        if child.poll() is None:
            child.terminate()
            child.wait()
        # Java tells a failure by a stack trace.
        failed = f"\nException: exit status {child.returncode}" if child.returncode > 0 else ""
        return path.read_text(errors="replace") + failed, ended


class World:
    """The server under test, and the commands with its name server."""

    def __init__(self, shell):
        self.shell = shell
        self.folder = self.shell.folder
        self.namesrv = os.environ["INTEROP_NAMESRV"]
        # Topics and groups are made on one broker; commands with -c reach all.
        self.broker, self.brokers = os.environ["INTEROP_BROKER"], os.environ["INTEROP_BROKERS"].split(",")
        self.redstart = os.environ.get("INTEROP_SERVER") == "redstart"
        self.cluster, self.broker_name = self.client("names", self.namesrv, self.broker).split()
        self.made = set()

    def run(self, *words, limit=LIMIT_SECONDS, until=""):
        """Runs a command to its end; its output, whatever it is."""
        output, ended = self.shell.call([*words, "-n", self.namesrv], limit, until)
        check(ended, f"no end after {limit:.0f} s: {brief(output)}")
        return output

    def good(self, *words, **options):
        """The same, for a command that must not fail."""
        output = self.run(*words, **options)
        check("Exception" not in output, f"{words[0]}: {reason(output)}")
        return output

    def says(self, text, *words, **options):
        output = self.good(*words, **options)
        check(text in output, f"{words[0]} does not say {text!r}: {brief(output)}")
        return output

    def rows(self, *words, **options):
        """The rows of a table, split into words, without its head."""
        lines = self.good(*words, **options).splitlines()
        return [line.split() for line in lines if line.strip() and not line.startswith("#")]

    def client(self, *words):
        output, ended = self.shell.call(["client", *words])
        check(ended and "Exception" not in output, f"client {words[0]}: {brief(output)}")
        return output

    def eventually(self, condition, otherwise, seconds=40.0):
        """Waits for a condition that may also fail for a while; returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            problem = None
            try:
                value = condition()
            except Broken as not_yet:
                # This answer will not change.
                if "not supported" in str(not_yet):
                    raise
                value, problem = None, not_yet
            if value:
                return value
            if time.monotonic() > deadline:
                raise Broken(f"{otherwise}{f': {problem}' if problem else ''}")
            time.sleep(0.2)

    # What several checks need; made once.

    def topic(self, name="mqadmin-topic", queues=4):
        if f"topic {name}" not in self.made:
            self.says("create topic to", "updateTopic", "-b", self.broker, "-t", name, "-r", queues, "-w", queues)
            self.eventually(lambda: name in self.good("topicList").split(), f"{name} is not listed")
            self.made.add(f"topic {name}")
        return name

    def group(self, name):
        if f"group {name}" not in self.made:
            self.says("create subscription group to", "updateSubGroup", "-b", self.broker, "-g", name)
            self.made.add(f"group {name}")
        return name

    def filled(self, name, count=8):
        """A topic with so many messages, spread over its queues."""
        if f"{name} filled" not in self.made:
            self.topic(name)
            output = self.client("produce", self.namesrv, "mqadmin-producer", name, count)
            check(output.count("SEND_OK") == count, f"produce: {brief(output)}")
            self.made.add(f"{name} filled")
        return name

    def live(self, group, topic):
        """A consumer that is online, and has read what there is."""
        if f"{group} live" not in self.made:
            self.client("consume", self.namesrv, group, topic)
            self.made.add(f"{group} live")
            self.eventually(lambda: group in self.good("consumerConnection", "-g", group), f"{group} is not connected")
        return group

    def read(self, group, topic, count):
        """A group that has read so many messages and is offline again."""
        if f"{group} read" not in self.made:
            self.client("consume", self.namesrv, group, topic)
            self.eventually(lambda: int(self.client("consumed", group)) >= count, f"{group} did not read {count} messages")
            self.client("leave", group)
            self.made.add(f"{group} read")
        return group

    def sent(self, topic="mqadmin-messages", key="mqadmin-key"):
        """One message of its own topic: unique key, offset id, queue and offset."""
        self.topic(topic, 1)
        if f"{topic} sent" not in self.made:
            row = self.rows("sendMessage", "-t", topic, "-p", "a-body", "-k", key, "-c", "a-tag")[0]
            check("SEND_OK" in row, f"sendMessage: {row}")
            self.unique, self.queue = row[-1], row[1]
            self.made.add(f"{topic} sent")
        return topic

    def lag(self, group, topic):
        """Sum of Diff over the topic's queues, by consumerProgress."""
        rows = [row for row in self.rows("consumerProgress", "-g", group) if row[0] == topic]
        check(rows, f"consumerProgress -g {group} has no row of {topic}")
        return sum(int(row[5]) for row in rows)

    def perm(self, topic):
        return int(re.search(r'"perm":\s*(\d+)', self.good("topicRoute", "-t", topic))[1])


def reason(output):
    """The line that says why; the exceptions of the tool nest."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line for line in lines if "CODE:" in line or "DESC:" in line]
    causes = [line for line in lines if line.startswith("Caused by")]
    return (told or causes[-1:] or lines or ["nothing was printed"])[0][:220]


def brief(output):
    return " ".join(output.split())[:220] or "nothing was printed"
