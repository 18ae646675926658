package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// shareQueue: more consumers than queues.
func shareQueue(l *lab) string {
	const consumers, messages = 3, 90
	producer := l.producer(l.topic)
	var all journal
	var stop atomic.Bool
	var workers sync.WaitGroup
	shares := make([]int, consumers)
	for i := range consumers {
		r := l.reader().primed(func() { send(producer, l.message(primerLabel)) })
		workers.Add(1)
		go func() {
			defer workers.Done()
			shares[i] = consume(r, &all, &stop)
		}()
	}
	for i := range messages {
		send(producer, l.message(fmt.Sprint("m", i)))
	}
	l.now("waiting for the messages")
	eventually(60*time.Second, func() bool { return len(all.all()) >= messages })
	stop.Store(true)
	workers.Wait()
	seen := all.all()
	slices.Sort(seen)
	check(len(slices.Compact(slices.Clone(seen))) == messages, "not all messages came: %d", len(seen))
	check(len(seen) == messages, "%d deliveries of %d messages", len(seen), messages)
	check(!slices.Contains(shares, 0), "one consumer got nothing: %v", shares)
	return fmt.Sprintf("shares %v", shares)
}

func consume(r *reader, all *journal, stop *atomic.Bool) int {
	count := 0
	for !stop.Load() {
		// An error here leaves messages unread, which the scenario notices.
		taken, _ := r.take(2, time.Minute, 0)
		for _, message := range taken {
			label, _ := labelOf(message)
			all.add(label)
			count++
			// Some work, so that no consumer can take everything.
			time.Sleep(20 * time.Millisecond)
			// Not check-ed: that only works on the scenario's own thread. A lost ack shows as a double.
			_ = r.consumer.Ack(context.Background(), message)
		}
	}
	return count
}
