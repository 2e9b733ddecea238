package recall

import (
	"cmp"
	"container/heap"
	"iter"
	"math"
	"slices"
)

// The parameters of the ranking, chosen on the tasks of internal/memory/testdata.
const (
	k1 = 1.2
	b  = 0.6
	// wholeWeight is what an identifier or name written as it is counts, against its parts.
	wholeWeight = 1.3
	nameWeight  = 1.15
	// phraseShare of the rarer word's weight is added for two words that stand
	// beside each other as they do in the query.
	phraseShare = 0.35
	// beside is the share of a hit's score that passes to its neighbours in the
	// thread.
	beside = 0.2
	// answer is that share where the hit is a question: what follows may answer it, in
	// words of its own.
	answer = 0.5
	// further is what of that share goes one further, where an answer often is: of an
	// answer's, too, where what is beside the hit asks.
	further = 0.5
)

// The limits of one ranking.
const (
	// MaxQuery is how many different words of a query count.
	MaxQuery = 64
	// work is how many entries of lists are read for the whole of it. Beyond, the commonest words
	// count for the best candidates only.
	work       = 400_000
	candidates = 256 // at least, and four times the limit
)

// Query is what is looked for.
type Query struct {
	Text string
	// Keep says which texts may be found; nil means all.
	Keep func(slot int) bool
	// Among holds at least the slots that Keep lets through, ascending, where they are
	// known beforehand: only they are looked at. nil means that any slot may be one.
	Among []int32
	// Prior multiplies a text's score, for instance by how recent it is; nil means 1.
	Prior func(slot int) float64
	// Limit is how many are given; less than 1 gives none.
	Limit int
}

// Hit is a text that was found.
type Hit struct {
	Slot int
	// Score is over zero; it compares hits of one search only.
	Score float64
	// Relevance is 0–1: how much of what was asked for the text answers.
	Relevance float64
}

// term is a word of a query.
type term struct {
	word   int32
	weight float64 // times idf
}

// HasWords tells whether a query has anything to look up.
func HasWords(text string) bool { return len(tokens(text)) > 0 }

// Rank gives the best hits first; those with the same score in the order of
// their slots, the latest first.
func (x *Index) Rank(q Query) []Hit {
	words := tokens(q.Text)
	terms := x.terms(words)
	if len(terms) == 0 || q.Limit < 1 {
		return nil
	}
	if q.Keep == nil {
		q.Keep = func(int) bool { return true }
	}
	scores, rest := x.score(terms)
	room := max(candidates, 4*q.Limit)
	near := x.best(scores, room, q.slots(len(scores)), q.Keep)
	far := x.best(scores, room/4, Query{}.slots(len(scores)), func(int) bool { return true })
	own := map[int32]float64{}
	for _, c := range slices.Concat(near, far) {
		own[c.slot] = float64(c.score)
	}
	x.refine(own, rest, x.pairs(words))
	return x.final(q, own, ideal(terms))
}

// terms are the words of a query that some text holds, each once, the rarest
// first. Words that say nothing count only where there are no others.
func (x *Index) terms(words []token) []term {
	told := slices.ContainsFunc(words, func(t token) bool { return !t.common })
	var terms []term
	seen := map[int32]bool{}
	add := func(w int32, weight float64) {
		if !seen[w] && len(terms) < MaxQuery {
			seen[w] = true
			terms = append(terms, term{w, weight * x.idf(w)})
		}
	}
	strange := 0
	for i, t := range words {
		if i > 0 {
			x.together(words[i-1], t, add)
		}
		if told && t.common {
			continue
		}
		w, known := x.words[t.text]
		if known && x.counts[w] > 0 {
			add(w, t.weight())
			continue
		}
		if strange++; strange > maxStrange {
			continue
		}
		for _, other := range x.alike(t) {
			add(other.word, other.share*t.weight())
		}
	}
	slices.SortStableFunc(terms, func(a, b term) int { return cmp.Compare(len(x.postings[a.word]), len(x.postings[b.word])) })
	return terms
}

// weight is what a word counts by the way it is written.
func (t token) weight() float64 {
	switch {
	case t.whole && t.name:
		return wholeWeight * nameWeight
	case t.whole:
		return wholeWeight
	case t.name:
		return nameWeight
	}
	return 1
}

// together adds what two words of a query are when they are written as one.
func (x *Index) together(first, second token, add func(int32, float64)) {
	if first.raw == "" || second.raw == "" || len(first.raw)+len(second.raw) > maxStem {
		return
	}
	if w, known := x.words[stem(first.raw+second.raw)]; known && x.counts[w] > 0 {
		add(w, partShare)
	}
}

// score adds up what each text gets for the rarest words; rest are those left
// for the candidates alone.
func (x *Index) score(terms []term) (scores []float32, rest []term) {
	scores = make([]float32, len(x.docs))
	norms := x.norms()
	left := work
	for i, t := range terms {
		list := x.postings[t.word]
		if left -= len(list); left < 0 && i > 0 {
			return scores, terms[i:]
		}
		weight := float32(t.weight)
		for _, p := range list {
			slot, count := p>>8, float32(p&maxCount)
			scores[slot] += weight * count * (k1 + 1) / (count + norms[x.lengths[slot]])
		}
	}
	return scores, nil
}

