package memory_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
)

// holds tells which of the words are in the bytes of the file or beside it.
func holds(t *testing.T, path string, words ...string) []string {
	t.Helper()
	if server != "" {
		return inDataFolder(t, path, words...)
	}
	var all []byte
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, bytes.ToLower(data)...)
	}
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !bytes.Contains(all, []byte(strings.ToLower(w))) })
}

func why(e memory.Erasure) string {
	var all []string
	for _, d := range e.Entries {
		all = append(all, d.Content+": "+d.Why)
	}
	return strings.Join(all, " | ")
}

func forget(t *testing.T, s *memory.Store, f memory.Forget) memory.Erasure {
	t.Helper()
	e, err := s.Doom(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(t.Context(), f, e); err != nil {
		t.Fatal(err)
	}
	return e
}

func derive(t *testing.T, s *memory.Store, child, parent string) {
	t.Helper()
	if err := s.Link(t.Context(), operator, memory.Link{From: child, To: parent, Kind: memory.EdgeDerivedFrom}); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, s *memory.Store, w memory.Writer, content, old string) string {
	t.Helper()
	e, err := s.Add(t.Context(), w, memory.Draft{Type: "fact", Content: content, Supersedes: old})
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// M-57: an entry goes with its versions and all that derives from it, through
// what was deleted before, and no byte of it stays in the file.
func TestForgetCascades(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	a := add(t, s, agent, "fact", "lives in Quokkaville", "zebrafish")
	summary := add(t, s, agent, "context", "summary: Quokkaville and Narwhalton")
	derive(t, s, summary, a)
	second := add(t, s, agent, "context", "plans a walrusfest")
	derive(t, s, second, summary)
	b := replace(t, s, agent, "lives in Axolotlburg", a)
	kept := add(t, s, agent, "fact", "likes marmalade")
	if _, err := s.Delete(t.Context(), agent, summary); err != nil {
		t.Fatal(err)
	}
	e := forget(t, s, memory.Forget{ID: b})
	if have := why(e); have != "lives in Quokkaville: superseded | plans a walrusfest: derived_from | lives in Axolotlburg: chosen" {
		t.Errorf("have %s", have)
	}
	if have := holds(t, path, "quokkaville", "zebrafish", "narwhalton", "walrusfest", "axolotlburg", "marmalade"); fmt.Sprint(have) != "[marmalade]" {
		t.Errorf("the file holds %v", have)
	}
	if hits := search(t, s, memory.Query{Text: "lives Quokkaville walrusfest likes", Superseded: true}); len(hits) != 1 || hits[0].ID != kept {
		t.Errorf("found %v", hits)
	}
	if _, err := s.Doom(t.Context(), memory.Forget{ID: "mem-none"}); !errors.Is(err, memory.ErrNotFound) {
		t.Errorf("nothing: have %v", err)
	}
}

// M-57, D-44: what a poisoned session planted goes with what came of it; what it
// replaced is current again.
func TestForgetASession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	bad, later := memory.Writer{Session: "s-bad"}, memory.Writer{Session: "s-later"}
	good := add(t, s, agent, "fact", "the server is alpha.example")
	planted := replace(t, s, bad, "the server is evil.example", good)
	if err := s.Recalled(t.Context(), later, []string{planted}); err != nil {
		t.Fatal(err)
	}
	add(t, s, later, "fact", "copied from the evil server")
	add(t, s, agent, "fact", "unrelated")
	replace(t, s, later, "the server is evil2.example", planted)
	f := memory.Forget{Session: "s-bad"}
	e, err := s.Doom(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if have := why(e); have != "the server is evil.example: chosen | the server is evil2.example: supersedes" || fmt.Sprint(e.Restored) != "["+good+"]" || e.Recalled != 1 {
		t.Errorf("have %s, restored %v, recalled %d", have, e.Restored, e.Recalled)
	}
	if n := len(search(t, s, memory.Query{Text: "server"})); n != 2 {
		t.Errorf("a look changed something: %d found", n)
	}
	f.Recalled = true
	forget(t, s, f)
	if have := contents(search(t, s, memory.Query{})); have != "unrelated|the server is alpha.example" {
		t.Errorf("have %s", have)
	}
	if have := holds(t, path, "evil.example", "evil2", "copied"); len(have) != 0 {
		t.Errorf("the file holds %v", have)
	}
	if e := forget(t, s, f); len(e.Entries) != 0 {
		t.Errorf("a second time: have %s", why(e))
	}
}

// M-57: by a text, in any case, in content and tags; what changed meanwhile is not erased unseen.
func TestForgetMatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	add(t, s, operator, "fact", "Phone 555-PENGUIN")
	add(t, s, agent, "fact", "other", "penguins")
	add(t, s, agent, "fact", "Größe 100%")
	f := memory.Forget{Match: "penguin"}
	e, err := s.Doom(t.Context(), f)
	if err != nil || len(e.Entries) != 2 || len(e.Trusted()) != 1 {
		t.Fatalf("have %s, %v", why(e), err)
	}
	add(t, s, agent, "fact", "one more penguin")
	if err := s.Forget(t.Context(), f, e); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("more than was told: have %v", err)
	}
	forget(t, s, f)
	forget(t, s, memory.Forget{Match: "größe 100%"}) // lower case of ß and ö is theirs already
	if have := holds(t, path, "penguin"); len(have) != 0 {
		t.Errorf("the file holds %v", have)
	}
	for _, f := range []memory.Forget{{}, {Match: " "}, {ID: "a", Match: "b"}, {Session: "s", ID: "a"}} {
		if _, err := s.Doom(t.Context(), f); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%+v: have %v", f, err)
		}
	}
	one, err := s.Doom(t.Context(), memory.Forget{Match: "größe"})
	if err != nil || one.Entries == nil {
		t.Errorf("have %v, %v", one, err)
	}
}

