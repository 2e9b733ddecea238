package automaton_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/automaton"
)

// P-08: a text is walked at several places at once. What is found is what looking for each word at
// each place finds, whatever its length and however often words end.
func TestAWalkFindsEachWordAtEachPlace(t *testing.T) {
	t.Parallel()
	words := []string{"a", "ab", "bab", "cab", "abcabcabc", "-----begin", "cc"}
	m := automaton.New(words)
	r := rand.New(rand.NewPCG(8, 1))
	for n := range 300 {
		size := r.IntN(400)
		if n%3 == 0 {
			size = r.IntN(9000)
		}
		text := make([]byte, size)
		rare := 1 + r.IntN(60)
		for i := range text {
			if text[i] = '.'; r.IntN(rare) == 0 {
				text[i] = "abcABC-"[r.IntN(7)]
			}
		}
		for range r.IntN(4) { // letters of two bytes, which are two places
			copy(text[r.IntN(size+1):], "é")
		}
		for range r.IntN(20) { // where stretches meet too
			copy(text[r.IntN(size+1):], words[r.IntN(len(words))])
		}
		check(t, m, words, string(text), rare)
	}
}

// check walks a text that some of what is found is skipped of, as the redactor does.
func check(t *testing.T, m *automaton.Machine, words []string, text string, every int) {
	t.Helper()
	lower := strings.NewReplacer("A", "a", "B", "b", "C", "c").Replace(text) // which leaves half a letter as it is
	var want, have []string
	skip, nth := 0, 0
	tell := func(end, word, length int) string {
		if nth++; nth%every == 0 {
			skip = max(skip, min(end+every*20, len(text)))
		}
		return fmt.Sprint(end, word, length)
	}
	for end := 1; end <= len(lower); end++ {
		for _, i := range longestFirst(words) {
			if w := words[i]; strings.HasSuffix(lower[:end], w) && end-len(w) >= skip {
				want = append(want, tell(end, i, len(w)))
			}
		}
	}
	skip, nth = 0, 0
	m.Walk(text, func(end int, hits []automaton.Hit) int {
		for _, hit := range hits {
			if end-int(hit.Length) >= skip {
				have = append(have, tell(end, int(hit.Word), int(hit.Length)))
			}
		}
		return skip
	})
	if !slices.Equal(have, want) {
		t.Fatalf("%q\nhave %q\nwant %q", text, have, want)
	}
}

// longestFirst is the order in which words that end at one place are told.
func longestFirst(words []string) []int {
	order := make([]int, len(words))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(words[b]) - len(words[a]) })
	return order
}
