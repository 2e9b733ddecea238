package encoded

import (
	"html"
	"strings"
	"unicode/utf8"
)

// at is the escape that stands at i, or one of size 0.
func (p Spelling) at(s string, i int) escape {
	switch b := s[i]; b {
	case '%':
		return percent(s, i)
	case '\\':
		return backslash(s, i)
	case '&':
		return entity(s, i)
	case '=':
		return equals(s, i)
	case '"', '\'', '`':
		n := joint(s, i)
		return escape{n, hidden, n > 0}
	case 0x00:
		return escape{1, hidden, true}
	case 0x1b:
		return terminal(s, i)
	default:
		r, size := utf8.DecodeRuneInString(s[i:])
		if t := twin(r); t != r {
			return escape{size, t, true}
		}
		return escape{}
	}
}

// shown reports whether a decoded character is one that a secret or what
// stands around it is made of.
func shown(r rune) bool {
	return r >= ' ' && r < 0x7f || r == '\n' || r == '\t' || r == '\r' || r > 0xA0
}

func percent(s string, i int) escape {
	size, digits := 3, 2
	from := i + 1
	if from < len(s) && s[from] == 'u' {
		from, size, digits = from+1, 6, 4
	}
	r, ok := hexRune(s, from, digits)
	if !ok || !shown(r) || digits == 2 && r > 0x7f {
		return escape{}
	}
	// A space is nothing by itself, but after `Bearer`, `Basic`, `password`, `token` or `key`.
	loud := r != ' ' || i > 0 && strings.IndexByte("rcdnyRCDNY", s[i-1]) >= 0
	return escape{size, plainOf(r), loud}
}

func backslash(s string, i int) escape {
	if i+1 >= len(s) {
		return escape{}
	}
	switch b := s[i+1]; b {
	case 'x':
		return coded(s, i, 2)
	case 'u':
		if i+2 < len(s) && s[i+2] == '{' {
			return braced(s, i)
		}
		return coded(s, i, 4)
	case 'U':
		return coded(s, i, 8)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return octal(s, i)
	case 'n':
		return escape{2, '\n', false}
	case 't':
		return escape{2, '\t', false}
	case 'r':
		return escape{2, '\r', false}
	case '"', '\'', '`':
		if n := joint(s, i+1); n > 0 {
			return escape{n + 1, hidden, true}
		}
		return escape{2, rune(b), false}
	case '/':
		return escape{2, '/', false}
	case '\\':
		inner := i+2 < len(s) && strings.IndexByte("xuU01", s[i+2]) >= 0
		return escape{2, '\\', inner}
	case '\n', '\r':
		return escape{Blanks(s, i+1) - i, hidden, true}
	}
	return escape{}
}

func coded(s string, i, digits int) escape {
	r, ok := hexRune(s, i+2, digits)
	if !ok || !shown(r) && r != 0 {
		return escape{}
	}
	return escape{2 + digits, plainOf(r), true}
}

func braced(s string, i int) escape {
	end := strings.IndexByte(s[i:min(len(s), i+maxEntity)], '}')
	if end < 4 {
		return escape{}
	}
	r, ok := hexRune(s, i+3, end-3)
	if !ok || !shown(r) {
		return escape{}
	}
	return escape{end + 1, plainOf(r), true}
}

func octal(s string, i int) escape {
	r, n := rune(0), 0
	for j := i + 1; j < len(s) && n < 3 && s[j] >= '0' && s[j] <= '7'; j++ {
		r = r*8 + rune(s[j]-'0')
		n++
	}
	if n < 2 || r > 0x7e || !shown(r) {
		return escape{}
	}
	return escape{1 + n, r, true}
}

// entity is one of HTML: &#103; &#x67; &amp;
func entity(s string, i int) escape {
	end := strings.IndexByte(s[i:min(len(s), i+maxEntity)], ';')
	if end < 3 || end > 0 && s[i+1] != '#' && !isLetter(s[i+1]) {
		return escape{}
	}
	plain := html.UnescapeString(s[i : i+end+1])
	r, size := utf8.DecodeRuneInString(plain)
	if size != len(plain) || r == utf8.RuneError {
		return escape{}
	}
	return escape{end + 1, plainOf(r), true}
}

