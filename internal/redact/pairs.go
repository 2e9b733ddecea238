package redact

// The limits of a dump of bytes: `67:68:70`, `0x67, 0x68`, `103, 104, 112`.
const (
	// minDump is the fewest bytes that are looked at.
	minDump = 10
	// dumpStride is how far apart a text is probed: no dump is shorter.
	dumpStride = 24
	// maxElement is the longest byte with what stands before the next one.
	maxElement = 6
	// dumpTries is at how many places the beginning of a list is looked for.
	dumpTries = 4
)

// nextDump is the first list of bytes from i on, and what it says, appended to
// out. It looks at a few bytes in each stride of a text without one.
func nextDump(out []byte, s string, i int) (plain []byte, at span) {
	low := i
	for probe := i + dumpStride/2; probe < len(s); probe += dumpStride {
		if !inDump(s, probe) {
			continue
		}
		start, end := dumpStart(s, probe, low), probe
		for range dumpTries { // before the first byte may stand a name and a colon
			if plain, end = readDump(out, s, start); len(plain) >= minDump {
				return plain, span{start, end}
			}
			start = nextElement(s, start)
		}
		low = max(probe, end)
		probe = max(probe, end-dumpStride)
	}
	return out, span{len(s), len(s)}
}

// inDump reports whether the bytes around i are digits with something between.
func inDump(s string, i int) bool {
	digits, others := 0, 0
	for _, b := range []byte(s[i:min(len(s), i+2*maxElement)]) {
		switch {
		case hexed.has(b):
			digits++
		case b == ' ' || b == ',' || b == ':' || b == '-' || lower(b) == 'x':
			others++
		default:
			return false
		}
	}
	return digits >= 4 && others >= 3
}

// dumpStart goes back to the first byte of the list that i is in.
func dumpStart(s string, i, low int) int {
	for i > low && (hexed.has(s[i-1]) || s[i-1] == ' ' || s[i-1] == ',' || s[i-1] == ':' || s[i-1] == '-' || lower(s[i-1]) == 'x') {
		i--
	}
	for i < len(s) && (s[i] == ' ' || s[i] == ',' || s[i] == ':' || s[i] == '-') {
		i++
	}
	return i
}

// nextElement is where what follows the digits and signs at i begins.
func nextElement(s string, i int) int {
	for i < len(s) && (hexed.has(s[i]) || lower(s[i]) == 'x') {
		i++
	}
	for i < len(s) && (s[i] == ' ' || s[i] == ',' || s[i] == ':' || s[i] == '-') {
		i++
	}
	return i
}

// readDump reads bytes in hexadecimal, or in decimal where those say no text.
func readDump(out []byte, s string, from int) (plain []byte, end int) {
	plain, end = readElements(out, s, from, 16)
	if len(plain) >= minDump {
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
		for i = next; i < len(s) && i-next < 2 && (s[i] == ' ' || s[i] == ',' || s[i] == ':' || s[i] == '-'); {
			i++
		}
		if i == next {
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
