"""A small 4.x client: one connection, one request at a time. It retries nothing by itself."""

import json
import socket
import struct
import zlib

SEND_MESSAGE = 10
PULL_MESSAGE = 11
UPDATE_AND_CREATE_TOPIC = 17
GET_MAX_OFFSET = 30
GET_ROUTEINFO_BY_TOPIC = 105

SUCCESS = 0
PULL_NOT_FOUND = 19


class Refused(Exception):
    """The server answered with another code than success."""


class Connection:
    def __init__(self, port, timeout=8.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        self.opaque = 0

    def close(self):
        self.socket.close()

    def call(self, code, fields=None, body=b"", accepted=(SUCCESS,)):
        self.opaque += 1
        header = json.dumps({
            "code": code, "language": "PYTHON", "version": 477, "opaque": self.opaque, "flag": 0,
            "extFields": fields or {},
        }).encode()
        self.socket.sendall(struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body)
        while True:
            answer, content = self.read()
            if answer["opaque"] == self.opaque and answer["flag"] & 1:
                break
        if answer["code"] not in accepted:
            raise Refused(f"request {code}: {answer['code']} {answer.get('remark')}")
        return answer, content

    def read(self):
        (length,) = struct.unpack(">i", self.exactly(4))
        frame = self.exactly(length)
        (word,) = struct.unpack(">I", frame[:4])
        end = 4 + (word & 0xFFFFFF)
        return json.loads(frame[4:end]), frame[end:]

    def exactly(self, count):
        data = self.stream.read(count)
        if data is None or len(data) < count:
            raise ConnectionError("the connection was closed")
        return data

    def create_topic(self, name, queues):
        self.call(UPDATE_AND_CREATE_TOPIC, {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        })

    def send(self, topic, queue, body):
        self.call(SEND_MESSAGE, {
            "producerGroup": "cluster", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
            "queueId": str(queue), "sysFlag": "0", "bornTimestamp": "0", "flag": "0", "properties": "",
            "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
        }, body)

    def route(self, topic):
        _, body = self.call(GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return json.loads(body)

    def max_offset(self, topic, queue):
        answer, _ = self.call(GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)})
        return int(answer["extFields"]["offset"])

    def pull(self, topic, queue, offset):
        """The bodies from an offset on, and the next offset."""
        answer, body = self.call(PULL_MESSAGE, {
            "consumerGroup": "cluster", "topic": topic, "queueId": str(queue), "queueOffset": str(offset),
            "maxMsgNums": "256", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
            "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }, accepted=(SUCCESS, PULL_NOT_FOUND))
        return list(messages(body)), int(answer["extFields"]["nextBeginOffset"])


def messages(data):
    """The queue offsets and bodies of stored messages; one that is altered does not match its checksum."""
    at = 0
    while at < len(data):
        (size, _, crc, _, _, offset) = struct.unpack_from(">iiIiiq", data, at)
        body_at = at + 84
        (length,) = struct.unpack_from(">i", data, body_at)
        body = data[body_at + 4:body_at + 4 + length]
        if zlib.crc32(body) & 0x7FFFFFFF != crc & 0x7FFFFFFF:
            raise RuntimeError(f"the message at offset {offset} does not match its checksum")
        yield offset, body
        at += size
