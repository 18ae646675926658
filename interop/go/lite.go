package main

import (
	"slices"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// litePush: a consumer gets the lite topics it has subscribed to, each in order, and one that is stuck stands alone.
func litePush(l *lab) string {
	var done journal
	var failed, released atomic.Bool
	producer := l.producer(l.topic)
	stuck, healthy, other := unique("stuck"), unique("healthy"), unique("other")
	// Before anybody has subscribed: a lite topic is often made by its first message.
	sendLite(l, producer, other, labels("other", 1))
	sendLite(l, producer, healthy, labels("healthy", 3))

	l.now("starting the lite push consumer")
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		label, _ := labelOf(message)
		if label == "stuck0" && !released.Load() {
			failed.Store(true)
			return rmq.FAILURE
		}
		done.add(label + " of " + message.GetLiteTopic())
		return rmq.SUCCESS
	}
	consumer, err := rmq.NewLitePushConsumer(l.config(l.group), rmq.NewLitePushConsumerConfig(l.topic, time.Minute),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	must(err, "new lite push consumer")
	must(consumer.Start(), "start lite push consumer")
	l.stopLater(consumer.GracefulStop)
	must(consumer.SubscribeLite(healthy), "subscribe")
	must(consumer.SubscribeLite(stuck), "subscribe")
	expect := func(expected []string) {
		eventually(40*time.Second, func() bool { return len(done.all()) >= len(expected) })
		check(slices.Equal(done.all(), expected), "expected %v, got %v", expected, done.all())
	}
	l.now("waiting for what was sent before")
	expect(of(healthy, labels("healthy", 3)))

	l.now("waiting for the first failure")
	sendLite(l, producer, stuck, labels("stuck", 3))
	check(eventually(30*time.Second, failed.Load), "the first message did not come")
	l.now("waiting for the healthy lite topic")
	sendLite(l, producer, other, labels("other", 2)[1:])
	sendLite(l, producer, healthy, labels("healthy", 8)[3:])
	expect(of(healthy, labels("healthy", 8)))
	released.Store(true)
	l.now("waiting for the stuck lite topic")
	all := append(of(healthy, labels("healthy", 8)), of(stuck, labels("stuck", 3))...)
	expect(all)

	l.now("unsubscribing")
	must(consumer.UnSubscribeLite(healthy), "unsubscribe")
	sendLite(l, producer, healthy, labels("healthy", 9)[8:])
	sendLite(l, producer, stuck, labels("stuck", 4)[3:])
	all = append(all, of(stuck, labels("stuck", 4)[3:])...)
	expect(all)
	time.Sleep(3 * time.Second)
	expect(all)
	return ""
}

// unique names a lite topic of this run.
func unique(name string) string { return name + "-" + runID }

func sendLite(l *lab, producer rmq.Producer, lite string, labels []string) {
	for _, label := range labels {
		message := l.message(label)
		message.SetLiteTopic(lite)
		send(producer, message)
	}
}

func of(lite string, labels []string) []string {
	var lines []string
	for _, label := range labels {
		lines = append(lines, label+" of "+lite)
	}
	return lines
}

func noLiteSimple(*lab) string {
	panic(skipped("lite simple consumers are in no released version (client lacks the feature)"))
}
