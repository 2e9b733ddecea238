// Package recollection is the memory of one sealed session: opened beside the session, closed
// while it closes, and what the next session may know of it as quiet.
package recollection

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/quiet"
)

// ErrNotOpened is why there is no memory where nobody asked for it.
var ErrNotOpened = errors.New("the session ended before anything was called")

// Recollection is a session's memory.
type Recollection struct {
	// Memory is open once Remembered has said so.
	Memory *memory.Store

	on      *basis.Basis
	group   nacre.Group
	working memory.Working
	opened  func() error
	looks   string // of all that a call can reach, before it was opened; empty where nobody keeps it
	rests   quiet.State
}

// New is the memory of a group that a session will work with. Where keeps is set, the next session
// may be told that what a call can reach was found quiet.
func New(on *basis.Basis, group nacre.Group, working memory.Working, keeps bool) *Recollection {
	r := &Recollection{on: on, group: group, working: working, opened: func() error { return ErrNotOpened }}
	if keeps {
		r.looks = r.look()
	}
	return r
}

// look is how what a call of the group can reach looks from outside.
func (r *Recollection) look() string {
	return quiet.LooksOf(r.on.Inst, r.group, access.LockFile(r.on.Inst), access.Folders(r.on.Inst))
}

// Quiet tells whether nothing of what a call can reach needs to be opened before one comes. Where
// the session briefs an agent, it tells the same of what the agent is told before it starts.
func (r *Recollection) Quiet(briefs bool) bool { return quiet.Is(r.on.Inst, r.group, r.looks, briefs) }

// Remember opens the memory beside the session. Nothing of either is used before
// both are open: no memory, no run (M-01, D-45).
func (r *Recollection) Remember(ctx context.Context) {
	var store *memory.Store
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		store, err = installation.OpenWorkingMemory(ctx, r.on.Inst, r.group, r.working, func(text string) {
			r.on.Warn(nacre.Step{Kind: nacre.StepResult, Name: "memory", Text: text, IsError: true})
		})
	}()
	r.opened = sync.OnceValue(func() error {
		<-done
		r.Memory = store
		return err
	})
}

// Remembered waits until the memory is open, or could not be opened.
func (r *Recollection) Remembered() error { return r.opened() }

// RecordPurge tells how many superseded entries were too old when the memory was opened (D-40).
func (r *Recollection) RecordPurge(ctx context.Context) error {
	if r.Memory.Purged() == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]int{"count": r.Memory.Purged()})
	if err != nil {
		return err
	}
	return r.on.Recorder.Append(ctx, nacre.Record{Kind: nacre.KindMemory, Source: installation.SourceCore, Outcome: "superseded entries purged", Detail: detail})
}

// Heard says that the session has heard all that an earlier one was told, was shown and wrote.
func (r *Recollection) Heard(ctx context.Context, earlier nacre.SessionID) error {
	return r.Memory.Heard(ctx, memory.Writer{Session: r.on.ID()}, earlier)
}

// OfferReview tells the operator what the session left for them to look over.
func (r *Recollection) OfferReview(ctx context.Context) {
	memory.OfferReview(ctx, r.Memory, r.on.ID(), r.on.Warn)
}

// Forget closes the memory while the session closes: a call that comes now fails. What the next
// session may know of a memory that rests, and of plugins that were idle, is found out first.
func (r *Recollection) Forget(ctx context.Context, idle bool) <-chan error {
	closed := make(chan error, 1)
	if r.looks != "" && idle {
		r.rest(ctx)
	}
	if err := r.opened(); err != nil {
		closed <- nil // it never was open, and somebody was told
		return closed
	}
	go func() { closed <- r.Memory.Close() }()
	return closed
}

// rest finds out until when nothing in the memory is due.
func (r *Recollection) rest(ctx context.Context) {
	until, err := r.Memory.Rests(ctx)
	if err != nil {
		return
	}
	if most := r.on.Inst.Options.Now().Add(quiet.Longest); until.After(most) {
		until = most
	}
	brief, err := r.Memory.Brief(ctx, false)
	// Other machines write to a store, which looks the same then.
	silent := err == nil && len(brief.Entries) == 0 && r.on.Inst.Registry.Store() == nil
	r.rests = quiet.State{Looks: r.looks, Until: until, Silent: silent}
}

// Keep keeps that, once the memory is closed, where everything looks as it did before
// it was opened.
func (r *Recollection) Keep() {
	if r.rests.Looks != "" && r.look() == r.rests.Looks {
		quiet.Keep(r.on.Inst, r.group, r.rests)
	}
}
