"""The broker and its cluster."""

import re

from shell import check

from .registry import command


@command("clusterList")
def cluster_list(world):
    rows = world.rows("clusterList")
    check(sorted(row[3] for row in rows) == sorted(world.brokers), f"addresses: {rows}")
    row = next(row for row in rows if row[3] == world.broker)
    check(row[1:3] == [world.broker_name, "0"], f"broker name and id: {row}")
    check(re.match(r"V\d+_\d+_\d+", row[4]), f"version: {row[4]}")
    more = world.rows("clusterList", "-m")
    check(len(more) == len(world.brokers) and all(row[0] == world.cluster and len(row) == 6 for row in more), f"with -m: {more}")
    check(any(row[1] == world.broker_name for row in more), f"with -m: {more}")
    return row[4]


@command("clusterRT")
def cluster_rt(world):
    output = world.run("clusterRT", "-c", world.cluster, "-a", 3, "-i", 1, until=world.broker_name)
    row = [line.split() for line in output.splitlines() if line.startswith(world.cluster) and world.broker_name in line][0]
    # The first of the four messages only warms up.
    check(row[1] == world.broker_name and float(row[2]) > 0 and row[3:5] == ["3", "0"], f"row: {row}")


@command("brokerStatus")
def broker_status(world):
    world.filled("mqadmin-status-put")
    values = status(world)
    wanted = ["brokerVersionDesc", "bootTimestamp", "putTps", "getTransferredTps", "getTotalTps",
              "msgPutTotalTodayNow", "msgGetTotalTodayNow", "msgPutTotalTodayMorning", "sendThreadPoolQueueSize",
              "commitLogMaxOffset", "commitLogMinOffset", "runtime"]
    missing = [name for name in wanted if name not in values]
    check(not missing, f"missing: {missing}")
    world.eventually(lambda: int(status(world)["msgPutTotalTodayNow"]) >= 8, "8 messages were not counted")
    check(world.broker in world.good("brokerStatus", "-c", world.cluster), "with -c the address is missing")


def status(world):
    return dict(re.findall(r"^(\S+)\s*: (.*)$", world.good("brokerStatus", "-b", world.broker), re.M))


@command("getBrokerConfig")
def get_broker_config(world):
    values = config(world)
    check(values.get("brokerName") == world.broker_name, f"brokerName is {values.get('brokerName')}")
    check(values.get("brokerClusterName") == world.cluster, f"brokerClusterName is {values.get('brokerClusterName')}")
    check(values.get("listenPort") == world.broker.split(":")[1], f"listenPort is {values.get('listenPort')}")
    check(world.broker in world.good("getBrokerConfig", "-c", world.cluster), "with -c the address is missing")


def config(world):
    return dict(re.findall(r"^(\S+)\s*=  ?(.*)$", world.good("getBrokerConfig", "-b", world.broker), re.M))


@command("updateBrokerConfig")
def update_broker_config(world):
    key = "autoCreateTopicEnable"
    for value in ("true", "false"):
        world.says("update broker config success", "updateBrokerConfig", "-b", world.broker, "-k", key, "-v", value)
        check(config(world).get(key) == value, f"{key} is {config(world).get(key)}")


@command("brokerConsumeStats")
def broker_consume_stats(world):
    topic = world.filled("mqadmin-stats")
    group = world.read("mqadmin-stats-group", topic, 8)
    rows = world.eventually(lambda: [row for row in world.rows("brokerConsumeStats", "-b", world.broker)
                                     if topic in row and group in row], "the group is not shown")
    check(sum(int(row[5]) for row in rows) == 8, f"consumer offsets: {rows}")
    world.says("Diff Total:", "brokerConsumeStats", "-b", world.broker)


@command("sendMsgStatus")
def send_msg_status(world):
    output = world.good("sendMsgStatus", "-b", world.broker_name, "-c", 3)
    check(output.count("sendStatus=SEND_OK") == 3, output.strip()[:200])


@command("cleanExpiredCQ")
def clean_expired_cq(world):
    world.says("success", "cleanExpiredCQ", "-b", world.broker)
    world.says("success", "cleanExpiredCQ", "-c", world.cluster)


@command("cleanUnusedTopic")
def clean_unused_topic(world):
    world.says("success", "cleanUnusedTopic", "-b", world.broker)
    check(world.topic() in world.good("topicList").split(), "it removed a topic that is in use")


@command("deleteExpiredCommitLog")
def delete_expired_commit_log(world):
    topic = world.filled("mqadmin-expired")
    world.says("success", "deleteExpiredCommitLog", "-b", world.broker)
    rows = [row for row in world.rows("topicStatus", "-t", topic) if row[0] == world.broker_name]
    check(sum(int(row[3]) - int(row[2]) for row in rows) == 8, f"young messages are gone: {rows}")


@command("haStatus")
def ha_status(world):
    output = world.good("haStatus", "-b", world.broker)
    check("#MasterAddr" in output and world.broker in output, output.strip()[:200])
    check(re.search(r"#SlaveNum\s+0", output), f"slaves: {output.strip()[:200]}")


@command("statsAll")
def stats_all(world):
    topic = world.filled("mqadmin-stats")
    group = world.read("mqadmin-stats-group", topic, 8)
    rows = world.rows("statsAll", "-t", topic)
    check(any(row[0] == topic and group in row for row in rows), f"rows: {rows}")
