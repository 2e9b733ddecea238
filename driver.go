package nacre

import (
	"context"
	"encoding/json"
	"errors"
)

// LabelledDriver is a Driver that knows of each result how far it can be
// trusted, such as a memory that holds an operator's entries and an agent's. A
// label can only lower what its capability declares (K-25).
type LabelledDriver interface {
	Driver
	DoLabelled(ctx context.Context, in Invocation) (json.RawMessage, Label, error)
}

// PromptDriver is a Driver that may promise to return as soon as its context ends,
// whatever it waits for, and not to panic. Who calls it then waits for it itself,
// without a goroutine that could be left behind.
type PromptDriver interface {
	Driver
	Prompt() bool
}

// NotSent marks a driver's error as one that came before anything was sent, so
// that another driver may be tried even for what writes (K-13). A driver that
// is not sure does not use it.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return &notSent{err}
}

// IsNotSent reports whether err, or what it wraps, was marked by NotSent.
func IsNotSent(err error) bool {
	var marked *notSent
	return errors.As(err, &marked)
}

type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }

func (e *notSent) Unwrap() error { return e.err }
