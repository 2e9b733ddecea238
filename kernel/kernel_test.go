package kernel_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// K-24: what is missing is an error at construction.
func TestAKernelWithoutItsPartsIsRefused(t *testing.T) {
	good := func() kernel.Config {
		return kernel.Config{
			Policy: policy.Shipped(), Recorder: &chain{}, Now: time.Now, Random: rand.Reader, Keys: kernel.Keys{Current: kernel.Key{Secret: make([]byte, 32)}},
		}
	}
	single := good()
	single.Keys, single.TokenKey = kernel.Keys{}, make([]byte, 32)
	for _, c := range []kernel.Config{good(), single} {
		if _, err := kernel.New(c); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*kernel.Config){
		"no policy":           func(c *kernel.Config) { c.Policy = nil },
		"no recorder":         func(c *kernel.Config) { c.Recorder = nil },
		"no clock":            func(c *kernel.Config) { c.Now = nil },
		"no randomness":       func(c *kernel.Config) { c.Random = nil },
		"no key":              func(c *kernel.Config) { c.Keys.Current.Secret = nil },
		"a short key":         func(c *kernel.Config) { c.Keys.Current.Secret = make([]byte, 31) },
		"two keys":            func(c *kernel.Config) { c.TokenKey = make([]byte, 32) },
		"a short single key":  func(c *kernel.Config) { c.Keys, c.TokenKey = kernel.Keys{}, make([]byte, 31) },
		"a negative time":     func(c *kernel.Config) { c.AskTTL = -1 },
		"a malformed pattern": func(c *kernel.Config) { c.Groups = policy.Groups{"main": {Tools: []string{"x?"}}} },
		"nothing":             func(c *kernel.Config) { *c = kernel.Config{} },
	} {
		c := good()
		change(&c)
		if _, err := kernel.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// D-10, K-21: one call, from question to record.
func TestACallIsCheckedRecordedCarriedOutAndRecorded(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	c := call(` { "text" : "milk" } `)
	c.Hints.Justification = "because I say so"
	outcome, err := h.Call(t.Context(), c)
	if err != nil || string(outcome.Result) != `{"id":1}` || outcome.Label != nacre.Untrusted {
		t.Fatalf("have %s %v %v", outcome.Result, outcome.Label, err)
	}
	in := h.called()[0]
	if string(in.Arguments) != `{"list":"Personal","text":"milk"}` || in.ID != "e-1" || in.Correlation != "c-1" || in.Principal.ID != writer.ID {
		t.Errorf("the driver saw %+v", in)
	}
	if have, want := h.chain.told(), "call.begin/allowed/ call.end/routed/"; have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	for _, r := range h.chain.all() {
		if bytes.Contains(r.Detail, []byte("milk")) || bytes.Contains(r.Detail, []byte("because")) {
			t.Errorf("%s holds a value: %s", r.Kind, r.Detail)
		}
		if r.Group != "main" || r.Session != "s1" || r.Topic != "tool.invoke.note_add" || r.Correlation != "c-1" || r.Stage != 6 {
			t.Errorf("record %+v", r)
		}
	}
	if end := h.chain.all()[1]; end.Source != "notes" {
		t.Errorf("the result came from %q, want notes", end.Source)
	}
}

// D-06, D-11, D-12: what is refused before anything happens, stage by stage.
func TestACallIsRefusedAtTheFirstStageThatFinds(t *testing.T) {
	tests := map[string]struct {
		change     func(*nacre.Call)
		capability func(*nacre.Capability)
		config     func(*kernel.Config)
		want       nacre.Refusal
	}{
		"an unknown tool": {
			change: func(c *nacre.Call) { c.Tool = "note_drop" },
			want:   nacre.Refusal{Code: nacre.CodeUnknownTool, Stage: 2, Reason: nacre.ReasonUnknownTool},
		},
		"an unknown argument": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`{"text":"a","priority":1}`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3, Field: "priority", Message: `additionalProperties "priority" not allowed`},
		},
		"a missing argument": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`{}`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3, Field: "text", Message: `missing required property "text"`},
		},
		"no arguments at all": {
			change: func(c *nacre.Call) { c.Arguments = nil },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3, Field: "text"},
		},
		"an argument of another type": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`{"text":7}`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3, Field: "text"},
		},
		"arguments that are no object": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`["text"]`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3},
		},
		"an argument given twice": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`{"text":"a","text":"b"}`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3},
		},
		"an argument given twice in another case": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`{"text":"a","Text":"b"}`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3},
		},
		"two documents": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`{"text":"a"}{}`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3},
		},
		"a number that is no integer": {
			change: func(c *nacre.Call) { c.Arguments = json.RawMessage(`{"text":"a","count":1.5}`) },
			want:   nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3, Field: "count"},
		},
		"too many arguments to read": {
			change: func(c *nacre.Call) {
				c.Arguments = json.RawMessage(`{"text":"` + strings.Repeat("a", kernel.MaxArguments) + `"}`)
			},
			want: nacre.Refusal{Code: nacre.CodeValidationFailed, Stage: 3},
		},
		"a group without the tool": {
			change: func(c *nacre.Call) { c.Principal.Group = "other" },
			want:   nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonGroupNotAllowed},
		},
		"no groups at all": {
			config: func(c *kernel.Config) { c.Groups = nil },
			want:   nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonGroupNotAllowed},
		},
		"nobody": {
			change: func(c *nacre.Call) { c.Principal.ID = "" },
			want:   nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonGroupNotAllowed},
		},
		"a role too few": {
			change: func(c *nacre.Call) { c.Principal.Roles = nil },
			want:   nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonNoMatchingRule},
		},
		"the zero policy": {
			config: func(c *kernel.Config) { c.Policy = &policy.Policy{} },
			want:   nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonNoMatchingRule},
		},
		"a policy that panics": {
			config: func(c *kernel.Config) { c.Policy = panicking{} },
			want:   nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonNoMatchingRule},
		},
		"a high risk that is denied asks nobody": {
			change:     func(c *nacre.Call) { c.Principal.Roles = nil },
			capability: func(c *nacre.Capability) { c.HighRisk = true },
			config:     func(c *kernel.Config) { c.Approver = mustNotAsk{} },
			want:       nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonNoMatchingRule},
		},
		"a high risk without an approver": {
			capability: func(c *nacre.Capability) { c.HighRisk = true },
			config:     func(c *kernel.Config) { c.Approver = nil },
			want:       nacre.Refusal{Code: nacre.CodeConfirmationDenied, Stage: 5, Reason: nacre.ReasonNoApprover},
		},
		"an ask without an approver": {
			capability: func(c *nacre.Capability) { c.Safety = nacre.Destructive },
			config:     func(c *kernel.Config) { c.Approver = nil },
			want:       nacre.Refusal{Code: nacre.CodeConfirmationDenied, Stage: 5, Reason: nacre.ReasonNoApprover},
		},
		"a capability that forgot its class is asked": {
			capability: func(c *nacre.Capability) { c.Safety, c.Sensitivity = 0, 0 },
			config:     func(c *kernel.Config) { c.Approver = nil },
			want:       nacre.Refusal{Code: nacre.CodeConfirmationDenied, Stage: 5, Reason: nacre.ReasonNoApprover},
		},
		"no randomness": {
			config: func(c *kernel.Config) { c.Random = strings.NewReader("short") },
			want:   nacre.Refusal{Code: nacre.CodeUnauthorized, Stage: 4, Reason: nacre.ReasonInternal},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := open(t, test.config)
			h.add(t, note(test.capability), nil)
			c := call(milk)
			if test.change != nil {
				test.change(&c)
			}
			_, err := h.Call(t.Context(), c)
			have := refusal(t, err)
			if have.Code != test.want.Code || have.Stage != test.want.Stage || have.Field != test.want.Field {
				t.Errorf("have %+v\nwant %+v", have, test.want)
			}
			if test.want.Reason != "" && have.Reason != test.want.Reason || test.want.Message != "" && have.Message != test.want.Message {
				t.Errorf("have %+v\nwant %+v", have, test.want)
			}
			if len(h.called()) > 0 {
				t.Error("the driver was called")
			}
			records := h.chain.all()
			last := records[len(records)-1]
			if last.Kind != nacre.KindCallReject || last.Outcome != nacre.OutcomeRejected || last.Stage != test.want.Stage || last.Reason != string(have.Reason) {
				t.Errorf("recorded %+v", last)
			}
		})
	}
}

