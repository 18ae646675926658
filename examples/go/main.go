package main

import (
	"context"
	"fmt"
	"log"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

func main() {
	ctx := context.Background()
	server := &rmq.Config{Endpoint: "127.0.0.1:8081", ConsumerGroup: "shop", Credentials: &credentials.SessionCredentials{}}
	producer, err := rmq.NewProducer(server, rmq.WithTopics("orders"))
	check(err)
	check(producer.Start())
	defer producer.GracefulStop()

	sent, err := producer.Send(ctx, &rmq.Message{Topic: "orders", Body: []byte("hello from Go")})
	check(err)
	fmt.Println("sent", sent[0].MessageID)

	consumer, err := rmq.NewSimpleConsumer(server, rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{"orders": rmq.SUB_ALL}))
	check(err)
	check(consumer.Start())
	defer consumer.GracefulStop()

	received, err := consumer.Receive(ctx, 32, 15*time.Second)
	check(err)
	for _, message := range received {
		fmt.Println("received", string(message.GetBody()))
		check(consumer.Ack(ctx, message))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
