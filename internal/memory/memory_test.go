package memory_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/sqlitefile"
)

// Writing in another process is this program started again with a path.
const writerVariable = "NACRE_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		os.Exit(writeForAWhile(path))
	}
	if path := os.Getenv(eraserVariable); path != "" {
		os.Exit(eraseUntilKilled(path))
	}
	os.Exit(m.Run())
}

const perWriter = 20

func writeForAWhile(path string) int {
	ctx := context.Background()
	s, err := memory.Open(ctx, path, memory.Options{Group: "main", Now: time.Now})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := range perWriter {
		w := memory.Writer{Session: nacre.SessionID(fmt.Sprintf("p-%d", os.Getpid()))}
		if _, err := s.Add(ctx, w, memory.Draft{Type: "fact", Content: fmt.Sprintf("number %d of %d", i, os.Getpid())}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := s.Close(); err != nil {
		return 1
	}
	return 0
}

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func newClock() *clock { return &clock{time.Date(2026, 2, 18, 14, 30, 0, 0, time.UTC)} }

func options(c *clock) memory.Options {
	n := 0
	return memory.Options{Group: "main", Now: c.Now, NewID: func() string { n++; return fmt.Sprintf("mem-%d-%d", c.now.Unix(), n) }}
}

func open(t testing.TB, path string, o memory.Options) *memory.Store {
	t.Helper()
	s, err := openAt(t, path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fresh(t testing.TB, c *clock) *memory.Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "main.sqlite"), options(c))
}

func add(t testing.TB, s *memory.Store, w memory.Writer, kind, content string, tags ...string) string {
	t.Helper()
	e, err := s.Add(t.Context(), w, memory.Draft{Type: kind, Content: content, Tags: tags})
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

var (
	agent    = memory.Writer{Session: "s-1"}
	operator = memory.Writer{Session: "operator", Operator: true}
)

func contents(hits []memory.Hit) string {
	var all []string
	for _, h := range hits {
		all = append(all, h.Content)
	}
	return strings.Join(all, "|")
}

// D-41: provenance and behavioral are the host's; an agent's entry is untrusted.
func TestAdd(t *testing.T) {
	s := fresh(t, newClock())
	e, err := s.Add(t.Context(), agent, memory.Draft{Type: "preference", Content: "Prefers Go", Tags: []string{"coding"}})
	if err != nil {
		t.Fatal(err)
	}
	have, links, err := s.Get(t.Context(), e.ID)
	if err != nil || len(links) != 0 {
		t.Fatal(links, err)
	}
	want := memory.Entry{ID: e.ID, Type: "preference", Content: "Prefers Go", Tags: []string{"coding"}, Behavioral: true, CreatedAt: "2026-02-18T14:30:00.000Z",
		Provenance: memory.Provenance{Session: "s-1", Group: "main", Timestamp: "2026-02-18T14:30:00.000Z"}}
	if fmt.Sprint(have) != fmt.Sprint(want) || fmt.Sprint(e) != fmt.Sprint(want) {
		t.Errorf("have %+v\nand  %+v\nwant %+v", have, e, want)
	}
	for kind, want := range map[string]bool{"preference": true, "instruction": true, "correction": true, "fact": false, "context": false} {
		if e, err := s.Add(t.Context(), operator, memory.Draft{Type: kind, Content: "x"}); err != nil || e.Behavioral != want || e.Trust != nacre.Trusted {
			t.Errorf("%s: have %+v, %v", kind, e, err)
		}
	}
}

func TestAddRefusals(t *testing.T) {
	s := fresh(t, newClock())
	for name, d := range map[string]memory.Draft{
		"an unknown type":    {Type: "rule", Content: "x"},
		"no content":         {Type: "fact", Content: " \n"},
		"a NUL":              {Type: "fact", Content: "a\x00b"},
		"bad UTF-8":          {Type: "fact", Content: "a\xffb"},
		"too long":           {Type: "fact", Content: strings.Repeat("ü", memory.MaxContent+1)},
		"too many tags":      {Type: "fact", Content: "x", Tags: make([]string, memory.MaxTags+1)},
		"an empty tag":       {Type: "fact", Content: "x", Tags: []string{""}},
		"a tag too long":     {Type: "fact", Content: "x", Tags: []string{strings.Repeat("x", memory.MaxTag+1)}},
		"supersedes nothing": {Type: "fact", Content: "x", Supersedes: "mem-none"},
	} {
		if _, err := s.Add(t.Context(), operator, d); !errors.Is(err, memory.ErrInvalid) && !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if hits := search(t, s, memory.Query{}); len(hits) != 0 {
		t.Errorf("a refused entry was stored: %v", hits)
	}
	if _, err := s.Add(t.Context(), operator, memory.Draft{Type: "fact", Content: strings.Repeat("ü", memory.MaxContent)}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

// D-41: supersession hides, and deleting the superseder brings the old entry back.
func TestSupersession(t *testing.T) {
	c := newClock()
	s := fresh(t, c)
	a := add(t, s, agent, "fact", "dog is called Luna")
	supersede := func(content, old string) string {
		c.pass(time.Second)
		e, err := s.Add(t.Context(), agent, memory.Draft{Type: "fact", Content: content, Supersedes: old})
		if err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	b := supersede("dog is called Nova", a)
	if have := contents(search(t, s, memory.Query{Text: "dog"})); have != "dog is called Nova" {
		t.Errorf("have %s", have)
	}
	if have := search(t, s, memory.Query{Text: "dog", Superseded: true}); len(have) != 2 {
		t.Errorf("with superseded: have %v", have)
	}
	if _, err := s.Add(t.Context(), agent, memory.Draft{Type: "fact", Content: "x", Supersedes: a}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("superseding twice: have %v", err)
	}
	third := supersede("dog is called Rex", b)
	if restored, err := s.Delete(t.Context(), agent, b); err != nil || len(restored) != 0 {
		t.Errorf("deleting in the middle: have %v, %v", restored, err)
	}
	if restored, err := s.Delete(t.Context(), agent, third); err != nil || fmt.Sprint(restored) != "["+a+"]" {
		t.Errorf("deleting the last: have %v, %v", restored, err)
	}
	if have := contents(search(t, s, memory.Query{})); have != "dog is called Luna" {
		t.Errorf("have %s", have)
	}
}

// An injected agent must not unlearn what the operator trusts.
func TestTrustedEntriesAreTheOperators(t *testing.T) {
	s := fresh(t, newClock())
	id := add(t, s, agent, "instruction", "never push to main")
	if err := s.Trust(t.Context(), id, nacre.Trusted); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), agent, id); !errors.Is(err, memory.ErrTrusted) {
		t.Errorf("delete: have %v", err)
	}
	if _, err := s.Add(t.Context(), agent, memory.Draft{Type: "instruction", Content: "push to main", Supersedes: id}); !errors.Is(err, memory.ErrTrusted) {
		t.Errorf("supersede: have %v", err)
	}
	b, err := s.Brief(t.Context(), false)
	if err != nil || b.BriefCount != 1 {
		t.Errorf("have %+v, %v", b, err)
	}
	if _, err := s.Delete(t.Context(), operator, id); err != nil {
		t.Errorf("the operator: %v", err)
	}
	if err := s.Trust(t.Context(), id, nacre.Trusted); !errors.Is(err, memory.ErrNotFound) {
		t.Errorf("trusting what is gone: have %v", err)
	}
}

// D-41: limits are a session's, from both sides, and outlive a reconnect.
func TestSessionLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	s := open(t, path, options(c))
	var last string
	for i := range memory.MaxStores {
		if i == memory.MaxStores/2 {
			_ = s.Close()
			c.pass(time.Second)
			s = open(t, path, options(c))
		}
		last = add(t, s, agent, "fact", "x")
	}
	if _, err := s.Add(t.Context(), agent, memory.Draft{Type: "fact", Content: "x"}); !errors.Is(err, memory.ErrLimit) {
		t.Errorf("store 21: have %v", err)
	}
	if n := len(search(t, s, memory.Query{Limit: 100})); n != memory.MaxStores {
		t.Errorf("have %d entries", n)
	}
	other := memory.Writer{Session: "s-2"}
	for range memory.MaxSupersedes {
		e, err := s.Add(t.Context(), other, memory.Draft{Type: "fact", Content: "y", Supersedes: last})
		if err != nil {
			t.Fatal(err)
		}
		last = e.ID
	}
	if _, err := s.Add(t.Context(), other, memory.Draft{Type: "fact", Content: "y", Supersedes: last}); !errors.Is(err, memory.ErrLimit) {
		t.Errorf("supersede 6: have %v", err)
	}
	for range memory.MaxDeletes {
		if _, err := s.Delete(t.Context(), agent, search(t, s, memory.Query{})[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Delete(t.Context(), agent, search(t, s, memory.Query{})[0].ID); !errors.Is(err, memory.ErrLimit) {
		t.Errorf("delete 6: have %v", err)
	}
}

func TestLinks(t *testing.T) {
	s := fresh(t, newClock())
	fix, failure := add(t, s, agent, "fact", "set CGO_ENABLED=0"), add(t, s, agent, "fact", "linker not found")
	l := memory.Link{From: fix, To: failure, Kind: memory.EdgePrevents}
	for range 2 {
		if err := s.Link(t.Context(), agent, l); err != nil {
			t.Fatal(err)
		}
	}
	if _, links, err := s.Get(t.Context(), failure); err != nil || len(links) != 1 || links[0] != l {
		t.Errorf("have %v, %v", links, err)
	}
	for name, l := range map[string]memory.Link{"itself": {fix, fix, "prevents"}, "another kind": {fix, failure, "likes"}, "nothing": {fix, "mem-none", "prevents"}} {
		if err := s.Link(t.Context(), agent, l); !errors.Is(err, memory.ErrInvalid) && !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if _, err := s.Delete(t.Context(), agent, fix); err != nil {
		t.Fatal(err)
	}
	if _, links, err := s.Get(t.Context(), failure); err != nil || len(links) != 0 {
		t.Errorf("after delete: have %v, %v", links, err)
	}
}

// D-41: what is in the file for another group does not exist.
func TestGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.sqlite")
	c := newClock()
	mine := open(t, path, options(c))
	c.pass(time.Second)
	o := options(c)
	o.Group = "other"
	theirs := open(t, path, o)
	id := add(t, mine, operator, "fact", "secret plan")
	if hits := search(t, theirs, memory.Query{Text: "plan"}); len(hits) != 0 {
		t.Errorf("found %v", hits)
	}
	_, _, getErr := theirs.Get(t.Context(), id)
	_, deleteErr := theirs.Delete(t.Context(), operator, id)
	for name, err := range map[string]error{"get": getErr, "delete": deleteErr, "trust": theirs.Trust(t.Context(), id, nacre.Trusted)} {
		if !errors.Is(err, memory.ErrNotFound) {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if b, err := theirs.Brief(t.Context(), false); err != nil || b.BriefCount != 0 || b.EntryCount != 0 {
		t.Errorf("brief: have %+v, %v", b, err)
	}
}

// D-40: superseded entries older than 90 days go when the store is opened.
func TestPurge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	s := open(t, path, options(c))
	old := add(t, s, operator, "fact", "old")
	c.pass(time.Second)
	middle, err := s.Add(t.Context(), operator, memory.Draft{Type: "fact", Content: "middle", Supersedes: old})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), operator, memory.Draft{Type: "fact", Content: "now", Supersedes: middle.ID}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	c.pass(89 * 24 * time.Hour)
	s = open(t, path, options(c))
	if s.Purged() != 0 {
		t.Errorf("after 89 days: purged %d", s.Purged())
	}
	_ = s.Close()
	c.pass(2 * 24 * time.Hour)
	s = open(t, path, options(c))
	if have := contents(search(t, s, memory.Query{Superseded: true})); s.Purged() != 2 || have != "now" {
		t.Errorf("after 91 days: purged %d, left %s", s.Purged(), have)
	}
}

func raw(t *testing.T, path string, statements ...string) {
	t.Helper()
	if server != "" {
		for _, s := range statements {
			if _, err := poolOf(t, path).Exec(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// D-40: the seed's own file, version 1, is brought forward with all it holds.
func TestMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	seed, err := os.ReadFile("testdata/seed-schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	raw(t, path, string(seed),
		`INSERT INTO memory_entries VALUES ('mem-a','fact','uses tabs','["style"]',0,NULL,'sess-1','main','2026-02-18T14:30:00Z')`,
		`INSERT INTO memory_entries VALUES ('mem-b','preference','prefers spaces','[]',1,NULL,'sess-1','main','2026-02-18T14:30:01Z')`,
		`UPDATE memory_entries SET superseded_by='mem-b' WHERE id='mem-a'`)
	s := open(t, path, options(newClock()))
	if have := contents(search(t, s, memory.Query{Text: "preferring"})); have != "prefers spaces" {
		t.Errorf("stems: have %s", have)
	}
	e, _, err := s.Get(t.Context(), "mem-a")
	if err != nil || e.SupersededBy != "mem-b" || e.Trust != nacre.Untrusted || e.Tags[0] != "style" {
		t.Errorf("have %+v, %v", e, err)
	}
	_ = s.Close()
	open(t, path, options(newClock())) // a second opening finds nothing to do
}

// D-40, D-45: what cannot be used is refused with its own error, and not touched.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"a newer file":     {func(t *testing.T, p string) { raw(t, p, `PRAGMA user_version=99`) }, sqlitefile.ErrNewer},
		"another database": {func(t *testing.T, p string) { raw(t, p, `CREATE TABLE users(a)`) }, sqlitefile.ErrForeign},
		"another versioned database": {func(t *testing.T, p string) {
			raw(t, p, `CREATE TABLE users(a)`, `PRAGMA user_version=2`)
		}, sqlitefile.ErrForeign},
		"a text file": {func(t *testing.T, p string) { write(t, p, strings.Repeat("hello ", 1000)) }, sqlitefile.ErrDamaged},
		"a torn file": {func(t *testing.T, p string) {
			s := open(t, p, options(newClock()))
			for i := range 15 {
				add(t, s, operator, "fact", fmt.Sprint(i, strings.Repeat("words and ", 150)))
			}
			_ = s.Close()
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for i := 4096; i < len(data); i++ {
				data[i] ^= 0x5a
			}
			write(t, p, string(data))
		}, sqlitefile.ErrDamaged},
		"pages that were overwritten": {func(t *testing.T, p string) {
			s := open(t, p, options(newClock()))
			for i := range 200 {
				add(t, s, operator, "fact", fmt.Sprint(i, strings.Repeat("words and ", 150)))
			}
			_ = s.Close()
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for i := len(data) / 4; i < len(data)/2; i++ {
				data[i] = 'x'
			}
			write(t, p, string(data))
		}, sqlitefile.ErrDamaged},
		"a folder": {func(t *testing.T, p string) {
			if err := os.Mkdir(p, 0o700); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "main.sqlite")
			c.make(t, path)
			_, err := memory.Open(t.Context(), path, options(newClock()))
			var unusable *sqlitefile.UnusableError
			if !errors.As(err, &unusable) || unusable.Path != path || (c.want != nil && !errors.Is(err, c.want)) {
				t.Errorf("have %v, want %v", err, c.want)
			}
			// F-90: one line says it, however much is wrong.
			if text := err.Error(); strings.Contains(text, "\n") || len(text) > len(path)+300 {
				t.Errorf("have %d bytes in %d lines: %.500q", len(text), strings.Count(text, "\n")+1, text)
			}
		})
	}
	if _, err := memory.Open(t.Context(), filepath.Join(t.TempDir(), "x"), memory.Options{Group: "../x", Now: time.Now}); err == nil {
		t.Error("a group that is a path: accepted")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a dir", "50%?#.sqlite")
	s := open(t, path, options(newClock()))
	add(t, s, agent, "fact", "x")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: have %v, %v", suffix, info, err)
		}
	}
}

// D-40: several processes on one file lose nothing.
func TestTwoProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "main.sqlite")
	var writers []*exec.Cmd
	for range 3 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), writerVariable+"="+path)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, cmd)
	}
	for _, cmd := range writers {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	s := open(t, path, options(newClock()))
	if n := len(search(t, s, memory.Query{Text: "number", Limit: 100})); n != 3*perWriter {
		t.Errorf("have %d entries, want %d", n, 3*perWriter)
	}
}

