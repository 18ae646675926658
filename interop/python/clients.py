"""The official clients of one scenario: made here, closed together when it ends."""

import asyncio
import contextlib
import os
import secrets
import time
from dataclasses import dataclass

from rocketmq import (ClientConfiguration, Credentials, FilterExpression, LitePushConsumer, LiteSimpleConsumer, Message,
                      MessageListener, Producer, PushConsumer, SimpleConsumer)

SERVER = os.environ.get("INTEROP_SERVER", "redstart")
ENDPOINT = os.environ.get("INTEROP_ENDPOINT", "127.0.0.1:8081")

# Shortest long poll the Apache proxy grants; asking for less would still wait this long.
POLL_S = 5


@dataclass(frozen=True)
class Arrival:
    message: Message
    at: float

    @property
    def body(self):
        return self.message.body.decode()


class Clients:
    def __init__(self, lang, scenario):
        self._lang = lang
        self._open = []
        self._tls = scenario == "tls"
        self._credentials = Credentials()
        # Topic and group are prepared under the scenario's name, see topics.txt.
        self.topic = self.named(scenario)
        self.group = self.named(scenario)
        # Tag of every message of this run; subscriptions name it, so no run sees what an earlier one left behind.
        self.tag = f"run-{secrets.token_hex(4)}"

    def act_as(self, user, secret=None):
        """The user of the clients made from now on. Its secret is what lib/auth.py gave it, unless another is to be tried."""
        self._credentials = Credentials(user, secret or f"secret-of-{user}")

    def named(self, suffix):
        return f"{self._lang}-{suffix}"

    def message(self, body, topic=None):
        message = Message()
        message.topic = topic or self.topic
        message.tag = self.tag
        message.body = body if isinstance(body, bytes) else body.encode()
        return message

    def producer(self, topics=None, checker=None):
        topics = [self.topic] if topics is None else topics
        return self._start(Producer(self._configuration(), topics, checker=checker, tls_enable=self._tls))

    def simple_consumer(self, group=None, topic=None, filter=None):
        """A consumer whose group has a position: a new group may start at the newest message of its first receive."""
        subscription = {topic or self.topic: filter or FilterExpression(self.tag)}
        consumer = self._start(
            SimpleConsumer(self._configuration(), group or self.group, subscription, POLL_S, tls_enable=self._tls))
        prime(consumer)
        return consumer

    def push_consumer(self, consume):
        subscription = {self.topic: FilterExpression(self.tag)}
        return self._start(
            PushConsumer(self._configuration(), self.group, Listener(consume), subscription, tls_enable=self._tls))

    def lite_push_consumer(self, consume):
        return self._start(
            LitePushConsumer(self._configuration(), self.group, self.topic, Listener(consume), tls_enable=False))

    def lite_simple_consumer(self):
        return self._start(LiteSimpleConsumer(self.topic, self._configuration(), self.group, POLL_S, tls_enable=False))

    def await_server(self):
        """After a restart Apache takes connections before its name server knows the topics again, and then keeps the
        answer "no route" for a while; so nobody else asks before one topic can be written."""
        deadline = time.time() + 60
        while time.time() < deadline:
            with contextlib.suppress(Exception):
                return self.producer().send(self.message("is anybody there"))
            time.sleep(1)

    def close(self):
        for client in self._open:
            with contextlib.suppress(Exception):
                client.shutdown()

    def _configuration(self):
        return ClientConfiguration(ENDPOINT, self._credentials)

    def _start(self, client):
        # The client handles an answer that is there before it looks in the thread that asked, and needs an event loop
        # there. Python makes one for the main thread alone.
        asyncio.set_event_loop(asyncio.new_event_loop())
        client.startup()
        self._open.append(client)
        return client


class Listener(MessageListener):
    def __init__(self, consume):
        self._consume = consume

    def consume(self, message):
        return self._consume(message)


def prime(consumer):
    """startup() does not wait for the settings, so the first receive may meet a server that does not know them yet."""
    for _ in range(5):
        with contextlib.suppress(Exception):
            return consumer.receive(1, 10)
        time.sleep(1)
    return consumer.receive(1, 10)


def receive(consumer, count, within=20, invisible=30, batch=16, ack=True):
    """Receives until `count` messages came or `within` seconds passed, in the order of arrival."""
    deadline = time.time() + within
    arrivals = []
    while len(arrivals) < count and time.time() < deadline:
        for message in consumer.receive(batch, invisible) or []:
            arrivals.append(Arrival(message, time.time()))
            if ack:
                consumer.ack(message)
    return arrivals


def bodies(arrivals):
    return [arrival.body for arrival in arrivals]


def leftovers(consumer):
    """Bodies that still arrive in one long poll; a scenario that is done expects none."""
    return bodies(receive(consumer, 1, within=0.001))
