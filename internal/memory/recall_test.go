package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
)

// M-53: who meets a failure is told what prevents it.
func TestTheFixComesWithTheFailure(t *testing.T) {
	s := fresh(t, newClock())
	failure := add(t, s, agent, "fact", "make build stops with: undefined reference to dlopen")
	for i := range 30 {
		add(t, s, memory.Writer{Session: "s-9", Operator: true}, "fact", fmt.Sprintf("make build stops at step %d, undefined as yet", i))
	}
	fix := add(t, s, memory.Writer{Session: "s-2"}, "correction", "export CGO_ENABLED=0")
	if err := s.Link(t.Context(), agent, memory.Link{From: fix, To: failure, Kind: memory.EdgePrevents}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{2, 5, 20} {
		hits := search(t, s, memory.Query{Text: "undefined reference to dlopen in make build", Limit: limit})
		if len(hits) != limit || hits[0].ID != failure || hits[1].ID != fix || fmt.Sprint(hits[1].Prevents) != "["+failure+"]" {
			t.Errorf("limit %d: have %s", limit, contents(hits))
		}
	}
	if hits := search(t, s, memory.Query{Text: "undefined reference to dlopen", Type: "fact"}); len(hits) == 0 || strings.Contains(contents(hits), "CGO") {
		t.Errorf("beside the filter: have %s", contents(hits))
	}
	if _, err := s.Delete(t.Context(), agent, fix); err != nil {
		t.Fatal(err)
	}
	if hits := search(t, s, memory.Query{Text: "undefined reference to dlopen in make build"}); strings.Contains(contents(hits), "CGO") {
		t.Errorf("deleted: have %s", contents(hits))
	}
}

// D-42: what was replaced is found as what took its place.
func TestAnOldNameFindsTheNewEntry(t *testing.T) {
	s := fresh(t, newClock())
	old := add(t, s, agent, "fact", "we deploy to Heroku")
	add(t, s, agent, "fact", "lunch is at noon")
	replace(t, s, agent, "hosting moved to fly.io", old)
	if have, _, _ := strings.Cut(contents(search(t, s, memory.Query{Text: "Heroku deploy"})), "|"); have != "hosting moved to fly.io" {
		t.Errorf("have %s", have)
	}
}

// D-40: what other processes change is found, and what they delete is not.
func TestSearchFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	one := open(t, path, options(c))
	c.pass(time.Second)
	two := open(t, path, options(c))
	var ids []string
	for i := range 20 {
		ids = append(ids, add(t, one, operator, "fact", fmt.Sprintf("walnut %d", i)))
		if n := len(search(t, two, memory.Query{Text: "walnut", Limit: 100})); n != i+1 {
			t.Fatalf("after %d: found %d", i+1, n)
		}
	}
	if _, err := one.Delete(t.Context(), operator, ids[19]); err != nil { // its row number is given out again
		t.Fatal(err)
	}
	add(t, one, operator, "fact", "pecan")
	if err := one.Trust(t.Context(), ids[3], nacre.Untrusted); err != nil {
		t.Fatal(err)
	}
	replace(t, one, operator, "almond", ids[4])
	have := contents(search(t, two, memory.Query{Text: "walnut", Limit: 100}))
	if strings.Contains(have, "walnut 19") || strings.Contains(have, "walnut 4|") || !strings.Contains(have, "walnut 18") {
		t.Errorf("have %s", have)
	}
	if have := contents(search(t, two, memory.Query{Text: "pecan", Limit: 1})); have != "pecan" {
		t.Errorf("have %s", have)
	}
	forget(t, one, memory.Forget{Match: "walnut"})
	if have := contents(search(t, two, memory.Query{Text: "walnut almond pecan"})); have != "pecan" {
		t.Errorf("have %s", have)
	}
}

// D-44: what looks like a secret is never stored, whoever writes it.
func TestSecretsAreNotStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	s := open(t, path, options(newClock()))
	const key = "sk-ant-api03-QmFzZTY0U2VjcmV0S2V5MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw"
	for _, w := range []memory.Writer{agent, operator} {
		e, err := s.Add(t.Context(), w, memory.Draft{Type: "fact", Content: "the key is " + key, Tags: []string{"password=hunter2hunter2"}})
		if err != nil || !e.Redacted || strings.Contains(e.Content, key) {
			t.Errorf("have %+v, %v", e, err)
		}
	}
	if have := holds(t, path, key, "hunter2hunter2"); len(have) != 0 {
		t.Errorf("the file holds %v", have)
	}
}

// idea is an embedding that knows some words for one thing.
func idea(text string) []float32 {
	v := make([]float32, 8)
	for i, words := range []string{"car automobile vehicle", "dog puppy hound", "money salary wage pay", "sea ocean", "doctor physician"} {
		for _, w := range strings.Fields(words) {
			if strings.Contains(strings.ToLower(text), w) {
				v[i] = 1
			}
		}
	}
	v[7] = 0.01
	return v
}