type panicking struct{}

func (panicking) Decide(policy.Request) nacre.Decision { panic("policy") }
func (panicking) Version() string                      { return "1" }

type mustNotAsk struct{}

func (mustNotAsk) Ask(context.Context, nacre.Question) (nacre.Ruling, error) {
	panic("a denied call was asked")
}

// K-02: a peer let the arguments choose another handler.
func TestArgumentsCannotSelectAnotherHandler(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	dropped := false
	h.add(t, note(func(c *nacre.Capability) { c.ID, c.Tool = "notes.note_drop", "note_drop" }), func(context.Context, nacre.Invocation) (json.RawMessage, error) {
		dropped = true
		return json.RawMessage(`{}`), nil
	})
	if _, err := h.Call(t.Context(), call(`{"text":"a","operation":"note_drop"}`)); err != nil {
		t.Fatal(err)
	}
	if in := h.called()[0]; dropped || in.Capability != "notes.note_add" || in.Tool != "note_add" {
		t.Errorf("ran %s", in.Capability)
	}
}

// D-12: told to the second, and true.
func TestARateIsToldToTheSecond(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(func(c *nacre.Capability) { c.Rate = nacre.RateLimit{Calls: 2, Window: 10 * time.Second} }), nil)
	for range 2 {
		if _, err := h.Call(t.Context(), call(milk)); err != nil {
			t.Fatal(err)
		}
		h.clock.pass(1500 * time.Millisecond)
	}
	_, err := h.Call(t.Context(), call(milk))
	have := refusal(t, err)
	if have.Code != nacre.CodeRateLimited || have.Stage != 4 || !have.Retriable || have.RetryAfter != 7 {
		t.Fatalf("have %+v, want to wait 7 s", have)
	}
	h.clock.pass(time.Duration(have.RetryAfter) * time.Second)
	if _, err := h.Call(t.Context(), call(milk)); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	other := call(milk)
	other.Principal.ID = "main/s2"
	if _, err := h.Call(t.Context(), other); err != nil {
		t.Errorf("another principal: %v", err)
	}
}

