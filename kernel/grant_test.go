package kernel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	tokens "github.com/nacre-dev/nacre/grant"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/policy"
)

// reading is a capability that anybody in the group may use.
func reading(change func(*nacre.Capability)) nacre.Capability {
	return note(func(c *nacre.Capability) {
		c.ID, c.Tool, c.Safety, c.Returns = "notes.note_read", "note_read", nacre.Read, nacre.Trusted
		if change != nil {
			change(c)
		}
	})
}

// granted is a house with a tool that reads, and a grant for it.
func granted(t *testing.T, q kernel.GrantRequest) (*house, nacre.Token) {
	t.Helper()
	h := open(t, nil)
	h.add(t, reading(nil), nil)
	q.Capability = "notes.note_read"
	return h, h.grant(t, q)
}

func (h *house) grant(t *testing.T, q kernel.GrantRequest) nacre.Token {
	t.Helper()
	grant, err := h.Grant(t.Context(), q, writer, "the operator asked for a list of notes")
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

var with = kernel.Input{Arguments: json.RawMessage(milk)}

// K-01: a grant is spent, and both are recorded.
func TestAGrantIsSpentAndRecorded(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	frame, err := h.Invoke(t.Context(), grant, writer, with)
	if err != nil {
		t.Fatal(err)
	}
	if len(frame.Rows) != 1 || string(frame.Rows[0]) != `{"id":1}` {
		t.Errorf("have %s", frame.Rows)
	}
	const want = "grant/allowed/rule_allow call.begin/allowed/ call.end/routed/"
	if have := h.chain.told(); have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	if s := h.Stats(); s.Grants != 1 || s.Invocations != 1 {
		t.Errorf("have %+v", s)
	}
}

// K-04: one token does not buy unlimited calls.
func TestATokenDoesNotBuyUnlimitedCalls(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	for i := range 70 {
		_, err := h.Invoke(t.Context(), grant, writer, with)
		if i < policy.ReadRate && err != nil {
			t.Fatalf("invoke %d: %v", i+1, err)
		}
		if i >= policy.ReadRate && refusal(t, err).Reason != nacre.ReasonRateLimited {
			t.Fatalf("invoke %d: have %v", i+1, err)
		}
	}
	h.clock.pass(policy.RateWindow)
	if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Errorf("after the window: %v", err)
	}
}

// K-04: Call and Grant are counted once each, in one window.
func TestCallsAndGrantsShareOneWindow(t *testing.T) {
	h, _ := granted(t, kernel.GrantRequest{})
	c := call(milk)
	c.Tool = "note_read"
	for i := range policy.ReadRate - 1 {
		if _, err := h.Call(t.Context(), c); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
	_, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, writer, "")
	if refusal(t, err).Reason != nacre.ReasonRateLimited {
		t.Errorf("have %v", err)
	}
}

