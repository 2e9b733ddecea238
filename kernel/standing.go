package kernel

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
)

// The limits of rulings that stand for a time.
const (
	// MaxStanding is the longest that a ruling stands. It ends with its session.
	MaxStanding = 8 * time.Hour
	// maxStandings are kept of one session; beyond them a person is asked again.
	maxStandings = 256
)

// standings are the rulings of one session that stand for a time (D-13).
type standings struct {
	mu   sync.Mutex
	kept map[token.Digest]standing
}

// standing is a person's ruling on everything that is like what they were asked.
type standing struct {
	verdict nacre.Verdict
	// It holds from since until until: a clock that goes back ends it.
	since, until time.Time
	question     string
	digest       string
	by           string
	// left is for how many more calls it stands, where it is counted.
	counted bool
	left    int
}

// keep remembers a ruling, from now on for as long as it says.
func (s *standings) keep(r *run, q nacre.Question, ruling nacre.Ruling, now time.Time) {
	if ruling.For <= 0 || ruling.Scope == nacre.ScopeOnce || ruling.Times == 1 || ruling.Times < 0 || ruling.Digest != q.Digest || !now.Before(q.Expires) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = make(map[token.Digest]standing)
	}
	for key, old := range s.kept {
		if !now.Before(old.until) {
			delete(s.kept, key)
		}
	}
	if len(s.kept) >= maxStandings {
		return
	}
	s.kept[r.like(ruling.Scope)] = standing{
		verdict: ruling.Verdict, since: now, until: now.Add(min(ruling.For, MaxStanding)), question: q.ID, digest: q.Digest, by: ruling.By,
		counted: ruling.Times > 0, left: ruling.Times - 1,
	}
}

func (s *standings) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = nil
}

// take returns what was ruled on a call like this one, and counts the call; a refusal
// wins over a consent.
func (s *standings) take(r *run, now time.Time) (standing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found standing
	var at token.Digest
	for _, scope := range []nacre.RulingScope{nacre.ScopeTool, nacre.ScopeSame, nacre.ScopeExact} {
		key := r.like(scope)
		kept, ok := s.kept[key]
		if ok && !now.Before(kept.since) && now.Before(kept.until) && (found.question == "" || kept.verdict < found.verdict) {
			found, at = kept, key
		}
	}
	s.count(at, found)
	return found, found.question != ""
}

// count takes one call off a ruling that stands for so many. It is called with mu held.
func (s *standings) count(key token.Digest, taken standing) {
	if !taken.counted {
		return
	}
	if taken.left--; taken.left <= 0 {
		delete(s.kept, key)
		return
	}
	s.kept[key] = taken
}

// like digests what calls have in common that one ruling may stand for: the
// code, the rules and the one that asks, who acts and whether they have read
// untrusted text, and in ScopeSame the values in which a wrong one does harm.
// Where a tool does not say which those are, all of its arguments are, as in ScopeExact.
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
