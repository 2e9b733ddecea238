package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/policy"
)

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func capability(safety nacre.SafetyClass, sensitivity nacre.Sensitivity) nacre.Capability {
	return nacre.Capability{ID: "notes.note_add", Tool: "note_add", Safety: safety, Sensitivity: sensitivity}
}

// K-05, D-13: the shipped policy, class by class.
func TestTheShippedPolicyReadsAsItSays(t *testing.T) {
	tests := map[string]struct {
		safety      nacre.SafetyClass
		sensitivity nacre.Sensitivity
		roles       []string
		verdict     nacre.Verdict
		code        nacre.ReasonCode
	}{
		"reading is allowed":                     {nacre.Read, nacre.SensitiveNone, nil, nacre.Allow, nacre.ReasonRuleAllow},
		"reading memory is allowed":              {nacre.Read, nacre.SensitiveMemory, nil, nacre.Allow, nacre.ReasonRuleAllow},
		"reading secrets is asked":               {nacre.Read, nacre.SensitiveSecrets, nil, nacre.Ask, nacre.ReasonRuleAsk},
		"reading personal data is asked":         {nacre.Read, nacre.SensitivePII, []string{"writer"}, nacre.Ask, nacre.ReasonRuleAsk},
		"writing without the role is denied":     {nacre.Write, nacre.SensitiveNone, []string{"reader"}, nacre.Deny, nacre.ReasonNoMatchingRule},
		"writing memory without it is denied":    {nacre.Write, nacre.SensitiveMemory, nil, nacre.Deny, nacre.ReasonNoMatchingRule},
		"writers may write":                      {nacre.Write, nacre.SensitiveNone, []string{"writer"}, nacre.Allow, nacre.ReasonRuleAllow},
		"writers may write memory":               {nacre.Write, nacre.SensitiveMemory, []string{"writer"}, nacre.Allow, nacre.ReasonRuleAllow},
		"destroying is asked":                    {nacre.Destructive, nacre.SensitiveNone, []string{"writer"}, nacre.Ask, nacre.ReasonRuleAsk},
		"a class nobody knows is denied":         {nacre.SafetyClass(9), nacre.SensitiveNone, []string{"writer"}, nacre.Deny, nacre.ReasonNoMatchingRule},
		"a capability that forgot all is asked":  {0, 0, nil, nacre.Ask, nacre.ReasonRuleAsk},
		"a role that only looks alike is denied": {nacre.Write, nacre.SensitiveNone, []string{"Writer", "writer "}, nacre.Deny, nacre.ReasonNoMatchingRule},
	}
	shipped := policy.Shipped()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			have := shipped.Decide(policy.Request{
				Principal:  nacre.Principal{Roles: test.roles},
				Capability: capability(test.safety, test.sensitivity),
			})
			if have.Verdict != test.verdict || have.Code != test.code {
				t.Errorf("have %v %s, want %v %s", have.Verdict, have.Code, test.verdict, test.code)
			}
		})
	}
}

const rules = `
default = "deny"

[[rules]]
name = "deny prod wipe"
action = "deny"
reason = "no prod wipes"
[rules.match]
safety_class = ["DESTRUCTIVE"]
attributes = { env = "prod" }

[[rules]]
action = "allow"
[rules.match]
safety_class = ["READ"]
sensitivity = ["NONE"]

[[rules]]
name = "pii for tenants"
action = "allow"
match.sensitivity = ["PII"]
match.attributes = { tenant = "*" }

[[rules]]
name = "support"
action = "allow"
match = { safety_class = ["WRITE"], roles = ["agent", "lead"], min_justification = 10 }

[[rules]]
name = "mail is asked"
action = "ask"
match = { capability = ["mail.*"], high_risk = false }

[[rules]]
name = "tools of one group"
action = "allow"
match = { tool = ["note_*", "todo"], group = ["family*"] }
`