// D-42: with embeddings, what is meant is found in other words. Without an endpoint that answers,
// the words themselves are found, and the operator is told.
func TestEmbeddings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	var broken error
	var told []string
	asked, size := 0, 8
	o := options(c)
	o.Model, o.Warn = "ideas-1", func(text string) { told = append(told, text) }
	o.Embed = func(_ context.Context, texts []string) ([][]float32, error) {
		if asked += len(texts); broken != nil {
			return nil, broken
		}
		var all [][]float32
		for _, text := range texts {
			all = append(all, idea(text)[:size])
		}
		return all, nil
	}
	s := open(t, path, o)
	first := func(text string) string {
		t.Helper()
		have, _, _ := strings.Cut(contents(search(t, s, memory.Query{Text: text})), "|")
		return have
	}
	for _, content := range []string{"bought an automobile", "the hound barks", "wage is paid monthly", "the car radio is broken", "nothing of note"} {
		add(t, s, memory.Writer{Session: nacre.SessionID(fmt.Sprint("s-", len(content))), Operator: true}, "fact", content)
	}
	if have := first("puppy"); have != "the hound barks" {
		t.Errorf("by its meaning: have %q", have)
	}
	if have := contents(search(t, s, memory.Query{Text: "car vehicle"})); have != "the car radio is broken|bought an automobile" {
		t.Errorf("by both: have %q", have)
	}
	before := asked
	first("salary")
	if asked != before+1 {
		t.Errorf("%d texts were embedded again", asked-before-1)
	}
	_ = s.Close()
	s = open(t, path, o)
	if before = asked; first("salary") != "wage is paid monthly" || asked != before+1 {
		t.Errorf("the vectors were not kept: %d embedded", asked-before)
	}
	for _, h := range search(t, s, memory.Query{Text: "car vehicle", Type: "context"}) {
		t.Errorf("beside the filter: %v", h)
	}
	_ = s.Close()
	o.Model = "ideas-2"
	s = open(t, path, o)
	if before = asked; first("salary") != "wage is paid monthly" || asked != before+6 {
		t.Errorf("another model: %d embedded", asked-before)
	}
	broken = errors.New("connection refused")
	if have := first("radio"); have != "the car radio is broken" || len(told) != 1 || !strings.Contains(told[0], "refused") {
		t.Errorf("have %q, told %v", have, told)
	}
	before = asked
	if first("radio"); asked != before || len(told) != 1 {
		t.Error("an endpoint that failed is asked again at once")
	}
	c.pass(2 * time.Minute)
	broken, size = nil, 0 // it answers, and with nothing that is a vector
	if have := first("radio"); have != "the car radio is broken" || len(told) != 2 {
		t.Errorf("have %q, told %v", have, told)
	}
	forget(t, s, memory.Forget{Match: "hound"})
	raw(t, path, `CREATE TABLE IF NOT EXISTS seen AS SELECT count(*) AS n FROM memory_vectors WHERE seq NOT IN (SELECT seq FROM memory_entries)`,
		`INSERT INTO memory_entries(id, type, content, session_id, group_name, created_at) SELECT 'orphan' || n, 'fact', 'x', 's', 'main', '2026-01-01' FROM seen WHERE n > 0`)
	if _, _, err := s.Get(t.Context(), "orphan1"); !errors.Is(err, memory.ErrNotFound) {
		t.Error("a vector outlived its entry")
	}
	for _, bad := range [][]float32{{float32(math.NaN())}, {float32(math.Inf(1))}, {0, 0}, make([]float32, memory.MaxDimensions+1)} {
		o.Model, o.Embed = fmt.Sprint("bad", len(bad), bad[0]), func(_ context.Context, texts []string) ([][]float32, error) {
			all := make([][]float32, len(texts))
			for i := range all {
				all[i] = bad
			}
			return all, nil
		}
		told = nil
		s := open(t, path, o)
		if hits := search(t, s, memory.Query{Text: "radio"}); len(hits) == 0 || len(told) != 1 {
			t.Errorf("have %v, told %v", hits, told)
		}
	}
}

