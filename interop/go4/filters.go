package main

import (
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// The topics have one queue, so the last message proves that nothing unwanted was delivered before it.

func tagFilter(l *lab) string {
	tagged := func(label, tag string) *primitive.Message { return l.message(label).WithTag(tag) }
	// `BB` and `Aa` have the same hash, which is all that the server may look at.
	return filter(l, consumer.MessageSelector{Type: consumer.TAG, Expression: "a || b || Aa"}, []*primitive.Message{
		tagged("a1", "a"), tagged("c1", "c"), l.message("none"), tagged("A1", "A"), tagged("b1", "b"),
		tagged("twin", "BB"), tagged("Aa1", "Aa"), tagged("last", "a"),
	}, []string{"a1", "b1", "Aa1", "last"})
}

func sqlFilter(l *lab) string {
	order := func(label, region, amount string) *primitive.Message {
		message := l.message(label)
		message.WithProperty("region", region)
		message.WithProperty("amount", amount)
		return message
	}
	expression := "(region = 'eu' AND amount BETWEEN 10 AND 20) OR TAGS = 'vip'"
	return filter(l, consumer.MessageSelector{Type: consumer.SQL92, Expression: expression}, []*primitive.Message{
		order("in", "eu", "15"), order("far", "us", "15"), order("more", "eu", "21"), order("word", "eu", "many"),
		l.message("bare"), order("vip", "us", "1").WithTag("vip"), order("edge", "eu", "20"), l.message("last").WithTag("vip"),
	}, []string{"in", "vip", "edge", "last"})
}

func filter(l *lab, selector consumer.MessageSelector, messages []*primitive.Message, wanted []string) string {
	i := &inbox{}
	// One goroutine keeps the order.
	l.consume(l.group, l.topic, selector, into(i), consumer.WithConsumeGoroutineNums(1))
	p := l.producer()
	for _, message := range messages {
		send(p, message)
	}
	i.get("last", 40*time.Second)
	check(slices.Equal(i.labels(), wanted), "got %v instead of %v", i.labels(), wanted)
	return ""
}
