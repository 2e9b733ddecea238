// Package quantity promises that numbers, dates and lengths are compared as every reader of them
// would (K-32). A number is compared to the last digit and as the nearest double, a date as the day
// that is written and as that of Greenwich. A length is one in characters or elements. Where
// readers differ, the caller says whether all of them must agree or one is enough. It holds no
// clock, and its work is linear in what it reads.
package quantity

import (
	"math"
	"strconv"
	"strings"
)

// MaxNumber is the longest text that is read as a number, in bytes.
const MaxNumber = 4096

// Number is a number as those read it who follow it: to the last digit, and as
// the nearest double.
type Number struct {
	exact  decimal
	double float64
}

// decimal is 0.digits times ten to the power of point, digits without zeros at
// either end; of zero there are none.
type decimal struct {
	negative bool
	digits   string
	point    int
}

// maxPower keeps what is counted in a decimal's exponent small.
const maxPower = 1 << 30

// ParseNumber reads a number as JSON spells it, with a sign or a bare point too.
func ParseNumber(s string) (Number, bool) {
	exact, ok := readDecimal(s)
	if !ok {
		return Number{}, false
	}
	double, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(double, 0) {
		return Number{}, false
	}
	return Number{exact, double}, true
}

func readDecimal(s string) (d decimal, ok bool) {
	if s == "" || len(s) > MaxNumber {
		return d, false
	}
	if s[0] == '-' || s[0] == '+' {
		d.negative, s = s[0] == '-', s[1:]
	}
	power := 0
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		if power, ok = readPower(s[e+1:]); !ok {
			return d, false
		}
		s = s[:e]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if whole+fraction == "" || strings.Trim(whole, "0123456789") != "" || strings.Trim(fraction, "0123456789") != "" {
		return d, false
	}
	significant := strings.TrimLeft(whole+fraction, "0")
	d.point = len(significant) - len(fraction) + power
	if d.digits = strings.TrimRight(significant, "0"); d.digits == "" {
		return decimal{}, true // there is one zero
	}
	return d, true
}

// readPower reads an exponent; one that is larger than any reader's is as large.
func readPower(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil && (s == "" || strings.Trim(strings.TrimLeft(s, "+-"), "0123456789") != "" || len(strings.TrimLeft(s, "+-")) < 18) {
		return 0, false
	}
	return max(-maxPower, min(maxPower, n)), true
}

// compare is negative where d is less than e, and positive where it is more.
func (d decimal) compare(e decimal) int {
	if d.sign() != e.sign() {
		return d.sign() - e.sign()
	}
	if d.point != e.point {
		return d.sign() * (d.point - e.point)
	}
	return d.sign() * strings.Compare(d.digits, e.digits)
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// Same reports whether two numbers are one: to the last digit where all readings
// must agree, else in any reading.
func (n *Number) Same(m *Number, all bool) bool {
	exact := n.exact.compare(m.exact) == 0
	return exact || !all && n.double == m.double
}

// Exact reports whether every double keeps all digits of the number.
func (n *Number) Exact() bool { return len(n.exact.digits) <= exactDigits }

// exactDigits is how many digits of a number every double keeps.
const exactDigits = 15
