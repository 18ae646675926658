"""What is measured on one server."""

from side import BACKLOG, Side

PROTOCOLS = ["grpc", "remoting"]
# In this order: half of Apache's maximum is the rate at which the others are paced.
SIDES = ["apache", "redstart", "apache-sync"]
# Messages of one call, when a backlog is stored.
FILL_BATCH = 32


def measure(kind, protocol, folder, options, rate):
    """The loads of a protocol on a fresh server, which is gone afterwards. `rate` is None until Apache's is known."""
    side = Side(kind, protocol, folder, options)
    try:
        side.start()
        result = {"start": side.start_seconds, "idle_memory": side.idle_memory}
        result["send"] = side.timed("produce", "--in-flight", 64)
        if kind != "apache-sync":
            MORE[protocol](side, result, rate)
        return result
    finally:
        side.stop()


def grpc(side, result, rate):
    paced(side, result, rate or half(result["send"]))
    # What the sends have left, and more: the receivers must not run dry.
    side.load("produce", "--in-flight", 256, "--warm-up", 0, "--seconds", side.options.seconds * 2)
    result["receive"] = side.timed("consume", "--receivers", 8)


def remoting(side, result, rate):
    result["send_many"] = side.timed("produce", "--in-flight", 1024)
    paced(side, result, rate or half(result["send"], result["send_many"]))
    backlog = side.options.backlog
    side.load("produce", "--in-flight", 64, "--batch", FILL_BATCH, "--until", backlog, topic=BACKLOG)
    result["receive"] = side.load("consume", "--from", "earliest", "--until", backlog, topic=BACKLOG)


def paced(side, result, rate):
    result["rate"] = rate
    result["paced"] = side.timed("produce", "--in-flight", 256, "--rate", rate)


def half(*loads):
    return int(max(load["per_second"] for load in loads) / 2)


MORE = {"grpc": grpc, "remoting": remoting}
