package dispatch_test

import (
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/dispatch"
)

// M-40: of what strangers write, 20 messages a minute are told one by one, and the others are
// counted, however many reasons there are and wherever the clock goes.
func TestATallyTellsTwentyAMinute(t *testing.T) {
	t.Parallel()
	var tally dispatch.Tally
	now := time.Now()
	each := func(n int, reason string) (told int) {
		for range n {
			if tally.Each(now, reason) {
				told++
			}
		}
		return told
	}
	if told := each(10_000, "unmatched"); told != 20 {
		t.Errorf("%d were told, want 20", told)
	}
	if rest := tally.Take(); !maps.Equal(rest, map[string]int{"unmatched": 9_980}) {
		t.Errorf("counted %v", rest)
	}
	if rest := tally.Take(); rest != nil {
		t.Errorf("counted %v twice", rest)
	}
	now = now.Add(-time.Hour) // set back
	for n := range 1_000 {
		each(1, "reason "+strconv.Itoa(n))
	}
	sum := 0
	rest := tally.Take()
	for _, n := range rest {
		sum += n
	}
	if sum != 980 || len(rest) != 17 || rest[dispatch.OtherReasons] != 964 {
		t.Errorf("counted %d for %d reasons, %d of them others", sum, len(rest), rest[dispatch.OtherReasons])
	}
}
