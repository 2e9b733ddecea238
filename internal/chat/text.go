package chat

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind is how a service shows a text.
type Kind int

// The kinds of text that services show in different ways.
const (
	Plain Kind = iota
	InlineCode
	CodeBlock
)

// Span is a text of one kind. None of it is markup of a service.
type Span struct {
	Text string
	Kind Kind
}

// Text is what one message shows.
type Text []Span

// plainly is a text as it stands.
func plainly(text string) Text { return Text{{text, Plain}} }

// Messages are a text, cut where it has more than limit UTF-16 units, in which services count.
// Code stays code over a cut; no character is cut, and none of the text is markup of its own.
func Messages(text string, limit int) []Text {
	var list []Text
	var current Text
	room, visible := limit, false
	flush := func() {
		if visible {
			list = append(list, current)
		}
		current, room, visible = nil, limit, false
	}
	for _, s := range spans(Clean(text)) {
		for s.Text != "" {
			piece := fitting(s.Text, room)
			if piece == "" {
				flush()
				continue
			}
			current = append(current, Span{piece, s.Kind})
			room -= units(piece)
			visible = visible || strings.TrimSpace(piece) != ""
			if s.Text = s.Text[len(piece):]; s.Text != "" {
				flush()
			}
		}
	}
	flush()
	return list
}

// Whole is a text that one message shows all of, none of it markup; nil where it does not fit.
func Whole(text string, limit int) Text {
	text = Clean(text)
	if units(text) > limit || strings.TrimSpace(text) == "" {
		return nil
	}
	return plainly(text)
}

// Clean leaves out what is not text, and what turns the direction of others' words.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), r >= '\u202A' && r <= '\u202E', r >= '\u2066' && r <= '\u2069':
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// spans reads fenced blocks and code in back quotes; a fence that is not closed ends with the text.
func spans(text string) []Span {
	var list []Span
	var block strings.Builder
	kind := Plain
	end := func() {
		if kind == CodeBlock {
			list = append(list, Span{strings.TrimSuffix(block.String(), "\n"), CodeBlock})
		} else {
			list = append(list, inline(block.String())...)
		}
		block.Reset()
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") && !strings.Contains(strings.TrimSpace(line)[3:], "`") {
			end()
			kind = CodeBlock - kind
			continue
		}
		block.WriteString(line)
	}
	end()
	return list
}

// inline reads code in single back quotes, on one line each.
func inline(text string) []Span {
	var list []Span
	for text != "" {
		before, rest, found := strings.Cut(text, "`")
		code, after, closed := strings.Cut(rest, "`")
		if !found || !closed || code == "" || strings.Contains(code, "\n") {
			upTo := len(before)
			if found {
				upTo++ // the quote is text
			}
			list, text = append(list, Span{text[:upTo], Plain}), text[upTo:]
			continue
		}
		list, text = append(list, Span{before, Plain}, Span{code, InlineCode}), after
	}
	return list
}

func units(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// fitting is the beginning of a text that has room: up to the end of a line or word where
// that leaves out little.
func fitting(text string, room int) string {
	used, end := 0, 0
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if used+utf16.RuneLen(r) > room {
			break
		}
		used, end = used+utf16.RuneLen(r), end+size
	}
	if end == len(text) {
		return text
	}
	for _, mark := range []string{"\n", " "} {
		if at := strings.LastIndex(text[:end], mark); at >= end/2 && at > 0 {
			return text[:at+1]
		}
	}
	return text[:end]
}
