package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/nacre-dev/nacre/internal/recall"
)

// Limits of a search.
const (
	MaxResults     = 100
	defaultResults = 20
	maxTerms       = 32 // words of a query that are looked for
	maxVersions    = 64 // of one entry that are followed
)

// Query selects entries. All parts that are set must hold.
type Query struct {
	// Text is what a person or an agent typed; no text is an error. Empty means the most recent.
	Text string
	// Tags must all be there.
	Tags []string
	Type string
	// Superseded includes entries that were replaced.
	Superseded bool
	// Own leaves out the working memories of sub-agents, but the store's own.
	Own bool
	// Limit is 1–100; zero means 20, and what is outside counts as the nearest.
	Limit int
}

// Hit is an entry that a search found.
type Hit struct {
	Entry
	// Relevance is 0–1 within one search; 1 where there was no text to rank by.
	Relevance float64 `json:"relevance_score"`
	// Prevents are the ids of failures in the same result that this entry prevents.
	Prevents []string `json:"prevents,omitempty"`
}

// Search finds current entries of the group that have not expired, the most
// relevant first, or the most recent where Text is empty. Filters apply
// before the limit (D-42). What prevents a failure comes with it (M-53).
func (s *Store) Search(ctx context.Context, q Query) ([]Hit, error) {
	q.Limit = limit(q.Limit)
	q.Text = strings.TrimSpace(strings.ToValidUTF8(q.Text, " "))
	plain := q.Text == "" && len(q.Tags) == 0 && q.Type == ""
	if plain || q.Text != "" && !recall.HasWords(q.Text) {
		return s.searchStored(ctx, q) // the most recent, or signs alone, such as :=
	}
	if err := s.ranking.follow(ctx); err != nil {
		return nil, err
	}
	ranked, tooMany := s.ranking.rank(ctx, q)
	if tooMany {
		return s.searchStored(ctx, q)
	}
	return s.fetch(ctx, ranked)
}

// ranked is an entry before it is read.
type ranked struct {
	seq       int64
	relevance float64
	prevents  []string
}

// rank puts the index's entries in order.
func (s *ranking) rank(ctx context.Context, q Query) (list []ranked, tooMany bool) {
	now := s.now()
	vectors := s.near(ctx, q)
	l := &s.live
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.tooMany || !l.loaded {
		return nil, true
	}
	keep, among := l.keep(q, s.working, now), l.among(q)
	if q.Text == "" {
		return l.recent(q.Limit, among, keep), false
	}
	hits := l.index.Rank(recall.Query{Text: q.Text, Keep: keep, Among: among, Prior: l.prior(now), Limit: max(q.Limit, fusedHits)})
	hits = l.fuse(hits, vectors, keep)
	return l.withFixes(hits[:min(len(hits), q.Limit)], q.Limit, keep), false
}

// recent are the latest of some entries that are kept.
func (l *live) recent(limit int, among []int32, keep func(int) bool) []ranked {
	latest := make([]int, 0, limit+1)
	for _, s := range slices.Backward(among) {
		slot := int(s)
		created := l.entries[slot].created
		full := len(latest) == limit
		if full && created <= l.entries[latest[limit-1]].created || !keep(slot) {
			continue
		}
		at := len(latest)
		for at > 0 && l.entries[latest[at-1]].created < created {
			at--
		}
		latest = slices.Insert(latest, at, slot)
		latest = latest[:min(len(latest), limit)]
	}
	list := make([]ranked, 0, limit)
	for _, slot := range latest {
		list = append(list, ranked{seq: l.entries[slot].seq, relevance: 1})
	}
	return list
}

// withFixes puts what prevents a failure right behind it, within the limit.
func (l *live) withFixes(hits []recall.Hit, limit int, keep func(int) bool) []ranked {
	place := map[int]int{} // in list, by slot
	var list []ranked
	add := func(h recall.Hit) {
		if _, there := place[h.Slot]; !there {
			place[h.Slot] = len(list)
			list = append(list, ranked{seq: l.entries[h.Slot].seq, relevance: round(h.Relevance)})
		}
	}
	for _, h := range hits {
		add(h)
		for _, fix := range l.fixes[int32(h.Slot)] {
			if fix = l.current(fix); !keep(int(fix)) || int(fix) == h.Slot {
				continue
			}
			add(recall.Hit{Slot: int(fix), Relevance: h.Relevance * shareOfFailure})
			at := place[int(fix)]
			list[at].prevents = append(list[at].prevents, l.entries[h.Slot].id)
		}
	}
	list = list[:min(len(list), limit)]
	slices.SortStableFunc(list[min(1, len(list)):], func(a, b ranked) int { return cmp.Compare(b.relevance, a.relevance) })
	return list
}

// current is what took an entry's place, if anything did.
func (l *live) current(slot int32) int32 {
	for range maxVersions {
		next, ok := l.slots[l.entries[slot].superseded]
		if !ok {
			break
		}
		slot = next
	}
	return slot
}

