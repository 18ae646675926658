"""The official Python client, unmodified, against a RocketMQ-compatible server."""

import os
import sys

from harness import Scenario, run_scenarios, run_together, skip
from scenarios import (auth, delay, fifo, filters, lite, messages, priorities, push, refusals, sharing, simple,
                       transactions)


def no_batch(_):
    skip("a send takes one message")


def tls(clients):
    if os.environ["INTEROP_SERVER"] != "redstart":
        skip("it verifies certificates, and Apache keeps its own to itself")
    messages.normal(clients)


SCENARIOS = [
    # First, because it takes longest: Apache wakes no waiting poll for a retry, so each one can cost a whole poll.
    Scenario("push-retry-dlq", push.retry_dlq, limit_s=240),
    Scenario("normal", messages.normal),
    Scenario("tag-filter", filters.tag_filter),
    Scenario("sql-filter", filters.sql_filter),
    Scenario("fifo-order", fifo.fifo_order, limit_s=120),
    Scenario("delay", delay.delay),
    Scenario("recall", delay.recall),
    Scenario("tx-commit", transactions.commit),
    Scenario("tx-rollback", transactions.rollback),
    Scenario("tx-check", transactions.check_back, limit_s=180),
    Scenario("simple-ack", simple.ack),
    Scenario("simple-no-ack", simple.no_ack),
    Scenario("change-invisible", simple.change_invisible, limit_s=75),
    Scenario("stale-handle", simple.stale_handle),
    Scenario("priority", priorities.order),
    Scenario("lite", lite.push, limit_s=180),
    Scenario("lite-simple", lite.simple, limit_s=120),
    Scenario("share-queue", sharing.share_queue),
    Scenario("batch-send", no_batch),
    Scenario("type-mismatch", refusals.type_mismatch),
    Scenario("body-4mib", refusals.body_4mib),
    Scenario("unknown-topic", refusals.unknown_topic),
    Scenario("tls", tls),
    Scenario("plaintext", messages.plaintext),
    # Takes the server away from everyone, so it runs alone after the others.
    Scenario("resume-after-restart", sharing.resume_after_restart, limit_s=420, alone=True),
]

# For a server that asks for credentials.
AUTH_SCENARIOS = [
    Scenario("auth-right-key", auth.right_key),
    Scenario("auth-prefix", auth.prefix),
    Scenario("auth-source", auth.source),
    Scenario("auth-no-group-right", auth.no_group_right),
    Scenario("auth-no-topic-right", auth.no_topic_right),
    Scenario("auth-deny", auth.deny),
    Scenario("auth-disabled-user", auth.disabled_user),
    Scenario("auth-wrong-key", auth.wrong_key),
]

if __name__ == "__main__":
    names = sys.argv[1:]
    if names == ["auth"]:
        code = run_together("python", AUTH_SCENARIOS)
    elif names and names[0].startswith("auth-"):
        code = run_together("python", [scenario for scenario in AUTH_SCENARIOS if scenario.name in names])
    else:
        code = run_scenarios("python", SCENARIOS, names)
    sys.stdout.flush()
    # The client's threads are not daemons and outlive a scenario that ran into its limit.
    os._exit(code)
