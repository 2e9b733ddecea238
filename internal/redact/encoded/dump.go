package encoded

// The limits of a dump of bytes: `67:68:70`, `0x67, 0x68`, `103, 104, 112`.
const (
	// MinDump is the fewest bytes that are looked at.
	MinDump = 10
	// dumpStride is how far apart a text is probed: no dump is shorter.
	dumpStride = 24
	// maxElement is the longest byte with what stands before the next one.
	maxElement = 6
	// dumpTries is at how many places the beginning of a list is looked for.
	dumpTries = 4
)

// NextDump is the first list of bytes from i on, and what it says, appended to
// out. It looks at a few bytes in each stride of a text without one.
func NextDump(out []byte, s string, i int) (plain []byte, at Span) {
	low := i
	for probe := i + dumpStride/2; probe < len(s); probe += dumpStride {
		if !dumped[s[probe]] || !inDump(s, probe) {
			continue
		}
		start, end := dumpStart(s, probe, low), probe
		for range dumpTries { // before the first byte may stand a name and a colon
			if plain, end = readDump(out, s, start); len(plain) >= MinDump {
				return plain, Span{start, end}
			}
			start = nextElement(s, start)
		}
		low = max(probe, end)
		probe = max(probe, end-dumpStride)
	}
	return out, Span{len(s), len(s)}
}

// inDump reports whether the bytes around i are digits with something between.
func inDump(s string, i int) bool {
	digits, near := 0, s[i:min(len(s), i+2*maxElement)]
	for _, b := range []byte(near) {
		if !dumped[b] {
			return false
		}
		if hexed[b] {
			digits++
		}
	}
	return digits >= 4 && len(near)-digits >= 3
}

// dumpStart goes back to the first byte of the list that i is in.
func dumpStart(s string, i, low int) int {
	for i > low && dumped[s[i-1]] {
		i--
	}
	return between(s, i, len(s))
}

// nextElement is where what follows the digits and signs at i begins.
func nextElement(s string, i int) int {
	for i < len(s) && (hexed[s[i]] || lower(s[i]) == 'x') {
		i++
	}
	return between(s, i, len(s))
}

// between is where what may stand between two bytes ends, from i up to limit.
func between(s string, i, limit int) int {
	for i < min(limit, len(s)) && (s[i] == ' ' || s[i] == ',' || s[i] == ':' || s[i] == '-') {
		i++
	}
	return i
}

// readDump reads bytes in hexadecimal, or in decimal where those say no text.
func readDump(out []byte, s string, from int) (plain []byte, end int) {
	plain, end = readElements(out, s, from, 16)
	if len(plain) >= MinDump {
		return plain, end
	}
	return readElements(out, s, from, 10)
}

func readElements(out []byte, s string, i, base int) (plain []byte, end int) {
	plain, end = out, i
	for i < len(s) {
		b, next := element(s, i, base)
		if next == i || !isASCII(b) {
			break
		}
		plain, end = append(plain, b), next
		if i = between(s, next, next+2); i == next {
			break
		}
	}
	return plain, end
}

// element is the byte that a number at i says, and where it ends: i for none.
func element(s string, i, base int) (byte, int) {
	if base == 16 {
		j := i
		if j+1 < len(s) && s[j] == '0' && lower(s[j+1]) == 'x' {
			j += 2
		}
		r, ok := hexRune(s, j, 2)
		if !ok {
			return 0, i
		}
		return byte(r), j + 2
	}
	n, j := 0, i
	for ; j < len(s) && j-i < 3 && isDigit(s[j]); j++ {
		n = n*10 + int(s[j]-'0')
	}
	if n < 9 || n > 0x7e || j == i {
		return 0, i
	}
	return byte(n), j
}
