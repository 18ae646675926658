package main

import (
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// trace: clients with the message trace switched on write where a message went.
func trace(l *lab) string {
	config := &primitive.TraceConfig{Access: primitive.Local, Resolver: resolver(), GroupName: l.group}
	i := &inbox{}
	l.consume(l.group, l.topic, everything, into(i), consumer.WithTrace(config))
	records := &inbox{}
	l.consume(l.group+"-reader", "RMQ_SYS_TRACE_TOPIC", everything, into(records))
	id := send(l.producer(producer.WithTrace(config)), l.message("one")).MsgID
	i.get("one", 30*time.Second)
	l.now("waiting for the trace")
	var kinds map[string]bool
	check(eventually(60*time.Second, func() bool {
		kinds = map[string]bool{}
		for _, arrival := range records.all() {
			for _, record := range strings.Split(string(arrival.message.Body), "\x02") {
				if strings.Contains(record, id) {
					kinds[strings.Split(record, "\x01")[0]] = true
				}
			}
		}
		return kinds["Pub"] && kinds["SubBefore"] && kinds["SubAfter"]
	}), "traced: %v", kinds)
	return ""
}
