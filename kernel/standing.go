package kernel

import (
	"bytes"
	"encoding/json"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

// MaxStanding is the longest that a ruling stands. It ends with its session.
const MaxStanding = token.MaxStanding

// ruledOn are the keys of all rulings that may stand for this call.
func (r *run) ruledOn() []token.Digest {
	return []token.Digest{r.about(nacre.ScopeTool), r.about(nacre.ScopeSame), r.about(nacre.ScopeExact)}
}

// about is what a ruling is about, as a record has it: the same in each opening of a session, and
// nothing to whoever does not know the kernel's key. One that is for a single call is about nothing
// but the very same.
func (r *run) about(scope nacre.RulingScope) token.Digest {
	if scope == nacre.ScopeOnce {
		scope = nacre.ScopeExact
	}
	like := r.like(scope)
	return token.Sum("nacre.ruling.1", string(r.session.standings.Salt[:]), string(like[:]))
}

// like digests what calls have in common that one ruling may stand for. That is the code, the rules
// and the one that asks, and who acts and whether they have read untrusted text. In ScopeSame it is
// the values, too, in which a wrong one does harm. Where a tool does not say which those are, all
// of its arguments are, as in ScopeExact.
func (r *run) like(scope nacre.RulingScope) token.Digest {
	c, p, authority := r.tool.capability, r.call.Principal, r.subject.Authority()
	parts := []string{
		scope.String(), string(c.ID), string(c.Tool), c.ContentHash, r.tool.schemaDigest, r.policy,
		p.ID, string(p.Group), string(p.Session), string(authority[:]), r.heard(),
		string(r.decision.Code), r.decision.Rule,
	}
	switch scope {
	case nacre.ScopeSame:
		parts = append(parts, riskyValues(r.arguments, c.Sinks)...)
		parts = append(parts, r.filesDigested()...)
	case nacre.ScopeExact:
		parts = append(parts, string(r.arguments))
		parts = append(parts, r.filesDigested()...)
	default: // whatever the arguments
	}
	return token.Sum("nacre.standing.1", parts...)
}

// heard says whom the session has listened to, so far as rulings hang on it.
func (r *run) heard() string {
	switch {
	case r.tainted:
		return "tainted"
	case r.untrusted:
		return "untrusted"
	default:
		return "clean"
	}
}

// riskyValues are the sinks of canonical arguments, or all of these.
func riskyValues(arguments json.RawMessage, sinks []string) []string {
	if len(sinks) == 0 {
		return []string{string(arguments)}
	}
	values := make([]string, 0, 2*len(sinks))
	for _, sink := range sinks {
		values = append(values, sink, valueAt(arguments, sink))
	}
	return values
}

// valueAt is the text of the value at a dotted path; of what is not there, nothing.
func valueAt(document json.RawMessage, path string) string {
	name, rest, deeper := bytes.Cut([]byte(path), []byte("."))
	var object map[string]json.RawMessage
	if json.Unmarshal(document, &object) != nil {
		return string(document) // no object to look into: all of it is the value
	}
	value := object[string(name)]
	if !deeper || value == nil {
		return string(value)
	}
	return valueAt(value, string(rest))
}
