package recall_test

import (
	"testing"

	"github.com/nacre-dev/nacre/internal/recall"
)

// M-53, M-54: which earlier tasks a task is like.
func TestLikenessOfTasks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b        string
		least, most float64
	}{
		"the same words":                 {"Fix the date parser", "fix the date parser.", 1, 1},
		"other forms of the same words":  {"fixing date parsers", "Fix the date parser", 1, 1},
		"an identifier and its words":    {"test parseDate", "tests of parse date", 1, 1},
		"one word of three differs":      {"add a parser for dates", "add a parser for times", 0.6, 0.7},
		"another task":                   {"add a parser for dates", "upgrade the database driver", 0, 0},
		"words that say nothing":         {"what is it for", "to be of the", 0, 0.4},
		"two texts without a word":       {"", "…", 0, 0},
		"a long text that holds a short": {"fix the date parser in the importer of invoices, which drops leap days", "fix the date parser", 0.3, 0.6},
	} {
		have, back := recall.Likeness(c.a, c.b), recall.Likeness(c.b, c.a)
		if have < c.least || have > c.most || have != back {
			t.Errorf("%s: %v and back %v, want %v to %v", name, have, back, c.least, c.most)
		}
	}
}
