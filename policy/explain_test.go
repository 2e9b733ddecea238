package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

func codes(d nacre.Denial) []nacre.ReasonCode {
	var all []nacre.ReasonCode
	for _, f := range d.Failed {
		all = append(all, f.Code)
		if f.Condition == "" || f.Required == "" || f.Actual == "" || f.Suggestion == "" {
			all = append(all, "incomplete")
		}
	}
	return all
}

// K-08: all that fails is told at once, in the terms of whoever can change it.
func TestADenialCollectsAllThatFails(t *testing.T) {
	p := parse(t, `
[[rules]]
name = "partly"
action = "deny"
match = { safety_class = ["WRITE"], roles = ["intern"] }
[[rules]]
name = "reads"
action = "allow"
match = { safety_class = ["READ"] }
[[rules]]
name = "all of it"
action = "allow"
match = { safety_class = ["WRITE"], group = ["ops"], intent = ["fix"], roles = ["lead"], min_justification = 10, attributes = { tenant = "t1" }, scope = { region = "eu" }, arguments = { to = "*@example.com" } }
[[rules]]
name = "or this"
action = "ask"
match = { safety_class = ["WRITE"], group = ["ops"], intent = ["fix"], roles = ["lead", "head"], min_justification = 10, attributes = { tenant = "t1" }, scope = { region = "eu" }, arguments = { to = "*" , cc = "*" } }
`)
	r := policy.Request{
		Principal:  nacre.Principal{Group: "family", Justification: "short", Attributes: map[string]string{"tenant": "t2"}},
		Capability: capability(nacre.Write, nacre.SensitiveNone),
		Arguments:  json.RawMessage(`{"to":"eve@evil.test"}`),
	}
	d := p.Explain(r)
	want := []nacre.ReasonCode{
		nacre.ReasonGroupNotAllowed, nacre.ReasonIntentNotAllowed, nacre.ReasonMissingRole, nacre.ReasonInsufficientReason,
		nacre.ReasonMissingAttribute, nacre.ReasonScopeNotAllowed, nacre.ReasonArgumentConstraint,
	}
	if !d.Denied || d.Code != want[0] || !slices.Equal(codes(d), want) || !strings.Contains(d.Rule, "all of it") {
		t.Errorf("have %+v\nwant %v", d, want)
	}
	if len(d.Remediation) != len(want)+1 || !strings.Contains(d.Remediation[len(want)], `rule "or this"`) || !strings.Contains(d.Narrative, "comes closest") {
		t.Errorf("remediation %q, narrative %q", d.Remediation, d.Narrative)
	}
	if actual := d.Failed[6].Actual; actual != `"eve@evil.test"` {
		t.Errorf("the operator sees %q", actual)
	}
	if strings.Contains(d.Narrative+strings.Join(d.Remediation, ""), "partly") {
		t.Error("a deny rule that matched in part was explained")
	}
	if have := p.Decide(r); strings.Contains(have.Message, "eve@evil.test") || strings.Contains(have.Message, "t1") {
		t.Errorf("the message to the agent tells values: %q", have.Message)
	}
}

func TestADenyRuleThatMatchesIsTheCause(t *testing.T) {
	p := parse(t, rules)
	d := p.Explain(policy.Request{
		Principal:  nacre.Principal{Attributes: map[string]string{"env": "prod"}},
		Capability: capability(nacre.Destructive, nacre.SensitiveNone),
	})
	if !d.Denied || d.Code != nacre.ReasonExplicitDeny || len(d.Failed) != 1 || d.Remediation[0] != "no prod wipes" || d.Rule != `policy.toml:4, rule "deny prod wipe"` {
		t.Errorf("have %+v", d)
	}
	granted := p.Explain(policy.Request{Capability: capability(nacre.Read, nacre.SensitiveNone)})
	if granted.Denied || granted.Code != nacre.ReasonRuleAllow || len(granted.Failed) != 0 || granted.Narrative == "" {
		t.Errorf("have %+v", granted)
	}
	empty := (&policy.Policy{}).Explain(policy.Request{})
	if !empty.Denied || empty.Code != nacre.ReasonNoMatchingRule || !slices.Equal(codes(empty), []nacre.ReasonCode{nacre.ReasonNoMatchingRule, "incomplete"}) && len(codes(empty)) != 1 {
		t.Errorf("have %+v", empty)
	}
}

