package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

const lateMax = 5 * time.Second

func delay(l *lab) string {
	producer := l.producer(l.topic)
	r := l.reader().primed(func() { send(producer, after(l, primerLabel, 0)) })
	// The later one first: the order of sending must not matter.
	send(producer, after(l, "second", 4321*time.Millisecond))
	send(producer, after(l, "first", 2345*time.Millisecond))
	var latest time.Duration
	for _, expected := range []string{"first", "second"} {
		got := r.one(invisible, 15*time.Second)
		late := time.Since(*got.GetDeliveryTimestamp())
		check(mustLabel(got) == expected, "%s came instead of %s", mustLabel(got), expected)
		check(late >= 0, "%v early", -late)
		check(late <= lateMax, "%v late", late)
		latest = max(latest, late)
		r.ack(got)
	}
	return fmt.Sprintf("%d ms late", latest.Milliseconds())
}

func recall(l *lab) string {
	producer := l.producer(l.topic)
	r := l.reader().primed(func() { send(producer, after(l, primerLabel, 0)) })
	recalled := send(producer, after(l, "recalled", 5*time.Second))
	kept := send(producer, after(l, "kept", 5*time.Second))
	send(producer, after(l, "last", 8*time.Second))
	id, err := producer.Recall(context.Background(), l.topic, recalled.RecallHandle)
	must(err, "recall")
	check(id == recalled.MessageID, "recalled another message")
	got := r.until("last", 30*time.Second)
	check(slices.Equal(got, []string{"kept", "last"}), "got %v", got)
	_, err = producer.Recall(context.Background(), l.topic, kept.RecallHandle)
	check(err != nil, "recalled a delivered message")
	return ""
}

func after(l *lab, label string, wait time.Duration) *rmq.Message {
	message := l.message(label)
	message.SetDelayTimestamp(time.Now().Add(wait))
	return message
}
