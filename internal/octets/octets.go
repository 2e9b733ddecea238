// Package octets promises to tell of eight bytes of a text at once where the first is
// that somebody looks for, or that there is none: most of a text is passed that way. It
// may name a byte that only looks like one of them, and never passes over one.
package octets

import "math/bits"

// Size is how many bytes are looked at together.
const Size = 8

const ones, highs = 0x0101010101010101, 0x8080808080808080

// Load is the first eight bytes of s as one number, of which the first is the lowest.
func Load(s string) uint64 {
	_ = s[Size-1]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// First is the byte that the lowest bit of what was found stands in.
func First(found uint64) int { return bits.TrailingZeros64(found) / 8 }

// Quoting has its lowest bit in the first of eight bytes that is a quote, a backslash, a
// control character or not ASCII, or is 0: the usual trick of looking for zero bytes.
func Quoting(v uint64) uint64 {
	quote, slash := v^(ones*'"'), v^(ones*'\\')
	return (v | (v - ones*' ') | (quote - ones) | (slash - ones)) & highs
}

// Escaping is Quoting, but for $ % & ' and ` too.
func Escaping(v uint64) uint64 {
	tick, marks := v^(ones*'`'), (v^(ones*'$'))&(ones*0xFC)
	return Quoting(v) | ((tick-ones)|(marks-ones))&highs
}
