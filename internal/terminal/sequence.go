package terminal

import (
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// sequence is a control sequence in its parts.
type sequence struct {
	prefix  string // one of < = > ?, or empty
	numbers string
	between string // what stands before the final byte
	final   byte
}

// parseCSI takes what follows ESC [ apart. What has another form is refused.
func parseCSI(s string) (c sequence, ok bool) {
	c.final = s[len(s)-1]
	s = s[:len(s)-1]
	if s != "" && strings.IndexByte("<=>?", s[0]) >= 0 {
		c.prefix, s = s[:1], s[1:]
	}
	c.between = strings.TrimLeft(s, "0123456789;:")
	c.numbers = strings.TrimSuffix(s, c.between)
	return c, strings.Trim(c.between, " !\"#$%&'()*+,-./") == ""
}

// passes judges a whole sequence. asks says that the terminal may be asked.
func passes(s string, asks bool) bool {
	switch s[1] {
	case '[':
		c, ok := parseCSI(s[2:])
		return ok && (c.passes() || asks && c.asks())
	case ']':
		return passesOSC(s[2:], asks)
	case '(', ')', '*', '+': // sets of characters; none takes the terminal out of UTF-8
		return len(s) == 3 && strings.IndexByte("012AB", s[2]) >= 0
	case '#':
		return len(s) == 3 && strings.IndexByte("34568", s[2]) >= 0
	case '%':
		return s[2:] == "G"
	}
	return len(s) == 2 && strings.IndexByte("78=>DEHMNOc", s[1]) >= 0
}

func (c sequence) passes() bool {
	switch c.final {
	case 'q': // the cursor's form
		return c.prefix == "" && c.between == " "
	case 'p': // a soft reset
		return c.prefix == "" && c.between == "!" && c.numbers == ""
	}
	if c.between != "" {
		return false
	}
	switch c.final {
	case '@', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'L', 'M', 'P', 'S', 'T', 'X', 'Z', '`', 'a', 'b', 'd', 'e', 'f', 'g',
		'r', 's': // of modes, they would bring one back that was seen to be switched off
		return c.prefix == ""
	case 'J', 'K':
		return c.prefix == "" || c.prefix == "?"
	case 'h', 'l':
		return c.isMode()
	case 'm':
		return c.prefix == "" || c.prefix == ">"
	case 'u':
		return c.prefix != "?"
	case 't': // the stack of titles
		number, _, _ := strings.Cut(c.numbers, ";")
		return c.prefix == "" && (number == "22" || number == "23")
	}
	return false
}

// asks tells the questions that a terminal answers with numbers of its own.
func (c sequence) asks() bool {
	question := c.prefix + c.numbers + c.between + string(c.final)
	if c.between == "$" && c.final == 'p' { // whether a mode is set
		return c.prefix == "" || c.prefix == "?"
	}
	return slices.Contains([]string{
		"5n", "6n", "?6n", "?996n", "c", "0c", ">c", ">0c", "?u", ">q", ">0q", "14t", "16t", "18t",
	}, question)
}

// modes are those that may be switched: of the cursor, the screen, keys, the mouse and
// pasting. One that makes the terminal tell of itself, or locks its keys, is not on it.
func modes(prefix string) []string {
	if prefix == "" {
		return []string{"4", "20", "34"}
	}
	return []string{
		"1", "4", "5", "6", "7", "8", "9", "12", "25", "45", "47", "66", "69", "1000", "1001", "1002", "1003", "1004", "1005", "1006", "1007",
		"1015", "1016", "1034", "1036", "1039", "1047", "1048", "1049", "2004", "2026", "2027", "2031",
	}
}

func (c sequence) isMode() bool {
	if c.prefix != "" && c.prefix != "?" {
		return false
	}
	for number := range strings.SplitSeq(c.numbers, ";") {
		if !slices.Contains(modes(c.prefix), number) {
			return false
		}
	}
	return true
}

// passesOSC judges what follows ESC ], with its end. A control in its text is one that
// terminals obey: an ESC ends the text for them, and begins what comes next.
func passesOSC(s string, asks bool) bool {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "\x1b\\"), "\a")
	if !utf8.ValidString(s) || strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return false
	}
	number, text, _ := strings.Cut(s, ";")
	switch number {
	case "0", "1", "2", "104", "110", "111", "112", "133":
		return true
	case "8":
		scheme, _, _ := strings.Cut(address(text), ":")
		return slices.Contains(schemes(), strings.ToLower(scheme))
	case "4", "10", "11", "12": // colours; a question mark asks for one
		return asks || !strings.Contains(text, "?")
	}
	return false
}

