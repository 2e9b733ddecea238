package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/recall"
)

// Embed gives a vector for each of the texts, all of one length. What looks like a
// secret was taken out of them. It is asked from several goroutines, and heeds its
// context.
type Embed func(ctx context.Context, texts []string) ([][]float32, error)

// Limits of embeddings.
const (
	// MaxDimensions is how long a vector may be.
	MaxDimensions = 4096
	embedBatch    = 64
	// embedBatches is how many batches of entries one search has embedded.
	embedBatches = 4
	embedLimit   = 5 * time.Second
	// embedPause is how long an endpoint that failed is left alone.
	embedPause = time.Minute
)

// How word ranking and vectors are brought together: reciprocal rank fusion.
const (
	fusedHits = 100 // of each
	fuseAfter = 60
	// leastCosine is what a text must have to be found by its vector alone.
	leastCosine = 0.3
)

// vector is an embedding of length 1, a byte for each dimension.
type vector struct {
	scale float32
	bytes []byte
}

// compact checks an embedding and makes it small.
func compact(v []float32) (vector, error) {
	if len(v) == 0 || len(v) > MaxDimensions {
		return vector{}, fmt.Errorf("an embedding of %d dimensions: 1–%d are understood", len(v), MaxDimensions)
	}
	var sum, most float64
	for _, x := range v {
		sum += float64(x) * float64(x)
		most = math.Max(most, math.Abs(float64(x)))
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return vector{}, fmt.Errorf("an embedding that has no direction")
	}
	scale := most / 127
	bytes := make([]byte, len(v))
	for i, x := range v {
		bytes[i] = byte(int8(math.Round(float64(x) / scale)))
	}
	return vector{float32(scale / math.Sqrt(sum)), bytes}, nil
}

func (v vector) cosine(w vector) float64 {
	if len(v.bytes) != len(w.bytes) {
		return 0
	}
	sum := int32(0)
	for i := range v.bytes {
		sum += int32(int8(v.bytes[i])) * int32(int8(w.bytes[i]))
	}
	return float64(sum) * float64(v.scale) * float64(w.scale)
}

// near are the entries whose vectors are near the query's, by seq, the nearest
// first. Where the endpoint does not answer there are none, and a record.
func (s *ranking) near(ctx context.Context, q Query) []int64 {
	if s.embed == nil || q.Text == "" || s.resting() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, embedLimit)
	defer cancel()
	err := s.embedMissing(ctx)
	var asked []vector
	if err == nil {
		text, _ := s.redact.String(q.Text)
		asked, err = s.vectors(ctx, []string{text})
	}
	if err != nil {
		s.rest(err)
		return nil
	}
	return s.live.nearest(asked[0], s.live.keep(q, s.working, s.now()))
}

func (s *ranking) resting() bool {
	s.live.mu.RLock()
	defer s.live.mu.RUnlock()
	return s.now().Before(s.live.restUntil)
}

func (s *ranking) rest(err error) {
	s.live.mu.Lock()
	s.live.restUntil = s.now().Add(embedPause)
	s.live.mu.Unlock()
	s.warn(fmt.Sprintf("embeddings: %v; memories are ranked by their words", err))
}

func (l *live) nearest(asked vector, keep func(int) bool) []int64 {
	type near struct {
		seq    int64
		cosine float64
	}
	var found []near
	l.mu.RLock()
	defer l.mu.RUnlock()
	for slot := range l.entries {
		if v, ok := l.vectors[l.entries[slot].seq]; ok && keep(slot) {
			if c := asked.cosine(v); c >= leastCosine {
				found = append(found, near{l.entries[slot].seq, c})
			}
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(b.cosine, a.cosine), cmp.Compare(b.seq, a.seq)) })
	var seqs []int64
	for _, n := range found[:min(len(found), fusedHits)] {
		seqs = append(seqs, n.seq)
	}
	return seqs
}

