package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
)

// maxAlternatives is how many other rules a remediation names.
const maxAlternatives = 3

// Explain says why a request is denied and what would have to change. A deny rule that matches is
// the cause. Deny rules that match in part are left out, for nobody should try to match one (K-08).
func (p *Policy) Explain(r Request) nacre.Denial {
	s := subject{request: &r}
	d := p.Decide(r)
	if d.Verdict != nacre.Deny {
		return granted(d)
	}
	if i := p.first(&s); i >= 0 {
		if d.Code == nacre.ReasonInvalidConstraint {
			return conflicting(d)
		}
		return p.rules[i].refuses(d)
	}
	closest, failing := p.closest(&s)
	if closest == nil {
		return p.ruleless(d, &r)
	}
	denial := nacre.Denial{Denied: true, Code: d.Code, Rule: closest.place, Failed: []nacre.FailedCondition{}, Remediation: []string{}}
	for _, c := range failing {
		denial.Failed = append(denial.Failed, c.failed(&s))
	}
	if !failing[0].fixed() {
		denial.Code = denial.Failed[0].Code
	}
	return p.remedied(denial, &s, closest)
}

func granted(d nacre.Decision) nacre.Denial {
	what := "is allowed"
	if d.Verdict == nacre.Ask {
		what = "is put to a person"
	}
	return nacre.Denial{
		Code: d.Code, Rule: d.Rule, Failed: []nacre.FailedCondition{}, Remediation: []string{},
		Narrative: fmt.Sprintf("the call %s by %s", what, d.Rule),
	}
}

func conflicting(d nacre.Decision) nacre.Denial {
	const suggestion = "ask for constraints that the rule's can be combined with"
	return nacre.Denial{
		Denied: true, Code: d.Code, Rule: d.Rule, Remediation: []string{suggestion}, Narrative: d.Message,
		Failed: []nacre.FailedCondition{{
			Condition: "constraints", Required: "constraints that can hold together", Actual: d.Message, Suggestion: suggestion, Code: d.Code,
		}},
	}
}

// refuses explains a deny rule that matches.
func (r *rule) refuses(d nacre.Decision) nacre.Denial {
	matched := make([]string, len(r.match))
	for i := range r.match {
		matched[i] = r.match[i].label() + " " + r.match[i].required()
	}
	suggestion := "only another call, or the operator who changes this rule, can help"
	if r.reason != "" {
		suggestion = r.reason
	}
	return nacre.Denial{
		Denied: true, Code: d.Code, Rule: r.place, Remediation: []string{suggestion},
		Failed: []nacre.FailedCondition{{
			Condition: "deny rule", Required: "no deny rule matches", Actual: fmt.Sprintf("%s matches", r.place), Suggestion: suggestion, Code: d.Code,
		}},
		Narrative: fmt.Sprintf("%s denies this, because of %s", r.place, orAll(strings.Join(matched, ", "))),
	}
}

func orAll(s string) string {
	if s == "" {
		return "nothing in particular: it matches every call"
	}
	return s
}

// closest is the rule with the fewest conditions that fail, and those. Rules
// for other capabilities count only where there is no other.
func (p *Policy) closest(s *subject) (*rule, []*condition) {
	var best *rule
	var failing []*condition
	for i := range p.rules {
		r := &p.rules[i]
		if r.verdict == nacre.Deny {
			continue
		}
		if missing := r.failing(s); best == nil || closer(missing, failing) {
			best, failing = r, missing
		}
	}
	return best, failing
}

func (r *rule) failing(s *subject) []*condition {
	var failing []*condition
	for i := range r.match {
		if r.match[i].holds(s, r.verdict == nacre.Allow) != yes {
			failing = append(failing, &r.match[i])
		}
	}
	return failing
}

