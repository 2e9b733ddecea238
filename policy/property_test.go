package policy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// drawRule writes a rule with a few keys out of small vocabularies, so that
// rules overlap and shadow one another.
func drawRule(t *rapid.T) string {
	keys := map[string]func() string{
		"capability":     func() string { return list(t, "a.b", "a.c", "b.*", "*.c", "a.*", "*") },
		"tool":           func() string { return list(t, "b", "c", "*") },
		"group":          func() string { return list(t, "main", "work", "w*") },
		"channel":        func() string { return list(t, "terminal", "web*") },
		"safety_class":   func() string { return list(t, "READ", "WRITE", "DESTRUCTIVE") },
		"sensitivity":    func() string { return list(t, "NONE", "PII", "SECRETS") },
		"roles":          func() string { return list(t, "writer", "admin", "agent") },
		"intent":         func() string { return list(t, "fix", "f*", "look") },
		"attributes":     func() string { return table(t, "tenant", "t1", "t2", "*") },
		"scope":          func() string { return table(t, "path", "src/**", "src", "*", "a.b") },
		"arguments":      func() string { return table(t, "to", "x@y", "*@y", "src/**", "*") },
		"taint":          func() string { return fmt.Sprint(rapid.Bool().Draw(t, "taint")) },
		"read_untrusted": func() string { return fmt.Sprint(rapid.Bool().Draw(t, "read")) },
		"sinks":          func() string { return fmt.Sprint(rapid.Bool().Draw(t, "sinks")) },
		"provenance":     func() string { return list(t, "nowhere", "untrusted", "trusted", "operator") },
	}
	names := slices.Sorted(maps.Keys(keys))
	var match []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID[string]).Draw(t, "keys") {
		match = append(match, name+" = "+keys[name]())
	}
	action := rapid.SampledFrom([]string{"allow", "ask", "deny"}).Draw(t, "action")
	return fmt.Sprintf("[[rules]]\naction = %q\nmatch = { %s }\n", action, strings.Join(match, ", "))
}

func list(t *rapid.T, from ...string) string {
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, 2, rapid.ID[string]).Draw(t, "list")
	data, _ := json.Marshal(chosen)
	return string(data)
}

func table(t *rapid.T, name string, from ...string) string {
	return fmt.Sprintf("{ %s = %s }", name, list(t, from...))
}

func drawRequest(t *rapid.T) policy.Request {
	pick := func(from ...string) string { return rapid.SampledFrom(from).Draw(t, "pick") }
	capability := pick("a.b", "a.c", "b.c", "c", "b.x.c")
	r := policy.Request{
		Principal: nacre.Principal{
			Group: nacre.Group(pick("main", "work", "")), Channel: pick("terminal", "webhook", ""), Intent: pick("", "fix", "look", "fi%2ex"),
			Roles: rapid.SliceOfN(rapid.SampledFrom([]string{"writer", "admin", "agent", "x"}), 0, 3).Draw(t, "roles"),
		},
		Capability: nacre.Capability{
			ID: nacre.CapabilityID(capability), Tool: nacre.ToolName(capability[strings.LastIndexByte(capability, '.')+1:]),
			Safety: nacre.SafetyClass(rapid.IntRange(0, 3).Draw(t, "safety")), Sensitivity: nacre.Sensitivity(rapid.IntRange(0, 5).Draw(t, "tag")),
			Values: nacre.Values{Sinks: rapid.SampledFrom([][]string{nil, {"to"}}).Draw(t, "sinks")},
		},
		Tainted: rapid.Bool().Draw(t, "taint"), ReadUntrusted: rapid.Bool().Draw(t, "read"),
		Arguments: json.RawMessage(pick("", "{}", `{"to":"x@y"}`, `{"to":["x@y","src/a"]}`, `{"to":"src/../a"}`, `{"to":1,"to":"x@y"}`, `{"to":`, `{"to":null}`)),
	}
	if rapid.Bool().Draw(t, "attributes") {
		r.Principal.Attributes = map[string]string{"tenant": pick("t1", "t2", "", "t3")}
	}
	if rapid.Bool().Draw(t, "scope") {
		r.Principal.Scope = map[string]string{"path": pick("src", "src/a", "src/../x", "./src", "a.b", "a%2eb", "a%2Eb", "x")}
	}
	if rapid.Bool().Draw(t, "origin") {
		r.Origins = []nacre.Origin{{Argument: "to", Provenance: nacre.Provenance(rapid.IntRange(0, 3).Draw(t, "origin of to"))}}
	}
	return r
}

