package redact

import "slices"

// automaton finds all of a set of keywords in one walk over a text (Aho and
// Corasick, 1975), ASCII letters in either case.
type automaton struct {
	// next holds, for each state, the state after each class of byte. A state is
	// where its row begins, and has the bit ends where a keyword ends in it.
	next  []uint32
	class [256]uint8
	width int
	// hits are the keywords that end in each state.
	hits [][]hit
}

// ends marks the states in which a keyword ends.
const ends = 1 << 31

type hit struct {
	word   uint16
	length uint16
}

// step is the state after b.
func (a *automaton) step(state uint32, b byte) uint32 {
	return a.next[state&^ends+uint32(a.class[b])]
}

// found are the keywords that end in a state.
func (a *automaton) found(state uint32) []hit {
	if state&ends == 0 {
		return nil
	}
	return a.hits[int(state&^ends)/a.width]
}

// newAutomaton takes keywords in lower case.
func newAutomaton(words []string) automaton {
	a := automaton{}
	a.classes(words)
	a.grow() // the root
	for i, word := range words {
		a.insert(uint16(i), word)
	}
	a.link()
	return a
}

// classes gives each byte that occurs in a keyword a number of its own; all
// others share number 0.
func (a *automaton) classes(words []string) {
	a.width = 1
	for _, word := range words {
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
}

func (a *automaton) grow() uint32 {
	a.next = append(a.next, make([]uint32, a.width)...)
	a.hits = append(a.hits, nil)
	return uint32(len(a.next) - a.width)
}

func (a *automaton) insert(id uint16, word string) {
	state := uint32(0)
	for i := range len(word) {
		at := state + uint32(a.class[word[i]])
		if a.next[at] == 0 {
			grown := a.grow() // may move a.next
			a.next[at] = grown
		}
		state = a.next[at]
	}
	row := int(state) / a.width
	a.hits[row] = append(a.hits[row], hit{id, uint16(len(word))})
}

// link makes the tree a machine: a missing child leads to where the longest
// suffix that is also a prefix would have led.
func (a *automaton) link() {
	fallback := make([]uint32, len(a.hits))
	var queue []uint32
	for _, child := range a.next[:a.width] {
		if child != 0 {
			queue = append(queue, child)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		row := int(state) / a.width
		back := fallback[row]
		a.hits[row] = slices.Concat(a.hits[row], a.hits[int(back)/a.width])
		for c := range uint32(a.width) {
			other := a.next[back+c]
			if child := a.next[state+c]; child != 0 {
				fallback[int(child)/a.width] = other
				queue = append(queue, child)
			} else {
				a.next[state+c] = other
			}
		}
	}
	for i, state := range a.next {
		if len(a.hits[int(state)/a.width]) > 0 {
			a.next[i] |= ends
		}
	}
}

func upper(b byte) byte {
	if b >= 'a' && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b - 'A' + 'a'
	}
	return b
}