// K-10: whatever is changed in a token, it is refused.
func TestATokenThatWasTamperedWithIsRefused(t *testing.T) {
	other := writer
	other.Roles = []string{"writer", "admin"}
	elsewhere := writer
	elsewhere.Session = "s2"
	for name, c := range map[string]struct {
		token  func(*nacre.Token)
		as     nacre.Principal
		caller string
		after  time.Duration
		want   error
	}{
		"another principal":        {func(t *nacre.Token) { t.Principal = "main/s2" }, writer, "", 0, token.ErrSignature},
		"another capability":       {func(t *nacre.Token) { t.Capability = "notes.note_add" }, writer, "", 0, token.ErrSignature},
		"another id":               {func(t *nacre.Token) { t.ID = strings.Repeat("0", 32) }, writer, "", 0, token.ErrSignature},
		"a later end":              {func(t *nacre.Token) { t.Expires = t.Expires.Add(time.Hour) }, writer, "", 0, token.ErrSignature},
		"an earlier beginning":     {func(t *nacre.Token) { t.Issued = t.Issued.Add(-time.Hour) }, writer, "", 0, token.ErrSignature},
		"more uses":                {func(t *nacre.Token) { t.Uses = nil }, writer, "", 0, token.ErrSignature},
		"no constraints":           {func(t *nacre.Token) { t.Constraints = nacre.Constraints{} }, writer, "", 0, token.ErrSignature},
		"other arguments":          {func(t *nacre.Token) { t.Arguments = [32]byte{1} }, writer, "", 0, token.ErrSignature},
		"other authority":          {func(t *nacre.Token) { t.Authority[0]++ }, writer, "", 0, token.ErrSignature},
		"an unknown key":           {func(t *nacre.Token) { t.KeyID = "mine" }, writer, "", 0, token.ErrUnknownKey},
		"a wrong MAC":              {func(t *nacre.Token) { t.MAC[31]++ }, writer, "", 0, token.ErrSignature},
		"a caveat without its MAC": {func(t *nacre.Token) { t.Caveats = []nacre.Caveat{{ID: "c"}} }, writer, "", 0, token.ErrSignature},
		"nothing at all":           {func(t *nacre.Token) { *t = nacre.Token{Capability: t.Capability} }, writer, "", 0, token.ErrExpired},
		"more roles":               {func(*nacre.Token) {}, other, "", 0, token.ErrPrincipal},
		"another session":          {func(*nacre.Token) {}, elsewhere, "", 0, token.ErrPrincipal},
		"another caller":           {func(*nacre.Token) {}, writer, "main/s1/child", 0, token.ErrPrincipal},
		"too late":                 {func(*nacre.Token) {}, writer, "", kernel.DefaultGrantTTL, token.ErrExpired},
	} {
		one, rows := 1, 3
		h, grant := granted(t, kernel.GrantRequest{Uses: &one, Constraints: nacre.Constraints{MaxRows: &rows}})
		h.add(t, note(nil), nil)
		c.token(&grant)
		h.clock.pass(c.after)
		_, err := h.Invoke(t.Context(), grant, c.as, kernel.Input{Arguments: with.Arguments, Caller: c.caller})
		if !errors.Is(err, c.want) || refusal(t, err).Code != nacre.CodeUnauthorized {
			t.Errorf("%s: have %v, want %v", name, err, c.want)
		}
		_, err = h.DryRun(t.Context(), grant, c.as, kernel.Input{Arguments: with.Arguments, Caller: c.caller})
		if !errors.Is(err, c.want) {
			t.Errorf("%s, dry: have %v, want %v", name, err, c.want)
		}
		if n := len(h.called()); n != 0 {
			t.Errorf("%s: it ran", name)
		}
	}
}

// K-10: what is wrong with the token is told before what is wrong with the arguments.
func TestABadTokenSaysNothingOfArguments(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	h.clock.pass(kernel.DefaultGrantTTL)
	if _, err := h.Invoke(t.Context(), grant, writer, kernel.Input{}); !errors.Is(err, token.ErrExpired) {
		t.Errorf("have %v", err)
	}
}

// K-10: a grant for certain arguments is good for no others.
func TestAGrantForArgumentsIsForThoseAlone(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{Arguments: json.RawMessage(milk)})
	_, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: json.RawMessage(`{"text":"eggs"}`)})
	if !errors.Is(err, token.ErrArguments) {
		t.Errorf("have %v", err)
	}
	if _, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: json.RawMessage(`{ "text": "milk", "list": "Personal" }`)}); err != nil {
		t.Errorf("the same arguments, spelled otherwise: %v", err)
	}
}

