package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const app = "auth-app"

// For a server that asks for credentials: what the users of lib/auth.py may do, and what they are refused.
var authScenarios = []scenario{
	{"auth-right-key", authExchange},
	{"auth-prefix", authExchange},
	{"auth-source", authSource},
	{"auth-no-group-right", authNoGroupRight},
	{"auth-no-topic-right", authNoTopicRight},
	{"auth-deny", authDeny},
	{"auth-disabled-user", authDisabledUser},
	{"auth-wrong-key", authWrongKey},
}

// authExchange is what the user may do: all of it, to the end.
func authExchange(l *lab) string {
	l.actAs(app)
	producer := l.producer(l.topic)
	r := l.reader().primed(func() { send(producer, l.message(primerLabel)) })
	send(producer, l.message("signed"))
	got := r.one(invisible, 20*time.Second)
	check(mustLabel(got) == "signed", "another message: %v", got)
	r.ack(got)
	return ""
}

func authWrongKey(l *lab) string {
	l.signWith("auth-guessed", "not-its-secret")
	return refusedWith(l.trySend(l.topic), v2.Code_UNAUTHORIZED)
}

func authDisabledUser(l *lab) string {
	l.actAs("auth-disabled")
	return refusedWith(l.trySend(l.topic), v2.Code_UNAUTHORIZED)
}

func authNoTopicRight(l *lab) string {
	l.actAs(app)
	refusedWith(l.tryReceive(), v2.Code_FORBIDDEN)
	return refusedWith(l.trySend(l.topic), v2.Code_FORBIDDEN)
}

func authNoGroupRight(l *lab) string {
	l.actAs(app)
	must(l.trySend(l.topic), "send")
	return refusedWith(l.tryReceive(), v2.Code_FORBIDDEN)
}

// authDeny: a prefix allows both topics; the rule for the name of one of them denies.
func authDeny(l *lab) string {
	l.actAs(app)
	must(l.trySend(l.topic), "send")
	return refusedWith(l.trySend(l.topic+"-exact"), v2.Code_FORBIDDEN)
}

func authSource(l *lab) string {
	authExchange(l)
	return refusedWith(l.trySend(l.topic+"-far"), v2.Code_FORBIDDEN)
}

func (l *lab) trySend(topic string) error {
	l.now("sending to " + topic)
	producer, err := rmq.NewProducer(l.config(""), rmq.WithTopics(topic))
	must(err, "new producer")
	if err := producer.Start(); err != nil {
		return err
	}
	l.stopLater(producer.GracefulStop)
	_, err = producer.Send(context.Background(), messageTo(topic, "signed"))
	return err
}

func (l *lab) tryReceive() error {
	l.now("receiving")
	r, err := l.readerOf(l.group, l.topic, rmq.SUB_ALL)
	if err != nil {
		return err
	}
	_, err = r.receive(1, invisible)
	return err
}

// refusedWith looks for the code in the words: the client does not pass on the error of a route. Of settings that the server
// refuses it tells only that the stream has ended.
func refusedWith(err error, code v2.Code) string {
	check(err != nil, "accepted")
	text := err.Error()
	told := strings.Contains(text, strconv.Itoa(int(code))) || strings.Contains(text, code.String())
	check(told || strings.Contains(text, "failed to sync settings"), "refused for another reason: %s", text)
	return text[:min(len(text), 200)]
}
