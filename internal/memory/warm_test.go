package memory_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/memory"
)

// D-42: what searches rank by may be built before the first of them, which finds the same. A memory
// that is closed meanwhile waits for nothing.
func TestWarm(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	path := filepath.Join(t.TempDir(), "main.sqlite")
	c := newClock()
	s := open(t, path, options(c))
	drafts := make([]memory.Draft, 800)
	for i := range drafts {
		drafts[i] = memory.Draft{Type: "fact", Content: fmt.Sprintf("walnut %d of the bag", i)}
	}
	if _, err := s.AddAll(t.Context(), operator, drafts); err != nil {
		t.Fatal(err)
	}
	want := contents(search(t, s, memory.Query{Text: "walnut 718"}))
	c.pass(time.Second)
	for range 5 {
		other, err := memory.Open(t.Context(), path, options(c))
		if err != nil {
			t.Fatal(err)
		}
		other.Warm()
		other.Warm()
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	warm := open(t, path, options(c))
	warm.Warm()
	if _, err := warm.Add(t.Context(), operator, memory.Draft{Type: "fact", Content: "hazel"}); err != nil {
		t.Error(err)
	}
	if have := contents(search(t, warm, memory.Query{Text: "walnut 718"})); have != want {
		t.Errorf("have %s, want %s", have, want)
	}
	if have := contents(search(t, warm, memory.Query{Text: "hazel", Limit: 1})); have != "hazel" {
		t.Errorf("have %s", have)
	}
	if err := warm.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s.Warm() // too late: nothing begins
}

// BenchmarkFirstSearch opens a file and searches once: most of it is the index that later
// searches find there. The floor opens it and makes a brief. P-09 allows 50 ms for 20,000
// entries.
func BenchmarkFirstSearch(b *testing.B) {
	for name, n := range map[string]int{"P-09 20,000 entries, at most 50 ms": 20_000, "50,000 entries": 50_000} {
		b.Run(name, func(b *testing.B) { benchmarkFirstSearch(b, n) })
	}
}

func benchmarkFirstSearch(b *testing.B, n int) {
	path := filepath.Join(b.TempDir(), "main.sqlite")
	fill(b, open(b, path, options(newClock())), n)
	for name, do := range map[string]func(*memory.Store) error{
		"floor": func(s *memory.Store) error { _, err := s.Brief(b.Context(), false); return err },
		"ours": func(s *memory.Store) error {
			_, err := s.Search(b.Context(), memory.Query{Text: "project 4711"})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			timed(b, func() error {
				s, err := memory.Open(b.Context(), path, options(newClock()))
				if err != nil {
					return err
				}
				return errors.Join(do(s), s.Close())
			})
		})
	}
}