// K-18
func TestADryRunDoesAndCountsAndAsksNothing(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Approver = mustNotAsk{} })
	h.add(t, note(func(c *nacre.Capability) {
		c.HighRisk, c.Rate = true, nacre.RateLimit{Calls: 1, Window: time.Hour}
	}), nil)
	dry := call(milk)
	dry.Hints.DryRun = true
	for range 3 {
		outcome, err := h.Call(t.Context(), dry)
		var told struct {
			DryRun  bool          `json:"dry_run"`
			Verdict nacre.Verdict `json:"verdict"`
		}
		if err != nil || json.Unmarshal(outcome.Result, &told) != nil || !told.DryRun || told.Verdict != nacre.Ask {
			t.Fatalf("have %s %v", outcome.Result, err)
		}
	}
	if len(h.called()) > 0 {
		t.Error("the driver was called")
	}
	if have := h.chain.all(); len(have) != 3 || have[0].Kind != kernel.KindDryRun {
		t.Errorf("recorded %s", h.chain.told())
	}
	dry.Principal.Roles = nil
	if _, err := h.Call(t.Context(), dry); refusal(t, err).Code != nacre.CodeUnauthorized {
		t.Errorf("a dry run of a denied call: %v", err)
	}
}

// K-21: no record, no effect.
func TestWithoutABeginRecordNothingRuns(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	h.chain.fail = func(r nacre.Record) bool { return r.Kind == nacre.KindCallBegin }
	_, err := h.Call(t.Context(), call(milk))
	if have := refusal(t, err); have.Reason != nacre.ReasonAuditFailed || !errors.Is(err, errDisk) {
		t.Errorf("have %v", err)
	}
	if len(h.called()) > 0 {
		t.Error("the driver was called")
	}
}

// K-21: an answer without an end record is not forwarded.
func TestWithoutAnEndRecordNothingIsAnswered(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	h.chain.fail = func(r nacre.Record) bool { return r.Kind == nacre.KindCallEnd }
	outcome, err := h.Call(t.Context(), call(milk))
	if have := refusal(t, err); have.Reason != nacre.ReasonAuditFailed || outcome.Result != nil || have.Retriable {
		t.Errorf("have %s %v", outcome.Result, err)
	}
	if len(h.called()) != 1 {
		t.Error("the driver was not called")
	}
}

// K-21: a refusal that cannot be recorded stops with the audit's refusal.
func TestARefusalThatCannotBeRecordedSaysSo(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	h.chain.fail = func(nacre.Record) bool { return true }
	_, err := h.Call(t.Context(), call(`{}`))
	if refusal(t, err).Reason != nacre.ReasonAuditFailed {
		t.Errorf("have %v", err)
	}
}
