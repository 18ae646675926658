package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// resetOffset: an operator moves the offsets of a running consumer.
func resetOffset(l *lab) string {
	i := l.listen()
	p := l.producer()
	for _, label := range labels("early", 10) {
		send(p, l.message(label))
	}
	i.exactly(labels("early", 10), 30*time.Second)
	// A moment between the two halves, so that a time can lie between them.
	time.Sleep(time.Second)
	between := time.Now()
	time.Sleep(time.Second)
	for _, label := range labels("late", 10) {
		send(p, l.message(label))
	}
	check(eventually(30*time.Second, func() bool { return i.size() == 20 }), "%d of 20 came", i.size())

	l.now("resetting")
	output := control("INTEROP_MQADMIN", "resetOffsetByTime", "-n", os.Getenv("INTEROP_NAMESRV"), "-g", l.group, "-t", l.topic,
		"-s", fmt.Sprint(between.UnixMilli()))
	check(!strings.Contains(output, "Exception"), "mqadmin: %s", output)
	l.now("waiting for the second half again")
	eventually(90*time.Second, func() bool { return i.size() >= 30 })
	time.Sleep(300 * time.Millisecond)
	again := i.labels()[20:]
	check(slices.Equal(sorted(again), sorted(labels("late", 10))), "after the reset: %v", again)
	return ""
}
