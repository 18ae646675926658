package main

import (
	"context"
	"slices"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// The shortest invisible time the server accepts.
const invisible = 10 * time.Second

// reader is a simple consumer that leaves out the primers.
type reader struct {
	consumer rmq.SimpleConsumer
}

func (l *lab) reader() *reader {
	r, err := l.readerOf(l.group, l.topic, rmq.SUB_ALL)
	must(err, "simple consumer")
	return r
}

func (l *lab) readerOf(group, topic string, filter *rmq.FilterExpression) (*reader, error) {
	consumer, err := rmq.NewSimpleConsumer(l.config(group),
		// The client sends no polling time; the server derives it from the deadline, which is this and the timeout.
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: filter}))
	if err != nil {
		return nil, err
	}
	if err := consumer.Start(); err != nil {
		return nil, err
	}
	l.stopLater(consumer.GracefulStop)
	return &reader{consumer}, nil
}

// receive is one call; nothing found, which the client reports as an error, is an empty result.
func (r *reader) receive(max int32, hidden time.Duration) ([]*rmq.MessageView, error) {
	messages, err := r.consumer.Receive(context.Background(), max, hidden)
	if status, ok := rmq.AsErrRpcStatus(err); ok && status.GetCode() == int32(v2.Code_MESSAGE_NOT_FOUND) {
		return nil, nil
	}
	return messages, err
}

func (r *reader) ack(message *rmq.MessageView) {
	must(r.consumer.Ack(context.Background(), message), "ack")
}

// primed makes sure of a first receive, which is where a new group begins: sends primers until one arrives.
func (r *reader) primed(sendPrimer func()) *reader {
	arrived := make(chan error, 1)
	go func() {
		for {
			messages, err := r.receive(1, invisible)
			for _, message := range messages {
				err = r.consumer.Ack(context.Background(), message)
			}
			if err != nil || len(messages) > 0 {
				arrived <- err
				return
			}
		}
	}()
	for {
		sendPrimer()
		select {
		case err := <-arrived:
			must(err, "first receive")
			return r
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// take returns what arrives first within the time, at most max messages; nothing if nothing does.
func (r *reader) take(max int32, hidden, within time.Duration) ([]*rmq.MessageView, error) {
	deadline := time.Now().Add(within)
	for {
		messages, err := r.receive(max, hidden)
		if err != nil {
			return nil, err
		}
		var taken []*rmq.MessageView
		for _, message := range messages {
			if !isPrimer(message) {
				taken = append(taken, message)
			} else if err := r.consumer.Ack(context.Background(), message); err != nil {
				return nil, err
			}
		}
		if len(taken) > 0 || time.Now().After(deadline) {
			return taken, nil
		}
	}
}

func (r *reader) one(hidden, within time.Duration) *rmq.MessageView {
	taken, err := r.take(1, hidden, within)
	must(err, "receive")
	check(len(taken) == 1, "nothing came within %v", within)
	return taken[0]
}

func (r *reader) nothing(within time.Duration) {
	taken, err := r.take(32, invisible, within)
	must(err, "receive")
	for _, message := range taken {
		check(false, "unexpected: %s", mustLabel(message))
	}
}

// until acknowledges everything up to and including the message with this label; returns the labels.
func (r *reader) until(last string, within time.Duration) []string {
	deadline := time.Now().Add(within)
	var labels []string
	for !slices.Contains(labels, last) {
		check(time.Now().Before(deadline), "%s did not come, only %v", last, labels)
		taken, err := r.take(32, invisible, time.Second)
		must(err, "receive")
		for _, message := range taken {
			labels = append(labels, mustLabel(message))
			r.ack(message)
		}
	}
	return labels
}