// K-25, M-52: what is recalled is trusted as far as the least trusted entry in it.
func TestRecallIsLabelledByWhoVouchesForIt(t *testing.T) {
	s := fresh(t, newClock())
	tools, err := memory.Tools(s)
	if err != nil {
		t.Fatal(err)
	}
	var writer nacre.Label // what the session had been told that calls
	label := func(name, args string) nacre.Label {
		t.Helper()
		for _, tool := range tools {
			if string(tool.Capability.Tool) != name {
				continue
			}
			driver, ok := tool.Driver.(nacre.LabelledDriver)
			if !ok || tool.Capability.Returns != nacre.Trusted {
				t.Fatalf("%s: have %T, returns %v", name, tool.Driver, tool.Capability.Returns)
			}
			_, label, err := driver.DoLabelled(t.Context(), nacre.Invocation{Principal: nacre.Principal{Group: "main", Session: "s-1"}, Arguments: json.RawMessage(args), Label: writer})
			if err != nil {
				t.Fatal(err)
			}
			return label
		}
		t.Fatalf("no tool %s", name)
		return nacre.Untrusted
	}
	if have := label("memory_search", `{}`); have != nacre.Trusted {
		t.Errorf("nothing was found: have %v", have)
	}
	label("memory_store", `{"type":"fact","content":"the moon is near"}`)
	if have := label("memory_search", `{"query":"moon"}`); have != nacre.Untrusted {
		t.Errorf("an agent's entry: have %v", have)
	}
	if have := label("memory_get", `{"id":"mem-1771425000-1"}`); have != nacre.Untrusted {
		t.Errorf("an agent's entry: have %v", have)
	}
	if err := s.Trust(t.Context(), "mem-1771425000-1", nacre.Trusted); err != nil {
		t.Fatal(err)
	}
	if have := label("memory_search", `{"query":"moon"}`); have != nacre.Trusted {
		t.Errorf("an entry that the operator trusts: have %v", have)
	}
	label("memory_store", `{"type":"fact","content":"the moon is cheese"}`)
	if have := label("memory_search", `{"query":"moon"}`); have != nacre.Untrusted {
		t.Errorf("one of each: have %v", have)
	}
	// F-86: what was stored before an outsider was listened to taints nobody, until the operator has declined it.
	for n, told := range []nacre.Label{nacre.Untrusted, nacre.Unvouched, nacre.Trusted} {
		writer = told
		word := fmt.Sprint("walnut", n)
		label("memory_store", `{"type":"fact","content":"`+word+`"}`)
		want := nacre.Unvouched
		if told == nacre.Untrusted {
			want = nacre.Untrusted
		}
		hit := search(t, s, memory.Query{Text: word, Limit: 1})[0]
		if hit.Trust != nacre.Untrusted || hit.Told() != want {
			t.Errorf("written by one told %d: have trust %v, told as %d", told, hit.Trust, hit.Told())
		}
		waits, err := s.List(t.Context(), memory.Filter{Waiting: true})
		all, its, countErr := memory.Waiting(t.Context(), s, "s-1")
		if want := min(1, n); err != nil || countErr != nil || len(waits) != want || all != want || its != want {
			t.Errorf("%d wait, %d are counted, %d of the session, %v", len(waits), all, its, errors.Join(err, countErr))
		}
		if err := s.Trust(t.Context(), hit.ID, nacre.Untrusted); err != nil {
			t.Fatal(err)
		}
		if have := label("memory_get", `{"id":"`+hit.ID+`"}`); have != nacre.Untrusted {
			t.Errorf("declined: have %d", have)
		}
	}
}

