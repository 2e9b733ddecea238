package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	tokens "github.com/nacre-dev/nacre/grant"
	"github.com/nacre-dev/nacre/kernel"
)

// F-32: after the clock was set back a call is refused for that, and not as if a person had said
// no. The same holds for whatever else the kernel itself cannot do.
func TestNobodyIsSaidToHaveDeniedWhatFailed(t *testing.T) {
	h := open(t, nil)
	h.add(t, reading(nil), nil)
	read := nacre.Call{Tool: "note_read", Principal: writer, Arguments: json.RawMessage(milk)}
	if _, err := h.Call(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	h.clock.pass(-2 * time.Minute)
	_, err := h.Call(t.Context(), read)
	if have := refusal(t, err); have.Reason != nacre.ReasonInternal || !strings.Contains(have.Message, "clock") {
		t.Errorf("have %+v, want %s for the clock", have, nacre.ReasonInternal)
	}
	h.clock.pass(3 * time.Minute)
	if _, err := h.Call(t.Context(), read); err != nil {
		t.Errorf("after the clock has caught up: %v", err)
	}
}

// F-34, K-10: why a token is refused is told by its reason and by errors.Is, and
// said once (F-47).
func TestTheRefusalOfATokenTellsWhy(t *testing.T) {
	once := 1
	for name, c := range map[string]struct {
		request kernel.GrantRequest
		spoil   func(*house, *nacre.Token, *kernel.Input)
		is      error
		reason  nacre.ReasonCode
	}{
		"revoked": {spoil: func(h *house, t *nacre.Token, _ *kernel.Input) { _ = h.Revoke(t.ID) }, is: nacre.ErrTokenRevoked, reason: nacre.ReasonTokenRevoked},
		"expired": {spoil: func(h *house, _ *nacre.Token, _ *kernel.Input) { h.clock.pass(kernel.MaxGrantTTL) }, is: nacre.ErrTokenExpired, reason: nacre.ReasonTokenExpired},
		"spent": {request: kernel.GrantRequest{Uses: &once}, spoil: func(h *house, t *nacre.Token, in *kernel.Input) {
			_, _ = h.Invoke(context.Background(), *t, writer, *in)
		}, is: nacre.ErrTokenSpent, reason: nacre.ReasonTokenSpent},
		"forged":  {spoil: func(_ *house, t *nacre.Token, _ *kernel.Input) { t.MAC[0]++ }, is: nacre.ErrTokenSignature, reason: nacre.ReasonTokenRefused},
		"a key":   {spoil: func(_ *house, t *nacre.Token, _ *kernel.Input) { t.KeyID = "other" }, is: nacre.ErrTokenUnknownKey, reason: nacre.ReasonTokenRefused},
		"another": {spoil: func(_ *house, _ *nacre.Token, in *kernel.Input) { in.Caller = "main/other" }, is: nacre.ErrTokenPrincipal, reason: nacre.ReasonTokenRefused},
		"arguments": {request: kernel.GrantRequest{Constraints: nacre.Constraints{Arguments: nacre.ArgumentLimits{Prefix: map[string]string{"text": "eggs"}}}},
			spoil: func(*house, *nacre.Token, *kernel.Input) {}, is: nacre.ErrTokenArguments, reason: nacre.ReasonArgumentConstraint},
	} {
		c.request.Capability = "notes.note_read"
		h, grant := granted(t, c.request)
		in := with
		c.spoil(h, &grant, &in)
		_, err := h.Invoke(t.Context(), grant, writer, in)
		if !errors.Is(err, c.is) || refusal(t, err).Reason != c.reason {
			t.Errorf("%s: have %v with %s, want %v with %s", name, err, refusal(t, err).Reason, c.is, c.reason)
		}
		if text := err.Error(); strings.Count(text, c.is.Error()) != 1 || strings.Contains(text, "%!") {
			t.Errorf("%s: have %q, want why said once", name, text)
		}
	}
}

// F-34: what cannot be derived is refused as anything else is.
func TestADerivationThatIsRefusedIsARefusal(t *testing.T) {
	_, grant := granted(t, kernel.GrantRequest{})
	_, err := tokens.Derive(grant, nacre.Caveat{ID: "c", Principal: "elsewhere/x"})
	if err == nil || refusal(t, err).Reason != nacre.ReasonTokenRefused {
		t.Errorf("have %v, want a refusal of the token", err)
	}
}

// F-47: a page of a revoked grant says so to the host, in whole words.
func TestAPageOfARevokedGrantSaysSo(t *testing.T) {
	h, grant, id := handed(t, nacre.Constraints{})
	if err := h.Revoke(grant.ID); err != nil {
		t.Fatal(err)
	}
	_, err := h.Expand(t.Context(), id, nacre.Query{}, writer)
	if !errors.Is(err, nacre.ErrTokenRevoked) || strings.Contains(err.Error(), "%!") || refusal(t, err).Reason != nacre.ReasonHandleUnknown {
		t.Errorf("have %v", err)
	}
}

// F-35: the traces of a call that was asked about tell in order what happened
// when: asked, answered, done.
func TestTheTracesOfAnAskedCallAreInOrder(t *testing.T) {
	for name, wait := range map[string]time.Duration{"after a while": time.Minute, "at once": 0} {
		var h *house
		h = open(t, func(c *kernel.Config) {
			c.Approver = answer(func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
				h.clock.pass(wait)
				return yes(ctx, q)
			})
		})
		h.add(t, note(risky), nil)
		start := h.clock.now()
		if _, err := h.Call(t.Context(), call(milk)); err != nil {
			t.Fatal(err)
		}
		traces, err := h.QueryTraces(kernel.TraceQuery{})
		if err != nil || len(traces) != 3 {
			t.Fatalf("%s: have %d traces, %v", name, len(traces), err)
		}
		for i, want := range []struct {
			event kernel.Event
			after time.Duration
		}{{kernel.EventAsk, 0}, {kernel.EventApprove, wait}, {kernel.EventInvoke, wait}} {
			if have := traces[i]; have.Event != want.event || !have.InvokedAt.Equal(start.Add(want.after)) {
				t.Errorf("%s: %d is %s at %v, want %s after %v", name, i, have.Event, have.InvokedAt.Sub(start), want.event, want.after)
			}
		}
	}
}

// F-36: one value that a fact says whole leaves nothing out.
func TestAScalarIsShownWhole(t *testing.T) {
	for _, raw := range []string{`"hello"`, "42", "null", "true", "false", `""`, "-0.5"} {
		h := open(t, nil)
		h.add(t, reading(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return json.RawMessage(raw), nil })
		grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, writer, "")
		if err != nil {
			t.Fatal(err)
		}
		frame, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments})
		if err != nil || frame.Handle != nil || len(frame.Warnings) > 0 || len(frame.Facts) != 1 || frame.Omitted != (nacre.Omitted{}) {
			t.Errorf("%s: have %+v, %v", raw, frame, err)
		}
	}
}
