package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// A queue that moves may repeat what its old owner had in hand.
const repeatsMax = 0.2

var rebalanceQueues = 8 * len(brokers)

type member struct {
	consumer rocketmq.PushConsumer
	got      *inbox
}

// rebalance: consumers join and leave while messages flow. The client does not tell which queues it owns, so what arrives
// must tell: every queue is read, by one member at a time, and every member reads.
func rebalance(l *lab) string {
	p := l.producer()
	everybody := &inbox{}
	join := func() member {
		own := &inbox{}
		c := l.consume(l.group, l.topic, everything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			own.add(messages...)
			everybody.add(messages...)
			return consumer.ConsumeSuccess, nil
		})
		return member{c, own}
	}
	members := []member{join()}
	var stop atomic.Bool
	sent := make(chan []string, 1)
	go func() { sent <- flow(l, p, &stop) }()
	settled(l, members)
	members = append(members, join())
	settled(l, members)
	members = append(members, join())
	settled(l, members)
	must(members[0].consumer.Shutdown(), "shutdown")
	members = members[1:]
	settled(l, members)
	must(members[0].consumer.Shutdown(), "shutdown")
	members = members[1:]
	settled(l, members)
	stop.Store(true)
	all := <-sent

	l.now("waiting for the last messages")
	distinct := func() map[string]bool {
		set := map[string]bool{}
		for _, label := range everybody.labels() {
			set[label] = true
		}
		return set
	}
	eventually(30*time.Second, func() bool { return len(distinct()) == len(all) })
	check(len(distinct()) == len(all), "%d of %d messages came", len(distinct()), len(all))
	repeats := everybody.size() - len(all)
	check(float64(repeats) <= repeatsMax*float64(len(all)), "%d repeats of %d messages", repeats, len(all))
	return fmt.Sprintf("%d messages, %d repeats", len(all), repeats)
}

func flow(l *lab, p rocketmq.Producer, stop *atomic.Bool) []string {
	var sent []string
	for n := 0; !stop.Load(); n++ {
		label := fmt.Sprint("m", n)
		if _, err := p.SendSync(context.Background(), l.message(label)); err == nil {
			sent = append(sent, label)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return sent
}

// settled waits for a second in which every queue is read by exactly one member, and no member reads less than its share.
func settled(l *lab, members []member) {
	l.now(fmt.Sprintf("waiting for %d members to share", len(members)))
	var owners map[string]map[int]bool
	check(eventually(60*time.Second, func() bool {
		var from []int
		for _, m := range members {
			from = append(from, m.got.size())
		}
		time.Sleep(time.Second)
		owners = map[string]map[int]bool{}
		shares := make([]map[string]bool, len(members))
		for n, m := range members {
			shares[n] = map[string]bool{}
			for _, arrival := range m.got.all()[from[n]:] {
				queue := fmt.Sprint(arrival.message.StoreHost, " ", arrival.message.Queue.QueueId)
				if owners[queue] == nil {
					owners[queue] = map[int]bool{}
				}
				owners[queue][n] = true
				shares[n][queue] = true
			}
		}
		for _, of := range owners {
			if len(of) != 1 {
				return false
			}
		}
		for _, share := range shares {
			if len(share) < rebalanceQueues/len(members) {
				return false
			}
		}
		return len(owners) == rebalanceQueues
	}), "owners: %v", owners)
}