// M-57: an erasure that was interrupted is finished by whoever opens the file next.
func TestAnInterruptedErasureIsFinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	s := open(t, path, options(c))
	for i := range 50 {
		add(t, s, operator, "fact", fmt.Sprintf("capybara number %d %s", i, strings.Repeat("filling ", 50)))
	}
	_ = s.Close()
	raw(t, path, `DELETE FROM memory_entries`, `INSERT INTO memory_scrub VALUES (1)`) // and then it was killed
	if len(holds(t, path, "capybara")) == 0 {
		t.Skip("SQLite leaves nothing here")
	}
	c.pass(time.Second)
	open(t, path, options(c))
	if have := holds(t, path, "capybara", "filling"); len(have) != 0 {
		t.Errorf("the file holds %v", have)
	}
}

// M-57: while another process reads, traces may stay; that is said, and not hidden.
func TestAReaderKeepsTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for as long as an erasure does")
	}
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	id := add(t, s, agent, "fact", "pangolin")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`SELECT * FROM memory_entries`); err != nil {
		t.Fatal(err)
	}
	f := memory.Forget{ID: id}
	e, err := s.Doom(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(t.Context(), f, e); !errors.Is(err, memory.ErrLingers) {
		t.Errorf("have %v", err)
	}
	if hits := search(t, s, memory.Query{Text: "pangolin"}); len(hits) != 0 {
		t.Errorf("found %v", hits)
	}
	_, _ = tx.Rollback(), db.Close()
	_ = s.Close()
	open(t, path, options(newClock()))
	if have := holds(t, path, "pangolin"); len(have) != 0 {
		t.Errorf("the file holds %v", have)
	}
}

// D-41: what an agent deletes is gone from the file as well, once its log is.
func TestDeleteIsHard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	id := add(t, s, agent, "fact", "the okapi sleeps")
	if _, err := s.Delete(t.Context(), agent, id); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if have := holds(t, path, "okapi"); len(have) != 0 {
		t.Errorf("the file holds %v", have)
	}
}

// M-57: what a session planted is found through what it wrote and is gone by now, and
// through the sessions that went on from it.
func TestForgetThroughWhatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	bad, next, last := memory.Writer{Session: "s-bad"}, memory.Writer{Session: "s-next"}, memory.Writer{Session: "s-last"}
	planted := add(t, s, bad, "fact", "the server is evil.example")
	summary := add(t, s, agent, "context", "summary of evil things")
	derive(t, s, summary, planted)
	if _, err := s.Delete(t.Context(), bad, planted); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		who     memory.Writer
		earlier nacre.SessionID
	}{{next, "s-bad"}, {last, "s-next"}} {
		if err := s.Heard(t.Context(), w.who, w.earlier); err != nil {
			t.Fatal(err)
		}
	}
	add(t, s, last, "fact", "told of evil, two turns later")
	add(t, s, memory.Writer{Session: "s-other"}, "fact", "unrelated")
	f := memory.Forget{Session: "s-bad"}
	e, err := s.Doom(t.Context(), f)
	if err != nil || why(e) != "summary of evil things: derived_from" || e.Recalled != 1 || fmt.Sprint(e.Sessions) != "[s-1 s-bad]" {
		t.Errorf("have %s, recalled %d, sessions %v, %v", why(e), e.Recalled, e.Sessions, err)
	}
	f.Recalled = true
	forget(t, s, f)
	if have := contents(search(t, s, memory.Query{})); have != "unrelated" {
		t.Errorf("have %s", have)
	}
	if have := holds(t, path, "evil"); len(have) != 0 {
		t.Errorf("the file holds %v", have)
	}
}

