package main

import (
	"context"
	"fmt"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
)

// resumeAfterRestart: the broker goes away and comes back; a producer and a push consumer live through it.
func resumeAfterRestart(l *lab) string {
	i := l.listen()
	p := l.producer()
	for _, label := range labels("m", 30) {
		send(p, l.message(label))
	}
	i.exactly(labels("m", 30), 30*time.Second)
	l.now("restarting")
	control("INTEROP_CONTROL")
	sendThrough(l, p, labels("n", 10))
	wanted := append(labels("m", 30), labels("n", 10)...)
	if onRedstart {
		awaitAll(l, i, wanted)
		l.now("killing")
		control("INTEROP_CONTROL", "kill")
		sendThrough(l, p, labels("o", 10))
		wanted = append(wanted, labels("o", 10)...)
	}
	repeats := awaitAll(l, i, wanted)
	return fmt.Sprintf("%d repeats", repeats)
}

// sendThrough sends what must be accepted at last; errors are expected while the client finds the server again.
func sendThrough(l *lab, p rocketmq.Producer, labels []string) {
	l.now("sending after the restart")
	for _, label := range labels {
		check(eventually(90*time.Second, func() bool {
			_, err := p.SendSync(context.Background(), l.message(label))
			return err == nil
		}), "%s was never accepted", label)
	}
}

// awaitAll waits until each came at least once and returns how many came more often.
func awaitAll(l *lab, i *inbox, wanted []string) int {
	l.now("waiting for the consumer that lived through it")
	distinct := func() int {
		set := map[string]bool{}
		for _, label := range i.labels() {
			set[label] = true
		}
		return len(set)
	}
	check(eventually(90*time.Second, func() bool { return distinct() == len(wanted) }), "%d of %d came", distinct(), len(wanted))
	return i.size() - len(wanted)
}
