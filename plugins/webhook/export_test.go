package main

import (
	"context"
	"io"
	"time"
)

// Serve runs the handler in a world of the test's.
func Serve(in io.Reader, out io.Writer, now func() time.Time, getenv func(string) string) error {
	return serve(in, out, world{now, getenv, func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
}

// IsStrictJSON is what decides whether a body is JSON.
var IsStrictJSON = isStrictJSON

// Seen is the store of what was taken.
type Seen = seen

// OpenSeen opens one.
var OpenSeen = openSeen

// Take takes an id.
func (s *seen) Take(id string) (bool, error) { return s.take(id) }

// GiveBack lets it come again.
func (s *seen) GiveBack(id string) error { return s.giveBack(id) }

// Close closes the store.
func (s *seen) Close() error { return s.close() }
