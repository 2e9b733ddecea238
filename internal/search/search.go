// Package search promises to find the capabilities that fit a goal said in
// plain words, without a model: BM25 over their ids, tags, names and
// descriptions (K-03). The same goal over the same capabilities gives the same
// hits in the same order. It does not decide who may see or use what it finds.
package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
)

// The limits of a goal and of a capability's text; what is over them does not count.
const (
	// MaxGoal is in bytes.
	MaxGoal = 4 << 10
	// MaxTerms is how many different terms of a goal count.
	MaxTerms = 64
	// maxField is how many bytes of each field are indexed.
	maxField = 8 << 10
	// maxCount is how often a term counts in one field, so that whoever writes a
	// word a thousand times is not found before the one whose name it is.
	maxCount = 4
)

// The parameters of BM25, and how much a term counts in each field (K-03).
const (
	k1 = 1.5
	b  = 0.75

	weightID          = 4
	weightTags        = 3
	weightName        = 2
	weightDescription = 1
)

// Document is what is searched of a capability.
type Document struct {
	ID          nacre.CapabilityID
	Tags        []string
	Name        string
	Description string
}

// Hit is a capability that shares at least one term with the goal.
type Hit struct {
	ID nacre.CapabilityID
	// Score is over zero; it compares hits of one search only.
	Score float64
}

// Index finds documents. It never changes, and is safe for concurrent use.
type Index struct {
	ids      []nacre.CapabilityID // in order, so that a smaller number is a smaller id
	terms    map[string]int32
	postings [][]posting // by term
	scratch  sync.Pool   // of *scratch
}

// posting says what a term adds to the score of a document.
type posting struct {
	document int32
	score    float32
}

// scratch is what one search needs, kept for the next.
type scratch struct {
	words  words
	terms  []int32
	scores []float32
	found  []int32
}

// New indexes the documents, in time linear in their text. An index is rebuilt
// when what it indexes changes. Of two documents with one id both are found.
func New(documents []Document) *Index {
	sorted := slices.Clone(documents)
	slices.SortStableFunc(sorted, func(a, b Document) int { return strings.Compare(string(a.ID), string(b.ID)) })
	builder := builder{terms: map[string]int32{}}
	x := &Index{ids: make([]nacre.CapabilityID, len(sorted))}
	for i, d := range sorted {
		x.ids[i] = d.ID
		builder.add(int32(i), d)
	}
	x.terms, x.postings = builder.terms, builder.postings(len(sorted))
	x.scratch.New = func() any { return &scratch{scores: make([]float32, len(sorted))} }
	return x
}

// builder counts terms before their scores are known.
type builder struct {
	words   words
	terms   map[string]int32
	counts  [][]posting // score is the weighted count
	lengths []float64   // weighted, by document
	total   float64
	field   int32   // the number of the field being read
	seen    []count // by term
}

// count is how often a term stood in the last field that had it.
type count struct {
	field int32
	times int32
}

func (m *builder) add(document int32, d Document) {
	m.lengths = append(m.lengths, 0)
	m.read(document, weightID, string(d.ID))
	m.read(document, weightTags, d.Tags...)
	m.read(document, weightName, d.Name)
	m.read(document, weightDescription, d.Description)
	m.total += m.lengths[document]
}

// read counts the terms of one field, of which maxField bytes are read.
func (m *builder) read(document int32, weight float32, texts ...string) {
	m.field++
	left := maxField
	for _, text := range texts {
		m.words.read(text, left)
		left -= min(left, len(text))
		for m.words.next() {
			m.lengths[document] += float64(weight)
			m.count(document, weight)
		}
	}
}

func (m *builder) count(document int32, weight float32) {
	term, known := m.terms[string(m.words.word)]
	if !known {
		term = int32(len(m.counts))
		m.terms[string(m.words.word)] = term
		m.counts, m.seen = append(m.counts, nil), append(m.seen, count{})
	}
	seen := &m.seen[term]
	if seen.field != m.field {
		*seen = count{field: m.field}
	}
	if seen.times++; seen.times > maxCount {
		return
	}
	list := m.counts[term]
	if last := len(list) - 1; last >= 0 && list[last].document == document {
		list[last].score += weight
		return
	}
	m.counts[term] = append(list, posting{document, weight})
}

// postings turns the counts into what each term adds to a score: the fields'
// counts are weighted before they saturate, as BM25F does.
func (m *builder) postings(documents int) [][]posting {
	mean := max(m.total/float64(max(documents, 1)), 1)
	for _, list := range m.counts {
		n := float64(len(list))
		rarity := math.Log(1 + (float64(documents)-n+0.5)/(n+0.5))
		for i := range list {
			weighted := float64(list[i].score)
			saturation := weighted * (k1 + 1) / (weighted + k1*(1-b+b*m.lengths[list[i].document]/mean))
			list[i].score = float32(rarity * saturation)
		}
	}
	return m.counts
}

// Search returns at most limit hits, the best first, ties by id.
func (x *Index) Search(goal string, limit int) []Hit {
	return x.SearchWhere(goal, limit, nil)
}

// SearchWhere is Search among the capabilities that keep accepts, nil meaning all.
func (x *Index) SearchWhere(goal string, limit int, keep func(nacre.CapabilityID) bool) []Hit {
	if limit <= 0 {
		return nil
	}
	s, _ := x.scratch.Get().(*scratch)
	x.score(s, goal)
	var best heap
	if len(s.found) > 0 {
		best = make(heap, 0, min(limit, len(s.found)))
	}
	for _, document := range s.found {
		hit := Hit{x.ids[document], float64(s.scores[document])}
		s.scores[document] = 0
		if len(best) == limit && worse(hit, best[0]) || keep != nil && !keep(hit.ID) {
			continue
		}
		best = best.push(hit, limit)
	}
	x.scratch.Put(s) // not where keep panics: the scores are not all taken back then
	slices.SortFunc(best, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(string(a.ID), string(b.ID)))
	})
	return best
}

// score adds up the scores of all documents that have a term of the goal.
// Terms are added in the index's order, so that the order of the goal's words
// does not show in the last bit.
func (x *Index) score(s *scratch, goal string) {
	s.terms, s.found = s.terms[:0], s.found[:0]
	s.words.read(goal, MaxGoal)
	for len(s.terms) < MaxTerms && s.words.next() {
		if term, known := x.terms[string(s.words.word)]; known && !slices.Contains(s.terms, term) {
			s.terms = append(s.terms, term)
		}
	}
	slices.Sort(s.terms)
	for _, term := range s.terms {
		for _, p := range x.postings[term] {
			if s.scores[p.document] == 0 {
				s.found = append(s.found, p.document)
			}
			s.scores[p.document] += p.score
		}
	}
}

// heap holds the best hits, the worst of them first.
type heap []Hit

func worse(a, b Hit) bool {
	return a.Score < b.Score || a.Score == b.Score && a.ID > b.ID
}

// push adds a hit; where there are limit already, the worst makes room.
func (h heap) push(hit Hit, limit int) heap {
	if len(h) == limit {
		h[0] = hit
		h.sink()
		return h
	}
	h = append(h, hit)
	for i := len(h) - 1; i > 0 && worse(h[i], h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	return h
}

func (h heap) sink() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && worse(h[child+1], h[child]) {
			child++
		}
		if !worse(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
