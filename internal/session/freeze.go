package session

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/nacre-dev/nacre"
)

// Refusals holds back what a session does through the host after a call was refused,
// until somebody has said whether the session goes on (M-65). The zero value holds
// nothing back. Its methods may be called concurrently.
type Refusals struct {
	mu      sync.Mutex
	refused func(reason string, thaw func())
	open    int           // refusals that nobody has answered
	thawed  chan struct{} // closed when the last of them is answered; nil where there is none
}

// Heed has refused called for each call that policy refuses, before the caller is
// answered. From then on no call, model request or connection of the session goes on
// until refused's thaw is called, or Heed's leave. refused returns at once.
func (f *Refusals) Heed(refused func(reason string, thaw func())) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = refused
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refused = nil
		f.melt(f.open)
	}
}

// tell hands a refusal to whoever heeds it.
func (f *Refusals) tell(reason string) {
	refused := f.count()
	if refused == nil {
		return
	}
	refused(reason, sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.melt(min(1, f.open))
	}))
}

// count takes in a refusal, and gives who heeds it; nil where nobody does.
func (f *Refusals) count() func(reason string, thaw func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused == nil {
		return nil
	}
	if f.open++; f.thawed == nil {
		f.thawed = make(chan struct{})
	}
	return f.refused
}

// melt takes n refusals as answered. The caller holds the lock.
func (f *Refusals) melt(n int) {
	if f.open -= n; f.open == 0 && f.thawed != nil {
		close(f.thawed)
		f.thawed = nil
	}
}

// wait returns when no refusal waits for its answer, or with the reason why that is
// waited for no longer: ctx or the session ends.
func (f *Refusals) wait(ctx context.Context, s *Session) error {
	f.mu.Lock()
	thawed := f.thawed
	f.mu.Unlock()
	if thawed == nil {
		return nil
	}
	select {
	case <-thawed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return context.Canceled
	case <-s.Interruption.begun:
		return context.Canceled
	}
}

// leaves tells whether a record stands before something that leaves the sandbox.
func leaves(kind nacre.Kind) bool {
	return kind == nacre.KindCallBegin || kind == nacre.KindModelBegin || kind == nacre.KindEgress
}

// unauthorized tells whether a record is of a call that policy refused, and why.
func unauthorized(rec nacre.Record) (reason string, found bool) {
	if rec.Kind != nacre.KindCallReject {
		return "", false
	}
	var d struct {
		Capability string `json:"capability"`
		Code       string `json:"code"`
	}
	if json.Unmarshal(rec.Detail, &d) != nil || d.Code != string(nacre.CodeUnauthorized) {
		return "", false
	}
	return "the call of " + d.Capability + " is not allowed (" + rec.Reason + ")", true
}
