// Package reference promises that a personal value can be used without being seen (K-27). A
// session's [Table] gives each a word such as email:3-k7q2m, and gives the value back for the word.
// A word of another session, of another group, or one that nobody was given, is inert text.
//
// It does not decide who may use a value where, nor which values are personal:
// policy and the redactor do. It is not safe for concurrent use.
package reference

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"strconv"
	"strings"
)

// The bounds of a table. What is over them gets no word.
const (
	// MaxWords is how many values have words, MaxValue how long each is, in bytes.
	MaxWords = 16 << 10
	MaxValue = 512
	// maxKind is the longest name of a kind.
	maxKind = 16
	// tagLength is the length of a session's tag, in letters of five bits.
	tagLength = 5
)

// Tag is the end of all words of a session: secret is the kernel's, so that no
// text from outside can have it before it was shown.
func Tag(secret []byte, session string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("nacre.reference.1\x00" + session)) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(mac.Sum(nil))[:tagLength])
}

// Table is the words of one session.
type Table struct {
	tag    string
	words  map[string]string
	values map[string]string
	counts map[string]int
}

// New returns an empty table with a session's tag.
func New(tag string) *Table {
	return &Table{tag: tag, words: make(map[string]string), values: make(map[string]string), counts: make(map[string]int)}
}

// Word is the word for a value, the same one each time; not ok where there is no
// room for another.
func (t *Table) Word(kind, value string) (word string, ok bool) {
	if word, ok = t.words[value]; ok {
		return word, true
	}
	if len(t.words) >= MaxWords || len(value) > MaxValue || !isKind(kind) || value == "" {
		return "", false
	}
	t.counts[kind]++
	word = kind + ":" + strconv.Itoa(t.counts[kind]) + "-" + t.tag
	t.words[value], t.values[word] = word, value
	return word, true
}

// Shown is [Table.Word] with what a reader may see of the value beside it, where it is
// hinted at: email:3-k7q2m(s…@…example.com). A word is used with its hint or without.
func (t *Table) Shown(kind, value string, hinted bool) (word string, ok bool) {
	word, ok = t.Word(kind, value)
	if ok && hinted {
		word += hint(kind, value)
	}
	return word, ok
}

// Forget takes all words back: those that were shown are inert text from now on.
// What is given after counts on.
func (t *Table) Forget() {
	clear(t.words)
	clear(t.values)
}

// Empty reports whether there is no word.
func (t *Table) Empty() bool { return len(t.words) == 0 }

// Clear returns a text with the values in the place of their words. Where the
// text is JSON, they are written as a part of a JSON string.
func (t *Table) Clear(text []byte, isJSON bool) []byte {
	var out []byte
	copied := 0
	t.each(text, func(start, end int, value string) {
		out = append(append(out, text[copied:start]...), spelled(value, isJSON)...)
		copied = end
	})
	if out == nil {
		return text
	}
	return append(out, text[copied:]...)
}

// spelled is a value as a part of a text.
func spelled(value string, isJSON bool) string {
	if !isJSON {
		return value
	}
	quoted, err := json.Marshal(value)
	if err != nil { // of a string: never
		return ""
	}
	return string(quoted[1 : len(quoted)-1])
}

// each calls found with every word that stands in a text as a whole.
func (t *Table) each(text []byte, found func(start, end int, value string)) {
	if len(t.words) == 0 {
		return
	}
	mark := []byte("-" + t.tag)
	last := 0 // where the word before has ended
	for at := 0; ; {
		i := bytes.Index(text[at:], mark)
		if i < 0 {
			return
		}
		start, end := at+i, at+i+len(mark)
		at = end
		for start > last && isDigit(text[start-1]) {
			start--
		}
		if start > last && text[start-1] == ':' {
			start--
		}
		for begin := start; start > last && begin-start < maxKind && isLower(text[start-1]); {
			start--
		}
		joined := start > last && (isDigit(text[start-1]) || isLower(text[start-1]|0x20)) // the end of another word may be a digit
		value, ok := t.values[string(text[start:end])]
		if ok && !joined && (end == len(text) || !isLower(text[end]) && !isDigit(text[end])) {
			end += len(behind(text[end:], string(text[start:end]), value))
			last = end
			found(start, end, value)
		}
	}
}

func isKind(s string) bool {
	for i := range len(s) {
		if !isLower(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxKind
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isLower(b byte) bool { return 'a' <= b && b <= 'z' }