// K-05, K-07
func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	p := parse(t, rules)
	destroy := capability(nacre.Destructive, nacre.SensitiveNone)
	write := capability(nacre.Write, nacre.SensitiveNone)
	mail := nacre.Capability{ID: "mail.send", Tool: "mail_send", Safety: nacre.Write, Sensitivity: nacre.SensitiveNone}
	risky := mail
	risky.HighRisk = true
	tests := map[string]struct {
		principal  nacre.Principal
		capability nacre.Capability
		code       nacre.ReasonCode
		rule       string
	}{
		"a deny before an allow":             {nacre.Principal{Attributes: map[string]string{"env": "prod"}, Group: "family"}, destroy, nacre.ReasonExplicitDeny, `policy.toml:4, rule "deny prod wipe"`},
		"the same elsewhere":                 {nacre.Principal{Attributes: map[string]string{"env": "dev"}, Group: "family"}, destroy, nacre.ReasonRuleAllow, `policy.toml:34, rule "tools of one group"`},
		"a rule without a name":              {nacre.Principal{}, capability(nacre.Read, nacre.SensitiveNone), nacre.ReasonRuleAllow, `policy.toml:12, rule "rule-1"`},
		"an attribute that is there":         {nacre.Principal{Attributes: map[string]string{"tenant": ""}}, capability(nacre.Read, nacre.SensitivePII), nacre.ReasonRuleAllow, `policy.toml:18, rule "pii for tenants"`},
		"an attribute that is not":           {nacre.Principal{}, capability(nacre.Read, nacre.SensitivePII), nacre.ReasonNoMatchingRule, "policy.toml, default"},
		"one of two roles and ten letters":   {nacre.Principal{Roles: []string{"lead"}, Justification: " ten chars! "}, write, nacre.ReasonRuleAllow, `policy.toml:24, rule "support"`},
		"ten code points of more bytes":      {nacre.Principal{Roles: []string{"lead"}, Justification: "zehnäöüßéê"}, write, nacre.ReasonRuleAllow, `policy.toml:24, rule "support"`},
		"nine letters in white space":        {nacre.Principal{Roles: []string{"lead"}, Justification: " nine chr  "}, write, nacre.ReasonNoMatchingRule, "policy.toml, default"},
		"ten letters without the role":       {nacre.Principal{Justification: "ten chars!"}, write, nacre.ReasonNoMatchingRule, "policy.toml, default"},
		"an ask":                             {nacre.Principal{}, mail, nacre.ReasonRuleAsk, `policy.toml:29, rule "mail is asked"`},
		"high risk is not what it asked for": {nacre.Principal{}, risky, nacre.ReasonNoMatchingRule, "policy.toml, default"},
		"another group":                      {nacre.Principal{Group: "work"}, write, nacre.ReasonNoMatchingRule, "policy.toml, default"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			have := p.Decide(policy.Request{Principal: test.principal, Capability: test.capability})
			if have.Code != test.code || have.Rule != test.rule {
				t.Errorf("have %s at %s, want %s at %s", have.Code, have.Rule, test.code, test.rule)
			}
		})
	}
}

// K-08 in small: a denial says what would have changed it.
func TestADenialNamesTheOneConditionThatIsMissing(t *testing.T) {
	have := policy.Shipped().Decide(policy.Request{Capability: capability(nacre.Write, nacre.SensitiveNone)})
	want := `no rule allows notes.note_add (WRITE); shipped policy:73, rule "writers may write" would, with role writer`
	if have.Message != want {
		t.Errorf("have %q\nwant %q", have.Message, want)
	}
}

// K-24, K-05
func TestWhatIsEmptyDenies(t *testing.T) {
	read := policy.Request{Capability: capability(nacre.Read, nacre.SensitiveNone)}
	tests := map[string]struct {
		policy  *policy.Policy
		verdict nacre.Verdict
		code    nacre.ReasonCode
	}{
		"the zero policy":          {&policy.Policy{}, nacre.Deny, nacre.ReasonNoMatchingRule},
		"an empty file":            {parse(t, ""), nacre.Deny, nacre.ReasonNoMatchingRule},
		"a default that asks":      {parse(t, `default = "ask"`), nacre.Ask, nacre.ReasonDefaultAsk},
		"a default that says so":   {parse(t, `default = "allow"`), nacre.Allow, nacre.ReasonDefaultFallthrough},
		"a rule that matches all":  {parse(t, "[[rules]]\naction = \"allow\"\nmatch = {}"), nacre.Allow, nacre.ReasonRuleAllow},
		"a deny before everything": {parse(t, "default = \"allow\"\n[[rules]]\naction = \"deny\"\nmatch = {}"), nacre.Deny, nacre.ReasonExplicitDeny},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			have := test.policy.Decide(read)
			if have.Verdict != test.verdict || have.Code != test.code {
				t.Errorf("have %v %s, want %v %s", have.Verdict, have.Code, test.verdict, test.code)
			}
		})
	}
}

