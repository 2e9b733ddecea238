package redact

import (
	"strings"
	"unicode/utf8"
)

// disguised reports whether a text holds characters that hide others: ones
// without width inside a word, or the full-width twins of ASCII.
func disguised(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0xC2 {
			continue
		}
		switch s[i] {
		case 0xC2, 0xE1, 0xE2, 0xEF:
			if r, _ := utf8.DecodeRuneInString(s[i:]); twin(r) != r {
				return true
			}
		}
	}
	return false
}

// twin is the ASCII character that r looks like, -1 where r does not show, or r.
func twin(r rune) rune {
	switch {
	case r >= 0xFF01 && r <= 0xFF5E: // full-width forms
		return r - 0xFF01 + '!'
	case r == 0x00AD, r == 0x180E, r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E,
		r >= 0x2060 && r <= 0x2064, r == 0xFEFF, r >= 0xFE00 && r <= 0xFE0F:
		return -1
	}
	return r
}

// disguise is a text without its disguises, and where each of its bytes came from.
type disguise struct {
	text string
	from []int
}

func undisguise(s string) disguise {
	var b strings.Builder
	b.Grow(len(s))
	d := disguise{from: make([]int, 0, len(s)+1)}
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch t := twin(r); {
		case t == -1:
		case t != r:
			b.WriteByte(byte(t))
			d.from = append(d.from, i)
		default:
			b.WriteString(s[i : i+size])
			for j := range size {
				d.from = append(d.from, i+j)
			}
		}
		i += size
	}
	d.from = append(d.from, len(s))
	d.text = b.String()
	return d
}

// mapped moves spans back to where they stand in the text as it was.
func (d disguise) mapped(found []span) []span {
	for i, f := range found {
		found[i] = span{d.from[f.start], d.from[f.end]}
	}
	return found
}
