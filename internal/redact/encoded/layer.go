package encoded

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// Layer is a text with its escapes undone, and where each stretch of it came
// from. Its room is used again for the next text.
type Layer struct {
	// Text is only read until the next Peel.
	Text  []byte
	marks []mark
}

// mark says that from plain on, the layer follows its source from there on.
type mark struct{ plain, source int }

// Spelling is a set of escapes that are undone together.
type Spelling uint8

const (
	// Escapes are those of programming languages, URLs, HTML and terminals,
	// characters that hide others, and literals that are joined by an operator.
	Escapes Spelling = iota
	// QuotedPrintable is that of mail (RFC 2045). It is a layer of its own, for
	// what it takes for an escape is often an assignment.
	QuotedPrintable
	// Spellings is how many there are.
	Spellings
)

// The lengths of what stands for one character, in bytes.
const (
	maxEntity   = 12
	maxTerminal = 24
	maxJoint    = 80
	// reach is how far before the first escape a layer begins: a name may stand there.
	reach = 256
	// maxLine and maxWindow are how much of a line and of a text a layer holds.
	maxLine   = 4 << 10
	maxWindow = 64 << 10
	// Overlap is how much of a window is looked at again with what follows.
	Overlap = 8 << 10
	// MinSoft is the shortest line of quoted-printable that is broken.
	MinSoft = 64
)

// hidden is the character of an escape that stands for nothing.
const hidden rune = -1

// escape is what stands at one place of a text for a character.
type escape struct {
	size int
	char rune
	// loud escapes are worth a look at what the text says without them; quiet
	// ones, such as \n, are undone with them.
	loud bool
}

// next is the first escape from i on, or one of size 0 at the end.
func (p Spelling) next(s string, i int) (int, escape) {
	for ; i < len(s); i++ {
		if p == QuotedPrintable {
			skip := strings.IndexByte(s[i:], '=')
			if skip < 0 {
				break
			}
			if i += skip; i+1 < len(s) && !soft[s[i+1]] { // an assignment
				continue
			}
		} else if i = nextSign(s, i); i == len(s) {
			break
		}
		if e := p.at(s, i); e.size > 0 {
			return i, e
		}
	}
	return len(s), escape{}
}

// nextSign is where the first sign from i on stands; most of a text is passed here,
// quotes that join nothing too.
func nextSign(s string, i int) int {
	for ; i < len(s); i++ {
		for i+octet <= len(s) {
			found := escaping(load(s[i:]))
			if found != 0 {
				i += first(found)
				break
			}
			i += octet
		}
		if i == len(s) || signs[s[i]] && (!quotes[s[i]] || i+1 < len(s) && (joins[s[i+1]] || s[i+1] == s[i])) {
			return i
		}
	}
	return len(s)
}

// nextLoud is where the first loud escape from i on stands and ends, or -1.
func (p Spelling) nextLoud(s string, i int) (at, end int) {
	for i < len(s) {
		at, e := p.next(s, i)
		i = at + max(1, e.size)
		if e.loud {
			return at, i
		}
	}
	return -1, i
}

// Window is the first stretch of s from i on that holds loud escapes, with the lines they stand in.
// again is from where to look for the next one.
func (p Spelling) Window(s string, i int) (w Span, again int, ok bool) {
	loud, end := p.nextLoud(s, i)
	if loud < 0 {
		return Span{}, 0, false
	}
	back := max(0, loud-reach)
	w.Start = back + strings.LastIndexByte(s[back:loud], '\n') + 1
	if line := strings.LastIndexByte(s[max(0, back-maxLine):back], '\n'); line >= 0 {
		w.Start = max(0, back-maxLine) + line + 1
	} else if back <= maxLine {
		w.Start = 0
	}
	for w.End = loud; loud >= 0 && w.End-w.Start < maxWindow; {
		w.End = end
		loud, end = p.nextLoud(s[:min(len(s), end+reach)], end)
	}
	again = w.End
	if w.End-w.Start >= maxWindow {
		again = w.End - Overlap
	}
	from := min(len(s), w.End+reach)
	w.End = min(len(s), from+maxLine)
	if line := strings.IndexByte(s[from:w.End], '\n'); line >= 0 {
		w.End = from + line + 1
	}
	return w, again, true
}

// Peel undoes the escapes in a window of s.
func (l *Layer) Peel(p Spelling, s string, w Span) {
	l.Text, l.marks = l.Text[:0], append(l.marks[:0], mark{0, w.Start})
	s = s[:w.End]
	for from := w.Start; from < len(s); {
		at, e := p.next(s, from)
		l.Text = append(l.Text, s[from:at]...)
		if from = at + e.size; e.size == 0 {
			break
		}
		l.marks = append(l.marks, mark{len(l.Text), at})
		if e.char >= 0 {
			l.Text = utf8.AppendRune(l.Text, e.char)
		}
		l.marks = append(l.marks, mark{len(l.Text), from})
	}
}

// Source is where a span of the layer stands in the text it came from.
func (l *Layer) Source(f Span) Span {
	first := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].plain > f.Start }) - 1
	last := max(0, sort.Search(len(l.marks), func(i int) bool { return l.marks[i].plain >= f.End })-1)
	start := l.marks[first].source + f.Start - l.marks[first].plain
	if last+1 < len(l.marks) && l.marks[last+1].plain == f.End {
		return Span{start, l.marks[last+1].source}
	}
	return Span{start, l.marks[last].source + f.End - l.marks[last].plain}
}
