"""Messages: sending them and finding them."""

import re

from shell import brief, check

from .registry import command


def found(world, *words):
    """Waits until the command shows the message of World.sent: the index may lag behind the send."""
    return world.eventually(
        lambda: [text for text in [world.good(*words)] if world.unique in text],
        f"{words[0]} does not find it")[0]


def detail(world, *words):
    output = found(world, *words)
    for name, value in (("Topic", "mqadmin-messages"), ("Tags", "[a-tag]"), ("Keys", "[mqadmin-key]"), ("Queue ID", "0"),
                        ("Queue Offset", "0"), ("Reconsume Times", "0")):
        check(re.search(rf"^{name}:\s+{re.escape(value)}$", output, re.M), f"{name} is not {value}: {brief(output)}")
    return output


@command("sendMessage")
def send_message(world):
    topic = world.topic()
    rows = world.rows("sendMessage", "-t", topic, "-p", "body", "-k", "key", "-c", "tag")
    check(rows[0][0] == world.broker_name and rows[0][2] == "SEND_OK" and re.fullmatch(r"[0-9A-F]{32,56}", rows[0][3]), f"row: {rows}")
    rows = world.rows("sendMessage", "-t", topic, "-p", "body", "-b", world.broker_name, "-i", 3)
    check(rows[0][1] == "3", f"queue {rows[0][1]} instead of 3")


@command("checkMsgSendRT")
def check_msg_send_rt(world):
    output = world.says("Avg RT:", "checkMsgSendRT", "-t", world.topic(), "-a", 3)
    check(len(re.findall(rf"^{re.escape(world.broker_name)}\s+\d+\s+true", output, re.M)) == 3, brief(output))


@command("queryMsgByKey")
def query_by_key(world):
    topic = world.sent()
    output = found(world, "queryMsgByKey", "-t", topic, "-k", "mqadmin-key")
    check(re.search(rf"^{world.unique}\s+0\s+0\b", output, re.M), f"queue and offset: {brief(output)}")


@command("queryMsgByUniqueKey")
def query_by_unique_key(world):
    topic = world.sent()
    detail(world, "queryMsgByUniqueKey", "-t", topic, "-i", world.unique)


@command("queryMsgById")
def query_by_id(world):
    topic = world.sent()
    output = detail(world, "queryMsgByUniqueKey", "-t", topic, "-i", world.unique)
    offset_id = offset_id_of(output)
    detail(world, "queryMsgById", "-t", topic, "-i", offset_id)
    # Pushed to a consumer of the operator's choice.
    group = world.live("mqadmin-direct", world.topic("mqadmin-direct"))
    client = world.rows("consumerConnection", "-g", group)[0][0]
    output = world.good("queryMsgById", "-t", topic, "-i", offset_id, "-g", group, "-d", client)
    check("CR_SUCCESS" in output, f"consumed directly: {brief(output)}")
    check(world.client("consumed", group) == "1", "the consumer did not see it")
    check("no message" in world.run("queryMsgById", "-t", topic, "-i", "00" * 16)
          or "Exception" in world.run("queryMsgById", "-t", topic, "-i", "00" * 16), "found what is not there")


def offset_id_of(output):
    """Address and position in the log: what a broker's own id of a message is made of."""
    host, port = re.search(r"^Store Host:\s+/?(\S+):(\d+)$", output, re.M).groups()
    position = re.search(r"^CommitLog Offset:\s+(\d+)$", output, re.M)[1]
    address = bytes(map(int, host.split(".")))
    return (address + int(port).to_bytes(4, "big") + int(position).to_bytes(8, "big")).hex().upper()


@command("queryMsgByOffset")
def query_by_offset(world):
    topic = world.sent()
    detail(world, "queryMsgByOffset", "-t", topic, "-b", world.broker_name, "-i", 0, "-o", 0)


@command("queryMsgTraceById")
def query_trace(world):
    topic = world.topic("mqadmin-trace")
    unique = world.rows("sendMessage", "-t", topic, "-p", "traced", "-m", "true")[0][-1]
    output = world.eventually(lambda: [text for text in [world.good("queryMsgTraceById", "-i", unique)] if "Pub" in text],
                              "no trace")[0]
    check("success" in output, brief(output))


@command("printMsg")
def print_msg(world):
    topic = world.sent()
    output = world.says("a-body", "printMsg", "-t", topic, "-d", "true")
    check("minOffset=0, maxOffset=1" in output, brief(output))
    check("a-body" not in world.good("printMsg", "-t", topic, "-d", "true", "-s", "another-tag"), "the tag filter lets it through")


@command("printMsgByQueue")
def print_msg_by_queue(world):
    topic = world.sent()
    world.says("a-body", "printMsgByQueue", "-t", topic, "-a", world.broker_name, "-i", 0, "-p", "true", "-d", "true")


@command("consumeMessage")
def consume_message(world):
    topic = world.sent()
    world.says("a-body", "consumeMessage", "-t", topic)
    world.says("a-body", "consumeMessage", "-t", topic, "-b", world.broker_name, "-i", 0, "-o", 0, "-c", 1)


@command("queryCq")
def query_cq(world):
    topic = world.sent()
    output = world.good("queryCq", "-t", topic, "-q", 0, "-i", 0, "-c", 1, "-b", world.broker)
    check("max: 1, min: 0" in output, brief(output))
    check(str(java_hash("a-tag")) in output, f"the tag's hash is not there: {brief(output)}")


def java_hash(text):
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@command("dumpCompactionLog")
def dump_compaction_log(world):
    # Reads a local file; talks to no server.
    output = world.run("dumpCompactionLog", "-f", world.folder / "no-such-file")
    check(output.strip(), "nothing was printed")
    return "local"
