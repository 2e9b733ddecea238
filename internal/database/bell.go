package database

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// channel is PostgreSQL's name of what is rung on.
	channel = "nacre"
	// redial is how long the bell waits after its connection was lost.
	redial = time.Second
)

// Ring is the statement that wakes who listens for a topic ($1) on any machine, when its
// transaction ends. It carries no more than that: the tables are the truth.
const Ring = `SELECT pg_notify('` + channel + `', $1)`

// bell wakes whoever waits for a change in the store, over one connection of a process.
// Nobody may depend on it: a ring that is lost costs no more than the time until the
// next look.
type bell struct {
	mu      sync.Mutex
	waiting map[chan struct{}]string
	stop    context.CancelFunc
}

// Listen gives a channel that is filled when something rings for a topic at any machine, and
// when rings may have been missed. end ends it. Nothing rings where there is no store.
func (s *Store) Listen(topic string) (rings <-chan struct{}, end func()) {
	if s == nil {
		return nil, func() {}
	}
	c := make(chan struct{}, 1)
	b := &s.bell
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[chan struct{}]string{}
	}
	b.waiting[c] = topic
	if b.stop == nil {
		var ctx context.Context
		ctx, b.stop = context.WithCancel(context.Background())
		go s.hear(ctx)
	}
	return c, func() { b.leave(c) }
}

// leave hangs up when nobody listens any more.
func (b *bell) leave(c chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, c)
	if len(b.waiting) == 0 && b.stop != nil {
		b.stop()
		b.stop = nil
	}
}

// wake fills the channels of a topic, or all of them.
func (b *bell) wake(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c, of := range b.waiting {
		if topic != "" && topic != of {
			continue
		}
		select {
		case c <- struct{}{}:
		default: // it is awake
		}
	}
}

// hear listens until nobody does.
func (s *Store) hear(ctx context.Context) {
	for ctx.Err() == nil {
		s.hearOnce(ctx)
		s.bell.wake("")
		select {
		case <-ctx.Done():
		case <-time.After(redial):
		}
	}
}

// hearOnce listens as long as one connection lasts.
func (s *Store) hearOnce(ctx context.Context) {
	options, err := parse(s.address())
	if err != nil {
		return // whoever looks is told so
	}
	conn, err := pgx.ConnectConfig(ctx, options.ConnConfig)
	if err != nil {
		return
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), redial)
		defer cancel()
		_ = conn.Close(ending) // it is broken most often
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return
	}
	s.bell.wake("") // what rang before
	for {
		rung, err := conn.WaitForNotification(ctx)
		if err != nil {
			return
		}
		topic, _, _ := strings.Cut(rung.Payload, " ")
		s.bell.wake(topic)
	}
}
