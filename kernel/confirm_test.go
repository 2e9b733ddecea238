package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/kernel"
)

func risky(c *nacre.Capability) { c.HighRisk = true }

// D-13: only an explicit consent to exactly this question lets a call run.
func TestOnlyAConsentToThisQuestionLetsACallRun(t *testing.T) {
	tests := map[string]struct {
		answer answer
		code   nacre.Code
		reason nacre.ReasonCode
	}{
		"yes": {yes, "", ""},
		"no": {func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{Verdict: nacre.Deny, Digest: q.Digest}, nil
		}, nacre.CodeConfirmationDenied, nacre.ReasonDenied},
		"the zero ruling": {func(context.Context, nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{}, nil
		}, nacre.CodeConfirmationDenied, nacre.ReasonDenied},
		"a verdict of ask": {func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{Verdict: nacre.Ask, Digest: q.Digest}, nil
		}, nacre.CodeConfirmationDenied, nacre.ReasonDenied},
		"a yes without the digest": {func(context.Context, nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{Verdict: nacre.Allow}, nil
		}, nacre.CodeConfirmationDenied, nacre.ReasonDenied},
		"a yes to another question": {func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{Verdict: nacre.Allow, Digest: strings.Repeat("0", len(q.Digest))}, nil
		}, nacre.CodeConfirmationDenied, nacre.ReasonDenied},
		"a yes with an error": {func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{Verdict: nacre.Allow, Digest: q.Digest}, errors.New("the line broke")
		}, nacre.CodeConfirmationDenied, nacre.ReasonInternal},
		"a time-out of the approver's own": {func(context.Context, nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{}, context.DeadlineExceeded
		}, nacre.CodeConfirmationTimeout, nacre.ReasonUnanswered},
		// F-61: a session that ends while its question is open has nobody's refusal.
		"the end of the session": {func(context.Context, nacre.Question) (nacre.Ruling, error) {
			return nacre.Ruling{}, approval.ErrClosed
		}, nacre.CodePluginUnavailable, nacre.ReasonInterrupted},
		"a panic": {func(context.Context, nacre.Question) (nacre.Ruling, error) {
			panic("approver")
		}, nacre.CodeConfirmationDenied, nacre.ReasonInternal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := open(t, func(c *kernel.Config) { c.Approver = test.answer })
			h.add(t, note(risky), nil)
			_, err := h.Call(t.Context(), call(milk))
			if test.code == "" {
				if err != nil || len(h.called()) != 1 {
					t.Fatalf("have %v", err)
				}
				const want = "approval.ask//high_risk_ask approval.reply/allowed/approved call.begin/allowed/ call.end/routed/"
				if have := h.chain.told(); have != want {
					t.Errorf("have %s\nwant %s", have, want)
				}
				return
			}
			have := refusal(t, err)
			if have.Code != test.code || have.Reason != test.reason || have.Stage != 5 || len(h.called()) > 0 {
				t.Errorf("have %+v", have)
			}
			want := "approval.ask//high_risk_ask approval.reply/denied/" + string(test.reason) + " call.reject/rejected/" + string(test.reason)
			if told := h.chain.told(); told != want {
				t.Errorf("have %s\nwant %s", told, want)
			}
		})
	}
}

// D-13: nobody answers; an approver that does not even listen is left behind.
func TestSilenceDeniesWhenTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := open(t, func(c *kernel.Config) {
			c.Now = time.Now
			c.Approver = answer(func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
				<-release
				return nacre.Ruling{Verdict: nacre.Allow, Digest: q.Digest}, nil
			})
		})
		h.add(t, note(risky), nil)
		start := time.Now()
		c := call(milk)
		var until time.Time
		c.OnAsk = func(expires time.Time) { until = expires }
		_, err := h.Call(t.Context(), c)
		have := refusal(t, err)
		if have.Code != nacre.CodeConfirmationTimeout || !have.Retriable || time.Since(start) != kernel.DefaultAskTTL {
			t.Errorf("have %+v after %v", have, time.Since(start))
		}
		if !until.Equal(start.Add(kernel.DefaultAskTTL)) {
			t.Errorf("the agent was told %v", until)
		}
		close(release)
		if err := h.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if len(h.called()) > 0 {
			t.Error("a yes that came too late ran the call")
		}
	})
}

// D-07: a client that goes away cancels its pending question.
func TestACallerThatLeavesCancelsItsQuestion(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	h := open(t, func(c *kernel.Config) {
		c.Approver = answer(func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
			leave()
			<-ctx.Done()
			return nacre.Ruling{Verdict: nacre.Allow, Digest: q.Digest}, nil
		})
	})
	h.add(t, note(risky), nil)
	if _, err := h.Call(ctx, call(milk)); err == nil || len(h.called()) > 0 {
		t.Errorf("have %v, %d calls", err, len(h.called()))
	}
	// F-61: nobody refused it
	const want = "approval.ask//high_risk_ask approval.reply/denied/interrupted call.reject/rejected/interrupted"
	if have := h.chain.told(); have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
}

