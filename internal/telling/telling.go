// Package telling is how a process that serves says what happens: in the chain of its own
// session, and on its bus. It promises that what nobody can be told is recorded all the same.
package telling

import (
	"context"
	"encoding/json"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/session"
)

// Teller records what happens while nacre serves, and tells it on the bus.
type Teller struct {
	*session.Session
	Inst *installation.Installation
	Bus  *bus.Bus
}

// Publish puts what the core has to say on the bus. What nobody can be told is
// recorded all the same.
func (t *Teller) Publish(ctx context.Context, topic string, group nacre.Group, payload map[string]any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	_, err = t.Bus.Publish(context.WithoutCancel(ctx), bus.Event{Topic: topic, Source: installation.SourceCore, Group: group, Payload: raw})
	return err
}

// Note records what is no effect. The recorder itself stops the session if it fails.
func (t *Teller) Note(ctx context.Context, rec nacre.Record) {
	rec.Source = installation.SourceCore
	_ = t.Recorder.Append(context.WithoutCancel(ctx), rec)
}

// NotDelivered records events that somebody who subscribes or publishes lost.
func (t *Teller) NotDelivered(d bus.Drop) {
	detail, err := json.Marshal(map[string]any{"who": d.Who, "count": d.Count, "detail": d.Detail, "for": d.Group})
	if err == nil {
		t.Note(t.Context(), nacre.Record{Kind: nacre.KindEvent, Topic: d.Topic, Outcome: "not delivered", Reason: string(d.Reason), Detail: detail})
	}
}

// Clean takes secrets out of a text.
func (t *Teller) Clean(text string) string {
	text, _ = t.Inst.Redact.String(text)
	return text
}
