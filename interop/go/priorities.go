package main

import (
	"fmt"
	"slices"
	"time"
)

// priorityOrder: messages of a higher priority overtake a backlog of lower ones.
func priorityOrder(l *lab) string {
	sent := []int32{1, 3, 2, 1, 3, 2, 1, 3}
	expected := []string{"3-1", "3-4", "3-7", "2-2", "2-5", "1-0", "1-3", "1-6"}
	producer := l.producer(l.topic)
	sendOne := func(label string, priority int32) {
		message := l.message(label)
		must(message.SetPriority(priority), "priority")
		send(producer, message)
	}
	r := l.reader().primed(func() { sendOne(primerLabel, 3) })
	for i, priority := range sent {
		sendOne(fmt.Sprintf("%d-%d", priority, i), priority)
	}
	l.now("receiving")
	var labels []string
	for len(labels) < len(sent) {
		message := r.one(invisible, 20*time.Second)
		labels = append(labels, mustLabel(message))
		r.ack(message)
	}
	check(slices.Equal(labels, expected), "expected %v, got %v", expected, labels)
	return ""
}
