package main

import (
	"slices"
	"strconv"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// pushRetryDlq: a listener that always fails; the group allows two retries, a second apart.
func pushRetryDlq(l *lab) string {
	attempts := map[string]*journal{"first": {}, "second": {}}
	producer := l.producer(l.topic)
	l.push(func(label string, message *rmq.MessageView) bool {
		attempts[label].add(strconv.Itoa(int(message.GetDeliveryAttempt())))
		return false
	}, func() { send(producer, l.message(primerLabel)) })

	// The first dead letter makes the topic. The reader's group begins after it, so a second one is read.
	send(producer, l.message("first"))
	l.now("waiting for the dead-letter topic")
	r := deadLetters(l)
	_, err := r.take(1, invisible, time.Second)
	must(err, "receive")
	message := tagged(l.message("second"), "t")
	message.SetKeys("k")
	send(producer, message)
	l.now("waiting for the dead letter")
	dead := next(r, "second")
	for label, seen := range attempts {
		check(slices.Equal(seen.all(), []string{"1", "2", "3"}), "attempts of the %s: %v", label, seen.all())
	}
	check(dead.GetTag() != nil && *dead.GetTag() == "t", "the tag is lost")
	check(slices.Equal(dead.GetKeys(), []string{"k"}), "the keys are lost")
	r.ack(dead)
	return ""
}

func deadLetters(l *lab) *reader {
	deadline := time.Now().Add(60 * time.Second)
	for {
		r, err := l.readerOf(l.group+"-reader", "%DLQ%"+l.group, rmq.SUB_ALL)
		if err == nil {
			return r
		}
		check(time.Now().Before(deadline), "no dead-letter topic: %v", err)
		time.Sleep(500 * time.Millisecond)
	}
}

func next(r *reader, label string) *rmq.MessageView {
	for {
		message := r.one(invisible, 60*time.Second)
		if mustLabel(message) == label {
			return message
		}
		r.ack(message)
	}
}
