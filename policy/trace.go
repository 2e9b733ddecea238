package policy

import (
	"slices"

	"github.com/nacre-dev/nacre"
)

// The outcomes of a step of a trace.
const (
	stepMatched    = "matched"
	stepSkipped    = "skipped"
	stepDenied     = "denied"
	stepAllowed    = "allowed"
	stepAsked      = "asked"
	stepConstraint = "constraint_applied"
)

// Trace names the rules that were looked at and, for each that was skipped, the
// first condition that does not hold. It never holds a value of the request
// but its capability, principal and intent (K-09).
func (p *Policy) Trace(r Request) nacre.DecisionTrace {
	s := subject{request: &r}
	t := traced("policy "+p.name, &r)
	for i := range p.rules {
		rule := &p.rules[i]
		failing := rule.failing(&s)
		if len(failing) > 0 {
			t.Steps = append(t.Steps, nacre.TraceStep{Rule: rule.place, Outcome: stepSkipped, Detail: failing[0].label(), Code: failing[0].code()})
			continue
		}
		t.Steps = append(t.Steps, nacre.TraceStep{Rule: rule.place, Outcome: stepMatched})
		break
	}
	return concluded(t, p.Decide(r))
}

func traced(engine string, r *Request) nacre.DecisionTrace {
	t := nacre.DecisionTrace{
		Engine: engine, Capability: r.Capability.ID, Principal: r.Principal.ID, Intent: r.Principal.Intent, Steps: []nacre.TraceStep{},
	}
	for key := range r.Principal.Scope {
		t.ScopeKeys = append(t.ScopeKeys, key)
	}
	slices.Sort(t.ScopeKeys)
	return t
}

// concluded adds what was decided, and which constraints go with it.
func concluded(t nacre.DecisionTrace, d nacre.Decision) nacre.DecisionTrace {
	c := d.Constraints
	for _, applied := range []struct {
		name string
		set  bool
	}{
		{"max_rows", c.MaxRows != nil}, {"allowed_fields", c.AllowedFields != nil}, {"scope", c.Scope != nil},
		{"arguments", !c.Arguments.IsZero()},
	} {
		if applied.set {
			t.Steps = append(t.Steps, nacre.TraceStep{Rule: d.Rule, Outcome: stepConstraint, Detail: applied.name})
		}
	}
	outcome := stepDenied
	switch d.Verdict {
	case nacre.Allow:
		outcome = stepAllowed
	case nacre.Ask:
		outcome = stepAsked
	case nacre.Deny:
	}
	t.Steps = append(t.Steps, nacre.TraceStep{Rule: d.Rule, Outcome: outcome, Code: d.Code})
	return t
}
