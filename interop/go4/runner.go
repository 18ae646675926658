package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const limit = 150 * time.Second

// What check and lacks throw.
type (
	broken  string
	skipped string
)

type verdict struct {
	word, note string
}

// run runs one scenario within its time limit and prints its one line.
func run(s scenario) bool {
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
	// The verdict is out; a consumer takes seconds to stop, in which the next scenario may begin.
	go l.close()
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
			fmt.Fprintln(os.Stderr, thrown, string(debug.Stack()))
			result = verdict{"FAIL", fmt.Sprintf("panic: %v (while %s)", thrown, l.currentStep())}
		}
	}()
	return verdict{"PASS", s.run(l)}
}

var printing sync.Mutex

func report(word, name, note string) {
	mark := ":"
	if word == "PASS" {
		mark = ""
	}
	printing.Lock()
	defer printing.Unlock()
	line := fmt.Sprintf("%s go4 %s%s %s", word, name, mark, strings.Join(strings.Fields(note), " "))
	fmt.Println(strings.TrimSpace(line))
}
