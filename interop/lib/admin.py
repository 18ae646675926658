"""What the harness does as the administrator of a server, by the Java programs of interop/admin: one start for all of it."""

import os
import subprocess

import tools
from paths import INTEROP, WORK

FOLDER = INTEROP / "admin"


def setup():
    tools.maven_class_path(FOLDER, "admin", "compile")


def run(server, files):
    """Creates the topics and groups of files, each with the languages that stand for {lang} in it."""
    java(server, "Admin", server.address("namesrv_port"), ",".join(server.brokers()),
         *(word for file, languages in files.items() for word in (str(file), ",".join(languages))))


def stored(server, topics):
    """How many messages each topic has."""
    lines = java(server, "Stored", server.address("namesrv_port"), *topics).split("\n")
    return {topic: int(count) for topic, count in (line.split() for line in lines if line)}


def java(server, main, *arguments):
    """Runs a program; what it prints. Requests are signed if the server's folder has a file of mqadmin that names a user."""
    class_path = f"{WORK}/admin/build/classes:{tools.maven_class_path(FOLDER, 'admin', 'compile')}"
    folder = server.state["folder"]
    log = f"{folder}/admin.log"
    with open(log, "ab") as errors:
        done = subprocess.run(
            ["java", "-Xmx256m", f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", "-cp", class_path, main, *arguments],
            env={**os.environ, **server.java_environment()},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
        errors.write(done.stdout.encode())
    if done.returncode != 0:
        raise RuntimeError(f"the program {main} failed; see {log}")
    return done.stdout
