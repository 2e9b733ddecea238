package provenance

import "bytes"

// maxHost is the longest host, in bytes (RFC 1035).
const maxHost = 253

// apart puts a blank where a sentence begins right after a host, as in "see
// www.our-shop.com.They want it". Only texts are read so: of a value, all is one.
func apart(text []byte) []byte {
	var out []byte
	copied := 0
	for at := 0; ; {
		dot := bytes.IndexByte(text[at:], '.')
		if dot < 0 {
			break
		}
		at += dot + 1
		if beginsSentence(text, at) && endsHost(text, at-1) {
			out = append(append(out, text[copied:at]...), ' ')
			copied = at
		}
	}
	if out == nil {
		return text
	}
	return append(out, text[copied:]...)
}

// beginsSentence reports whether a word with a capital, and no more of them,
// stands at i.
func beginsSentence(text []byte, i int) bool {
	if i+1 >= len(text) || text[i] < 'A' || text[i] > 'Z' {
		return false
	}
	end := i + 1
	for end < len(text) && 'a' <= text[end] && text[end] <= 'z' {
		end++
	}
	if end == len(text) {
		return true
	}
	class, _ := classAt(text, end)
	return text[end] <= ' ' || class == other && text[end] < 0x80 && (text[end] < 'A' || text[end] > 'Z')
}

// endsHost reports whether a host in small letters, with a dot in it, ends
// before the dot at i.
func endsHost(text []byte, i int) bool {
	start := i
	for start > 0 && i-start < maxHost && isHostByte(text[start-1]) {
		start--
	}
	if start > 0 && 'A' <= text[start-1] && text[start-1] <= 'Z' {
		return false
	}
	host := text[start:i]
	last := bytes.LastIndexByte(host, '.')
	return last > 0 && len(host)-last > 2 && !isDigit(host[last+1])
}

func isHostByte(b byte) bool {
	return 'a' <= b && b <= 'z' || isDigit(b) || b == '-' || b == '.'
}