// K-08: the default engine tells all at once, too.
func TestTheDefaultEngineCollectsAllThatFails(t *testing.T) {
	d := policy.Default().Explain(policy.Request{Capability: nacre.Capability{ID: "a.b", Safety: nacre.Write, Sensitivity: nacre.SensitiveSecrets}})
	want := []nacre.ReasonCode{nacre.ReasonMissingRole, nacre.ReasonInsufficientReason, nacre.ReasonMissingRole, nacre.ReasonInsufficientReason}
	if !slices.Equal(codes(d), want) || d.Code != want[0] || len(d.Remediation) != 4 {
		t.Errorf("have %+v", d)
	}
	unknown := policy.Default().Decide(policy.Request{Principal: nacre.Principal{Roles: []string{"writer"}}, Capability: nacre.Capability{Safety: 9, Sensitivity: 9}})
	if unknown.Verdict != nacre.Deny {
		t.Errorf("classes that nobody knows: have %+v", unknown)
	}
	p := nacre.Principal{Scope: map[string]string{"memory_scope": " Sensitive"}}
	if have := policy.Default().Decide(policy.Request{Principal: p, Capability: nacre.Capability{Safety: nacre.Read, Sensitivity: nacre.SensitiveMemory}}); have.Code != nacre.ReasonMemorySensitive {
		t.Errorf("another spelling of sensitive: have %+v", have)
	}
}

// K-09: a trace names what was looked at and never a value.
func TestATraceHoldsNoValues(t *testing.T) {
	const secret = "hunter2"
	p := parse(t, `
[[rules]]
name = "one"
action = "allow"
match = { arguments = { password = "hunter2x" }, attributes = { tenant = "hunter2x" }, scope = { region = "hunter2x" } }
[[rules]]
name = "two"
action = "ask"
match = { safety_class = ["WRITE"] }
constraints = { max_rows = 3 }
`)
	r := policy.Request{
		Principal: nacre.Principal{
			ID: "p1", Intent: "fix", Attributes: map[string]string{"tenant": secret}, Scope: map[string]string{"region": secret, "a": secret}, Justification: secret,
		},
		Capability: capability(nacre.Write, nacre.SensitiveNone),
		Arguments:  json.RawMessage(`{"password":"` + secret + `"}`),
	}
	for name, e := range map[string]policy.Explainer{"policy": p, "default": policy.Default()} {
		trace := e.Trace(r)
		text, err := json.Marshal(trace)
		if err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%s: %v %s", name, err, text)
		}
		if trace.Principal != "p1" || trace.Intent != "fix" || !slices.Equal(trace.ScopeKeys, []string{"a", "region"}) || trace.Engine == "" {
			t.Errorf("%s: have %+v", name, trace)
		}
	}
	var outcomes []string
	for _, step := range p.Trace(r).Steps {
		outcomes = append(outcomes, step.Outcome+" "+step.Detail)
	}
	if want := []string{"skipped attributes.tenant", "matched ", "constraint_applied max_rows", "asked "}; !slices.Equal(outcomes, want) {
		t.Errorf("have %q, want %q", outcomes, want)
	}
	recorded, err := json.Marshal(policy.RecordedOf(r))
	if err != nil || strings.Count(string(recorded), secret) != 2 { // the scope's, which the host chose
		t.Errorf("%v %s", err, recorded)
	}
}

