// Package policy promises a verdict for every call: rules are read from top to
// bottom, the first that matches decides, and where none matches the call is
// denied (K-05). A file that does not say exactly what it means is refused,
// with the line.
//
// It does not act on verdicts, holds no clock and no randomness, and reads no
// files: bytes and times are arguments. What the agent writes is never an
// input; the justification that counts is the operator's.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
)

// Request is what a policy decides on. All of it comes from the host.
type Request struct {
	Principal  nacre.Principal
	Capability nacre.Capability
	// Arguments are canonical, after defaults; nil where a grant is asked for
	// before there are any.
	Arguments json.RawMessage
	// Constraints are what the request itself asks to be narrowed to.
	Constraints nacre.Constraints
	// Tainted says that untrusted text has tainted the whole session (M-52).
	Tainted bool
	// ReadUntrusted says that the session has read untrusted text of any kind,
	// such as that of a repository, which taints nothing but values (K-26).
	// Tainted, and an origin that is untrusted, say so too.
	ReadUntrusted bool
	// Origins tell where the value of each sink argument was seen. A sink that
	// has a value and no origin counts as seen nowhere.
	Origins []nacre.Origin
}

// Engine decides calls. Decide is pure: equal requests get equal decisions,
// and it may be called concurrently. Version names the rules that decide, so
// that an approval can be bound to them (D-13); it changes when they do.
type Engine interface {
	Decide(Request) nacre.Decision
	Version() string
}

// Explainer is an engine that can say how it decides. Explain collects all that failed, with the
// request's values, and is for the operator (K-08). Trace names what was looked at and never a
// value (K-09). Both are pure.
type Explainer interface {
	Engine
	Explain(Request) nacre.Denial
	Trace(Request) nacre.DecisionTrace
}

// Policy is a file of rules, parsed. The zero value denies everything.
type Policy struct {
	name         string
	version      string
	fallback     nacre.Verdict
	fallbackLine int
	rules        []rule
	index        *index
}

var _ Explainer = (*Policy)(nil)

// Shipped is the policy that decides where the operator has none (K-24). Reading is free, writing
// needs the role "writer", and what touches sensitive data or destroys is asked. So is writing with
// values that an outsider may have chosen (M-52, K-26).
func Shipped() *Policy {
	p, err := Parse("shipped policy", []byte(shipped))
	if err != nil {
		panic("the shipped policy does not parse: " + err.Error())
	}
	return p
}

// ShippedText is the shipped policy as a file to begin one's own with.
func ShippedText() string { return shipped }

// Version is a digest of the file's bytes; empty for the zero value.
func (p *Policy) Version() string { return p.version }

// Default is the verdict where no rule matches. A daemon refuses to work with
// one that allows (K-05).
func (p *Policy) Default() nacre.Verdict { return p.fallback }

// Decide returns the verdict of the first rule that matches, else the file's
// default, else deny. What it lets through is narrowed to what the request and
// the rule agree on.
func (p *Policy) Decide(r Request) nacre.Decision {
	s := subject{request: &r}
	if i := p.first(&s); i >= 0 {
		return p.rules[i].decision(r.Capability.ID, r.Constraints)
	}
	return p.defaulted(&s)
}

func (r *rule) decision(id nacre.CapabilityID, asked nacre.Constraints) nacre.Decision {
	d := nacre.Decision{Verdict: r.verdict, Code: r.code, Rule: r.place, Message: r.reason, Approvers: r.approvers}
	if r.verdict == nacre.Deny {
		if d.Message == "" {
			d.Message = fmt.Sprintf("%s is denied by %s", id, r.place)
		}
		return d
	}
	return narrowed(d, asked, r.constraints)
}

// narrowed puts both sides' constraints into a decision, or denies where they
// exclude one another.
func narrowed(d nacre.Decision, asked, ruled nacre.Constraints) nacre.Decision {
	if asked.IsZero() && ruled.IsZero() {
		return d
	}
	if rows := asked.MaxRows; rows != nil && *rows < 0 {
		asked.MaxRows = new(int) // fewer than none are none
	}
	c, err := constraint.Narrow(asked, ruled)
	if err != nil {
		return nacre.Decision{Verdict: nacre.Deny, Code: nacre.ReasonInvalidConstraint, Rule: d.Rule, Message: err.Error()}
	}
	d.Constraints = c
	return d
}

func (p *Policy) defaulted(s *subject) nacre.Decision {
	d := nacre.Decision{Verdict: p.fallback, Rule: p.defaultPlace()}
	switch p.fallback {
	case nacre.Allow:
		d.Code = nacre.ReasonDefaultFallthrough
	case nacre.Ask:
		d.Code = nacre.ReasonDefaultAsk
	default:
		id, class := s.request.Capability.ID, s.request.Capability.Safety
		d.Verdict, d.Code = nacre.Deny, nacre.ReasonNoMatchingRule
		d.Message = fmt.Sprintf("no rule allows %s (%s)", id, class)
		if hint := p.hint(s); hint != "" {
			d.Message += "; " + hint
		}
		return d
	}
	return narrowed(d, s.request.Constraints, nacre.Constraints{})
}

func (p *Policy) defaultPlace() string {
	if p.name == "" {
		return "default"
	}
	return p.name + ", default"
}

// maxHinted is how many rules a denial's message is looked for in.
const maxHinted = 256

// hint names the first rule that would have let the call through but for one
// condition that the principal could meet.
func (p *Policy) hint(s *subject) string {
	for i := range p.rules[:min(len(p.rules), maxHinted)] {
		r := &p.rules[i]
		if r.verdict == nacre.Deny {
			continue
		}
		if c := r.lacks(s); c != nil {
			if need := c.need(); need != "" {
				return fmt.Sprintf("%s would, with %s", r.place, need)
			}
		}
	}
	return ""
}

// lacks is the only condition that fails, or nil.
func (r *rule) lacks(s *subject) *condition {
	var failing *condition
	for i := range r.match {
		if r.match[i].holds(s, r.verdict == nacre.Allow) == yes {
			continue
		}
		if failing != nil {
			return nil
		}
		failing = &r.match[i]
	}
	return failing
}

// rule is one entry of rules. What it does not name, it does not look at.
type rule struct {
	name, place string
	line        int
	verdict     nacre.Verdict
	approvers   int // persons who have to approve what is asked; 0 means one
	code        nacre.ReasonCode
	reason      string
	match       []condition
	constraints nacre.Constraints
}

// codeOf is the code of what a rule decides. A question that looks at what the
// session has read has a code of its own.
func (r *rule) codeOf() nacre.ReasonCode {
	switch r.verdict {
	case nacre.Allow:
		return nacre.ReasonRuleAllow
	case nacre.Ask:
		for _, c := range r.match {
			if (c.key == keyTaint || c.key == keyUntrusted) && c.want {
				return nacre.ReasonTainted
			}
		}
		return nacre.ReasonRuleAsk
	case nacre.Deny:
	}
	return nacre.ReasonExplicitDeny
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Rules is how many rules there are.
func (p *Policy) Rules() int { return len(p.rules) }
