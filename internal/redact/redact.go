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
	"sync"
	"unicode/utf8"
	"unsafe"
)

// Marker stands where a secret was.
const Marker = "[REDACTED]"

// Engine finds secrets. All of them are one, which is built with the first text
// that any looks at. An Engine is safe for concurrent use.
type Engine struct {
	words    automaton
	keywords []keyword

	secretNames, holders map[string]struct{}
	// suspects sorts out the short texts that cannot hold a secret.
	suspects suspects
	// rooms holds what decoding needs between two searches.
	rooms sync.Pool
}

// keyword is what to look for around one: by a switch and not by a function
// value, which would put every search on the heap.
type keyword struct {
	how   how
	form  *form
	shape *shape
	kind  kind
}

// how a secret stands to its keyword.
type how uint8

const (
	byForm how = iota
	byShape
	byName
	byHeader
	byCookie
	byURL
	byUser
	byOption
	byPair
	byAt
	byBlock
)

// check looks for a secret around a keyword in the text from start up to end.
func (k *keyword) check(h *hunt, start, end int) (span, bool) {
	switch k.how {
	case byForm:
		return k.form.check(h, start, end)
	case byShape:
		return k.shape.check(h, start, end)
	case byName:
		return assigned(h, k.kind, start, end)
	case byHeader:
		return header(h, start, end)
	case byCookie:
		return cookie(h, end)
	case byUser:
		return userOption(h, start, end)
	case byOption:
		return passwordOption(h, start, end)
	case byPair:
		return pairArgument(h, end)
	case byURL:
		return userinfo(h, end)
	case byAt:
		return address(h, start, end)
	default:
		return privateKey(h, start, end)
	}
}

// span is where a secret stands, from start up to end.
type span struct{ start, end int }

// hunt is one search through one text.
type hunt struct {
	text string
	// found are the secrets so far, in the order of their discovery.
	found []span
	// keyEnd is where the last end of a private key that was looked for stands.
	keyEnd int
	// open is where a token begins that the text's end has cut.
	open int
	// runs remember how far the last run of each class of bytes went, so that
	// keywords inside one run do not each walk it to its end.
	runs [classCount]span
}

// shared is the one engine that searches: it never changes, and building it takes
// longer than most calls, and longer than some commands have.
var shared = sync.OnceValue(build) //nolint:gochecknoglobals // nothing can write it

// New gives an engine.
func New() *Engine { return &Engine{} }

func build() *Engine {
	e := &Engine{secretNames: set(secretNames), holders: set(holders)}
	var words []string
	add := func(k keyword, spellings ...string) {
		for range spellings {
			e.keywords = append(e.keywords, k)
		}
		words = append(words, spellings...)
	}
	for i := range forms {
		add(keyword{how: byForm, form: &forms[i]}, forms[i].prefix)
	}
	for i := range shapes {
		add(keyword{how: byShape, shape: &shapes[i]}, shapes[i].infix)
	}
	for _, name := range names {
		add(keyword{how: byName, kind: name.kind}, name.words...)
	}
	add(keyword{how: byBlock}, "-----begin", "private-lines:")
	add(keyword{how: byHeader}, "bearer", "basic")
	add(keyword{how: byCookie}, "cookie")
	add(keyword{how: byURL}, "://")
	add(keyword{how: byUser}, "-u ", "--user ", "--user=", "--proxy-user ", "--proxy-user=")
	add(keyword{how: byOption}, " -p", " -p ", " -a ", " -w ")
	add(keyword{how: byPair}, "auth=(", "auth = (", "basicauth(", "basic_auth(")
	add(keyword{how: byAt}, "@")
	e.words = newAutomaton(words)
	for i, word := range words {
		if k := &e.keywords[i]; k.how != byForm && k.how != byShape && k.how != byURL && k.how != byAt || word == "eyj" {
			e.suspects.learn(word)
		}
	}
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
func (*Engine) String(s string) (string, bool) {
	e := shared()
	if !e.suspects.suspect(s) {
		return s, false
	}
	found := e.find(s)
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

// find returns the secrets of s, in order, without overlaps.
func (e *Engine) find(s string) []span {
	found, _ := e.findOpen(s)
	return found
}

// findOpen also returns where something begins that may be a secret together
// with what follows s: len(s) where there is no such place.
func (e *Engine) findOpen(s string) (found []span, open int) {
	d := dig{engine: e}
	found, open = d.search(s, 0)
	if d.room != nil {
		e.rooms.Put(d.room)
	}
	return merged(found), open
}

// findPlain looks at a text as it stands.
func (e *Engine) findPlain(s string) (found []span, open int) {
	h := hunt{text: s, open: len(s)}
	e.walk(&h)
	numbers(&h)
	for i := range h.found {
		h.found[i] = whole(s, h.found[i])
	}
	return h.found, h.open
}

// whole widens a span that a limit has put into the middle of a character.
func whole(s string, f span) span {
	for f.start > 0 && !utf8.RuneStart(s[f.start]) {
		f.start--
	}
	for f.end < len(s) && !utf8.RuneStart(s[f.end]) {
		f.end++
	}
	return f
}

// walk checks every keyword that is found in the text.
func (e *Engine) walk(h *hunt) {
	state := uint32(0)
	skip := 0 // what stands before it was redacted
	for i := 0; i < len(h.text); i++ {
		state = e.words.step(state, h.text[i])
		if state < ends {
			continue
		}
		for _, hit := range e.words.found(state) {
			start := i + 1 - int(hit.length)
			if start < skip {
				continue
			}
			if f, ok := e.keywords[hit.word].check(h, start, i+1); ok {
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
