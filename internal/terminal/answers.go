package terminal

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// lastAnswer is what every terminal answers, and each answers in order: whatever it
	// was asked before has been answered once this is.
	lastAnswer = "\x1b[c"
	// answersTime bounds how long a terminal is heard that never falls silent.
	answersTime = 10 * time.Second
	// lastLine leads to the last line of the screen, and makes it an empty one.
	lastLine = "\x1b[999B\r\n"
)

// asked is what the terminal was asked, or told to report, and may still tell of.
type asked struct {
	any        bool
	attributes int // how often it was asked what it is, and has not said it yet
}

// note reads a whole sequence that the program printed.
func (a *asked) note(s string) {
	switch s[1] {
	case 'P': // of those that --terminal raw lets through
		a.any = true
	case ']':
		a.any = a.any || asksColour(s)
	case '[':
		c, ok := parseCSI(s[2:])
		if !ok {
			return
		}
		a.any = a.any || c.asks() || c.final == 'h' && c.prefix == "?" && reports(c.numbers)
		if c.final == 'c' && c.asks() && c.prefix == "" {
			a.attributes++
		}
	}
}

// reports tells the modes in which a terminal tells of the mouse, the focus and its colours.
func reports(numbers string) bool {
	for number := range strings.SplitSeq(numbers, ";") {
		mode, err := strconv.Atoi(number)
		if err == nil && slices.Contains([]int{9, 1000, 1001, 1002, 1003, 1004, 2031}, mode) {
			return true
		}
	}
	return false
}

// hear notes what the terminal said.
func (a *asked) hear(all []typed) {
	for _, t := range all {
		if t.isAttributes() {
			a.attributes = max(a.attributes-1, 0)
		}
	}
}

// isAttributes tells the answer of a terminal that was asked what it is.
func (t typed) isAttributes() bool {
	return !t.pasted && strings.HasPrefix(t.whole, "\x1b[?") && strings.HasSuffix(t.whole, "c")
}

// settle hears what the terminal still answers, so that it is not typed into the shell, and
// returns it. Keys are not among it: they were meant for the shell, if for anybody. It is
// called with mu held.
func (v *Overlay) settle() (answers []byte) {
	if v.o.Hear == nil || v.o.Dumb || !v.modes.asked.any {
		return nil
	}
	v.print(lastAnswer)
	wanted, end := v.modes.asked.attributes+1, v.o.Now().Add(answersTime)
	for wanted > 0 && v.o.Now().Before(end) {
		heard := v.o.Hear()
		if len(heard) == 0 {
			break // it does not answer
		}
		for _, t := range v.keys.ends(heard) {
			if t.isAttributes() {
				wanted--
			}
			if !t.key && (!t.isAttributes() || wanted > 0) {
				answers = append(answers, t.text...)
			}
		}
	}
	v.modes.asked.attributes = 0
	return answers
}
