// Package ticking is what becomes of schedules that are due. Each tick is an event, an agent's turn
// that the event asks for, and an end that its schedule is told.
package ticking

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/dispatch"
	"github.com/nacre-dev/nacre/internal/hosting"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/node"
	"github.com/nacre-dev/nacre/internal/schedule"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/telling"
)

// NothingToDo is what became of a tick whose gate found nothing to do.
const NothingToDo = string(schedule.NothingToDo)

// Ticks are those that wait for what becomes of them, by session.
type Ticks struct {
	tell  *telling.Teller
	mu    sync.Mutex
	ticks map[nacre.SessionID]*pending
}

// New are the ticks of a process that serves.
func New(tell *telling.Teller) *Ticks {
	return &Ticks{tell: tell, ticks: map[nacre.SessionID]*pending{}}
}

// pending is a tick of a schedule whose agent has not ended yet.
type pending struct {
	schedule.Claim
	done chan result
	// begun is closed when its agent is about to be started: done is told then.
	begun chan struct{}
}

// result is what became of a tick.
type result struct {
	outcome string
	err     error
}

// Run claims what is due and puts it on the bus until ctx ends, for a node where there is one.
// serving is called once schedules can be asked for.
func (k *Ticks) Run(ctx context.Context, n *node.Node, serving func()) error {
	return scheduling.RunSchedules(ctx, k.tell.Inst, n, scheduling.ScheduleHooks{
		Serving: serving, Start: k.tick, Created: k.created, Left: k.left,
		Ended: func(t schedule.Tick) (schedule.State, string) { return scheduling.TickEnd(k.tell.Inst, t) },
	})
}

// Visit is the turn that a timer asks for, and false where nobody waits for it any more.
func (k *Ticks) Visit(v conversation.Request, o dispatch.Order) (conversation.Request, bool) {
	w := k.waitingFor(o)
	if w == nil {
		return v, false // whoever waited has gone, and the tick is claimed again
	}
	close(w.begun)
	v.ID, v.Kind, v.Title, v.Gate = w.Session, "schedule", "schedule "+w.Task.ID, w.Task.Gate
	v.From, v.Said = w.Task.Source(), w.Task.Prompt
	again := ""
	if w.Begun > 0 {
		again = " " + conversation.BegunBefore
	}
	v.Frame = fmt.Sprintf("The schedule %s is due, at %s. Nobody is there to talk to.%s What it asks for:", w.Task.ID, w.At.UTC().Format(time.RFC3339), again)
	if w.Task.Session == schedule.Resume { // however long ago the run before was
		v.Key, v.Idle = "schedule "+w.Task.ID, 0
	}
	return v, true
}

// tick lets an agent do what a schedule asks for, and waits for it.
func (k *Ticks) tick(ctx context.Context, c schedule.Claim) (string, error) {
	payload, err := c.Task.Payload()
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := json.Unmarshal(payload, &fields); err != nil {
		return "", err
	}
	fields["session"] = c.Session
	w := &pending{c, make(chan result, 1), make(chan struct{})}
	k.mu.Lock()
	k.ticks[c.Session] = w
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.ticks, c.Session)
	}()
	if err := k.tell.Publish(ctx, bus.TopicTaskTriggered, c.Task.Group, fields); err != nil {
		return "", err
	}
	select {
	case t := <-w.done:
		return t.outcome, t.err
	case <-ctx.Done():
	}
	select {
	case <-w.begun: // the agent was told to end, too: nobody carries it on before it has
		t := <-w.done
		return t.outcome, t.err
	case t := <-w.done:
		return t.outcome, t.err
	case <-time.After(hosting.DriversLimit):
		return "", ctx.Err()
	}
}

// created tells of a new schedule.
func (k *Ticks) created(ctx context.Context, s schedule.Schedule) {
	payload, err := s.Payload()
	if err == nil {
		_, err = k.tell.Bus.Publish(context.WithoutCancel(ctx), bus.Event{Topic: bus.TopicTaskCreated, Source: installation.SourceCore, Group: s.Group, Payload: payload})
	}
	if err != nil {
		k.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicTaskCreated, Outcome: "not delivered", Reason: k.tell.Clean(err.Error())})
	}
}

// left records a tick whose process died, and whether it is carried on.
func (k *Ticks) left(ctx context.Context, t schedule.Tick) {
	outcome := "interrupted"
	switch t.State {
	case schedule.Waiting:
		outcome = "interrupted, carried on"
	case schedule.Done, schedule.Failed, schedule.NothingToDo:
		outcome = "ended, written back"
	default: // nobody carries it on
	}
	k.tell.Note(ctx, nacre.Record{Kind: nacre.KindEvent, Topic: bus.TopicTaskTriggered, Outcome: outcome, Reason: "schedule " + t.Schedule + ", session " + string(t.Session)})
}

// waitingFor is the tick that an event is of.
func (k *Ticks) waitingFor(o dispatch.Order) *pending {
	var payload struct {
		Session nacre.SessionID `json:"session"`
	}
	if o.Task == nil || json.Unmarshal(o.Envelope.Payload, &payload) != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ticks[payload.Session]
}

// Resolve tells the schedule that waits for this event, if one does.
func (k *Ticks) Resolve(o dispatch.Order, outcome string, err error) {
	if w := k.waitingFor(o); w != nil {
		select {
		case w.done <- result{outcome: outcome, err: err}:
		default: // it was told
		}
	}
}

// Unfinished are the sessions of ticks that were taken and not dealt with.
func Unfinished(ctx context.Context, inst *installation.Installation) (sessions map[nacre.SessionID]bool, err error) {
	if inst.Registry.Store() == nil {
		_, err := os.Stat(filepath.Join(inst.Registry.Paths().State, schedule.FileName))
		if errors.Is(err, fs.ErrNotExist) {
			return map[nacre.SessionID]bool{}, nil // there has been no schedule, and looking makes no file
		}
	}
	store, err := scheduling.Schedules(ctx, inst)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.OpenSessions(ctx)
}
