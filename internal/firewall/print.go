package firewall

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// textLimit is how much of one string is shown in a row, nameLimit of one
	// field's name, in bytes.
	textLimit, nameLimit = 300, 64
	// leastText is where a row is no longer made smaller.
	leastText = 16
	// edge is how much of a text beyond what is shown is looked at. So a secret at the edge is not
	// cut into something that no longer looks like one.
	edge = 1024

	nestedLeft = `"[nested data left out]"`
	numberLeft = `"[number left out]"`
)

// printer writes values within limits: shorter texts, fewer fields, less deep.
type printer struct {
	redactor Redactor
	out      []byte
	in       cursor
	// text and fields are the most bytes of a string and elements of a container, and
	// long is what text begins with.
	text, fields, long int
	changed            bool
	// path is where the value stands that is written, cuts are where something was cut.
	path []byte
	cuts []string
}

// maxCuts is how many cuts a frame names, maxCutPath how long the path of one may be,
// and cutBytes what one takes beside its path.
const (
	maxCuts    = 8
	maxCutPath = 200
	cutBytes   = len(`{"path":""},`)
)

// cut notes that the value at the path is not shown whole.
func (p *printer) cut() {
	p.changed = true
	if len(p.cuts) < maxCuts && len(p.path) <= maxCutPath {
		p.cuts = append(p.cuts, string(p.path))
	}
}

// cutCost is what naming the cuts takes of a frame.
func cutCost(cuts []string) (n int) {
	if len(cuts) > 0 {
		n = len(`,"cut":[]`)
	}
	for _, path := range cuts {
		n += textCost(path) + cutBytes
	}
	return n
}

// value writes the next value, with containers down to depth.
func (p *printer) value(depth int) {
	b := p.in.peek()
	start := p.in.at
	switch b {
	case '{', '[':
		if depth == 0 {
			p.in.skip(1)
			p.cut()
			p.out = append(p.out, nestedLeft...)
			return
		}
		p.in.at++
		if b == '{' {
			p.object(depth - 1)
		} else {
			p.list(depth - 1)
		}
	case '"':
		p.in.text()
		p.string(p.in.data[start:p.in.at], p.text)
	default:
		p.in.skip(1)
		if p.in.at-start > textLimit { // a number of many digits
			p.cut()
			p.out = append(p.out, numberLeft...)
			return
		}
		p.out = append(p.out, p.in.data[start:p.in.at]...)
	}
}

func (p *printer) object(depth int) {
	p.out = append(p.out, '{')
	n := 0
	for ; p.in.more(n == 0, '}'); n++ {
		name := p.in.key()
		if n >= p.fields {
			p.in.skip(1)
			continue
		}
		if n > 0 {
			p.out = append(p.out, ',')
		}
		p.string(name, nameLimit)
		p.out = append(p.out, ':')
		at := len(p.path)
		p.path = appendName(p.path, name)
		p.value(depth)
		p.path = p.path[:at]
	}
	if n > p.fields {
		p.cut()
		p.out = append(p.out, `,"…":"`...)
		p.out = append(strconv.AppendInt(p.out, int64(n-p.fields), 10), ` more fields"`...)
	}
	p.out = append(p.out, '}')
}

func (p *printer) list(depth int) {
	p.out = append(p.out, '[')
	n := 0
	for ; p.in.more(n == 0, ']'); n++ {
		if n >= p.fields {
			p.in.skip(1)
			continue
		}
		if n > 0 {
			p.out = append(p.out, ',')
		}
		at := len(p.path)
		p.path = appendElement(p.path, n)
		p.value(depth)
		p.path = p.path[:at]
	}
	if n > p.fields {
		p.cut()
		p.out = append(p.out, `,"… `...)
		p.out = append(strconv.AppendInt(p.out, int64(n-p.fields), 10), ` more"`...)
	}
	p.out = append(p.out, ']')
}

// string writes a string with at most limit bytes of text.
func (p *printer) string(quoted []byte, limit int) {
	if len(quoted)-2 <= limit {
		p.out = append(p.out, quoted...)
		return
	}
	s := head(quoted, limit+edge)
	if len(s) > limit {
		p.cut()
		s = clip(s, limit, p.redactor)
	}
	p.out = appendQuoted(p.out, s)
}

// head is what a string says at its beginning: all of it, or at least limit
// bytes. It costs limit, not the length of the string.
func head(quoted []byte, limit int) string {
	if len(quoted)-2 <= limit {
		return plain(quoted)
	}
	c := cursor{data: quoted, at: 1}
	for n := 0; n < limit && c.at < len(quoted)-1; n++ {
		if quoted[c.at] == '\\' {
			c.escape()
		} else {
			c.at++
		}
	}
	return valid(plain(append(bytes.Clone(quoted[:c.at]), '"')))
}

// clip redacts a text, and then cuts it to limit bytes. Where the text may go
// on beyond what was looked at, the end of that is not shown either: half a
// secret may stand there.
func clip(s string, limit int, redactor Redactor) string {
	if len(s) <= limit {
		return s
	}
	const slack = 8 // s itself may have been cut, and lost half a rune
	part := s[:min(len(s), limit+edge)]
	clean, _ := redactor.String(valid(part))
	keep := limit
	if len(part) >= limit+edge-slack {
		keep = min(limit, max(len(clean)-edge, 0))
	}
	if len(clean) <= keep {
		return clean
	}
	return valid(clean[:keep]) + "…"
}

// valid leaves out what is not UTF-8, such as half a rune at a cut.
func valid(s string) string { return strings.ToValidUTF8(s, "") }

// runes cuts a text after n characters.
func runes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// Runes is how many characters a text has, each byte that is not UTF-8 for one.
func Runes(text []byte) (n int) {
	for n+wordSize <= len(text) && binary.LittleEndian.Uint64(text[n:])&highs == 0 {
		n += wordSize
	}
	return n + utf8.RuneCount(text[n:])
}

// appendQuoted writes a string as JSON.
func appendQuoted(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		b := s[i]
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		out = append(out, s[start:i]...)
		start = i + 1
		switch b {
		case '"', '\\':
			out = append(out, '\\', b)
		case '\n':
			out = append(out, `\n`...)
		case '\t':
			out = append(out, `\t`...)
		default:
			out = append(out, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
	}
	return append(append(out, s[start:]...), '"')
}

// cost is how many characters JSON takes at most, in the encoding of whoever
// writes it anew: some write <, > and & and two kinds of white space as escapes.
func cost(encoded []byte) (n int) {
	for i := 0; i < len(encoded); i++ {
		for i+8 < len(encoded) && isCheap(binary.LittleEndian.Uint64(encoded[i:])) {
			n, i = n+8, i+8
		}
		switch b := encoded[i]; {
		case b == '<' || b == '>' || b == '&':
			n += 6
		case b == 0xe2 && i+2 < len(encoded) && encoded[i+1] == 0x80 && encoded[i+2]&^1 == 0xa8:
			n += 6
		case utf8.RuneStart(b):
			n++
		}
	}
	return n
}

// isCheap reports whether eight bytes are eight characters that nobody escapes.
func isCheap(x uint64) bool {
	and, less, more := x^(ones*'&'), x^(ones*'<'), x^(ones*'>')
	return (x|(and-ones)&^and|(less-ones)&^less|(more-ones)&^more)&highs == 0
}
