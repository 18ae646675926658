package main

import (
	"bytes"
	"context"
	"math"
	"math/rand"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/producer"
)

const bodyBytesMax = 4 * 1024 * 1024

func compressed(l *lab) string {
	i := l.listen()
	body := []byte(strings.Repeat("a body that compresses well; ", 3000))
	message := l.message("zlib")
	message.Body = bytes.Clone(body)
	send(l.producer(), message)
	got := i.get("zlib", 30*time.Second).message
	check(int(got.StoreSize) < len(body)/4, "not compressed, %d bytes were stored", got.StoreSize)
	check(bytes.Equal(got.Body, body), "the body changed")
	return "ZLIB"
}

func bodyLimit(l *lab) string {
	i := l.listen()
	p := l.producer(producer.WithCompressMsgBodyOverHowmuch(math.MaxInt32))
	body := make([]byte, bodyBytesMax+1)
	rand.New(rand.NewSource(1)).Read(body)
	largest := l.message("largest")
	largest.Body = body[:bodyBytesMax]
	send(p, largest)
	check(bytes.Equal(i.get("largest", time.Minute).message.Body, body[:bodyBytesMax]), "the body changed")
	larger := l.message("larger")
	larger.Body = body
	_, err := p.SendSync(context.Background(), larger)
	check(err != nil, "one byte more was accepted")
	return err.Error()
}
