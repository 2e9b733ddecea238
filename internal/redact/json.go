package redact

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	// maxOption is the longest option of a command that is looked at, in bytes, with its quotes.
	maxOption = 32
	// minCard is the length of the shortest number that is looked at.
	minCard = 13
	// maxPlaces is how many keys are remembered by their place in an object, knownKeys how many
	// of all documents, and maxKept the longest of these, in bytes.
	maxPlaces, knownKeys, maxKept = 32, 1024, 64
)

// ErrNotJSON is what JSON returns for bytes that are not one JSON value in UTF-8.
var ErrNotJSON = errors.New("not JSON")

// JSON returns raw with every secret in its strings, keys and long numbers
// replaced, and the paths of what was: `rows[3].password`. Everything else,
// spelling of numbers, order of keys and white space, stays as it was; where
// nothing was found out is raw itself. Values under sensitive names, such as
// password or cvv, are replaced whatever they are.
func (*Engine) JSON(raw []byte) (out []byte, paths []string, err error) {
	return shared().json(raw, nil)
}

func (e *Engine) json(raw []byte, name Namer) (out []byte, paths []string, err error) {
	w := walker{engine: worded{e, name}, text: view(raw)}
	w.jwk = strings.Contains(w.text, `kty"`) && strings.Contains(w.text, `"kty"`) // quotes are everywhere, and slow to look for
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
	engine worded
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
	// block follows a private key through the strings that its lines stand in.
	block keyBlock
	// columns are what the last list of names says of the lists that follow it.
	columns columns
	// jwk is set where the document says that it holds a JSON Web Key.
	jwk bool
	// last are the keys by their place in an object, as they were spelled, for
	// rows have theirs in one order.
	last [maxPlaces]spelled
}

// spelled is a clean key with its quotes and its colon. value is the last string in which
// nothing was found under such a key, with its quotes, or empty.
type spelled struct {
	text, value string
	key         *knownKey
}

// knownKey is what a key's name says. It does not change.
type knownKey struct {
	name  string
	clean bool
	// kind is how a string under the key is judged, secret whether its name alone
	// makes it one, holder whether it does within an object with a secret name.
	kind           kind
	secret, holder bool
	// personal is the kind of personal data that the name alone says it is.
	personal string
	// label: a string under the key names what the next field holds.
	label bool
	// inert: the key says nothing of its value, but where it stands within a secret name.
	inert bool
}

// known is what a key's name says. That of a clean name is kept, for one document
// mostly has the keys of the one before it.
func (e *Engine) known(name string) *knownKey {
	slot := uint32(len(name))
	for i := range min(len(name), maxKept) {
		slot = (slot ^ uint32(name[i])) * 16777619 // FNV-1a
	}
	kept := &e.keys[slot>>16%knownKeys]
	if k := kept.Load(); k != nil && k.name == name {
		return k
	}
	_, found := e.string(name, nil)
	k := e.meaning(name)
	k.clean = !found && !strings.HasPrefix(name, Marker)
	k.inert = k.clean && !k.secret && k.kind == notSecret && !k.label && (len(name) > 2 || !oneOf(privateParts, name))
	if k.clean && len(name) <= maxKept {
		k.name = strings.Clone(name) // it is part of a document
		kept.Store(&k)
	}
	return &k
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
	if w.at < len(w.text) && w.text[w.at] <= ' ' {
		w.blanks()
	}
}

func (w *walker) blanks() {
	for b := w.peek(); b == ' ' || b == '\t' || b == '\n' || b == '\r'; b = w.peek() {
		w.at++
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
	case b == '"':
		w.string(n)
	case b == '{', b == '[':
		w.nested(b, n)
	case b == '-' || isDigit(b):
		w.number(n)
	default:
		w.literal()
	}
}

func (w *walker) nested(open byte, n naming) {
	if w.depth == MaxDepth {
		w.bad = true
		return
	}
	w.depth++
	if open == '{' {
		w.object(n)
	} else {
		w.array(n)
	}
	w.depth--
}

func (w *walker) array(n naming) {
	w.at++
	w.steps[w.depth] = step{isIndex: true}
	names := columns{}
	defer func() { w.columns.take(names) }()
	if w.space(); w.peek() == ']' {
		w.at++
		return
	}
	option := notSecret
	for !w.bad {
		index := w.steps[w.depth].index
		w.space()
		means, start := n, w.at
		switch {
		case n.mode != named && option != notSecret:
			means = naming{kind: option}
		case n.mode == namedAround && w.peek() == '"':
			means = naming{kind: n.below("")}
		case n == (naming{}) && w.peek() == '"':
			means.kind = w.columns.of(index)
		case n.mode != named:
		case w.peek() == '{': // "phone": [{"type": "home", "value": …}]
			means.mode = namedAround
		}
		w.value(means)
		option = w.option(start)
		if !w.bad && w.at-start <= maxColumn && w.text[start] == '"' {
			names.name(index, w.engine.kindOf(w.text[start+1:w.at-1]))
		}
		w.space()
		if w.peek() == ']' {
			w.at++
			return
		}
		w.take(',')
		w.steps[w.depth].index++
	}
}

