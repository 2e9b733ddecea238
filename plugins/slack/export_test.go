package main

import (
	"context"
	"io"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Serve runs the handler in a world of the test's, in which nobody waits for long.
func Serve(in io.Reader, out io.Writer, getenv func(string) string, patience time.Duration, waited func(time.Duration)) error {
	return serve(in, out, chat.World{Now: time.Now, Getenv: getenv, Patience: patience, Wait: func(ctx context.Context, d time.Duration) error {
		waited(d)
		return chat.Wait(ctx, min(d, 10*time.Millisecond))
	}})
}

// Plain reads what a person wrote.
var Plain = plain

// Ref is the name of a message, and PlaceOf reads it.
func Ref(conversation, stamp, thread string) string {
	return refOf(chat.Place{Chat: conversation, Message: stamp, Thread: thread})
}

// PlaceOf reads a ref.
func PlaceOf(ref string) (conversation, stamp, thread string, ok bool) {
	p, ok := placeOf(ref)
	return p.Chat, p.Message, p.Thread, ok
}
