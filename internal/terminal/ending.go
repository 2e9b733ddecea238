package terminal

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrHeld is what a write ends with that a terminal did not take in time.
var ErrHeld = errors.New("the terminal takes no output")

// Ending bounds how long the terminals of a process hold up its end. One that a person stopped with
// Ctrl-S, or that nobody reads, is waited for as long as it takes. Once the process was told to
// end, all of them together are waited for a few seconds, and what they do not take is lost. Its
// methods may be called concurrently, and those of nil bound nothing.
type Ending struct {
	told <-chan struct{}

	once sync.Once
	held chan struct{} // closed when one was waited for in vain
}

// NewEnding bounds the end of a process that is told to end when told is closed.
func NewEnding(told <-chan struct{}) *Ending {
	return &Ending{told: told, held: make(chan struct{})}
}

// Writer writes to a terminal. The error of a write that was given up, and of each one after
// it, is [ErrHeld].
func (e *Ending) Writer(out io.Writer) io.Writer {
	if e == nil {
		return out
	}
	return ending{e, out}
}

type ending struct {
	*Ending
	out io.Writer
}

// Write implements [io.Writer].
func (e ending) Write(p []byte) (int, error) {
	select {
	case <-e.held:
		return 0, ErrHeld
	default:
	}
	written := make(chan error, 1)
	text := bytes.Clone(p) // a write that was given up still reads it
	go func() {
		_, err := e.out.Write(text)
		written <- err
	}()
	select {
	case err := <-written:
		return len(p), err
	case <-e.told:
	}
	late := time.NewTimer(heldFor)
	defer late.Stop()
	select {
	case err := <-written:
		return len(p), err
	case <-late.C:
		e.once.Do(func() { close(e.held) })
	case <-e.held:
	}
	return 0, ErrHeld
}
