package terminal

import (
	"slices"
	"strconv"
	"strings"
)

const (
	// maxAttributes is how many attributes in a row, and maxColours how many changed
	// colours, are remembered to be set again.
	maxAttributes = 32
	maxColours    = 64
)

// Modes of DEC's that are of another screen.
const (
	alternateOld, alternateClear, alternateSaved = 47, 1047, 1049
)

// resetModes are what a program may have set, and what nothing may have set while a
// question is shown: keys, wrapping, colours, the mouse, focus, margins, paste.
func resetModes() []int {
	return []int{1, 5, 6, 9, 45, 66, 69, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2026, 2031}
}

// Modes of DEC's that are on unless a program turns them off.
const wraps, showsCursor = 7, 25

// shiftIn takes the first character set again.
const shiftIn = 0x0f

// endLink ends the text of a link.
const endLink = "\x1b]8;;\x1b\\"

// state follows what a program has set on its terminal, so that it can be set again.
type state struct {
	in         filter // a sequence that has begun
	private    map[int]bool
	insert     bool
	region     string // the scroll region, as it was set
	margins    string
	keypad     string
	cursor     string
	otherKeys  string
	shift      byte
	charsets   map[byte]string
	attributes []string
	colours    []string
	link       string // whose text goes on
	pushed     int    // protocols of keys, on the stack of the first screen
	asked      asked
}

// follow reads what is shown, and returns how much of it is whole: what comes after is
// of a sequence that has not ended.
func (m *state) follow(p []byte) (whole int) {
	for i, b := range p {
		switch {
		case len(m.in.held) > 0:
			m.hold(b)
		case b == escape:
			m.in.held = append(m.in.held, b)
		case b == shiftOut || b == shiftIn:
			m.shift = b
		}
		if len(m.in.held) == 0 {
			whole = i + 1
		}
	}
	return whole
}

// hold adds a byte to a sequence, and notes one that is whole.
func (m *state) hold(b byte) {
	switch {
	case b == cancel || b == substitute || len(m.in.held) == maxSequence:
		m.in.drop()
		return
	case b == escape && !m.in.isString():
		m.in.drop() // another begins
	}
	m.in.held = append(m.in.held, b)
	if m.in.ended() {
		s := string(m.in.held)
		m.in.drop()
		m.note(s)
	}
}

// alternate tells whether the program draws on the other screen, which keeps nothing.
func (m *state) alternate() bool {
	return m.private[alternateOld] || m.private[alternateClear] || m.private[alternateSaved]
}

func (m *state) note(s string) {
	m.asked.note(s)
	switch s[1] {
	case '[':
		m.control(s, s[2:len(s)-1], s[len(s)-1])
	case ']':
		m.command(s)
	case '(', ')', '*', '+':
		if m.charsets == nil {
			m.charsets = map[byte]string{}
		}
		m.charsets[s[1]] = s
	case '=', '>':
		m.keypad = s
	case 'c':
		*m = state{asked: m.asked}
	}
}

func (m *state) control(s, parameters string, final byte) {
	switch {
	case final == 'h' || final == 'l':
		m.set(parameters, final == 'h')
	case final == 'r' && parameters == "":
		m.region = ""
	case final == 'r' && parameters[0] != '?':
		m.region = s
	case final == 's' && m.private[69] && parameters != "":
		m.margins = s
	case final == 'm' && strings.HasPrefix(parameters, ">"):
		m.otherKeys = s
	case final == 'm':
		m.attribute(s, parameters)
	case final == 'q' && strings.HasSuffix(parameters, " "):
		m.cursor = s
	case final == 'u' && parameters != "" && !m.alternate():
		m.push(parameters)
	case final == 'p' && parameters == "!":
		*m = state{private: keep(m.private, alternateOld, alternateClear, alternateSaved), colours: m.colours, asked: m.asked}
	}
}

