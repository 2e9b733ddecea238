package dispatch_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/nacre-dev/nacre/internal/dispatch"
	"github.com/nacre-dev/nacre/internal/events"
	"github.com/nacre-dev/nacre/internal/routing"
	"github.com/nacre-dev/nacre/plugin"
)

// BenchmarkStart is the way of a message from the bus to the start of its agent,
// its payload read and its route found, against handing it to a goroutine.
func BenchmarkStart(b *testing.B) {
	payload, err := json.Marshal(map[string]any{"channel": "local", "sender": "ada", "content_type": "text", "body": "what is due today?", "metadata": map[string]any{"chat": "home"}})
	if err != nil {
		b.Fatal(err)
	}
	message := plugin.Envelope{ID: "1", Topic: events.TopicInbound, Source: "local", Payload: payload}
	b.Run("floor", func(b *testing.B) {
		events, started := make(chan plugin.Envelope), make(chan plugin.Envelope)
		go func() {
			for e := range events {
				go func() { started <- e }()
			}
		}()
		for b.Loop() {
			events <- message
			<-started
		}
		close(events)
	})
	b.Run("ours", func(b *testing.B) {
		table, err := routing.Compile([]routing.Route{{Channel: "local", Sender: "ada", Group: "main", Policy: routing.Resume, Operator: true}})
		if err != nil {
			b.Fatal(err)
		}
		events, started := make(chan plugin.Envelope), make(chan dispatch.Order)
		d, err := dispatch.New(dispatch.Options{
			Table: table, Start: func(_ context.Context, o dispatch.Order) { started <- o },
			Dropped: func(_ context.Context, _ dispatch.Order, reason string) { b.Error(reason) },
		})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); d.Run(b.Context(), events) }()
		for b.Loop() {
			events <- message
			<-started
		}
		close(events)
		<-done
	})
}
