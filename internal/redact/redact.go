// Package redact promises that credentials and personal numbers do not leave
// in what it lets through: results, errors, logs and transcripts go through one
// engine (D-15, K-15). Its time is linear in its input whatever that input is,
// and it allocates nothing where there is nothing to hide, but for the names of
// members that it keeps.
//
// It does not promise to know every secret: what has no form, no name before
// it and no checksum looks like any other word. It decides on bytes alone, and
// does no I/O of its own.
package redact

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
	"unsafe"

	"github.com/nacre-dev/nacre/internal/automaton"
)

// Marker stands where a secret was.
const Marker = "[REDACTED]"

// Engine finds secrets. All of them are one, which is built with the first text
// that any looks at. An Engine is safe for concurrent use.
type Engine struct {
	words    func() *automaton.Machine // made for the first text that may hold a secret
	keywords []keyword

	secretNames, holders map[string]struct{}
	// suspects sorts out the short texts that cannot hold a secret.
	suspects suspects
	// rooms holds what decoding needs between two searches.
	rooms sync.Pool
	// keys are names of JSON's members, with what they say.
	keys *[knownKeys]atomic.Pointer[knownKey]
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
	byJWK
	byPart
)

// check looks for a secret around a keyword in the text from start up to end.
func (k *keyword) check(h *hunt, start, end int) (span, bool) {
	switch k.how {
	case byForm:
		return k.form.check(h, start, end)
	case byShape:
		return k.shape.check(h, start, end)
	case byName:
		return (&assignment{h, k.kind, start, end}).secret()
	case byHeader:
		return h.authorization(start, end)
	case byCookie:
		return h.cookie(end)
	case byUser:
		return h.userOption(start, end)
	case byOption:
		return h.passwordOption(start, end)
	case byPair:
		return h.pairArgument(end)
	case byURL:
		return h.userinfo(end)
	case byJWK:
		return h.webKey(start)
	case byPart:
		return h.keyPart(start)
	case byAt:
		return h.address(start, end)
	default:
		return h.privateKey(start, end)
	}
}

// span is where a secret stands, from start up to end.
type span struct{ start, end int }

// hunt is one search through one text.
type hunt struct {
	reading
	// found are the secrets so far, in the order of their discovery. personal are those of them
	// that are personal data, and of which kind.
	found    []span
	personal []personal
	// keyEnd is where the last end of a private key that was looked for stands.
	keyEnd int
	// open is where a token begins that the text's end has cut.
	open int
	// engine says what the names of columns mean. tables are those that were found, and tabledTo is
	// up to where lines were looked at for the header of one.
	engine   *Engine
	tables   []tabled
	tabledTo int
	// keyedTo is up to where JSON Web Keys were looked through.
	keyedTo int
	// belowTo is up to where what stands below secret names was looked through.
	belowTo int
}

// reading is the text of a hunt.
type reading struct {
	text string
	// runs remember how far the last run of each class of bytes went, so that
	// keywords inside one run do not each walk it to its end.
	runs [classCount]span
}

// shared is the one engine that searches: it never changes, and building it takes
// longer than most calls, and longer than some commands have.
var shared = sync.OnceValue(build)

// New gives an engine.
func New() *Engine { return &Engine{} }

func build() *Engine {
	e := &Engine{secretNames: set(secretNames), holders: set(holders), keys: new([knownKeys]atomic.Pointer[knownKey])}
	var words []string
	add := func(k keyword, spellings ...string) {
		for range spellings {
			e.keywords = append(e.keywords, k)
		}
		words = append(words, spellings...)
	}
	published := forms()
	for i := range published {
		add(keyword{how: byForm, form: &published[i]}, published[i].prefix)
	}
	for i := range shapes {
		add(keyword{how: byShape, shape: &shapes[i]}, shapes[i].infix)
	}
	for _, name := range names {
		add(keyword{how: byName, kind: name.kind}, name.words...)
	}
	add(keyword{how: byBlock}, "-----begin", "private-lines:")
	add(keyword{how: byJWK}, `"kty"`, `"kty\"`, `'kty'`)
	add(keyword{how: byPart}, `"d"`, `"p"`, `"q"`, `"dp"`, `"dq"`, `"qi"`, `"d\"`, `"p\"`, `"q\"`, `"dp\"`, `"dq\"`, `"qi\"`)
	add(keyword{how: byHeader}, "bearer", "basic")
	add(keyword{how: byCookie}, "cookie")
	add(keyword{how: byURL}, "://")
	add(keyword{how: byUser}, "-u ", "--user ", "--user=", "--proxy-user ", "--proxy-user=")
	add(keyword{how: byOption}, " -p", " -p ", " -a ", " -w ")
	add(keyword{how: byPair}, "auth=(", "auth = (", "basicauth(", "basic_auth(")
	add(keyword{how: byAt}, "@")
	e.words = sync.OnceValue(func() *automaton.Machine { return automaton.New(words) })
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
func (*Engine) String(s string) (string, bool) { return shared().string(s, nil) }

func (e *Engine) string(s string, name Namer) (string, bool) {
	if !e.suspects.suspect(s) {
		return s, false
	}
	d := dig{engine: e}
	found := e.findIn(&d, s)
	if len(found) == 0 {
		return s, false
	}
	var b strings.Builder
	b.Grow(len(s))
	at := 0
	for _, f := range found {
		b.WriteString(s[at:f.start])
		b.WriteString(d.word(s, f, name))
		at = f.end
	}
	b.WriteString(s[at:])
	clean := b.String()
	return clean, clean != s
}

// find returns the secrets of s, in order, without overlaps.
func (e *Engine) find(s string) []span { return e.findIn(&dig{engine: e}, s) }

// findOpen also returns where something begins that may be a secret together with what follows s,
// or len(s) where there is no such place. The tables of s come last, of which the first may have
// begun before it.
func (e *Engine) findOpen(s string, begun *table) (found []span, open int, tables []tabled) {
	d := dig{engine: e, begun: begun}
	return e.findIn(&d, s), d.open, d.tables
}

func (e *Engine) findIn(d *dig, s string) []span {
	var found []span
	found, d.open = d.search(s, 0)
	if d.room != nil {
		e.rooms.Put(d.room)
	}
	return merged(found)
}

// findPlain looks at a text as it stands, which may go on with a table.
func (e *Engine) findPlain(s string, begun *table) hunt {
	h := hunt{reading: reading{text: s}, open: len(s), engine: e}
	if begun != nil {
		h.rows(*begun, -1, -1)
	}
	e.walk(&h)
	h.numbers()
	for i := range h.found {
		h.found[i] = whole(s, h.found[i])
	}
	return h
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
	skip := 0 // what stands before it was redacted
	e.words().Walk(h.text, func(end int, words []automaton.Hit) int {
		for _, hit := range words {
			start := end - int(hit.Length)
			if start < skip {
				continue
			}
			if f, ok := e.keywords[hit.Word].check(h, start, end); ok {
				h.found = append(h.found, f)
				skip = max(skip, f.end)
				if e.keywords[hit.Word].how == byAt {
					h.personal = append(h.personal, personal{f, Email})
				}
			}
		}
		return skip
	})
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
