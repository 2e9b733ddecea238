package main

import (
	"context"
	"io"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Serve runs the handler in a world of the test's, in which nobody waits for long.
func Serve(in io.Reader, out io.Writer, getenv func(string) string, waited func(time.Duration)) error {
	return serve(in, out, chat.World{Now: time.Now, Getenv: getenv, Patience: 2 * time.Second, Wait: func(ctx context.Context, d time.Duration) error {
		waited(d)
		return chat.Wait(ctx, min(d, 10*time.Millisecond))
	}})
}

// Messages are the texts of the messages that a text becomes.
func Messages(text string) (list []string) {
	for _, part := range chat.Messages(text, maxText) {
		list = append(list, markup(part))
	}
	return list
}

// Ref is the name of a message, and PlaceOf reads it.
func Ref(chat, message, topic int64) string { return place{chat, message, topic}.ref() }

// PlaceOf reads a ref.
func PlaceOf(ref string) (chat, message, topic int64, ok bool) {
	p, ok := placeOf(ref)
	return p.chat, p.message, p.topic, ok
}
