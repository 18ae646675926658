package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// Longer than the 60 s that pass before the first check when the server keeps the documented default.
const checkPatience = 100 * time.Second

func undecided(*rmq.MessageView) rmq.TransactionResolution { return rmq.UNKNOWN }

func half(l *lab, producer rmq.Producer, label string) rmq.Transaction {
	transaction := producer.BeginTransaction()
	_, err := producer.SendWithTransaction(context.Background(), l.message(label), transaction)
	must(err, "send half message")
	return transaction
}

func commit(l *lab, producer rmq.Producer, label string) {
	must(half(l, producer, label).Commit(), "commit")
}

func txCommit(l *lab) string {
	producer := l.transactional(undecided)
	r := l.reader().primed(func() { commit(l, producer, primerLabel) })
	transaction := half(l, producer, "one")
	r.nothing(2 * time.Second)
	must(transaction.Commit(), "commit")
	got := r.one(invisible, 20*time.Second)
	check(mustLabel(got) == "one", "got %s", mustLabel(got))
	r.ack(got)
	return ""
}

func txRollback(l *lab) string {
	producer := l.transactional(undecided)
	r := l.reader().primed(func() { commit(l, producer, primerLabel) })
	must(half(l, producer, "dropped").RollBack(), "rollback")
	commit(l, producer, "last")
	got := r.until("last", 30*time.Second)
	check(slices.Equal(got, []string{"last"}), "got %v", got)
	return ""
}

func txCheck(l *lab) string {
	var checks atomic.Int32
	producer := l.transactional(func(message *rmq.MessageView) rmq.TransactionResolution {
		if label, _ := labelOf(message); label != "undecided" {
			return rmq.UNKNOWN
		}
		checks.Add(1)
		return rmq.COMMIT
	})
	r := l.reader().primed(func() { commit(l, producer, primerLabel) })
	sent := time.Now()
	half(l, producer, "undecided")
	l.now("waiting for the check")
	got := r.one(invisible, checkPatience)
	check(mustLabel(got) == "undecided", "got %s", mustLabel(got))
	check(checks.Load() > 0, "visible without a check")
	r.ack(got)
	return fmt.Sprintf("after %.0f s", time.Since(sent).Seconds())
}
