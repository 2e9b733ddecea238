package memory_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
)

// `make bench-memory` prints what these tests measure. The floors are those of
// the held-back set that memory is checked with (D-42).
const (
	leastHitAt5   = 29.0 / 30
	locomoFile    = "LOCOMO" // the variable that names another file of conversations
	deepestRank   = 10
	neighbourRank = 10
)

// text is one entry of a corpus.
type text struct {
	ID, Session, Type, Text string
	Tags                    []string
	Replaces                string
	Prevents, Derived       []string
	at                      time.Time
}

// question is what is looked for, and where it stands.
type question struct {
	Kind, Query string
	Want        []string
}

// finder gives the ids of the best entries, at most ten.
type finder func(query string) []string

// corpus is a set of entries with questions, as each of the finders holds it.
type corpus struct {
	texts     []text
	questions []question
}

func tasks(t *testing.T, file string) corpus {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var c corpus
	for line := range bytes.Lines(data) {
		var l struct {
			Entry *text
			Task  *question
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if l.Entry != nil {
			l.Entry.at = newClock().now.Add(-time.Duration(300-len(c.texts)) * time.Hour)
			c.texts = append(c.texts, *l.Entry)
		} else {
			c.questions = append(c.questions, *l.Task)
		}
	}
	return c
}

// store is the memory as it is.
func (c corpus) store(t *testing.T) finder {
	t.Helper()
	s := fresh(t, newClock())
	ids, names := map[string]string{}, map[string]string{}
	for _, x := range c.texts {
		e, err := s.Add(t.Context(), memory.Writer{Session: nacre.SessionID(x.Session), Operator: true}, memory.Draft{Type: x.Type, Content: x.Text, Tags: x.Tags, Supersedes: ids[x.Replaces], Created: x.at})
		if err != nil {
			t.Fatal(err)
		}
		ids[x.ID], names[e.ID] = e.ID, x.ID
	}
	for _, x := range c.texts {
		for kind, others := range map[string][]string{memory.EdgePrevents: x.Prevents, memory.EdgeDerivedFrom: x.Derived} {
			for _, other := range others {
				if err := s.Link(t.Context(), operator, memory.Link{From: ids[x.ID], To: ids[other], Kind: kind}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return func(query string) []string {
		var found []string
		for _, h := range search(t, s, memory.Query{Text: query, Limit: deepestRank}) {
			found = append(found, names[h.ID])
		}
		return found
	}
}

// plain is FTS5 with porter stemming by itself.
func (c corpus) plain(t *testing.T) finder {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(`CREATE VIRTUAL TABLE f USING fts5(content, id UNINDEXED, tokenize='porter unicode61')`); err != nil {
		t.Fatal(err)
	}
	for _, x := range c.texts {
		if _, err := db.Exec(`INSERT INTO f VALUES (?, ?)`, x.Text, x.ID); err != nil {
			t.Fatal(err)
		}
	}
	word := regexp.MustCompile(`[\pL\pN]+`)
	return func(query string) []string {
		rows, err := db.Query(`SELECT id FROM f WHERE f MATCH ? ORDER BY rank LIMIT ?`, `"`+strings.Join(word.FindAllString(query, -1), `" OR "`)+`"`, deepestRank)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		var found []string
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			found = append(found, id)
		}
		return found
	}
}

// neighbours puts what stands beside each hit behind it.
func (c corpus) neighbours(of finder) finder {
	return func(query string) []string {
		var found []string
		for _, id := range of(query) {
			at := slices.IndexFunc(c.texts, func(x text) bool { return x.ID == id })
			for _, beside := range []int{at, at + 1, at - 1} {
				if beside >= 0 && beside < len(c.texts) && c.texts[beside].Session == c.texts[at].Session && !slices.Contains(found, c.texts[beside].ID) {
					found = append(found, c.texts[beside].ID)
				}
			}
		}
		return found[:min(len(found), neighbourRank)]
	}
}

// scan finds the query as it was typed, the latest first.
func (c corpus) scan(query string) []string {
	var found []string
	for _, x := range slices.Backward(c.texts) {
		if strings.Contains(strings.ToLower(x.Text), strings.ToLower(query)) && len(found) < deepestRank {
			found = append(found, x.ID)
		}
	}
	return found
}

// measures are shares of all questions.
type measures struct {
	n                                  int
	hit1, hit5, recall5, recall10, mrr float64
	missed                             []string // what was asked, and not found among the first five
}

func (m *measures) count(q question, found []string) {
	first, at5, at10 := 0, 0, 0
	for rank, id := range found {
		if !slices.Contains(q.Want, id) {
			continue
		}
		if first == 0 {
			first = rank + 1
		}
		if at10++; rank < 5 {
			at5++
		}
	}
	m.n++
	if first == 1 {
		m.hit1++
	}
	// More than one entry was asked for: all of them count for a hit.
	if at5 == len(q.Want) {
		m.hit5++
	} else {
		m.missed = append(m.missed, fmt.Sprintf("%s: %s (want %v, found %v)", q.Kind, q.Query, q.Want, found[:min(5, len(found))]))
	}
	if first > 0 {
		m.mrr += 1 / float64(first)
	}
	m.recall5 += float64(at5) / float64(len(q.Want))
	m.recall10 += float64(at10) / float64(len(q.Want))
}

func (m *measures) shares() measures {
	n := float64(max(m.n, 1))
	return measures{m.n, m.hit1 / n, m.hit5 / n, m.recall5 / n, m.recall10 / n, m.mrr / n, m.missed}
}

func (c corpus) measure(of finder) measures {
	var m measures
	for _, q := range c.questions {
		m.count(q, of(q.Query))
	}
	return m.shares()
}

// table measures memory and what it is held against in one run.
func (c corpus) table(t *testing.T, name string) (rows [4]measures) {
	t.Helper()
	fts := c.plain(t)
	rows = [...]measures{c.measure(c.store(t)), c.measure(fts), c.measure(c.neighbours(fts)), c.measure(c.scan)}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d questions, %d entries\n%-32s %6s %6s %6s %6s %6s\n", name, len(c.questions), len(c.texts), "", "hit@1", "hit@5", "R@5", "R@10", "MRR")
	for i, name := range []string{"memory", "FTS5, porter", "FTS5, porter, and neighbours", "substring scan"} {
		m := rows[i]
		fmt.Fprintf(&out, "%-32s %6.3f %6.3f %6.3f %6.3f %6.3f\n", name, m.hit1, m.hit5, m.recall5, m.recall10, m.mrr)
	}
	t.Log("\n" + out.String())
	return rows
}

// D-42: retrieval is measured, and holds its floors. The ranking's parameters were chosen
// on the first set; the second was written to find what they miss.
func TestRetrieval(t *testing.T) {
	for _, file := range []string{"tasks.jsonl", "household.jsonl"} {
		t.Run(file, func(t *testing.T) {
			c := tasks(t, file)
			if len(c.questions) < 60 {
				t.Fatalf("%d tasks", len(c.questions))
			}
			rows := c.table(t, file)
			ours, plain := rows[0], rows[1]
			if ours.hit5 < leastHitAt5 || ours.hit5 < plain.hit5 || ours.mrr < plain.mrr {
				t.Errorf("hit@5 %.3f, MRR %.3f; plain FTS5 %.3f, %.3f\nmissed:\n%s", ours.hit5, ours.mrr, plain.hit5, plain.mrr, strings.Join(ours.missed, "\n"))
			}
			for _, miss := range ours.missed {
				t.Log("missed ", miss)
			}
		})
	}
}

// D-42: the same on conversations in the format of LoCoMo, some of them as long as its
// own and made for this. LOCOMO=FILE names another.
func TestConversations(t *testing.T) {
	files := []string{"testdata/conversations.json", "testdata/dialogues.json", madeConversations(t)}
	if path := os.Getenv(locomoFile); path != "" {
		files = []string{path}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var ours, plain, beside measures
			for _, c := range conversations(t, file) {
				rows := c.table(t, c.questions[0].Kind)
				ours.add(rows[0])
				plain.add(rows[1])
				beside.add(rows[2])
				for _, miss := range rows[0].missed {
					t.Log("missed ", miss)
				}
			}
			var out strings.Builder
			for name, m := range map[string]measures{"memory": ours, "FTS5, porter": plain, "FTS5, porter, and neighbours": beside} {
				fmt.Fprintf(&out, "%-32s R@5 %.3f R@10 %.3f\n", name, m.recall5/float64(m.n), m.recall10/float64(m.n))
			}
			t.Logf("all %d questions\n%s", ours.n, out.String())
			for _, other := range []measures{plain, beside} {
				if ours.recall5 <= other.recall5 || ours.recall10 < other.recall10 {
					t.Errorf("memory is not ahead: %+v, %+v", ours, other)
				}
			}
		})
	}
}

func (m *measures) add(o measures) {
	n := float64(o.n)
	m.n, m.recall5, m.recall10 = m.n+o.n, m.recall5+o.recall5*n, m.recall10+o.recall10*n
}

// conversations reads LoCoMo's own format: conversations with session_N lists of
// turns, and questions whose evidence names turns.
func conversations(t *testing.T, path string) []corpus {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var file []struct {
		SampleID     string `json:"sample_id"`
		Conversation map[string]json.RawMessage
		QA           []struct {
			Question string
			Evidence []string
		}
	}
	if err := json.NewDecoder(bufio.NewReader(f)).Decode(&file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var all []corpus
	for _, sample := range file {
		var c corpus
		for n := 1; sample.Conversation[fmt.Sprintf("session_%d", n)] != nil; n++ {
			c.texts = append(c.texts, turns(t, sample.Conversation, n)...)
		}
		turn := regexp.MustCompile(`D:?(\d+):(\d+)`)
		for _, qa := range sample.QA {
			q := question{Kind: sample.SampleID, Query: qa.Question}
			for _, m := range turn.FindAllStringSubmatch(strings.Join(qa.Evidence, " "), -1) {
				id := "D" + strings.TrimLeft(m[1], "0") + ":" + strings.TrimLeft(m[2], "0")
				if known := slices.ContainsFunc(c.texts, func(x text) bool { return x.ID == id }); known && !slices.Contains(q.Want, id) {
					q.Want = append(q.Want, id)
				}
			}
			if len(q.Want) > 0 { // of the others nothing can be found
				c.questions = append(c.questions, q)
			}
		}
		if len(c.questions) > 0 {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s holds no questions with evidence", path)
	}
	return all
}

func turns(t *testing.T, conversation map[string]json.RawMessage, n int) []text {
	t.Helper()
	var list []struct {
		Speaker string
		ID      string `json:"dia_id"`
		Text    string
		Caption string `json:"blip_caption"`
	}
	if err := json.Unmarshal(conversation[fmt.Sprintf("session_%d", n)], &list); err != nil {
		t.Fatal(err)
	}
	var when string
	_ = json.Unmarshal(conversation[fmt.Sprintf("session_%d_date_time", n)], &when) // without it, an hour each
	at, err := time.Parse("3:04 pm on 2 January, 2006", when)
	if err != nil {
		at = newClock().now.Add(time.Duration(n) * time.Hour)
	}
	var texts []text
	for i, turn := range list {
		said := turn.Speaker + ": " + turn.Text
		if turn.Caption != "" {
			said += " [shows " + turn.Caption + "]"
		}
		if runes := []rune(said); len(runes) > memory.MaxContent {
			said = string(runes[:memory.MaxContent])
		}
		texts = append(texts, text{ID: turn.ID, Session: fmt.Sprintf("session-%d", n), Type: "context", Text: said, at: at.Add(time.Duration(i) * time.Second)})
	}
	return texts
}
