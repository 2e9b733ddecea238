package redact

import (
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// scan reads a string and returns what it says.
func (w *walker) scan() (string, bool) {
	if !w.take('"') {
		return "", false
	}
	start, escaped, ascii := w.at, false, true
	at, text := w.at, w.text
	for at+wordSize <= len(text) {
		if ends := ends8(text[at : at+wordSize]); ends != 0 {
			at += bits.TrailingZeros64(ends) / 8
			break
		}
		at += wordSize
	}
	for at < len(text) && text[at] != '"' && text[at] != '\\' && text[at] >= ' ' && text[at] < utf8.RuneSelf {
		at++
	}
	if w.at = at; at < len(text) && text[at] == '"' {
		w.at++
		return text[start:at], true
	}
	for w.at < len(w.text) {
		b := w.text[w.at]
		switch {
		case b == '"':
			s := w.text[start:w.at]
			w.at++
			return w.said(s, escaped, ascii)
		case b == '\\':
			escaped = true
			w.at++
		case b < ' ':
			w.bad = true
			return "", false
		case b >= utf8.RuneSelf:
			ascii = false
		}
		w.at++
	}
	w.bad = true
	return "", false
}

// wordSize is how many bytes are looked at together.
const wordSize = 8

// ends8 has its lowest bit in the first of eight bytes that is a quote, a backslash, a
// control character or not ASCII, or is 0: the usual trick of looking for zero bytes.
func ends8(s string) uint64 {
	_ = s[7]
	v := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash := v^(ones*'"'), v^(ones*'\\')
	return (v | (v - ones*' ') | (quote - ones) | (slash - ones)) & highs
}

func (w *walker) said(s string, escaped, ascii bool) (string, bool) {
	if !ascii && !utf8.ValidString(s) {
		w.bad = true
		return "", false
	}
	if !escaped {
		return s, true
	}
	var plain string
	if err := json.Unmarshal([]byte(w.text[w.at-len(s)-2:w.at]), &plain); err != nil {
		w.bad = true
		return "", false
	}
	return plain, true
}
