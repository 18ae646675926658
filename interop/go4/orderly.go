package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// orderly: one queue is stuck on its first message while the others go on, each in its order.
func orderly(l *lab) string {
	const queues, each = 4, 10
	i := &inbox{}
	var released atomic.Bool
	var attempts atomic.Int32
	l.consume(l.group, l.topic, everything, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if labelOf(message) == "q0-0" && !released.Load() {
				attempts.Add(1)
				// Without it the client tries again at once.
				if orderly, ok := primitive.GetOrderlyCtx(ctx); ok {
					orderly.SuspendCurrentQueueTimeMillis = 1000
				}
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			i.add(message)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true), consumer.WithMaxReconsumeTimes(100))
	p := l.producer(producer.WithQueueSelector(producer.NewManualQueueSelector()))
	name := brokerName(l)
	for n := range each {
		for queue := range queues {
			message := l.message(fmt.Sprintf("q%d-%d", queue, n))
			message.Queue = &primitive.MessageQueue{Topic: l.topic, BrokerName: name, QueueId: queue}
			send(p, message)
		}
	}
	of := func(queue int) []string {
		return slices.DeleteFunc(i.labels(), func(label string) bool { return !strings.HasPrefix(label, fmt.Sprintf("q%d-", queue)) })
	}
	l.now("waiting for the healthy queues")
	eventually(60*time.Second, func() bool { return i.size() == (queues-1)*each && attempts.Load() >= 2 })
	for queue := 1; queue < queues; queue++ {
		check(slices.Equal(of(queue), labels(fmt.Sprintf("q%d-", queue), each)), "queue %d gave %v", queue, of(queue))
	}
	check(len(of(0)) == 0 && attempts.Load() >= 2, "the stuck queue gave %v after %d attempts", of(0), attempts.Load())
	released.Store(true)
	l.now("waiting for the stuck queue")
	eventually(40*time.Second, func() bool { return len(of(0)) == each })
	check(slices.Equal(of(0), labels("q0-", each)), "after its release: %v", of(0))
	check(i.size() == queues*each, "%d deliveries", i.size())
	return ""
}

// brokerName is what the route calls the broker.
func brokerName(l *lab) string {
	return send(l.producer(), messageTo("go4-probe", "probe")).MessageQueue.BrokerName
}

func broadcast(l *lab) string {
	inboxes := []*inbox{{}, {}}
	for _, i := range inboxes {
		l.consume(l.group, l.topic, everything, into(i), consumer.WithConsumerModel(consumer.BroadCasting))
	}
	p := l.producer()
	for _, label := range labels("m", count) {
		send(p, l.message(label))
	}
	for _, i := range inboxes {
		i.exactly(labels("m", count), 30*time.Second)
	}
	return ""
}
