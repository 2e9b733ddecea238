package kernel_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
)

// asked is a house whose person answers as they are told to, and is counted.
func asked(t *testing.T, ruling nacre.Ruling, change func(*nacre.Capability)) (h *house, times *int) {
	t.Helper()
	times = new(int)
	h = open(t, func(c *kernel.Config) {
		c.Approver = answer(func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
			*times++
			ruling.Digest, ruling.By = q.Digest, "ann"
			return ruling, nil
		})
	})
	h.add(t, note(func(c *nacre.Capability) {
		risky(c)
		c.Returns = nacre.Trusted
		if change != nil {
			change(c)
		}
	}), nil)
	return h, times
}

// about is what the answer of a house's one question is about, by its record.
func about(t *testing.T, h *house) string {
	t.Helper()
	for _, r := range h.chain.all() {
		var d struct{ Like string }
		if r.Kind == nacre.KindApprovalReply && json.Unmarshal(r.Detail, &d) == nil && d.Like != "" {
			return d.Like
		}
	}
	t.Fatalf("no record says what the answer was about: %s", h.chain.told())
	return ""
}

// M-55: what a person answered before a session was interrupted is not asked again in the
// kernel that goes on with it. An approval is for one call: what was carried out is not
// carried out again, and where nobody knows whether it was, a person says so.
func TestWhatWasAnsweredIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	yes, no := nacre.Ruling{Verdict: nacre.Allow}, nacre.Ruling{Verdict: nacre.Deny}
	hour := func(scope nacre.RulingScope, times int) nacre.Ruling {
		return nacre.Ruling{Verdict: nacre.Allow, For: time.Hour, Scope: scope, Times: times}
	}
	const oats = `{"text":"oats"}`
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ruling nacre.Ruling
		ruled  func(*nacre.Ruled)
		change func(*nacre.Capability)
		pass   time.Duration
		calls  []string
		// asked is how often the person is, and ran how often the tool.
		asked, ran int
	}{
		"approved, and not carried out":         {yes, nil, nil, time.Minute, []string{milk}, 0, 1},
		"approved once, called twice":           {yes, nil, nil, time.Minute, []string{milk, milk}, 1, 2},
		"approved, and called with another":     {yes, nil, nil, time.Minute, []string{oats}, 1, 1},
		"approved, and carried out":             {yes, func(r *nacre.Ruled) { r.Uses, r.Done = 1, start }, nil, time.Minute, []string{milk}, 0, 0},
		"carried out, and called once more":     {yes, func(r *nacre.Ruled) { r.Uses, r.Done = 1, start }, nil, time.Minute, []string{milk, milk}, 1, 1},
		"carried out, and of another":           {yes, func(r *nacre.Ruled) { r.Uses, r.Done = 1, start }, nil, time.Minute, []string{oats}, 1, 1},
		"a read that was carried out":           {yes, func(r *nacre.Ruled) { r.Uses, r.Done = 1, start }, func(c *nacre.Capability) { c.Safety = nacre.Read }, time.Minute, []string{milk, milk}, 1, 2},
		"begun, and nobody knows its end":       {yes, func(r *nacre.Ruled) { r.Uses = 1 }, nil, time.Minute, []string{milk}, 1, 1},
		"denied":                                {no, nil, nil, time.Minute, []string{milk}, 0, 0},
		"denied once, and called twice":         {no, nil, nil, time.Minute, []string{milk, milk}, 1, 0},
		"for an hour":                           {hour(nacre.ScopeTool, 0), func(r *nacre.Ruled) { r.Span, r.Uses = time.Hour, 3 }, nil, time.Minute, []string{milk, oats}, 0, 2},
		"for an hour that is over":              {hour(nacre.ScopeTool, 0), func(r *nacre.Ruled) { r.Span = time.Hour }, nil, time.Hour, []string{milk}, 1, 1},
		"for three calls, of which one is left": {hour(nacre.ScopeTool, 3), func(r *nacre.Ruled) { r.Span, r.Times, r.Uses = time.Hour, 3, 2 }, nil, time.Minute, []string{milk, milk}, 1, 2},
		"for three calls that were made":        {hour(nacre.ScopeTool, 3), func(r *nacre.Ruled) { r.Span, r.Times, r.Uses = time.Hour, 3, 3 }, nil, time.Minute, []string{milk}, 1, 1},
		"approved too long ago":                 {yes, nil, nil, kernel.MaxStanding, []string{milk}, 1, 1},
		"the clock went back":                   {yes, nil, nil, -time.Minute, []string{milk}, 1, 1},
		"another version of the tool":           {yes, nil, func(c *nacre.Capability) { c.ContentHash = "sha256:2" }, time.Minute, []string{milk}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := c.change
			if change != nil && name == "another version of the tool" {
				change = nil
			}
			before, _ := asked(t, c.ruling, change)
			_, _ = before.Call(t.Context(), call(milk))
			was := nacre.Ruled{Like: about(t, before), Verdict: c.ruling.Verdict, Question: "q1", Digest: "d", By: "ann", At: start}
			if c.ruled != nil {
				c.ruled(&was)
			}
			h, times := asked(t, c.ruling, c.change)
			h.clock.pass(c.pass)
			if err := h.Resume(in("s1"), nacre.Trusted, "before", was); err != nil {
				t.Fatal(err)
			}
			for _, arguments := range c.calls {
				_, _ = h.Call(t.Context(), call(arguments))
			}
			if *times != c.asked || len(h.called()) != c.ran {
				t.Errorf("asked %d times, ran %d times, want %d and %d: %s", *times, len(h.called()), c.asked, c.ran, h.chain.told())
			}
		})
	}
}

