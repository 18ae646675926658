package main

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// The other end of a cross-protocol pair: the 5.x client, over gRPC.

const primerLabel = "primer"

func grpcConfig(group string) *rmq.Config {
	return &rmq.Config{Endpoint: os.Getenv("INTEROP_ENDPOINT"), ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

func (l *lab) grpcProducer(topic string) rmq.Producer {
	checker := &rmq.TransactionChecker{Check: func(*rmq.MessageView) rmq.TransactionResolution { return rmq.UNKNOWN }}
	p, err := rmq.NewProducer(grpcConfig(""), rmq.WithTopics(topic), rmq.WithTransactionChecker(checker))
	must(err, "new gRPC producer")
	p.SetRequestTimeout(requestTimeout)
	must(p.Start(), "start gRPC producer")
	l.stopLater(p.GracefulStop)
	return p
}

func grpcMessage(topic, label string) *rmq.Message {
	message := &rmq.Message{Topic: topic, Body: []byte(label)}
	message.AddProperty(labelKey, label)
	return message
}

func grpcSend(p rmq.Producer, message *rmq.Message) *rmq.SendReceipt {
	receipts, err := p.Send(context.Background(), message)
	must(err, "send over gRPC")
	return receipts[0]
}

type views struct {
	mutex sync.Mutex
	list  []*rmq.MessageView
	times []time.Time
}

func (v *views) add(message *rmq.MessageView) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.list = append(v.list, message)
	v.times = append(v.times, time.Now())
}

func (v *views) all() ([]*rmq.MessageView, []time.Time) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return slices.Clone(v.list), slices.Clone(v.times)
}

func (v *views) labels() []string {
	var labels []string
	messages, _ := v.all()
	for _, message := range messages {
		labels = append(labels, message.GetProperties()[labelKey])
	}
	return labels
}

func (v *views) get(label string) (*rmq.MessageView, time.Time) {
	check(eventually(40*time.Second, func() bool { return slices.Contains(v.labels(), label) }), "%s did not come over gRPC, only %v", label, v.labels())
	messages, times := v.all()
	index := slices.Index(v.labels(), label)
	return messages[index], times[index]
}

// grpcListen starts a push consumer of the group and topic of this name, and returns when it receives: a new group begins
// at the newest message of its first receive, so primers are sent until one arrives. They are left out of the list.
func (l *lab) grpcListen(name string, sendPrimer func()) *views {
	v := &views{}
	var primed atomic.Bool
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		if message.GetProperties()[labelKey] == primerLabel {
			primed.Store(true)
		} else {
			v.add(message)
		}
		return rmq.SUCCESS
	}
	c, err := rmq.NewPushConsumer(grpcConfig(name), rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{name: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	must(err, "new gRPC push consumer")
	must(c.Start(), "start gRPC push consumer")
	l.stopLater(c.GracefulStop)
	l.now("waiting for the first message over gRPC")
	for deadline := time.Now().Add(time.Minute); !primed.Load(); time.Sleep(500 * time.Millisecond) {
		check(time.Now().Before(deadline), "no primer arrived over gRPC")
		sendPrimer()
	}
	l.now("working")
	return v
}
