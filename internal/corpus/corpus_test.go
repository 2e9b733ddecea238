package corpus_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/corpus"
)

// A sample is cut at each of its bytes; a long one at no more than MaxCuts places, and is
// itself the first.
func TestASampleIsCutAtItsBytes(t *testing.T) {
	if have := slices.Collect(corpus.Cuts("[1]")); !slices.Equal(have, []string{"[1]", "[1", "[", ""}) {
		t.Errorf("have %q", have)
	}
	long := strings.Repeat("x", 10*corpus.MaxCuts+1)
	if have := slices.Collect(corpus.Cuts(long)); len(have) > corpus.MaxCuts+1 || len(have) < corpus.MaxCuts/2 || have[0] != long {
		t.Errorf("%d cuts, the first of %d bytes", len(have), len(have[0]))
	}
	sample := []byte("ab")
	for cut := range corpus.Cuts(sample) {
		clear(cut)
	}
	if string(sample) != "ab" {
		t.Errorf("a target wrote into the sample: %q", sample)
	}
}
