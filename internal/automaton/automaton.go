// Package automaton promises to find all of a set of keywords in one walk over a
// text, in time that is linear in the text whatever the keywords are.
package automaton

// Machine finds all of a set of keywords in one walk over a text (Aho and
// Corasick, 1975), ASCII letters in either case.
type Machine struct {
	// next holds, for each state, the state after each class of byte. A state is the
	// number of its row, and has the bit ends where a keyword ends in it.
	next  []uint16
	class [256]uint8
	width int
	// longest is how long the longest keyword is.
	longest int
	// hits are the keywords that end in each state.
	hits [][]Hit
}

// ends marks the states in which a keyword ends.
const ends = 1 << 15

// Hit is a keyword, by its number, and how long it is.
type Hit struct {
	Word   uint16
	Length uint16
}

// Step is the state after b.
func (a *Machine) Step(state uint16, b byte) uint16 {
	return a.next[int(state&^ends)*a.width+int(a.class[b])]
}

// Found are the keywords that end in a state.
func (a *Machine) Found(state uint16) []Hit {
	if state&ends == 0 {
		return nil
	}
	return a.hits[state&^ends]
}

// New takes keywords in lower case, of fewer than 32,768 letters together.
func New(words []string) *Machine {
	a := &Machine{}
	most := 1 + a.classes(words) // what is not used is never touched
	if most > ends {
		panic("automaton: too many keywords") // they are a part of the program
	}
	tree := make([]node, 1, most)
	a.hits = make([][]Hit, 1, most)
	for i, word := range words {
		tree = a.insert(tree, uint16(i), word)
	}
	a.link(tree)
	return a
}

// node is a place in the tree of keywords: the bytes that go on from it are a list. A
// row for each is made when all are known, and written once (P-06).
type node struct {
	child, sibling uint16
	class          uint8
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

func (a *Machine) insert(tree []node, id uint16, word string) []node {
	at := uint16(0)
	for i := range len(word) {
		class, child := a.class[word[i]], tree[at].child
		for child != 0 && tree[child].class != class {
			child = tree[child].sibling
		}
		if child == 0 {
			child = uint16(len(tree))
			tree, a.hits = append(tree, node{class: class, sibling: tree[at].child}), append(a.hits, nil)
			tree[at].child = child
		}
		at = child
	}
	a.hits[at] = append(a.hits[at], Hit{id, uint16(len(word))})
	return tree
}

// link makes the tree a machine, from the root down: a missing child leads to
// where the longest suffix that is also a prefix would have led.
func (a *Machine) link(tree []node) {
	a.next = make([]uint16, len(tree)*a.width)
	fallback := make([]uint16, len(tree))
	for queue := make([]uint16, 1, len(tree)); len(queue) > 0; queue = queue[1:] { // the root, and on
		at := queue[0]
		row, other := a.next[int(at)*a.width:][:a.width], a.next[int(fallback[at])*a.width:][:a.width]
		if at != 0 {
			copy(row, other)
		}
		for child := tree[at].child; child != 0; child = tree[child].sibling {
			c, suffix := tree[child].class, uint16(0) // one letter has no shorter suffix
			if at != 0 {
				suffix = other[c]
			}
			fallback[child] = suffix &^ ends
			a.hits[child] = append(a.hits[child], a.Found(suffix)...)
			if row[c] = child; len(a.hits[child]) > 0 {
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
