package provenance

// maxRuns is how many runs of a value's words are looked up to find a rare one.
const maxRuns = 8

// needle is one spelling of a value.
type needle struct {
	text []byte
	// alone means that it is seen only as the whole of a doc.
	alone bool
	// runs are some runs of its words, all of one level of the index.
	runs  []run
	level int
}

// run is a run of words in a needle.
type run struct {
	hash   uint32
	offset int
}

// newNeedle prepares the search for a text that is normalised and has a word.
func newNeedle(text []byte, alone bool) needle {
	var room [16]uint64
	var places [16]int
	hashes, offsets := room[:0], places[:0]
	for i := 0; ; {
		start, end, hash := nextWord(text, i)
		if start == end {
			break
		}
		hashes, offsets = append(hashes, hash), append(offsets, start)
		i = end
	}
	n := needle{text: text, alone: alone}
	length := 1
	for n.level < levels-1 && 2*length <= len(hashes) {
		n.level, length = n.level+1, 2*length
	}
	last := len(hashes) - length
	count := min(maxRuns, last+1)
	n.runs = make([]run, 0, count)
	for i := range count {
		at := 0
		if count > 1 {
			at = i * last / (count - 1)
		}
		n.runs = append(n.runs, run{hash: runHash(hashes[at : at+length]), offset: offsets[at]})
	}
	return n
}

func runHash(words []uint64) uint32 {
	switch len(words) {
	case 1:
		return fold(words[0])
	case 2:
		return fold(pair(words[0], words[1]))
	}
	return fold(pair(pair(words[0], words[1]), pair(words[2], words[3])))
}
