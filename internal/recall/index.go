package recall

import (
	"math"
	"strings"
	"unicode/utf8"
)

// The limits of an index; what is over them is not put in.
const (
	// MaxTexts is how many texts an index holds, those that were dropped since it was last compacted included.
	MaxTexts  = 1<<slotBits - 1
	slotBits  = 24
	maxCount  = 1<<(32-slotBits) - 1 // of one word in one text
	maxLength = 255                  // of a text, in words, as far as length counts against it
	// maxLinks is how many links of one text are followed.
	maxLinks = 32
)

// Doc is a text to be found.
type Doc struct {
	Text string
	Tags []string
	// Thread is what the text belongs to, such as a session: texts of one thread
	// stand next to each other in the order they are put in. Empty means alone.
	Thread string
}

// Index holds texts by slot: a small number that Put gives out. Its methods
// that change it want that nobody else uses it meanwhile; Rank may run beside Rank.
type Index struct {
	words    map[string]int32
	shapes   map[shape][]spelled
	counts   []int32    // by word: in how many live texts it is
	postings [][]uint32 // by word: slot << 8 | count, slots ascending
	docs     []doc
	lengths  []uint8          // by slot: how many words say something
	tails    map[string]int32 // the last slot of each thread
	links    map[int32][]link
	splitter splitter // of the texts that are put in
	live     int
	length   int // of all live texts together, in words
}

type doc struct {
	words      []int32 // in order; common ones too
	live       bool
	asks       bool  // it ends with a question
	prev, next int32 // in the thread, -1 for none
}

type link struct {
	to     int32
	weight float32
}

// New gives an empty index.
func New() *Index {
	return &Index{words: map[string]int32{}, shapes: map[shape][]spelled{}, tails: map[string]int32{}, links: map[int32][]link{}, splitter: splitter{known: map[string]token{}}}
}

// Len is how many texts the index holds.
func (x *Index) Len() int { return x.live }

// Dropped is how many slots are spent on texts that were dropped: an index of
// which most is gone is worth building anew.
func (x *Index) Dropped() int { return len(x.docs) - x.live }

// Put adds a text and gives its slot, which counts up from 0; false where the index is full.
func (x *Index) Put(d Doc) (slot int, ok bool) {
	if len(x.docs) == MaxTexts {
		return 0, false
	}
	slot = len(x.docs)
	words := x.splitter.tokens(d.Text)
	for _, tag := range d.Tags {
		words = append(words, tokens(tag)...)
	}
	x.splitter.out = words
	entry := doc{words: make([]int32, 0, len(words)), live: true, asks: asks(d.Text), prev: -1, next: -1}
	length := 0
	for _, w := range words {
		entry.words = append(entry.words, x.word(w.text))
		if !w.whole && !w.common {
			length++
		}
	}
	length = min(length, maxLength)
	x.post(slot, entry.words)
	x.thread(slot, &entry, d.Thread)
	x.docs, x.lengths = append(x.docs, entry), append(x.lengths, uint8(length))
	x.live, x.length = x.live+1, x.length+length
	return slot, true
}

// asks tells whether a text ends with a question, in the scripts that have a sign for it.
func asks(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text, " \t\r\n\"'”’»)"))
	return last == '?' || last == '？' || last == '؟'
}

func (x *Index) word(text string) int32 {
	id, known := x.words[text]
	if !known {
		id = int32(len(x.postings))
		x.words[text] = id
		x.spell(id, text)
		x.postings, x.counts = append(x.postings, nil), append(x.counts, 0)
	}
	return id
}

// post enters a text into the lists of its words.
func (x *Index) post(slot int, words []int32) {
	for _, w := range words {
		list := x.postings[w]
		if n := len(list); n > 0 && list[n-1]>>8 == uint32(slot) {
			if list[n-1]&maxCount < maxCount {
				list[n-1]++
			}
			continue
		}
		x.postings[w] = append(list, uint32(slot)<<8|1)
		x.counts[w]++
	}
}

func (x *Index) thread(slot int, entry *doc, thread string) {
	if thread == "" {
		return
	}
	if tail, ok := x.tails[thread]; ok {
		entry.prev = tail
		x.docs[tail].next = int32(slot)
	}
	x.tails[thread] = int32(slot)
}

// Drop takes a text out; its words are forgotten when the index is built anew.
func (x *Index) Drop(slot int) {
	if slot < 0 || slot >= len(x.docs) || !x.docs[slot].live {
		return
	}
	d := &x.docs[slot]
	seen := map[int32]bool{}
	for _, w := range d.words {
		if !seen[w] {
			seen[w] = true
			x.counts[w]--
		}
	}
	if d.prev >= 0 {
		x.docs[d.prev].next = d.next
	}
	if d.next >= 0 {
		x.docs[d.next].prev = d.prev
	}
	x.live, x.length = x.live-1, x.length-int(x.lengths[slot])
	d.live, d.words = false, nil
	delete(x.links, int32(slot))
}

// Link lets a share of from's relevance pass to to: of a failure to what
// prevents it, of what was replaced to what took its place. A link between
// slots that are not there is none.
func (x *Index) Link(from, to int, share float64) {
	n := len(x.docs)
	if from < 0 || to < 0 || from >= n || to >= n || from == to {
		return
	}
	links := x.links[int32(from)]
	for i := range links {
		if links[i].to == int32(to) {
			links[i].weight = float32(share)
			return
		}
	}
	if len(links) < maxLinks {
		x.links[int32(from)] = append(links, link{int32(to), float32(share)})
	}
}

// Unlink forgets all links that lead from a slot.
func (x *Index) Unlink(from int) { delete(x.links, int32(from)) }

// idf weighs a word: the fewer texts hold it, the more it says.
func (x *Index) idf(w int32) float64 {
	n := float64(x.counts[w])
	return math.Log(1 + (float64(x.live)-n+0.5)/(n+0.5))
}
