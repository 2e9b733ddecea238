package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// K-05: the same model, whatever the notation, with the line of every mistake.
func TestTheNotationsSayTheSame(t *testing.T) {
	const toml = `default = "ask"
[[rules]]
name = "one"
action = "allow"
reason = "because"
match = { safety_class = ["READ"], scope = { region = "eu-*" }, arguments = { to = ["a@b", 5, true], "deep.path" = "*" }, taint = false, provenance = { to = ["operator"] }, min_justification = 3 }
constraints = { max_rows = 5, allowed_fields = ["id"], scope = { tenant = "t" }, arguments = { allowed_keys = ["to"], pinned = { n = 1.5 }, prefix = { to = "a" } } }
`
	const yaml = `# the same
---
default: ask
rules:
  - name: one
    action: allow
    reason: because
    match:
      safety_class: [READ]
      scope: {region: "eu-*"}
      arguments:
        to: ["a@b", 5, true]
        deep.path: '*'
      taint: false
      provenance:
        to:
          - operator
      min_justification: 3
    constraints: {max_rows: 5, allowed_fields: [id], scope: {tenant: t}, arguments: {allowed_keys: [to], pinned: {n: 1.5}, prefix: {to: a}}}
`
	const inJSON = "{\n\t\"default\": \"ask\",\n\t\"rules\": [{\"name\": \"one\", \"action\": \"allow\", \"reason\": \"because\", \"match\": {\"safety_class\": [\"READ\"]," +
		"\"scope\": {\"region\": \"eu-*\"}, \"arguments\": {\"to\": [\"a@b\", 5, true], \"deep.path\": \"*\"}, \"taint\": false, \"provenance\": {\"to\": [\"operator\"]}, \"min_justification\": 3}," +
		"\"constraints\": {\"max_rows\": 5, \"allowed_fields\": [\"id\"], \"scope\": {\"tenant\": \"t\"}, \"arguments\": {\"allowed_keys\": [\"to\"], \"pinned\": {\"n\": 1.5}, \"prefix\": {\"to\": \"a\"}}}}]\n}\n"
	hit := policy.Request{
		Principal:  nacre.Principal{Scope: map[string]string{"region": "eu-west"}, Justification: "abc"},
		Capability: nacre.Capability{ID: "a.b", Safety: nacre.Read},
		Arguments:  []byte(`{"to":["a@b",5.0],"deep":{"path":null}}`),
		Origins:    []nacre.Origin{{Argument: "to.0", Provenance: nacre.SeenOperator}},
	}
	versions := map[string]bool{}
	for name, text := range map[string]string{"p.toml": toml, "p.yaml": yaml, "p.json": inJSON} {
		p, err := policy.Parse(name, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		versions[p.Version()] = true
		have := p.Decide(hit)
		if have.Verdict != nacre.Allow || have.Message != "because" || !strings.HasSuffix(have.Rule, `rule "one"`) {
			t.Errorf("%s: have %+v", name, have)
		}
		sameConstraints(t, have.Constraints, nacre.Constraints{
			MaxRows: new(5), AllowedFields: []string{"id"}, Scope: map[string]string{"tenant": "t"},
			Arguments: nacre.ArgumentLimits{AllowedKeys: []string{"to"}, Pinned: map[string]json.RawMessage{"n": json.RawMessage("1.5")}, Prefix: map[string]string{"to": "a"}},
		})
		miss := hit
		miss.Tainted = true
		if have := p.Decide(miss); have.Verdict != nacre.Ask || have.Code != nacre.ReasonDefaultAsk {
			t.Errorf("%s: tainted: have %+v", name, have)
		}
	}
	if len(versions) != 3 {
		t.Errorf("%d versions of 3 files", len(versions))
	}
}

func TestYAMLThatMeansSomethingElseIsRefused(t *testing.T) {
	rule := "rules:\n- action: allow\n  match: "
	tests := map[string]struct{ text, want string }{
		"an unknown key":            {rule + "{role: [admin]}", `p.yaml:3: unknown key "role"; did you mean "roles"?`},
		"an unknown key in a block": {"rules:\n- action: allow\n  match:\n    taint: true\n    rols: [a]", `p.yaml:5: unknown key "rols"; did you mean "roles"?`},
		"a key of the file":         {"defalt: deny", `p.yaml:1: unknown key "defalt"; did you mean "default"?`},
		"an anchor":                 {"default: &a deny", `p.yaml:1: anchors and aliases are not taken`},
		"an alias":                  {rule + "{scope: {env: *}}", `p.yaml:3: anchors and aliases are not taken`},
		"a merged key":              {"rules:\n- <<: {action: allow}\n  match: {}", `p.yaml:2: merged keys`},
		"a bomb": {
			"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]", `p.yaml:1: anchors and aliases`,
		},
		"a tag":              {"default: !!str deny", `p.yaml:1: tags`},
		"a binary":           {"default: !!binary ZGVueQ==", `p.yaml:1: tags`},
		"a second document":  {"default: deny\n---\ndefault: allow", `a second document`},
		"a second, ended":    {"default: deny\n...\ndefault: allow", `p.yaml:`},
		"a key twice":        {"default: deny\ndefault: allow", `p.yaml:2:`},
		"a key twice, apart": {rule + "{roles: [a], taint: true, roles: [b]}", `p.yaml:3:`},
		"a bool as a key":    {"true: deny", `p.yaml:1: the key true is not a word`},
		"a complex key":      {"? [a]\n: deny", `p.yaml:1: a key is a plain word`},
		"no for deny":        {"default: no", `p.yaml:1: default "no": use allow, ask or deny`},
		"nothing":            {"default:", `p.yaml:1: default "nothing": use allow, ask or deny`},
		"a list":             {"- a", `p.yaml:1: a policy is a mapping`},
		"a word":             {"deny", `p.yaml:1: a policy is a mapping`},
		"rules in a table":   {"rules: {}", `p.yaml:1: rules: write a list of rules`},
		"a rule as a word":   {"rules:\n- x", `p.yaml:2: rule 0 is x`},
		"an octal":           {rule + "{min_justification: 0o17}", `p.yaml:3: min_justification: use a number`},
		"an old octal":       {rule + "{min_justification: 017}", `p.yaml:3: min_justification: use a number`},
		"a null argument":    {rule + "{arguments: {to: }}", `p.yaml:3: argument to: use a string`},
		"infinity":           {rule + "{arguments: {to: .inf}}", `p.yaml:3: argument to: use a string`},
		"deep flow":          {"default: " + strings.Repeat("[", 100_000), `p.yaml:1: nested more than 16 deep`},
		"deep lists":         {strings.Repeat("- ", 60_000) + "x", `p.yaml:1: nested more than 16 deep`},
		"too large":          {strings.Repeat("#\n", 200<<10), `the limit for YAML is 262144`},
		"tabs":               {"rules:\n\t- action: allow", `p.yaml:`},
		"a directive":        {"%YAML 1.2\n---\ndefault: deny", `p.yaml:1: tags and directives`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Parse("p.yaml", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("have %v\nwant %s", err, test.want)
			}
		})
	}
	for name, text := range map[string]string{"empty": "", "a comment": "# x\n", "a document that is empty": "---\n"} {
		if p, err := policy.Parse("p.yaml", []byte(text)); err != nil || p.Decide(policy.Request{}).Verdict != nacre.Deny {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSONThatMeansSomethingElseIsRefused(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a key twice":    {"{\"default\": \"deny\",\n\"default\": \"allow\"}", `p.json:2: the key "default" is there twice`},
		"more":           {"{}\n{}", `p.json:2: there is more`},
		"an unknown key": {"{\n\n\"rule\": []}", `p.json:3: unknown key "rule"; did you mean "rules"?`},
		"half":           {"{\"rules\": [", `p.json:1: this is not JSON`},
		"deep":           {strings.Repeat("[", 100_000), `p.json:1: nested more than 16 deep`},
		"nothing":        {"", `p.json:1: this is not JSON`},
	}
	for name, test := range tests {
		if _, err := policy.Parse("p.json", []byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: have %v\nwant %s", name, err, test.want)
		}
	}
}

// Linear work on hostile TOML: the reader behind it is never given what it would walk in squares.
func TestTOMLThatNestsIsRefusedBeforeItIsRead(t *testing.T) {
	tests := map[string]string{
		"brackets":     "x = " + strings.Repeat("[", 500_000),
		"tables":       "x = " + strings.Repeat("{a=", 300_000),
		"dotted keys":  strings.Repeat("a.", 400_000) + "a = 1",
		"headers":      "[" + strings.Repeat("a.", 400_000) + "a]",
		"quoted parts": strings.Repeat(`"a".`, 200_000) + "a = 1",
	}
	for name, text := range tests {
		if _, err := policy.Parse("p.toml", []byte(text)); err == nil || !strings.Contains(err.Error(), "p.toml:1: nested more than 16 deep") {
			t.Errorf("%s: have %.200v", name, err)
		}
	}
	for _, fine := range []string{
		"# [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[ ...................\ndefault = \"deny\"",
		"[[rules]]\naction = \"deny\"\nreason = \"....................... [[[[[[[[[[[[[[[[[[[[[ \\\" {{{{{{{{{{{{{{{{{{{{{{\"\nmatch = {}",
		"[[rules]]\naction = \"deny\"\nreason = '''\n....................... [[[[[[[[[[[[[[[[[[[[[[[[[ '\n'''\nmatch = {}",
	} {
		if _, err := policy.Parse("p.toml", []byte(fine)); err != nil {
			t.Errorf("%v in %s", err, fine)
		}
	}
}

// K-05: the mark that some editors begin a file with belongs to no key.
func TestAByteOrderMarkIsNoKey(t *testing.T) {
	for name, text := range map[string]string{
		"p.toml": "default = \"ask\"\n", "p.yaml": "default: ask\n", "p.json": `{"default":"ask"}`,
	} {
		if p, err := policy.Parse(name, []byte("\ufeff"+text)); err != nil || p.Default() != nacre.Ask {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Patterns and their edges.
func TestPatternsOfValues(t *testing.T) {
	tests := []struct {
		pattern, value string
		allow, deny    bool
	}{
		{"src/**", "src/a", true, true},
		{"src/**", "src", true, true},
		{"src/**", "src/a/b/c", true, true},
		{"src/**", "xsrc/a", false, false},
		{"src/*", "src/a/b", false, false},
		{"src/*", "src/a", true, true},
		{"src/**/x", "src/x", true, true},
		{"src/**/x", "src/a/b/x", true, true},
		{"src/**/x/**/y", "src/x/a/x/b/y", true, true},
		{"**", "anything/at all", true, true},
		{"*", "", true, true},
		{"*.py", "a/b.py", true, true},
		{"*@example.com", "x/y@example.com", true, true},
		{"*@example.com", "x@example.com.evil", false, false},
		{"https://api.example.com/**", "https://api.example.com/v1/x", true, true},
		{"https://api.example.com/v1/**", "https://api.example.com/v1/../admin", false, true},
		{"https://api.example.com/**", "https://api.example.com@evil.test/x", false, false},
		{"https://evil.test/**", "HTTPS://EVIL.test/x", false, true},
		{"*urgent*", "urgent/../x", false, true},
		{"a\\*b", "a*b", true, true},
		{"a\\*b", "axb", false, false},
		{"eu", "EU", false, false},
		{"a*b*c", "a-b-c", true, true},
		{"a*b*c", "ac", false, false},
		// K-05: a host ends at ?, # and at what looks like them.
		{"https://*.good.test/*", "https://a.good.test/x", true, true},
		{"https://*.good.test/*", "https://evil.test#.good.test/x", false, true},
		{"https://*.good.test/*", "https://evil.test?.good.test/x", false, true},
		{"https://*.good.test/*", "https://evil.test%23.good.test/x", false, true},
		{"https://*.good.test/*", "https://evil.test＃.good.test/x", false, true},
		{"https://*.good.test/*", "https://evil.test／.good.test/x", false, true},
		// Nobody hides a host that is denied behind what changes nothing.
		{"https://evil.test/**", "https://evil.test?x", true, true},
		{"https://evil.test/**", "https://evil.test:443/x", false, true},
		{"https://evil.test/**", "https://evil.test./x", false, true},
		{"https://evil.test/**", "https://a:b@evil.test/x", false, true},
		{"https://evil.test/**", " https:evil.test/x", false, true},
		{"https://evil.test/**", "https:///ev\til.test/x", false, true},
		{"https://evil.test/**", "https://ｅvil。test/x", false, true},
		// Nor a path.
		{"/srv/**", "/srv/%252e%252e/etc", false, true},
		{"/srv/**", "/srv/．．／etc", false, true},
		{"/srv/**", "/srv/..;x/etc", false, true},
		{"/srv/**", "/srv/.. /etc", false, true},
		{"/srv/**", "/srv/%c0%ae%c0%ae/etc", false, true},
		{"/srv/**", "/srv/%" + strings.Repeat("25", 20) + "2e", false, true},
		{"/srv/**", "/srv/50%25 of ä", true, true},
		{"/etc/**", "/%65tc/passwd", false, true},
		{"/etc/**", "file:///etc/passwd", false, true},
		// An address is one, and all of several are held against the pattern.
		{"*@example.com", "a@example.com, b@example.com", true, true},
		{"*@example.com", "x@evil.test,b@example.com", false, true},
		{"*@example.com", "x@evil.test\nBcc: b@example.com", false, true},
		{"*@example.com", "<x@evil.test> b@example.com", false, true},
		{"*@example.com", "x@evil.test%2cb@example.com", false, true},
		{"*@example.com", "x@evil.test@example.com", false, true},
		{"*@evil.test", "X <x@evil.test>", false, true},
		{"*@evil.test", "x@Evil.TEST", false, true},
		{"*@evil.test", "x@evil.test.", false, true},
		{"*@evil.test", "x@evil.test, b@example.com", false, true},
		{"x@evil.test", "X@EVIL.test", false, true},
		{"*@*", "a@b.test, c@d.test", true, true},
		{"git@*", "git@host.test:a", true, true},
	}
	for _, test := range tests {
		for action, want := range map[string]bool{"allow": test.allow, "deny": test.deny} {
			p := parse(t, "default = \"ask\"\n[[rules]]\naction = \""+action+"\"\nmatch.scope.v = '"+test.pattern+"'")
			have := p.Decide(policy.Request{Principal: nacre.Principal{Scope: map[string]string{"v": test.value}}}).Verdict != nacre.Ask
			if have != want {
				t.Errorf("%s %q matches %q: have %v, want %v", action, test.pattern, test.value, have, want)
			}
		}
	}
	for _, bad := range []string{"a?b", "[ab]", "{a,b}", "a**b/c", "src/***", `a\b`, `a\`} {
		_, err := policy.Parse("p.toml", []byte("[[rules]]\naction = \"deny\"\nmatch.scope.v = '"+bad+"'"))
		if err == nil || !strings.HasPrefix(err.Error(), "p.toml:3: scope v: ") {
			t.Errorf("%q: have %v", bad, err)
		}
	}
}

// K-05: what hides a value in a list or an object hides it from an allow, not from a deny. A
// missing argument matches nothing.
func TestArgumentsOfEveryShape(t *testing.T) {
	tests := map[string]struct {
		arguments   string
		allow, deny bool
	}{
		"a text":                    {`{"to":"a@evil.test"}`, true, true},
		"another":                   {`{"to":"a@good.test"}`, false, false},
		"a list of them":            {`{"to":["a@evil.test","b@evil.test"]}`, true, true},
		"a list with one":           {`{"to":["a@good.test","b@evil.test"]}`, false, true},
		"a list in a list":          {`{"to":[["b@evil.test"],["x"]]}`, false, true},
		"an object":                 {`{"to":{"address":"b@evil.test"}}`, false, true},
		"an empty list":             {`{"to":[]}`, false, false},
		"nothing":                   {`{"to":null}`, false, false},
		"no such argument":          {`{"cc":"a@evil.test"}`, false, false},
		"no arguments":              {``, false, false},
		"arguments that are broken": {`{"to":`, false, true},
		"the argument twice":        {`{"to":"a@good.test","to":"a@evil.test"}`, false, true},
		"in escapes":                {`{"\u0074o":"a@evil\u002etest"}`, true, true},
		"a longer name":             {`{"too":"a@evil.test"}`, false, false},
		"too many elements":         {`{"to":[` + strings.Repeat(`"a@evil.test",`, 2000) + `"a@good.test"]}`, false, true},
		"too deep":                  {`{"to":` + strings.Repeat("[", 50) + `"a@good.test"` + strings.Repeat("]", 50) + `}`, false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for action, want := range map[string]bool{"allow": test.allow, "deny": test.deny} {
				p := parse(t, "default = \"ask\"\n[[rules]]\naction = \""+action+"\"\nmatch.arguments.to = [\"*@evil.test\", 7]")
				have := p.Decide(policy.Request{Arguments: json.RawMessage(test.arguments)}).Verdict != nacre.Ask
				if have != want {
					t.Errorf("%s: have %v, want %v", action, have, want)
				}
			}
		})
	}
}
