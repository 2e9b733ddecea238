package provenance

import (
	"bytes"
	"slices"
)

// generations is of how many segments a class is: when the newest is full, the
// oldest is let go.
const generations = 2

// class is the text of one provenance.
type class struct {
	// limit is the most text of one segment, in bytes.
	limit    int
	segments []*segment
}

// addAll takes in docs and what they say in other spellings, except for those
// that are not to be had from this source.
func (c *class) addAll(docs []doc, name string, except map[string]bool) {
	name = shorten(name)
	for _, d := range docs {
		c.add(d, name)
		c.addNew(slices.DeleteFunc(append(aliases(d), dateAliases(string(d))...), func(alias doc) bool {
			return except[string(alias)]
		}), name)
	}
}

// addNew takes in the docs that the newest segment does not have from this source.
func (c *class) addNew(docs []doc, name string) {
	for _, d := range docs {
		if !c.knows(d, name) {
			c.add(d, name)
		}
	}
}

// add takes in a doc, in parts where it does not fit into a segment. Parts are
// cut at blanks, so that no half of a word becomes a word.
func (c *class) add(d doc, name string) {
	for len(d) > 0 {
		size := len(d)
		if size > c.limit || len(d)/2 > c.limit/bytesPerWord {
			size = c.fitting(d)
		}
		if size > 0 {
			c.room(size, d[:size]).add(d[:size], name)
		}
		d = d[min(size+1, len(d)):]
		if size == 0 {
			d = afterBlank(d)
		}
	}
}

// fitting returns how much of a long doc fits into a new segment, up to a blank.
func (c *class) fitting(d doc) int {
	size, words := 0, 0
	for i := 0; ; {
		start, end, _ := nextWord(d, i)
		if start == end && len(d) <= c.limit {
			return len(d)
		}
		if words++; start == end || end > c.limit || words > c.limit/bytesPerWord {
			break
		}
		size, i = end, end
	}
	return max(0, bytes.LastIndexByte(d[:size], ' '))
}

// afterBlank drops the word that is too long to be kept.
func afterBlank(d doc) doc {
	if i := bytes.IndexByte(d, ' '); i >= 0 {
		return d[i+1:]
	}
	return nil
}

// room returns the segment that takes a doc of that size.
func (c *class) room(size int, d doc) *segment {
	if n := len(c.segments); n > 0 {
		s := c.segments[n-1]
		left := c.limit/bytesPerWord - len(s.words)
		if len(s.text)+size < c.limit && (len(d)/2 < left || countWords(d) <= left) {
			return s
		}
	}
	if len(c.segments) == generations {
		c.segments = slices.Delete(c.segments, 0, 1)
	}
	c.segments = append(c.segments, newSegment())
	return c.segments[len(c.segments)-1]
}

func countWords(d doc) (count int) {
	for i := 0; ; count++ {
		start, end, _ := nextWord(d, i)
		if start == end {
			return count
		}
		i = end
	}
}

// knows reports whether the newest segment has the doc from that source.
func (c *class) knows(d doc, name string) (known bool) {
	if len(c.segments) == 0 {
		return false
	}
	n := newNeedle(d, true)
	c.segments[len(c.segments)-1].find(&n, func(source string) bool {
		known = source == name
		return !known
	})
	return known
}

// sources names up to MaxSources sources in which one of the needles stands.
func (c *class) sources(needles []needle) (names []string) {
	for _, s := range slices.Backward(c.segments) {
		for i := range needles {
			s.find(&needles[i], func(name string) bool {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
				return len(names) < MaxSources
			})
			if len(names) == MaxSources {
				return names
			}
		}
	}
	return names
}
