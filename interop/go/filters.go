package main

import (
	"slices"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// The topics of these scenarios have one queue, so the last message proves that nothing unwanted came before it.

func tagFilter(l *lab) string {
	return filterWith(l, rmq.NewFilterExpression("a || b"), "a", []*rmq.Message{
		tagged(l.message("a1"), "a"), tagged(l.message("c1"), "c"), l.message("none"),
		tagged(l.message("A1"), "A"), tagged(l.message("b1"), "b"), tagged(l.message("last"), "a"),
	}, []string{"a1", "b1", "last"})
}

func sqlFilter(l *lab) string {
	filter := rmq.NewFilterExpressionWithType(
		"(region = 'eu' AND amount BETWEEN 10 AND 20) OR TAGS = 'vip'", rmq.SQL92)
	return filterWith(l, filter, "vip", []*rmq.Message{
		order(l, "in", "eu", "15"), order(l, "far", "us", "15"), order(l, "more", "eu", "21"),
		order(l, "word", "eu", "many"), l.message("bare"), tagged(order(l, "vip", "us", "1"), "vip"),
		order(l, "edge", "eu", "20"), tagged(l.message("last"), "vip"),
	}, []string{"in", "vip", "edge", "last"})
}

func tagged(message *rmq.Message, tag string) *rmq.Message {
	message.SetTag(tag)
	return message
}

func order(l *lab, label, region, amount string) *rmq.Message {
	message := l.message(label)
	message.AddProperty("region", region)
	message.AddProperty("amount", amount)
	return message
}

func filterWith(l *lab, filter *rmq.FilterExpression, primerTag string, messages []*rmq.Message, wanted []string) string {
	producer := l.producer(l.topic)
	r, err := l.readerOf(l.group, l.topic, filter)
	must(err, "simple consumer")
	r.primed(func() { send(producer, tagged(l.message(primerLabel), primerTag)) })
	for _, message := range messages {
		send(producer, message)
	}
	got := r.until("last", 40*time.Second)
	check(slices.Equal(got, wanted), "got %v instead of %v", got, wanted)
	return ""
}
