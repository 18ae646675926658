"""Server-side filtering by tag and by SQL expression."""

from rocketmq import FilterExpression
from rocketmq.grpc_protocol import FilterType

from clients import bodies, leftovers, receive
from harness import check_equal


def tag_filter(clients):
    def tag(name):
        return f"{clients.tag}-{name}"

    consumer = clients.simple_consumer(filter=FilterExpression(f"{tag('A')} || {tag('B')}"))
    producer = clients.producer()
    for name in "ACBCA":
        message = clients.message(name)
        message.tag = tag(name)
        producer.send(message)
    expect_bodies(consumer, ["A", "A", "B"])


def sql_filter(clients):
    expression = (f"run = '{clients.tag}' AND price BETWEEN 10 AND 20 AND color IN ('red', 'blue')"
                  " AND hidden IS NULL")
    consumer = clients.simple_consumer(filter=FilterExpression(expression, FilterType.SQL))
    producer = clients.producer()

    def send(body, **properties):
        message = clients.message(body)
        for key, value in {"run": clients.tag, **properties}.items():
            message.add_property(key, value)
        producer.send(message)

    send("fits", price="10", color="red")
    send("too dear", price="21", color="red")
    send("wrong color", price="15", color="green")
    send("no price", color="red")
    send("hidden", price="15", color="red", hidden="yes")
    send("fits too", price="20", color="blue")
    expect_bodies(consumer, ["fits", "fits too"])


def expect_bodies(consumer, expected):
    check_equal(sorted(bodies(receive(consumer, len(expected)))), expected, "bodies that passed the filter")
    check_equal(leftovers(consumer), [], "bodies after the expected ones")
