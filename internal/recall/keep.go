package recall

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// Version is that of how texts become words: an index that was kept under another one is
// built anew. It counts up with each change of what Put makes of a text.
const Version = 1

// ErrKept says that bytes are no index that Append wrote.
var ErrKept = errors.New("not an index that was kept")

// Append writes an index behind b, for Restore. Links are left out. An index of which
// texts were dropped is not kept: their words are still in it.
func Append(b []byte, x *Index) ([]byte, error) {
	if x.Dropped() > 0 {
		return nil, errors.New("texts were dropped from the index")
	}
	words := make([]string, len(x.postings))
	for word, id := range x.words {
		words[id] = word
	}
	b = binary.AppendUvarint(b, uint64(len(words)))
	for _, word := range words {
		b = AppendString(b, word)
	}
	total := 0
	for slot := range x.docs {
		total += len(x.docs[slot].words)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(len(x.docs))), uint64(total))
	for slot := range x.docs {
		b = x.docs[slot].append(b, x.lengths[slot])
	}
	b = binary.AppendUvarint(b, uint64(len(x.tails)))
	for _, thread := range slices.Sorted(maps.Keys(x.tails)) {
		b = binary.AppendUvarint(AppendString(b, thread), uint64(x.tails[thread]))
	}
	return b, nil
}

func (d *doc) append(b []byte, length uint8) []byte {
	asks := uint64(0)
	if d.asks {
		asks = 1
	}
	b = append(binary.AppendUvarint(b, uint64(len(d.words))<<1|asks), length)
	b = binary.AppendUvarint(b, uint64(d.prev+1))
	for _, w := range d.words {
		b = binary.AppendUvarint(b, uint64(w))
	}
	return b
}

// AppendString writes a text and its length.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Kept reads what was kept, from its beginning. What is not there reads as zero, and then
// Err says so.
type Kept struct {
	rest string
	bad  bool
}

// ReadKept begins to read.
func ReadKept(data []byte) *Kept { return &Kept{rest: string(data)} }

// Err is [ErrKept] where something that was asked for was not there.
func (k *Kept) Err() error {
	if k.bad {
		return ErrKept
	}
	return nil
}

// Number reads one that is below a limit.
func (k *Kept) Number(limit uint64) uint64 {
	n := uint64(0)
	for i := 0; i < len(k.rest) && i < binary.MaxVarintLen64; i++ {
		n |= uint64(k.rest[i]&0x7f) << (7 * i)
		if k.rest[i] < 0x80 {
			k.rest = k.rest[i+1:]
			k.bad = k.bad || n >= limit
			if k.bad {
				return 0
			}
			return n
		}
	}
	k.bad, k.rest = true, ""
	return 0
}

// Count reads how many things follow: no more than there are bytes.
func (k *Kept) Count() int { return int(k.Number(uint64(len(k.rest)) + 1)) }

// Text reads one that AppendString wrote.
func (k *Kept) Text() string {
	n := k.Count()
	if n > len(k.rest) {
		k.bad = true
		return ""
	}
	s := k.rest[:n]
	k.rest = k.rest[n:]
	return s
}

func (k *Kept) octet() uint8 {
	if k.rest == "" {
		k.bad = true
		return 0
	}
	b := k.rest[0]
	k.rest = k.rest[1:]
	return b
}

// Restore reads an index that Append wrote.
func Restore(k *Kept) (*Index, error) {
	x := New()
	words := k.Count()
	x.words, x.postings, x.counts = make(map[string]int32, words), make([][]uint32, 0, words), make([]int32, 0, words)
	for range words {
		x.word(k.Text())
	}
	if len(x.words) != words { // one came twice
		return nil, ErrKept
	}
	docs := k.Count()
	x.docs, x.lengths = make([]doc, 0, docs), make([]uint8, 0, docs)
	flat := make([]int32, 0, k.Count())
	for slot := range docs {
		flat = restore(x, k, slot, flat)
	}
	for range k.Count() {
		thread := k.Text()
		x.tails[thread] = int32(k.Number(uint64(docs)))
	}
	if k.bad || docs > MaxTexts {
		return nil, ErrKept
	}
	x.live = docs
	repost(x, len(flat))
	return x, nil
}

// restore reads one text, whose words it puts behind flat.
func restore(x *Index, k *Kept, slot int, flat []int32) []int32 {
	head := k.Number(1 << 40)
	d := doc{live: true, asks: head&1 == 1, prev: -1, next: -1}
	length := k.octet()
	prev, n, from := int32(k.Number(uint64(slot)+1)), head>>1, len(flat)
	if k.bad = k.bad || n > uint64(cap(flat)-from); k.bad {
		return flat
	}
	if prev > 0 {
		d.prev = prev - 1
		x.docs[prev-1].next = int32(slot)
	}
	for range n {
		flat = append(flat, int32(k.Number(uint64(len(x.postings)))))
	}
	if k.bad {
		return flat[:from]
	}
	d.words = flat[from:len(flat):len(flat)]
	x.docs, x.lengths = append(x.docs, d), append(x.lengths, length)
	x.length += int(length)
	return flat
}

// repost makes the lists of words from the texts, in one piece of memory.
func repost(x *Index, most int) {
	seen := make([]int32, len(x.postings)) // the last text of each word, counted from 1
	for slot := range x.docs {
		for _, w := range x.docs[slot].words {
			if seen[w] != int32(slot)+1 {
				seen[w] = int32(slot) + 1
				x.counts[w]++
			}
		}
	}
	all := make([]uint32, most)
	for w, n := range x.counts {
		x.postings[w], all = all[:0:n], all[n:]
		x.counts[w] = 0
	}
	for slot := range x.docs {
		x.post(slot, x.docs[slot].words)
	}
}
