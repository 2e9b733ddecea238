package redact

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/octets"
)

// layer is a text with its escapes undone, and where each stretch of it came
// from. Its room is used again for the next text.
type layer struct {
	text  []byte
	marks []mark
}

// mark says that from plain on, the layer follows its source from there on.
type mark struct{ plain, source int }

// spelling is a set of escapes that are undone together.
type spelling uint8

const (
	// escapes are those of programming languages, URLs, HTML and terminals,
	// characters that hide others, and literals that are joined by an operator.
	escapes spelling = iota
	// quotedPrintable is that of mail (RFC 2045). It is a layer of its own, for
	// what it takes for an escape is often an assignment.
	quotedPrintable
	spellings
)

var (
	// signs are the bytes with which one of escapes begins.
	signs = among("%\\&\x00\x1b\"'`\xC2\xCD\xE1\xE2\xE3\xEF\xF0\xF3")
	// quotes are those of literals, joins what stands behind one that is joined with the next.
	quotes, joins = among("\"'`"), among(" \t\n\r+.&|\\~")
	// soft are the bytes that stand behind the = of quoted-printable.
	soft = among("0123456789ABCDEF\r\n")
)

func among(bytes string) (t [256]bool) {
	for i := range len(bytes) {
		t[bytes[i]] = true
	}
	return t
}

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
	// minSoft is the shortest line of quoted-printable that is broken.
	minSoft = 64
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
func (p spelling) next(s string, i int) (int, escape) {
	for ; i < len(s); i++ {
		if p == quotedPrintable {
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
		for i+octets.Size <= len(s) {
			found := octets.Escaping(octets.Load(s[i:]))
			if found != 0 {
				i += octets.First(found)
				break
			}
			i += octets.Size
		}
		if i == len(s) || signs[s[i]] && (!quotes[s[i]] || i+1 < len(s) && (joins[s[i+1]] || s[i+1] == s[i])) {
			return i
		}
	}
	return len(s)
}

// nextLoud is where the first loud escape from i on stands and ends, or -1.
func (p spelling) nextLoud(s string, i int) (at, end int) {
	for i < len(s) {
		at, e := p.next(s, i)
		i = at + max(1, e.size)
		if e.loud {
			return at, i
		}
	}
	return -1, i
}

// window is the first stretch of s from i on that holds loud escapes, with the
// lines they stand in; again is from where to look for the next one.
func (p spelling) window(s string, i int) (w span, again int, ok bool) {
	loud, end := p.nextLoud(s, i)
	if loud < 0 {
		return span{}, 0, false
	}
	back := max(0, loud-reach)
	w.start = back + strings.LastIndexByte(s[back:loud], '\n') + 1
	if line := strings.LastIndexByte(s[max(0, back-maxLine):back], '\n'); line >= 0 {
		w.start = max(0, back-maxLine) + line + 1
	} else if back <= maxLine {
		w.start = 0
	}
	for w.end = loud; loud >= 0 && w.end-w.start < maxWindow; {
		w.end = end
		loud, end = p.nextLoud(s[:min(len(s), end+reach)], end)
	}
	again = w.end
	if w.end-w.start >= maxWindow {
		again = w.end - Overlap
	}
	from := min(len(s), w.end+reach)
	w.end = min(len(s), from+maxLine)
	if line := strings.IndexByte(s[from:w.end], '\n'); line >= 0 {
		w.end = from + line + 1
	}
	return w, again, true
}

// peel undoes the escapes in a window of s.
func (l *layer) peel(p spelling, s string, w span) {
	l.text, l.marks = l.text[:0], append(l.marks[:0], mark{0, w.start})
	s = s[:w.end]
	for from := w.start; from < len(s); {
		at, e := p.next(s, from)
		l.text = append(l.text, s[from:at]...)
		if from = at + e.size; e.size == 0 {
			break
		}
		l.marks = append(l.marks, mark{len(l.text), at})
		if e.char >= 0 {
			l.text = utf8.AppendRune(l.text, e.char)
		}
		l.marks = append(l.marks, mark{len(l.text), from})
	}
}

// source is where a span of the layer stands in the text it came from.
func (l *layer) source(f span) span {
	first := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].plain > f.start }) - 1
	last := max(0, sort.Search(len(l.marks), func(i int) bool { return l.marks[i].plain >= f.end })-1)
	start := l.marks[first].source + f.start - l.marks[first].plain
	if last+1 < len(l.marks) && l.marks[last+1].plain == f.end {
		return span{start, l.marks[last+1].source}
	}
	return span{start, l.marks[last].source + f.end - l.marks[last].plain}
}
