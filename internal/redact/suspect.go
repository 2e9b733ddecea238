package redact

import "strings"

// suspects tells of a short text in a nanosecond a byte whether it may hold a
// secret at all. It never says no of one that does: that is tested against the
// engine itself.
type suspects struct {
	// grams has a bit for each three letters, of which the words that stand before
	// secrets hold two that follow each other. So every second place of a text is
	// enough to look at.
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

// What a byte tells: in the lowest five bits which letter it is of a gram, and beyond them:
const (
	sign    uint16 = 1 << (5 + iota) // may be a part of an escape or an address
	figure                           // a digit
	space                            // ends a run
	assigns                          // no number goes on behind it

	letters = 1<<5 - 1
)

var tells = func() (t [256]uint16) {
	for i := range t {
		b := byte(i)
		switch {
		case b < ' ' || b >= 0x7f || strings.IndexByte("@%\\&\"'`", b) >= 0:
			t[b] = sign
		case isDigit(b):
			t[b] = figure
		case !tilded.has(b) && !base64ed.has(b) && b != ':' && b != '$':
			t[b] = space
		case b == '=':
			t[b] = assigns
		}
		switch at := strings.IndexByte(" -=", b); {
		case isLetter(b):
			t[b] |= uint16(b) & letters // 1 to 26
		case isDigit(b):
			t[b] |= 27
		case at >= 0:
			t[b] |= 28 + uint16(at)
		}
	}
	return t
}()

// gram is three letters in one number, each as tells has it.
func gram(a, b, c uint16) uint { return uint(a&letters)<<10 | uint(b&letters)<<5 | uint(c&letters) }

func (s *suspects) put(g uint)      { s.grams[g/64] |= 1 << (g % 64) }
func (s *suspects) has(g uint) bool { return s.grams[g/64]&(1<<(g%64)) != 0 }

// learn takes in a word: two of its grams that follow each other, the rarest.
func (s *suspects) learn(word string) {
	of := func(i int) uint16 { return tells[word[i]] }
	if len(word) == 3 {
		s.put(gram(of(0), of(1), of(2)))
		for before := range uint16(letters + 1) {
			s.put(gram(before, of(0), of(1)))
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
	s.put(gram(of(at), of(at+1), of(at+2)))
	s.put(gram(of(at+1), of(at+2), of(at+3)))
}

// suspect reports whether a text may hold a secret.
func (s *suspects) suspect(text string) bool {
	if len(text) > maxSuspect {
		return true
	}
	var seen, before, last uint16
	digits, from := 0, 0
	for i := range len(text) {
		t := tells[text[i]]
		seen |= t
		digits += int(t/figure) & 1
		switch {
		case t < space:
		case digits >= minDigits || t&space != 0 && i-from >= minRun:
			return true
		case t&space != 0:
			from = i + 1
		default:
			digits = 0
		}
		if i&1 == 0 && len(text) >= minSecret && s.has(gram(before, last, t)) {
			return true
		}
		before, last = last, t
	}
	return seen&sign != 0 || digits >= minDigits || len(text)-from >= minRun
}
