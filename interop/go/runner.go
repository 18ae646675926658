package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

const (
	limit     = 150 * time.Second
	sslSwitch = "rocketmq.client.enableSsl"
)

// What lab.check and lab.skip throw.
type (
	broken  string
	skipped string
)

type verdict struct {
	word, note string
}

// run runs one scenario within its time limit and prints its one line.
func run(s scenario) bool {
	if wantsTLS(s.name) != rmq.EnableSsl {
		return runApart(s.name)
	}
	l := newLab(s.name)
	done := make(chan verdict, 1)
	go func() { done <- try(s, l) }()
	var result verdict
	select {
	case result = <-done:
	case <-time.After(limit):
		result = verdict{"FAIL", fmt.Sprintf("not done after %v, while %s", limit, l.currentStep())}
	}
	report(result.word, s.name, result.note)
	l.close()
	return result.word != "FAIL"
}

func try(s scenario, l *lab) (result verdict) {
	defer func() {
		switch thrown := recover().(type) {
		case nil:
		case broken:
			result = verdict{"FAIL", fmt.Sprintf("%s (while %s)", string(thrown), l.currentStep())}
		case skipped:
			result = verdict{"SKIP", string(thrown)}
		default:
			panic(thrown)
		}
	}()
	return verdict{"PASS", s.run(l)}
}

// The general choice is the client's default, TLS, unless the run asks otherwise.
func wantsTLS(name string) bool {
	if name == "tls" || name == "plaintext" {
		return name == "tls"
	}
	return os.Getenv("INTEROP_PLAINTEXT") == ""
}

// runApart runs a scenario in a process of its own: the client reads the choice of TLS once, when it starts, and all
// its instances share connections.
func runApart(name string) bool {
	command := exec.Command(os.Args[0], name)
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%t", sslSwitch, wantsTLS(name)))
	command.Stdout = os.Stdout
	command.Stderr = os.Stderr
	return command.Run() == nil
}

var printing sync.Mutex

func report(word, name, note string) {
	mark := ":"
	if word == "PASS" {
		mark = ""
	}
	printing.Lock()
	defer printing.Unlock()
	line := fmt.Sprintf("%s go %s%s %s", word, name, mark, strings.Join(strings.Fields(note), " "))
	fmt.Println(strings.TrimSpace(line))
}
