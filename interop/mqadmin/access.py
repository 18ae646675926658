"""The cases with credentials: mqadmin takes its user from conf/tools.yml, and is served by that user's rights. It sends and consumes
as the clients do; what only an administrator may do has been done by the time these cases run: see lib/auth.py."""

import os

from shell import LIMIT_SECONDS, brief, check, reason

APP, GUESSED, DISABLED = "auth-app", "auth-guessed", "auth-disabled"
CASES = {}


def case(name):
    def register(run):
        CASES[name] = run
        return run
    return register


class Operator:
    """The commands as one user."""

    def __init__(self, shell, language):
        self.shell = shell
        self.language = language
        self.namesrv, self.broker = os.environ["INTEROP_NAMESRV"], os.environ["INTEROP_BROKER"]

    def named(self, suffix):
        return f"{self.language}-auth-{suffix}"

    def act_as(self, user, secret=None):
        folder = self.shell.folder / "conf"
        folder.mkdir(exist_ok=True)
        (folder / "tools.yml").write_text(f"accessKey: {user}\nsecretKey: {secret or f'secret-of-{user}'}\n")

    def run(self, *words):
        output, ended = self.shell.call([*words, "-n", self.namesrv])
        check(ended, f"{words[0]}: no end after {LIMIT_SECONDS:.0f} s: {brief(output)}")
        return output

    def send(self, topic):
        return self.run("sendMessage", "-t", self.named(topic), "-p", "signed")

    def consume(self, topic, group):
        return self.run("consumeMessage", "-t", self.named(topic), "-g", self.named(group))

    def exchange(self, topic):
        sent = self.send(topic)
        check("SEND_OK" in sent, f"sendMessage: {reason(sent)}")
        got = self.consume(topic, topic)
        check("signed" in got, f"consumeMessage: {got}")


def refused(output):
    """NO_PERMISSION, by its number or by its words; a route that is refused is none to the tool."""
    said = [line for line in output.splitlines() if "CODE: 16" in line or "no right" in line or "No route info" in line]
    check("SEND_OK" not in output and said, f"not refused: {brief(output)}")
    return said[0].strip()[:200]


@case("auth-right-key")
def right_key(operator):
    operator.act_as(APP)
    operator.exchange("right-key")
    # What it may do with the topic's messages it may not do with the topic.
    return refused(operator.run("updateTopic", "-b", operator.broker, "-t", operator.named("right-key")))


@case("auth-prefix")
def prefix(operator):
    operator.act_as(APP)
    operator.exchange("prefix")


@case("auth-source")
def source(operator):
    operator.act_as(APP)
    operator.exchange("source")
    return refused(operator.send("source-far"))


@case("auth-no-group-right")
def no_group_right(operator):
    operator.act_as(APP)
    check("SEND_OK" in operator.send("no-group-right"), "the send is refused")
    return refused(operator.consume("no-group-right", "no-group-right"))


@case("auth-no-topic-right")
def no_topic_right(operator):
    operator.act_as(APP)
    return refused(operator.send("no-topic-right"))


@case("auth-deny")
def deny(operator):
    """A prefix allows both topics; the rule for the name of one of them denies."""
    operator.act_as(APP)
    check("SEND_OK" in operator.send("deny"), "the send to the other topic is refused")
    return refused(operator.send("deny-exact"))


@case("auth-disabled-user")
def disabled_user(operator):
    operator.act_as(DISABLED)
    return refused(operator.send("disabled-user"))


@case("auth-wrong-key")
def wrong_key(operator):
    operator.act_as(GUESSED, "not-its-secret")
    return refused(operator.send("wrong-key"))
