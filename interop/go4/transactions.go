package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Longer than the 60 s that pass before the first check when the server keeps the documented default.
const checkPatience = 100 * time.Second

func half(p rocketmq.TransactionProducer, message *primitive.Message) *primitive.TransactionSendResult {
	result, err := p.SendMessageInTransaction(context.Background(), message)
	must(err, "send half message")
	return result
}

func txCommit(l *lab) string {
	i := l.listen()
	early := false
	p := l.transactional(decisions{func(string) primitive.LocalTransactionState {
		// The half message is stored: it must stay invisible while the local transaction runs.
		early = eventually(2*time.Second, func() bool { return i.size() > 0 })
		return primitive.CommitMessageState
	}, always(primitive.UnknowState)})
	half(p, l.message("one").WithTag("t").WithKeys([]string{"k"}))
	check(!early, "visible before the commit")
	got := i.get("one", 30*time.Second).message
	check(got.Topic == l.topic && got.GetTags() == "t" && got.GetKeys() == "k", "tag %s, keys %s", got.GetTags(), got.GetKeys())
	i.exactly([]string{"one"}, 5*time.Second)
	return ""
}

func txRollback(l *lab) string {
	i := l.listen()
	p := l.transactional(decisions{func(label string) primitive.LocalTransactionState {
		if label == "dropped" {
			return primitive.RollbackMessageState
		}
		return primitive.CommitMessageState
	}, always(primitive.UnknowState)})
	half(p, l.message("dropped"))
	half(p, l.message("last"))
	i.get("last", 30*time.Second)
	i.exactly([]string{"last"}, 5*time.Second)
	return ""
}

func txCheck(l *lab) string {
	i := l.listen()
	var mutex sync.Mutex
	checks := map[string]int{}
	p := l.transactional(decisions{always(primitive.UnknowState), func(label string) primitive.LocalTransactionState {
		mutex.Lock()
		defer mutex.Unlock()
		checks[label]++
		switch {
		case label == "dropped":
			return primitive.RollbackMessageState
		case label == "twice" && checks[label] == 1:
			return primitive.UnknowState
		}
		return primitive.CommitMessageState
	}})
	sent := time.Now()
	for _, label := range []string{"dropped", "kept", "twice"} {
		half(p, l.message(label))
	}
	l.now("waiting for the checks")
	first := i.get("kept", checkPatience).at.Sub(sent)
	i.get("twice", checkPatience)
	mutex.Lock()
	defer mutex.Unlock()
	check(checks["twice"] >= 2 && checks["dropped"] >= 1, "checks: %v", checks)
	for _, label := range i.labels() {
		check(label != "dropped", "the rolled-back message came")
	}
	check(i.size() == 2, "a message came twice: %v", i.labels())
	return fmt.Sprintf("after %.0f s", first.Seconds())
}
