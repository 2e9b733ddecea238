package leak

import (
	"strconv"
	"strings"
)

// maxEscape is the longest escape that is decoded: \u0041, &#x2b;.
const maxEscape = 6

// unescapedText decodes a text as the search does.
func unescapedText(text string) string {
	var plain []byte
	for i := 0; i < len(text); {
		c, n := text[i], 1
		for end := i + 2; (c == '%' || c == '\\' || c == '&') && end <= min(i+maxEscape, len(text)); end++ {
			if value, state := decodeEscape([]byte(text[i:end])); state == escapeWhole {
				c, n = value, end-i
				break
			} else if state == escapeNone {
				break
			}
		}
		plain = append(plain, c)
		i += n
	}
	return string(plain)
}

type escapeState uint8

const (
	escapeNone escapeState = iota
	escapeMore
	escapeWhole
)

// decodeEscape reads %41, \u0041, \x41, \n, a backslash before any other sign,
// and HTML's entities.
func decodeEscape(e []byte) (byte, escapeState) {
	digits, want := e[1:], 2
	switch e[0] {
	case '&':
		return decodeEntity(e)
	case '\\':
		switch e[1] {
		case 'n':
			return '\n', escapeWhole
		case 'r':
			return '\r', escapeWhole
		case 'u':
			digits, want = e[2:], 4
		case 'x':
			digits, want = e[2:], 2
		default:
			if isLetterOrDigit(e[1]) {
				return 0, escapeNone
			}
			return e[1], escapeWhole
		}
	}
	value := 0
	for _, c := range digits {
		d := hexDigit(c)
		if d < 0 {
			return 0, escapeNone
		}
		value = value<<4 | d
	}
	switch {
	case value > 0x7f: // a secret is ASCII
		return 0, escapeNone
	case len(digits) < want:
		return 0, escapeMore
	}
	return byte(value), escapeWhole
}

// decodeEntity reads &amp; &#43; &#x2b; and their like.
func decodeEntity(e []byte) (byte, escapeState) {
	last := e[len(e)-1]
	if last != ';' {
		if len(e) < maxEscape && (isLetterOrDigit(last) || last == '#' && len(e) == 2) {
			return 0, escapeMore
		}
		return 0, escapeNone
	}
	name := string(e[1 : len(e)-1])
	if c := entity(name); c != 0 {
		return c, escapeWhole
	}
	number, base := strings.TrimPrefix(name, "#"), 10
	if hexadecimal := strings.TrimLeft(number, "xX"); hexadecimal != number {
		number, base = hexadecimal, 16
	}
	value, err := strconv.ParseUint(number, base, 7)
	if err != nil || name[0] != '#' {
		return 0, escapeNone
	}
	return byte(value), escapeWhole
}

// entity is the character of a name, or 0.
func entity(name string) byte {
	switch strings.ToLower(name) {
	case "amp":
		return '&'
	case "lt":
		return '<'
	case "gt":
		return '>'
	case "quot":
		return '"'
	case "apos":
		return '\''
	case "plus":
		return '+'
	case "sol":
		return '/'
	}
	return 0
}

func isLetterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// hexDigit is the value of a digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
