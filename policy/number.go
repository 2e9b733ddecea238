package policy

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/quantity"
)

// number holds a JSON number against the numbers, the comparisons and, where
// the rule does not let through, the patterns that are numbers too.
func (c *condition) number(raw string, lets bool) bool {
	n, ok := quantity.ParseNumber(raw)
	if !ok { // longer than anybody reads in one way
		return !lets && (len(c.bounds) > 0 || len(c.numbers) > 0)
	}
	for i := range c.bounds {
		if c.bounds[i].Number(&n, lets) {
			return true
		}
	}
	for i := range c.numbers {
		if c.numbers[i].Same(&n, lets) {
			return true
		}
	}
	return false
}

// numeral holds a text against the numbers and comparisons of a rule that does
// not let through: many a reader takes "100" for 100. What has a digit and is
// not read by all in one way may be any number.
func (c *condition) numeral(text string) bool {
	if len(c.bounds)+len(c.numbers) == 0 {
		return false
	}
	plain := strings.TrimSpace(strings.Map(narrow, text))
	if _, ok := quantity.ParseNumber(plain); ok {
		return c.number(plain, false)
	}
	return bounded(c.bounds, quantity.Numbers) && quantity.MayBeNumber(plain)
}

// bounded reports whether something of a kind is compared.
func bounded(by []quantity.Bound, kind quantity.Kind) bool {
	return slices.ContainsFunc(by, func(b quantity.Bound) bool { return b.Kind() == kind })
}

// dated holds a text against the comparisons with days.
func dated(text string, by []quantity.Bound, lets bool) bool {
	return slices.ContainsFunc(by, func(b quantity.Bound) bool { return b.Day(text, lets) })
}

// measured holds the characters of a text and the elements of a list against the
// comparisons of lengths. What is in an argument is measured only where one of its
// parts is enough to match.
func measured(raw string, by []quantity.Bound, lets bool, depth int) bool {
	if !bounded(by, quantity.Lengths) || lets && depth > 0 {
		return false
	}
	n := 0
	switch raw[0] {
	case '"':
		text, ok := unquote(raw)
		if !ok {
			return !lets
		}
		n = utf8.RuneCountInString(text)
	case '[':
		for m := membersOf(raw); ; n++ {
			_, _, after, ok := m.next()
			if !ok {
				break
			}
			m = after
		}
	default:
		return false
	}
	return slices.ContainsFunc(by, func(b quantity.Bound) bool { return b.Length(n) })
}