// M-52, K-26: what a tainted session asks.
func TestATaintedSessionAsksForWhatOutsidersMayHaveChosen(t *testing.T) {
	seen := func(p ...nacre.Provenance) []nacre.Origin {
		var origins []nacre.Origin
		for i, one := range p {
			origins = append(origins, nacre.Origin{Argument: []string{"to", "body"}[i], Provenance: one})
		}
		return origins
	}
	writer := []string{"writer"}
	tests := map[string]struct {
		safety      nacre.SafetyClass
		roles       []string
		taint, read bool
		origins     []nacre.Origin
		sinks       []string
		behavioural bool
		verdict     nacre.Verdict
		code        nacre.ReasonCode
	}{
		"a read":                                    {nacre.Read, nil, true, true, nil, nil, false, nacre.Allow, nacre.ReasonRuleAllow},
		"a read that later sessions act on":         {nacre.Read, nil, true, true, nil, nil, true, nacre.Ask, nacre.ReasonTainted},
		"a write in a clean session":                {nacre.Write, writer, false, false, seen(nacre.SeenNowhere), nil, false, nacre.Allow, nacre.ReasonRuleAllow},
		"a write without sinks":                     {nacre.Write, writer, true, false, nil, nil, false, nacre.Ask, nacre.ReasonTainted},
		"a write of the operator's values":          {nacre.Write, writer, true, false, seen(nacre.SeenOperator, nacre.SeenTrusted), nil, false, nacre.Allow, nacre.ReasonRuleAllow},
		"a write with one value from outside":       {nacre.Write, writer, true, false, seen(nacre.SeenOperator, nacre.SeenUntrusted), nil, false, nacre.Ask, nacre.ReasonTainted},
		"a write with one value from nowhere":       {nacre.Write, writer, true, false, seen(nacre.SeenOperator, nacre.SeenNowhere), nil, false, nacre.Ask, nacre.ReasonTainted},
		"a sink that was forgotten":                 {nacre.Write, writer, true, false, seen(nacre.SeenOperator), []string{"to", "url"}, false, nacre.Ask, nacre.ReasonTainted},
		"a sink that has no value":                  {nacre.Write, writer, true, false, seen(nacre.SeenOperator), []string{"to", "cc"}, false, nacre.Allow, nacre.ReasonRuleAllow},
		"a write without the role stays denied":     {nacre.Write, nil, true, true, nil, nil, true, nacre.Deny, nacre.ReasonNoMatchingRule},
		"what destroys":                             {nacre.Destructive, nil, true, false, nil, nil, false, nacre.Ask, nacre.ReasonTainted},
		"what destroys, with trusted values":        {nacre.Destructive, nil, true, false, seen(nacre.SeenOperator), nil, false, nacre.Ask, nacre.ReasonRuleAsk},
		"a repository's value, untainted":           {nacre.Write, writer, false, false, seen(nacre.SeenUntrusted), nil, false, nacre.Ask, nacre.ReasonTainted},
		"a value from nowhere, after a repository":  {nacre.Write, writer, false, true, seen(nacre.SeenNowhere), nil, false, nacre.Ask, nacre.ReasonTainted},
		"the operator's value, after a repository":  {nacre.Write, writer, false, true, seen(nacre.SeenOperator), nil, false, nacre.Allow, nacre.ReasonRuleAllow},
		"a write without sinks, after a repository": {nacre.Write, writer, false, true, nil, nil, false, nacre.Allow, nacre.ReasonRuleAllow},
		"an origin that nobody knows":               {nacre.Write, writer, true, false, seen(nacre.SeenOperator, nacre.Provenance(9)), nil, false, nacre.Ask, nacre.ReasonTainted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := capability(test.safety, nacre.SensitiveNone)
			c.Sinks, c.Behavioural = test.sinks, test.behavioural
			have := policy.Shipped().Decide(policy.Request{
				Principal: nacre.Principal{Roles: test.roles}, Capability: c, Tainted: test.taint, ReadUntrusted: test.read,
				Origins: test.origins, Arguments: json.RawMessage(`{"to":"a","url":"b"}`),
			})
			if have.Verdict != test.verdict || have.Code != test.code {
				t.Errorf("have %v %s at %s, want %v %s", have.Verdict, have.Code, have.Rule, test.verdict, test.code)
			}
		})
	}
}

// K-06: what a policy's author should look at again.
func TestFindings(t *testing.T) {
	const text = `default = "allow"
[[rules]]
name = "deny folders"
action = "deny"
[rules.match]
scope = { path = ["secrets/*", "keys/**"] }
[[rules]]
name = "writers"
action = "allow"
match = { safety_class = ["READ", "WRITE"], roles = ["a", "b"], capability = ["mail.*"] }
[[rules]]
name = "never"
action = "deny"
match = { safety_class = ["READ"], roles = ["a"], capability = ["mail.send"], taint = true }
constraints = { max_rows = 1 }
[[rules]]
name = "reached"
action = "deny"
match = { safety_class = ["READ"], roles = ["a", "c"], capability = ["mail.send"] }
[[rules]]
name = "writers"
action = "ask"
match = {}
[[rules]]
name = "last"
action = "ask"
match = { taint = true }
`
	var have []string
	for _, f := range parse(t, text).Findings() {
		have = append(have, f.Code)
	}
	want := []string{"default_allow", "shallow_pattern", "no_effect", "never_reached", "same_name", "never_reached"}
	if !slices.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
	if found := policy.Shipped().Findings(); len(found) != 0 {
		t.Errorf("the shipped policy: %+v", found)
	}
}

