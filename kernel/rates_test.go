package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// K-35, F-30: calls are counted for a principal across its sessions, for a group, and for a session.
func TestCallsAreCountedByPrincipalGroupAndSession(t *testing.T) {
	two := nacre.RateLimit{Calls: 2, Window: time.Minute}
	who := func(id string, session nacre.SessionID) nacre.Principal {
		p := writer
		p.ID, p.Session = id, session
		return p
	}
	for name, c := range map[string]struct {
		rates policy.Rates
		free  []nacre.Principal
		over  nacre.Principal
		still nacre.Principal
		says  string
	}{
		"a principal": {
			policy.Rates{Principal: two}, []nacre.Principal{who("main/a", "s1"), who("main/a", "s2")},
			who("main/a", "s3"), who("main/b", "s1"), "all calls of this principal",
		},
		"a group": {
			policy.Rates{Group: two}, []nacre.Principal{who("main/a", "s1"), who("main/b", "s2")},
			who("main/c", "s3"), nacre.Principal{ID: "other/a", Group: "other", Session: "s1", Roles: writer.Roles}, "all calls of group main",
		},
		"a session": {
			policy.Rates{Session: two}, []nacre.Principal{who("main/a", "s1"), who("main/b", "s1")},
			who("main/c", "s1"), who("main/a", "s2"), "all calls of this session",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, func(k *kernel.Config) {
				k.Groups = policy.Groups{"main": {Tools: []string{"*"}}, "other": {Tools: []string{"*"}}}
				k.Shared.Limiter = &policy.Limiter{Rates: func(group nacre.Group) policy.Rates {
					if group == "other" {
						return policy.Rates{}
					}
					return c.rates
				}}
			})
			h.add(t, note(nil), nil)
			h.add(t, note(func(c *nacre.Capability) { c.ID, c.Tool = "notes.note_put", "note_put" }), nil)
			for i, p := range c.free {
				one := call(milk)
				one.Principal = p
				if one.Tool = "note_add"; i == 1 {
					one.Tool = "note_put" // all tools are counted together
				}
				if _, err := h.Call(t.Context(), one); err != nil {
					t.Fatalf("%d: %v", i, err)
				}
			}
			one := call(milk)
			one.Principal = c.over
			_, err := h.Call(t.Context(), one)
			if r := refusal(t, err); r.Reason != nacre.ReasonRateLimited || !strings.Contains(r.Message, c.says) || r.RetryAfter < 1 || r.RetryAfter > 60 {
				t.Errorf("have %+v", r)
			}
			one.Principal = c.still
			if _, err := h.Call(t.Context(), one); err != nil {
				t.Errorf("another one: %v", err)
			}
			h.clock.pass(time.Minute)
			one.Principal = c.over
			if _, err := h.Call(t.Context(), one); err != nil {
				t.Errorf("a minute later: %v", err)
			}
		})
	}
}

// K-35: kernels that are given one limiter count together, as those of one process' sessions are.
func TestKernelsThatShareALimiterCountTogether(t *testing.T) {
	shared := &policy.Limiter{Rates: func(nacre.Group) policy.Rates {
		return policy.Rates{Group: nacre.RateLimit{Calls: 3, Window: time.Minute}}
	}}
	var houses []*house
	for range 2 {
		h := open(t, func(k *kernel.Config) {
			k.Shared.Limiter = shared
		})
		h.add(t, note(nil), nil)
		houses = append(houses, h)
	}
	var told []string
	for i := range 4 {
		one := call(milk)
		one.Principal.Session, one.Principal.ID = nacre.SessionID(fmt.Sprint("s", i)), fmt.Sprint("main/s", i)
		_, err := houses[i%2].Call(t.Context(), one)
		told = append(told, fmt.Sprint(err == nil))
	}
	if have := strings.Join(told, " "); have != "true true true false" {
		t.Errorf("have %s, want three calls and a refusal", have)
	}
}

// K-24: a function of the host that fails allows nothing.
func TestRatesThatPanicRefuse(t *testing.T) {
	h := open(t, func(k *kernel.Config) {
		k.Shared.Limiter = &policy.Limiter{Rates: func(nacre.Group) policy.Rates { panic("no") }}
	})
	h.add(t, note(nil), nil)
	if _, err := h.Call(t.Context(), call(milk)); refusal(t, err).Reason != nacre.ReasonRateLimited {
		t.Errorf("have %v", err)
	}
}

// F-39, F-48, K-09, K-33: an outcome says what its result is, what was decided, and how.
func TestAnOutcomeSaysWhatWasDecidedAndHow(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	one := call(milk)
	one.Traced = true
	outcome, err := h.Call(t.Context(), one)
	if err != nil || outcome.Shape != nacre.ShapeResult || outcome.Decision.Verdict != nacre.Allow || !strings.Contains(outcome.Decision.Rule, "writers may write") {
		t.Fatalf("have %v, shape %q, decision %+v", err, outcome.Shape, outcome.Decision)
	}
	if outcome.Trace == nil || len(outcome.Trace.Steps) < 2 || outcome.Trace.Capability != "notes.note_add" {
		t.Errorf("have trace %+v", outcome.Trace)
	}
	one.Hints.DryRun = true
	if plan, err := h.Call(t.Context(), one); err != nil || plan.Shape != nacre.ShapePlan || plan.Trace == nil {
		t.Errorf("a dry run: have %v, shape %q", err, plan.Shape)
	}
	one.Hints.DryRun, one.Principal.Roles = false, nil
	refused, err := h.Call(t.Context(), one)
	if err == nil || refused.Decision.Code != nacre.ReasonNoMatchingRule || refused.Trace == nil || refused.Shape != "" || refused.Result != nil {
		t.Errorf("a refusal: have %v with %+v", err, refused)
	}
	one.Traced = false
	if plain, _ := h.Call(t.Context(), one); plain.Trace != nil {
		t.Error("a trace that nobody asked for")
	}
	one = call(milk)
	one.Tool, one.Traced = "nothing", true
	if unknown, err := h.Call(t.Context(), one); err == nil || unknown.Trace != nil {
		t.Errorf("an unknown tool: have %v with %+v", err, unknown.Trace)
	}
}