// D-42: what is exported can be imported: all of it or nothing, untrusted unless it is said.
func TestTransfer(t *testing.T) {
	c := newClock()
	s := fresh(t, c)
	failure, fix := add(t, s, operator, "fact", "it fails <&> ü\u202e"), add(t, s, operator, "correction", "do this", "a tag")
	if err := s.Link(t.Context(), operator, memory.Link{From: fix, To: failure, Kind: memory.EdgePrevents}); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	replace(t, s, operator, "do that", fix)
	var file bytes.Buffer
	if n, err := s.Export(t.Context(), &file); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	for _, vouched := range []bool{false, true} {
		c.pass(time.Hour)
		other := fresh(t, c)
		if n, err := other.Import(t.Context(), memory.Writer{Session: "import-1", Operator: vouched}, bytes.NewReader(file.Bytes())); err != nil || n != 3 {
			t.Fatal(n, err)
		}
		list, err := other.List(t.Context(), memory.Filter{Superseded: true})
		if err != nil || len(list) != 3 || list[0].Content != "do that" || list[2].CreatedAt != "2026-02-18T14:30:00.000Z" {
			t.Fatalf("have %+v, %v", list, err)
		}
		if (list[0].Trust == nacre.Trusted) != vouched || list[0].Provenance.Session != "import-1" || list[1].SupersededBy != list[0].ID && list[2].SupersededBy != list[0].ID {
			t.Errorf("have %+v", list)
		}
		if have := contents(search(t, other, memory.Query{Text: "it fails"})); have != "it fails <&> ü\u202e|do that" {
			t.Errorf("have %s", have)
		}
		if e, err := other.Doom(t.Context(), memory.Forget{ID: list[0].ID}); err != nil || len(e.Entries) != 2 {
			t.Errorf("the trail was not brought along: %v, %v", e, err)
		}
	}
	entry := func(change string) string {
		e := map[string]any{"id": "a", "type": "fact", "content": "x", "created_at": "2026-02-18T14:30:00.000Z"}
		var more map[string]any
		_ = json.Unmarshal([]byte(change), &more)
		for k, v := range more {
			e[k] = v
		}
		line, _ := json.Marshal(map[string]any{"entry": e})
		return string(line) + "\n"
	}
	const head = "{\"nacre_memory\":1}\n"
	for name, text := range map[string]string{
		"nothing": "", "no entries": head, "another format": "[]\n", "a newer version": "{\"nacre_memory\":2}\n" + entry(""), "no header": entry(""), "an unknown key": head + "{\"entri\":{}}\n",
		"an id twice": head + entry("") + entry(""), "an unknown type": head + entry(`{"type":"rule"}`), "no date": head + entry(`{"created_at":"yesterday"}`),
		"a circle": head + entry(`{"superseded_by":"b"}`) + entry(`{"id":"b","superseded_by":"a"}`), "itself": head + entry(`{"superseded_by":"a"}`), "points out": head + entry(`{"superseded_by":"z"}`),
		"a link out": head + entry("") + `{"link":{"from":"a","to":"z","kind":"prevents"}}` + "\n", "a link of another kind": head + entry("") + entry(`{"id":"b"}`) + `{"link":{"from":"a","to":"b","kind":"likes"}}` + "\n",
		"too long a line": head + `{"entry":{"content":"` + strings.Repeat("x", 70_000) + `"}}` + "\n", "bytes": "\x00\xff", "a trailing half": head + entry("") + `{"entry":`,
	} {
		c.pass(time.Minute)
		other := fresh(t, c)
		if n, err := other.Import(t.Context(), memory.Writer{Session: "import-1"}, strings.NewReader(text)); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: have %d, %v", name, n, err)
		}
		if list, err := other.List(t.Context(), memory.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("%s: %d were stored, %v", name, len(list), err)
		}
	}
}

// FuzzImport holds that a file is taken whole or not at all, and that what was
// taken can be written and taken again.
func FuzzImport(f *testing.F) {
	const head = "{\"nacre_memory\":1}\n"
	for _, s := range []string{
		head + `{"entry":{"id":"a","type":"fact","content":"x","created_at":"2026-02-18T14:30:00Z"}}`, head + `{"link":{"from":"a","to":"b","kind":"prevents"}}`,
		head + `{"entry":{"id":"a","type":"fact","content":"\u202e\ud800","created_at":"0001-01-01T00:00:00Z","superseded_by":"a"}}`, "", "{}", head + "null\n", head + "{\"entry\":null}\n",
	} {
		f.Add([]byte(s))
	}
	s := fresh(f, newClock())
	f.Fuzz(func(t *testing.T, data []byte) {
		before, err := s.List(t.Context(), memory.Filter{Superseded: true})
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.Import(t.Context(), memory.Writer{Session: "import-1"}, bytes.NewReader(data))
		if err != nil && !errors.Is(err, memory.ErrInvalid) {
			t.Fatal(err)
		}
		after, listErr := s.List(t.Context(), memory.Filter{Superseded: true})
		if want := len(before) + n; err == nil && len(after) != want || err != nil && len(after) != len(before) || listErr != nil {
			t.Fatalf("%d entries after %d and %d, %v", len(after), len(before), n, err)
		}
		var out bytes.Buffer
		if _, err := s.Export(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if len(after) > 0 {
			if _, err := fresh(t, newClock()).Import(t.Context(), memory.Writer{Session: "import-2"}, &out); err != nil {
				t.Fatalf("its own export: %v", err)
			}
		}
	})
}
