package redact

import "strings"

// suspects tells of a short text in a nanosecond a byte whether it may hold a
// secret at all. It never says no of one that does: that is tested against the
// engine itself.
type suspects struct {
	// grams has a bit for each three letters, five bits of each, of which the
	// words that stand before secrets hold two that follow each other. So every
	// second place of a text is enough to look at.
	grams [1 << 15 / 64]uint64
}

// The limits of what a secret without a sign is made of, in bytes.
const (
	// maxSuspect is the longest text that is judged this way.
	maxSuspect = 256
	// minSecret is the shortest text with a secret, but for addresses.
	minSecret = 9
	// minRun is the shortest token that an issuer's prefix begins.
	minRun = 16
	// minDigits is how many digits the shortest number has.
	minDigits = 9
)

// bits of what a byte tells.
const (
	sign   uint8 = 1 << iota // may be a part of an escape or an address
	figure                   // a digit
	space                    // ends a run
)

var tells = func() (t [256]uint8) {
	for b := range t {
		switch {
		case b < ' ' || b >= 0x7f || strings.IndexByte("@%\\&\"'`", byte(b)) >= 0:
			t[b] = sign
		case isDigit(byte(b)):
			t[b] = figure
		case !tilded.has(byte(b)) && !base64ed.has(byte(b)) && b != ':' && b != '$':
			t[b] = space
		}
	}
	return t
}()

func gram(a, b, c byte) uint {
	return uint(a&31)<<10 | uint(b&31)<<5 | uint(c&31)
}

func (s *suspects) put(g uint)      { s.grams[g/64] |= 1 << (g % 64) }
func (s *suspects) has(g uint) bool { return s.grams[g/64]&(1<<(g%64)) != 0 }

// learn takes in a word: two of its grams that follow each other, the rarest.
func (s *suspects) learn(word string) {
	if len(word) == 3 {
		s.put(gram(word[0], word[1], word[2]))
		for b := range byte(32) {
			s.put(gram(b, word[0], word[1]))
		}
		return
	}
	best, at := -1, 0
	for i := 0; i+4 <= len(word); i++ {
		rare := 0
		for _, b := range []byte(word[i : i+4]) {
			rare += strings.IndexByte("etaoinshrdlcumwfgypbvkjxqz -_=", b) + 2
		}
		if rare > best {
			best, at = rare, i
		}
	}
	s.put(gram(word[at], word[at+1], word[at+2]))
	s.put(gram(word[at+1], word[at+2], word[at+3]))
}

// suspect reports whether a text may hold a secret.
func (s *suspects) suspect(text string) bool {
	if len(text) > maxSuspect {
		return true
	}
	if len(text) < minSecret {
		for i := range len(text) {
			if tells[text[i]]&sign != 0 {
				return true
			}
		}
		return false
	}
	var seen uint8
	digits, from := 0, 0
	for i := range len(text) {
		t := tells[text[i]]
		seen |= t
		digits += int(t>>1) & 1
		if t == space {
			if i-from >= minRun {
				return true
			}
			from = i + 1
		}
	}
	if seen&sign != 0 || digits >= minDigits || len(text)-from >= minRun {
		return true
	}
	for i := 0; i+2 < len(text); i += 2 {
		if s.has(gram(text[i], text[i+1], text[i+2])) {
			return true
		}
	}
	return false
}