// K-05: looking rules up is the same as reading them from top to bottom, which
// is what a trace does; and a replay of what was recorded never says otherwise.
func TestLookingARuleUpIsReadingThemInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "rules") {
			text.WriteString(drawRule(t))
		}
		p, err := policy.Parse("p.toml", []byte(text.String()))
		if err != nil {
			t.Fatal(err, text.String())
		}
		r := drawRequest(t)
		have, want := p.Decide(r), "p.toml, default"
		for _, step := range p.Trace(r).Steps {
			if step.Outcome == "matched" {
				want = step.Rule
			}
		}
		if have.Rule != want {
			t.Fatalf("decided by %s, read: %s\n%s", have.Rule, want, text.String())
		}
		if denial := p.Explain(r); denial.Denied != (have.Verdict == nacre.Deny) {
			t.Fatalf("%v is explained as %+v", have.Verdict, denial)
		}
		replayed, undecided := p.Replay(stored(t, policy.RecordedOf(r)))
		known := r.Capability.Safety <= nacre.Read && r.Capability.Sensitivity <= nacre.SensitiveNone // others are recorded as the strictest
		if known && undecided == "" && replayed.Verdict != have.Verdict {
			t.Fatalf("decided %v at %s, replayed %v at %s\n%s", have.Verdict, have.Rule, replayed.Verdict, replayed.Rule, text.String())
		}
	})
}

// stored is a record as it comes back from JSON.
func stored(t interface{ Fatal(...any) }, rec policy.Recorded) policy.Recorded {
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	var back policy.Recorded
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestConstraintsThatExcludeOneAnotherDeny(t *testing.T) {
	p := parse(t, "[[rules]]\naction = \"allow\"\nmatch = {}\nconstraints = { scope = { region = \"eu\" }, arguments = { pinned = { n = 1 } } }")
	for name, c := range map[string]nacre.Constraints{
		"a scope":           {Scope: map[string]string{"region": "us"}},
		"a pin":             {Arguments: nacre.ArgumentLimits{Pinned: map[string]json.RawMessage{"n": json.RawMessage("2")}}},
		"a pin of a bool":   {Arguments: nacre.ArgumentLimits{Pinned: map[string]json.RawMessage{"n": json.RawMessage("true")}}},
		"a pin as no JSON":  {Arguments: nacre.ArgumentLimits{Pinned: map[string]json.RawMessage{"m": json.RawMessage("x")}}},
		"a climbing prefix": {Arguments: nacre.ArgumentLimits{Prefix: map[string]string{"path": "/safe/../"}}},
	} {
		have := p.Decide(policy.Request{Constraints: c})
		if have.Verdict != nacre.Deny || have.Code != nacre.ReasonInvalidConstraint || !have.Constraints.IsZero() {
			t.Errorf("%s: have %+v", name, have)
		}
		if denial := p.Explain(policy.Request{Constraints: c}); !denial.Denied || denial.Code != nacre.ReasonInvalidConstraint || len(denial.Failed) != 1 {
			t.Errorf("%s: explained as %+v", name, denial)
		}
	}
	negative := -5
	if have := p.Decide(policy.Request{Constraints: nacre.Constraints{MaxRows: &negative}}); have.Verdict != nacre.Allow || *have.Constraints.MaxRows != 0 {
		t.Errorf("fewer rows than none: have %+v", have)
	}
	same := p.Decide(policy.Request{Constraints: nacre.Constraints{Arguments: nacre.ArgumentLimits{Pinned: map[string]json.RawMessage{"n": json.RawMessage("1.0")}}}})
	if same.Verdict != nacre.Allow {
		t.Errorf("1 and 1.0: have %+v", same)
	}
}

// What a decision gives away cannot change the policy.
func TestADecisionSharesNoMemoryWithThePolicy(t *testing.T) {
	p := parse(t, "[[rules]]\naction = \"allow\"\nmatch = {}\nconstraints = { max_rows = 5, allowed_fields = [\"id\"], scope = { a = \"1\" } }")
	d := p.Decide(policy.Request{})
	*d.Constraints.MaxRows, d.Constraints.AllowedFields[0], d.Constraints.Scope["a"] = 500, "ssn", "2"
	again := p.Decide(policy.Request{}).Constraints
	if *again.MaxRows != 5 || again.AllowedFields[0] != "id" || again.Scope["a"] != "1" {
		t.Errorf("have %+v", again)
	}
}

// K-05: a number is what it is worth, however long it is written.
func TestNumbersInArgumentsAreExact(t *testing.T) {
	p := parse(t, "default = \"allow\"\n[[rules]]\naction = \"deny\"\nreason = \"no\"\nmatch = { arguments = { n = 100 } }")
	for n, want := range map[string]nacre.Verdict{
		"100": nacre.Deny, "1e2": nacre.Deny, "100." + strings.Repeat("0", 400): nacre.Deny, "0." + strings.Repeat("0", 300) + "1e303": nacre.Deny,
		"100." + strings.Repeat("0", 400) + "1": nacre.Deny, // a double reads 100 (F-27)
		"100.0001":                              nacre.Allow, "1e200": nacre.Allow, "true": nacre.Allow,
	} {
		if have := p.Decide(policy.Request{Arguments: json.RawMessage(`{"n":` + n + `}`)}); have.Verdict != want {
			t.Errorf("%.80s: have %v, want %v", n, have.Verdict, want)
		}
	}
}