func (s *ranking) vectors(ctx context.Context, texts []string) ([]vector, error) {
	raw, err := s.embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(raw) != len(texts) {
		return nil, fmt.Errorf("%d embeddings for %d texts", len(raw), len(texts))
	}
	list := make([]vector, 0, len(raw))
	for _, r := range raw {
		v, err := compact(r)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// embedMissing has entries embedded that have no vector of this model yet, the
// latest first, and as many as one search may wait for.
func (s *ranking) embedMissing(ctx context.Context) error {
	if err := s.loadVectors(ctx); err != nil {
		return err
	}
	missing := s.live.withoutVector(embedBatch * embedBatches)
	for batch := range slices.Chunk(missing, embedBatch) {
		if err := s.embedBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// loadVectors reads what the file has: all of it at first, then what is missing.
func (s *ranking) loadVectors(ctx context.Context) error {
	s.live.mu.Lock()
	first := s.live.vectors == nil
	if first {
		s.live.vectors = map[int64]vector{}
	}
	s.live.mu.Unlock()
	query, args := `SELECT v.seq, v.scale, v.vector FROM memory_vectors v JOIN memory_entries e ON e.seq = v.seq WHERE v.model = ?1 AND +e.group_name = ?2`, []any{s.model, string(s.group)}
	if !first {
		list, err := json.Marshal(s.live.withoutVector(embedBatch * embedBatches))
		if err != nil {
			return err
		}
		query, args = query+` AND v.seq IN (SELECT CAST(value AS bigint) FROM json_each(?3))`, append(args, string(list))
	}
	rows, err := s.at.Reader().QueryContext(ctx, query, args...)
	if err != nil {
		return s.at.Classified(err)
	}
	defer func() { _ = rows.Close() }() // Err below tells
	for rows.Next() {
		var seq int64
		var v vector
		if err := rows.Scan(&seq, &v.scale, &v.bytes); err != nil {
			return err
		}
		s.live.setVector(seq, v)
	}
	return s.at.Classified(rows.Err())
}

func (l *live) setVector(seq int64, v vector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vectors[seq] = v
}

// withoutVector are the latest entries that have none, at most so many.
func (l *live) withoutVector(most int) []int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	seqs := []int64{}
	for slot := len(l.entries) - 1; slot >= 0 && len(seqs) < most; slot-- {
		if _, has := l.vectors[l.entries[slot].seq]; !has && !l.entries[slot].gone {
			seqs = append(seqs, l.entries[slot].seq)
		}
	}
	return seqs
}

func (s *ranking) embedBatch(ctx context.Context, seqs []int64) error {
	list, err := json.Marshal(seqs)
	if err != nil {
		return err
	}
	hits, err := s.entries(ctx, `SELECT `+columns+`, e.seq FROM memory_entries e WHERE e.seq IN (SELECT CAST(value AS bigint) FROM json_each(?)) ORDER BY e.seq`, string(list))
	if err != nil || len(hits) == 0 {
		return err
	}
	texts := make([]string, 0, len(hits))
	for _, h := range hits {
		clean, _ := s.redact.String(h.Content) // what was stored before secrets were taken out
		texts = append(texts, clean)
	}
	vectors, err := s.vectors(ctx, texts)
	if err != nil {
		return err
	}
	err = s.at.Write(ctx, func(tx database.Session) error {
		for i, h := range hits {
			// An entry that was erased meanwhile leaves no vector behind.
			_, err := tx.ExecContext(ctx, `INSERT INTO memory_vectors(seq, model, scale, vector) SELECT seq, ?, ?, ? FROM memory_entries WHERE id = ?
				ON CONFLICT (seq) DO UPDATE SET model = excluded.model, scale = excluded.scale, vector = excluded.vector`, s.model, vectors[i].scale, vectors[i].bytes, h.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	for i, h := range hits {
		if err == nil {
			s.live.setVector(int64(h.Relevance), vectors[i])
		}
	}
	return err
}

// fuse brings both rankings together: what both hold high comes first.
func (l *live) fuse(hits []recall.Hit, near []int64, keep func(int) bool) []recall.Hit {
	if len(near) == 0 {
		return hits
	}
	scores := map[int]float64{}
	for rank, h := range hits[:min(len(hits), fusedHits)] {
		// A hit that is far behind the first counts less than its rank says.
		scores[h.Slot] += (0.5 + 0.5*h.Score/hits[0].Score) / float64(fuseAfter+rank+1)
	}
	for rank, seq := range near {
		if slot, there := l.bySeq[seq]; there && keep(int(slot)) {
			scores[int(slot)] += 1 / float64(fuseAfter+rank+1)
		}
	}
	fused := make([]recall.Hit, 0, len(scores))
	for slot, score := range scores {
		fused = append(fused, recall.Hit{Slot: slot, Score: score, Relevance: score * (fuseAfter + 1) / 2})
	}
	slices.SortFunc(fused, func(a, b recall.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Slot, a.Slot)) })
	return fused
}
