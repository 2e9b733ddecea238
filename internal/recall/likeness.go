package recall

// Likeness is how much of what two texts say is the same, from 0 to 1. It is twice what they share
// over what both hold, of words and names by their stems (Sørensen and Dice). Words that say
// nothing count only where a text has no others. A text without words is like no other.
func Likeness(a, b string) float64 {
	return Sketch(a).Likeness(Sketch(b))
}

// Words are what a text says, to be held against others.
type Words map[string]bool

// Sketch reads the words of a text: the first of them, up to a limit.
func Sketch(text string) Words {
	told, common := Words{}, Words{}
	for _, t := range tokens(text) {
		switch {
		case t.whole: // its parts are there
		case t.common:
			common[t.text] = true
		default:
			told[t.text] = true
		}
	}
	if len(told) == 0 {
		return common
	}
	return told
}

// Likeness is [Likeness] of the texts that were read.
func (w Words) Likeness(other Words) float64 {
	if len(w)+len(other) == 0 {
		return 0
	}
	shared := 0
	for word := range w {
		if other[word] {
			shared++
		}
	}
	return 2 * float64(shared) / float64(len(w)+len(other))
}
