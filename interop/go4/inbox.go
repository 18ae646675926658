package main

import (
	"slices"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

type arrival struct {
	message *primitive.MessageExt
	at      time.Time
}

// inbox is what a listener was given, in the order of arrival.
type inbox struct {
	mutex    sync.Mutex
	arrivals []arrival
}

func (i *inbox) add(messages ...*primitive.MessageExt) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, message := range messages {
		i.arrivals = append(i.arrivals, arrival{message, time.Now()})
	}
}

func (i *inbox) all() []arrival {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return slices.Clone(i.arrivals)
}

func (i *inbox) size() int { return len(i.all()) }

func (i *inbox) labels() []string {
	var labels []string
	for _, arrival := range i.all() {
		labels = append(labels, labelOf(arrival.message))
	}
	return labels
}

func (i *inbox) get(label string, within time.Duration) arrival {
	check(eventually(within, func() bool { return slices.Contains(i.labels(), label) }), "%s did not come, only %v", label, i.labels())
	return i.all()[slices.Index(i.labels(), label)]
}

// exactly waits for these labels, in any order, and makes sure that none comes twice.
func (i *inbox) exactly(wanted []string, within time.Duration) {
	eventually(within, func() bool { return i.size() >= len(wanted) })
	time.Sleep(300 * time.Millisecond)
	got := sorted(i.labels())
	check(slices.Equal(got, sorted(wanted)), "got %v instead of %v", got, wanted)
}

func sorted(labels []string) []string {
	return slices.Sorted(slices.Values(labels))
}

// eventually waits for a condition; false if it does not come true in time.
func eventually(within time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return condition()
}