// K-05: a peer's `role:` typo became allow-all.
func TestATypoIsRefusedWithItsLine(t *testing.T) {
	rule := "[[rules]]\nname = \"r\"\naction = \"allow\"\n"
	tests := map[string]struct{ text, want string }{
		"role for roles":                  {rule + "[rules.match]\nrole = [\"admin\"]", `policy.toml:5: unknown key "role"; did you mean "roles"?`},
		"the second rule's typo":          {rule + "match = {}\n" + rule + "[rules.match]\nrole = [\"admin\"]", `policy.toml:9: unknown key "role"; did you mean "roles"?`},
		"a typo in an inline table":       {rule + `match = { roles = ["a"], safety = ["READ"] }`, `policy.toml:4: unknown key "safety"`},
		"a typo in a dotted key":          {rule + `match.sensitvity = ["PII"]`, `policy.toml:4: unknown key "sensitvity"; did you mean "sensitivity"?`},
		"another case":                    {"Default = \"allow\"", `policy.toml:1: unknown key "Default"; did you mean "default"?`},
		"a rule's key in another case":    {rule + "match = {}\nAction = \"deny\"", `policy.toml:5: unknown key "Action"; did you mean "action"?`},
		"rule for rules":                  {"\n[[rule]]\naction = \"deny\"", `policy.toml:2: unknown key "rule"; did you mean "rules"? The keys here are default, rules`},
		"groups are not kept here":        {"default = \"deny\"\n[groups.main]\ntools = [\"*\"]", `policy.toml:2: unknown key "groups"; the keys here are default, rules`},
		"a typo in a constraint":          {rule + "match = {}\nconstraints = { max_row = 5 }", `policy.toml:5: unknown key "max_row"; did you mean "max_rows"?`},
		"rules in one line":               {`rules = [{ action = "allow", match = {} }]`, `policy.toml:1: rules: write each rule as a [[rules]] table`},
		"no action":                       {"[[rules]]\nmatch = {}", `policy.toml:1: rule "rule-0" has no action: allow, ask or deny`},
		"an unknown action":               {"[[rules]]\naction = \"permit\"\nmatch = {}", `policy.toml:2: action "permit": use allow, ask or deny`},
		"an action in another case":       {"[[rules]]\naction = \"Allow\"\nmatch = {}", `policy.toml:2: action "Allow"`},
		"an action that is a list":        {"[[rules]]\naction = [\"allow\"]\nmatch = {}", `policy.toml:2: action "[allow]"`},
		"no match":                        {rule, `policy.toml:1: rule "r" has no match table`},
		"a match that is a list":          {rule + "match = []", `policy.toml:4: rule "r" has no match table`},
		"an unknown class":                {rule + `match = { safety_class = ["READS"] }`, `policy.toml:4: safety_class: unknown safety class "READS"`},
		"a class that is no list":         {rule + `match = { safety_class = "READ" }`, `policy.toml:4: safety_class: use a list of strings`},
		"an empty list":                   {rule + `match = { roles = [] }`, `policy.toml:4: roles: use a list of strings`},
		"an empty role":                   {rule + `match = { roles = [""] }`, `policy.toml:4: roles:  is not a string that names something`},
		"a number for a role":             {rule + `match = { roles = [1] }`, `policy.toml:4: roles: 1 is not a string`},
		"a pattern of another language":   {rule + `match = { tool = ["note_?"] }`, `policy.toml:4: tool: pattern "note_?": '?' is not part of any name`},
		"a number for an attribute":       {rule + `match = { attributes = { tenant = 1 } }`, `policy.toml:4: attribute tenant: use a string`},
		"no attributes":                   {rule + `match = { attributes = {} }`, `policy.toml:4: attributes: use a table`},
		"a justification in words":        {rule + `match = { min_justification = "10" }`, `policy.toml:4: min_justification: use a number`},
		"a negative justification":        {rule + `match = { min_justification = -1 }`, `policy.toml:4: min_justification: use a number`},
		"a risk in words":                 {rule + `match = { high_risk = "true" }`, `policy.toml:4: high_risk: use true or false`},
		"a default that is no verdict":    {`default = true`, `policy.toml:1: default "true": use allow, ask or deny`},
		"a key given twice":               {"default = \"deny\"\ndefault = \"allow\"", `policy.toml:2: Key 'default' has already been defined.`},
		"broken TOML":                     {"default = \"deny\"\n[[rules]", `policy.toml:2: `},
		"a typo after a list of lines":    {rule + "match = { roles = [\n\"x\",\n\"rol = 1\", # [\n] }\nmach = 1", `policy.toml:8: unknown key "mach"; did you mean "match"?`},
		"a reason after a long text":      {rule + "reason = \"\"\"\nmatch = {}\n\"\"\"\nmatch = { x = 1 }", `policy.toml:7: unknown key "x"`},
		"a reason of more than 500 bytes": {rule + "reason = \"" + strings.Repeat("x", 501) + "\"\nmatch = {}", `policy.toml:4: reason: use a string`},
		"too many rules":                  {strings.Repeat("[[rules]]\naction = \"deny\"\nmatch = {}\n", policy.MaxRules+1), `4097 rules, the limit is 4096`},
		"too large a file":                {strings.Repeat("#", policy.MaxFile+1), `policy.toml: 1048577 bytes, the limit is 1048576`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Parse("policy.toml", []byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("have %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAVersionIsThatOfTheBytes(t *testing.T) {
	a, b := parse(t, `default = "deny"`), parse(t, `default = "deny" `)
	if a.Version() == b.Version() || a.Version() != parse(t, `default = "deny"`).Version() {
		t.Errorf("versions %s and %s", a.Version(), b.Version())
	}
	if policy.Shipped().Version() == "" || policy.Shipped().Default() != nacre.Deny {
		t.Error("the shipped policy has no version, or does not deny")
	}
}

// D-12
func TestAGroupUsesWhatItsListNames(t *testing.T) {
	groups := policy.Groups{
		"family": {Tools: []string{"note_*", "todo"}},
		"all":    {Tools: []string{"*"}},
		"two":    {Tools: []string{"a*b*c"}},
		"none":   {},
	}
	if err := groups.Check(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		group nacre.Group
		tool  nacre.ToolName
		want  bool
	}{
		{"family", "note_add", true},
		{"family", "note_", true},
		{"family", "xnote_add", false},
		{"family", "todo", true},
		{"family", "todos", false},
		{"all", "anything", true},
		{"two", "abc", true},
		{"two", "axxbyyc", true},
		{"two", "axxbyy", false},
		{"two", "acb", false},
		{"none", "todo", false},
		{"absent", "todo", false},
		{"Family", "todo", false},
	}
	for _, test := range tests {
		if have := groups.Allows(test.group, nacre.Capability{Tool: test.tool}); have != test.want {
			t.Errorf("%s uses %s: have %v, want %v", test.group, test.tool, have, test.want)
		}
		intrinsic := nacre.Capability{Tool: test.tool, Handling: nacre.Handling{Intrinsic: true}}
		if !groups.Allows(test.group, intrinsic) || !(policy.Groups)(nil).Allows(test.group, intrinsic) {
			t.Errorf("%s may not use an intrinsic", test.group)
		}
		if (policy.Groups)(nil).Allows(test.group, nacre.Capability{Tool: test.tool}) {
			t.Errorf("without any list %s may use %s", test.group, test.tool)
		}
	}
	for _, bad := range []policy.Groups{{"a b": {}}, {"a": {Tools: []string{""}}}, {"a": {Tools: []string{"x?"}}}} {
		if bad.Check() == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// K-04: the sliding window, at its edges.
func TestACallCountsUntilItIsExactlyAWindowOld(t *testing.T) {
	same := func(n int, last ...bool) (at []float64, want []bool) {
		for range n {
			at, want = append(at, 0), append(want, true)
		}
		for _, w := range last {
			at, want = append(at, 0), append(want, w)
		}
		return at, want
	}
	reads, readsWant := same(60, false)
	services, servicesWant := same(20, false)
	tests := map[string]struct {
		limit int
		at    []float64
		want  []bool
	}{
		"the 61st read":    {60, reads, readsWant},
		"a service's 21st": {20, services, servicesWant},
		"ten writes, sliding": {
			10,
			[]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 59.99, 60, 60.01, 61},
			[]bool{true, true, true, true, true, true, true, true, true, true, false, false, true, false, true},
		},
		"two that destroy, and refusals that do not count": {
			2,
			[]float64{0, 0, 30, 60, 60, 60, 119.9, 120},
			[]bool{true, true, false, true, true, false, false, true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var l policy.Limiter
			limit := nacre.RateLimit{Calls: test.limit, Window: time.Minute}
			key := policy.RateKey{Principal: "p", Capability: "a.b"}
			for i, at := range test.at {
				now := start.Add(time.Duration(at * float64(time.Second)))
				peek := l.Wait(key, limit, now)
				wait := l.Take(key, limit, now)
				if (wait == 0) != test.want[i] || peek != wait {
					t.Errorf("call %d at %v s: waits %v, peeked %v, want allowed %v", i, at, wait, peek, test.want[i])
				}
			}
		})
	}
}

// D-12: the wait is right, and after it a call goes through.
func TestAfterTheWaitThatWasToldACallGoesThrough(t *testing.T) {
	var l policy.Limiter
	limit := nacre.RateLimit{Calls: 2, Window: 10 * time.Second}
	key := policy.RateKey{Principal: "p", Capability: "a.b"}
	l.Take(key, limit, start)
	l.Take(key, limit, start.Add(4*time.Second))
	wait := l.Take(key, limit, start.Add(5*time.Second))
	if wait != 5*time.Second {
		t.Fatalf("have %v, want 5 s", wait)
	}
	if again := l.Take(key, limit, start.Add(10*time.Second-1)); again != 1 {
		t.Errorf("a nanosecond early: have %v, want 1 ns", again)
	}
	if again := l.Take(key, limit, start.Add(10*time.Second)); again != 0 {
		t.Errorf("after the wait: have %v, want 0", again)
	}
	if other := l.Take(policy.RateKey{Principal: "p:a", Capability: "b"}, limit, start); other != 0 {
		t.Error("another principal waits")
	}
	if l.Take(key, nacre.RateLimit{}, start) <= 0 {
		t.Error("a limit of zero let a call through")
	}
}

func TestWindowsAreBounded(t *testing.T) {
	var l policy.Limiter
	limit := nacre.RateLimit{Calls: 1, Window: time.Second}
	key := func(i int) policy.RateKey { return policy.RateKey{Principal: fmt.Sprint(i), Capability: "a.b"} }
	for i := range policy.MaxRateKeys {
		if l.Take(key(i), limit, start) != 0 {
			t.Fatal(i)
		}
	}
	if l.Take(key(-1), limit, start) == 0 {
		t.Error("one key too many went through")
	}
	if l.Take(key(-1), limit, start.Add(time.Second)) != 0 {
		t.Error("after the others ran out there was no room")
	}
}

// K-04
func TestRatesComeFromTheCapabilityElseItsClass(t *testing.T) {
	service := nacre.Principal{Roles: []string{"service"}}
	own := nacre.RateLimit{Calls: 3, Window: time.Hour}
	tests := map[string]struct {
		capability nacre.Capability
		principal  nacre.Principal
		want       nacre.RateLimit
	}{
		"reads":                          {nacre.Capability{Safety: nacre.Read}, nacre.Principal{}, nacre.RateLimit{Calls: 60, Window: time.Minute}},
		"writes":                         {nacre.Capability{Safety: nacre.Write}, nacre.Principal{}, nacre.RateLimit{Calls: 10, Window: time.Minute}},
		"the zero class":                 {nacre.Capability{}, nacre.Principal{}, nacre.RateLimit{Calls: 2, Window: time.Minute}},
		"a service":                      {nacre.Capability{}, service, nacre.RateLimit{Calls: 20, Window: time.Minute}},
		"what the manifest says":         {nacre.Capability{Safety: nacre.Read, Rate: own}, nacre.Principal{}, own},
		"a manifest binds a service too": {nacre.Capability{Rate: own}, service, own},
	}
	for name, test := range tests {
		if have := policy.RateOf(test.capability, test.principal); have != test.want {
			t.Errorf("%s: have %v, want %v", name, have, test.want)
		}
	}
}

// Whatever the bytes, a policy is refused with an error or decides; nothing panics.
func FuzzParse(f *testing.F) {
	corpus.Add(f, rules)
	corpus.Add(f, "[[rules]]\naction = \"allow\"\nmatch = {}\n")
	corpus.Add(f, "default = \"\"\"\n[[rules]]\n\"\"\"")
	corpus.Add(f, "[rules]\nx = 1")
	corpus.Add(f, "[[rules.match]]\n[a.\"b]\"]\n=")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := policy.Parse("f", []byte(text))
		if (p == nil) == (err == nil) {
			t.Errorf("have both or neither of %v and %v", p, err)
		}
		if err != nil {
			var place string
			if errors.Unwrap(err) == nil && !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("no place in %q%s", err, place)
			}
			return
		}
		p.Decide(policy.Request{})
	})
}

func BenchmarkDecide(b *testing.B) {
	p := parse(b, rules)
	r := policy.Request{
		Principal:  nacre.Principal{Group: "family", Roles: []string{"agent"}, Justification: "a task of some length"},
		Capability: capability(nacre.Write, nacre.SensitiveNone),
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if p.Decide(r).Verdict != nacre.Allow {
				b.Fatal("denied")
			}
		}
	})
}

