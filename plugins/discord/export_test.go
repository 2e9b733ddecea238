package main

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Serve runs the handler in a world of the test's, in which nobody waits for long, and the
// clock goes on as if they had.
func Serve(in io.Reader, out io.Writer, getenv func(string) string, patience time.Duration, waited func(time.Duration)) error {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	return serve(in, out, chat.World{Now: now, Getenv: getenv, Patience: patience, Wait: func(ctx context.Context, d time.Duration) error {
		waited(d)
		short := min(d, 10*time.Millisecond)
		ahead.Add(int64(d - short))
		return chat.Wait(ctx, short)
	}})
}

// Escaped is a text without markup.
var Escaped = escaped

// Ref is the name of a message, and PlaceOf reads it.
func Ref(channel, message, thread string) string {
	return refOf(chat.Place{Chat: channel, Message: message, Thread: thread})
}

// PlaceOf reads a ref.
func PlaceOf(ref string) (channel, message, thread string, ok bool) {
	p, ok := placeOf(ref)
	return p.Chat, p.Message, p.Thread, ok
}
