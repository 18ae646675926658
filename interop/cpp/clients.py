"""The C++ client (librocketmq), by way of its binding for Python."""

import itertools
import os
import time
from dataclasses import dataclass, field

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage, SendStatus
from rocketmq.exceptions import ffi_check
from rocketmq.ffi import MessageModel, _CConsumeStatus, dll

NAMESRV = os.environ.get("INTEROP_NAMESRV", "127.0.0.1:9876")
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Arrival:
    id: str
    topic: str
    tag: str
    key: str
    label: str
    attempt: int
    at: float = field(default_factory=time.time)


def message(topic, label, tag="", key="", level=0):
    """The label is the body: the binding's bodies end at the first zero byte."""
    made = Message(topic)
    made.set_body(label)
    if tag:
        made.set_tags(tag)
    if key:
        made.set_keys(key)
    if level:
        made.set_delay_time_level(level)
    return made


class Clients:
    """The clients of one scenario. They live as long as the process."""

    def __init__(self, name):
        self.name = name
        self._open = []

    def producer(self):
        producer = Producer(f"{self.name}-producer", timeout=10_000)
        # The binding has no name for this one.
        ffi_check(dll.SetProducerInstanceName(producer._handle, f"cpp-{next(NUMBERS)}".encode()))
        producer.set_namesrv_addr(NAMESRV)
        producer.start()
        self._open.append(producer)
        return producer

    def listen(self, take, topic=None, expression="*", orderly=False, broadcast=False):
        """`take` gets an Arrival and returns false if the message is to come again."""
        model = MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING
        consumer = PushConsumer(self.name, orderly=orderly, message_model=model)
        consumer.set_instance_name(f"cpp-{next(NUMBERS)}")
        consumer.set_namesrv_addr(NAMESRV)
        consumer.set_thread_count(4)

        def on_message(_, handle):
            got = RecvMessage(handle)
            arrival = Arrival(got.id, got.topic, text(got.tags), text(got.keys), text(got.body), got.reconsume_times)
            return (_CConsumeStatus.CONSUME_SUCCESS if take(arrival) else _CConsumeStatus.RECONSUME_LATER).value

        # `subscribe` would turn every outcome of a callback into success: it lets exceptions out of a finally clause.
        ffi_check(dll.Subscribe(consumer._handle, (topic or self.name).encode(), expression.encode()))
        consumer._register_callback(on_message)
        consumer.start()
        self._open.append(consumer)


def text(value):
    return (value or b"").decode()


def ok(result):
    if result.status != SendStatus.OK:
        raise AssertionError(f"send status {result.status}")
    return result.msg_id
