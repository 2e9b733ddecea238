package redact

import "strings"

// The limits of a private key whose lines are strings of their own.
const (
	// maxBlockLines is how many strings are looked at for the rest of a key.
	maxBlockLines = 4096
	// minBlockLine is the shortest string that is a line of one: the last line of
	// a key may be short, and other columns stand between its lines.
	minBlockLine = 8
)

// Joined reports whether a secret of a JSON document may be known only by what stands in other
// elements of it. Examples are the lines of a private key, and rows below the names of their
// columns. Such a document is redacted before it is cut into rows.
func Joined(raw []byte) bool {
	text := view(raw)
	return strings.Contains(text, "PRIVATE") && strings.Contains(text, "-----BEGIN") || strings.Contains(text, "[[") || strings.Contains(text, "],")
}

// keyBlock is a private key that was begun in one string and goes on in others,
// as in a list of lines.
type keyBlock struct {
	open  bool
	lines int
}

// holds takes the next string, and reports whether it is a line of the key.
func (b *keyBlock) holds(s string) bool {
	if !b.open {
		b.open, b.lines = beginsKey(s), 0
		return false
	}
	ended := strings.Contains(s, "-----END") || strings.Contains(s, "PRIVATE KEY-----")
	b.lines++
	if b.open = !ended && b.lines <= maxBlockLines; !b.open {
		return ended
	}
	line := strings.TrimSpace(s)
	for i := range len(line) {
		if !base64ed.has(line[i]) {
			return false
		}
	}
	return len(line) >= minBlockLine || strings.HasSuffix(line, "=")
}

// beginsKey reports whether a private key begins in a text that does not end it.
func beginsKey(s string) bool {
	at := strings.LastIndex(s, "-----BEGIN")
	return at >= 0 && strings.Contains(s[at:], "PRIVATE") && !strings.Contains(s[at:], "-----END")
}
