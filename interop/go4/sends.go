package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const count = 20

func everyByte() []byte {
	body := make([]byte, 256)
	for i := range body {
		body[i] = byte(i)
	}
	return body
}

func sendSync(l *lab) string {
	i := l.listen()
	p := l.producer()
	message := l.message("one").WithTag("red").WithKeys([]string{"k1", "k2"})
	message.WithProperty("colour", "grün ✓")
	message.Body = everyByte()
	sent := send(p, message)
	got := i.get("one", 30*time.Second).message
	check(got.MsgId == sent.MsgID, "message id %s instead of %s", got.MsgId, sent.MsgID)
	check(got.OffsetMsgId == sent.OffsetMsgID, "offset id %s instead of %s", got.OffsetMsgId, sent.OffsetMsgID)
	check(got.Queue.QueueId == sent.MessageQueue.QueueId && got.QueueOffset == sent.QueueOffset, "queue %d, offset %d", got.Queue.QueueId, got.QueueOffset)
	check(got.Topic == l.topic && got.GetTags() == "red", "topic %s, tag %s", got.Topic, got.GetTags())
	check(strings.TrimSpace(got.GetKeys()) == "k1 k2", "keys are %q", got.GetKeys())
	check(got.GetProperty("colour") == "grün ✓", "properties are %v", got.GetProperties())
	check(bytes.Equal(got.Body, everyByte()), "the body changed")
	check(got.ReconsumeTimes == 0 && slices.Contains(brokers, got.StoreHost), "reconsumed %d, store host %s", got.ReconsumeTimes, got.StoreHost)

	queues := map[string]bool{}
	for _, label := range labels("m", count) {
		queue := send(p, l.message(label)).MessageQueue
		queues[fmt.Sprint(queue.BrokerName, " ", queue.QueueId)] = true
	}
	check(len(queues) == 4*len(brokers), "only queues %v were written", queues)
	i.exactly(append(labels("m", count), "one"), 30*time.Second)
	return ""
}

func sendAsync(l *lab) string {
	i := l.listen()
	p := l.producer()
	var mutex sync.Mutex
	var results []string
	for _, label := range labels("m", count) {
		must(p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				results = append(results, err.Error())
			} else {
				results = append(results, fmt.Sprint("status ", result.Status))
			}
		}, l.message(label)), "send async")
	}
	seen := func() []string { mutex.Lock(); defer mutex.Unlock(); return slices.Clone(results) }
	check(eventually(30*time.Second, func() bool { return len(seen()) == count }), "%d of %d callbacks", len(seen()), count)
	ok := fmt.Sprint("status ", primitive.SendOK)
	check(!slices.ContainsFunc(seen(), func(one string) bool { return one != ok }), "results %v", seen())
	i.exactly(labels("m", count), 30*time.Second)
	return ""
}

func sendOneway(l *lab) string {
	i := l.listen()
	p := l.producer()
	for _, label := range labels("m", count) {
		must(p.SendOneWay(context.Background(), l.message(label)), "send one-way")
	}
	i.exactly(labels("m", count), 30*time.Second)
	return ""
}

func sendBatch(l *lab) string {
	i := l.listen()
	var messages []*primitive.Message
	for _, label := range labels("m", count) {
		messages = append(messages, l.message(label).WithTag("t-"+label).WithKeys([]string{"k-" + label}))
	}
	sent := send(l.producer(), messages...)
	i.exactly(labels("m", count), 30*time.Second)
	for _, arrival := range i.all() {
		label := labelOf(arrival.message)
		index := slices.Index(labels("m", count), label)
		check(arrival.message.QueueOffset == sent.QueueOffset+int64(index), "%s is at %d", label, arrival.message.QueueOffset)
		check(arrival.message.GetTags() == "t-"+label, "%s has tag %s", label, arrival.message.GetTags())
	}
	check(len(strings.Split(sent.OffsetMsgID, ",")) == count, "offset ids are %s", sent.OffsetMsgID)
	return ""
}

// vipChannel uses the second port, two below the broker's.
func vipChannel(l *lab) string {
	i := l.listen()
	send(l.producer(producer.WithVIPChannel(true)), l.message("one"))
	i.exactly([]string{"one"}, 30*time.Second)
	return ""
}

func unknownTopic(l *lab) string {
	_, err := l.producer().SendSync(context.Background(), messageTo("go4-no-such-topic", "lost"))
	check(err != nil, "accepted")
	return err.Error()
}