// K-11: a holder hands down less, and its root pays.
func TestADerivedTokenAllowsLessAndItsRootPays(t *testing.T) {
	three, one, rows := 3, 1, 1
	h, grant := granted(t, kernel.GrantRequest{Uses: &three})
	child, err := tokens.Derive(grant, nacre.Caveat{Principal: "main/s1/child", Roles: []string{}, Uses: &one, Constraints: nacre.Constraints{MaxRows: &rows}})
	if err != nil {
		t.Fatal(err)
	}
	in := with
	in.Caller = "main/s1/child"
	if _, err := h.Invoke(t.Context(), child, writer, in); err != nil {
		t.Fatal(err)
	}
	if have := h.called()[0].Principal; have.ID != in.Caller || len(have.Roles) != 0 {
		t.Errorf("it ran as %+v", have)
	}
	if _, err := h.Invoke(t.Context(), child, writer, in); !errors.Is(err, token.ErrSpent) {
		t.Errorf("its one use again: have %v", err)
	}
	for range 2 {
		if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Invoke(t.Context(), grant, writer, with); !errors.Is(err, token.ErrSpent) {
		t.Errorf("the root's fourth use: have %v", err)
	}
	if _, err := tokens.Derive(grant, nacre.Caveat{Principal: "main/s2"}); err == nil {
		t.Error("handed down to a stranger")
	}
}

// K-04, K-11: ten children share the rate of whom the grant was made to.
func TestChildrenShareTheRateOfTheirRoot(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	ran := 0
	for i := range 80 {
		name := "main/s1/" + string(rune('a'+i%10))
		child, err := tokens.Derive(grant, nacre.Caveat{Principal: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Invoke(t.Context(), child, writer, kernel.Input{Arguments: with.Arguments, Caller: name}); err == nil {
			ran++
		}
	}
	if ran != policy.ReadRate {
		t.Errorf("%d calls ran, want %d", ran, policy.ReadRate)
	}
}

// K-11: what a caveat took from a child, policy does not give back.
func TestAChildWithoutTheRoleMayNotWrite(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_add"})
	child, err := tokens.Derive(grant, nacre.Caveat{Principal: "main/s1/child", Roles: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Invoke(t.Context(), child, writer, kernel.Input{Arguments: with.Arguments, Caller: "main/s1/child"})
	if refusal(t, err).Reason != nacre.ReasonNoMatchingRule {
		t.Errorf("have %v", err)
	}
}

// K-12: a revoked token, what derives from it, and all of a principal.
func TestWhatWasRevokedIsRefusedWithAllThatDerives(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	child, err := tokens.Derive(grant, nacre.Caveat{Principal: "main/s1/child"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Revoke(grant.ID); err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		token  nacre.Token
		caller string
	}{"the token": {grant, ""}, "what derives": {child, "main/s1/child"}} {
		_, err := h.Invoke(t.Context(), one.token, writer, kernel.Input{Arguments: with.Arguments, Caller: one.caller})
		if !errors.Is(err, token.ErrRevoked) {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

// K-12: who is revoked gets nothing by any way, and is let in again when it is over.
func TestARevokedPrincipalGetsNothing(t *testing.T) {
	asked := 0
	h := open(t, func(c *kernel.Config) {
		c.Approver = answer(func(ctx context.Context, q nacre.Question) (nacre.Ruling, error) { asked++; return yes(ctx, q) })
	})
	h.add(t, reading(nil), nil)
	h.add(t, note(risky), nil)
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read", TTL: 2 * time.Hour})
	if err := h.RevokeAll("main", h.clock.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	dry := call(milk)
	dry.Hints.DryRun = true
	for name, do := range map[string]func() error{
		"Call":   func() error { _, err := h.Call(t.Context(), call(milk)); return err },
		"dry":    func() error { _, err := h.Call(t.Context(), dry); return err },
		"Invoke": func() error { _, err := h.Invoke(t.Context(), grant, writer, with); return err },
		"DryRun": func() error { _, err := h.DryRun(t.Context(), grant, writer, with); return err },
		"Grant": func() error {
			_, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, writer, "")
			return err
		},
	} {
		if err := do(); refusal(t, err).Reason != nacre.ReasonTokenRevoked {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if len(h.called()) != 0 || asked != 0 {
		t.Errorf("%d ran, %d asked", len(h.called()), asked)
	}
	h.clock.pass(time.Hour)
	if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Errorf("after its time: %v", err)
	}
}

// unsure revocations do not know, or fail in worse ways.
type unsure struct{ panics bool }

func (unsure) Revoke(string, string, time.Time) error { return errDisk }
func (unsure) Sweep(time.Time) error                  { return nil }
func (u unsure) Revoked(string, string, time.Time) (bool, error) {
	if u.panics {
		panic("revocations")
	}
	return false, errDisk
}

// K-12: where nobody can tell whether it was revoked, nothing is allowed.
func TestRevocationsThatFailRefuse(t *testing.T) {
	for name, u := range map[string]unsure{"an error": {}, "a panic": {panics: true}} {
		h := open(t, func(c *kernel.Config) { c.Shared.Revocations = u })
		h.add(t, note(nil), nil)
		if _, err := h.Call(t.Context(), call(milk)); refusal(t, err).Reason != nacre.ReasonTokenRevoked {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

// K-10: a key that was rotated still verifies until its end.
func TestARotatedKeyVerifiesUntilItsEnd(t *testing.T) {
	h, grant := granted(t, kernel.GrantRequest{})
	end := h.clock.now().Add(time.Minute)
	next := open(t, func(c *kernel.Config) {
		c.Keys = kernel.Keys{
			Current: kernel.Key{ID: "next", Secret: bytes.Repeat([]byte{8}, 32)},
			Retired: []kernel.Key{{ID: kernel.DefaultKeyID, Secret: bytes.Repeat([]byte{7}, 32), Until: end}},
		}
		c.Now = h.clock.now
	})
	next.add(t, reading(nil), nil)
	if _, err := next.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Errorf("while it is retired: %v", err)
	}
	h.clock.pass(time.Minute)
	if _, err := next.Invoke(t.Context(), grant, writer, with); !errors.Is(err, token.ErrUnknownKey) {
		t.Errorf("after its end: have %v", err)
	}
}

// K-18: nothing is called, counted, spent or asked, and what Invoke refuses is refused.
func TestADryRunOfAGrantChangesNothing(t *testing.T) {
	one := 1
	h, grant := granted(t, kernel.GrantRequest{Uses: &one})
	for range 100 {
		plan, err := h.DryRun(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeRaw})
		if err != nil {
			t.Fatal(err)
		}
		if !plan.DryRun || plan.Drivers[0] != "notes.note_read" || plan.Operation != "note_read" || plan.Mode != nacre.ModeSummary || plan.Cost != "low" {
			t.Fatalf("have %+v", plan)
		}
	}
	if len(h.called()) != 0 {
		t.Error("a driver was called")
	}
	if _, err := h.Invoke(t.Context(), grant, writer, with); err != nil {
		t.Errorf("its use is gone: %v", err)
	}
	if _, err := h.DryRun(t.Context(), grant, writer, with); !errors.Is(err, token.ErrSpent) {
		t.Errorf("spent: have %v", err)
	}
}

// K-01, K-08: every condition that fails, and what would change it.
func TestADenialIsExplained(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	nobody := writer
	nobody.Roles = nil
	denial, err := h.ExplainDenial(kernel.GrantRequest{Capability: "notes.note_add"}, nobody, "")
	if err != nil || !denial.Denied || len(denial.Failed) == 0 {
		t.Errorf("have %+v, %v", denial, err)
	}
	if _, err := h.ExplainDenial(kernel.GrantRequest{Capability: "no.such"}, nobody, ""); err == nil {
		t.Error("an unknown capability was explained")
	}
}

// K-08: what the kernel itself has against a grant is explained, not only what
// the policy has: whatever Grant refuses, ExplainDenial denies with the same code.
func TestWhatTheKernelRefusesIsExplained(t *testing.T) {
	family := writer
	family.Group = "family"
	for name, c := range map[string]struct {
		request kernel.GrantRequest
		as      nacre.Principal
		before  func(*house)
		want    []nacre.ReasonCode
	}{
		"nobody":        {as: nacre.Principal{Group: "main", Session: "s1"}, want: []nacre.ReasonCode{nacre.ReasonGroupNotAllowed}},
		"another group": {as: family, want: []nacre.ReasonCode{nacre.ReasonGroupNotAllowed}},
		"a revoked principal of another group": {
			as: family, want: []nacre.ReasonCode{nacre.ReasonTokenRevoked, nacre.ReasonGroupNotAllowed},
			before: func(h *house) { _ = h.RevokeAll("main/s1", time.Time{}) },
		},
		"too often": {as: writer, want: []nacre.ReasonCode{nacre.ReasonRateLimited}, before: func(h *house) {
			for range policy.ReadRate {
				_, _ = h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, writer, "")
			}
		}},
		"arguments outside of its own constraints": {as: writer, want: []nacre.ReasonCode{nacre.ReasonArgumentConstraint}, request: kernel.GrantRequest{
			Arguments:   json.RawMessage(milk),
			Constraints: nacre.Constraints{Arguments: nacre.ArgumentLimits{Prefix: map[string]string{"text": "eggs"}}},
		}},
	} {
		h := open(t, nil)
		h.add(t, reading(nil), nil)
		if c.before != nil {
			c.before(h)
		}
		c.request.Capability = "notes.note_read"
		denial, err := h.ExplainDenial(c.request, c.as, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var have []nacre.ReasonCode
		for _, failed := range denial.Failed {
			have = append(have, failed.Code)
		}
		if !denial.Denied || denial.Code != c.want[0] || !slices.Equal(have, c.want) {
			t.Errorf("%s: have %+v, want %v", name, denial, c.want)
		}
		if len(denial.Remediation) != len(denial.Failed) || denial.Narrative == "" {
			t.Errorf("%s: have %+v", name, denial)
		}
		_, err = h.Grant(t.Context(), c.request, c.as, "")
		if reason := refusal(t, err).Reason; reason != denial.Code {
			t.Errorf("%s: Grant says %s, the explanation %s", name, reason, denial.Code)
		}
	}
}

// K-08: what the policy denies and what the kernel does are told together.
func TestADenialTellsThePolicysConditionsAndTheKernels(t *testing.T) {
	h := open(t, nil)
	h.add(t, note(nil), nil)
	nobody := writer
	nobody.Roles, nobody.Group = nil, "family"
	denial, err := h.ExplainDenial(kernel.GrantRequest{Capability: "notes.note_add"}, nobody, "")
	if err != nil || len(denial.Failed) < 2 || denial.Failed[0].Code != nacre.ReasonGroupNotAllowed || denial.Failed[1].Code != nacre.ReasonMissingRole {
		t.Errorf("have %+v, %v", denial, err)
	}
}

// K-04: allowed_fields hold for whoever has not the role for personal data. Who has it sees all,
// unless policy or their token says otherwise.
func TestAllowedFieldsHoldButForReadersOfPersonalData(t *testing.T) {
	const one, all = `[{"id":1}]`, `[{"id":1,"city":"x"}]`
	roles := func(roles ...string) nacre.Principal {
		p := writer
		p.Roles, p.Attributes = roles, map[string]string{"tenant": "t"}
		return p
	}
	for name, c := range map[string]struct {
		of    nacre.Sensitivity
		as    nacre.Principal
		grant nacre.Constraints
		want  string
	}{
		"personal data":                         {of: nacre.SensitivePII, as: roles(), want: one},
		"card data":                             {of: nacre.SensitivePCI, as: roles("admin"), want: one},
		"personal data, to its readers":         {of: nacre.SensitivePII, as: roles("pii_reader"), want: all},
		"card data, to its readers":             {of: nacre.SensitivePCI, as: roles("pii_reader"), want: all},
		"other data, to readers of personal":    {of: nacre.SensitiveNone, as: roles("pii_reader"), want: one},
		"readers whose token shows the id only": {of: nacre.SensitivePII, as: roles("pii_reader"), grant: nacre.Constraints{AllowedFields: []string{"id"}}, want: one},
	} {
		h := open(t, func(c *kernel.Config) { c.Policy = policy.Default() })
		h.add(t, reading(func(n *nacre.Capability) { n.Sensitivity, n.AllowedFields = c.of, []string{"id"} }),
			func(context.Context, nacre.Invocation) (json.RawMessage, error) { return json.RawMessage(all), nil })
		grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read", Constraints: c.grant}, c.as, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frame, err := h.Invoke(t.Context(), grant, c.as, kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeTable})
		if err != nil || len(frame.Rows) != 1 || "["+string(frame.Rows[0])+"]" != c.want {
			t.Errorf("%s: have %s, %v, want %s", name, frame.Rows, err, c.want)
		}
	}
}

// K-01: what cannot be granted.
func TestWhatCannotBeGranted(t *testing.T) {
	none, rows := 0, 5
	for name, c := range map[string]struct {
		request kernel.GrantRequest
		as      nacre.Principal
		want    nacre.ReasonCode
	}{
		"an unknown capability": {kernel.GrantRequest{Capability: "no.such"}, writer, nacre.ReasonUnknownTool},
		"no use":                {kernel.GrantRequest{Capability: "notes.note_read", Uses: &none}, writer, nacre.ReasonInvalidArguments},
		"a negative time":       {kernel.GrantRequest{Capability: "notes.note_read", TTL: -1}, writer, nacre.ReasonInvalidArguments},
		"more than a day":       {kernel.GrantRequest{Capability: "notes.note_read", TTL: kernel.MaxGrantTTL + 1}, writer, nacre.ReasonInvalidArguments},
		"invalid arguments":     {kernel.GrantRequest{Capability: "notes.note_read", Arguments: json.RawMessage(`{}`)}, writer, nacre.ReasonInvalidArguments},
		"nobody":                {kernel.GrantRequest{Capability: "notes.note_read"}, nacre.Principal{Group: "main", Session: "s1"}, nacre.ReasonGroupNotAllowed},
		"nobody, of nowhere":    {kernel.GrantRequest{Capability: "notes.note_read"}, nacre.Principal{}, nacre.ReasonNoSession},
		"another group":         {kernel.GrantRequest{Capability: "notes.note_read"}, nacre.Principal{ID: "x", Group: "family", Session: "s1"}, nacre.ReasonGroupNotAllowed},
		"arguments outside of its own constraints": {kernel.GrantRequest{
			Capability: "notes.note_read", Arguments: json.RawMessage(milk),
			Constraints: nacre.Constraints{MaxRows: &rows, Arguments: nacre.ArgumentLimits{Prefix: map[string]string{"text": "eggs"}}},
		}, writer, nacre.ReasonArgumentConstraint},
	} {
		h := open(t, nil)
		h.add(t, reading(nil), nil)
		_, err := h.Grant(t.Context(), c.request, c.as, "")
		if have := refusal(t, err).Reason; have != c.want {
			t.Errorf("%s: have %s, want %s", name, have, c.want)
		}
	}
}

// K-21: a grant that could not be recorded is not made.
func TestAGrantThatCannotBeRecordedIsNotMade(t *testing.T) {
	h := open(t, nil)
	h.add(t, reading(nil), nil)
	h.chain.fail = func(r nacre.Record) bool { return r.Kind == kernel.KindGrant }
	grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, writer, "")
	if refusal(t, err).Reason != nacre.ReasonAuditFailed || grant.ID != "" {
		t.Errorf("have %+v, %v", grant, err)
	}
}

// K-21: Invoke, too, does nothing without its begin, and shows nothing without its end.
func TestAnInvokeIsRecordedBeforeAndAfter(t *testing.T) {
	for kind, ran := range map[nacre.Kind]int{nacre.KindCallBegin: 0, nacre.KindCallEnd: 1} {
		h, grant := granted(t, kernel.GrantRequest{})
		h.chain.fail = func(r nacre.Record) bool { return r.Kind == kind }
		frame, err := h.Invoke(t.Context(), grant, writer, with)
		if refusal(t, err).Reason != nacre.ReasonAuditFailed || frame.Rows != nil || len(h.called()) != ran {
			t.Errorf("%s: have %+v, %v, %d ran", kind, frame, err, len(h.called()))
		}
	}
}

// K-13: what reads falls back; what writes only where nothing was sent.
func TestWhatWritesFallsBackOnlyWhereNothingWasSent(t *testing.T) {
	sent, unsent := errors.New("reset by peer"), nacre.NotSent(errors.New("no route to host"))
	for name, c := range map[string]struct {
		safety nacre.SafetyClass
		err    error
		want   string
	}{
		"a read, sent":                {nacre.Read, sent, "second"},
		"a read, not sent":            {nacre.Read, unsent, "second"},
		"a read that was refused":     {nacre.Read, &nacre.Refusal{Code: "NO_SUCH_NOTE"}, ""},
		"a write, sent":               {nacre.Write, sent, ""},
		"a write, not sent":           {nacre.Write, unsent, "second"},
		"a destructive one, sent":     {nacre.Destructive, sent, ""},
		"a destructive one, not sent": {nacre.Destructive, unsent, "second"},
	} {
		h := open(t, nil)
		h.add(t, note(func(c2 *nacre.Capability) { c2.Safety = c.safety }), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return nil, c.err })
		err := h.AddRoute("notes.note_add", "second", nacre.DriverFunc(func(context.Context, nacre.Invocation) (json.RawMessage, error) {
			return json.RawMessage(`{"id":2}`), nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := h.Call(t.Context(), call(milk))
		if (err == nil) != (c.want != "") || c.want != "" && string(outcome.Result) != `{"id":2}` {
			t.Errorf("%s: have %s, %v", name, outcome.Result, err)
		}
		trace, err := h.Explain("e-1")
		if err != nil || c.want != "" && (trace.Driver != c.want || len(trace.Attempts) != 1 || trace.Attempts[0].Driver != "notes.note_add") {
			t.Errorf("%s: traced %+v, %v", name, trace, err)
		}
	}
}

// K-01, K-24: routes that cannot be.
func TestRoutesThatCannotBe(t *testing.T) {
	h := open(t, nil)
	h.add(t, reading(nil), nil)
	driver := nacre.DriverFunc(echo)
	for name, err := range map[string]error{
		"an unknown capability": h.AddRoute("no.such", "a", driver),
		"no driver":             h.AddRoute("notes.note_read", "a", nil),
		"no name":               h.AddRoute("notes.note_read", "", driver),
		"a name twice":          h.AddRoute("notes.note_read", "notes.note_read", driver),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// K-03: what fits best comes first, of what the group may use alone.
func TestASearchFindsWhatTheGroupMayUse(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.Groups = policy.Groups{"main": {Tools: []string{"note_*"}}} })
	h.add(t, reading(func(c *nacre.Capability) { c.Name, c.Description = "read a note", "Read one note" }), nil)
	h.add(t, note(func(c *nacre.Capability) {
		c.ID, c.Tool, c.Name = "admin.read_secrets", "read_secrets", "read all notes"
	}), nil)
	found := h.Search("read a note", writer, 5)
	if len(found) != 1 || found[0].ID != "notes.note_read" {
		t.Errorf("have %+v", found)
	}
	found[0].Schema[0] = 'x' // the caller's own copy
	if again := h.Search("read a note", writer, 5); again[0].Schema[0] != '{' {
		t.Error("a caller changed what is registered")
	}
	h.add(t, note(func(c *nacre.Capability) {
		c.ID, c.Tool, c.Name = "notes.note_list", "note_list", "read the list of notes"
	}), nil)
	if found := h.Search("read a note", writer, 5); len(found) != 2 {
		t.Errorf("have %d, want what was added as well", len(found))
	}
	if found := h.Search("read a note", nacre.Principal{Group: "family"}, 5); len(found) != 0 {
		t.Errorf("another group found %+v", found)
	}
}

// K-14: raw is for who has the role, and for a child only with it.
func TestRawIsForAdmins(t *testing.T) {
	admin := writer
	admin.Roles = []string{"admin", "writer"}
	h := open(t, nil)
	h.add(t, reading(nil), nil)
	grant, err := h.Grant(t.Context(), kernel.GrantRequest{Capability: "notes.note_read"}, admin, "")
	if err != nil {
		t.Fatal(err)
	}
	child, err := tokens.Derive(grant, nacre.Caveat{Principal: "main/s1/child", Roles: []string{"writer"}})
	if err != nil {
		t.Fatal(err)
	}
	in := kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeRaw}
	if frame, err := h.Invoke(t.Context(), grant, admin, in); err != nil || frame.Mode != nacre.ModeRaw || string(frame.Raw) != `{"id":1}` {
		t.Errorf("an admin: have %+v, %v", frame, err)
	}
	in.Caller = "main/s1/child"
	frame, err := h.Invoke(t.Context(), child, admin, in)
	if err != nil || frame.Mode != nacre.ModeSummary || frame.Raw != nil || !slices.ContainsFunc(frame.Warnings, func(w string) bool { return strings.Contains(w, "admin") }) {
		t.Errorf("a child without the role: have %+v, %v", frame, err)
	}
}

// K-14: a driver cannot make an admin of who is none.
func TestADriverCannotGiveRoles(t *testing.T) {
	h := open(t, nil)
	h.add(t, reading(nil), func(_ context.Context, in nacre.Invocation) (json.RawMessage, error) {
		in.Principal.Roles[0] = "admin"
		return json.RawMessage(`{"id":1}`), nil
	})
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read"})
	frame, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeRaw})
	if err != nil || frame.Raw != nil {
		t.Errorf("have %+v, %v", frame, err)
	}
}

// K-16: as the budget runs out less is shown, and then nothing more is done.
func TestABudgetThatRunsOutShowsLessAndThenDoesNothing(t *testing.T) {
	h := open(t, func(c *kernel.Config) { c.OutputBudget = 10_000 })
	h.add(t, reading(nil), func(context.Context, nacre.Invocation) (json.RawMessage, error) { return rows(200), nil })
	grant := h.grant(t, kernel.GrantRequest{Capability: "notes.note_read"})
	modes := map[nacre.Mode]bool{}
	for range 55 {
		ran := len(h.called())
		frame, err := h.Invoke(t.Context(), grant, writer, kernel.Input{Arguments: with.Arguments, Mode: nacre.ModeTable})
		if err != nil {
			if refusal(t, err).Reason != nacre.ReasonBudgetExhausted || len(h.called()) != ran {
				t.Fatalf("have %v after %d calls", err, len(h.called()))
			}
			break
		}
		modes[frame.Mode] = true
	}
	if !modes[nacre.ModeTable] || !modes[nacre.ModeSummary] || h.Stats().BudgetDowngrades == 0 {
		t.Errorf("have modes %v, %+v", modes, h.Stats())
	}
	if _, err := h.Call(t.Context(), nacre.Call{Principal: writer, Tool: "note_read", Arguments: json.RawMessage(milk)}); refusal(t, err).Reason != nacre.ReasonBudgetExhausted {
		t.Errorf("have %v", err)
	}
	elsewhere := writer
	elsewhere.Session = "s2"
	if _, err := h.Call(t.Context(), nacre.Call{Principal: elsewhere, Tool: "note_read", Arguments: json.RawMessage(milk)}); err != nil {
		t.Errorf("another session: %v", err)
	}
}
