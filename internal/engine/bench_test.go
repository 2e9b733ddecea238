package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/engine"
)

// BenchmarkOpen measures what a session pays to begin: on a new file, and on
// one that has been migrated.
func BenchmarkOpen(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "engine.sqlite")
		openClose(b, path)
		for b.Loop() {
			c, err := engine.OpenClient(b.Context(), path, nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "engine.sqlite")
		for b.Loop() {
			openClose(b, path)
		}
	})
	b.Run("new-file", func(b *testing.B) {
		for b.Loop() {
			openClose(b, filepath.Join(b.TempDir(), "engine.sqlite"))
		}
	})
}

func openClose(b testing.TB, path string) {
	b.Helper()
	e, err := engine.Open(b.Context(), engine.Options{Path: path, Executor: "s1"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
}
