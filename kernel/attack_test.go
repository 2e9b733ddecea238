package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// A thousand callers grant, invoke, expand, derive, revoke, call and forget at
// once: nobody sees another's rows, every begin has its end, and nothing is left running.
func TestAThousandCallersOfEverythingAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	const callers, sessions = 1000, 20
	h := open(t, func(c *kernel.Config) { c.Now, c.OutputBudget = time.Now, 1<<30 })
	h.add(t, reading(func(c *nacre.Capability) { c.Rate = nacre.RateLimit{Calls: 60_000, Window: time.Minute} }),
		func(_ context.Context, in nacre.Invocation) (json.RawMessage, error) {
			return json.RawMessage("[" + strings.Repeat(fmt.Sprintf(`{"of":%q},`, in.Principal.ID), 60) + `{"end":1}]`), nil
		})
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() { crowd(t, h, i, nacre.SessionID(fmt.Sprint("s-", i%sessions))) })
	}
	wait.Wait()
	begun := map[string]int{}
	for _, r := range h.chain.all() {
		var detail struct{ Call string }
		if err := json.Unmarshal(r.Detail, &detail); err != nil {
			t.Fatal(err)
		}
		switch r.Kind {
		case nacre.KindCallBegin:
			begun[detail.Call]++
		case nacre.KindCallEnd:
			begun[detail.Call]--
		default:
		}
	}
	for name, n := range begun {
		if n != 0 {
			t.Errorf("call %s: %d begins without an end", name, n)
		}
	}
}

// crowd is one caller, who may be revoked or forgotten by itself at any time,
// and sees its own rows or a refusal.
func crowd(t *testing.T, h *house, i int, session nacre.SessionID) {
	p := nacre.Principal{ID: fmt.Sprintf("main/p%d", i), Group: "main", Session: session, Roles: []string{"writer"}}
	own := func(frame nacre.Frame, err error) {
		var refused *nacre.Refusal
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("caller %d: %v", i, err)
		}
		for _, row := range frame.Rows {
			if s := string(row); s != `{"end":1}` && s != fmt.Sprintf(`{"of":%q}`, p.ID) {
				t.Errorf("caller %d sees %s", i, row)
			}
		}
	}
	grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, p, "")
	if err != nil {
		t.Errorf("caller %d: %v", i, err)
		return
	}
	for range 3 {
		frame, err := h.Invoke(t.Context(), grant, p, with)
		own(frame, err)
		if frame.Handle != nil {
			own(h.Expand(t.Context(), frame.Handle.ID, nacre.Query{Offset: 5, Limit: some(5)}, p))
		}
	}
	switch i % 4 {
	case 0:
		if err := h.Revoke(grant.ID); err != nil {
			t.Error(err)
		}
		if _, err := h.Invoke(t.Context(), grant, p, with); err == nil {
			t.Errorf("caller %d: revoked, and invoked", i)
		}
	case 1:
		h.Forget(in(session))
	case 2:
		_ = h.Observe(in(session), nacre.Source{Provenance: nacre.SeenOperator}, "hello")
		_, _ = h.QueryTraces(kernel.TraceQuery{Session: session, Limit: some(3)})
	case 3:
		_, _ = h.Call(t.Context(), nacre.Call{Principal: p, Tool: "note_read", Arguments: json.RawMessage(milk)})
		h.Search("read a note", p, 3)
	}
}

// K-04: of a token with ten uses, a thousand at once get ten.
func TestUsesAreSpentOnceEach(t *testing.T) {
	h := open(t, nil)
	h.add(t, reading(func(c *nacre.Capability) { c.Rate = nacre.RateLimit{Calls: 60_000, Window: time.Minute} }), nil)
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read", Uses: some(10)})
	var wait sync.WaitGroup
	for range 1000 {
		wait.Go(func() { _, _ = h.Invoke(t.Context(), grant, writer, with) })
	}
	wait.Wait()
	if n := len(h.called()); n != 10 {
		t.Errorf("%d ran, want 10", n)
	}
}

// panicky is a recorder that fails in the worst way.
type panicky struct{}

func (panicky) Append(context.Context, nacre.Record) error { panic("recorder") }
func (panicky) Commit(context.Context, nacre.Record) error { panic("recorder") }

// K-21, K-24: a recorder that panics is one that fails.
func TestARecorderThatPanicsRefuses(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Recorder = panicky{} })
	h.add(t, note(nil), nil)
	if _, err := h.Call(t.Context(), call(milk)); refusal(t, err).Reason != nacre.ReasonAuditFailed || len(h.called()) != 0 {
		t.Errorf("have %v, %d ran", err, len(h.called()))
	}
}