// schemes are those of links that a person may follow; none ends a link. Others start programs.
func schemes() []string { return []string{"", "http", "https", "mailto", "file"} }

// address is where a link leads, of what follows its number.
func address(text string) string {
	_, address, _ := strings.Cut(text, ";")
	return strings.TrimRight(address, "\a\x1b\\")
}

// asksColour tells a sequence that asks for a colour rather than to set it.
func asksColour(s string) bool { return strings.HasSuffix(strings.TrimRight(s, "\a\x1b\\"), "?") }

// leftover is what a command switched on and has not switched off.
type leftover struct {
	modes   []string // as they were set: "?1003h"
	style   bool     // of text
	charset bool     // other characters than those that are printed
	region  bool     // a part of the screen that scrolls
	keys    bool     // keys that are told in another way
	colours bool     // of the terminal
	link    bool     // whose text goes on
	// origin tells whether any stream of the command has set the mode in which the cursor counts from the region.
	origin *atomic.Bool
}

// The modes of the cursor's origin: to end it moves the cursor to the top.
const originMode, originEnds = "?6", "?6l"

// note remembers what a sequence that passed leaves behind.
func (l *leftover) note(s string) {
	switch s[1] {
	case 'c':
		*l = leftover{colours: l.colours, origin: l.origin} // colours some terminals keep
	case '8':
		l.restore()
	case '(', ')', '*', '+':
		l.charset = l.charset || s[2] != 'B'
	case ']':
		number, text, _ := strings.Cut(strings.TrimRight(s[2:], "\a\x1b\\"), ";")
		if number == "8" {
			l.link = address(text) != ""
		}
		l.colours = l.colours || !asksColour(s) && slices.Contains([]string{"4", "10", "11", "12"}, number)
	case '[':
		if c, ok := parseCSI(s[2:]); ok {
			l.noteCSI(c)
		}
	}
}

// restore notes that what was saved with the cursor is back, whichever stream saved it.
func (l *leftover) restore() {
	l.style, l.charset = true, true
	l.noteMode(originMode, 'h')
	l.noteMode("?7", 'l')
}

func (l *leftover) noteCSI(c sequence) {
	switch {
	case c.final == 'u' && c.prefix == "":
		l.restore()
	case c.final == 'h', c.final == 'l':
		for number := range strings.SplitSeq(c.numbers, ";") {
			l.noteMode(c.prefix+number, c.final)
			if c.prefix+number == originMode && c.final == 'h' {
				l.origin.Store(true)
			}
			if c.prefix == "?" && c.final == 'l' && (number == "1048" || number == "1049") {
				l.restore()
			}
		}
	case c.final == 'm' && c.prefix == "":
		l.style = strings.Trim(c.numbers, "0;") != ""
	case c.final == 'm', c.final == 'u' && (c.prefix == "<" || c.prefix == "=" || c.prefix == ">"):
		l.keys = true
	case c.final == 'r' && c.prefix == "":
		l.region = c.numbers != ""
	case c.final == 's' && c.numbers != "":
		l.region = true
	}
}

// noteMode remembers a mode that is not as terminals have it at first.
func (l *leftover) noteMode(name string, final byte) {
	first := byte('l')
	if slices.Contains([]string{"?7", "?8", "?25", "?1034", "?1036", "34"}, name) {
		first = 'h'
	}
	undo := name + string(first)
	l.modes = slices.DeleteFunc(l.modes, func(other string) bool { return other == undo })
	if final != first && name != "?1048" && name != "34" {
		l.modes = append(l.modes, undo)
	}
}

// undone are the sequences that take it back. The screen comes before what is on it.
func (l *leftover) undone() string {
	var b strings.Builder
	for _, mode := range slices.Backward(l.modes) {
		if mode != originEnds || l.origin.Load() { // the cursor stays where the program left it
			b.WriteString("\x1b[" + mode)
		}
	}
	for _, part := range []struct {
		left bool
		undo string
	}{
		{l.region, "\x1b7\x1b[r\x1b8"}, {l.charset, "\x1b(B\x0f"}, {l.style, "\x1b[0m"}, {l.keys, "\x1b[<99u\x1b[=0u\x1b[>4m"},
		{l.link, endLink}, {l.colours, "\x1b]104\a\x1b]110\a\x1b]111\a\x1b]112\a"},
	} {
		if part.left {
			b.WriteString(part.undo)
		}
	}
	return b.String()
}