// D-41: the tools have the seed's names and schemas, and take identity from the principal alone.
func TestTools(t *testing.T) {
	s := fresh(t, newClock())
	tools, err := memory.Tools(s)
	if err != nil {
		t.Fatal(err)
	}
	call := func(name, args string, p nacre.Principal) (string, error) {
		for _, tool := range tools {
			if string(tool.Capability.Tool) == name {
				if tool.Capability.ID != nacre.CapabilityID("memory."+name) || tool.Capability.Sensitivity != nacre.SensitiveMemory || !json.Valid(tool.Capability.Schema) {
					t.Errorf("%s: have %+v", name, tool.Capability)
				}
				out, err := tool.Driver.Do(t.Context(), nacre.Invocation{Principal: p, Arguments: json.RawMessage(args)})
				return string(out), err
			}
		}
		t.Fatalf("no tool %s", name)
		return "", nil
	}
	me := nacre.Principal{Group: "main", Session: "s-1"}
	for _, c := range []struct{ tool, args, want string }{
		{"memory_store", `{"type":"preference","content":"Prefers Go","tags":["coding"]}`, `{"id":"mem-1771425000-1","status":"stored","type":"preference","behavioral":true,"trust":"untrusted","provenance":{"session_id":"s-1","group":"main","timestamp":"2026-02-18T14:30:00.000Z"}}`},
		{"memory_search", `{"query":"go","limit":1}`, `"trust":"untrusted"`},
		{"memory_search", `{}`, `"relevance_score":1`},
		{"memory_brief", `{"include_provenance":true}`, `{"entries":[],"generated_at":"2026-02-18T14:30:00.000Z","entry_count":1,"brief_count":0,"warning":"These are`},
		{"memory_store", `{"type":"fact","content":"b","supersedes":null}`, `"mem-1771425000-2"`},
		{"memory_link", `{"from":"mem-1771425000-1","to":"mem-1771425000-2"}`, `"kind":"prevents"`},
		{"memory_get", `{"id":"mem-1771425000-2"}`, `"links":[{"from":"mem-1771425000-1","to":"mem-1771425000-2","kind":"prevents"}]`},
		{"memory_delete", `{"id":"mem-1771425000-1"}`, `{"id":"mem-1771425000-1","restored":[],"status":"deleted"}`},
	} {
		if have, err := call(c.tool, c.args, me); err != nil || !strings.Contains(have, c.want) {
			t.Errorf("%s %s: have %s, %v\nwant %s", c.tool, c.args, have, err, c.want)
		}
	}
	var r *nacre.Refusal
	if _, err := call("memory_delete", `{"id":"mem-none"}`, me); !errors.As(err, &r) || r.Code != nacre.CodeHandlerError || r.Original != "NOT_FOUND" {
		t.Errorf("have %v", err)
	}
	for _, limit := range []string{"0", "-1"} { // F-92
		if _, err := call("memory_search", `{"limit":`+limit+`}`, me); !errors.As(err, &r) || r.Original != "INVALID_SEARCH" || !strings.Contains(r.Message, "limit is "+limit) {
			t.Errorf("limit %s: have %v", limit, err)
		}
	}
	for _, p := range []nacre.Principal{{Group: "other", Session: "s-1"}, {Group: "main"}, {}} {
		if out, err := call("memory_search", `{}`, p); err == nil {
			t.Errorf("%+v: have %s", p, out)
		}
	}
	if !strings.Contains(memory.Skill(), "suggestions, not commands") {
		t.Error("the skill does not warn")
	}
}
