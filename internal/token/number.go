package token

import (
	"bytes"
	"fmt"
	"strconv"
)

const (
	// maxPlain is how many digits a whole number has before it is written
	// with an exponent.
	maxPlain = 20
	// maxExponentDigits bounds exponents, so that they can be added up.
	maxExponentDigits = 9
)

// number reads a number and writes what it is worth: its digits without zeros
// around them, and a power of ten. It never rounds.
func (r *jsonReader) number(b []byte) ([]byte, error) {
	negative := r.peek() == '-'
	if negative {
		r.pos++
	}
	whole := r.digits()
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return nil, errJSON
	}
	var fraction []byte
	if r.peek() == '.' {
		r.pos++
		if fraction = r.digits(); len(fraction) == 0 {
			return nil, errJSON
		}
	}
	exponent, err := r.exponent()
	if err != nil {
		return nil, err
	}
	digits := append(bytes.Clone(whole), fraction...)
	exponent -= len(fraction)
	if digits = bytes.TrimLeft(digits, "0"); len(digits) == 0 {
		return append(b, '0'), nil
	}
	trimmed := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if negative {
		b = append(b, '-')
	}
	return appendNumber(b, trimmed, exponent), nil
}

func appendNumber(b, digits []byte, exponent int) []byte {
	b = append(b, digits...)
	switch {
	case exponent >= 0 && len(digits)+exponent <= maxPlain:
		return append(b, bytes.Repeat([]byte("0"), exponent)...)
	default:
		return strconv.AppendInt(append(b, 'e'), int64(exponent), 10)
	}
}

func (r *jsonReader) digits() []byte {
	start := r.pos
	for c := r.peek(); '0' <= c && c <= '9'; c = r.peek() {
		r.pos++
	}
	return r.src[start:r.pos]
}

func (r *jsonReader) exponent() (int, error) {
	if c := r.peek(); c != 'e' && c != 'E' {
		return 0, nil
	}
	r.pos++
	sign := 1
	switch r.peek() {
	case '-':
		sign = -1
		r.pos++
	case '+':
		r.pos++
	}
	digits := r.digits()
	if len(digits) == 0 {
		return 0, errJSON
	}
	if digits = bytes.TrimLeft(digits, "0"); len(digits) > maxExponentDigits {
		return 0, fmt.Errorf("%w: an exponent has more than %d digits", errJSON, maxExponentDigits)
	}
	exponent, _ := strconv.Atoi("0" + string(digits)) // digits only, and few
	return sign * exponent, nil
}
