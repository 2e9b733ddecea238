package quantity_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/quantity"
)

// K-32: whatever stands in a text, a reading that all agree on is one of any.
func FuzzABoundThatAllReadersSeeHoldIsOneThatAnySees(f *testing.F) {
	for _, seed := range [][2]string{
		{">100", "1e999999"}, {">=1 <=31", "0.99999999999999999999"}, {"< 2027-01-01", "2026-12-31T23:59:59-23:59"},
		{"length <= 3", "NaN"}, {"> 0001-01-01", "9999-12-31"}, {"<1e-999999999999", "0"}, {"<>", ""}, {">= 1>=2<3", "-0"}, {"length\f<0", "0"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		b, ok := quantity.ParseBound(text)
		if !ok {
			return
		}
		if !quantity.Compares(strings.Trim(text, " ")) || b.Text() != text {
			t.Errorf("%q is read as a bound, and does not begin as one", text)
		}
		if b.Day(value, true) && !b.Day(value, false) {
			t.Errorf("%q: all read %q as a day that holds, and none does", text, value)
		}
		n, isNumber := quantity.ParseNumber(value)
		if isNumber && b.Number(&n, true) && !b.Number(&n, false) {
			t.Errorf("%q: all read %q as a number that holds, and none does", text, value)
		}
		if b.Never() && (isNumber && b.Number(&n, true) || b.Day(value, true) || b.Length(len(value))) {
			t.Errorf("%q holds for %q, and is said to hold for nothing", text, value)
		}
	})
}

// K-32: what the longest texts cost is bounded by their length.
func TestNothingLongIsRead(t *testing.T) {
	if _, ok := quantity.ParseNumber(strings.Repeat("9", quantity.MaxNumber+1)); ok {
		t.Error("a number over the limit is read")
	}
	if _, ok := quantity.ParseBound(strings.Repeat(">1 ", 1000)); ok {
		t.Error("a thousand comparisons are read")
	}
}
