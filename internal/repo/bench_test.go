package repo_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkClone measures the private clone of 1,000 files against git's own.
func BenchmarkClone(b *testing.B) {
	many := make(map[string]string)
	for i := range 1000 {
		many[fmt.Sprintf("dir%d/file%d", i%20, i)] = fmt.Sprintf("content %d\n", i)
	}
	u := withFiles(b, many)
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			u.git("clone", "-q", "--no-local", "file://"+u.dir, filepath.Join(b.TempDir(), "c"))
		}
	})
	r := open(b, u)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.project.Clone(b.Context(), filepath.Join(b.TempDir(), "c")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			r.snapshot()
		}
	})
}
