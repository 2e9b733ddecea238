package chat_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/nacre-dev/nacre/internal/chat"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-41, M-47: a person's press is neither lost nor made to wait by ten thousand strangers who press at
// once, or by one who never ends. That holds for whom the host knows, and for the first press of somebody
// whom it has told nothing yet. What waits of one user is bounded.
func TestAPersonsPressIsNotLostForStrangers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	inbox := chat.NewInbox(chat.Here(0), func(user string) bool { return user == "ada" })
	ended := make(chan struct{})
	go func() { defer close(ended); inbox.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })

	slow, ada, bob := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	done, most := 0, 0
	stranger := func(context.Context) { <-slow; done++ }
	for range 100_000 {
		if inbox.Soon("madly", stranger) {
			most++
		}
	}
	strangers := testpeer.Size(1000, 10_000)
	for n := range strangers {
		if !inbox.Soon(strconv.Itoa(n), stranger) {
			t.Fatalf("the press of stranger %d is lost", n)
		}
	}
	if !inbox.Soon("ada", func(context.Context) { close(ada) }) || !inbox.Soon("bob", func(context.Context) { bob <- done }) {
		t.Fatal("a person's press is lost")
	}
	<-ada // while every stranger waits
	close(slow)
	if before := <-bob; before > strangers+2 {
		t.Errorf("bob waits for %d presses of %d strangers and one more", before, strangers)
	}
	if most < 2 || most > 20 {
		t.Errorf("%d presses of one user wait", most)
	}
}

// M-42, M-48: while the host takes no message, however many wait, whoever reads from the service goes on
// to what comes behind them. Then they are taken in their order, each once, and what is too much waits.
func TestMessagesThatWaitKeepNobodyFromAPress(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	inbox := chat.NewInbox(chat.Here(0), func(string) bool { return true })
	open, pressed, all := make(chan struct{}), make(chan struct{}), make(chan []int, 1)
	var taken []int
	offer := func(ctx context.Context, n, bytes int) error {
		return inbox.Offer(ctx, bytes, func(context.Context) error { <-open; return nil }, func() {
			if taken = append(taken, n); len(taken) == 5000 {
				all <- taken
			}
		})
	}
	for n := range 5000 {
		if err := offer(ctx, n, 100); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() { defer close(ended); inbox.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	inbox.Soon("ada", func(context.Context) { close(pressed) })
	<-pressed // while every message waits
	full, none := context.WithCancel(ctx)
	none()
	if err := offer(full, 0, 17<<20); err == nil {
		t.Error("more is held than is promised")
	}
	close(open)
	for n, have := range <-all {
		if n != have {
			t.Fatalf("message %d is taken in place %d", have, n)
		}
	}
}
