package provenance

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// charClass is what a character is to the words around it.
type charClass uint8

const (
	// other ends a word.
	other charClass = iota
	// word is a letter, a mark or a digit.
	word
	// joiner makes one value of the words on its sides, such as the dot of a host.
	joiner
)

const (
	asciiJoiners = `.-@+/\:%&=?#~'$`
	// hardBefore, before a value, makes another one of it: -5, /etc, ~root.
	hardBefore = `-+./\~%`
	// hardAfter does so after a value: c++, file~.
	hardAfter = `~+\=&#@`
	// maxJoiners is the longest run of joiners that is looked through.
	maxJoiners = 16
)

// endOfDoc stands between docs.
const endOfDoc = 0

// asciiClasses are the classes of ASCII. Texts are in lower case.
var asciiClasses = func() (classes [utf8.RuneSelf]charClass) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789_") {
		classes[c] = word
	}
	for _, c := range []byte(asciiJoiners) {
		classes[c] = joiner
	}
	return classes
}()

func classOfRune(r rune) charClass {
	switch {
	case r < utf8.RuneSelf:
		return asciiClasses[r]
	case r == utf8.RuneError, unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r):
		return word
	case unicode.In(r, unicode.Pd, unicode.Pc, unicode.Sm):
		return joiner
	}
	return other
}

func classAt(t []byte, i int) (charClass, int) {
	if i >= len(t) {
		return other, 0
	}
	if t[i] < utf8.RuneSelf {
		return asciiClasses[t[i]], 1
	}
	r, n := utf8.DecodeRune(t[i:])
	return classOfRune(r), n
}

func classBefore(t []byte, i int) (charClass, int) {
	if i <= 0 {
		return other, 0
	}
	if t[i-1] < utf8.RuneSelf {
		return asciiClasses[t[i-1]], 1
	}
	r, n := utf8.DecodeLastRune(t[:i])
	return classOfRune(r), n
}

// begins reports whether a value that stands at i in t begins there, and is not
// the rest of a longer one.
func begins(t []byte, i int) bool {
	first, _ := classAt(t, i)
	before, n := classBefore(t, i)
	switch {
	case first == other:
		return true
	case before == word:
		return false
	case before == other:
		return n == 0 || !groups(t, i-1)
	}
	start := i
	for before == joiner && i-start < maxJoiners {
		start -= n
		before, n = classBefore(t, start)
	}
	run := t[start:i]
	switch before {
	case joiner:
		return false
	case word:
		return labelled(t, start, run)
	}
	return !bytes.ContainsAny(run, hardBefore)
}

// labelled reports whether the word before a run of joiners is a label, as in
// "mailto:bob@example.com" or "to=bob", and not part of the value.
func labelled(t []byte, end int, run []byte) bool {
	if len(run) != 1 || (run[0] != ':' && run[0] != '=') {
		return false
	}
	if c, _ := classAt(t, end+1); c != word || (run[0] == ':' && isDigit(t[end+1])) {
		return false
	}
	start := end
	for start > 0 && 'a' <= t[start-1] && t[start-1] <= 'z' {
		start--
	}
	before, _ := classBefore(t, start)
	return end-start > 1 && before == other
}

// ends reports whether a value that stands before i in t ends there.
func ends(t []byte, i int) bool {
	last, _ := classBefore(t, i)
	after, n := classAt(t, i)
	switch {
	case last == other:
		return true
	case after == word:
		return false
	case after == other:
		return n == 0 || !groups(t, i)
	}
	end := i
	for after == joiner && end-i < maxJoiners {
		end += n
		after, n = classAt(t, end)
	}
	run := t[i:end]
	switch after {
	case joiner:
		return false
	case word:
		return genitive(t, end, run)
	}
	return !bytes.ContainsAny(run, hardAfter)
}

// genitive is the s of "Bob's".
func genitive(t []byte, i int, run []byte) bool {
	if t[i] != 's' || (string(run) != "'") {
		return false
	}
	after, _ := classAt(t, i+1)
	return after == other
}

// groups tells the comma of 1,500 from that of a list of words.
func groups(t []byte, i int) bool {
	return t[i] == ',' && i > 0 && i+1 < len(t) && isDigit(t[i-1]) && isDigit(t[i+1])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// wordLength counts the characters of words in a text, up to limit.
func wordLength(t []byte, limit int) int {
	count := 0
	for i := 0; i < len(t) && count < limit; {
		c, n := classAt(t, i)
		if c == word {
			count++
		}
		i += n
	}
	return count
}
