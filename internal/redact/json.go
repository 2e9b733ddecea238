package redact

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of JSON.
const (
	// MaxDepth is how deep a document may be nested.
	MaxDepth = 128
	// MaxPaths is how many paths of redacted fields are told; the last one then
	// says how many more there were.
	MaxPaths = 64
	// maxPath is the longest path that is told, in bytes.
	maxPath = 256
)

// ErrNotJSON is what JSON returns for bytes that are not one JSON value in UTF-8.
var ErrNotJSON = errors.New("not JSON")

// JSON returns raw with every secret in its strings, keys and long numbers
// replaced, and the paths of what was: `rows[3].password`. Everything else,
// spelling of numbers, order of keys and white space, stays as it was; where
// nothing was found out is raw itself. Values under sensitive names, such as
// password or cvv, are replaced whatever they are.
func (e *Engine) JSON(raw []byte) (out []byte, paths []string, err error) {
	w := walker{engine: e, text: view(raw)}
	w.space()
	w.value(naming{})
	w.space()
	if w.bad || w.at != len(w.text) {
		return nil, nil, fmt.Errorf("%w: at byte %d of %d", ErrNotJSON, w.at, len(raw))
	}
	if w.out == nil {
		return raw, nil, nil
	}
	if w.more > 0 {
		w.paths = append(w.paths, "+"+strconv.Itoa(w.more)+" more")
	}
	return append(w.out, w.text[w.copied:]...), w.paths, nil
}

// walker reads one document, and writes it anew from the first secret on.
type walker struct {
	engine *Engine
	text   string
	at     int
	bad    bool
	depth  int
	// out is the document up to copied; nil until a secret is found.
	out    []byte
	copied int
	paths  []string
	more   int
	// steps lead from the root to here.
	steps [MaxDepth + 1]step
	// seen are keys that were looked at: those of a row come again in the next.
	seen [knownKeys]knownKey
}

// knownKeys is how many keys are remembered, a power of two.
const knownKeys = 32

type knownKey struct {
	name  string
	clean bool
	// kind is how a string under the key is judged, secret whether its name alone
	// makes it one, holder whether it does within an object with a secret name.
	kind           kind
	secret, holder bool
}

// known is what a key's name says, looked up once for the rows that share it.
func (w *walker) known(name string) *knownKey {
	slot := uint(len(name))
	if len(name) > 0 {
		slot = slot*31 + uint(name[0])*7 + uint(name[len(name)-1])*3 + uint(name[len(name)/2])
	}
	k := &w.seen[slot%knownKeys]
	if k.name != name || name == "" {
		_, found := w.engine.String(name)
		*k = w.engine.meaning(name)
		k.clean = !found && !strings.HasPrefix(name, Marker)
	}
	return k
}

// step is one level of a path.
type step struct {
	key     string
	index   int
	isIndex bool
}

func (w *walker) peek() byte {
	if w.at < len(w.text) {
		return w.text[w.at]
	}
	return 0
}

func (w *walker) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

func (w *walker) take(b byte) bool {
	if w.peek() != b {
		w.bad = true
		return false
	}
	w.at++
	return true
}

func (w *walker) value(n naming) {
	switch b := w.peek(); {
	case b == '{':
		w.nested(w.object, n)
	case b == '[':
		w.nested(w.array, n)
	case b == '"':
		w.string(n)
	case b == '-' || isDigit(b):
		w.number(n)
	default:
		w.literal()
	}
}

func (w *walker) nested(read func(naming), n naming) {
	if w.depth == MaxDepth {
		w.bad = true
		return
	}
	w.depth++
	read(n)
	w.depth--
}

func (w *walker) array(n naming) {
	w.at++
	if n.mode != named {
		n = naming{}
	}
	w.steps[w.depth] = step{isIndex: true}
	if w.space(); w.peek() == ']' {
		w.at++
		return
	}
	for !w.bad {
		w.space()
		w.value(n)
		w.space()
		if w.peek() == ']' {
			w.at++
			return
		}
		w.take(',')
		w.steps[w.depth].index++
	}
}

func (w *walker) object(n naming) {
	w.at++
	if w.space(); w.peek() == '}' {
		w.at++
		return
	}
	renamed := 0
	for !w.bad {
		w.space()
		known, found := w.key(&renamed)
		if found {
			w.tell()
		}
		w.space()
		if !w.take(':') {
			return
		}
		w.space()
		w.value(known.naming(n, w.peek()))
		w.space()
		if w.peek() == '}' {
			w.at++
			return
		}
		w.take(',')
	}
}

