package verify

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kindOf a lexeme.
type lexKind uint8

const (
	lexWord lexKind = iota
	lexQuoted
	lexNumber
	lexMark
)

// lexeme is one word, literal or mark of a source, with its lines.
type lexeme struct {
	kind        lexKind
	text        string // of a word or mark
	first, last int
}

// lexer cuts a source of a language with braces. What is in a comment or a
// literal is no mark.
type lexer struct {
	source string
	at     int
	line   int
	out    []lexeme
}

func (x *lexer) rest() string { return x.source[x.at:] }

func (x *lexer) starts(prefix string) bool { return strings.HasPrefix(x.rest(), prefix) }

// take moves on by n bytes, counting lines, and emits them as one lexeme.
func (x *lexer) take(kind lexKind, n int) {
	text := x.source[x.at : x.at+n]
	first := x.line
	x.skip(n)
	if kind == lexQuoted {
		text = ""
	}
	x.out = append(x.out, lexeme{kind, text, first, x.line})
}

func (x *lexer) skip(n int) {
	x.line += strings.Count(x.source[x.at:x.at+n], "\n")
	x.at += n
}

// toLineEnd moves to the end of the line.
func (x *lexer) toLineEnd() {
	if i := strings.IndexByte(x.rest(), '\n'); i >= 0 {
		x.at += i
		return
	}
	x.at = len(x.source)
}

// wordLength is how many bytes an identifier here has.
func (x *lexer) wordLength() int {
	for i, r := range x.rest() {
		if r != '_' && r != '$' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Mc, r)) {
			return i
		}
	}
	return len(x.source) - x.at
}

// numberLength is how many bytes a number here has, suffixes included. A sign
// in an exponent is a mark of its own, which changes nothing.
func (x *lexer) numberLength() int {
	text := x.rest()
	n := 0
	for n < len(text) && (text[n] == '_' || text[n] >= '0' && text[n] <= '9' || text[n] >= 'a' && text[n] <= 'z' || text[n] >= 'A' && text[n] <= 'Z' ||
		text[n] == '.' && n+1 < len(text) && text[n+1] >= '0' && text[n+1] <= '9') {
		n++
	}
	return n
}

// quotedLength is how many bytes a literal here has, from its quote to the
// next one that no backslash hides. multiline says that it may go over lines.
// Zero is a literal that does not end.
func (x *lexer) quotedLength(multiline bool) int {
	text := x.rest()
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n':
			if !multiline {
				return 0
			}
		case text[0]:
			return i + 1
		}
	}
	return 0
}

// mark emits one character that is nothing else.
func (x *lexer) mark() {
	_, n := utf8.DecodeRuneInString(x.rest())
	x.take(lexMark, n)
}

// common takes what all languages have: spaces, words and numbers.
func (x *lexer) common() bool {
	c := x.source[x.at]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		x.skip(1)
	case c >= '0' && c <= '9':
		x.take(lexNumber, x.numberLength())
	default:
		n := x.wordLength()
		if n == 0 {
			return false
		}
		x.take(lexWord, n)
	}
	return true
}

func (x *lexer) unended(what string) error {
	return fmt.Errorf("line %d: %s does not end", x.line, what)
}

var closers = map[string]string{")": "(", "]": "[", "}": "{"}

// pairs finds, for each bracket, its other one; -1 is none. Where brackets
// cross, lenient takes braces to be right, since the text of markup may hold
// single parentheses; else it is an error.
func pairs(list []lexeme, lenient bool) ([]int, error) {
	match := make([]int, len(list))
	var open []int
	for i, l := range list {
		match[i] = -1
		if l.kind != lexMark {
			continue
		}
		switch l.text {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			at := len(open) - 1
			for lenient && l.text == "}" && at >= 0 && list[open[at]].text != "{" {
				at--
			}
			if at >= 0 && list[open[at]].text == closers[l.text] {
				match[i], match[open[at]] = open[at], i
				open = open[:at]
			} else if !lenient || l.text == "}" {
				return nil, fmt.Errorf("line %d: %s closes nothing", l.first, l.text)
			}
		}
	}
	for _, i := range open {
		if !lenient || list[i].text == "{" {
			return nil, fmt.Errorf("line %d: %s is not closed", list[i].first, list[i].text)
		}
	}
	return match, nil
}

var errTooMany = errors.New("it has too many parts")
