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
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
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
	// Tainted says that the session has read untrusted text.
	Tainted bool
	// Origins tell where the value of each sink argument was seen.
	Origins []nacre.Origin
}

// Engine decides calls. Decide is pure: equal requests get equal decisions,
// and it may be called concurrently. Version names the rules that decide, so
// that an approval can be bound to them (D-13); it changes when they do.
type Engine interface {
	Decide(Request) nacre.Decision
	Version() string
}

// Policy is a file of rules, parsed. The zero value denies everything.
type Policy struct {
	name     string
	version  string
	fallback nacre.Verdict
	rules    []rule
}

// Shipped is the policy that decides where the operator has none (K-24):
// reading is free, reading and writing of sensitive data is asked, writing
// needs the role "writer", and what destroys is asked.
func Shipped() *Policy {
	p, err := Parse("shipped policy", []byte(shipped))
	if err != nil {
		panic("the shipped policy does not parse: " + err.Error())
	}
	return p
}

// Version is a digest of the file's bytes; empty for the zero value.
func (p *Policy) Version() string { return p.version }

// Default is the verdict where no rule matches.
func (p *Policy) Default() nacre.Verdict { return p.fallback }

// Decide returns the verdict of the first rule that matches, else the file's
// default, else deny.
func (p *Policy) Decide(r Request) nacre.Decision {
	for i := range p.rules {
		if p.rules[i].misses(r, 1) == 0 {
			return p.ruled(&p.rules[i], r)
		}
	}
	return p.defaulted(r)
}

func (p *Policy) ruled(rule *rule, r Request) nacre.Decision {
	d := nacre.Decision{Verdict: rule.verdict, Rule: rule.place}
	switch rule.verdict {
	case nacre.Allow:
		d.Code = nacre.ReasonRuleAllow
	case nacre.Ask:
		d.Code = nacre.ReasonRuleAsk
	case nacre.Deny:
		d.Code = nacre.ReasonExplicitDeny
		d.Message = fmt.Sprintf("%s is denied by %s", r.Capability.ID, rule.place)
	}
	if rule.reason != "" {
		d.Message = rule.reason
	}
	return d
}

func (p *Policy) defaulted(r Request) nacre.Decision {
	place := "default"
	if p.name != "" {
		place = p.name + ", default"
	}
	switch p.fallback {
	case nacre.Allow:
		return nacre.Decision{Verdict: nacre.Allow, Code: nacre.ReasonDefaultFallthrough, Rule: place}
	case nacre.Ask:
		return nacre.Decision{Verdict: nacre.Ask, Code: nacre.ReasonDefaultAsk, Rule: place}
	}
	message := fmt.Sprintf("no rule allows %s (%s)", r.Capability.ID, r.Capability.Safety)
	if hint := p.hint(r); hint != "" {
		message += "; " + hint
	}
	return nacre.Decision{Verdict: nacre.Deny, Code: nacre.ReasonNoMatchingRule, Rule: place, Message: message}
}

// hint names the first rule that would have let the call through but for one condition.
func (p *Policy) hint(r Request) string {
	for i := range p.rules {
		rule := &p.rules[i]
		if rule.verdict == nacre.Deny || rule.misses(r, 2) != 1 {
			continue
		}
		if need := rule.missing(r); need != "" {
			return fmt.Sprintf("%s would, with %s", rule.place, need)
		}
	}
	return ""
}

// rule is one [[rules]] entry. What it does not name, it does not look at.
type rule struct {
	place   string
	verdict nacre.Verdict
	reason  string
	match   []condition
}

// condition is one key of a rule's match table.
type condition struct {
	// need says what a principal lacks, for a person; empty where the condition
	// looks at the capability, which no one can change.
	need  string
	holds func(Request) bool
}

// misses counts the conditions that do not hold, up to enough.
func (r *rule) misses(req Request, enough int) int {
	count := 0
	for _, c := range r.match {
		if !c.holds(req) {
			if count++; count == enough {
				break
			}
		}
	}
	return count
}

func (r *rule) missing(req Request) string {
	for _, c := range r.match {
		if !c.holds(req) {
			return c.need
		}
	}
	return ""
}

func globbed(globs []glob, of func(Request) string) condition {
	return condition{"", func(r Request) bool {
		return slices.ContainsFunc(globs, func(g glob) bool { return g.matches(of(r)) })
	}}
}

func anyRole(roles []string) condition {
	return condition{"role " + strings.Join(roles, " or "), func(r Request) bool {
		return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(r.Principal.Roles, role) })
	}}
}

// attribute wants a name to be there, and unless value is "*" to have that value.
func attribute(name, value string) condition {
	return condition{fmt.Sprintf("attribute %s = %q", name, value), func(r Request) bool {
		have, ok := r.Principal.Attributes[name]
		return ok && (value == "*" || have == value)
	}}
}

// justified counts the code points of the operator's words, without the white space around them.
func justified(points int) condition {
	return condition{fmt.Sprintf("a task text of at least %d characters", points), func(r Request) bool {
		return utf8.RuneCountInString(strings.TrimSpace(r.Principal.Justification)) >= points
	}}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
