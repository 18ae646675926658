package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// resumeAfterRestart: the broker goes away and comes back; the clients stay.
func resumeAfterRestart(l *lab) string {
	const messages = 30
	producer := l.producer(l.topic)
	r := l.reader().primed(func() { send(producer, l.message(primerLabel)) })
	for i := range messages {
		send(producer, l.message(fmt.Sprint("m", i)))
	}
	acked := map[string]bool{}
	l.now("consuming before the restart")
	consumeUntil(r, acked, 10)
	// In flight during the restart: must come again, being unacknowledged.
	_, err := r.take(2, invisible, 10*time.Second)
	must(err, "receive")

	l.now("restarting")
	restart()
	if onRedstart {
		l.now("consuming between the restarts")
		consumeUntil(r, acked, 20)
		l.now("killing")
		restart("kill")
	} else {
		// Apache's proxy forgets the client's settings and this client sends them again only after minutes.
		r = l.reader()
	}
	l.now("consuming after the restart")
	consumeUntil(r, acked, messages)
	l.now("making sure that nothing comes again")
	r.nothing(invisible + 5*time.Second)
	return ""
}

// consumeUntil receives and acknowledges until so many messages are done; one that was done before is an error.
func consumeUntil(r *reader, acked map[string]bool, count int) {
	deadline := time.Now().Add(60 * time.Second)
	for len(acked) < count {
		taken, err := r.take(5, invisible, time.Second)
		// Errors are expected while the client finds the server again.
		check(time.Now().Before(deadline), "only %d messages came, last error: %v", len(acked), err)
		for _, message := range taken {
			label := mustLabel(message)
			check(!acked[label], "%s came again after its ack", label)
			must(r.consumer.Ack(context.Background(), message), "ack")
			acked[label] = true
		}
		if err != nil {
			time.Sleep(500 * time.Millisecond)
		}
	}
}

func restart(how ...string) {
	output, err := exec.Command(os.Getenv("INTEROP_CONTROL"), how...).CombinedOutput()
	check(err == nil, "the restart command failed: %v %s", err, output)
}
