package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// One end speaks Remoting, the other gRPC; `-out` is the way to gRPC, `-in` the way back.

const shardingKey = "__SHARDINGKEY"

func crossNormal(l *lab) string {
	out := l.topic + "-out"
	p := l.producer()
	v := l.grpcListen(out, func() { send(p, messageTo(out, primerLabel)) })
	message := messageTo(out, "one").WithTag("t").WithKeys([]string{"k1", "k2"})
	message.WithProperty("colour", "grün ✓")
	sent := send(p, message)
	view, _ := v.get("one")
	check(view.GetTag() != nil && *view.GetTag() == "t", "tag over gRPC is %v", view.GetTag())
	check(slices.Equal(sorted(view.GetKeys()), []string{"k1", "k2"}), "keys over gRPC are %v", view.GetKeys())
	check(view.GetProperties()["colour"] == "grün ✓", "properties over gRPC are %v", view.GetProperties())
	check(string(view.GetBody()) == "one", "the body over gRPC changed")
	check(view.GetMessageId() == sent.MsgID, "id over gRPC %s, sent as %s", view.GetMessageId(), sent.MsgID)

	in := l.topic + "-in"
	i := &inbox{}
	l.consume(in, in, everything, into(i))
	other := grpcMessage(in, "two")
	other.SetTag("t")
	other.SetKeys("k1", "k2")
	other.AddProperty("colour", "grün ✓")
	receipt := grpcSend(l.grpcProducer(in), other)
	got := i.get("two", 30*time.Second).message
	check(got.GetTags() == "t", "tag over Remoting is %s", got.GetTags())
	check(slices.Equal(sorted(strings.Fields(got.GetKeys())), []string{"k1", "k2"}), "keys over Remoting are %s", got.GetKeys())
	check(got.GetProperty("colour") == "grün ✓", "properties over Remoting are %v", got.GetProperties())
	check(string(got.Body) == "two", "the body over Remoting changed")
	check(got.MsgId == receipt.MessageID, "id over Remoting %s, sent as %s", got.MsgId, receipt.MessageID)
	i.exactly([]string{"two"}, 5*time.Second)
	return ""
}

func crossFifo(l *lab) string {
	const each = 10
	groups := []string{"red", "blue"}
	out := l.topic + "-out"
	p := l.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	v := l.grpcListen(out, func() { sharded(p, out, primerLabel, "primers") })
	for n := range each {
		for _, group := range groups {
			sharded(p, out, fmt.Sprint(group, n), group)
		}
	}
	eventually(40*time.Second, func() bool { return len(v.labels()) >= len(groups)*each })
	for _, group := range groups {
		of := slices.DeleteFunc(v.labels(), func(label string) bool { return !strings.HasPrefix(label, group) })
		check(slices.Equal(of, labels(group, each)), "over gRPC: %v", of)
		view, _ := v.get(group + "0")
		check(view.GetMessageGroup() != nil && *view.GetMessageGroup() == group, "message group over gRPC is %v", view.GetMessageGroup())
	}

	in := l.topic + "-in"
	i := &inbox{}
	l.consume(in, in, everything, into(i), consumer.WithConsumerOrder(true))
	other := l.grpcProducer(in)
	for n := range each {
		for _, group := range groups {
			message := grpcMessage(in, fmt.Sprint(group, n))
			message.SetMessageGroup(group)
			grpcSend(other, message)
		}
	}
	eventually(60*time.Second, func() bool { return i.size() >= len(groups)*each })
	for _, group := range groups {
		of := slices.DeleteFunc(i.labels(), func(label string) bool { return !strings.HasPrefix(label, group) })
		check(slices.Equal(of, labels(group, each)), "over Remoting: %v", of)
		got := i.get(group+"0", time.Second).message
		check(got.GetProperty(shardingKey) == group, "%s over Remoting is %s", shardingKey, got.GetProperty(shardingKey))
	}
	return ""
}

// sharded sends with the key the client chooses the queue by, and the one that 5.x clients know as the message group.
func sharded(p rocketmq.Producer, topic, label, group string) {
	send(p, withProperty(messageTo(topic, label).WithShardingKey(group), shardingKey, group))
}

func crossDelay(l *lab) string {
	out := l.topic + "-out"
	p := l.producer()
	// The topic takes delayed messages only, so the primers are delayed too.
	v := l.grpcListen(out, func() { send(p, messageTo(out, primerLabel).WithDelayTimeLevel(1)) })
	due := time.Now().Add(levels[1])
	send(p, messageTo(out, "level").WithDelayTimeLevel(2))
	_, at := v.get("level")
	late := at.Sub(due)
	check(late > -time.Millisecond && late < lateMax, "%d ms late over gRPC", late.Milliseconds())

	in := l.topic + "-in"
	i := &inbox{}
	l.consume(in, in, everything, into(i))
	message := grpcMessage(in, "later")
	due = time.Now().Add(3500 * time.Millisecond)
	message.SetDelayTimestamp(due)
	grpcSend(l.grpcProducer(in), message)
	back := i.get("later", 30*time.Second).at.Sub(due)
	early := time.Millisecond
	if !onRedstart {
		// Apache rounds down to a second.
		early = 1001 * time.Millisecond
	}
	check(back > -early && back < lateMax, "%d ms late over Remoting", back.Milliseconds())
	i.exactly([]string{"later"}, 5*time.Second)
	return fmt.Sprintf("%d and %d ms late", late.Milliseconds(), back.Milliseconds())
}

func crossTransaction(l *lab) string {
	out := l.topic + "-out"
	p := l.transactional(decisions{func(label string) primitive.LocalTransactionState {
		if label == "dropped" {
			return primitive.RollbackMessageState
		}
		return primitive.CommitMessageState
	}, always(primitive.UnknowState)})
	v := l.grpcListen(out, func() { half(p, messageTo(out, primerLabel)) })
	half(p, messageTo(out, "dropped"))
	half(p, messageTo(out, "kept"))
	v.get("kept")
	check(slices.Equal(v.labels(), []string{"kept"}), "over gRPC: %v", v.labels())

	in := l.topic + "-in"
	i := &inbox{}
	l.consume(in, in, everything, into(i))
	other := l.grpcProducer(in)
	must(grpcHalf(other, grpcMessage(in, "dropped")).RollBack(), "rollback")
	kept := grpcHalf(other, grpcMessage(in, "kept"))
	check(!eventually(2*time.Second, func() bool { return i.size() > 0 }), "visible over Remoting before the commit")
	must(kept.Commit(), "commit")
	i.get("kept", 30*time.Second)
	i.exactly([]string{"kept"}, 5*time.Second)
	return ""
}

func grpcHalf(p rmq.Producer, message *rmq.Message) rmq.Transaction {
	transaction := p.BeginTransaction()
	_, err := p.SendWithTransaction(context.Background(), message, transaction)
	must(err, "send half message over gRPC")
	return transaction
}
