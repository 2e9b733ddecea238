package provenance

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalise returns text in the spelling that it is compared in: lower case,
// NFKC, white space and control characters as one blank, without characters of
// no width. What is not UTF-8 becomes U+FFFD.
func normalise(text []byte) []byte {
	out := make([]byte, 0, len(text))
	// source and target are where the word that is being read begins.
	for i, source, target := 0, 0, 0; i < len(text); {
		c := text[i]
		switch {
		case c >= utf8.RuneSelf:
			// A mark may belong to the letter before it: the word is read anew.
			end := wordEnd(text, i)
			out = appendForeign(out[:target], text[source:end])
			i = end
			continue
		case c <= ' ' || c == 0x7F:
			out = appendBlank(out)
			source, target = i+1, len(out)
		case 'A' <= c && c <= 'Z':
			out = append(out, c+'a'-'A')
		default:
			out = append(out, c)
		}
		i++
	}
	if n := len(out); n > 0 && out[n-1] == ' ' {
		out = out[:n-1]
	}
	return out
}

func wordEnd(text []byte, i int) int {
	for i < len(text) && text[i] > ' ' && text[i] != 0x7F {
		i++
	}
	return i
}

func appendBlank(out []byte) []byte {
	if n := len(out); n == 0 || out[n-1] == ' ' {
		return out
	}
	return append(out, ' ')
}

// appendForeign appends a word that is not all ASCII.
func appendForeign(out, word []byte) []byte {
	kept := make([]byte, 0, len(word))
	for i := 0; i < len(word); {
		r, n := utf8.DecodeRune(word[i:])
		i += n
		if !invisible(r) {
			kept = utf8.AppendRune(kept, r)
		}
	}
	plain := norm.NFKC.Bytes(kept)
	for i := 0; i < len(plain); {
		r, n := utf8.DecodeRune(plain[i:])
		i += n
		switch {
		case r == 'İ':
			// ToLower would drop its dot, and make a foreign name an ASCII one.
			out = append(out, "i̇"...)
		case unicode.IsSpace(r) || unicode.IsControl(r):
			out = appendBlank(out)
		case invisible(r):
		default:
			out = utf8.AppendRune(out, unicode.ToLower(r))
		}
	}
	return out
}

// invisible reports whether a rune takes no room: format characters, variation
// selectors, fillers.
func invisible(r rune) bool {
	if r < utf8.RuneSelf {
		return false
	}
	switch {
	case r == 0x034F, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x3164, r == 0xFFA0,
		0x180B <= r && r <= 0x180F, 0xFE00 <= r && r <= 0xFE0F, 0xE0000 <= r && r <= 0xE0FFF:
		return true
	}
	return unicode.Is(unicode.Cf, r)
}
