package redact

import "slices"

// automaton finds all of a set of keywords in one walk over a text (Aho and
// Corasick, 1975), ASCII letters in either case.
type automaton struct {
	// next holds, for each state, the state after each class of byte.
	next  []uint16
	class [256]uint8
	width int
	// hits are the keywords that end in each state.
	hits [][]hit
}

type hit struct {
	word   uint16
	length uint16
}

func (a *automaton) step(state uint16, b byte) uint16 {
	return a.next[int(state)*a.width+int(a.class[b])]
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

func (a *automaton) grow() uint16 {
	a.next = append(a.next, make([]uint16, a.width)...)
	a.hits = append(a.hits, nil)
	return uint16(len(a.hits) - 1)
}

func (a *automaton) insert(id uint16, word string) {
	state := uint16(0)
	for i := range len(word) {
		at := int(state)*a.width + int(a.class[word[i]])
		if a.next[at] == 0 {
			grown := a.grow() // may move a.next
			a.next[at] = grown
		}
		state = a.next[at]
	}
	a.hits[state] = append(a.hits[state], hit{id, uint16(len(word))})
}

// link makes the tree a machine: a missing child leads to where the longest
// suffix that is also a prefix would have led.
func (a *automaton) link() {
	fallback := make([]uint16, len(a.hits))
	var queue []uint16
	for c := range a.width {
		if child := a.next[c]; child != 0 {
			queue = append(queue, child)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		back := fallback[state]
		a.hits[state] = slices.Concat(a.hits[state], a.hits[back])
		for c := range a.width {
			at, other := int(state)*a.width+c, a.next[int(back)*a.width+c]
			if child := a.next[at]; child != 0 {
				fallback[child] = other
				queue = append(queue, child)
			} else {
				a.next[at] = other
			}
		}
	}
	for i := range a.hits {
		if len(a.hits[i]) == 0 {
			a.hits[i] = nil
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
