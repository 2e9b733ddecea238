package firewall

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// Part says which part of a text is asked for: from so many characters or lines on, at most Limit
// of them. A negative limit means as many as there is room for.
type Part struct {
	From, Limit int
	Lines       bool
}

// partOverhead is about what a page of a text takes beside the frame and the text.
const partOverhead = 120

// breakWithin is how far before the end of a page a line or a word may end it.
const breakWithin = 512

// Text shows a part of a text that was redacted whole, so that no page ends inside of
// a secret (K-31). The one row of the frame says from where the part is, of how many
// in all, and where the next part begins.
func Text(quoted json.RawMessage, part Part, q Request, redactor Redactor) View {
	q.Limits.Chars = max(q.Limits.Chars, MinChars)
	text := valid(plain(quoted))
	b := builder{result: &Result{rows: []span{{}}, granted: 1}, limits: q.Limits, redactor: redactor}
	b.frame = nacre.Frame{Mode: nacre.ModeTable, Label: q.Label, Facts: []string{}, Rows: []json.RawMessage{}, Warnings: []string{}}
	if q.Handle != nil {
		b.hold(q.Handle)
	}
	b.warnAll(q.Warnings)
	b.room("")
	page := cutText(text, part, b.left-partOverhead)
	b.frame.Rows = []json.RawMessage{page.row()}
	b.frame.Omitted.Bytes = len(text) - len(page.text)
	b.size = len(page.text)
	b.done()
	return b.view
}

// textPage is a part of a text; from, next and of are in units.
type textPage struct {
	text           string
	from, next, of int
	lines          bool
	// within is set where a line is too long for a page: so many characters stand
	// before it.
	within int
}

func (t textPage) row() json.RawMessage {
	out := appendQuoted([]byte(`{"text":`), t.text)
	unit := "characters"
	if t.lines {
		unit = "lines"
	}
	out = fmt.Appendf(out, `,"unit":%q,"from":%d,"of":%d`, unit, t.from, t.of)
	if t.next < t.of {
		out = fmt.Appendf(out, `,"next":%d`, t.next)
	}
	if t.within > 0 {
		out = fmt.Appendf(out, `,"continue":{"unit":"characters","from":%d}`, t.within)
	}
	return append(out, '}')
}

// cutText takes the part of a text that costs at most room characters.
func cutText(text string, part Part, room int) textPage {
	if part.Lines {
		return cutLines(text, part, room)
	}
	page := textPage{from: part.From, of: utf8.RuneCountInString(text)}
	start := len(runes(text, part.From))
	page.from = min(part.From, page.of)
	fits, all := fitting(text[start:], part.Limit, room)
	if !all && part.Limit < 0 {
		fits = atBreak(fits)
	}
	page.text = fits
	page.next = page.from + utf8.RuneCountInString(fits)
	return page
}

// cutLines takes whole lines. A line that is too long by itself is shown at its
// beginning, and the rest of it is had by characters.
func cutLines(text string, part Part, room int) textPage {
	page := textPage{from: part.From, of: countLines(text), lines: true}
	start := 0
	for range min(part.From, page.of) {
		start += len(line(text[start:]))
	}
	page.from = min(part.From, page.of)
	end := start
	for n := 0; end < len(text) && (part.Limit < 0 || n < part.Limit); n++ {
		next := line(text[end:])
		fits, all := fitting(next, -1, room)
		if !all {
			if n == 0 {
				end += len(fits)
				page.within = utf8.RuneCountInString(text[:end])
				n++
			}
			page.text, page.next = text[start:end], page.from+n
			return page
		}
		room -= textCost(next)
		end += len(next)
		page.next = page.from + n + 1
	}
	page.next = max(page.next, page.from)
	page.text = text[start:end]
	return page
}

// line is the first line of a text, with its end.
func line(text string) string {
	if end := strings.IndexByte(text, '\n'); end >= 0 {
		return text[:end+1]
	}
	return text
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// fitting is the beginning of a text that has at most limit characters, where that is
// not negative, and costs at most room. all reports whether that is the whole text.
func fitting(text string, limit, room int) (begin string, all bool) {
	var one [16]byte
	for i, c := range text {
		if limit == 0 {
			return text[:i], false
		}
		limit--
		if c < utf8.RuneSelf && c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			room--
		} else {
			room -= cost(appendQuoted(one[:0], string(c))) - 2
		}
		if room < 0 {
			return text[:i], false
		}
	}
	return text, true
}

func textCost(text string) int { return cost(appendQuoted(nil, text)) - 2 }

// atBreak ends a text after its last line or word, where one ends near to its end.
func atBreak(text string) string {
	near := max(len(text)-breakWithin, 0)
	for _, end := range []string{"\n", " "} {
		if at := strings.LastIndex(text[near:], end); at >= 0 && near+at > 0 {
			return text[:near+at+1]
		}
	}
	return text
}
