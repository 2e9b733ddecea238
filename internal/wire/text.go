package wire

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// fewKeys is up to how many keys of an object are compared one by one.
const fewKeys = 12

// maxShown is how much of a key an error message shows, in bytes.
const maxShown = 64

// keySet finds a key that is twice in an object. The keys of all objects that
// are open lie on one stack, so that small objects cost no memory of their own.
type keySet struct {
	// few are the keys of the open objects, the innermost last.
	few [][]byte
	// many are the keys of the object, once they are more than fewKeys.
	many map[string]struct{}
	// start is where the object's own begin in few.
	start int
}

// add reports whether the key is new.
func (k *keySet) add(key []byte, caseSensitive bool) bool {
	same := bytes.Equal
	if !caseSensitive {
		same = equalASCII
		if !isASCII(key) {
			key = fold(key)
		}
	}
	if k.many != nil {
		return k.addMany(key, caseSensitive)
	}
	for _, known := range k.few[k.start:] {
		if same(known, key) {
			return false
		}
	}
	k.few = append(k.few, key)
	if len(k.few)-k.start > fewKeys {
		k.many = make(map[string]struct{}, 4*fewKeys)
		for _, known := range k.few[k.start:] {
			k.addMany(known, caseSensitive)
		}
	}
	return true
}

func (k *keySet) addMany(key []byte, caseSensitive bool) bool {
	if !caseSensitive {
		key = fold(key)
	}
	if _, known := k.many[string(key)]; known {
		return false
	}
	k.many[string(key)] = struct{}{}
	return true
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// equalASCII compares keys of ASCII, and folded ones of more, without case.
func equalASCII(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if c != b[i] && upper(c) != upper(b[i]) {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// fold maps every spelling that a decoder matching without case takes for one
// name to one string: encoding/json folds all of Unicode, so that "ſession" is "session".
func fold(key []byte) []byte {
	folded := make([]byte, 0, len(key))
	for i := 0; i < len(key); {
		c := key[i]
		if c < utf8.RuneSelf {
			folded = append(folded, upper(c))
			i++
			continue
		}
		r, n := utf8.DecodeRune(key[i:])
		folded = utf8.AppendRune(folded, foldRune(r))
		i += n
	}
	return folded
}

// foldRune returns the smallest rune that equals r without case.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// simpleEscape returns what a one-letter escape stands for, or 0.
func simpleEscape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// decodeEscape decodes the \u escape, or the surrogate pair of two, that b
// starts with; the rune is negative where it is malformed.
func decodeEscape(b []byte) (r rune, width int) {
	r = hex4(b)
	if r < 0 || !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(b) < 12 {
		return -1, 0
	}
	if r = utf16.DecodeRune(r, hex4(b[6:])); r == utf8.RuneError {
		return -1, 0
	}
	return r, 12
}

// hex4 decodes "\uXXXX", or returns -1.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescape decodes what stands between the quotes of a string that was checked.
func unescape(raw []byte) []byte {
	text := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		switch {
		case raw[i] != '\\':
			text = append(text, raw[i])
			i++
		case raw[i+1] != 'u':
			text = append(text, simpleEscape(raw[i+1]))
			i += 2
		default:
			r, width := decodeEscape(raw[i:])
			text = utf8.AppendRune(text, r)
			i += width
		}
	}
	return text
}

// Text decodes a JSON string that came out of Object; ok is false where the
// value is not a string.
func Text(value []byte) (text string, ok bool) {
	s := scanner{data: value, limits: Limits{String: len(value)}}
	if s.peek() != '"' {
		return "", false
	}
	raw, escaped, err := s.text()
	if err != nil || s.pos != len(value) {
		return "", false
	}
	if escaped {
		raw = unescape(raw)
	}
	return string(raw), true
}

// AppendText appends s as a JSON string in its shortest form; bytes that are
// not UTF-8 become U+FFFD.
func AppendText(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ':
			dst = utf8.AppendRune(dst, r)
		case r == '\b':
			dst = append(dst, `\b`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		}
	}
	return append(dst, '"')
}

// QuoteName shows a key in a message: short, and without anything that could
// steer a terminal.
func QuoteName(key []byte) string { return strconv.QuoteToASCII(Shorten(string(key))) }

// Shorten cuts s to maxShown bytes at a rune's start.
func Shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	end := maxShown
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