// M-55: an agent that repeats a call which was carried out is told so, and the record says it.
func TestACallThatWasCarriedOutIsToldOf(t *testing.T) {
	t.Parallel()
	before, _ := asked(t, nacre.Ruling{Verdict: nacre.Allow}, nil)
	if _, err := before.Call(t.Context(), call(milk)); err != nil {
		t.Fatal(err)
	}
	at := before.clock.now()
	h, _ := asked(t, nacre.Ruling{Verdict: nacre.Allow}, nil)
	h.clock.pass(time.Minute)
	if err := h.Resume(in("s1"), nacre.Trusted, "before", nacre.Ruled{Like: about(t, before), Verdict: nacre.Allow, Question: "q1", At: at, Uses: 1, Done: at}); err != nil {
		t.Fatal(err)
	}
	out, err := h.Call(t.Context(), call(milk))
	if err != nil || !strings.Contains(string(out.Result), `"done_before":true`) || out.Label != nacre.Trusted {
		t.Errorf("have %s, %v", out.Result, err)
	}
	if have := h.chain.told(); have != "call.repeat/allowed/it was carried out before the session was interrupted" {
		t.Errorf("have %s", have)
	}
}

// M-55: a ruling that is not as a record has it counts for nothing, and nor do those beside it.
func TestARulingThatIsNotAsARecordHasIt(t *testing.T) {
	t.Parallel()
	h, times := asked(t, nacre.Ruling{Verdict: nacre.Allow}, nil)
	good := nacre.Ruled{Like: strings.Repeat("0", 64), Verdict: nacre.Allow, Question: "q1", At: h.clock.now()}
	for _, like := range []string{"", "00", strings.Repeat("0", 63) + "x", strings.Repeat("0", 66)} {
		bad := good
		bad.Like = like
		if err := h.Resume(in("s1"), nacre.Trusted, "before", good, bad); err == nil || !strings.Contains(err.Error(), "q1") {
			t.Errorf("%q: have %v", like, err)
		}
	}
	if _, err := h.Call(t.Context(), call(milk)); err != nil || *times != 1 {
		t.Errorf("asked %d times: %v", *times, err)
	}
}
