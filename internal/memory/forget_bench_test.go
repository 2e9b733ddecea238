package memory_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
)

// BenchmarkForget erases, of 20,000 entries, one, and all that one session wrote
// (P-11): at most 50 ms and 2 s. The floor copies the rows that stay, as a file of
// their own.
func BenchmarkForget(b *testing.B) {
	b.Run("P-11 one of 20,000, at most 50 ms", func(b *testing.B) {
		s := open(b, filepath.Join(b.TempDir(), "main.sqlite"), options(newClock()))
		ids := sessionOf(b, s, "s-one", 20_000)
		n := 0
		for b.Loop() {
			erase(b, s, memory.Forget{ID: ids[n]})
			n++
		}
	})
	b.Run("P-11 a session of 20,000, at most 2 s", func(b *testing.B) {
		s := open(b, filepath.Join(b.TempDir(), "main.sqlite"), options(newClock()))
		for b.Loop() {
			b.StopTimer()
			sessionOf(b, s, "s-all", 20_000)
			sessionOf(b, s, "s-kept", 20)
			b.StartTimer()
			erase(b, s, memory.Forget{Session: "s-all"})
		}
	})
}

func erase(b *testing.B, s *memory.Store, f memory.Forget) {
	b.Helper()
	e, err := s.Doom(b.Context(), f)
	if err != nil {
		b.Fatal(err)
	}
	if len(e.Entries) == 0 {
		b.Fatal("nothing to erase")
	}
	if err := s.Forget(b.Context(), f, e); err != nil {
		b.Fatal(err)
	}
}

// sessionOf has a session write entries, as an import does: without its limits.
func sessionOf(b *testing.B, s *memory.Store, session nacre.SessionID, n int) (ids []string) {
	b.Helper()
	drafts := make([]memory.Draft, n)
	for i := range drafts {
		drafts[i] = memory.Draft{Type: "fact", Content: fmt.Sprintf("the build of project %d fails when the parser of module%d opens socket %d", i, i%701, i*7919)}
	}
	added, err := s.AddAll(b.Context(), memory.Writer{Session: session, Operator: true}, drafts)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range added {
		ids = append(ids, e.ID)
	}
	return ids
}
