package encoded

import (
	"math/bits"
	"unicode/utf8"
)

// Most of a text is passed eight bytes at a time: they are told of at once where the first
// stands that is looked for, or that there is none. One that only looks like it may be
// named, and none is passed over.
const octet = 8

const ones, highs = 0x0101010101010101, 0x8080808080808080

// load is the first eight bytes of s as one number, of which the first is the lowest.
func load(s string) uint64 {
	_ = s[octet-1]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// first is the byte that the lowest bit of what was found stands in.
func first(found uint64) int { return bits.TrailingZeros64(found) / 8 }

// quoting has its lowest bit in the first of eight bytes that is a quote, a backslash, a control
// character or not ASCII, or is 0. It uses the usual trick of looking for zero bytes.
func quoting(v uint64) uint64 {
	quote, slash := v^(ones*'"'), v^(ones*'\\')
	return (v | (v - ones*' ') | (quote - ones) | (slash - ones)) & highs
}

// escaping is quoting, but for $ % & ' and ` too.
func escaping(v uint64) uint64 {
	tick, marks := v^(ones*'`'), (v^(ones*'$'))&(ones*0xFC)
	return quoting(v) | ((tick-ones)|(marks-ones))&highs
}

// Plain is where the ASCII text from i on ends: at a quote, a backslash, a control
// character, a byte that is not ASCII, or with s.
func Plain(s string, i int) int {
	for i+octet <= len(s) {
		if found := quoting(load(s[i:])); found != 0 {
			i += first(found)
			break
		}
		i += octet
	}
	for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= ' ' && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}
