// Package corpus gives fuzz targets their seeds: each sample, and what is left of it where
// it ends too early. So a plain run of the tests meets the ends that readers of untrusted
// bytes forget most.
package corpus

import (
	"iter"
	"testing"
)

// MaxCuts is at how many places a sample is cut, at most: all of a short one.
const MaxCuts = 100

// Add adds a sample and its cuts to the seeds of a target that takes nothing else. The
// sample is of type string or []byte itself.
func Add[T string | []byte](f *testing.F, sample T) {
	f.Helper()
	for s := range Cuts(sample) {
		f.Add(s)
	}
}

// Cuts are a sample, and its beginnings.
func Cuts[T string | []byte](sample T) iter.Seq[T] {
	return func(yield func(T) bool) {
		text := string(sample) // each seed is a copy: a target may write into it
		step := max((len(text)+MaxCuts-1)/MaxCuts, 1)
		for end := len(text); end >= 0; end -= step {
			if !yield(T(text[:end])) {
				return
			}
		}
	}
}
