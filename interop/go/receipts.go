package main

import (
	"context"
	"fmt"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

const (
	soon = 20 * time.Second
	// For what must come back: Apache looks for such messages every few seconds.
	again = 40 * time.Second
)

func begin(l *lab) *reader {
	producer := l.producer(l.topic)
	r := l.reader().primed(func() { send(producer, l.message(primerLabel)) })
	send(producer, l.message("one"))
	return r
}

func simpleAck(l *lab) string {
	r := begin(l)
	message := r.one(invisible, soon)
	check(message.GetDeliveryAttempt() == 1, "attempt %d", message.GetDeliveryAttempt())
	r.ack(message)
	l.now("making sure that it stays away")
	r.nothing(invisible + 5*time.Second)
	return ""
}

func simpleNoAck(l *lab) string {
	r := begin(l)
	sent := time.Now()
	first := r.one(invisible, soon)
	l.now("waiting for it to come again")
	second, late := takeAgain(r, first, sent.Add(invisible))
	r.ack(second)
	return fmt.Sprintf("%d ms after its time", late.Milliseconds())
}

func changeInvisible(l *lab) string {
	r := begin(l)
	l.now("waiting for it to come earlier")
	first := r.one(time.Minute, soon)
	now := time.Now()
	must(r.consumer.ChangeInvisibleDuration(first, 3*time.Second), "change")
	second, _ := takeAgain(r, first, now.Add(3*time.Second))

	l.now("waiting for it to come later")
	now = time.Now()
	must(r.consumer.ChangeInvisibleDuration(second, 15*time.Second), "change")
	third, _ := takeAgain(r, second, now.Add(15*time.Second))
	must(r.consumer.ChangeInvisibleDuration(third, 20*time.Second), "change")
	// The client keeps the new handle.
	r.ack(third)
	return ""
}

// staleHandle: the client hides the answer to an ack, so its lack of effect is the proof.
func staleHandle(l *lab) string {
	r := begin(l)
	first := r.one(invisible, soon)
	l.now("waiting for it to come again")
	second := r.one(invisible, again)
	check(second.GetDeliveryAttempt() == 2, "attempt %d", second.GetDeliveryAttempt())
	_ = r.consumer.Ack(context.Background(), first)
	l.now("waiting for it to come a third time")
	third := r.one(time.Minute, again)
	check(third.GetDeliveryAttempt() == 3, "attempt %d", third.GetDeliveryAttempt())
	err := r.consumer.ChangeInvisibleDuration(first, invisible)
	check(err != nil, "the handle of the first delivery was accepted")
	r.ack(third)
	return err.Error()
}

// takeAgain waits for the next delivery of a message, not before the given time; also returns how much later it came.
func takeAgain(r *reader, before *rmq.MessageView, notBefore time.Time) (*rmq.MessageView, time.Duration) {
	next := r.one(time.Minute, again)
	late := time.Since(notBefore)
	check(late >= 0, "came %v too early", -late)
	check(late < 25*time.Second, "came %v too late", late)
	check(next.GetMessageId() == before.GetMessageId(), "another message came")
	check(next.GetDeliveryAttempt() == before.GetDeliveryAttempt()+1, "attempt %d after %d",
		next.GetDeliveryAttempt(), before.GetDeliveryAttempt())
	return next, late
}
