package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// fifoOrder: one message group is stuck on its first message while another one goes on. `fifo-order` has groups that
// Apache puts into different queues; `fifo-same-queue` has a topic of one queue.
func fifoOrder(l *lab) string {
	const stuck, healthy = "stuck", "healthy"
	var done journal
	var failed, released, failedAgain atomic.Bool
	producer := l.producer(l.topic)
	l.push(func(label string, _ *rmq.MessageView) bool {
		if label == stuck+"0" && !released.Load() {
			failed.Store(true)
			return false
		}
		// When one receive brings several messages of a group, this client (5.1.4, fifoConsumeService) runs past a failed
		// one by itself. The rest of the stuck group waits together by now; Redstart still gives it one at a time.
		if label == stuck+"1" && onRedstart && !failedAgain.Swap(true) {
			return false
		}
		done.add(label)
		return true
	}, func() { send(producer, inGroup(l.message(primerLabel), healthy)) })

	// The rest of the group only once the first is in flight: it is the server that must hold it back.
	group := labels(stuck, 3)
	sendGroup(l, producer, stuck, group[:1])
	l.now("waiting for the first failure")
	check(eventually(30*time.Second, failed.Load), "the first message did not come")
	sendGroup(l, producer, stuck, group[1:])
	sendGroup(l, producer, healthy, labels(healthy, 10))
	l.now("waiting for the healthy group")
	eventually(10*time.Second, func() bool { return len(done.all()) >= 10 })
	check(slices.Equal(done.all(), labels(healthy, 10)), "while the other group is stuck: %v", done.all())

	released.Store(true)
	l.now("waiting for the stuck group")
	eventually(30*time.Second, func() bool { return len(done.all()) >= 13 })
	check(slices.Equal(done.all()[10:], group), "after its release: %v", done.all())
	return ""
}

func sendGroup(l *lab, producer rmq.Producer, group string, labels []string) {
	for _, label := range labels {
		send(producer, inGroup(l.message(label), group))
	}
}

func labels(group string, count int) []string {
	var labels []string
	for i := range count {
		labels = append(labels, fmt.Sprint(group, i))
	}
	return labels
}

// eventually waits for a condition; false if it does not come true in time.
func eventually(within time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

// journal is a list that listeners on several threads write.
type journal struct {
	mutex sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) all() []string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return slices.Clone(j.lines)
}
