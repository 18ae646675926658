package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// pullAssign: the client has no assign; PullFrom takes any queue and offset.
func pullAssign(l *lab) string {
	p := l.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	queue := primitive.MessageQueue{Topic: l.topic, BrokerName: brokerName(l), QueueId: 1}
	for _, label := range labels("m", 10) {
		message := l.message(label)
		message.Queue = &queue
		send(p, message)
	}
	c, err := rocketmq.NewPullConsumer(l.consumerOptions(l.group)...)
	must(err, "new pull consumer")
	must(c.Subscribe(l.topic, everything), "subscribe")
	must(c.Start(), "start pull consumer")
	l.stopLater(c.Shutdown)
	check(slices.Equal(pullFrom(c, queue, 0, 32), labels("m", 10)), "not all from the beginning")
	tail := pullFrom(c, queue, 7, 2)
	check(slices.Equal(tail, []string{"m7", "m8"}), "two from 7 on: %v", tail)
	return ""
}

func pullFrom(c rocketmq.PullConsumer, queue primitive.MessageQueue, offset int64, max int) []string {
	result, err := c.PullFrom(context.Background(), &queue, offset, max)
	must(err, "pull")
	check(result.Status == primitive.PullFound, "pull status %v", result.Status)
	var found []string
	for _, message := range result.GetMessageExts() {
		found = append(found, labelOf(message))
	}
	check(result.NextBeginOffset == offset+int64(len(found)), "next offset is %d", result.NextBeginOffset)
	return found
}

func pullSubscribe(l *lab) string {
	p := l.producer()
	for _, label := range labels("m", count) {
		send(p, l.message(label))
	}
	one := subscribed(l)
	got := poll(one, count)
	check(slices.Equal(sorted(got), sorted(labels("m", count))), "got %v", got)
	l.now("waiting for the offsets it left")
	must(one.Shutdown(), "shutdown")
	// The client sends them without waiting for an answer, so somebody else must look.
	check(eventually(30*time.Second, func() bool {
		progress := control("INTEROP_MQADMIN", "consumerProgress", "-n", os.Getenv("INTEROP_NAMESRV"), "-g", l.group)
		return strings.Contains(progress, l.topic) && strings.Contains(progress, "Consume Diff Total: 0")
	}), "the offsets are not stored")
	for _, label := range labels("n", 10) {
		send(p, l.message(label))
	}
	l.now("resuming")
	other := subscribed(l)
	l.stopLater(other.Shutdown)
	rest := poll(other, 10)
	check(slices.Equal(sorted(rest), sorted(labels("n", 10))), "after the resume: %v", rest)
	return ""
}

func subscribed(l *lab) rocketmq.PullConsumer {
	c, err := rocketmq.NewPullConsumer(l.consumerOptions(l.group, consumer.WithAutoCommit(true))...)
	must(err, "new pull consumer")
	must(c.Subscribe(l.topic, everything), "subscribe")
	must(c.Start(), "start pull consumer")
	return c
}

// poll polls until so many came, and then a little longer, in case there are more.
func poll(c rocketmq.PullConsumer, wanted int) []string {
	var got []string
	deadline := time.Now().Add(60 * time.Second)
	for extra := false; !extra; {
		extra = len(got) >= wanted || time.Now().After(deadline)
		request, err := c.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		must(err, "poll")
		for _, message := range request.GetMsgList() {
			got = append(got, fmt.Sprint(labelOf(message)))
		}
		c.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	return got
}
