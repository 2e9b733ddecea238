package provenance

import (
	"bytes"
	"slices"
	"sort"
	"unicode/utf8"
)

const (
	// levels are the lengths of runs of words that are indexed: 1, 2 and 4.
	levels = 3
	// bytesPerWord bounds the words of a segment by its text: text of shorter
	// words is let go sooner.
	bytesPerWord = 5
	// longDoc is from where on room is made for a doc before it is read, in bytes.
	longDoc = 64 << 10
	// firstHeads is the size of a new index, a power of two.
	firstHeads = 256
	// maxNames is how many sources of a segment keep their names.
	maxNames = 4096
	// The effort for one value. Where it does not suffice, the value was not seen.
	maxSteps      = 256
	maxCandidates = 64
	maxCompared   = 64 << 10
	minCandidates = 4
	maxCounted    = 8
)

// moreSources is the name of the sources over maxNames.
const moreSources = "other sources"

// segment is a run of texts with an index of its words, of every two and of
// every four words that follow each other. It grows until its class drops it.
type segment struct {
	// text is the docs, each between two endOfDoc.
	text []byte
	// words are the offsets of words in text.
	words []uint32
	// links has levels entries for each word.
	links []link
	// heads are the newest entries of the chains, plus one.
	heads []uint32
	used  int
	marks []mark
	names []string
	index map[string]uint32
}

// link is an entry of the index: a run of words, and the entry before it in its chain.
type link struct{ hash, next uint32 }

// mark says from which offset on the text is of a source.
type mark struct{ offset, source uint32 }

func newSegment() *segment {
	return &segment{text: []byte{endOfDoc}, heads: make([]uint32, firstHeads), index: make(map[string]uint32)}
}

// add takes in a doc.
func (s *segment) add(d doc, name string) {
	s.mark(name)
	base := len(s.text)
	s.text = append(append(s.text, d...), endOfDoc)
	if len(d) >= longDoc {
		s.reserve(countWords(d))
	}
	var last [4]uint64
	for i, count := 0, 1; ; count++ {
		start, end, hash := nextWord(d, i)
		if start == end {
			return
		}
		i = end
		last[0], last[1], last[2], last[3] = last[1], last[2], last[3], hash
		s.words = append(s.words, uint32(base+start))
		s.links = append(s.links, link{}, link{}, link{})
		entry := len(s.links) - levels
		s.insert(entry, fold(hash))
		if count >= 2 {
			s.insert(entry-levels+1, fold(pair(last[2], last[3])))
		}
		if count >= 4 {
			s.insert(entry-3*levels+2, fold(pair(pair(last[0], last[1]), pair(last[2], last[3]))))
		}
	}
}

func (s *segment) mark(name string) {
	source, known := s.index[name]
	if !known {
		if len(s.names) == maxNames {
			s.names = append(s.names, moreSources)
		}
		if source = uint32(min(len(s.names), maxNames)); len(s.names) < maxNames {
			s.names = append(s.names, name)
			s.index[name] = source
		}
	}
	if n := len(s.marks); n == 0 || s.marks[n-1].source != source {
		s.marks = append(s.marks, mark{uint32(len(s.text)), source})
	}
}

func (s *segment) insert(entry int, hash uint32) {
	if s.used++; s.used > len(s.heads) {
		s.resize(2 * len(s.heads))
	}
	s.links[entry].hash = hash
	s.link(entry)
}

func (s *segment) link(entry int) {
	head := &s.heads[s.links[entry].hash&uint32(len(s.heads)-1)]
	s.links[entry].next = *head
	*head = uint32(entry + 1)
}

// reserve makes room for the words of a long doc at once.
func (s *segment) reserve(words int) {
	s.words = slices.Grow(s.words, words)
	s.links = slices.Grow(s.links, words*levels)
	size := len(s.heads)
	for size < s.used+words*levels {
		size *= 2
	}
	if size > len(s.heads) {
		s.resize(size)
	}
}

// resize makes a new array of heads. Entries are linked again in order, so that chains
// still begin with the newest.
func (s *segment) resize(size int) {
	s.heads = make([]uint32, size)
	for entry := range s.links {
		if s.links[entry].hash != 0 {
			s.link(entry)
		}
	}
}

