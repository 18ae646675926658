package main

import (
	"context"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
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
	inbox := l.listen()
	_, err := l.trySend(l.topic)
	must(err, "send")
	inbox.exactly([]string{"signed"}, 30*time.Second)
	return ""
}

func authWrongKey(l *lab) string {
	l.signWith("auth-guessed", "not-its-secret")
	return l.refusedSend(l.topic)
}

func authDisabledUser(l *lab) string {
	l.actAs("auth-disabled")
	return l.refusedSend(l.topic)
}

func authNoTopicRight(l *lab) string {
	l.actAs(app)
	return l.refusedSend(l.topic)
}

// authNoGroupRight: a push consumer keeps refusals to itself, and the pull consumer does not sign what it asks the name service.
// So a second group, which the prefix rule is for, tells when the message could have come.
func authNoGroupRight(l *lab) string {
	l.actAs(app)
	refused := l.listen()
	allowed := &inbox{}
	l.consume("go4-auth-pre-control", l.topic, everything, into(allowed))
	_, err := l.trySend(l.topic)
	must(err, "send")
	allowed.exactly([]string{"signed"}, 30*time.Second)
	time.Sleep(time.Second)
	check(refused.size() == 0, "the group without a right got %v", refused.labels())
	return ""
}

// authDeny: a prefix allows both topics; the rule for the name of one of them denies.
func authDeny(l *lab) string {
	l.actAs(app)
	_, err := l.trySend(l.topic)
	must(err, "send")
	return l.refusedSend(l.topic + "-exact")
}

func authSource(l *lab) string {
	authExchange(l)
	return l.refusedSend(l.topic + "-far")
}

func (l *lab) trySend(topic string) (*primitive.SendResult, error) {
	l.now("sending to " + topic)
	return l.producer().SendSync(context.Background(), messageTo(topic, "signed"))
}

func (l *lab) refusedSend(topic string) string {
	_, err := l.trySend(topic)
	return refusal(err)
}

// refusal checks that a call was refused, and returns how: with the broker's code, or, for a route, with the client's words for
// any answer that is none. The topics exist, so without a refusal there is a route.
func refusal(err error) string {
	check(err != nil, "accepted")
	text := strings.Join(strings.Fields(err.Error()), " ")
	refused := strings.Contains(text, "CODE: 16") || strings.Contains(text, "no right") || strings.Contains(text, "route info")
	check(refused, "refused for another reason: %s", text)
	return text[:min(len(text), 200)]
}
