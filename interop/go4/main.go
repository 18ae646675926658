// Runs every scenario with the official Go client of 4.x, or the one named on the command line.
package main

import (
	"os"
	"slices"
	"strconv"
	"sync"
)

// A scenario is a promise of the server. It returns a short note (or an empty one) and stops through check when the
// promise is broken.
type scenario struct {
	name string
	run  func(*lab) string
}

// The long ones first.
var scenarios = []scenario{
	{"rebalance", rebalance},
	{"reset-offset", resetOffset},
	{"retry-dlq", retryDlq},
	{"tx-check", txCheck},
	{"trace", trace},
	{"cross-delay", crossDelay},
	{"cross-fifo", crossFifo},
	{"cross-transaction", crossTransaction},
	{"cross-normal", crossNormal},
	{"pull-subscribe", pullSubscribe},
	{"pull-assign", pullAssign},
	{"timer", timer},
	{"delay-level", delayLevel},
	{"orderly", orderly},
	{"broadcast", broadcast},
	{"request-reply", requestReply},
	{"tx-commit", txCommit},
	{"tx-rollback", txRollback},
	{"tag-filter", tagFilter},
	{"sql-filter", sqlFilter},
	{"send-sync", sendSync},
	{"send-async", sendAsync},
	{"send-oneway", sendOneway},
	{"send-batch", sendBatch},
	{"vip-channel", vipChannel},
	{"compressed", compressed},
	{"body-4mib", bodyLimit},
	{"unknown-topic", unknownTopic},
	{"tls", lacks("no TLS")},
	{"recall", lacks("no recall")},
	{"query", lacks("no queries")},
	{"pop", lacks("no pop mode")},
	{"cross-move-in", elsewhere},
	{"cross-move-out", elsewhere},
	{"cross-move-acked", elsewhere},
}

// The restart would disturb the others, so it runs alone, at the end.
var last = scenario{"resume-after-restart", resumeAfterRestart}

func elsewhere(*lab) string { panic(skipped("the Java programs have it")) }

func lacks(what string) func(*lab) string {
	return func(*lab) string { panic(skipped(what + " (client lacks the feature)")) }
}

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