// M-57: the sessions that were shown an entry are named, for what else is kept of them.
func TestForgetNamesWhoWasShown(t *testing.T) {
	s := fresh(t, newClock())
	id := add(t, s, operator, "fact", "the alarm code is 4711")
	b, err := s.Brief(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recalled(t.Context(), memory.Writer{Session: "s-7"}, b.IDs()); err != nil {
		t.Fatal(err)
	}
	e, err := s.Doom(t.Context(), memory.Forget{ID: id})
	if err != nil || fmt.Sprint(e.Sessions) != "[operator s-7]" {
		t.Errorf("have %v, %v", e.Sessions, err)
	}
}

// P-11, M-57: where most of a file goes, its index of words is built anew. No byte of what went is
// left, and what stays is found by its words. What goes later goes from the index as well.
func TestForgetMostOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	drafts := make([]memory.Draft, 300)
	for i := range drafts {
		drafts[i] = memory.Draft{Type: "fact", Content: fmt.Sprintf("quokka%d lives in the numbat%d", i, i%7), Tags: []string{"walrus"}}
	}
	if _, err := s.AddAll(t.Context(), memory.Writer{Session: "s-all", Operator: true}, drafts); err != nil {
		t.Fatal(err)
	}
	kept, later := add(t, s, agent, "fact", "marmalade is kept"), add(t, s, agent, "fact", "axolotls go later")
	forget(t, s, memory.Forget{Session: "s-all"})
	if have := holds(t, path, "quokka", "numbat", "walrus", "marmalade", "axolotl"); fmt.Sprint(have) != "[marmalade axolotl]" {
		t.Errorf("the file holds %v", have)
	}
	if hits := search(t, s, memory.Query{Text: "marmalade quokka7", Limit: 1}); len(hits) != 1 || hits[0].ID != kept {
		t.Errorf("found %v", hits)
	}
	forget(t, s, memory.Forget{ID: later})
	if have := holds(t, path, "axolotl", "marmalade"); fmt.Sprint(have) != "[marmalade]" {
		t.Errorf("the file holds %v", have)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	var triggers, indexed int
	err = errors.Join(db.QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name = 'memory_fts_delete'`).Scan(&triggers),
		db.QueryRowContext(t.Context(), `SELECT count(*) FROM memory_fts WHERE memory_fts MATCH 'marmalade'`).Scan(&indexed), db.Close())
	if err != nil || triggers != 1 || indexed != 1 {
		t.Errorf("%d triggers, %d found by SQLite's own index, %v", triggers, indexed, err)
	}
}

// M-57: what goes takes its words along, also those that a page held before its rows
// moved to another one.
func TestNothingOfAWordStaysInAPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	random := rand.New(rand.NewPCG(6, 57)) // with which a page keeps a copy, if nobody clears it
	word := func() string {
		letters := make([]byte, 14)
		for i := range letters {
			letters[i] = "bcdfghjklmnpqrstvwxz"[random.IntN(20)]
		}
		return string(letters)
	}
	const sessions = 12
	beginnings := map[nacre.SessionID][]string{}
	for range 60 { // so that neighbors in a page are of different sessions
		for i := range sessions {
			w := memory.Writer{Session: nacre.SessionID(fmt.Sprintf("s-%d", i)), Operator: true}
			first, last := word(), word()
			if _, err := s.Add(t.Context(), w, memory.Draft{Type: "fact", Content: first + strings.Repeat(" filling", random.IntN(60)) + " " + last}); err != nil {
				t.Fatal(err)
			}
			beginnings[w.Session] = append(beginnings[w.Session], first[:9], last[:9])
		}
	}
	for _, i := range random.Perm(sessions) {
		session := nacre.SessionID(fmt.Sprintf("s-%d", i))
		words := beginnings[session]
		if len(holds(t, path, words...)) == 0 {
			t.Fatal("proves nothing")
		}
		forget(t, s, memory.Forget{Session: session})
		if have := holds(t, path, words...); len(have) != 0 {
			t.Fatalf("the file holds %v of %s", have, session)
		}
	}
}
