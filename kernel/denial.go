package kernel

import (
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/policy"
)

// ExplainDenial says why a grant would be denied, and what would have to change. It tells every
// condition that fails, not the first: those that the kernel has of its own, then those of the
// policy (K-08). It decides, counts and records nothing.
func (k *Kernel) ExplainDenial(q GrantRequest, p nacre.Principal, justification string) (nacre.Denial, error) {
	explainer, ok := k.governed.now.Load().engine.(policy.Explainer)
	if !ok {
		return nacre.Denial{}, errors.New("kernel: this policy engine does not explain: use one that is a policy.Explainer")
	}
	p.Justification = justification
	r, err := k.begin(nacre.Call{Principal: p, Arguments: q.Arguments})
	if err != nil {
		return nacre.Denial{}, err
	}
	if err := k.grantable(r, q); err != nil {
		return nacre.Denial{}, err
	}
	if err := k.listen(r); err != nil {
		return nacre.Denial{}, err
	}
	d, err := explanation(explainer, r.request())
	if err != nil {
		return nacre.Denial{}, err
	}
	own := k.inTheWay(r)
	if !d.Denied {
		own = append(own, unmet("constraints", "arguments that the rule and the request allow", k.narrow(r))...)
	}
	return denied(d, own), nil
}

func explanation(engine policy.Explainer, q policy.Request) (d nacre.Denial, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = nacre.Denial{}, fmt.Errorf("kernel: policy %w: %v", errPanicked, p)
		}
	}()
	return engine.Explain(q), nil
}

// inTheWay is what the kernel itself has against a call, whatever the policy says.
func (k *judge) inTheWay(r *run) []nacre.FailedCondition {
	var failed []nacre.FailedCondition
	failed = append(failed, unmet("principal", "a principal with an id", named(r))...)
	failed = append(failed, unmet("revocation", "a principal that is not revoked", k.unrevoked(r))...)
	failed = append(failed, unmet("group", "a group whose list of tools names this one", k.listed(r))...)
	return append(failed, unmet("rate", "a call within the rate", k.unhurried(r))...)
}

// narrow decides as a grant would, for what only the kernel adds to the rules.
func (k *judge) narrow(r *run) error {
	k.rule(r)
	if r.decision.Verdict == nacre.Deny {
		return unauthorized(r.decision)
	}
	return r.constrain()
}

// suggestion says what would change a refusal of the kernel's own.
func suggestion(condition string) string {
	switch condition {
	case "principal":
		return "name the principal that the call is for"
	case "revocation":
		return "the operator can begin another session, or let this one in again"
	case "group":
		return "add the tool to the group's list, or call it from a group that has it"
	case "rate":
		return "wait, and try again"
	}
	return "ask with other arguments, or with constraints that allow them"
}

// unmet is the condition that a refusal stands for; none where there is no refusal.
func unmet(condition, required string, err error) []nacre.FailedCondition {
	refusal, is := refusalIn(err)
	if !is {
		return nil
	}
	return []nacre.FailedCondition{{
		Condition: condition, Required: required, Actual: refusal.Message, Suggestion: suggestion(condition), Code: refusal.Reason,
	}}
}

// denied puts the kernel's own conditions before the policy's: they are asked first.
func denied(d nacre.Denial, own []nacre.FailedCondition) nacre.Denial {
	if len(own) == 0 {
		return d
	}
	story := own[0].Actual
	for _, failed := range own[1:] {
		story += "; " + failed.Actual
	}
	if d.Denied {
		story += "; " + d.Narrative
	}
	var fixes []string
	for _, failed := range own {
		fixes = append(fixes, failed.Suggestion)
	}
	if !d.Denied {
		d.Rule = "" // of an allow
	}
	d.Denied, d.Code, d.Narrative = true, own[0].Code, story
	d.Failed, d.Remediation = append(own, d.Failed...), append(fixes, d.Remediation...)
	return d
}