// K-06
func TestCasesAreReadStrictly(t *testing.T) {
	const good = "[[cases]]\nname = \"a\"\nexpect = \"allow\"\nrule = \"reading is free\"\nrequest = { capability = \"notes.list\", safety_class = \"READ\" }\n"
	cases, err := policy.ParseCases("c.toml", []byte(good))
	if err != nil || len(cases) != 1 || cases[0].Failure(policy.Shipped().Decide(cases[0].Request)) != "" {
		t.Fatalf("%+v %v", cases, err)
	}
	wrong := cases[0]
	wrong.Expect, wrong.Code, wrong.Rule = nacre.Deny, "x", "default"
	if have := wrong.Failure(policy.Shipped().Decide(wrong.Request)); strings.Count(have, ";") != 2 {
		t.Errorf("have %q", have)
	}
	for name, test := range map[string]struct{ file, text, want string }{
		"none":               {"c.toml", "", "c.toml:1: there are no cases"},
		"an empty list":      {"c.yaml", "[]", "c.yaml:1: there are no cases"},
		"a typo":             {"c.yaml", "- name: a\n  expects: allow", `c.yaml:2: unknown key "expects"; did you mean "expect"?`},
		"a typo in requests": {"c.yaml", "- expect: allow\n  request: {capability: a.b, safety: READ}", `c.yaml:2: unknown key "safety"`},
		"no class":           {"c.json", `[{"expect":"deny","request":{"capability":"a.b"}}]`, "c.json:1: a request needs a capability and a safety_class"},
		"no request":         {"c.json", `[{"expect":"deny"}]`, `c.json:1: case "case-0" wants a request`},
		"a wrong type":       {"c.json", `[{"expect":"deny","request":{"capability":"a.b","safety_class":"READ","roles":"x"}}]`, "c.json:1: roles: "},
		"a bad constraint":   {"c.json", `[{"expect":"deny","request":{"capability":"a.b","safety_class":"READ","constraints":{"max_rows":"x"}}}]`, "c.json:1: invalid constraint"},
		"arguments as text":  {"c.json", `[{"expect":"deny","request":{"capability":"a.b","safety_class":"READ","arguments":"x"}}]`, "c.json:1: arguments: use a table"},
	} {
		if _, err := policy.ParseCases(test.file, []byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: have %v, want %s", name, err, test.want)
		}
	}
}

// K-06: a replay decides on what was recorded, or says that it cannot.
func TestAReplayNeverGuesses(t *testing.T) {
	r := policy.Request{
		Principal:  nacre.Principal{Attributes: map[string]string{"tenant": "t1"}, Justification: " ten chars! "},
		Capability: capability(nacre.Write, nacre.SensitiveNone),
		Arguments:  json.RawMessage(`{"to":"a@example.com","n":1.50,"list":["x"],"path":"src/../a","o":{"k":true}}`),
	}
	rec := stored(t, policy.RecordedOf(r))
	tests := map[string]struct {
		match     string
		verdict   nacre.Verdict
		undecided bool
	}{
		"an argument that is equal":          {`arguments = { to = "a@example.com" }`, nacre.Allow, false},
		"an argument that is not":            {`arguments = { to = "b@example.com" }`, nacre.Deny, false},
		"a pattern":                          {`arguments = { to = "*@example.com" }`, nacre.Deny, true},
		"a pattern, where another key fails": {`arguments = { to = "*@example.com" }, roles = ["x"]`, nacre.Deny, false},
		"an argument that is there":          {`arguments = { to = "*" }`, nacre.Allow, false},
		"an argument that is not there":      {`arguments = { cc = "*" }`, nacre.Deny, false},
		"a number, written otherwise":        {`arguments = { n = 1.5 }`, nacre.Allow, false},
		"a bool further in":                  {`arguments = { "o.k" = true }`, nacre.Allow, false},
		"a list":                             {`arguments = { list = "x" }`, nacre.Deny, true},
		"an element":                         {`arguments = { "list.0" = "x" }`, nacre.Allow, false},
		"a value of many readings":           {`arguments = { path = "a" }`, nacre.Deny, true},
		"an attribute that is equal":         {`attributes = { tenant = "t1" }`, nacre.Allow, false},
		"an attribute that is not":           {`attributes = { tenant = "t2" }`, nacre.Deny, false},
		"a justification":                    {`min_justification = 10`, nacre.Allow, false},
		"a longer one":                       {`min_justification = 11`, nacre.Deny, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d, undecided := parse(t, "[[rules]]\naction = \"allow\"\nmatch = { "+test.match+" }").Replay(rec)
			if d.Verdict != test.verdict || (undecided != "") != test.undecided {
				t.Errorf("have %v %q, want %v, undecided %v", d.Verdict, undecided, test.verdict, test.undecided)
			}
		})
	}
	same := parse(t, "[[rules]]\naction = \"deny\"\nmatch = { arguments = { to = \"*@evil.test\" } }")
	if d, undecided := same.Replay(rec); d.Verdict != nacre.Deny || undecided != "" {
		t.Errorf("what no value could change: have %v %q", d.Verdict, undecided)
	}
}
