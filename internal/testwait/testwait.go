// Package testwait waits in tests for what comes true in another process or on
// another goroutine of it, by asking for the condition itself. It promises that
// a busy machine is no failure: a wait lasts ten minutes, and ends before the test's own time does.
package testwait

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pace is how long what is not true yet is left alone at least, and longest at most. In between
	// it is left alone four times as long as it took to ask. So a wait that starts a program to ask
	// leaves the processors to what it waits for.
	pace    = 2 * time.Millisecond
	longest = time.Second
	// patience is the longest wait: what has not come true by then does not, and the tests
	// that are still to run get their time.
	patience = 10 * time.Minute
	// spare is what is left to a test that waited in vain, to say so.
	spare = 10 * time.Second
)

// Until returns once the condition holds, or fails the test, which names what it
// waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Until(deadline(t)))
	defer cancel()
	for {
		asked := time.Now()
		if holds() {
			return
		}
		select {
		case <-time.After(min(max(pace, 4*time.Since(asked)), longest)):
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func deadline(t testing.TB) time.Time {
	latest := time.Now().Add(patience)
	if limited, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := limited.Deadline(); ok && at.Add(-spare).Before(latest) {
			return at.Add(-spare)
		}
	}
	return latest
}

// Stay never returns: it is what a child does whom its test ends.
func Stay() {
	for {
		_, _ = unix.Select(0, nil, nil, nil, nil) // every signal that is handled ends it once
	}
}
