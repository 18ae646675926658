package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const lateMax = 5 * time.Second

// Levels 1 and 2 of lib/levels.py.
var levels = []time.Duration{time.Second, 3 * time.Second}

func delayLevel(l *lab) string {
	i := l.listen()
	p := l.producer()
	due := map[string]time.Time{}
	// The later one first: the order of sending must not matter.
	for level := 2; level >= 1; level-- {
		label := fmt.Sprint("level", level)
		due[label] = time.Now().Add(levels[level-1])
		send(p, l.message(label).WithTag("later").WithDelayTimeLevel(level))
	}
	late := lateness(i, due)
	check(slices.Equal(i.labels(), []string{"level1", "level2"}), "came as %v", i.labels())
	check(i.all()[0].message.GetTags() == "later", "the tag is lost")
	return fmt.Sprintf("%d ms late", late.Milliseconds())
}

// timer: the client has no call for it, but sends any property.
func timer(l *lab) string {
	i := l.listen()
	p := l.producer()
	at := time.Now().Add(4321 * time.Millisecond)
	due := map[string]time.Time{"at": at, "in-ms": time.Now().Add(2345 * time.Millisecond)}
	send(p, withProperty(l.message("at"), "TIMER_DELIVER_MS", fmt.Sprint(at.UnixMilli())))
	send(p, withProperty(l.message("in-ms"), "TIMER_DELAY_MS", "2345"))
	late := lateness(i, due)
	check(slices.Equal(i.labels(), []string{"in-ms", "at"}), "came as %v", i.labels())
	return fmt.Sprintf("%d ms late", late.Milliseconds())
}

func withProperty(message *primitive.Message, key, value string) *primitive.Message {
	message.WithProperty(key, value)
	return message
}

// lateness waits for all and returns the greatest. Early ones are told last, so that they hide nothing else.
func lateness(i *inbox, due map[string]time.Time) time.Duration {
	var latest, earliest time.Duration
	for label, at := range due {
		late := i.get(label, 30*time.Second).at.Sub(at)
		latest, earliest = max(latest, late), min(earliest, late)
	}
	check(i.size() == len(due), "came as %v", i.labels())
	check(latest <= lateMax, "%d ms late", latest.Milliseconds())
	check(earliest > -time.Millisecond, "%d ms early", -earliest.Milliseconds())
	return latest
}
