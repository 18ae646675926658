"""A server that asks for credentials: what the users of lib/auth.py may do, and what they are refused."""

from clients import bodies, receive
from harness import check, check_equal

APP, GUESSED, DISABLED = "auth-app", "auth-guessed", "auth-disabled"
UNAUTHORIZED, FORBIDDEN = "40100", "40300"


def right_key(clients):
    clients.act_as(APP)
    exchange(clients)


def wrong_key(clients):
    clients.act_as(GUESSED, "not-its-secret")
    return refused(lambda: send(clients), UNAUTHORIZED)


def disabled_user(clients):
    clients.act_as(DISABLED)
    return refused(lambda: send(clients), UNAUTHORIZED)


def no_topic_right(clients):
    clients.act_as(APP)
    refused(clients.simple_consumer, FORBIDDEN)
    return refused(lambda: send(clients), FORBIDDEN)


def no_group_right(clients):
    clients.act_as(APP)
    send(clients)
    return refused(clients.simple_consumer, FORBIDDEN)


def prefix(clients):
    clients.act_as(APP)
    exchange(clients)


def deny(clients):
    """A prefix allows both topics; the rule for the name of one of them denies."""
    clients.act_as(APP)
    send(clients)
    return refused(lambda: send(clients, clients.named("auth-deny-exact")), FORBIDDEN)


def source(clients):
    clients.act_as(APP)
    exchange(clients)
    return refused(lambda: send(clients, clients.named("auth-source-far")), FORBIDDEN)


def exchange(clients):
    consumer = clients.simple_consumer()
    send(clients)
    check_equal(bodies(receive(consumer, 1)), ["signed"], "bodies")


def send(clients, topic=None):
    topic = topic or clients.topic
    clients.producer([topic]).send(clients.message("signed", topic))


def refused(call, code):
    """The client drops the code of a refused route. The topics exist, so without a refusal it has one."""
    try:
        call()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        check(code in text or "failed to fetch topic" in text, f"refused for another reason: {text}")
        return " ".join(text.split())[:200]
    raise AssertionError("accepted")
