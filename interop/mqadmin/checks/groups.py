"""Groups, their members and offsets."""

import json
import re
import time

from shell import brief, check

from .registry import command


def settings(world, group):
    return dict(re.findall(r"^(\w+)\s*=  ?(.*)$", world.run("getConsumerConfig", "-g", group), re.M))


@command("updateSubGroup")
def update_sub_group(world):
    group = "mqadmin-update"
    world.says("create subscription group to", "updateSubGroup", "-b", world.broker, "-g", group, "-r", 5, "-q", 2)
    found = settings(world, group)
    check((found.get("retryMaxTimes"), found.get("retryQueueNums")) == ("5", "2"), f"settings: {found}")
    world.says("create subscription group to", "updateSubGroup", "-c", world.cluster, "-g", group, "-r", 7)
    check(settings(world, group).get("retryMaxTimes") == "7", "the change did not arrive")


@command("updateSubGroupList")
def update_sub_group_list(world):
    names = ["mqadmin-list-a", "mqadmin-list-b"]
    path = world.folder / "groups.json"
    path.write_text(json.dumps([{"groupName": name, "retryMaxTimes": 3} for name in names]))
    world.says("success", "updateSubGroupList", "-b", world.broker, "-f", path)
    for name in names:
        world.eventually(lambda name=name: settings(world, name).get("retryMaxTimes") == "3", f"{name} is not there")


@command("getConsumerConfig")
def get_consumer_config(world):
    group = world.group("mqadmin-config")
    found = settings(world, group)
    # The tool itself switches consumeBroadcastEnable off.
    wanted = {"groupName": group, "consumeEnable": "true", "consumeBroadcastEnable": "false", "retryQueueNums": "1",
              "retryMaxTimes": "16", "brokerId": "0", "notifyConsumerIdsChangedEnable": "true"}
    wrong = {name: found.get(name) for name, value in wanted.items() if found.get(name) != value}
    check(not wrong, f"wrong: {wrong}")


@command("deleteSubGroup")
def delete_sub_group(world):
    group = "mqadmin-delete"
    world.good("updateSubGroup", "-b", world.broker, "-g", group, "-r", 5)
    check(exported(world)[group]["retryMaxTimes"] == 5, "it was not there")
    world.says("success", "deleteSubGroup", "-b", world.broker, "-g", group)
    # Apache makes it again, with defaults, when somebody looks.
    check(exported(world).get(group, {}).get("retryMaxTimes") != 5, "it is still there")


def exported(world):
    """The groups, by a command that creates none."""
    world.says("success", "exportMetadata", "-b", world.broker, "-g", "-f", world.folder)
    return json.loads((world.folder / "subscriptionGroup.json").read_text())["subscriptionGroupTable"]


@command("setConsumeMode")
def set_consume_mode(world):
    topic, group = world.topic(), world.group("mqadmin-mode")
    for mode in ("POP", "PULL"):
        output = world.says("set consume mode to", "setConsumeMode", "-b", world.broker, "-t", topic, "-g", group, "-m", mode, "-q", 2)
        check(f"consume mode[{mode}]" in output, brief(output))


@command("consumerConnection")
def consumer_connection(world):
    topic = world.filled("mqadmin-live")
    group = world.live("mqadmin-live", topic)
    output = world.says("JAVA", "consumerConnection", "-g", group)
    check(f"live-{group}" in output, f"client id: {brief(output)}")
    check(re.search(rf"^{topic}\s+\*$", output, re.M), f"subscription: {brief(output)}")
    for line in ("ConsumeType: CONSUME_PASSIVELY", "MessageModel: CLUSTERING", "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET"):
        check(line in output, f"no {line}: {brief(output)}")
    check("Exception" in world.run("consumerConnection", "-g", "no-such-group"), "an unknown group is connected")


@command("producerConnection")
def producer_connection(world):
    topic = world.filled("mqadmin-live")
    world.eventually(lambda: "live-mqadmin-producer" in world.good("producerConnection", "-g", "mqadmin-producer", "-t", topic),
                     "the producer is not connected")
    world.says("JAVA", "producerConnection", "-g", "mqadmin-producer", "-t", topic)


@command("producer")
def producer(world):
    world.filled("mqadmin-live")
    world.eventually(lambda: "live-mqadmin-producer" in world.good("producer", "-b", world.broker), "the producer is not shown")
    world.says("producer group (mqadmin-producer)", "producer", "-b", world.broker)


