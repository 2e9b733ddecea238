package policy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// vector is a case of testdata: a request, and what is to become of it.
type vector struct {
	Name          string
	Policy        string
	Safety        nacre.SafetyClass
	Sensitivity   nacre.Sensitivity
	Fields        []string
	Roles         []string
	Attributes    map[string]string
	Justification string
	Intent        string
	Scope         map[string]string
	Constraints   json.RawMessage
	Want          nacre.Verdict
	Rule          string
	Code          nacre.ReasonCode
	Granted       nacre.Constraints
}

func (v vector) request() policy.Request {
	return policy.Request{
		Principal: nacre.Principal{
			ID: "p1", Roles: v.Roles, Attributes: v.Attributes, Justification: v.Justification, Intent: v.Intent, Scope: v.Scope,
		},
		Capability: nacre.Capability{ID: "t.cap", Tool: "cap", Safety: v.Safety, Sensitivity: v.Sensitivity, AllowedFields: v.Fields},
	}
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// askedFor reads constraints as part of a request.
func askedFor(constraints string) (nacre.Constraints, error) {
	text := `{"capability":"t.cap","safety_class":"READ"`
	if constraints != "" {
		text += `,"constraints":` + constraints
	}
	r, err := policy.ParseRequest("r.json", []byte(text+"}"))
	return r.Constraints, err
}

func decide(e policy.Engine, v vector) nacre.Decision {
	r := v.request()
	asked, err := askedFor(string(v.Constraints))
	if err != nil {
		return nacre.Decision{Code: nacre.ReasonInvalidConstraint}
	}
	r.Constraints = asked
	return e.Decide(r)
}

// K-04
func TestTheDefaultEngineHoldsTheEightRules(t *testing.T) {
	var cases []vector
	readJSON(t, "testdata/default.json", &cases)
	if len(cases) < 40 {
		t.Fatal(len(cases))
	}
	for _, v := range cases {
		t.Run(v.Name, func(t *testing.T) {
			have := decide(policy.Default(), v)
			if have.Verdict != v.Want || have.Code != v.Code {
				t.Errorf("have %v %s, want %v %s", have.Verdict, have.Code, v.Want, v.Code)
			}
			if v.Want == nacre.Allow {
				sameConstraints(t, have.Constraints, v.Granted)
			}
			denial := policy.Default().Explain(v.request())
			if have.Code != nacre.ReasonInvalidConstraint && (denial.Denied != (v.Want == nacre.Deny) || denial.Code != v.Code) {
				t.Errorf("explained as %+v", denial)
			}
		})
	}
}

func sameConstraints(t *testing.T, have, want nacre.Constraints) {
	t.Helper()
	h, _ := json.Marshal(have)
	w, _ := json.Marshal(want)
	if string(h) != string(w) {
		t.Errorf("constraints: have %s, want %s", h, w)
	}
}

// K-05, in YAML: the peer's policies, read more strictly where it is loose.
func TestADeclaredPolicyDecidesAsItsRulesSay(t *testing.T) {
	var file struct {
		Policies map[string]string
		Cases    []vector
		Refused  []struct{ Name, Policy string }
	}
	readJSON(t, "testdata/dsl.json", &file)
	if len(file.Cases) < 15 || len(file.Refused) < 15 {
		t.Fatal(len(file.Cases), len(file.Refused))
	}
	for _, v := range file.Cases {
		t.Run(v.Name, func(t *testing.T) {
			p, err := policy.Parse("p.yaml", []byte(file.Policies[v.Policy]))
			if err != nil {
				t.Fatal(err)
			}
			have := decide(p, v)
			if have.Verdict != v.Want || have.Code != v.Code || !strings.Contains(have.Rule, v.Rule) {
				t.Errorf("have %v %s at %s, want %v %s at %s", have.Verdict, have.Code, have.Rule, v.Want, v.Code, v.Rule)
			}
			if v.Want == nacre.Allow {
				sameConstraints(t, have.Constraints, v.Granted)
			}
		})
	}
	for _, bad := range file.Refused {
		t.Run(bad.Name, func(t *testing.T) {
			if _, err := policy.Parse("p.yaml", []byte(bad.Policy)); err == nil || !strings.HasPrefix(err.Error(), "p.yaml:1: ") {
				t.Errorf("have %v", err)
			}
		})
	}
}

// The policy of a coding agent: paths are what they mean, not how they are written.
const codingAgent = `
rules:
  - name: secrets stay closed
    action: deny
    match: {capability: ["repo.*"], scope: {path: [".env*", "**/.env*", "**/secrets/**"]}}
  - name: reading the repository
    action: allow
    match: {capability: [repo.read.files], scope: {path: "*"}}
  - name: writing where code is
    action: allow
    match: {capability: [repo.write.files], scope: {path: ["src/**", "tests/**", "docs/**"]}}
  - name: running tests
    action: allow
    match: {capability: [shell.run.tests], scope: {command_class: test}}
  - name: the network
    action: allow
    match: {capability: [shell.run.networked_command], roles: [network_runner]}
  - name: secrets for readers
    action: allow
    match: {capability: [secrets.read], roles: [secrets_reader]}
  - name: a pull request of the approved task
    action: allow
    match: {capability: [github.create_pr], attributes: {approved_task_id: "${scope.task_id}"}}
  - name: merging
    action: allow
    match: {capability: [github.merge_pr], roles: [merger]}
`

func TestACodingAgentIsHeldToItsFolders(t *testing.T) {
	p, err := policy.Parse("p.yaml", []byte(codingAgent))
	if err != nil {
		t.Fatal(err)
	}
	path := func(s string) map[string]string { return map[string]string{"path": s} }
	tests := []struct {
		capability string
		scope      map[string]string
		roles      []string
		attributes map[string]string
		want       nacre.Verdict
		code       nacre.ReasonCode
	}{
		{"repo.read.files", path("src/a.py"), nil, nil, nacre.Allow, ""},
		{"repo.read.files", path(".env"), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.read.files", path("a/.env"), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.read.files", path("src/../.env"), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.read.files", path(`src\..\.env`), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.read.files", path("a/%2eenv"), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.read.files", path("secrets/db.key"), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.read.files", path("a/secrets/b/db.key"), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.read.files", path(".env.production"), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.write.files", path("src/a.py"), nil, nil, nacre.Allow, ""},
		{"repo.write.files", path("./src//b/a.py"), nil, nil, nacre.Allow, ""},
		{"repo.write.files", path(".github/workflows/x.yml"), nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"repo.write.files", path("src/../.github/workflows/x.yml"), nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"repo.write.files", path("src/%2e%2e/.github/x.yml"), nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"repo.write.files", path("src/a\x00/../../.github/x"), nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"repo.write.files", path("/src/a.py"), nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"repo.write.files", path("../src/a.py"), nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"repo.write.files", path("srcs/a.py"), nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"repo.write.files", path("src/" + strings.Repeat("a", 5000)), nil, nil, nacre.Deny, nacre.ReasonExplicitDeny},
		{"repo.write.files", nil, nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"shell.run.tests", map[string]string{"command_class": "test"}, nil, nil, nacre.Allow, ""},
		{"shell.run.tests", map[string]string{"command_class": "network"}, nil, nil, nacre.Deny, nacre.ReasonScopeNotAllowed},
		{"shell.run.networked_command", nil, nil, nil, nacre.Deny, nacre.ReasonMissingRole},
		{"shell.run.networked_command", nil, []string{"network_runner"}, nil, nacre.Allow, ""},
		{"secrets.read", path("x"), nil, nil, nacre.Deny, nacre.ReasonMissingRole},
		{"github.create_pr", map[string]string{"task_id": "T1"}, nil, map[string]string{"approved_task_id": "T1"}, nacre.Allow, ""},
		{"github.create_pr", map[string]string{"task_id": "T1"}, nil, map[string]string{"approved_task_id": "T2"}, nacre.Deny, nacre.ReasonMissingAttribute},
		{"github.create_pr", nil, nil, map[string]string{"approved_task_id": ""}, nacre.Deny, nacre.ReasonMissingAttribute},
		{"github.merge_pr", nil, nil, nil, nacre.Deny, nacre.ReasonMissingRole},
		{"unknown.cap", nil, nil, nil, nacre.Deny, nacre.ReasonNoMatchingRule},
	}
	for _, test := range tests {
		name, _, _ := strings.Cut(test.capability+" "+test.scope["path"], "aaa")
		t.Run(name, func(t *testing.T) {
			r := policy.Request{
				Principal:  nacre.Principal{Scope: test.scope, Roles: test.roles, Attributes: test.attributes},
				Capability: nacre.Capability{ID: nacre.CapabilityID(test.capability), Safety: nacre.Write, Sensitivity: nacre.SensitiveNone},
			}
			if have := p.Decide(r); have.Verdict != test.want {
				t.Errorf("have %v at %s, want %v", have.Verdict, have.Rule, test.want)
			}
			if have := p.Explain(r); test.want == nacre.Deny && have.Code != test.code {
				t.Errorf("have code %s, want %s: %+v", have.Code, test.code, have)
			}
		})
	}
}

// K-04: the rates of the seed, for a principal and a capability.
func TestServicesHaveTenTimesTheRate(t *testing.T) {
	for class, want := range map[nacre.SafetyClass]int{nacre.Read: 60, nacre.Write: 10, nacre.Destructive: 2} {
		c := nacre.Capability{Safety: class}
		if have := policy.RateOf(c, nacre.Principal{}).Calls; have != want {
			t.Errorf("%v: have %d, want %d", class, have, want)
		}
		if have := policy.RateOf(c, nacre.Principal{Roles: []string{"service"}}).Calls; have != 10*want {
			t.Errorf("%v of a service: have %d, want %d", class, have, 10*want)
		}
	}
}

// K-04: what a request asks for narrows, whatever it is written as.
func TestConstraintsThatARequestAsksFor(t *testing.T) {
	tests := map[string]struct{ given, want string }{
		"nothing":              {``, `{}`},
		"a number":             {`{"max_rows":10}`, `{"max_rows":10}`},
		"a text":               {`{"max_rows":"7"}`, `{"max_rows":7}`},
		"a fraction":           {`{"max_rows":3.9}`, `{"max_rows":3}`},
		"fewer than none":      {`{"max_rows":-5}`, `{"max_rows":0}`},
		"words":                {`{"max_rows":"abc"}`, ``},
		"null":                 {`{"max_rows":null}`, ``},
		"a fraction as a text": {`{"max_rows":"7.5"}`, ``},
		"an exponent":          {`{"max_rows":1e9}`, ``},
		"too many":             {`{"max_rows":99999999999}`, ``},
		"a bool":               {`{"max_rows":true}`, ``},
		"twice":                {`{"max_rows":1,"max_rows":500}`, ``},
		"something unknown":    {`{"rows":1}`, ``},
		"no fields":            {`{"allowed_fields":[]}`, `{"allowed_fields":[]}`},
		"fields in a string":   {`{"allowed_fields":"id"}`, ``},
		"a climbing prefix":    {`{"arguments":{"prefix":{"path":"/safe/../"}}}`, ``},
		"a list":               {`[]`, ``},
		"two values":           {`{} {}`, ``},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := askedFor(test.given)
			have, _ := json.Marshal(c)
			if (err == nil) != (test.want != "") || err == nil && string(have) != test.want {
				t.Errorf("have %s %v, want %s", have, err, test.want)
			}
		})
	}
}
