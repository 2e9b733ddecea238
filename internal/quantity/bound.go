package quantity

import (
	"strings"
	"unicode"
)

// Kind is what a bound compares.
type Kind uint8

// The kinds.
const (
	Numbers Kind = iota
	Days
	Lengths
)

// String names what a kind compares.
func (k Kind) String() string {
	switch k {
	case Days:
		return "a date"
	case Lengths:
		return "a length"
	case Numbers:
	}
	return "a number"
}

// lengthWord is what a bound of lengths begins with.
const lengthWord = "length"

// maxLimits is how many comparisons one bound holds: more would say the same.
const maxLimits = 4

// Bound is one or several comparisons that must all hold: ">100", ">= 1 <= 31",
// "< 2027-01-01", "length <= 500". The zero value holds for everything.
type Bound struct {
	text   string
	kind   Kind
	limits []limit
}

// limit is one comparison.
type limit struct {
	less    bool
	orEqual bool
	than    Number
	day     int
}

// Compares reports whether a text begins as a bound does.
func Compares(s string) bool {
	rest, length := strings.CutPrefix(s, lengthWord)
	if length {
		s = strings.TrimLeft(rest, " ")
	}
	return strings.HasPrefix(s, "<") || strings.HasPrefix(s, ">")
}

// ParseBound reads a bound; it is not ok where something else than comparisons of one
// kind stands in the text.
func ParseBound(s string) (b Bound, ok bool) {
	b.text = s
	rest, length := strings.CutPrefix(s, lengthWord)
	if length {
		b.kind, s = Lengths, rest
	}
	for rest := strings.Trim(s, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var one limit
		var kind Kind
		if one, kind, rest, ok = parseLimit(rest); !ok || len(b.limits) == maxLimits {
			return Bound{}, false
		}
		switch {
		case b.kind == Lengths && kind != Numbers, b.kind != Lengths && len(b.limits) > 0 && kind != b.kind:
			return Bound{}, false
		case b.kind != Lengths:
			b.kind = kind
		}
		b.limits = append(b.limits, one)
	}
	return b, len(b.limits) > 0
}

func parseLimit(s string) (one limit, kind Kind, rest string, ok bool) {
	if s[0] != '<' && s[0] != '>' {
		return one, kind, s, false
	}
	one.less, s = s[0] == '<', s[1:]
	s, one.orEqual = strings.CutPrefix(s, "=")
	s = strings.TrimLeft(s, " ")
	end := strings.IndexAny(s, " <>")
	if end < 0 {
		end = len(s)
	}
	if one.day, ok = parseDay(s[:end]); ok {
		return one, Days, s[end:], true
	}
	one.than, ok = ParseNumber(s[:end])
	return one, Numbers, s[end:], ok
}

// Text is the bound as it was written.
func (b *Bound) Text() string { return b.text }

// Kind is what the bound compares.
func (b *Bound) Kind() Kind { return b.kind }

// Never reports whether nothing can hold: what the bound wants to be over lies beyond
// what it wants to be under.
func (b *Bound) Never() bool {
	for _, low := range b.limits {
		for _, high := range b.limits {
			if low.less || !high.less {
				continue
			}
			order := low.than.exact.compare(high.than.exact)
			if b.kind == Days {
				order = low.day - high.day
			}
			if order > 0 || order == 0 && (!low.orEqual || !high.orEqual) {
				return true
			}
		}
		if b.kind == Lengths && low.less && low.than.exact.sign() < boolSign(!low.orEqual) {
			return true // nothing is shorter than nothing
		}
	}
	return false
}

// boolSign is 1 for what has to be more than zero.
func boolSign(more bool) int {
	if more {
		return 1
	}
	return 0
}

// Number holds a number against the bound: in all of its readings, or in any.
func (b *Bound) Number(n *Number, all bool) bool {
	if b.kind != Numbers {
		return b.kind == Days && !all // some write a day as a number of seconds
	}
	for i := range b.limits {
		l := &b.limits[i]
		if !met(l.of(n.exact.compare(l.than.exact)), l.of(sign(n.double, l.than.double)), all) {
			return false
		}
	}
	return true
}

// Length holds a count of characters or elements against the bound.
func (b *Bound) Length(n int) bool {
	if b.kind != Lengths {
		return false
	}
	for i := range b.limits {
		if l := &b.limits[i]; !l.of(sign(float64(n), l.than.double)) {
			return false
		}
	}
	return true
}

// Day holds a text against the bound: as a day in all of its readings, or in any. Where
// one reading is enough, a text that is no plain date may be any day.
func (b *Bound) Day(text string, all bool) bool {
	if b.kind != Days {
		return false
	}
	written, greenwich, ok := days(text)
	if !ok {
		return !all && strings.TrimSpace(text) != ""
	}
	for i := range b.limits {
		l := &b.limits[i]
		if !met(l.of(written-l.day), l.of(greenwich-l.day), all) {
			return false
		}
	}
	return true
}

// met joins what two readers say.
func met(one, other, all bool) bool {
	if all {
		return one && other
	}
	return one || other
}

func (l *limit) of(order int) bool {
	if order == 0 {
		return l.orEqual
	}
	return l.less == (order < 0)
}

func sign(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// MayBeNumber reports whether somebody may read a number in a text: 1,000.00, 0x64,
// 5 EUR, Infinity.
func MayBeNumber(text string) bool {
	if strings.ContainsFunc(text, unicode.IsNumber) { // of any script: Python reads those too
		return true
	}
	for _, word := range [...]string{"inf", "infinity", "nan"} {
		if strings.EqualFold(strings.TrimLeft(text, "+-"), word) {
			return true
		}
	}
	return false
}
