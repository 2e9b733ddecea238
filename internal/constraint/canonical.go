package constraint

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/nacre-dev/nacre/internal/wire"
)

// maxPlain is how many digits a number has before it is written with an exponent.
const maxPlain = 20

var errNumber = errors.New("a number has too many digits or too large an exponent")

// Canonical returns the one form of a JSON value. It is that of wire.Canonical, with numbers by
// what they are worth, so that 1, 1.0 and 1e0 are one value and 1 and true are two. It never
// rounds: what lies outside of the limits of package wire is an error. Canonical bytes are their
// own canonical form.
func Canonical(raw []byte) (json.RawMessage, error) {
	form, err := wire.Canonical(raw)
	if err != nil {
		return nil, err
	}
	var out []byte
	copied := 0
	for at := 0; at < len(form); {
		switch b := form[at]; {
		case b == '"':
			at += textLength(form[at:])
		case b == '-' || isDigit(b):
			end := at + numberLength(form[at:])
			var ok bool
			if out, ok = appendNumber(append(out, form[copied:at]...), form[at:end]); !ok {
				return nil, errNumber
			}
			copied, at = end, end
		default:
			at++
		}
	}
	if copied == 0 { // no number
		return form, nil
	}
	return append(out, form[copied:]...), nil
}

// Equal reports whether two values are one JSON value. What has no canonical
// form equals only what is spelled alike.
func Equal(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := Canonical(a)
	if err != nil {
		return false
	}
	y, err := Canonical(b)
	return err == nil && bytes.Equal(x, y)
}

// textLength is that of the string that a canonical document goes on with.
func textLength(form []byte) int {
	at := 1
	for ; form[at] != '"'; at++ {
		if form[at] == '\\' {
			at++
		}
	}
	return at + 1
}

func numberLength(form []byte) int {
	n := bytes.IndexFunc(form, func(r rune) bool {
		return (r < '0' || r > '9') && r != '-' && r != '+' && r != '.' && r != 'e' && r != 'E'
	})
	if n < 0 {
		return len(form)
	}
	return n
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// appendNumber writes a number that was checked without any zero that it does not need. It is
// written as people write it, or, where that is long, as its digits and a power of ten. It is not
// ok where package wire would not read that again.
func appendNumber(out, spelled []byte) (form []byte, ok bool) {
	mantissa, exponent := spelled, 0
	if e := bytes.IndexAny(spelled, "eE"); e >= 0 {
		mantissa = spelled[:e]
		exponent, _ = strconv.Atoi(string(spelled[e+1:])) // checked: digits, and few
	}
	whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(mantissa, []byte("-")), []byte("."))
	digits := bytes.TrimLeft(slices.Concat(whole, fraction), "0")
	short := bytes.TrimRight(digits, "0")
	if len(short) == 0 {
		return append(out, '0'), true
	}
	exponent += len(digits) - len(short) - len(fraction)
	start := len(out)
	if mantissa[0] == '-' {
		out = append(out, '-')
	}
	point := len(short) + exponent // digits before it
	switch {
	case max(point, len(short), len(short)-point) > maxPlain:
		out = strconv.AppendInt(append(append(out, short...), 'e'), int64(exponent), 10)
	case point <= 0:
		out = append(appendZeros(append(out, "0."...), -point), short...)
	case exponent < 0:
		out = append(append(append(out, short[:point]...), '.'), short[point:]...)
	default:
		out = appendZeros(append(out, short...), exponent)
	}
	return out, len(out)-start <= wire.MaxNumber && max(exponent, -exponent) <= wire.MaxExponent
}

func appendZeros(out []byte, n int) []byte { return append(out, bytes.Repeat([]byte("0"), n)...) }