// norms weighs a word's count down by the length of its text.
func (x *Index) norms() [maxLength + 1]float32 {
	var norms [maxLength + 1]float32
	average := float32(max(x.length, 1)) / float32(max(x.live, 1))
	for length := range norms {
		norms[length] = k1 * (1 - b + b*float32(length)/average)
	}
	return norms
}

// candidate is a text among the best so far.
type candidate struct {
	slot  int32
	score float32
}

// worst keeps the least of the best on top.
type worst []candidate

func (h worst) Len() int           { return len(h) }
func (h worst) Less(i, j int) bool { return h[i].score < h[j].score }
func (h worst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface; it is never called: the heap only shrinks and swaps.
func (h *worst) Push(any) {}

// Pop implements heap.Interface.
func (h *worst) Pop() any { *h = (*h)[:len(*h)-1]; return nil }

// slots are those that a query may find, of n, the latest first.
func (q Query) slots(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if q.Among == nil {
			for slot := n - 1; slot >= 0 && yield(slot); slot-- {
			}
			return
		}
		for _, slot := range slices.Backward(q.Among) {
			if int(slot) < n && !yield(int(slot)) {
				return
			}
		}
	}
}

// best are the live texts with the highest scores that keep lets through.
func (x *Index) best(scores []float32, room int, slots iter.Seq[int], keep func(slot int) bool) []candidate {
	h := make(worst, 0, room)
	for slot := range slots { // of the same score the later ones stay
		s := scores[slot]
		if s <= 0 || len(h) == room && s <= h[0].score || !x.docs[slot].live || !keep(slot) {
			continue
		}
		if c := (candidate{int32(slot), s}); len(h) < room {
			if h = append(h, c); len(h) == room {
				heap.Init(&h)
			}
		} else {
			h[0] = c
			heap.Fix(&h, 0)
		}
	}
	return h
}

// pairs are the words of a query that stand beside each other, with what it is worth to find them so.
func (x *Index) pairs(words []token) map[[2]int32]float64 {
	pairs := map[[2]int32]float64{}
	for i := 1; i < len(words); i++ {
		first, one := x.words[words[i-1].text]
		second, two := x.words[words[i].text]
		if !one || !two || words[i-1].common && words[i].common || len(pairs) == MaxQuery {
			continue
		}
		worth := math.Min(x.idf(first), x.idf(second))
		if words[i-1].common || words[i].common {
			worth /= 2
		}
		pairs[[2]int32{first, second}] = phraseShare * worth
	}
	return pairs
}

// refine looks into the candidates themselves: for the words that were left,
// and for words that stand as they do in the query.
func (x *Index) refine(own map[int32]float64, rest []term, pairs map[[2]int32]float64) {
	var known [64]bool // a first look at pairs that costs nothing
	for p := range pairs {
		known[p[0]&63] = true
	}
	for slot, score := range own {
		words := x.docs[slot].words
		for _, t := range rest {
			if slices.Contains(words, t.word) {
				score += t.weight
			}
		}
		found := 0.0
		for i := 1; i < len(words) && len(pairs) > 0; i++ {
			if known[words[i-1]&63] {
				found = math.Max(found, 0) + pairs[[2]int32{words[i-1], words[i]}]
			}
		}
		own[slot] = score + math.Min(found, score/2)
	}
}

// final lets what stands beside and what is linked share, and puts all in order.
func (x *Index) final(q Query, own map[int32]float64, ideal float64) []Hit {
	shared := make(map[int32]float64, 2*len(own))
	pass := func(to int32, score float64) {
		if to >= 0 && x.docs[to].live {
			shared[to] = math.Max(shared[to], score)
		}
	}
	for slot, score := range own {
		d := &x.docs[slot]
		if q.Keep(int(slot)) { // what may not be shown brings nobody along but by a link
			pass(d.prev, beside*score)
			pass(d.next, d.answered()*score)
			if d.prev >= 0 {
				pass(x.docs[d.prev].prev, further*beside*score)
			}
			if d.next >= 0 {
				pass(x.docs[d.next].next, further*x.docs[d.next].answered()*score)
			}
		}
		pass(slot, 0)
		for _, l := range x.links[slot] {
			pass(l.to, float64(l.weight)*score)
		}
	}
	hits := make([]Hit, 0, len(shared))
	for slot, share := range shared {
		score := own[slot] + share
		if !q.Keep(int(slot)) || score <= 0 {
			continue
		}
		if q.Prior != nil {
			score *= q.Prior(int(slot))
		}
		hits = append(hits, Hit{int(slot), score, score / (score + ideal/2)})
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Slot, a.Slot)) })
	return hits[:min(len(hits), q.Limit)]
}

// answered is the share of a hit's score that passes to what follows it.
func (d *doc) answered() float64 {
	if d.asks {
		return answer
	}
	return beside
}

// ideal is what a text of average length gets that holds each word once.
func ideal(terms []term) float64 {
	sum := 0.0
	for _, t := range terms {
		sum += t.weight
	}
	return max(sum, 0.1)
}
