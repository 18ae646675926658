package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func requestReply(l *lab) string {
	replies := l.producer()
	l.consume(l.group, l.topic, everything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if labelOf(message) == "silence" {
				continue
			}
			// The client (2.1.2, CreateReplyMessage) takes the body for properties, so it is set once more.
			body := []byte("re: " + string(message.Body))
			reply, err := consumer.CreateReplyMessage(message, body)
			if err == nil {
				reply.Body = body
				_, err = replies.SendSync(context.Background(), reply)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, l.topic, "reply:", err)
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	p := l.producer()
	l.now("requesting")
	var answer *primitive.Message
	var err error
	eventually(60*time.Second, func() bool {
		answer, err = p.Request(context.Background(), 5*time.Second, l.message("one"))
		return err == nil
	})
	must(err, "request")
	check(string(answer.Body) == "re: one", "the reply is %q", answer.Body)
	_, err = p.Request(context.Background(), 2*time.Second, l.message("silence"))
	check(err != nil, "a reply that nobody sent")
	return ""
}
