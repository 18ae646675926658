"""Apache RocketMQ: a name server, and a proxy in local mode, which runs the broker inside itself."""

import string

import net
import process
import tools
from levels import DELAY_LEVELS
from paths import INTEROP

NAME = "apache"
CONFIG = INTEROP / "apache"
# The flags of the distribution's start scripts that JDK 17 needs.
OPENS = [f"--add-{kind}=java.base/{package}=ALL-UNNAMED" for kind, package in (
    ("opens", "java.nio"), ("opens", "java.lang"), ("opens", "java.util"), ("opens", "sun.nio.ch"),
    ("exports", "jdk.internal.ref"), ("exports", "sun.security.x509"), ("exports", "sun.security.util"))]


def setup():
    tools.maven_class_path(CONFIG, "apache")


def prepare(folder):
    # The broker takes listenPort - 2 for itself as well (its "fast" port).
    first = net.free_block(7)
    state = {
        "namesrv_port": first, "broker_port": first + 3, "ha_port": first + 4,
        "grpc_port": first + 5, "proxy_remoting_port": first + 6, "data": str(folder / "data"),
        "delay_levels": DELAY_LEVELS,
    }
    for name in ("namesrv.conf", "broker.conf", "proxy.json"):
        text = string.Template((CONFIG / name).read_text()).substitute(state)
        (folder / name).write_text(text)
    return state


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


def launch_broker(state):
    folder = state["folder"]
    state["processes"]["broker"] = process.spawn(
        java(state, "1g", "org.apache.rocketmq.proxy.ProxyStartup", "-pm", "local",
             "-bc", f"{folder}/broker.conf", "-pc", f"{folder}/proxy.json",
             "-n", f"127.0.0.1:{state['namesrv_port']}"),
        f"{folder}/proxy.log", cwd=folder)


def await_broker(state):
    for port in ("broker_port", "grpc_port"):
        net.wait_open(state[port], state["processes"]["broker"])


def stop_broker(state, how):
    """Always asks politely: Apache keeps acknowledgements in memory and loses them when it is killed."""
    del how
    process.stop(state["processes"]["broker"])