// push follows the stack of what the terminal tells of keys.
func (m *state) push(parameters string) {
	switch number := parameters[1:]; parameters[0] {
	case '>':
		m.pushed = min(m.pushed+1, maxAttributes)
	case '=':
		m.pushed = max(m.pushed, 1)
	case '<':
		n, err := strconv.Atoi(number)
		if err != nil {
			n = 1
		}
		m.pushed = max(m.pushed-n, 0)
	}
}

func keep(private map[int]bool, modes ...int) map[int]bool {
	kept := map[int]bool{}
	for _, mode := range modes {
		if private[mode] {
			kept[mode] = true
		}
	}
	return kept
}

func (m *state) set(parameters string, on bool) {
	list, private := strings.CutPrefix(parameters, "?")
	for text := range strings.SplitSeq(list, ";") {
		mode, err := strconv.Atoi(text)
		switch {
		case err != nil:
		case !private:
			m.insert = on && mode == 4 || m.insert && mode != 4
		case known(mode):
			if m.private == nil {
				m.private = map[int]bool{}
			}
			m.private[mode] = on
		}
	}
}

// known tells the modes that are followed; there is no end of other numbers.
func known(mode int) bool {
	return slices.Contains(resetModes(), mode) || slices.Contains([]int{wraps, showsCursor, alternateOld, alternateClear, alternateSaved}, mode)
}

func (m *state) attribute(s, parameters string) {
	if parameters == "" || parameters == "0" || strings.HasPrefix(parameters, "0;") {
		m.attributes = nil
	}
	if parameters == "" || parameters == "0" {
		return
	}
	if len(m.attributes) == maxAttributes {
		m.attributes = m.attributes[1:]
	}
	m.attributes = append(m.attributes, s)
}

// command remembers what a program changed of the terminal's colours, and a link.
func (m *state) command(s string) {
	number, text, _ := strings.Cut(strings.TrimRight(s[2:], "\x07\x1b\\"), ";")
	switch number {
	case "8":
		if m.link = s; address(text) == "" {
			m.link = ""
		}
	case "4", "10", "11", "12":
		if text != "?" && len(m.colours) < maxColours {
			m.colours = append(m.colours, s)
		}
	case "104", "110", "111", "112":
		of := "\x1b]" + strings.TrimLeft(number[1:], "0") + ";" // each takes back what the number without its 1 set
		m.colours = slices.DeleteFunc(m.colours, func(c string) bool { return strings.HasPrefix(c, of) })
	}
}

// again sets everything as the program had it.
func (m *state) again() string {
	var b strings.Builder
	for _, mode := range resetModes() {
		if m.private[mode] {
			b.WriteString("\x1b[?" + strconv.Itoa(mode) + "h")
		}
	}
	for _, mode := range []int{wraps, showsCursor} {
		if on, set := m.private[mode]; set && !on {
			b.WriteString("\x1b[?" + strconv.Itoa(mode) + "l")
		}
	}
	if m.insert {
		b.WriteString("\x1b[4h")
	}
	for _, s := range []string{m.region, m.margins, m.keypad, m.cursor, m.otherKeys} {
		b.WriteString(s)
	}
	for _, slot := range []byte("()*+") {
		b.WriteString(m.charsets[slot])
	}
	if m.shift == shiftOut {
		b.WriteByte(shiftOut)
	}
	b.WriteString(strings.Join(m.colours, ""))
	b.WriteString(strings.Join(m.attributes, ""))
	b.WriteString(m.link)
	return b.String()
}

// reset takes back what a program may have set, whatever was followed of it. No mode that the
// program chose is left where a question is shown, or where a shell goes on.
func reset() string {
	var b strings.Builder
	b.WriteString("\x18\x1b[0m\x1b(B\x1b)B\x0f\x1b>\x1b[4;20l")
	for _, mode := range resetModes() {
		b.WriteString("\x1b[?" + strconv.Itoa(mode) + "l")
	}
	b.WriteString("\x1b[?7h\x1b[?25h\x1b[r\x1b[0 q\x1b[>4m" + endLink + "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\")
	return b.String()
}