func closer(a, b []*condition) bool {
	elsewhere := func(list []*condition) int {
		return len(slices.DeleteFunc(slices.Clone(list), func(c *condition) bool { return !c.fixed() }))
	}
	if x, y := elsewhere(a), elsewhere(b); (x == 0) != (y == 0) {
		return x == 0
	}
	return len(a) < len(b)
}

// fixed conditions look at the capability, which no principal can change.
func (c *condition) fixed() bool {
	switch c.key {
	case keyTool, keyCapability, keySafety, keySensitivity, keyHighRisk, keyBehavioural:
		return true
	}
	return false
}

func (p *Policy) ruleless(d nacre.Decision, r *Request) nacre.Denial {
	suggestion := fmt.Sprintf("add a rule that allows %s, or asks", r.Capability.ID)
	return nacre.Denial{
		Denied: true, Code: d.Code, Rule: d.Rule, Remediation: []string{suggestion}, Narrative: d.Message,
		Failed: []nacre.FailedCondition{{
			Condition: "rule", Required: fmt.Sprintf("a rule for %s", r.Capability.ID), Actual: "no rule allows anything",
			Suggestion: suggestion, Code: d.Code,
		}},
	}
}

// remedied adds what to do: meet the closest rule, or one of the others that
// only wants what a principal can have.
func (p *Policy) remedied(d nacre.Denial, s *subject, closest *rule) nacre.Denial {
	names := make([]string, len(d.Failed))
	for i, failed := range d.Failed {
		d.Remediation = append(d.Remediation, failed.Suggestion)
		names[i] = failed.Condition
	}
	others := 0
	for i := range p.rules {
		r := &p.rules[i]
		if r == closest || r.verdict == nacre.Deny || others == maxAlternatives {
			continue
		}
		failing := r.failing(s)
		if len(failing) == 0 || slices.ContainsFunc(failing, (*condition).fixed) {
			continue
		}
		needs := make([]string, len(failing))
		for i, c := range failing {
			needs[i] = c.label() + " " + c.required()
		}
		d.Remediation = append(d.Remediation, fmt.Sprintf("or meet %s: %s", r.place, strings.Join(needs, "; ")))
		others++
	}
	d.Narrative = fmt.Sprintf("no rule allows %s (%s); %s comes closest and fails on %s",
		s.request.Capability.ID, s.request.Capability.Safety, closest.place, strings.Join(names, ", "))
	return d
}

func (c *condition) failed(s *subject) nacre.FailedCondition {
	return nacre.FailedCondition{
		Condition: c.label(), Required: c.required(), Actual: c.actual(s), Suggestion: c.suggestion(), Code: c.code(),
	}
}

// label names a condition, and never a value.
func (c *condition) label() string {
	if c.name != "" {
		return c.key + "." + c.name
	}
	return c.key
}

func (c *condition) code() nacre.ReasonCode {
	switch c.key {
	case keyRoles:
		return nacre.ReasonMissingRole
	case keyAttributes:
		return nacre.ReasonMissingAttribute
	case keyJustified:
		return nacre.ReasonInsufficientReason
	case keyIntent:
		return nacre.ReasonIntentNotAllowed
	case keyScope:
		return nacre.ReasonScopeNotAllowed
	case keyArguments:
		return nacre.ReasonArgumentConstraint
	case keyGroup:
		return nacre.ReasonGroupNotAllowed
	}
	return nacre.ReasonConditionNotMet
}

// required is what a condition wants, as the file says it.
func (c *condition) required() string {
	var all []string
	switch c.key {
	case keySafety:
		all = bitNames[nacre.SafetyClass](c.bits, 3)
	case keySensitivity:
		all = bitNames[nacre.Sensitivity](c.bits, 5)
	case keyProvenance:
		all = bitNames[nacre.Provenance](c.bits, 4)
	case keyHighRisk, keyBehavioural, keyTaint, keyUntrusted, keySinks:
		return fmt.Sprint(c.want)
	case keyJustified:
		return fmt.Sprintf("at least %d characters", c.count)
	}
	if c.from != "" {
		return "the value of scope." + c.from
	}
	all = append(all, c.words...)
	for _, g := range c.globs {
		all = append(all, string(g))
	}
	for _, p := range c.patterns {
		all = append(all, p.text)
	}
	for i := range c.bounds {
		all = append(all, c.bounds[i].Text())
	}
	return strings.Join(append(all, c.scalars...), " or ")
}

