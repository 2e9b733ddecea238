// Package automaton promises to find all of a set of keywords in one walk over a
// text, in time that is linear in the text whatever the keywords are.
package automaton

import "slices"

// Machine finds all of a set of keywords in one walk over a text (Aho and
// Corasick, 1975), ASCII letters in either case.
type Machine struct {
	// next holds, for each state, the state after each class of byte. A state is
	// where its row begins, and has the bit ends where a keyword ends in it.
	next  []uint32
	class [256]uint8
	width int
	// longest is how long the longest keyword is.
	longest int
	// hits are the keywords that end in each state.
	hits [][]Hit
}

// ends marks the states in which a keyword ends.
const ends = 1 << 31

// Hit is a keyword, by its number, and how long it is.
type Hit struct {
	Word   uint16
	Length uint16
}

// Step is the state after b.
func (a *Machine) Step(state uint32, b byte) uint32 {
	return a.next[state&^ends+uint32(a.class[b])]
}

// Found are the keywords that end in a state.
func (a *Machine) Found(state uint32) []Hit {
	if state&ends == 0 {
		return nil
	}
	return a.hits[int(state&^ends)/a.width]
}

// New takes keywords in lower case.
func New(words []string) *Machine {
	a := &Machine{}
	states := 1 + a.classes(words) // at most: what is not used is never touched, and rows are never moved (P-06)
	a.next, a.hits = make([]uint32, 0, states*a.width), make([][]Hit, 0, states)
	a.grow() // the root
	for i, word := range words {
		a.insert(uint16(i), word)
	}
	a.link()
	return a
}

// classes gives each byte that occurs in a keyword a number of its own; all
// others share number 0. It returns how long the keywords are together.
func (a *Machine) classes(words []string) (letters int) {
	a.width = 1
	for _, word := range words {
		letters += len(word)
		a.longest = max(a.longest, len(word))
		for i := range len(word) {
			b := word[i]
			if a.class[b] != 0 {
				continue
			}
			a.class[b] = uint8(a.width)
			a.class[upper(b)] = uint8(a.width)
			a.width++
		}
	}
	return letters
}

// grow takes the next of the rows that there is room for.
func (a *Machine) grow() uint32 {
	at := len(a.next)
	a.next, a.hits = a.next[:at+a.width], append(a.hits, nil)
	clear(a.next[at:]) // what is read before it is written is mapped twice
	return uint32(at)
}

func (a *Machine) insert(id uint16, word string) {
	state := uint32(0)
	for i := range len(word) {
		at := state + uint32(a.class[word[i]])
		if a.next[at] == 0 {
			a.next[at] = a.grow()
		}
		state = a.next[at]
	}
	row := int(state) / a.width
	a.hits[row] = append(a.hits[row], Hit{id, uint16(len(word))})
}

// link makes the tree a machine, from the root down: a missing child leads to
// where the longest suffix that is also a prefix would have led.
func (a *Machine) link() {
	fallback := make([]uint32, len(a.hits))
	for queue := make([]uint32, 1, len(a.hits)); len(queue) > 0; queue = queue[1:] { // the root, and on
		state := queue[0]
		back := fallback[int(state)/a.width]
		row, other := a.next[state:][:a.width], a.next[back:][:a.width]
		for c, child := range row {
			if child == 0 {
				row[c] = other[c]
				continue
			}
			at, suffix := int(child)/a.width, other[c]
			if state == 0 { // one letter has no shorter suffix
				suffix = 0
			}
			fallback[at] = suffix &^ ends
			a.hits[at] = slices.Concat(a.hits[at], a.Found(suffix))
			if len(a.hits[at]) > 0 {
				row[c] |= ends
			}
			queue = append(queue, child)
		}
	}
}

func upper(b byte) byte {
	if b >= 'a' && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}
