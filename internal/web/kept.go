package web

import (
	"context"
	"sync"
	"time"
)

const (
	// patience is how long a page waits for what takes long to read.
	patience = 20 * time.Millisecond
	// maxKept is how many sessions' readings are kept.
	maxKept = 32
	// rest is how many times as long as its reading took something is not read anew.
	rest = 10
)

// kept holds what takes long to read, each with the stamp of what it was read from. A page shows
// what was read last, and the reading goes on beside it. At most one reading of the same thing goes
// on at a time, and a reading is followed by a rest. The zero value is empty.
type kept[T any] struct {
	readings sync.WaitGroup

	mu  sync.Mutex
	all map[string]*keeping[T]
}

type keeping[T any] struct {
	stamp string
	look  look[T]
	// ended is closed at the end of the reading that goes on; nil where none does.
	ended  chan struct{}
	cancel context.CancelFunc
	rests  time.Time
}

// look is what was read last.
type look[T any] struct {
	Value T
	Err   error
	// Known says that it was read at all, Fresh that nothing has changed since.
	Known, Fresh bool
}

// get is what was read last of a key, after the reading that is due or for as long as a page
// waits. read is given a context that does not end with the page's.
func (k *kept[T]) get(ctx context.Context, key, stamp string, read func(context.Context) (T, error)) look[T] {
	ended := k.begin(ctx, key, stamp, read)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.all[key]
	if one == nil { // others took its place
		return look[T]{}
	}
	last := one.look
	last.Fresh = last.Known && one.stamp == stamp
	return last
}

// begin starts the reading that is due, and gives what is closed when nothing is read.
func (k *kept[T]) begin(ctx context.Context, key, stamp string, read func(context.Context) (T, error)) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.all[key]
	if one == nil {
		k.makeRoom()
		one = &keeping[T]{}
		k.all[key] = one
	}
	began := time.Now()
	switch {
	case one.ended != nil:
		return one.ended
	case one.look.Known && (one.stamp == stamp || began.Before(one.rests)):
		nothing := make(chan struct{})
		close(nothing)
		return nothing
	}
	ended := make(chan struct{})
	one.ended = ended
	ctx, one.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.readings.Go(func() {
		defer one.cancel()
		value, err := read(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		one.look = look[T]{Value: value, Err: err, Known: true}
		one.stamp, one.ended, one.rests = stamp, nil, time.Now().Add(rest*time.Since(began))
		close(ended)
	})
	return ended
}

// makeRoom drops what nobody reads, where there is too much. mu is held.
func (k *kept[T]) makeRoom() {
	if k.all == nil {
		k.all = map[string]*keeping[T]{}
	}
	for key, one := range k.all {
		if len(k.all) < maxKept {
			return
		}
		if one.ended == nil {
			delete(k.all, key)
		}
	}
}

// close gives up what is read, and returns when nothing is read any more.
func (k *kept[T]) close() {
	k.mu.Lock()
	for _, one := range k.all {
		if one.ended != nil {
			one.cancel()
		}
	}
	k.mu.Unlock()
	k.readings.Wait()
}
