package encoded

// The lengths of what is decoded as base64 or hexadecimal, in bytes of text.
const (
	// minBlob is the shortest run that may hold a name and a value, or a token.
	minBlob = 16
	// MinPlain is the shortest decoded text that is looked at.
	MinPlain = 8
	// MinWrapped is the shortest line of base64 that goes on in the next.
	MinWrapped = 48
	// tries is at how many places of a run its decoding is tried.
	tries = 12
)

// sextets are the values of the letters of both base64 alphabets, 64 for others.
var sextets = func() (t [256]byte) {
	for i := range t {
		t[i] = 64
	}
	for i := range byte(26) {
		t['A'+i], t['a'+i] = i, 26+i
	}
	for i := range byte(10) {
		t['0'+i] = 52 + i
	}
	t['+'], t['-'], t['/'], t['_'] = 62, 62, 63, 63
	return t
}()

// IsSextet reports whether b is a letter of base64.
func IsSextet(b byte) bool { return sextets[b] < 64 }

// NextBlob is the first run of base64's letters from i on that is long enough. It looks at one byte
// in minBlob where there is none. Lines of one block are one run.
func NextBlob(s string, i int) (Span, bool) {
	low := i
	for probe := i + minBlob - 1; probe < len(s); {
		if !IsSextet(s[probe]) {
			low = probe + 1
			probe += minBlob
			continue
		}
		start := probe
		for start > low && IsSextet(s[start-1]) {
			start--
		}
		end := blobEnd(s, probe+1, start)
		if end-start >= minBlob {
			return Span{start, end}, true
		}
		low = end + 1
		probe = end + minBlob
	}
	return Span{}, false
}

// blobEnd is where the run that began at start ends, its wrapped lines included:
// lines of one length and a last one that ends a group of letters.
func blobEnd(s string, i, start int) int {
	width := 0
	for line := start; ; {
		for i < len(s) && IsSextet(s[i]) {
			i++
		}
		if width == 0 {
			width = i - line
		}
		next := nextWrapped(s, i)
		if i-line != width || width < MinWrapped || next < 0 {
			return i
		}
		end := next
		for end < len(s) && end-next <= width && IsSextet(s[end]) {
			end++
		}
		if end-next != width && (Padded(s, end)-next)%4 != 0 {
			return i
		}
		line, i = next, end
	}
}

// nextWrapped is where the line after the end of one at i begins, or -1.
func nextWrapped(s string, i int) int {
	if i < len(s) && s[i] == '\r' {
		i++
	}
	if i >= len(s) || s[i] != '\n' {
		return -1
	}
	for i++; i < len(s) && (s[i] == ' ' || s[i] == '\t'); i++ {
	}
	if i == len(s) || !IsSextet(s[i]) {
		return -1
	}
	return i
}

// DecodeBlob appends what a run says as hexadecimal or base64 to out, up to
// what is no text, and returns where in the run that begins.
func DecodeBlob(out []byte, run string) (plain []byte, start int) {
	if plain = decodeHex(out, run); len(plain) >= MinPlain {
		return plain, 0
	}
	tried := 0
	for start = 0; start < len(run)-minBlob+2 && tried < tries; start++ {
		if start > 3 && alnum[run[start-1]] {
			continue
		}
		tried++
		if !textual(run[start:]) {
			continue
		}
		if plain = decodeBase64(out, run[start:]); len(plain) >= MinPlain {
			return plain, start
		}
	}
	return out, 0
}

// textual reports whether the first bytes that a run says are text.
func textual(run string) bool {
	for i := 0; i+4 <= min(len(run), 12); i += 4 {
		a, b, c, d := sextets[run[i]], sextets[run[i+1]], sextets[run[i+2]], sextets[run[i+3]]
		if a|b|c|d >= 64 || !isASCII(a<<2|b>>4) || !isASCII(b<<4|c>>2) || !isASCII(c<<6|d) {
			return false
		}
	}
	return true
}

func isText(b byte) bool { return b >= ' ' && b != 0x7f || b == '\n' || b == '\t' || b == '\r' }

func isASCII(b byte) bool { return b < 0x80 && isText(b) }

func decodeBase64(out []byte, run string) []byte {
	var bits uint32
	n := 0
	for i := range len(run) {
		v := sextets[run[i]]
		if v == 64 {
			continue // the end of a line
		}
		bits = bits<<6 | uint32(v)
		if n += 6; n < 8 {
			continue
		}
		n -= 8
		b := byte(bits >> n)
		if !isText(b) {
			break
		}
		out = append(out, b)
	}
	return out
}

func decodeHex(out []byte, run string) []byte {
	if len(run) > 2 && run[0] == '0' && lower(run[1]) == 'x' {
		run = run[2:]
	}
	for i := 0; i+1 < len(run) && hexed[run[i]] && hexed[run[i+1]]; i += 2 {
		b := nibble(run[i])<<4 | nibble(run[i+1])
		if !isASCII(b) {
			break
		}
		out = append(out, b)
	}
	return out
}

// Padded is where base64's padding after end ends.
func Padded(s string, end int) int {
	for n := 0; n < 2 && end < len(s) && s[end] == '='; n++ {
		end++
	}
	return end
}
