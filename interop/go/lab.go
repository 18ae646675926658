package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	labelKey    = "interop"
	primerLabel = "primer"
	// More than the default of 3 s: builds and other programs share the machine.
	requestTimeout = 10 * time.Second
	closePatience  = 10 * time.Second
)

var (
	onRedstart = os.Getenv("INTEROP_SERVER") == "redstart"
	// Messages of this run are told from what an earlier one left behind.
	runID = strconv.FormatInt(time.Now().UnixMilli(), 36)
)

// lab is what one scenario works with: its names, its clients (stopped at the end) and its labelled messages.
type lab struct {
	topic, group string
	credentials  credentials.SessionCredentials
	step         atomic.Value
	mutex        sync.Mutex
	stops        []func() error
}

func newLab(scenario string) *lab {
	l := &lab{topic: "go-" + scenario, group: "go-" + scenario}
	l.now("starting")
	return l
}

// now says what comes next, for the line that reports a failure.
func (l *lab) now(step string) { l.step.Store(step) }

func (l *lab) currentStep() string { return l.step.Load().(string) }

func check(condition bool, otherwise string, values ...any) {
	if !condition {
		panic(broken(fmt.Sprintf(otherwise, values...)))
	}
}

func must(err error, what string) {
	check(err == nil, "%s: %v", what, err)
}

// actAs sets the user of the clients made from now on, with the secret that lib/auth.py gave it.
func (l *lab) actAs(user string) { l.signWith(user, "secret-of-"+user) }

func (l *lab) signWith(user, secret string) {
	l.credentials = credentials.SessionCredentials{AccessKey: user, AccessSecret: secret}
}

func (l *lab) config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint:      os.Getenv("INTEROP_ENDPOINT"),
		ConsumerGroup: group,
		Credentials:   &l.credentials,
	}
}

func (l *lab) producer(topics ...string) rmq.Producer {
	return l.startProducer(rmq.WithTopics(topics...))
}

func (l *lab) transactional(decide func(*rmq.MessageView) rmq.TransactionResolution) rmq.Producer {
	return l.startProducer(rmq.WithTopics(l.topic),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: decide}))
}

func (l *lab) startProducer(options ...rmq.ProducerOption) rmq.Producer {
	producer, err := rmq.NewProducer(l.config(""), options...)
	must(err, "new producer")
	producer.SetRequestTimeout(requestTimeout)
	must(producer.Start(), "start producer")
	l.stopLater(producer.GracefulStop)
	return producer
}

// push starts a push consumer and returns when it receives. A new group begins at the newest message of its first
// receive, and the client does not say when that was, so primers are sent until one arrives.
func (l *lab) push(listen func(label string, message *rmq.MessageView) bool, sendPrimer func()) {
	l.now("starting the push consumer")
	var primed atomic.Bool
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		label, ours := labelOf(message)
		if !ours || label == primerLabel {
			primed.Store(true)
			return rmq.SUCCESS
		}
		if listen(label, message) {
			return rmq.SUCCESS
		}
		return rmq.FAILURE
	}
	consumer, err := rmq.NewPushConsumer(l.config(l.group),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{l.topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	must(err, "new push consumer")
	must(consumer.Start(), "start push consumer")
	l.stopLater(consumer.GracefulStop)
	l.now("waiting for the push consumer's first message")
	for !primed.Load() {
		sendPrimer()
		time.Sleep(500 * time.Millisecond)
	}
	l.now("working")
}

// message makes a message of this scenario; the label travels as a property.
func (l *lab) message(label string) *rmq.Message { return messageTo(l.topic, label) }

func messageTo(topic, label string) *rmq.Message {
	message := &rmq.Message{Topic: topic, Body: []byte(label)}
	message.AddProperty(labelKey, runID+"/"+label)
	return message
}

// labelOf returns the label, and whether the message is of this run.
func labelOf(message *rmq.MessageView) (string, bool) {
	return strings.CutPrefix(message.GetProperties()[labelKey], runID+"/")
}

func mustLabel(message *rmq.MessageView) string {
	label, ours := labelOf(message)
	check(ours, "a foreign message: %v", message.GetProperties())
	return label
}

func isPrimer(message *rmq.MessageView) bool {
	label, ours := labelOf(message)
	return !ours || label == primerLabel
}

func (l *lab) stopLater(stop func() error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.stops = append(l.stops, stop)
}

// close stops the clients. The verdict is out, so one that does not stop in time is left behind.
func (l *lab) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	done := make(chan struct{})
	go func() {
		for _, stop := range l.stops {
			if err := stop(); err != nil {
				fmt.Fprintln(os.Stderr, l.topic, "stop:", err)
			}
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closePatience):
	}
}
