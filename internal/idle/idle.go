// Package idle keeps what a program that waits for work holds in memory to what waiting takes. It
// promises that nothing is lost: what goes is free, or is read again from the program's own file as
// soon as it is used (P-07).
package idle

import (
	"context"
	"sync"
	"time"
)

const (
	// settled is when a program has started, and every is how long it then keeps what work has
	// touched.
	settled, every = 5 * time.Second, time.Minute
)

// Rest gives back, again and again, what start and work have touched of the program's file, and what
// they have left free. Two thirds of what a program that waits has in memory are such pages, and it
// waits without them. end ends that.
func Rest(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var resting sync.WaitGroup
	resting.Go(func() {
		next := time.NewTimer(settled)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
				_ = GiveBack() // then there is as much as before
				next.Reset(every)
			}
		}
	})
	return func() { cancel(); resting.Wait() }
}
