package main

import (
	"bytes"
	"context"
	"math/rand"
	"slices"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

const bodyBytesMax = 4 * 1024 * 1024

func send(producer rmq.Producer, message *rmq.Message) *rmq.SendReceipt {
	receipts, err := producer.Send(context.Background(), message)
	must(err, "send")
	check(len(receipts) == 1, "%d receipts", len(receipts))
	return receipts[0]
}

// exchange is `normal`, and with the two ways to connect `tls` and `plaintext`.
func exchange(l *lab) string {
	producer := l.producer(l.topic)
	inbox := make(chan *rmq.MessageView, 10)
	l.push(func(_ string, message *rmq.MessageView) bool {
		inbox <- message
		return true
	}, func() { send(producer, l.message(primerLabel)) })

	message := l.message("one")
	message.SetTag("red")
	message.SetKeys("k1", "k2")
	message.AddProperty("colour", "grün ✓")
	message.AddProperty("n", "42")
	message.Body = everyByte()
	receipt := send(producer, message)
	verify(l, <-within(inbox, 20*time.Second), receipt)
	select {
	case <-inbox:
		check(false, "it came twice")
	case <-time.After(time.Second):
	}
	return ""
}

func verify(l *lab, got *rmq.MessageView, receipt *rmq.SendReceipt) {
	check(got != nil, "nothing came")
	properties := got.GetProperties()
	check(got.GetMessageId() == receipt.MessageID, "another message id")
	check(got.GetTopic() == l.topic, "topic is %s", got.GetTopic())
	check(got.GetTag() != nil && *got.GetTag() == "red", "the tag is lost")
	check(slices.Equal(slices.Sorted(slices.Values(got.GetKeys())), []string{"k1", "k2"}), "keys are %v", got.GetKeys())
	check(properties["colour"] == "grün ✓" && properties["n"] == "42", "properties are %v", properties)
	check(len(properties) == 3, "foreign properties in %v", properties)
	check(bytes.Equal(got.GetBody(), everyByte()), "the body changed")
	check(got.GetDeliveryAttempt() == 1, "attempt %d", got.GetDeliveryAttempt())
	check(time.Since(*got.GetBornTimestamp()).Abs() < time.Minute, "born at another time")
}

// within passes the next message on, or nil when the time is over.
func within(inbox <-chan *rmq.MessageView, patience time.Duration) <-chan *rmq.MessageView {
	next := make(chan *rmq.MessageView, 1)
	select {
	case message := <-inbox:
		next <- message
	case <-time.After(patience):
		next <- nil
	}
	return next
}

func bodyLimit(l *lab) string {
	producer := l.producer(l.topic)
	r := l.reader().primed(func() { send(producer, l.message(primerLabel)) })
	message := l.message("largest")
	message.Body = make([]byte, bodyBytesMax)
	rand.New(rand.NewSource(1)).Read(message.Body)
	send(producer, message)
	got := r.one(invisible, 30*time.Second)
	check(bytes.Equal(got.GetBody(), message.Body), "the body changed")
	r.ack(got)
	message = l.message("too large")
	message.Body = make([]byte, bodyBytesMax+1)
	return refused(producer, message)
}

func typeMismatch(l *lab) string {
	normal, fifo := l.topic+"-normal", l.topic+"-fifo"
	producer := l.producer(normal, fifo)
	refused(producer, messageTo(fifo, "no group"))
	refused(producer, inGroup(messageTo(normal, "a group"), "g"))
	// The topics do take what they are for.
	send(producer, messageTo(normal, "plain"))
	send(producer, inGroup(messageTo(fifo, "grouped"), "g"))
	return ""
}

func unknownTopic(l *lab) string {
	// Without a topic that exists the client's start would wait for ever.
	producer := l.producer("go-normal")
	return refused(producer, messageTo("go-no-such-topic", "lost"))
}

func batchSend(*lab) string {
	panic(skipped("the client sends one message a call (client lacks the feature)"))
}

func inGroup(message *rmq.Message, group string) *rmq.Message {
	message.SetMessageGroup(group)
	return message
}

// refused sends what must be refused, and returns how it was.
func refused(producer rmq.Producer, message *rmq.Message) string {
	_, err := producer.Send(context.Background(), message)
	check(err != nil, "accepted: %s", message.GetProperties()[labelKey])
	return err.Error()[:min(len(err.Error()), 100)]
}

func everyByte() []byte {
	body := make([]byte, 256)
	for i := range body {
		body[i] = byte(i)
	}
	return body
}
