"""Apache RocketMQ: a name server, and a proxy in local mode, which runs the broker inside itself. With
INTEROP_APACHE_MODE=cluster the broker is a process of its own: only then does the proxy know lite topics."""

import json
import os
import string

import auth
import net
import process
import tools
from levels import DELAY_LEVELS
from paths import INTEROP

NAME = "apache"
MODE = os.environ.get("INTEROP_APACHE_MODE", "local")
CONFIG = INTEROP / "apache"
# The files that configure it, and the heap of the broker: others may set their own.
SETTINGS = CONFIG
HEAP = "1g"
# The flags of the distribution's start scripts that JDK 17 needs.
OPENS = [f"--add-{kind}=java.base/{package}=ALL-UNNAMED" for kind, package in (
    ("opens", "java.nio"), ("opens", "java.lang"), ("opens", "java.util"), ("opens", "sun.nio.ch"),
    ("exports", "jdk.internal.ref"), ("exports", "sun.security.x509"), ("exports", "sun.security.util"))]


def setup():
    tools.maven_class_path(CONFIG, "apache")


def prepare(folder, asks):
    # The broker takes listenPort - 2 for itself as well (its "fast" port).
    first = net.free_block(7)
    state = {
        "namesrv_port": first, "broker_port": first + 3, "ha_port": first + 4,
        "grpc_port": first + 5, "proxy_remoting_port": first + 6, "data": str(folder / "data"), "mode": MODE,
        "delay_levels": DELAY_LEVELS,
    }
    values = {**state, "admin": auth.ADMIN, "admin_secret": auth.secret(auth.ADMIN)}
    texts = {name: filled(SETTINGS / name, values) for name in ("namesrv.conf", "broker.conf", "proxy.json")}
    if asks:
        texts["broker.conf"] += filled(CONFIG / "auth.conf", values)
        texts["proxy.json"] = json.dumps(json.loads(texts["proxy.json"]) | json.loads(filled(CONFIG / "auth.json", values)))
    for name, text in texts.items():
        (folder / name).write_text(text)
    return state


def filled(path, values):
    return string.Template(path.read_text()).substitute(values)


def java(state, heap, main, *arguments):
    folder = state["folder"]
    return [
        "java", f"-Xmx{heap}", f"-Xms{heap}", "-XX:MaxDirectMemorySize=512m", *OPENS,
        # Logs and stores default to the home folder.
        f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}",
        "-cp", tools.maven_class_path(CONFIG, "apache"), main, *arguments,
    ]


def start_others(state):
    folder = state["folder"]
    name_server = process.spawn(
        java(state, "256m", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", f"{folder}/namesrv.conf"),
        f"{folder}/namesrv.log", cwd=folder)
    state["processes"]["namesrv"] = name_server
    net.wait_open(state["namesrv_port"], name_server)


def certificate(state):
    """None: the proxy makes one at each start and keeps it to itself."""
    del state
    return ""


def launch_broker(state):
    folder = state["folder"]
    proxy, own = "broker", ["-bc", f"{folder}/broker.conf"]
    if state["mode"] == "cluster":
        proxy, own = "proxy", []
        state["processes"]["broker"] = process.spawn(
            java(state, HEAP, "org.apache.rocketmq.broker.BrokerStartup", "-c", f"{folder}/broker.conf"),
            f"{folder}/broker.log", cwd=folder)
    state["processes"][proxy] = process.spawn(
        java(state, HEAP, "org.apache.rocketmq.proxy.ProxyStartup", "-pm", state["mode"], *own,
             "-pc", f"{folder}/proxy.json", "-n", f"127.0.0.1:{state['namesrv_port']}"),
        f"{folder}/proxy.log", cwd=folder)


def await_broker(state):
    processes = state["processes"]
    net.wait_open(state["broker_port"], processes["broker"])
    net.wait_open(state["grpc_port"], processes.get("proxy", processes["broker"]))


def stop_broker(state, how):
    """Always asks politely: Apache keeps acknowledgements in memory and loses them when it is killed."""
    del how
    for name in ("proxy", "broker"):
        if name in state["processes"]:
            process.stop(state["processes"][name])
