package nacre_test

import (
	"testing"

	"github.com/nacre-dev/nacre"
)

// K-25, F-86: the stricter of two labels counts, and what nobody vouches for is untrusted in text.
func TestLabels(t *testing.T) {
	order := []nacre.Label{nacre.Untrusted, nacre.Unvouched, nacre.Trusted}
	for i, l := range order {
		for j, m := range order {
			if have := l.And(m); have != order[min(i, j)] {
				t.Errorf("%d and %d: have %d", l, m, have)
			}
		}
		if have := l.And(9); have != nacre.Untrusted {
			t.Errorf("%d and what is none: have %d", l, have)
		}
	}
	if have := nacre.Label(9).And(9); have != nacre.Untrusted {
		t.Errorf("what is none: have %d", have)
	}
	if have := nacre.Unvouched.String(); have != "untrusted" {
		t.Errorf("have %s", have)
	}
	var l nacre.Label
	if err := l.UnmarshalText([]byte("unvouched")); err == nil {
		t.Error("a label was read that nobody may declare")
	}
}