// option is how the value is judged that comes behind the element from start up
// to here, as in ["--password", "…"].
func (w *walker) option(start int) kind {
	if w.bad || w.at-start > maxOption || !strings.HasPrefix(w.text[start:w.at], `"--`) {
		return notSecret
	}
	return w.engine.kindOf(w.text[start+len(`"--`) : w.at-1])
}

func (w *walker) object(n naming) {
	w.at++
	if w.space(); w.peek() == '}' {
		w.at++
		return
	}
	renamed, label, unnamed := 0, "", n == (naming{})
	for place := w.depth; !w.bad; place++ {
		w.space()
		known := w.expected(place)
		if known == nil {
			if known = w.member(place, &renamed); known == nil {
				return
			}
		}
		w.space()
		if unnamed && known.inert && label == "" {
			w.unnamed(&w.last[place%maxPlaces])
			if w.goesOn() {
				continue
			}
			return
		}
		means, labels, start := known.naming(n, w.peek()), known.label && w.peek() == '"', w.at
		if label != "" && known.holder && means == (naming{}) {
			about := w.engine.meaning(label)
			means = about.naming(n, w.peek())
		}
		if w.peek() == '"' && len(known.name) <= 2 && oneOf(privateParts, known.name) {
			means = w.part(means)
		}
		if w.value(means); labels && !w.bad {
			label = w.text[start+1 : w.at-1]
		}
		if !w.goesOn() {
			return
		}
	}
}

// unnamed reads a value that is judged by itself. A string that the last object had here,
// and in which nothing was found, is not looked at again.
func (w *walker) unnamed(last *spelled) {
	start, copied, value := w.at, w.copied, last.value
	if end := start + len(value); value != "" && end <= len(w.text) && w.text[start:end] == value && !w.block.open {
		w.at = end
		return
	}
	quoted := w.peek() == '"'
	if w.value(naming{}); quoted && !w.bad && w.copied == copied && !w.block.open {
		last.value = w.text[start:w.at]
	}
}

// goesOn reads what follows a member, and reports whether that is another one.
func (w *walker) goesOn() bool {
	w.space()
	switch w.peek() {
	case ',':
		w.at++
		return true
	case '}':
		w.at++
	default:
		w.bad = true
	}
	return false
}

// expected takes the key that the last object had at this place, or returns nil.
func (w *walker) expected(place int) *knownKey {
	last := &w.last[place%maxPlaces]
	end := w.at + len(last.text)
	if last.text == "" || end > len(w.text) || w.text[w.at:end] != last.text {
		return nil
	}
	w.at = end
	here := &w.steps[w.depth]
	here.key, here.isIndex = last.key.name, false
	return last.key
}

// member reads a key and its colon, or returns nil.
func (w *walker) member(place int, renamed *int) *knownKey {
	start := w.at
	known, found := w.key(renamed)
	if found {
		w.tell()
	}
	w.space()
	if !w.take(':') {
		return nil
	}
	if known.clean && w.at-start == len(known.name)+3 && w.text[start+1:start+1+len(known.name)] == known.name {
		w.last[place%maxPlaces] = spelled{text: w.text[start:w.at], key: known}
	}
	return known
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
	k = w.engine.known(name)
	w.steps[w.depth] = step{key: name}
	if k.clean {
		return k, false
	}
	clean, _ := w.engine.string(name, w.engine.name)
	if *renamed++; *renamed > 1 && strings.Contains(clean, Marker) {
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
	if n == (naming{}) && !w.block.open && !w.engine.suspects.suspect(s) {
		return
	}
	found := w.block.holds(s) || n.mode == named && s != "" && s != Marker || n.kind != notSecret && secretValue(n.kind, s, true)
	clean := Marker
	switch {
	case !found:
		clean, found = w.engine.string(s, w.engine.name)
	case n.personal != "" && w.engine.name != nil:
		clean, found = w.engine.named(s, n.personal, w.engine.name)
	}
	if found {
		w.replace(start, clean)
		w.tell()
	}
}

// number reads a number; one of a card's length is looked at.
func (w *walker) number(n naming) {
	start := w.at
	if n.mode != named && w.short() {
		return
	}
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
	found, clean, s := n.mode == named, Marker, w.text[start:w.at]
	switch {
	case !found && len(s) >= minCard:
		clean, found = w.engine.string(s, w.engine.name)
	case found && n.personal != "" && w.engine.name != nil:
		clean, found = w.engine.named(s, n.personal, w.engine.name)
	}
	if found && !w.bad {
		w.replace(start, clean)
		w.tell()
	}
}

// short passes over a number that is only a few digits.
func (w *walker) short() bool {
	at := w.at
	for at < len(w.text) && isDigit(w.text[at]) {
		at++
	}
	if at == w.at || at == len(w.text) || w.text[w.at] == '0' || at-w.at >= minCard || w.text[at] == '.' || w.text[at]|0x20 == 'e' {
		return false
	}
	w.at = at
	return true
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
	word := "null"
	switch w.peek() {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	w.bad = !strings.HasPrefix(w.text[w.at:], word)
	w.at += len(word)
}