@command("consumerProgress")
def consumer_progress(world):
    topic = world.filled("mqadmin-live")
    live = world.live("mqadmin-live", topic)
    world.eventually(lambda: world.lag(live, topic) == 0, "the live group does not catch up")
    offline = world.read("mqadmin-offline", topic, 8)
    world.eventually(lambda: world.lag(offline, topic) == 0, "the offline group's offsets are not stored")
    world.client("produce", world.namesrv, "mqadmin-producer", topic, 5)
    world.eventually(lambda: world.lag(offline, topic) == 5, "the offline group does not lag by 5")
    world.eventually(lambda: world.lag(live, topic) == 0, "the live group lags")
    world.says("Consume Diff Total: 5", "consumerProgress", "-g", offline)
    client = world.rows("consumerConnection", "-g", live)[0][0]
    world.says(client.split("@")[0], "consumerProgress", "-g", live, "-s", "true")
    rows = world.eventually(lambda: [row for row in world.rows("consumerProgress") if row[0] == live], "the list lacks the group")
    check(rows[0][1] == "1" and "CLUSTERING" in rows[0], f"the live group: {rows}")


@command("consumerStatus")
def consumer_status(world):
    topic = world.filled("mqadmin-live")
    group = world.live("mqadmin-live", topic)
    output = world.good("consumerStatus", "-g", group)
    check("Same subscription in the same group of consumer" in output and "Rebalance OK" in output, brief(output))
    client = world.rows("consumerConnection", "-g", group)[0][0]
    # Thread names speak of exceptions.
    output = world.run("consumerStatus", "-g", group, "-i", client)
    check("#Consumer Subscription#" in output and topic in output, brief(output))
    output = world.run("consumerStatus", "-g", group, "-i", client, "-s")
    check("#Consumer jstack#" in output and "PullMessageService" in output, f"no stack: {brief(output)}")


@command("startMonitoring")
def start_monitoring(world):
    # Watches for ever and writes to its log; it must start and go on.
    output, ended = world.shell.call(["startMonitoring", "-n", world.namesrv], limit=2)
    check("Exception" not in output, brief(output))
    return "ended" if ended else "goes on"


@command("resetOffsetByTime")
def reset_offset_by_time(world):
    topic = world.filled("mqadmin-reset")
    group = world.live("mqadmin-reset", topic)
    world.eventually(lambda: int(world.client("consumed", group)) == 8, "the consumer did not read 8 messages")
    rows = world.rows("resetOffsetByTime", "-g", group, "-t", topic, "-s", str(int((time.time() - 3600) * 1000)))
    rows = [row for row in rows if row[0] == world.broker_name]
    check(len(rows) == 4 and all(row[2] == "0" for row in rows), f"rows: {rows}")
    world.eventually(lambda: int(world.client("consumed", group)) == 16, "the live consumer was not moved", 60)
    offline = world.read("mqadmin-reset-offline", topic, 8)
    world.eventually(lambda: world.lag(offline, topic) == 0, "the offline group's offsets are not stored")
    world.good("resetOffsetByTime", "-g", offline, "-t", topic, "-s", str(int((time.time() - 3600) * 1000)))
    world.eventually(lambda: world.lag(offline, topic) == 8, "the offline group was not moved")


@command("skipAccumulatedMessage")
def skip_accumulated(world):
    topic = world.filled("mqadmin-skip")
    group = world.read("mqadmin-skip", topic, 8)
    world.client("produce", world.namesrv, "mqadmin-producer", topic, 6)
    world.eventually(lambda: world.lag(group, topic) == 6, "the group does not lag by 6")
    world.good("skipAccumulatedMessage", "-g", group, "-t", topic, "-f", "true")
    world.eventually(lambda: world.lag(group, topic) == 0, "the group still lags")


@command("cloneGroupOffset")
def clone_group_offset(world):
    topic = world.filled("mqadmin-clone")
    source = world.read("mqadmin-clone-source", topic, 8)
    target = world.group("mqadmin-clone-target")
    world.eventually(lambda: world.lag(source, topic) == 0, "the source's offsets are not stored")
    # The command needs the target's retry topic, which its first member makes.
    world.client("consume", world.namesrv, target, world.topic())
    world.client("leave", target)
    world.says("clone group offset success", "cloneGroupOffset", "-s", source, "-d", target, "-t", topic)
    world.eventually(lambda: world.lag(target, topic) == 0, "the target has no such offsets")
