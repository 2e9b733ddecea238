package redact

// class is a set of bytes that a token is made of.
type class uint8

const (
	alnum    class = iota // letters and digits
	word                  // alnum _
	dashed                // alnum _ -
	dotted                // alnum _ - .
	base64ed              // alnum + / = _ - . ~
	hexed                 // 0-9 a-f A-F
	value                 // what an unquoted value may hold
	tilded                // alnum _ - . ~
	digit                 // 0-9
	solid                 // all but white space
	crypted               // what a hash of crypt(3) is made of: alnum . / + = $ , -
	figured               // what numbers of persons are written with: digits, capitals, and what stands between groups
	around                // what stands around the text of a cell
	classCount
)

// sets has bit c set for each byte of class c.
var sets = func() (t [256]uint16) {
	put := func(c class, bytes string) {
		for i := range len(bytes) {
			t[bytes[i]] |= 1 << c
		}
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	const digits = "0123456789"
	for _, c := range []class{alnum, word, dashed, dotted, base64ed, value, tilded, crypted} {
		put(c, letters+digits)
	}
	put(word, "_")
	put(dashed, "_-")
	put(dotted, "_-.")
	put(base64ed, "+/=_-.~")
	put(tilded, "_-.~")
	put(crypted, "./+=$,-_")
	put(digit, digits)
	put(figured, digits+letters[26:]+" -.)")
	put(around, " \t\"'`*")
	put(hexed, digits+"abcdefABCDEF")
	put(value, "_-.+/=~!@#$%^*?:()[{")
	for b := 0x80; b < 0x100; b++ {
		t[b] |= 1 << value
	}
	for b := '!'; b < 0x100; b++ {
		t[b] |= 1 << solid
	}
	return t
}()

func (c class) has(b byte) bool { return sets[b]&(1<<c) != 0 }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isUpper(b byte) bool { return b >= 'A' && b <= 'Z' }

func isLetter(b byte) bool { return isUpper(b) || b >= 'a' && b <= 'z' }

// run is where the run of c that starts at from ends. It is remembered, so that
// all questions about one run together cost its length once.
func (r *reading) run(c class, from int) int {
	known := &r.runs[c]
	if from >= known.start && from < known.end {
		return known.end
	}
	end := from
	for end < len(r.text) && c.has(r.text[end]) {
		end++
	}
	*known = span{from, end}
	return end
}

// starts reports whether a token may begin at i: nothing that could belong to
// it stands before, unless that is the end of an escape: \n, \u0022, %22.
func (r *reading) starts(i int) bool {
	return i == 0 || !alnum.has(r.text[i-1]) || r.byteAt(i-2) == '\\' ||
		r.byteAt(i-3) == '%' || r.byteAt(i-6) == '\\' && r.byteAt(i-5) == 'u' || r.byteAt(i-4) == '\\' && r.byteAt(i-3) == 'x'
}

func (r *reading) byteAt(i int) byte {
	if i < 0 || i >= len(r.text) {
		return 0
	}
	return r.text[i]
}

// mixed tells which kinds of bytes the first bytes of s hold.
type mixed struct {
	digit, lower, upper, other bool
	// calls and braces are brackets of code: ( and [, and {.
	calls, braces bool
}

// sampleLimit is how much of a value is looked at to judge it.
const sampleLimit = 128

func mixOf(s string) (m mixed) {
	var all byte
	for i := range min(len(s), sampleLimit) {
		all |= kinds[s[i]]
	}
	return mixed{all&aDigit != 0, all&aLower != 0, all&anUpper != 0, all&another != 0, all&aCall != 0, all&aBrace != 0}
}

const (
	aDigit byte = 1 << iota
	aLower
	anUpper
	another
	aCall
	aBrace
)

// kinds has one bit set for each byte, and another one for a bracket of code.
var kinds = func() (t [256]byte) {
	for b := range len(t) {
		switch c := byte(b); {
		case isDigit(c):
			t[b] = aDigit
		case isUpper(c):
			t[b] = anUpper
		case isLetter(c):
			t[b] = aLower
		case c == '(' || c == '[':
			t[b] = another | aCall
		case c == '{':
			t[b] = another | aBrace
		default:
			t[b] = another
		}
	}
	return t
}()

func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(s[i]) != prefix[i] {
			return false
		}
	}
	return true
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b - 'A' + 'a'
	}
	return b
}
