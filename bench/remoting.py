"""The Remoting requests that a comparison needs."""

import json
import socket
import struct
import time

UPDATE_AND_CREATE_TOPIC = 17
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
GET_ROUTEINFO_BY_TOPIC = 105
ROUTE_SECONDS = 30


def call(port, code, fields=None, body=b""):
    header = json.dumps({
        "code": code, "language": "PYTHON", "version": 477, "opaque": 1, "flag": 0, "extFields": fields or {},
    }).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body)
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        frame = stream.read(length)
    (word,) = struct.unpack(">I", frame[:4])
    answer = json.loads(frame[4:4 + (word & 0xFFFFFF)])
    if answer["code"] != 0:
        raise RuntimeError(f"request {code} was refused: {answer.get('remark')}")


def create_topic(port, name, queues=8):
    call(port, UPDATE_AND_CREATE_TOPIC, {
        "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    })


def await_route(port, topic):
    """Apache's name server hears of a new topic some time after its broker."""
    until = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            return call(port, GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def create_group(port, name):
    call(port, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps({"groupName": name, "retryQueueNums": 1}).encode())