// F-31: an attribute without a value says nothing of whose data it is.
func TestPersonalDataWantsATenantThatIsNamed(t *testing.T) {
	for tenant, want := range map[string]nacre.Verdict{"": nacre.Deny, " \t": nacre.Deny, "acme": nacre.Allow} {
		for _, kind := range []nacre.Sensitivity{nacre.SensitivePII, nacre.SensitivePCI} {
			d := policy.Default().Decide(policy.Request{
				Principal:  nacre.Principal{ID: "a", Attributes: map[string]string{"tenant": tenant}},
				Capability: nacre.Capability{ID: "crm.list", Tool: "list", Safety: nacre.Read, Sensitivity: kind},
			})
			if d.Verdict != want {
				t.Errorf("tenant %q, %v: have %v, want %v", tenant, kind, d.Verdict, want)
			}
		}
	}
}

// F-46: writing to memory is writing, and wants the roles of both, as docs/policy.md says.
func TestWritingToMemoryWantsBothRoles(t *testing.T) {
	for _, c := range []struct {
		roles []string
		want  nacre.Verdict
	}{
		{[]string{"memory_writer"}, nacre.Deny}, {[]string{"writer"}, nacre.Deny},
		{[]string{"writer", "memory_writer"}, nacre.Allow}, {[]string{"admin"}, nacre.Allow},
	} {
		d := policy.Default().Decide(policy.Request{
			Principal:  nacre.Principal{ID: "a", Roles: c.roles, Justification: "remember what the operator prefers"},
			Capability: nacre.Capability{ID: "memory.store", Tool: "store", Safety: nacre.Write, Sensitivity: nacre.SensitiveMemory},
		})
		if d.Verdict != c.want {
			t.Errorf("%v: have %v %s, want %v", c.roles, d.Verdict, d.Code, c.want)
		}
	}
}
