"""Creates the topics and groups of the topic files, in one start of the Java program interop/admin."""

import subprocess

import tools
from paths import INTEROP, WORK

FOLDER = INTEROP / "admin"


def setup():
    tools.maven_class_path(FOLDER, "admin", "compile")


def run(server, files):
    """`files`: each file of topics with the languages that stand for {lang} in it."""
    class_path = f"{WORK}/admin/build/classes:{tools.maven_class_path(FOLDER, 'admin', 'compile')}"
    log = f"{server.state['folder']}/admin.log"
    with open(log, "ab") as output:
        done = subprocess.run(
            ["java", "-Xmx256m", f"-Duser.home={server.state['folder']}", "-cp", class_path, "Admin",
             server.address("namesrv_port"), server.address("broker_port"), 
             *(word for file, languages in files.items() for word in (str(file), ",".join(languages)))],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the admin program failed; see {log}")
