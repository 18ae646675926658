// Runs every scenario with the official Go client, or the one named on the command line.
package main

import (
	"os"
	"slices"
	"strconv"
	"sync"
)

// A scenario is a promise of the server. It returns a short note (or an empty one) and stops through lab.check
// when the promise is broken.
type scenario struct {
	name string
	run  func(*lab) string
}

var scenarios = []scenario{
	{"push-retry-dlq", pushRetryDlq},
	{"stale-handle", staleHandle},
	{"change-invisible", changeInvisible},
	{"simple-no-ack", simpleNoAck},
	{"simple-ack", simpleAck},
	{"fifo-order", fifoOrder},
	{"fifo-same-queue", fifoOrder},
	{"tx-check", txCheck},
	{"tx-rollback", txRollback},
	{"tx-commit", txCommit},
	{"delay", delay},
	{"recall", recall},
	{"priority", priorityOrder},
	{"lite", litePush},
	{"lite-simple", noLiteSimple},
	{"share-queue", shareQueue},
	{"tag-filter", tagFilter},
	{"sql-filter", sqlFilter},
	{"normal", exchange},
	{"tls", exchange},
	{"plaintext", exchange},
	{"body-4mib", bodyLimit},
	{"type-mismatch", typeMismatch},
	{"unknown-topic", unknownTopic},
	{"batch-send", batchSend},
}

// The restart would disturb the others, so it runs alone, at the end.
var last = scenario{"resume-after-restart", resumeAfterRestart}

func main() {
	good := true
	switch {
	case len(os.Args) == 1:
		good = runTogether(scenarios)
		good = run(last) && good
	case os.Args[1] == "auth":
		good = runTogether(authScenarios)
	default:
		good = runNamed(os.Args[1])
	}
	if !good {
		os.Exit(1)
	}
}

func runNamed(name string) bool {
	for _, scenario := range slices.Concat(scenarios, authScenarios, []scenario{last}) {
		if scenario.name == name {
			return run(scenario)
		}
	}
	report("FAIL", name, "no such scenario")
	return false
}

// Scenarios mostly wait, so a few run side by side; each has a topic and a group of its own.
func runTogether(scenarios []scenario) bool {
	parallel, err := strconv.Atoi(os.Getenv("INTEROP_PARALLEL"))
	if err != nil {
		parallel = 4
	}
	queue := make(chan scenario)
	failed := make(chan string, len(scenarios))
	var workers sync.WaitGroup
	for range parallel {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for scenario := range queue {
				if !run(scenario) {
					failed <- scenario.name
				}
			}
		}()
	}
	for _, scenario := range scenarios {
		queue <- scenario
	}
	close(queue)
	workers.Wait()
	return len(failed) == 0
}