// key reads a key, and returns what it says of a value that starts like the
// next one does. A key that is a secret gets a name that no other of its object
// has got.
func (w *walker) key(renamed *int) (k *knownKey, found bool) {
	start := w.at
	name, ok := w.scan()
	if !ok {
		return &knownKey{}, false
	}
	k = w.known(name)
	w.steps[w.depth] = step{key: name}
	if k.clean {
		return k, false
	}
	clean, _ := w.engine.String(name)
	if *renamed++; *renamed > 1 {
		clean += " " + strconv.Itoa(*renamed)
	}
	if clean == name {
		return k, false
	}
	w.steps[w.depth].key = clean
	w.replace(start, clean)
	return k, true
}

func (w *walker) string(n naming) {
	start := w.at
	s, ok := w.scan()
	if !ok {
		return
	}
	clean, found := Marker, n.mode == named && s != "" && s != Marker || n.kind != notSecret && secretValue(n.kind, s, true)
	if !found {
		clean, found = w.engine.String(s)
	}
	if found {
		w.replace(start, clean)
		w.tell()
	}
}

// number reads a number; one of a card's length is looked at.
func (w *walker) number(n naming) {
	start := w.at
	if w.peek() == '-' {
		w.at++
	}
	switch {
	case w.peek() == '0':
		w.at++
	case !w.digits():
		return
	}
	if w.peek() == '.' {
		w.at++
		w.digits()
	}
	if b := w.peek(); b == 'e' || b == 'E' {
		w.at++
		if b := w.peek(); b == '+' || b == '-' {
			w.at++
		}
		w.digits()
	}
	found := n.mode == named
	if s := w.text[start:w.at]; !found && len(s) >= 13 {
		_, found = w.engine.String(s)
	}
	if found && !w.bad {
		w.replace(start, Marker)
		w.tell()
	}
}

func (w *walker) digits() bool {
	start := w.at
	for isDigit(w.peek()) {
		w.at++
	}
	w.bad = w.bad || w.at == start
	return !w.bad
}

func (w *walker) literal() {
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(w.text[w.at:], word) {
			w.at += len(word)
			return
		}
	}
	w.bad = true
}

// scan reads a string and returns what it says.
func (w *walker) scan() (string, bool) {
	if !w.take('"') {
		return "", false
	}
	start, escaped, ascii := w.at, false, true
	for w.at < len(w.text) {
		b := w.text[w.at]
		switch {
		case b == '"':
			s := w.text[start:w.at]
			w.at++
			return w.said(s, escaped, ascii)
		case b == '\\':
			escaped = true
			w.at++
		case b < ' ':
			w.bad = true
			return "", false
		case b >= utf8.RuneSelf:
			ascii = false
		}
		w.at++
	}
	w.bad = true
	return "", false
}

func (w *walker) said(s string, escaped, ascii bool) (string, bool) {
	if !ascii && !utf8.ValidString(s) {
		w.bad = true
		return "", false
	}
	if !escaped {
		return s, true
	}
	var plain string
	if err := json.Unmarshal([]byte(w.text[w.at-len(s)-2:w.at]), &plain); err != nil {
		w.bad = true
		return "", false
	}
	return plain, true
}

// replace writes a string instead of what stands from start up to here.
func (w *walker) replace(start int, with string) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.text)+len(Marker))
	}
	w.out = append(w.out, w.text[w.copied:start]...)
	w.out = appendQuoted(w.out, with)
	w.copied = w.at
}

// tell notes the path from the root to here.
func (w *walker) tell() {
	if len(w.paths) == MaxPaths {
		w.more++
		return
	}
	var b strings.Builder
	for _, s := range w.steps[1 : w.depth+1] {
		switch {
		case s.isIndex:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
		if b.Len() > maxPath {
			break
		}
	}
	path := b.String()
	if len(path) > maxPath {
		path = strings.ToValidUTF8(path[:maxPath], "") + "…"
	}
	w.paths = append(w.paths, path)
}

// appendQuoted writes a JSON string, valid UTF-8 as it is.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			out = append(out, '\\', b)
		case b == '\n':
			out = append(out, `\n`...)
		case b == '\t':
			out = append(out, `\t`...)
		case b < ' ':
			out = append(out, `\u00`...)
			out = append(out, "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		default:
			out = append(out, b)
		}
	}
	return append(out, '"')
}
