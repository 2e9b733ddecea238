package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

const (
	iban      = "DE89370400440532013000"
	payIBAN   = `{"iban":"` + iban + `"}`
	paySchema = `{"type":"object","required":["iban"],"additionalProperties":false,"properties":{"iban":{"type":"string"}}}`
)

// tenants have a kernel in common: groups a and b, each with all tools, and a
// session s1 in both. Nobody is there to be asked but where asked says so.
func tenants(t *testing.T, asked nacre.Approver) *house {
	t.Helper()
	h := open(t, func(c *kernel.Config) {
		c.Groups = policy.Groups{"a": {Tools: []string{"*"}}, "b": {Tools: []string{"*"}}}
		c.Approver = asked
	})
	h.add(t, nacre.Capability{
		ID: "bank.pay", Tool: "pay", Safety: nacre.Write, Sensitivity: nacre.SensitiveNone,
		Schema: json.RawMessage(paySchema), Values: nacre.Values{Sinks: []string{"iban"}}, Rate: nacre.RateLimit{Calls: 1000, Window: time.Minute},
	}, nil)
	return h
}

func of(group nacre.Group) nacre.SessionKey { return nacre.KeyOf(group, "s1") }

func pay(group nacre.Group) nacre.Call { return payIn(group, "s1") }

func payIn(group nacre.Group, session nacre.SessionID) nacre.Call {
	return nacre.Call{
		Tool: "pay", Arguments: json.RawMessage(payIBAN),
		Principal: nacre.Principal{ID: string(group) + "/y", Group: group, Session: session, Roles: []string{"writer"}},
	}
}

// saidByOperator is what an operator says who wants it paid.
func saidByOperator(t *testing.T, h *house, key nacre.SessionKey) {
	t.Helper()
	if err := h.Observe(key, nacre.Source{Provenance: nacre.SeenOperator, Name: "the task"}, "pay "+iban); err != nil {
		t.Fatal(err)
	}
}

// F-26: what the operator of one group says is no consent to what a session of
// the same name does in another.
func TestWhatOneGroupsOperatorSaysCountsInThatGroupAlone(t *testing.T) {
	h := tenants(t, nil)
	for _, group := range []nacre.Group{"a", "b"} {
		if err := h.Taint(of(group), "web"); err != nil {
			t.Fatal(err)
		}
	}
	saidByOperator(t, h, of("a"))
	if _, err := h.Call(t.Context(), pay("b")); err == nil {
		t.Error("group b pays whom only group a's operator named")
	} else if have := refusal(t, err).Reason; have != nacre.ReasonNoApprover {
		t.Errorf("have %s, want %s", have, nacre.ReasonNoApprover)
	}
	if _, err := h.Call(t.Context(), pay("a")); err != nil {
		t.Errorf("group a, whose operator named the account: %v", err)
	}
}

// F-26: one group's taint is not another's, and forgetting one session forgets
// nothing of its namesake.
func TestGroupsShareNoTaintAndForgetNothingOfEachOther(t *testing.T) {
	h := tenants(t, nil)
	if err := h.Taint(of("a"), "web"); err != nil {
		t.Fatal(err)
	}
	if h.Tainted(of("b")) || !h.Tainted(of("a")) {
		t.Errorf("tainted: a %v, b %v, want a alone", h.Tainted(of("a")), h.Tainted(of("b")))
	}
	h.Forget(of("b"))
	if !h.Tainted(of("a")) {
		t.Error("forgetting group b's session forgot that group a's is tainted")
	}
}