// D-13: what was approved is what runs, whoever changes what in between.
func TestNothingCanBeSwappedBetweenTheQuestionAndTheRun(t *testing.T) {
	arguments := []byte(milk)
	roles := []string{"writer"}
	attributes := map[string]string{"tenant": "a"}
	schema := []byte(noteSchema)
	var asked nacre.Question
	h := open(t, func(c *kernel.Config) {
		c.Approver = answer(func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
			asked = q
			asked.Arguments = append(json.RawMessage(nil), q.Arguments...)
			copy(arguments, `{"text":"rob!"}`)
			copy(q.Arguments, `{"list":"robbery!"`)
			copy(schema, strings.Repeat(" ", len(schema)))
			roles[0], attributes["tenant"] = "admin", "b"
			return yes(ctx, q)
		})
	})
	h.add(t, note(func(c *nacre.Capability) { c.HighRisk, c.Schema = true, schema }), nil)
	c := call("")
	c.Arguments, c.Principal.Roles, c.Principal.Attributes = arguments, roles, attributes
	if _, err := h.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	in := h.called()[0]
	if string(in.Arguments) != string(asked.Arguments) || string(in.Arguments) != `{"list":"Personal","text":"milk"}` {
		t.Errorf("asked %s, ran %s", asked.Arguments, in.Arguments)
	}
	if in.Principal.Roles[0] != "writer" || in.Principal.Attributes["tenant"] != "a" {
		t.Errorf("ran as %v %v", in.Principal.Roles, in.Principal.Attributes)
	}
}

// D-13: the digest binds all that an answer allows.
func TestAQuestionsDigestChangesWithAllThatItBinds(t *testing.T) {
	digest := func(change func(*nacre.Call), capability func(*nacre.Capability), config func(*kernel.Config)) string {
		var have string
		h := open(t, func(c *kernel.Config) {
			c.Random = strings.NewReader(strings.Repeat("r", 64)) // the same id for all
			if config != nil {
				config(c)
			}
			c.Approver = answer(func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
				have = q.Digest
				return nacre.Ruling{}, nil
			})
		})
		h.add(t, note(func(c *nacre.Capability) {
			c.HighRisk = true
			if capability != nil {
				capability(c)
			}
		}), nil)
		c := call(milk)
		if change != nil {
			change(&c)
		}
		_, _ = h.Call(t.Context(), c) // denied, always
		if have == "" {
			t.Fatal("nobody was asked")
		}
		return have
	}
	base := digest(nil, nil, nil)
	if base != digest(func(c *nacre.Call) { c.Arguments = json.RawMessage(` { "list":"Personal", "text" : "milk" }`) }, nil, nil) {
		t.Error("two spellings of the same arguments have two digests")
	}
	for name, other := range map[string]string{
		"arguments":  digest(func(c *nacre.Call) { c.Arguments = json.RawMessage(`{"text":"mild"}`) }, nil, nil),
		"session":    digest(func(c *nacre.Call) { c.Principal.Session = "s2" }, nil, nil),
		"roles":      digest(func(c *nacre.Call) { c.Principal.Roles = []string{"writer", "x"} }, nil, nil),
		"content":    digest(nil, func(c *nacre.Capability) { c.ContentHash = "sha256:2" }, nil),
		"capability": digest(nil, func(c *nacre.Capability) { c.ID = "other.note_add" }, nil),
		"schema":     digest(nil, func(c *nacre.Capability) { c.Schema = json.RawMessage(strings.Replace(noteSchema, "100", "101", 1)) }, nil),
		"policy":     digest(nil, nil, func(c *kernel.Config) { c.Policy = versioned{c.Policy} }),
		"expiry":     digest(nil, nil, func(c *kernel.Config) { c.AskTTL = time.Minute }),
	} {
		if other == base {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

// D-13, K-22: the agent's words are shown as its own, cut and redacted, and count for nothing.
func TestTheAgentsWordsAreOnlyShown(t *testing.T) {
	var asked nacre.Question
	h := open(t, func(c *kernel.Config) {
		c.Approver = answer(func(_ context.Context, q nacre.Question) (nacre.Ruling, error) {
			asked = q
			return nacre.Ruling{}, nil
		})
	})
	h.add(t, note(risky), nil)
	c := call(milk)
	c.Hints.Justification = "key AKIAIOSFODNN7EXAMPLE " + strings.Repeat("please ", 500)
	_, _ = h.Call(t.Context(), c) // denied
	if strings.Contains(asked.AgentWords, "AKIA") || len(asked.AgentWords) > 1100 || !strings.HasPrefix(asked.AgentWords, "key ") {
		t.Errorf("shown: %.60q of %d bytes", asked.AgentWords, len(asked.AgentWords))
	}
	if strings.Contains(asked.Why, "please") || asked.Why == "" {
		t.Errorf("why: %q", asked.Why)
	}
	c.Principal.Roles, c.Hints.Justification = nil, "the operator ordered it; I am a writer and admin"
	if _, err := h.Call(t.Context(), c); refusal(t, err).Code != nacre.CodeUnauthorized {
		t.Errorf("words were counted: %v", err)
	}
}
