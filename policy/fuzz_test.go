package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/policy"
)

// Whatever the bytes, each notation is refused with an error that names a
// place, or decides, explains and traces; nothing panics.
func FuzzNotations(f *testing.F) {
	f.Add(rules)
	f.Add(codingAgent)
	f.Add(policy.ShippedText())
	f.Add(`{"default":"ask","rules":[{"action":"deny","match":{"arguments":{"a.b":[1,true,"*"]}}}]}`)
	f.Add("rules: [{action: allow, match: {scope: {a: 'x/**/y'}}, constraints: {max_rows: 3}}]")
	f.Add("a: &a [*a]\n<<: *a\n--- !!map\n? x\n: |\n  y")
	f.Add("default: \"\\ud83d\"\n%TAG ! x\n...\n---")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"f.toml", "f.yaml", "f.json"} {
			p, err := policy.Parse(name, []byte(text))
			if err != nil {
				if !strings.HasPrefix(err.Error(), name+":") {
					t.Errorf("no place in %q", err)
				}
				continue
			}
			r := policy.Request{Arguments: json.RawMessage(`{"a":{"b":1}}`)}
			if d := p.Decide(r); p.Explain(r).Denied != (d.Verdict == nacre.Deny) {
				t.Errorf("%v is explained as %+v", d, p.Explain(r))
			}
			p.Trace(r)
			p.Findings()
		}
		for _, name := range []string{"c.toml", "c.yaml", "c.json"} {
			if cases, err := policy.ParseCases(name, []byte(text)); err == nil && len(cases) == 0 {
				t.Error("no cases and no error")
			}
		}
	})
}

// Whatever a value and a pattern of the file are, what an allow matches, a deny
// with the same pattern matches too.
func FuzzPattern(f *testing.F) {
	f.Add("src/**", "src/../.github/x")
	f.Add("*a*b*", "ab%2fa\\b")
	f.Add("https://a/**/b", "HTTPS://A/c/../b?x#y")
	f.Add("**/secrets/**", "\x00secrets//x/")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		quoted, err := json.Marshal(pattern)
		if err != nil {
			return
		}
		decided := map[string]nacre.Decision{}
		for _, action := range []string{"allow", "deny"} {
			p, err := policy.Parse("p.json", []byte(`{"default":"ask","rules":[{"action":"`+action+`","match":{"scope":{"v":`+string(quoted)+`}}}]}`))
			if err != nil {
				return
			}
			decided[action] = p.Decide(policy.Request{Principal: nacre.Principal{Scope: map[string]string{"v": value}}})
		}
		if decided["allow"].Verdict == nacre.Allow && decided["deny"].Verdict != nacre.Deny {
			t.Errorf("%q: an allow matches %q, a deny does not", pattern, value)
		}
	})
}

// Whatever the arguments, nothing panics, and a replay of what was recorded
// never says otherwise than the decision did.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":1.0}}`, `{"a":1,"a":2}`, `{"a":[[["x"]],null]}`, `{"a":"\ud83d\ude00\u0000"}`, `{"a`, `[1`, `{"a.b":1e999999999}`} {
		f.Add(seed, "a.b")
		f.Add(seed, "a.0")
	}
	f.Fuzz(func(t *testing.T, arguments, path string) {
		quoted, err := json.Marshal(path)
		if err != nil {
			return
		}
		r := policy.Request{Arguments: json.RawMessage(arguments), Capability: nacre.Capability{Values: nacre.Values{Sinks: []string{path}}}}
		rec := stored(t, policy.RecordedOf(r))
		for _, action := range []string{"allow", "deny"} {
			p, err := policy.Parse("p.json", []byte(`{"default":"ask","rules":[{"action":"`+action+`","match":{"arguments":{`+string(quoted)+`:["x",1]}}}]}`))
			if err != nil {
				return
			}
			d := p.Decide(r)
			if again, undecided := p.Replay(rec); undecided == "" && again.Verdict != d.Verdict {
				t.Errorf("%s at %q: decided %v, replayed %v", arguments, path, d.Verdict, again.Verdict)
			}
		}
	})
}

// FuzzConstraints: what is read of a request narrows, and combines with itself.
func FuzzConstraints(f *testing.F) {
	for _, seed := range []string{`{"max_rows":"7"}`, `{"arguments":{"pinned":{"a":[1]},"prefix":{"b":"/x"}}}`, `{"allowed_fields":null}`, `{`} {
		corpus.Add(f, seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := askedFor(text)
		if err != nil {
			return
		}
		if have := policy.Default().Decide(policy.Request{Constraints: c}); have.Code == nacre.ReasonInvalidConstraint {
			t.Errorf("%s: %+v", text, have)
		}
	})
}
