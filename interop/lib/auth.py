"""The users of the cases with credentials and their rights, made by commands of mqadmin that the administrator signs.

The programs know the users by these names and their secrets by `secret()`."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from paths import WORK

ADMIN = "admin"
# Has the rights below; keeps its secret.
APP = "auth-app"
# Has rights; programs sign with another secret. Not APP: after some failures a server looks at a user less often.
GUESSED = "auth-guessed"
# Has rights and the right secret, and is disabled.
DISABLED = "auth-disabled"

# Of each user, for every program, `{lang}` being its name: on what, which actions, from where, decision.
RULES = {
    APP: [
        (["Topic:{lang}-auth-right-key", "Group:{lang}-auth-right-key", "Topic:{lang}-auth-no-group-right",
          "Group:{lang}-auth-no-topic-right", "Group:{lang}-auth-source",
          # Programs use {lang}-auth-prefix, {lang}-auth-deny and {lang}-auth-deny-exact.
          "Topic:{lang}-auth-pre*", "Group:{lang}-auth-pre*", "Topic:{lang}-auth-den*"], "Pub,Sub", "", "Allow"),
        (["Topic:{lang}-auth-deny-exact"], "Pub", "", "Deny"),
        (["Topic:{lang}-auth-source"], "Pub,Sub", "127.0.0.0/8", "Allow"),
        (["Topic:{lang}-auth-source-far"], "Pub,Sub", "10.9.8.0/24", "Allow"),
    ],
    GUESSED: [(["Topic:{lang}-auth-wrong-key", "Group:{lang}-auth-wrong-key"], "Pub,Sub", "", "Allow")],
    DISABLED: [(["Topic:{lang}-auth-disabled-user", "Group:{lang}-auth-disabled-user"], "Pub,Sub", "", "Allow")],
}
# Ends of the names of topics to which every send is refused.
REFUSED = ["auth-wrong-key", "auth-disabled-user", "auth-no-topic-right", "auth-deny-exact", "auth-source-far"]


def secret(user):
    return f"secret-of-{user}"


def write_tools(home, user):
    """The file from which mqadmin takes its user."""
    folder = Path(home) / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tools.yml").write_text(f"accessKey: {user}\nsecretKey: {secret(user)}\n")


def commands(user, broker, languages):
    """Those that make a user and its rights."""
    at = ["-b", broker]
    yield ["createUser", *at, "-u", user, "-p", secret(user), "-t", "Normal"]
    for resources, actions, sources, decision in RULES[user]:
        named = ",".join(resource.format(lang=language) for resource in resources for language in languages)
        yield ["createAcl", *at, "-s", f"User:{user}", "-r", named, "-a", actions, "-d", decision,
               *(["-i", sources] if sources else [])]
    if user == DISABLED:
        yield ["updateUser", *at, "-u", user, "-s", "disable"]


def make_users(server, languages):
    """A command takes a second, most of which it waits for its own shutdown, so the users are made side by side."""
    folder = server.state["folder"]
    with ThreadPoolExecutor(len(RULES)) as pool:
        list(pool.map(lambda user: shell(server, folder, list(commands(user, server.address("broker_port"), languages))), RULES))
    # A user that has authenticated from its address before is not slowed by the failures of others from there.
    home = Path(folder) / APP
    write_tools(home, APP)
    shell(server, home, [["topicRoute", "-n", server.address("namesrv_port"), "-t", f"{languages[0]}-auth-right-key"]])


def shell(server, home, words):
    """Runs commands in one JVM, the program `Shell` of interop/mqadmin; every one must succeed."""
    class_path = f"{WORK}/mqadmin/classes:{(WORK / 'admin' / 'classpath').read_text().strip()}"
    requests = "".join("\x01".join(["30000", "", *command]) + "\n" for command in words)
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:+UseSerialGC", f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-cp", class_path, "Shell"],
        cwd=home, env={**os.environ, **server.java_environment()}, input=requests.encode(), stdout=subprocess.PIPE, check=False)
    replies = done.stdout
    for command in words:
        head, _, replies = replies.partition(b"\n")
        size = int(head.split()[0]) if head else 0
        output, replies = replies[:size].decode(errors="replace"), replies[size:]
        if not head.endswith(b"true") or "Exception" in output:
            causes = [line for line in output.splitlines() if "DESC:" in line or line.startswith("Caused by")]
            raise RuntimeError(f"mqadmin {command[0]} failed: {(causes or [output])[-1][:400]}")