func bitNames[T interface {
	~uint8
	fmt.Stringer
}](bits uint16, n uint8) []string {
	var names []string
	for bit := range n {
		if bits&(1<<bit) != 0 {
			names = append(names, T(bit).String())
		}
	}
	return names
}

// maxShown is how much of a value a denial shows, in bytes.
const maxShown = 200

// actual is what the request has, for the operator.
func (c *condition) actual(s *subject) string {
	r := s.request
	switch c.key {
	case keyTool:
		return string(r.Capability.Tool)
	case keyCapability:
		return string(r.Capability.ID)
	case keySafety:
		return r.Capability.Safety.String()
	case keySensitivity:
		return r.Capability.Sensitivity.String()
	case keyHighRisk:
		return fmt.Sprint(r.Capability.HighRisk)
	case keyBehavioural:
		return fmt.Sprint(r.Capability.Behavioural)
	case keyTaint:
		return fmt.Sprint(r.Tainted)
	case keyUntrusted:
		return fmt.Sprint(r.untrusted())
	case keyGroup:
		return orNone(string(r.Principal.Group))
	case keyChannel:
		return orNone(r.Principal.Channel)
	case keyIntent:
		return orNone(r.Principal.Intent)
	case keyRoles:
		return orNone(strings.Join(r.Principal.Roles, ", "))
	case keyJustified:
		return fmt.Sprintf("%d characters", s.justification())
	case keyAttributes:
		return entry(r.Principal.Attributes, c.name)
	case keyScope:
		return entry(r.Principal.Scope, c.name)
	case keySinks, keyProvenance:
		lowest, n := s.lowest(c.name)
		return fmt.Sprintf("%s, of %d values", lowest, n)
	}
	if !s.readable() {
		return orNone("")
	}
	value, found, _ := lookup(s.raw, c.name)
	if !found {
		return orNone("")
	}
	return shortened(value)
}

func entry(values map[string]string, name string) string {
	value, ok := values[name]
	if !ok {
		return orNone("")
	}
	return shortened(fmt.Sprintf("%q", value))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return shortened(s)
}

func shortened(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}

// need says what a principal lacks, for the message of a denial; empty where no
// one can change it.
func (c *condition) need() string {
	switch c.key {
	case keyRoles:
		return "role " + c.required()
	case keyJustified:
		return fmt.Sprintf("a task text of at least %d characters", c.count)
	case keyAttributes, keyScope, keyArguments:
		return fmt.Sprintf("%s %s", strings.TrimSuffix(c.key, "s"), c.name)
	case keyIntent:
		return "another intent"
	}
	return ""
}

func (c *condition) suggestion() string {
	switch c.key {
	case keyRoles:
		return "give the principal the role " + c.required()
	case keyAttributes:
		return fmt.Sprintf("give the principal the attribute %s = %s", c.name, c.required())
	case keyJustified:
		return "write the task in " + c.required()
	case keyIntent:
		return "open the session with the intent " + c.required()
	case keyScope:
		return fmt.Sprintf("open the session with the scope %s = %s", c.name, c.required())
	case keyArguments:
		return fmt.Sprintf("call it with %s = %s", c.name, c.required())
	case keyTaint, keyUntrusted, keyProvenance:
		return "use values that the operator wrote, or a session that has read nothing untrusted"
	case keyGroup, keyChannel:
		return fmt.Sprintf("call it from the %s %s", c.key, c.required())
	}
	return fmt.Sprintf("use a capability whose %s is %s, or add a rule for this one", c.key, c.required())
}
