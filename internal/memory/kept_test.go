package memory_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/memory"
)

// keptIndex is how many bytes of an index the file keeps.
func keptIndex(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), `SELECT coalesce(sum(length(data)), 0) FROM memory_index`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// many are entries of every kind: tagged, expiring, replaced, linked.
func many(t *testing.T, s *memory.Store, c *clock) (ids []string) {
	t.Helper()
	drafts := make([]memory.Draft, 1500)
	for i := range drafts {
		drafts[i] = memory.Draft{Type: "fact", Content: fmt.Sprintf("walnut %d lies in bag %d", i, i%40), Tags: []string{fmt.Sprint("tag", i%7)}}
		if i%10 == 0 {
			drafts[i].Type, drafts[i].Expires = "context", c.Now().Add(time.Hour)
		}
	}
	added, err := s.AddAll(t.Context(), operator, drafts)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range added {
		ids = append(ids, e.ID)
	}
	replace(t, s, operator, "walnut 3 was eaten", ids[3])
	derive(t, s, ids[8], ids[9])
	if err := s.Link(t.Context(), operator, memory.Link{From: ids[21], To: ids[22], Kind: memory.EdgePrevents}); err != nil {
		t.Fatal(err)
	}
	return ids
}

var keptQueries = []memory.Query{
	{Text: "walnut 17"}, {Text: "walnut 3"}, {Text: "wallnut 22", Limit: 4}, {Text: "bag 9", Tags: []string{"tag2"}}, {Tags: []string{"tag3"}, Limit: 5},
	{Text: "walnut", Type: "context"}, {Text: "walnut 3", Superseded: true}, {Text: "hazel"}, {Text: "bags"},
}

func answers(t *testing.T, s *memory.Store) (all string) {
	t.Helper()
	for _, q := range keptQueries {
		for _, h := range search(t, s, q) {
			all += fmt.Sprintf("%s %v %v %s\n", h.ID, h.Relevance, h.Prevents, h.Content)
		}
		all += "\n"
	}
	return all
}

// P-09, F-91: what the first search of a process ranks by is kept in the file. A process that takes
// it from there finds the same as one that builds it. So it does after changes since, and where
// what is kept is damaged, of another version or of other entries.
func TestTheIndexThatIsKeptFindsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	s := open(t, path, options(c))
	ids := many(t, s, c)
	if n := keptIndex(t, path); n > 0 {
		t.Errorf("%d bytes are kept before a search", n)
	}
	answers(t, s)
	size := keptIndex(t, path)
	if size == 0 {
		t.Fatal("nothing is kept")
	}
	for name, change := range map[string]func(){
		"nothing": func() {},
		"entries since": func() {
			add(t, s, operator, "fact", "hazel 17 lies in bag 9", "tag2")
			replace(t, s, operator, "walnut 17 is gone", ids[17])
		},
		"time":          func() { c.pass(2 * time.Hour) },
		"a damaged one": func() { raw(t, path, `UPDATE memory_index SET data = zeroblob(length(data))`) },
		"half of one":   func() { raw(t, path, `UPDATE memory_index SET data = substr(data, 1, 999)`) },
		"an empty one":  func() { raw(t, path, `UPDATE memory_index SET data = x''`) },
		"a later one":   func() { raw(t, path, `UPDATE memory_index SET change = change + 1000000`) },
		"one of other entries": func() {
			raw(t, path, `CREATE TABLE k AS SELECT * FROM memory_index`, `DELETE FROM memory_entries WHERE id = '`+ids[30]+`'`, `INSERT INTO memory_index SELECT * FROM k`, `DELETE FROM memory_changes WHERE change = (SELECT max(change) FROM memory_changes)`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			change()
			have := answers(t, open(t, path, options(c)))
			raw(t, path, `DELETE FROM memory_index`)
			if want := answers(t, open(t, path, options(c))); have != want {
				t.Errorf("have %s\nwant %s", have, want)
			}
			if keptIndex(t, path) == 0 {
				t.Error("the index is not kept again")
			}
		})
	}
}

// P-09, M-57: the index that is kept holds the words of entries, so it goes with the first entry
// that is deleted. A process that has it in memory does not bring it back.
func TestTheKeptIndexKeepsNothingThatIsErased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	s := open(t, path, options(c))
	many(t, s, c)
	id := add(t, s, operator, "fact", "the quokka sleeps")
	other := open(t, path, options(c))
	answers(t, s)
	answers(t, other)
	if n := keptIndex(t, path); n == 0 {
		t.Fatal("nothing is kept")
	}
	forget(t, s, memory.Forget{ID: id})
	if n := keptIndex(t, path); n > 0 {
		t.Errorf("%d bytes are kept of the index", n)
	}
	for _, searched := range []*memory.Store{other, s, open(t, path, options(c))} {
		answers(t, searched)
		if have := search(t, searched, memory.Query{Text: "quokka"}); len(have) > 0 {
			t.Errorf("found %s", contents(have))
		}
	}
	if have := holds(t, path, "quokka"); len(have) > 0 {
		t.Errorf("the file holds %q", have)
	}
	if n := keptIndex(t, path); n == 0 {
		t.Error("the index is not kept again")
	}
}
