package kernel_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

func parsed(t *testing.T, text string) policy.Engine {
	t.Helper()
	p, err := policy.Parse("policy.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var everyone = policy.Groups{"main": {Tools: []string{"*"}}}

const (
	allowAll = "[[rules]]\naction = \"allow\"\nmatch = {}\n"
	askAll   = "[[rules]]\naction = \"ask\"\nmatch = {}\n"
	denyAll  = "default = \"deny\"\n"
)

// F-45, K-33: rules change while a kernel runs, and nothing else is lost.
func TestRulesChangeWhileAKernelRuns(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Fatal(err)
	}
	if err := h.ChangeRules(parsed(t, denyAll), everyone); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, with); refusal(t, err).Reason != nacre.ReasonNoMatchingRule {
		t.Errorf("a grant under rules that deny: %v", err)
	}
	if err := h.ChangeRules(parsed(t, allowAll), policy.Groups{"other": {Tools: []string{"*"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, with); refusal(t, err).Reason != nacre.ReasonGroupNotAllowed {
		t.Errorf("a grant of a group without the tool: %v", err)
	}
	if found, listed := h.Search("note", writer, 5), h.Catalog(writer); len(found)+len(listed) != 0 {
		t.Errorf("a group without the tool finds %d and is shown %d", len(found), len(listed))
	}
	if err := h.ChangeRules(parsed(t, allowAll), everyone); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Errorf("a grant under rules that allow again: %v", err)
	}
	if len(h.Search("note", writer, 5)) == 0 {
		t.Error("a group with the tool finds nothing")
	}
	for name, err := range map[string]error{
		"no policy":           h.ChangeRules(nil, everyone),
		"a malformed pattern": h.ChangeRules(parsed(t, allowAll), policy.Groups{"main": {Tools: []string{"x?"}}}),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// D-13, K-33: what a person agreed to was a question under the rules of its time.
func TestRulesThatChangeWhileAPersonIsAskedDecideAgain(t *testing.T) {
	for name, c := range map[string]struct {
		after string
		code  nacre.ReasonCode
		runs  int
	}{
		"they deny now":      {denyAll, nacre.ReasonNoMatchingRule, 0},
		"they ask once more": {askAll + "# changed\n", nacre.ReasonRuleAsk, 0},
		"they allow now":     {allowAll, "", 1},
		"they are the same":  {"", "", 1},
	} {
		var h *house
		h = open(t, func(k *kernel.Config) {
			k.Policy = parsed(t, askAll)
			k.Approver = answer(func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
				if c.after != "" {
					if err := h.ChangeRules(parsed(t, c.after), everyone); err != nil {
						return nacre.Ruling{}, err
					}
				}
				return yes(ctx, q)
			})
		})
		h.add(t, note(nil), nil)
		_, err := h.Call(t.Context(), call(milk))
		if c.code == "" && err != nil || c.code != "" && refusal(t, err).Reason != c.code || len(h.called()) != c.runs {
			t.Errorf("%s: have %v after %d runs, want reason %q and %d", name, err, len(h.called()), c.code, c.runs)
		}
	}
}

// F-33: revocations that are over are let go of without anybody asking for it.
func TestRevocationsThatAreOverAreLetGoOf(t *testing.T) {
	kept := &forgetful{}
	h := open(t, func(c *kernel.Config) { c.Shared.Revocations = kept })
	for range 3 {
		for i := range 2 {
			if err := h.Revoke(fmt.Sprint("token-", i)); err != nil {
				t.Fatal(err)
			}
		}
		h.clock.pass(2 * time.Hour)
	}
	if kept.sweeps != 3 || kept.revoked != 6 {
		t.Errorf("have %d sweeps for %d revocations in six hours, want 3 for 6", kept.sweeps, kept.revoked)
	}
}

// forgetful counts what it is told.
type forgetful struct{ revoked, sweeps int }

func (f *forgetful) Revoke(string, string, time.Time) error { f.revoked++; return nil }

func (f *forgetful) Revoked(string, string, time.Time) (bool, error) { return false, nil }

func (f *forgetful) Sweep(time.Time) error { f.sweeps++; return nil }
