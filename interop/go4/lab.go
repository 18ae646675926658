package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	labelKey = "interop"
	// More than the default of 3 s: builds and other programs share the machine.
	requestTimeout = 10 * time.Second
)

var (
	onRedstart = os.Getenv("INTEROP_SERVER") == "redstart"
	// The addresses of all brokers.
	brokers    = strings.Split(os.Getenv("INTEROP_BROKERS"), ",")
	instances  atomic.Int64
	everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
)

// lab is what one scenario works with: its names, its clients (stopped at the end) and its labelled messages.
type lab struct {
	topic, group string
	credentials  primitive.Credentials
	step         atomic.Value
	mutex        sync.Mutex
	stops        []func() error
}

func newLab(scenario string) *lab {
	l := &lab{topic: "go4-" + scenario, group: "go4-" + scenario}
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

func resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{os.Getenv("INTEROP_NAMESRV")})
}

// instance makes every client a connection and a client id of its own, as if it ran on a machine of its own.
func instance() string { return fmt.Sprint("go4-", instances.Add(1)) }

// actAs sets the user of the clients made from now on, with the secret that lib/auth.py gave it.
func (l *lab) actAs(user string) { l.signWith(user, "secret-of-"+user) }

func (l *lab) signWith(user, secret string) {
	l.credentials = primitive.Credentials{AccessKey: user, SecretKey: secret}
}

func (l *lab) producerOptions(more ...producer.Option) []producer.Option {
	return append([]producer.Option{
		producer.WithNsResolver(resolver()), producer.WithGroupName(l.group + "-producer"),
		producer.WithInstanceName(instance()), producer.WithSendMsgTimeout(requestTimeout),
		producer.WithCredentials(l.credentials),
	}, more...)
}

func (l *lab) producer(options ...producer.Option) rocketmq.Producer {
	p, err := rocketmq.NewProducer(l.producerOptions(options...)...)
	must(err, "new producer")
	must(p.Start(), "start producer")
	l.stopLater(p.Shutdown)
	return p
}

// decisions is a transaction listener that decides by label.
type decisions struct {
	now, later func(label string) primitive.LocalTransactionState
}

func (d decisions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return d.now(message.GetProperty(labelKey))
}

func (d decisions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	return d.later(labelOf(message))
}

func always(state primitive.LocalTransactionState) func(string) primitive.LocalTransactionState {
	return func(string) primitive.LocalTransactionState { return state }
}

func (l *lab) transactional(d decisions) rocketmq.TransactionProducer {
	p, err := rocketmq.NewTransactionProducer(d, l.producerOptions()...)
	must(err, "new transaction producer")
	must(p.Start(), "start transaction producer")
	l.stopLater(p.Shutdown)
	return p
}

type listener = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func into(i *inbox) listener {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		i.add(messages...)
		return consumer.ConsumeSuccess, nil
	}
}

func (l *lab) consumerOptions(group string, more ...consumer.Option) []consumer.Option {
	return append([]consumer.Option{
		consumer.WithNsResolver(resolver()), consumer.WithGroupName(group), consumer.WithInstance(instance()),
		consumer.WithCredentials(l.credentials),
		// A new group begins at the first message.
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
}

// consume starts a push consumer; it is stopped at the end of the scenario, or before by its Shutdown.
func (l *lab) consume(group, topic string, selector consumer.MessageSelector, listen listener, options ...consumer.Option) rocketmq.PushConsumer {
	c, err := rocketmq.NewPushConsumer(l.consumerOptions(group, options...)...)
	must(err, "new push consumer")
	must(c.Subscribe(topic, selector, listen), "subscribe")
	must(c.Start(), "start push consumer")
	l.stopLater(c.Shutdown)
	return c
}

func (l *lab) listen() *inbox {
	i := &inbox{}
	l.consume(l.group, l.topic, everything, into(i))
	return i
}

// message makes a message of this scenario; the label travels as a property.
func (l *lab) message(label string) *primitive.Message { return messageTo(l.topic, label) }

func messageTo(topic, label string) *primitive.Message {
	message := primitive.NewMessage(topic, []byte(label))
	message.WithProperty(labelKey, label)
	return message
}

func labelOf(message *primitive.MessageExt) string { return message.GetProperty(labelKey) }

func send(p rocketmq.Producer, messages ...*primitive.Message) *primitive.SendResult {
	result, err := p.SendSync(context.Background(), messages...)
	must(err, "send")
	check(result.Status == primitive.SendOK, "send status %v", result.Status)
	return result
}

func labels(stem string, count int) []string {
	var labels []string
	for i := range count {
		labels = append(labels, fmt.Sprint(stem, i))
	}
	return labels
}

// control runs one of the harness's commands: INTEROP_CONTROL, INTEROP_MQADMIN.
func control(command string, arguments ...string) string {
	output, err := exec.Command(os.Getenv(command), arguments...).CombinedOutput()
	check(err == nil, "%s failed: %v %s", command, err, output)
	return string(output)
}

func (l *lab) stopLater(stop func() error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.stops = append(l.stops, stop)
}

// close stops the clients.
func (l *lab) close() {
	l.mutex.Lock()
	stops := l.stops
	l.mutex.Unlock()
	for _, stop := range stops {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, l.topic, "stop:", err)
		}
	}
}