// equals is an escape of quoted-printable: a soft line break, or =67. One alone
// is loud only where it stands for the sign itself.
func equals(s string, i int) escape {
	switch rest := s[i+1:]; {
	case !strings.HasPrefix(rest, "\n") && !strings.HasPrefix(rest, "\r\n"):
	case i < MinSoft || strings.IndexByte(s[i-MinSoft:i], '\n') >= 0 || s[i-1] == '=':
		return escape{}
	default:
		return escape{2 + strings.IndexByte(rest, '\n'), hidden, true}
	}
	r, ok := hexRune(s, i+1, 2)
	if !ok || !shown(r) || r > 0x7f || s[i+1] >= 'a' || s[i+2] >= 'a' { // which are digits and letters to F
		return escape{}
	}
	again := i+3 < len(s) && s[i+3] == '='
	return escape{3, r, r == '=' || again}
}

// terminal is a sequence that colours a terminal, ESC [ 31 m.
func terminal(s string, i int) escape {
	if i+1 >= len(s) || s[i+1] != '[' {
		return escape{1, hidden, true}
	}
	for j := i + 2; j < min(len(s), i+maxTerminal); j++ {
		if s[j] >= '@' && s[j] <= '~' {
			return escape{j + 1 - i, hidden, true}
		}
	}
	return escape{}
}

// hexRune is what so many hexadecimal digits say.
func hexRune(s string, from, digits int) (rune, bool) {
	if from+digits > len(s) {
		return 0, false
	}
	r := rune(0)
	for i := from; i < from+digits; i++ {
		if !hexed[s[i]] {
			return 0, false
		}
		r = r<<4 | rune(nibble(s[i]))
	}
	return r, r >= 0 && r <= utf8.MaxRune
}

func nibble(b byte) byte {
	if isDigit(b) {
		return b - '0'
	}
	return lower(b) - 'a' + 10
}

// joint is how much of s, from a closing quote at i on, joins the literal before
// it with the next: "ab" + "cd", "ab" . "cd", or only white space. It is 0
// where nothing is joined.
func joint(s string, i int) int {
	if i+2 >= len(s) {
		return 0
	}
	if s[i+1] == s[i] && i > 0 && alnum[s[i-1]] && alnum[s[i+2]] { // shell: ab""cd
		return 2
	}
	if !joins[s[i+1]] {
		return 0
	}
	limit := min(len(s), i+maxJoint)
	j := Blanks(s[:limit], i+1)
	for n := 0; n < 2 && j < limit && strings.IndexByte("+.&|~", s[j]) >= 0; n++ {
		j++
	}
	j = Blanks(s[:limit], j)
	if j < limit && s[j] == '\\' {
		j++
	}
	for n := 0; n < 2 && j+1 < limit && strings.IndexByte("fbruFBRU", s[j]) >= 0; n++ { // Python's f"", rb""
		j++
	}
	if j < limit && s[j] == s[i] {
		return j + 1 - i
	}
	return 0
}

// Blanks is where white space and continued lines from i on end.
func Blanks(s string, i int) int {
	for i < len(s) {
		switch s[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '\\':
			if i+1 >= len(s) || s[i+1] != '\n' && s[i+1] != '\r' {
				return i
			}
			i += 2
		default:
			return i
		}
	}
	return i
}

// plainOf is the character that r shows, hidden where it does not show.
func plainOf(r rune) rune {
	if r == 0 {
		return hidden
	}
	return twin(r)
}

// twin is the ASCII character that r looks like, hidden where r does not show, or r.
func twin(r rune) rune {
	switch {
	case r < 0xA0:
		return r
	case r == 0x00A0, r >= 0x2000 && r <= 0x200A, r == 0x202F, r == 0x3000:
		return ' '
	case invisible(r):
		return hidden
	case r >= 0xFF01 && r <= 0xFF5E: // full-width forms
		return r - 0xFF01 + '!'
	case r >= 0x24B6 && r <= 0x24CF: // circled letters
		return r - 0x24B6 + 'A'
	case r >= 0x24D0 && r <= 0x24E9:
		return r - 0x24D0 + 'a'
	case r >= 0x1D400 && r <= 0x1D6A3: // mathematical letters
		if n := (r - 0x1D400) % 52; n < 26 {
			return 'A' + n
		}
		return 'a' + (r-0x1D400)%52 - 26
	case r >= 0x1D7CE && r <= 0x1D7FF: // and digits
		return '0' + (r-0x1D7CE)%10
	case r >= 0xE0020 && r <= 0xE007E: // tags
		return r - 0xE0000
	case r >= 0x2010 && r <= 0x2015, r == 0x2212, r == 0xFE63:
		return '-'
	}
	return r
}

func invisible(r rune) bool {
	switch {
	case r == 0x00AD, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x180E, r >= 0x200B && r <= 0x200F,
		r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F, r == 0xFEFF, r >= 0xFE00 && r <= 0xFE0F,
		r == 0x3164, r == 0xFFA0, r >= 0xE0100 && r <= 0xE01EF, r == 0xE0001:
		return true
	}
	return false
}
