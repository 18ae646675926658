"""Plain messages: everything a producer sets arrives as it was."""

import socket

from clients import ENDPOINT, receive
from harness import check, check_equal


def normal(clients):
    consumer = clients.simple_consumer()
    producer = clients.producer()
    body = bytes(range(256))
    sent = clients.message(body)
    sent.keys = "order-1"
    sent.keys = "customer-2"  # the setter adds
    sent.add_property("color", "red")
    sent.add_property("größe", "✓ 42")
    receipt = producer.send(sent)

    arrivals = receive(consumer, 1)
    check_equal(len(arrivals), 1, "number of messages")
    message = arrivals[0].message
    check_equal(message.message_id, receipt.message_id, "message id")
    check_equal(message.topic, clients.topic, "topic")
    check_equal(message.tag, clients.tag, "tag")
    check_equal(set(message.keys), {"order-1", "customer-2"}, "keys")
    check_equal(dict(message.properties), {"color": "red", "größe": "✓ 42"}, "properties")
    check(message.body == body, "the body changed")
    check(not message.corrupted, "the body digest does not match")
    check_equal(message.delivery_attempt, 1, "delivery attempt")


def plaintext(clients):
    """The port answers HTTP/2 without TLS: a raw preface first, then the client with TLS off."""
    check_equal(first_frame_type(), 4, "type of the first frame after a clear-text HTTP/2 preface (4 is SETTINGS)")
    receipt = clients.producer().send(clients.message("in the clear"))
    check(receipt.message_id, "no message id")


def first_frame_type():
    host, port = ENDPOINT.rsplit(":", 1)
    empty_settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + empty_settings)
        header = b""
        while len(header) < 9:
            chunk = connection.recv(9 - len(header))
            check(chunk, "closed before a whole frame header")
            header += chunk
        return header[3]
