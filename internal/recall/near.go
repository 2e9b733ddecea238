package recall

import (
	"cmp"
	"slices"
)

// Words of a query that no text holds are looked for under other spellings: an
// abbreviation, two words written as one, a slip of the finger.
const (
	// prefixShare, partShare and slipShare are what such a word counts against one that is there.
	prefixShare = 0.5
	partShare   = 0.6
	slipShare   = 0.4
	// leastPrefix, leastPart and leastSlip are the letters that a word needs for it.
	leastPrefix = 4
	leastPart   = 3
	leastSlip   = 5
	// twoSlips is from how many letters on a word may be off by two.
	twoSlips = 8
	// mostEnding is how many letters an ending that no stemmer knows may have.
	mostEnding = 4
	// maxAlike is how many words stand in for one, and maxStrange for how many of one query.
	maxAlike   = 3
	maxStrange = 8
)

// shape is what words that may be spellings of each other share: the first
// letter and, nearly, the length.
type shape struct {
	first  byte
	length uint8
}

// spell enters a new word of the index by its shape. Only words of small
// letters are compared by their spelling.
func (x *Index) spell(id int32, text string) {
	if isPlain(text) && len(text) >= leastPrefix && len(text) <= maxStem {
		s := shape{text[0], uint8(len(text))}
		x.shapes[s] = append(x.shapes[s], spelled{text, id})
	}
}

// spelled is a word with its number.
type spelled struct {
	text string
	id   int32
}

// standIn is a word of the index that may be what a word of a query means.
type standIn struct {
	word  int32
	share float64
	off   int // by how many letters
}

// alike are the words that stand in for one that no text holds.
func (x *Index) alike(t token) []standIn {
	word := t.text
	if t.whole || !isPlain(word) || len(word) > maxStem {
		return nil
	}
	raw := cmp.Or(t.raw, word)
	if parts := x.split(raw); parts != nil {
		return parts
	}
	found := x.longer(word)
	if len(found) == 0 {
		most := 1
		if len(raw) >= twoSlips {
			most = 2
		}
		found = x.slips(word, most)
	}
	if len(found) == 0 {
		found = x.shorter(word)
	}
	slices.SortStableFunc(found, func(a, b standIn) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(x.counts[b.word], x.counts[a.word]))
	})
	return found[:min(len(found), maxAlike)]
}

// split takes a word apart into two that are there, such as database.
func (x *Index) split(word string) []standIn {
	for i := leastPart; i <= len(word)-leastPart; i++ {
		first, one := x.words[stem(word[:i])]
		second, two := x.words[stem(word[i:])]
		if one && two && x.counts[first] > 0 && x.counts[second] > 0 && !isCommon(word[:i]) && !isCommon(word[i:]) {
			return []standIn{{first, partShare, 0}, {second, partShare, 0}}
		}
	}
	return nil
}

// longer are the words that a word begins.
func (x *Index) longer(word string) []standIn {
	if len(word) < leastPrefix {
		return nil
	}
	var found []standIn
	for length := len(word) + 1; length <= maxStem; length++ {
		for _, w := range x.shapes[shape{word[0], uint8(length)}] {
			if x.counts[w.id] > 0 && w.text[:len(word)] == word {
				found = append(found, standIn{w.id, prefixShare, length - len(word)})
			}
		}
	}
	return found
}

// shorter is the longest stem that a word begins with, where its ending is misspelt.
func (x *Index) shorter(word string) []standIn {
	for length := len(word) - 1; length >= max(leastSlip, len(word)-mostEnding); length-- {
		if w, known := x.words[word[:length]]; known && x.counts[w] > 0 {
			return []standIn{{w, slipShare, len(word) - length}}
		}
	}
	return nil
}

// slips are the words that are so many letters off at most.
func (x *Index) slips(word string, most int) []standIn {
	if len(word) < leastSlip {
		return nil
	}
	var found []standIn
	for length := len(word) - most; length <= len(word)+most; length++ {
		for _, w := range x.shapes[shape{word[0], uint8(length)}] {
			if x.counts[w.id] == 0 {
				continue
			}
			if off := distance(word, w.text, most); off <= most {
				found = append(found, standIn{w.id, slipShare, off})
			}
		}
	}
	return found
}

// distance counts the letters by which two words differ, two that changed places as one. Beyond
// most it only says that it is more.
func distance(a, b string, most int) int {
	var before, row, next [maxStem + 3]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
			least = min(least, next[j])
		}
		if least > most {
			return least
		}
		before, row = row, next
	}
	return row[len(b)]
}
