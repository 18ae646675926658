"""Topics."""

import json
import re

from shell import check

from .registry import command


def route(world, topic):
    # The tool prints the broker ids, which are keys, without quotes.
    return json.loads(re.sub(r"([{,]\s*)(\d+):", r'\1"\2":', world.good("topicRoute", "-t", topic)))


def no_route(world, topic):
    return "CODE: 17" in world.run("topicRoute", "-t", topic)


@command("updateTopic")
def update_topic(world):
    topic = "mqadmin-update"
    world.says("create topic to", "updateTopic", "-b", world.broker, "-t", topic, "-r", 3, "-w", 3)
    world.eventually(lambda: route(world, topic)["queueDatas"][0]["readQueueNums"] == 3, "the route has not 3 queues")
    world.says("create topic to", "updateTopic", "-c", world.cluster, "-t", topic, "-r", 5, "-w", 5,
               "-a", "+message.type=FIFO")
    world.eventually(lambda: [queues["writeQueueNums"] for queues in route(world, topic)["queueDatas"]] == [5] * len(world.brokers),
                     "the route has not 5 queues on every broker")


@command("updateTopicList")
def update_topic_list(world):
    names = ["mqadmin-list-a", "mqadmin-list-b"]
    path = world.folder / "topics.json"
    path.write_text(json.dumps([{"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for name in names]))
    world.good("updateTopicList", "-b", world.broker, "-f", path)
    for name in names:
        world.eventually(lambda name=name: route(world, name)["queueDatas"][0]["readQueueNums"] == 2, f"no route of {name}")


@command("topicList")
def topic_list(world):
    topic = world.topic()
    check(topic in world.good("topicList").split(), f"{topic} is not listed")
    rows = [row for row in world.rows("topicList", "-c") if topic in row]
    check(rows and rows[0][0] == world.cluster, f"with -c: {rows}")


@command("topicRoute")
def topic_route(world):
    topic = world.topic()
    found = route(world, topic)
    queues, brokers = found["queueDatas"][0], found["brokerDatas"][0]
    check((queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (4, 4, 6), f"queues: {queues}")
    check(queues["brokerName"] == brokers["brokerName"] == world.broker_name, f"broker: {brokers}")
    check(world.broker in str(brokers["brokerAddrs"]) and brokers["cluster"] == world.cluster, f"broker: {brokers}")
    world.says("Total:", "topicRoute", "-t", topic, "-l")
    check(no_route(world, "no-such-topic"), "a route of an unknown topic")


@command("topicClusterList")
def topic_cluster_list(world):
    world.says(world.cluster, "topicClusterList", "-t", world.topic())


@command("topicStatus")
def topic_status(world):
    topic = world.filled("mqadmin-status")
    rows = [row for row in world.rows("topicStatus", "-t", topic) if row[0] == world.broker_name]
    check(len(rows) == 4, f"{len(rows)} queues")
    check(sum(int(row[3]) - int(row[2]) for row in rows) == 8, f"offsets: {rows}")
    check(all(len(row) >= 6 for row in rows), f"no time of the last message: {rows}")


@command("allocateMQ")
def allocate(world):
    shares = json.loads(world.good("allocateMQ", "-t", world.topic(), "-i", "10.0.0.1,10.0.0.2"))["result"]
    check({ip: len(queues) for ip, queues in shares.items()} == {"10.0.0.1": 2, "10.0.0.2": 2}, f"shares: {shares}")


@command("updateTopicPerm")
def update_topic_perm(world):
    topic = world.topic("mqadmin-perm")
    world.says("from 6 to 4", "updateTopicPerm", "-b", world.broker, "-t", topic, "-p", 4)
    world.eventually(lambda: world.perm(topic) == 4, "the route still says 6")
    refused = world.run("sendMessage", "-t", topic, "-p", "x")
    check("SEND_OK" not in refused, "a read-only topic takes messages")
    world.says("from 4 to 6", "updateTopicPerm", "-c", world.cluster, "-t", topic, "-p", 6)
    world.eventually(lambda: world.perm(topic) == 6, "the route still says 4")


@command("updateOrderConf")
def update_order_conf(world):
    topic, conf = world.topic(), f"{world.broker_name}:4"
    world.says("update orderConf success", "updateOrderConf", "-t", topic, "-m", "put", "-v", conf)
    world.says(f"orderConf=[{conf}]", "updateOrderConf", "-t", topic, "-m", "get")
    world.says("delete orderConf success", "updateOrderConf", "-t", topic, "-m", "delete")
    check(conf not in world.run("updateOrderConf", "-t", topic, "-m", "get"), "it is still there")


@command("deleteTopic")
def delete_topic(world):
    topic = world.topic("mqadmin-delete")
    world.says("delete topic", "deleteTopic", "-t", topic, "-c", world.cluster)
    world.eventually(lambda: topic not in world.good("topicList").split(), "it is still listed")
    check(no_route(world, topic), "it still has a route")
