"""Half messages: invisible until decided, dropped on rollback, asked about when the producer stays silent."""

import time

from rocketmq import TransactionChecker, TransactionResolution

from clients import bodies, leftovers, receive
from harness import check, check_equal

UNKNOWN = TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED


class Checker(TransactionChecker):
    """`answer` is for this run's messages; those of broken earlier runs are rolled back, to be rid of them."""

    def __init__(self, tag, answer):
        self.asked = []
        self._tag = tag
        self._answer = answer

    def check(self, message):
        if message.tag != self._tag:
            return TransactionResolution.ROLLBACK
        self.asked.append(message.message_id)
        return self._answer


def commit(clients):
    consumer = clients.simple_consumer()
    producer = clients.producer(checker=Checker(clients.tag, UNKNOWN))
    transaction = producer.begin_transaction()
    receipt = producer.send(clients.message("committed"), transaction)
    check(receipt.transaction_id, "no transaction id")
    check_equal(leftovers(consumer), [], "bodies before the commit")
    transaction.commit()
    ids = [arrival.message.message_id for arrival in receive(consumer, 1)]
    check_equal(ids, [receipt.message_id], "ids after the commit")


def rollback(clients):
    consumer = clients.simple_consumer()
    producer = clients.producer(checker=Checker(clients.tag, UNKNOWN))
    dropped = producer.begin_transaction()
    producer.send(clients.message("dropped"), dropped)
    dropped.rollback()
    kept = producer.begin_transaction()
    producer.send(clients.message("kept"), kept)
    kept.commit()
    check_equal(bodies(receive(consumer, 1)), ["kept"], "bodies")
    check_equal(leftovers(consumer), [], "bodies after the committed one")


def check_back(clients):
    checker = Checker(clients.tag, TransactionResolution.COMMIT)
    consumer = clients.simple_consumer()
    producer = clients.producer(checker=checker)
    sent_at = time.time()
    receipt = producer.send(clients.message("undecided"), producer.begin_transaction())
    arrivals = receive(consumer, 1, within=150)
    check_equal([arrival.message.message_id for arrival in arrivals], [receipt.message_id], "ids after the check")
    check(receipt.message_id in checker.asked, "visible although nobody was asked")
    return f"visible after {arrivals[0].at - sent_at:.1f} s, asked {len(checker.asked)} times"
