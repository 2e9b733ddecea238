package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// summaryBytes is what most objects fit into.
	summaryBytes = 1024
	// maxWords is how much of a text an object keeps, in bytes.
	maxWords = 2000
	// MaxListed is how many elements of a list an object keeps.
	MaxListed = 64
	// MaxListedBytes is about how much of a list it keeps: the last element then says
	// that there were more.
	MaxListedBytes = 4 << 10
)

// Summary is a JSON object while it is written, for what is kept of things that may be large or
// hostile. Texts and lists are cut, and what is empty is left out. Whoever writes the members in
// the order of their names has it canonical.
type Summary []byte

// NewSummary begins an object.
func NewSummary() Summary { return append(make(Summary, 0, summaryBytes), '{') }

// Key begins a member.
func (o *Summary) Key(name string) {
	b := *o
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	*o = append(append(append(b, '"'), name...), '"', ':')
}

// Text writes a text.
func (o *Summary) Text(name, value string) {
	if value == "" {
		return
	}
	o.Key(name)
	o.word(value)
}

func (o *Summary) word(value string) {
	if len(value) <= maxWords && IsPlain(value) { // as nearly all are
		*o = append(append(append(*o, '"'), value...), '"')
		return
	}
	*o = AppendText(*o, Cut(value, maxWords))
}

// IsPlain reports whether a text stands for itself in JSON, in ASCII.
func IsPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Number writes a whole number.
func (o *Summary) Number(name string, n int64) {
	if n != 0 {
		o.Key(name)
		*o = strconv.AppendInt(*o, n, 10)
	}
}

// Flag writes true.
func (o *Summary) Flag(name string, set bool) {
	if set {
		o.Key(name)
		*o = append(*o, "true"...)
	}
}

// List writes texts.
func (o *Summary) List(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.Key(name)
	*o = append(*o, '[')
	start := len(*o)
	for i, value := range values {
		if i > 0 {
			*o = append(*o, ',')
		}
		if i == MaxListed || len(*o)-start > MaxListedBytes {
			o.word("…")
			break
		}
		o.word(value)
	}
	*o = append(*o, ']')
}

// Measure is what may be known of a value that is not kept. It returns what it
// has written of it.
func Measure[V ~string | ~[]byte](o *Summary, name string, value V) []byte {
	return measure(o, name, len(value), func() digest { return sha256.Sum256([]byte(value)) })
}

type digest = [sha256.Size]byte

// ahead is the length, in bytes, from which a digest takes longer than to begin it
// beside what else is done.
const ahead = 64 << 10

// MeasureAhead begins to measure a value that does not change any more. What it returns
// is [Measure] of it, and waits for the digest.
func MeasureAhead(value []byte) func(o *Summary, name string) []byte {
	if len(value) < ahead {
		return func(o *Summary, name string) []byte { return Measure(o, name, value) }
	}
	sum := sync.OnceValue(func() digest { return sha256.Sum256(value) })
	go sum()
	return func(o *Summary, name string) []byte { return measure(o, name, len(value), sum) }
}

func measure(o *Summary, name string, length int, sum func() digest) []byte {
	o.Key(name)
	start := len(*o)
	*o = strconv.AppendInt(append(*o, `{"bytes":`...), int64(length), 10)
	if length > 0 {
		digest := sum()
		*o = append(hex.AppendEncode(append(*o, `,"sha256":"`...), digest[:]), '"')
	}
	*o = append(*o, '}')
	return (*o)[start:]
}

// Measured is Measure of a value that was measured before.
func (o *Summary) Measured(name string, written []byte) {
	o.Key(name)
	*o = append(*o, written...)
}

// Element begins an object in a list.
func (o *Summary) Element(i int) {
	if i > 0 {
		*o = append(*o, ',')
	}
	*o = append(*o, '{')
}

// Objects writes a list with an object for each of all, whose members write adds; nothing
// where there are none.
func Objects[V any](o *Summary, name string, all []V, write func(V)) {
	if len(all) == 0 {
		return
	}
	o.Key(name)
	*o = append(*o, '[')
	for i, v := range all {
		o.Element(i)
		write(v)
		*o = append(*o, '}')
	}
	*o = append(*o, ']')
}

// Done is the whole object.
func (o *Summary) Done() []byte { return append(*o, '}') }

// Members writes a map of texts.
func Members[V ~string](o *Summary, name string, all map[string]V) {
	MembersOf(o, name, all, func(v V) string { return string(v) })
}

// MembersOf writes a map, by the texts of its values.
func MembersOf[V any](o *Summary, name string, all map[string]V, text func(V) string) {
	if len(all) == 0 {
		return
	}
	o.Key(name)
	*o = append(*o, '{')
	var few [16]string
	names := few[:0]
	for key := range all {
		names = append(names, key)
	}
	slices.Sort(names)
	for i, key := range names {
		if i > 0 {
			*o = append(*o, ',')
		}
		o.word(key)
		*o = append(*o, ':')
		o.word(text(all[key]))
	}
	*o = append(*o, '}')
}

// Cut keeps what is UTF-8 of a text, and at most limit bytes.
func Cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
