package search

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// words splits a text into terms: at everything that is no letter or digit, at the humps of
// camelCase and between letters and digits. Terms are without marks and case, plurals are their
// singular, and stop words are left out. It keeps its memory for the next text.
type words struct {
	text []byte // what is left to read
	buf  []byte
	word []byte // good until the next call of next
}

// read starts on a text, of which limit bytes count.
func (w *words) read(text string, limit int) {
	text = text[:min(len(text), limit)]
	w.buf = w.buf[:0]
	if ascii(text) {
		w.buf = append(w.buf, text...)
	} else {
		w.buf = norm.NFKD.AppendString(w.buf, text)
	}
	w.text = w.buf
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// next reads the next term into word, and reports whether there was one.
func (w *words) next() bool {
	for w.span() {
		if !stopWord(w.word) {
			w.word = singular(w.word)
			return true
		}
	}
	return false
}

// kind is what a rune is to the splitter.
type kind uint8

const (
	between kind = iota
	lowerCase
	upperCase
	digit
	// ideograph is a word of its own: such scripts put no space between words.
	ideograph
	// mark belongs to what stands before it and is dropped.
	mark
)

func kindOf(r rune) kind {
	switch {
	case 'a' <= r && r <= 'z':
		return lowerCase
	case 'A' <= r && r <= 'Z':
		return upperCase
	case '0' <= r && r <= '9':
		return digit
	case r < utf8.RuneSelf:
		return between
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
		return ideograph
	case unicode.IsUpper(r):
		return upperCase
	case unicode.IsLetter(r):
		return lowerCase
	case unicode.IsNumber(r):
		return digit
	}
	return between
}

// span reads one run of letters or digits, folded, into word.
func (w *words) span() bool {
	w.word = w.word[:0]
	last := between
	for len(w.text) > 0 {
		r, size := decode(w.text)
		now := kindOf(r)
		if last != between && now != mark && w.splits(last, now, size) {
			return true
		}
		w.text = w.text[size:]
		if now == between || now == mark {
			continue
		}
		w.word = utf8.AppendRune(w.word, fold(r))
		last = now
	}
	return len(w.word) > 0
}

func decode(text []byte) (rune, int) {
	if text[0] < utf8.RuneSelf {
		return rune(text[0]), 1
	}
	return utf8.DecodeRune(text)
}

// splits reports whether a word ends before what stands next, which is size
// bytes long: in "listHTTPServers2" before H, S and 2.
func (w *words) splits(last, now kind, size int) bool {
	if last == upperCase && now == upperCase {
		rest := w.text[size:]
		if len(rest) == 0 {
			return false
		}
		after, _ := decode(rest)
		return kindOf(after) == lowerCase
	}
	return last == ideograph || now != last && (last != upperCase || now != lowerCase)
}

func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToLower(r)
	}
	return unicode.ToLower(unicode.ToUpper(r)) // final and medial sigma are one letter
}

// singular cuts a plural's ending: simple rules that map both forms to one,
// not to a word of the language.
func singular(word []byte) []byte {
	n := len(word)
	if n < 4 {
		return word
	}
	switch {
	case n > 4 && bytes.HasSuffix(word, []byte("ies")):
		word[n-3] = 'y'
		return word[:n-2]
	case word[n-1] == 's' && bytes.IndexByte([]byte("sui"), word[n-2]) < 0:
		word = word[:n-1]
	}
	for _, end := range [...]string{"che", "she", "xe", "se", "ze"} {
		if len(word) > 3 && bytes.HasSuffix(word, []byte(end)) {
			return word[:len(word)-1]
		}
	}
	return word
}

// stopWord reports whether a word says nothing about a goal.
func stopWord(word []byte) bool {
	switch string(word) {
	case "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "does", "for", "from", "how", "i",
		"in", "into", "is", "it", "its", "me", "my", "need", "of", "on", "or", "our", "please", "should", "so",
		"that", "the", "their", "them", "then", "this", "to", "using", "want", "was", "we", "what", "when",
		"which", "will", "with", "would", "you", "your":
		return true
	}
	return false
}
