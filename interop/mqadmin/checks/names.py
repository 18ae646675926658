"""The name server. Taking the broker's permission to write would disturb the others, so it comes last."""

import re

from shell import check

from .registry import command

NAMESPACE = "ORDER_TOPIC_CONFIG"


@command("updateKvConfig")
def update_kv_config(world):
    key = world.topic("mqadmin-kv")
    world.says("success", "updateKvConfig", "-s", NAMESPACE, "-k", key, "-v", f"{world.broker_name}:4")
    # updateOrderConf reads the same namespace.
    world.says(f"orderConf=[{world.broker_name}:4]", "updateOrderConf", "-t", key, "-m", "get")


@command("deleteKvConfig")
def delete_kv_config(world):
    key = world.topic("mqadmin-kv")
    world.says("success", "updateKvConfig", "-s", NAMESPACE, "-k", key, "-v", "x:1")
    world.says("success", "deleteKvConfig", "-s", NAMESPACE, "-k", key)
    check("x:1" not in world.run("updateOrderConf", "-t", key, "-m", "get"), "it is still there")


def settings(world):
    return dict(re.findall(r"^(\w+)\s*=  ?(.*)$", world.good("getNamesrvConfig"), re.M))


@command("getNamesrvConfig")
def get_namesrv_config(world):
    port = world.namesrv.split(":")[1]
    check(settings(world).get("listenPort") == port, f"listenPort is {settings(world).get('listenPort')}")


@command("updateNamesrvConfig")
def update_namesrv_config(world):
    for value in ("true", "false"):
        world.says("success", "updateNamesrvConfig", "-k", "orderMessageEnable", "-v", value)
        check(settings(world).get("orderMessageEnable") == value, f"it is {settings(world).get('orderMessageEnable')}")


@command("wipeWritePerm")
def wipe_write_perm(world):
    topic = world.topic()
    world.says(" OK, ", "wipeWritePerm", "-b", world.broker_name)
    try:
        check(world.perm(topic) == 4, f"the route says {world.perm(topic)}")
    finally:
        world.good("addWritePerm", "-b", world.broker_name)


@command("addWritePerm")
def add_write_perm(world):
    topic = world.topic()
    world.good("wipeWritePerm", "-b", world.broker_name)
    world.says(" OK, ", "addWritePerm", "-b", world.broker_name)
    check(world.perm(topic) == 6, f"the route says {world.perm(topic)}")
