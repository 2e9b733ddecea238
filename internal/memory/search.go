package memory

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Limits of a search.
const (
	MaxResults     = 100
	defaultResults = 20
	maxTerms       = 32 // words of a query that are looked for
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
	// Limit is 1–100; zero means 20, and what is outside counts as the nearest.
	Limit int
}

// Hit is an entry that a search found.
type Hit struct {
	Entry
	// Relevance is 0–1 within one search; 1 where there was no text to rank by.
	Relevance float64 `json:"relevance_score"`
}

// Search finds current entries of the group that have not expired, the most
// relevant first, or the most recent where Text is empty. Filters apply
// before the limit (D-42).
func (s *Store) Search(ctx context.Context, q Query) ([]Hit, error) {
	terms := words(q.Text)
	from, rank, order := `memory_entries e`, `1.0`, `e.created_at DESC, e.seq DESC`
	var args []any
	where := []string{`e.group_name = ?`, `(e.expires_at IS NULL OR e.expires_at > ?)`}
	switch {
	case len(terms) > 0:
		from, rank, order = `memory_fts JOIN memory_entries e ON e.seq = memory_fts.rowid`, `memory_fts.rank`, `memory_fts.rank, e.seq DESC`
		where = append([]string{`memory_fts MATCH ?`}, where...)
		args = append(args, match(terms))
	case strings.TrimSpace(q.Text) != "": // signs alone, such as an emoji: no word to look up
		where = append([]string{`instr(e.content, ?) > 0`}, where...)
		args = append(args, strings.TrimSpace(q.Text))
	}
	args = append(args, string(s.group), stamp(s.now()))
	if !q.Superseded {
		where = append(where, `e.superseded_by IS NULL`)
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
		` ORDER BY `+order+` LIMIT ?`, append(args, limit(q.Limit))...)
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

// match asks for any of the words, each quoted so that NEAR, OR and NOT are words too.
func match(words []string) string {
	return `"` + strings.Join(words, `" OR "`) + `"`
}

// scale turns bm25 ranks, where less is better and all are below zero, into 0–1.
func scale(hits []Hit) {
	for i := range hits {
		score := max(-hits[i].Relevance, 0)
		hits[i].Relevance = math.Round(score/(1+score)*1e4) / 1e4
	}
}