// F-26: a ruling that stands for a time stands in the group whose person gave it.
func TestARulingOfOneGroupDoesNotStandInAnother(t *testing.T) {
	questions := 0
	h := tenants(t, answer(func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
		questions++
		return nacre.Ruling{Verdict: nacre.Allow, By: "ann", Digest: q.Digest, For: time.Hour, Scope: nacre.ScopeTool}, nil
	}))
	for _, group := range []nacre.Group{"a", "a", "b"} {
		if err := h.Taint(of(group), "web"); err != nil {
			t.Fatal(err)
		}
		call := pay(group)
		call.Principal.ID = "y" // one person's name in both
		if _, err := h.Call(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	if questions != 2 {
		t.Errorf("%d questions, want one in each group", questions)
	}
}

// F-26: each group's session has an output budget and handles of its own.
func TestGroupsShareNoOutputBudgetAndNoHandles(t *testing.T) {
	h := open(t, func(c *kernel.Config) {
		c.Groups = policy.Groups{"a": {Tools: []string{"*"}}, "b": {Tools: []string{"*"}}}
		c.OutputBudget = 1500
	})
	h.add(t, reading(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) {
		rows := make([]map[string]string, 200)
		for i := range rows {
			rows[i] = map[string]string{"row": strings.Repeat("word ", 8)}
		}
		return json.Marshal(rows)
	})
	read := func(group nacre.Group) (nacre.Outcome, error) {
		return h.Call(t.Context(), nacre.Call{
			Tool: "note_read", Arguments: json.RawMessage(milk),
			Principal: nacre.Principal{ID: "y", Group: group, Session: "s1", Roles: []string{"writer"}},
		})
	}
	var first nacre.Outcome
	for range 50 {
		shown, err := read("a")
		if err != nil {
			break
		}
		if first.Handle == nil {
			first = shown
		}
	}
	if _, err := read("a"); err == nil || refusal(t, err).Reason != nacre.ReasonBudgetExhausted {
		t.Fatalf("group a: have %v, want its budget exhausted", err)
	}
	if _, err := read("b"); err != nil {
		t.Errorf("group b, which has been shown nothing: %v", err)
	}
	if first.Handle == nil {
		t.Fatal("no handle was given")
	}
	h.Forget(of("b"))
	_, err := h.Expand(t.Context(), first.Handle.ID, nacre.Query{}, nacre.Principal{ID: "y", Group: "b", Session: "s1"})
	if have := refusal(t, err).Reason; have != nacre.ReasonHandlePrincipal {
		t.Errorf("group b with a handle of group a: have %s, want %s, of a handle that is still there", have, nacre.ReasonHandlePrincipal)
	}
}

// F-30: one principal is counted once, in however many sessions; the principals
// of two groups are two, whatever they are called.
func TestTheRateIsOfAPrincipalAndACapability(t *testing.T) {
	h := tenants(t, nil)
	h.add(t, note(func(c *nacre.Capability) { c.Rate = nacre.RateLimit{Calls: 2, Window: time.Minute} }), nil)
	add := func(group nacre.Group, session int) error {
		_, err := h.Call(t.Context(), nacre.Call{Tool: "note_add", Arguments: json.RawMessage(milk), Principal: nacre.Principal{
			ID: "y", Group: group, Session: nacre.SessionID(fmt.Sprint("s-", session)), Roles: []string{"writer"},
		}})
		return err
	}
	for i := range 5 {
		err := add("a", i)
		if i < 2 && err != nil {
			t.Fatal(err)
		}
		if i >= 2 && (err == nil || refusal(t, err).Reason != nacre.ReasonRateLimited) {
			t.Errorf("call %d, in a session of its own: have %v, want it over the rate", i, err)
		}
	}
	if err := add("b", 0); err != nil {
		t.Errorf("group b: %v", err)
	}
}

// F-26, K-24: what belongs to no session, or to a session of no group, is
// refused, and nothing is kept of it.
func TestAZeroSessionIsRefused(t *testing.T) {
	for name, p := range map[string]nacre.Principal{
		"no session": {Group: "a"}, "no group": {Session: "s1"}, "neither": {},
	} {
		key := p.SessionKey()
		h := tenants(t, answer(yes))
		_, err := h.Call(t.Context(), payIn(p.Group, p.Session))
		if err == nil {
			t.Errorf("%s: the call was carried out", name)
		} else if have := refusal(t, err).Reason; have != nacre.ReasonNoSession {
			t.Errorf("%s: have %s, want %s", name, have, nacre.ReasonNoSession)
		}
		if _, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "bank.pay"}, payIn(p.Group, p.Session).Principal, "pay the rent of this month"); err == nil {
			t.Errorf("%s: a grant was made", name)
		}
		source := nacre.Source{Provenance: nacre.SeenOperator}
		if h.Observe(key, source, "pay") == nil || h.Taint(key, "x") == nil || h.ObserveModelRequest(key, []byte(`{}`), nacre.SeenUntrusted) == nil {
			t.Errorf("%s: something was observed of it", name)
		}
		if !h.Tainted(key) {
			t.Errorf("%s: it is vouched for", name)
		}
	}
}

// F-26: a trace belongs to the group and session it happened in; a call that
// another group names alike replaces nothing.
func TestACallOfOneGroupHidesNoTraceOfAnother(t *testing.T) {
	h := tenants(t, answer(yes))
	for _, group := range []nacre.Group{"a", "b"} {
		saidByOperator(t, h, of(group))
		call := pay(group)
		call.ID = "one"
		if _, err := h.Call(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	for _, group := range []nacre.Group{"a", "b"} {
		traces, err := h.QueryTraces(kernel.TraceQuery{Group: group, Session: "s1", Event: kernel.EventInvoke})
		if err != nil || len(traces) != 1 || traces[0].Group != group {
			t.Errorf("group %s: have %d traces, %v, want its own one", group, len(traces), err)
		}
	}
}

// F-26: where one name ends and the next begins is part of whose handle it is.
func TestAHandleIsNotOfWhoeverIsSpelledAlike(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Groups = nil })
	h.add(t, reading(func(c *nacre.Capability) { c.Intrinsic = true }), func(context.Context, nacre.Invocation) (json.RawMessage, error) {
		return json.RawMessage(`[{"end":1},{"end":2}]`), nil
	})
	holder := nacre.Principal{ID: "y", Group: "a", Session: "b/c", Roles: []string{"writer"}}
	call := nacre.Call{Tool: "note_read", Arguments: json.RawMessage(milk), Principal: holder, Hints: nacre.Hints{Mode: "handle_only"}}
	shown, err := h.Call(t.Context(), call)
	if err != nil || shown.Handle == nil {
		t.Fatalf("have %+v, %v, want a handle", shown, err)
	}
	alike := holder
	alike.Group, alike.Session = "a/b", "c"
	if _, err := h.Expand(t.Context(), shown.Handle.ID, nacre.Query{}, alike); err == nil {
		t.Error("another group's session was shown a page")
	}
	if _, err := h.Expand(t.Context(), shown.Handle.ID, nacre.Query{}, holder); err != nil {
		t.Errorf("the holder: %v", err)
	}
}
