// Package redact promises that credentials and personal numbers do not leave
// in what it lets through: results, errors, logs and transcripts go through one
// engine (D-15, K-15). Its time is linear in its input whatever that input is,
// and it allocates nothing where there is nothing to hide.
//
// It does not promise to know every secret: what has no form, no name before
// it and no checksum looks like any other word. It decides on bytes alone, and
// does no I/O of its own.
package redact

import (
	"slices"
	"strings"
	"unsafe"
)

// Marker stands where a secret was.
const Marker = "[REDACTED]"

// Engine finds secrets. The zero value is not usable: call New. An Engine is
// immutable and safe for concurrent use.
type Engine struct {
	words automaton
	// checks and kinds are those of each keyword.
	checks []check
	kinds  []kind

	secretNames, holders map[string]struct{}
}

// check looks for a secret around a keyword that ended before end, and returns
// the span of its secret part, or false.
type check func(h *hunt, start, end int) (span, bool)

// span is where a secret stands, from start up to end.
type span struct{ start, end int }

// hunt is one search through one text.
type hunt struct {
	text string
	// found are the secrets so far, in the order of their discovery.
	found []span
	// keyEnd is where the last end of a private key that was looked for stands.
	keyEnd int
	// runs remember how far the last run of each class of bytes went, so that
	// keywords inside one run do not each walk it to its end.
	runs [classCount]span
}

// New builds an engine.
func New() *Engine {
	e := &Engine{secretNames: set(secretNames), holders: set(holders)}
	var words []string
	add := func(c check, k kind, keywords ...string) {
		for range keywords {
			e.checks = append(e.checks, c)
			e.kinds = append(e.kinds, k)
		}
		words = append(words, keywords...)
	}
	for _, form := range forms {
		add(form.check, notSecret, form.prefix)
	}
	for _, name := range names {
		add(assigned(name.kind), name.kind, name.words...)
	}
	add(privateKey, notSecret, "-----begin", "putty-user-key-file")
	add(header, notSecret, "bearer", "basic")
	add(cookie, notSecret, "cookie")
	add(userinfo, notSecret, "://")
	add(address, notSecret, "@")
	e.words = newAutomaton(words)
	return e
}

func set(names []string) map[string]struct{} {
	m := make(map[string]struct{}, len(names))
	for _, name := range names {
		m[name] = struct{}{}
	}
	return m
}

// String returns s with every secret replaced by Marker, and whether there was one.
func (e *Engine) String(s string) (string, bool) {
	var room [8]span
	found := e.find(s, room[:0])
	if len(found) == 0 {
		return s, false
	}
	var b strings.Builder
	b.Grow(len(s))
	at := 0
	for _, f := range found {
		b.WriteString(s[at:f.start])
		b.WriteString(Marker)
		at = f.end
	}
	b.WriteString(s[at:])
	return b.String(), true
}

// find appends the secrets of s to found, in order, without overlaps.
func (e *Engine) find(s string, found []span) []span {
	if disguised(s) {
		plain := undisguise(s)
		return plain.mapped(e.findPlain(plain.text, found))
	}
	return e.findPlain(s, found)
}

func (e *Engine) findPlain(s string, found []span) []span {
	h := hunt{text: s, found: found}
	e.keywords(&h)
	numbers(&h)
	return merged(h.found)
}

// keywords runs the check of every keyword that is found in the text.
func (e *Engine) keywords(h *hunt) {
	state := uint16(0)
	skip := 0 // what stands before it was redacted
	for i := 0; i < len(h.text); i++ {
		state = e.words.step(state, h.text[i])
		if e.words.hits[state] == nil {
			continue
		}
		for _, hit := range e.words.hits[state] {
			start := i + 1 - int(hit.length)
			if start < skip {
				continue
			}
			if f, ok := e.checks[hit.word](h, start, i+1); ok {
				h.found = append(h.found, f)
				skip = max(skip, f.end)
			}
		}
		if skip > i+1 {
			i, state = skip-1, 0
		}
	}
}

// merged sorts spans and joins those that touch or overlap.
func merged(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if s.start < last.end {
			last.end = max(last.end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// view is b as a string that is only read while b does not change: copying
// every chunk of a log to look at it would double its cost.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