// find calls seen with the source of each place where the needle stands as a
// whole, until seen returns false. It gives up after a bounded effort.
func (s *segment) find(n *needle, seen func(name string) bool) {
	s.places(n, func(at int) bool { return seen(s.sourceAt(at)) })
}

// textAt is the text around an offset; of what a text says in another spelling, which
// follows it, that text. There is none where it is too far away.
func (s *segment) textAt(at int) (text doc, ok bool) {
	for range maxSteps {
		end := at + bytes.IndexByte(s.text[at:], endOfDoc)
		start := bytes.LastIndexByte(s.text[:at], endOfDoc) + 1
		if s.text[start] != aliasByte {
			return doc(s.text[start:end]), true
		}
		if at = start - 2; at < 1 {
			break
		}
	}
	return nil, false
}

// places is find with the offset of each place.
func (s *segment) places(n *needle, seen func(at int) bool) {
	best, ok := s.rarest(n)
	if !ok {
		return
	}
	candidates := min(maxCandidates, max(minCandidates, maxCompared/len(n.text)))
	e := s.heads[best.hash&uint32(len(s.heads)-1)]
	for steps := 0; e != 0 && steps < maxSteps && candidates > 0; steps++ {
		entry := int(e - 1)
		e = s.links[entry].next
		if s.links[entry].hash != best.hash || entry%levels != n.level {
			continue
		}
		candidates--
		at := int(s.words[entry/levels]) - best.offset
		if s.stands(n, at) && !seen(at) {
			return
		}
	}
}

// rarest picks the run of the needle's words whose chain is shortest; not ok
// where one of them is in no chain.
func (s *segment) rarest(n *needle) (best run, ok bool) {
	fewest := maxCounted + 1
	for _, r := range n.runs {
		count, steps := 0, 0
		e := s.heads[r.hash&uint32(len(s.heads)-1)]
		for ; e != 0 && count < maxCounted && steps < maxSteps; steps++ {
			entry := int(e - 1)
			if s.links[entry].hash == r.hash && entry%levels == n.level {
				count++
			}
			e = s.links[entry].next
		}
		if count == 0 && e == 0 {
			return run{}, false
		}
		if count > 0 && count < fewest {
			best, fewest, ok = r, count, true
		}
		if count == 1 {
			break
		}
	}
	return best, ok
}

// stands reports whether the needle stands at an offset as a whole.
func (s *segment) stands(n *needle, at int) bool {
	end := at + len(n.text)
	if at < 1 || end >= len(s.text) || !bytes.Equal(s.text[at:end], n.text) {
		return false
	}
	if n.alone {
		return s.text[at-1] == endOfDoc && s.text[end] == endOfDoc
	}
	return begins(s.text, at) && ends(s.text, end)
}

func (s *segment) sourceAt(offset int) string {
	i := sort.Search(len(s.marks), func(i int) bool { return int(s.marks[i].offset) > offset })
	return s.names[s.marks[i-1].source]
}

// nextWord returns the next word from i on and its hash; start equals end where there is none.
func nextWord(t []byte, i int) (start, end int, hash uint64) {
	for i < len(t) {
		c, n := classAt(t, i)
		if c == word {
			break
		}
		i += n
	}
	start, hash = i, 14695981039346656037
	for i < len(t) {
		if c := t[i]; c < utf8.RuneSelf {
			if asciiClasses[c] != word {
				break
			}
			hash = (hash ^ uint64(c)) * 1099511628211
			i++
			continue
		}
		c, n := classAt(t, i)
		if c != word {
			break
		}
		for ; n > 0; n-- {
			hash = (hash ^ uint64(t[i])) * 1099511628211
			i++
		}
	}
	return start, i, hash
}

// pair is the hash of two runs that follow each other.
func pair(a, b uint64) uint64 {
	x := a*0x9E3779B97F4A7C15 ^ (b + 0x7F4A7C159E3779B9)
	x = (x ^ x>>29) * 0xBF58476D1CE4E5B9
	return x ^ x>>32
}

// fold makes a hash one of an entry, which is never 0.
func fold(hash uint64) uint32 {
	hash = (hash ^ hash>>31) * 0x94D049BB133111EB
	return max(uint32(hash>>32), 1)
}