// D-13: a host that panics when it is told of a question is no reason to skip it.
func TestAHostThatPanicsIsStillAsked(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(risky), nil)
	c := call(milk)
	c.OnAsk = func(time.Time) { panic("told") }
	if _, err := h.Call(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// K-10: a clock that goes back lets nothing that is over begin again.
func TestAClockThatGoesBackGivesNothingBack(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	h.clock.pass(kernel.DefaultGrantTTL)
	if _, err := h.Invoke(t.Context(), grant, writer, with); err == nil {
		t.Fatal("an expired token was taken")
	}
	h.clock.pass(-time.Hour)
	if _, err := h.Invoke(t.Context(), grant, writer, with); err == nil {
		t.Error("an expired token was taken again")
	}
	c := call(milk)
	c.Tool, c.ID = "note_read", "back"
	if _, err := h.Call(t.Context(), c); err == nil {
		t.Error("a call was let through at an instant that was over") // its grant is of the past
	}
}

// K-20: whatever a call holds, what is recorded of it is a record.
func TestHugeAndHostileWordsAreRecorded(t *testing.T) {
	huge := strings.Repeat("a", 1<<20)
	for name, c := range map[string]nacre.Call{
		"a huge everything": {
			ID: huge, Tool: "note_add", Correlation: nacre.Correlation(huge), Hints: nacre.Hints{Justification: huge},
			Principal: nacre.Principal{ID: huge, Group: "main", Session: "s1", Roles: []string{"writer", huge}}, Arguments: json.RawMessage(milk),
		},
		"control characters and broken UTF-8": {
			ID: "\x00\u202e\xff", Tool: "note_add", Correlation: "\x1b[2J", Principal: writer, Hints: nacre.Hints{Justification: "\xff", Mode: "table"}, Arguments: json.RawMessage(milk),
		},
		"arguments that are rot":     {ID: "x", Tool: "note_add", Principal: writer, Arguments: json.RawMessage("\xff" + huge)},
		"arguments that are deep":    {ID: "x", Tool: "note_add", Principal: writer, Arguments: json.RawMessage(strings.Repeat(`{"text":`, 1<<16))},
		"a prototype's key":          {ID: "x", Tool: "note_add", Principal: writer, Arguments: json.RawMessage(`{"text":"milk","__proto__":{"admin":true}}`)},
		"a key in another case":      {ID: "x", Tool: "note_add", Principal: writer, Arguments: json.RawMessage(`{"Text":"milk"}`)},
		"a key that is there twice":  {ID: "x", Tool: "note_add", Principal: writer, Arguments: json.RawMessage(`{"text":"milk","text":"eggs"}`)},
		"a tool that is none":        {ID: "x", Tool: nacre.ToolName(huge), Principal: writer},
		"a session that has no name": {ID: "x", Tool: "note_add", Principal: nacre.Principal{ID: "main/s1", Group: "main"}, Arguments: json.RawMessage("null")},
	} {
		log := audit.Memory(100)
		h := open(t, func(c *kernel.Config) { c.Recorder = log })
		h.add(t, note(nil), nil)
		_, err := h.Call(t.Context(), c)
		if err != nil && refusal(t, err).Reason == nacre.ReasonAuditFailed {
			t.Errorf("%s: %v", name, err)
		}
		if len(log.Records()) == 0 {
			t.Errorf("%s: nothing was recorded", name)
		}
		for _, r := range log.Records() {
			if len(r.Detail) > 8<<10 {
				t.Errorf("%s: a record of %d bytes", name, len(r.Detail))
			}
		}
	}
}

// K-20: a call of ten thousand risky values, and a result with as many secrets, are recorded.
func TestLongListsAreRecorded(t *testing.T) {
	log := audit.Memory(100)
	h := open(t, func(c *kernel.Config) { c.Recorder = log })
	h.add(t, note(func(c *nacre.Capability) {
		c.Sinks, c.HighRisk = []string{"to"}, true
		c.Schema = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"to":{"type":"array","items":{"type":"string"}}}}`)
	}), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return invoices(40), nil })
	c := call(`{"to":["a` + strings.Repeat(`","a`, 10_000) + `"]}`)
	if _, err := h.Call(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// The memory of a kernel does not grow with the calls that it has served.
func TestMemoryDoesNotGrowWithCalls(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Recorder, c.OutputBudget = discard{}, 1<<40 })
	h.add(t, reading(func(c *nacre.Capability) {
		c.Sinks, c.Rate = []string{"text"}, nacre.RateLimit{Calls: 1, Window: time.Millisecond}
	}), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return rows(5), nil })
	serve := func(n int) uint64 {
		for i := range n {
			h.clock.pass(time.Second)
			p := writer
			p.Session = nacre.SessionID(fmt.Sprint("s-", i%50))
			grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, p, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Invoke(t.Context(), grant, p, with); err != nil {
				t.Fatal(err)
			}
		}
		h.mu.Lock()
		h.calls = nil
		h.mu.Unlock()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := serve(3_000)
	if after := serve(3_000); after > 2*before+(16<<20) {
		t.Errorf("%d bytes after 3,000 grants, %d after 6,000", before, after)
	}
}

// K-21: wherever a caller leaves, what was begun has an end, and what was not did not run.
func TestWhereverACallerLeavesTheRecordIsWhole(t *testing.T) {
	for _, leave := range []nacre.Kind{nacre.KindApprovalAsk, nacre.KindApprovalReply, nacre.KindCallBegin, nacre.KindCallEnd, kernel.KindGrant, kernel.KindExpand} {
		h := open(t, nil)
		h.add(t, note(risky), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return rows(200), nil })
		ctx, cancel := context.WithCancel(t.Context())
		h.chain.fail = func(r nacre.Record) bool {
			if r.Kind == leave {
				cancel()
			}
			return false
		}
		outcome, _ := h.Call(ctx, call(milk))
		if outcome.Handle != nil {
			_, _ = h.Expand(ctx, outcome.Handle.ID, nacre.Query{}, writer)
		}
		if grant, err := h.Grant(ctx, kernel.GrantRequest{Capability: "notes.note_add"}, writer, ""); err == nil {
			_, _ = h.Invoke(ctx, grant, writer, with)
		}
		cancel()
		if err := h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		told := h.chain.told()
		begun, ended := strings.Count(told, "call.begin/"), strings.Count(told, "call.end/")
		if begun != ended || len(h.called()) > begun {
			t.Errorf("%s: %d ran, recorded %s", leave, len(h.called()), told)
		}
	}
}

// hysteric is a policy that panics wherever it can.
type hysteric struct{ policy.Explainer }

func (hysteric) Version() string                      { panic("version") }
func (hysteric) Decide(policy.Request) nacre.Decision { panic("decide") }
func (hysteric) Explain(policy.Request) nacre.Denial  { panic("explain") }

// K-24: a policy that panics allows nothing, and takes nobody down.
func TestAPolicyThatPanicsEverywhereAllowsNothing(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Policy = hysteric{policy.Shipped()} })
	h.add(t, reading(nil), nil)
	if _, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, writer, ""); refusal(t, err).Code != nacre.CodeUnauthorized {
		t.Errorf("have %v", err)
	}
	if _, err := h.ExplainDenial(kernel.GrantRequest{Capability: "notes.note_read"}, writer, ""); err == nil {
		t.Error("it was explained")
	}
}

// K-05: a rule on arguments holds for a grant that was made before there were any.
func TestARuleOnArgumentsHoldsForEachUseOfAGrant(t *testing.T) {
	rules, err := policy.Parse("rules", []byte("default = \"allow\"\n[[rules]]\nname = \"no eggs\"\naction = \"deny\"\n[rules.match]\narguments = { text = [\"eggs*\"] }\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(c *kernel.Config) { c.Policy = rules })
	h.add(t, reading(nil), nil)
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read"})
	_, err = h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: json.RawMessage(`{"text":"eggs, six"}`)})
	if refusal(t, err).Reason != nacre.ReasonExplicitDeny {
		t.Errorf("have %v", err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Error(err)
	}
}

// K-04: the default rules' justification is the grant's, and that of nobody else.
func TestAGrantsJustificationCountsForItsUses(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Policy = policy.Default() })
	h.add(t, note(nil), nil)
	if _, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_add"}, writer, "too short"); refusal(t, err).Reason != nacre.ReasonInsufficientReason {
		t.Errorf("have %v", err)
	}
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_add"})
	if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Error(err)
	}
}

// K-16: what others are being shown at the moment is no reason to show less.
func TestABudgetIsExactHoweverManyShareIt(t *testing.T) {
	const callers = 60
	h := open(t, func(c *kernel.Config) { c.OutputBudget = 4000 }) // 16,000 characters: four frames, or all of these
	wait := make(chan struct{})
	h.add(t, reading(func(c *nacre.Capability) { c.Rate = nacre.RateLimit{Calls: 1000, Window: time.Minute} }),
		func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			<-wait
			return json.RawMessage(`{"text":"` + strings.Repeat("x", 100) + `"}`), nil
		})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			c := call(milk)
			c.Tool = "note_read"
			if outcome, err := h.Call(t.Context(), c); err != nil || outcome.Handle != nil {
				t.Errorf("have %s, %v", outcome.Result, err)
			}
		})
	}
	close(wait)
	all.Wait()
}