func round(relevance float64) float64 { return math.Round(relevance*1e4) / 1e4 }

// fetch reads what was found, and leaves out what is gone by now.
func (s base) fetch(ctx context.Context, list []ranked) ([]Hit, error) {
	if len(list) == 0 {
		return []Hit{}, nil
	}
	args := make([]any, 0, len(list)+1)
	for _, r := range list {
		args = append(args, r.seq)
	}
	found, err := s.entries(ctx, `SELECT `+columns+`, e.seq FROM memory_entries e WHERE e.seq IN (`+strings.Repeat("?,", len(list)-1)+`?) AND e.group_name = ?`,
		append(args, string(s.group))...)
	if err != nil {
		return nil, err
	}
	bySeq := map[int64]Hit{}
	for _, h := range found {
		bySeq[int64(h.Relevance)] = h // the query's last column
	}
	hits := make([]Hit, 0, len(list))
	for _, r := range list {
		if h, there := bySeq[r.seq]; there {
			h.Relevance, h.Prevents = r.relevance, r.prevents
			hits = append(hits, h)
		}
	}
	return hits, nil
}

// searchStored is the search that the database does by itself.
func (s base) searchStored(ctx context.Context, q Query) ([]Hit, error) {
	terms := words(q.Text)
	from, rank, order := `memory_entries e`, `1.0`, `e.created_at DESC, e.seq DESC`
	var args []any
	where := []string{`e.group_name = ?`, `(e.expires_at IS NULL OR e.expires_at > ?)`}
	switch {
	case len(terms) > 0:
		var found string
		from, found, rank = s.byWords()
		order = rank + `, e.seq DESC`
		where, args = append([]string{found}, where...), append(args, s.match(terms))
	case strings.TrimSpace(q.Text) != "": // signs alone, such as an emoji: no word to look up
		where = append([]string{`instr(e.content, ?) > 0`}, where...)
		args = append(args, strings.TrimSpace(q.Text))
	}
	args = append(args, string(s.group), stamp(s.now()))
	if !q.Superseded {
		where = append(where, `e.superseded_by IS NULL`)
	}
	if q.Own {
		condition, tag := s.working.where()
		where, args = append(where, condition), append(args, tag)
	}
	if q.Type != "" {
		where, args = append(where, `e.type = ?`), append(args, q.Type)
	}
	if len(q.Tags) > 0 {
		tags, err := json.Marshal(q.Tags)
		if err != nil {
			return nil, err
		}
		where = append(where, `NOT EXISTS (SELECT 1 FROM json_each(?) WHERE value NOT IN (SELECT value FROM json_each(e.tags)))`)
		args = append(args, string(tags))
	}
	hits, err := s.entries(ctx, `SELECT `+columns+`, `+rank+` FROM `+from+` WHERE `+strings.Join(where, ` AND `)+
		` ORDER BY `+order+` LIMIT ?`, append(args, q.Limit)...)
	if len(terms) > 0 {
		scale(hits)
	}
	return hits, err
}

func limit(n int) int {
	if n == 0 {
		n = defaultResults
	}
	return min(max(n, 1), MaxResults)
}

// words are the parts of a text that the index knows: letters and digits, as
// its tokenizer splits them. Nothing of FTS5's own syntax survives this.
func words(text string) []string {
	all := strings.FieldsFunc(strings.ToValidUTF8(text, " "), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !unicode.Is(unicode.Co, r)
	})
	var distinct []string
	for _, w := range all {
		if w = strings.ToLower(w); !slices.Contains(distinct, w) && len(distinct) < maxTerms {
			distinct = append(distinct, w)
		}
	}
	return distinct
}

// byWords is where entries are found by their words. With it come what the words are asked by, and
// how well an entry has them: less is better, and all are below zero.
func (s base) byWords() (from, found, rank string) {
	if s.file != nil {
		return `memory_fts JOIN memory_entries e ON e.seq = memory_fts.rowid`, `memory_fts MATCH ?1`, `memory_fts.rank`
	}
	return `memory_entries e`, `e.words @@ to_tsquery('memory_words', ?1)`, `-ts_rank(e.words, to_tsquery('memory_words', ?1))`
}

// match asks for any of the words, each quoted so that NEAR, OR and NOT are words too.
func (s base) match(words []string) string {
	if s.file != nil {
		return `"` + strings.Join(words, `" OR "`) + `"`
	}
	return `'` + strings.Join(words, `' | '`) + `'`
}

// scale turns bm25 ranks, where less is better and all are below zero, into 0–1.
func scale(hits []Hit) {
	for i := range hits {
		score := max(-hits[i].Relevance, 0)
		hits[i].Relevance = math.Round(score/(1+score)*1e4) / 1e4
	}
}
