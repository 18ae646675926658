package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// retryDlq: a listener that fails until the message is dead.
func retryDlq(l *lab) string {
	good := &inbox{}
	var mutex sync.Mutex
	var attempts []int32
	l.consume(l.group, l.topic, everything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if labelOf(message) == "bad" {
				mutex.Lock()
				attempts = append(attempts, message.ReconsumeTimes)
				mutex.Unlock()
				return consumer.ConsumeRetryLater, nil
			}
			good.add(message)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithMaxReconsumeTimes(2))
	p := l.producer()
	sent := send(p, l.message("bad").WithTag("t").WithKeys([]string{"k"}))
	send(p, l.message("good"))

	dead := "%DLQ%" + l.group
	l.now("waiting for the dead letter")
	letters := &inbox{}
	// Start fails while the topic does not exist.
	check(eventually(90*time.Second, func() bool { return l.startReader(dead, letters) }), "no %s", dead)
	letter := letters.get("bad", 60*time.Second).message
	mutex.Lock()
	defer mutex.Unlock()
	check(slices.Equal(attempts, []int32{0, 1, 2}), "reconsume times %v", attempts)
	check(letter.Topic == dead && letter.GetTags() == "t" && letter.GetKeys() == "k", "topic %s, tag %s, keys %s", letter.Topic, letter.GetTags(), letter.GetKeys())
	check(letter.GetProperty("RETRY_TOPIC") == l.topic, "RETRY_TOPIC is %s", letter.GetProperty("RETRY_TOPIC"))
	check(letter.GetProperty("ORIGIN_MESSAGE_ID") == sent.OffsetMsgID, "ORIGIN_MESSAGE_ID is %s, sent as %s",
		letter.GetProperty("ORIGIN_MESSAGE_ID"), sent.OffsetMsgID)
	check(string(letter.Body) == "bad", "the body changed")
	check(slices.Equal(good.labels(), []string{"good"}), "the healthy message came as %v", good.labels())
	return ""
}

func (l *lab) startReader(topic string, i *inbox) (started bool) {
	defer func() {
		if thrown := recover(); thrown != nil {
			if _, expected := thrown.(broken); !expected {
				panic(thrown)
			}
			time.Sleep(500 * time.Millisecond)
		}
	}()
	l.consume(l.group+"-reader", topic, everything, into(i))
	return true
}
