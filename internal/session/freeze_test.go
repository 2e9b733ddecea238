package session_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/nacre-dev/nacre"
)

// M-65: whoever heeds refusals has one in hand before its caller is answered, and nothing else
// leaves the session until it is dealt with. Who deals with it at once holds nobody up.
func TestARefusalIsHeldUntilItIsDealtWith(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.open(t)
	defer closed(t, s, true)
	rejected := nacre.Record{Kind: nacre.KindCallReject, Outcome: "rejected", Reason: "no_right", Detail: json.RawMessage(`{"capability":"a.b","code":"UNAUTHORIZED"}`)}
	begun := nacre.Record{Kind: nacre.KindCallBegin, Outcome: nacre.OutcomeAllowed}
	write := func(r nacre.Record) { // nobody heeds it, or it is dealt with at once
		t.Helper()
		if err := s.Recorder.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	write(rejected)
	leave := s.Refusals.Heed(func(_ string, thaw func()) { thaw() })
	write(rejected)
	write(begun)
	leave()

	thaws := make(chan func(), 1)
	leave = s.Refusals.Heed(func(reason string, thaw func()) {
		if reason != "the call of a.b is not allowed (no_right)" {
			t.Errorf("told %q", reason)
		}
		thaws <- thaw
	})
	defer leave()
	var dealt atomic.Bool
	ended := make(chan error, 2)
	later := func(r nacre.Record) {
		err := s.Recorder.Append(t.Context(), r)
		if !dealt.Load() {
			t.Errorf("%s was let go before anybody had dealt with the refusal", r.Kind)
		}
		ended <- err
	}
	go later(rejected)
	thaw := <-thaws
	go later(begun)
	write(nacre.Record{Kind: nacre.KindMemory, Outcome: "stored"}) // it leaves nothing
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Recorder.Append(late, begun); err == nil {
		t.Error("a caller who is gone was let through")
	}
	dealt.Store(true)
	thaw()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	write(begun)
}
