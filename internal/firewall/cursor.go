package firewall

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// MaxNesting is how deep a result may be nested, in containers: what is deeper
// is refused, and does not exhaust the stack.
const MaxNesting = 1000

// ErrNotJSON is returned for a result that is not one JSON value in UTF-8, or
// is nested deeper than MaxNesting.
var ErrNotJSON = errors.New("result is not JSON")

// span is where a value stands in a document, from start up to end.
type span struct{ start, end uint32 }

func (s span) of(data []byte) []byte { return data[s.start:s.end] }

// cursor moves over a document and checks it on the way, once. It notes how
// deep and how wide what it saw was.
type cursor struct {
	data []byte
	at   int
	bad  bool
	// depth, fields and widest are the most containers inside of each other, members
	// of an object and elements of an array that were seen.
	depth, fields, widest int
	// spaced is set where there was white space, longest how many bytes the
	// longest string or number takes.
	spaced  bool
	longest int
}

func (c *cursor) err() error {
	return fmt.Errorf("%w: at byte %d of %d", ErrNotJSON, c.at, len(c.data))
}

// peek is the next byte that is not white space, or 0 at the end.
func (c *cursor) peek() byte {
	if c.at < len(c.data) && c.data[c.at] > ' ' {
		return c.data[c.at]
	}
	return c.space()
}

// space moves over white space, and returns what comes then.
func (c *cursor) space() byte {
	for c.at < len(c.data) {
		switch b := c.data[c.at]; b {
		case ' ', '\t', '\r', '\n':
			c.at++
			c.spaced = true
		default:
			return b
		}
	}
	return 0
}

func (c *cursor) take(b byte) bool {
	if c.peek() != b {
		c.bad = true
		return false
	}
	c.at++
	return true
}

// more reports whether an element or member follows. first is set before the
// first one; end is the bracket that closes the container, which is taken.
func (c *cursor) more(first bool, end byte) bool {
	switch b := c.peek(); {
	case c.bad:
		return false
	case b == end:
		c.at++
		return false
	case first:
		return true
	case b == ',':
		c.at++
		return true
	}
	c.bad = true
	return false
}

// skip moves over a value that stands inside of depth containers.
func (c *cursor) skip(depth int) {
	switch b := c.peek(); {
	case b == '"':
		c.text()
	case b == '{':
		c.skipObject(depth + 1)
	case b == '[':
		c.skipArray(depth + 1)
	case b == '-' || isDigit(b):
		c.number()
	default:
		c.literal(b)
	}
}

// enter notes that a container is entered as the depth-th.
func (c *cursor) enter(depth int) bool {
	c.at++
	c.depth = max(c.depth, depth)
	c.bad = c.bad || depth > MaxNesting
	return !c.bad
}

func (c *cursor) skipObject(depth int) {
	if !c.enter(depth) {
		return
	}
	n := 0
	for c.more(n == 0, '}') {
		n++
		c.key()
		c.skip(depth)
	}
	c.fields = max(c.fields, n)
}

func (c *cursor) skipArray(depth int) {
	if !c.enter(depth) {
		return
	}
	n := 0
	for ; c.more(n == 0, ']'); n++ {
		c.skip(depth)
	}
	c.widest = max(c.widest, n)
}

// key moves over a key and its colon, and returns the key in its quotes.
func (c *cursor) key() []byte {
	if c.peek() != '"' {
		c.bad = true
		return nil
	}
	start := c.at
	c.text()
	end := c.at
	c.take(':')
	return c.data[start:end]
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has a bit set in each byte of x up to the first that ends the plain
// part of a string: a quote, a backslash or a control character.
func special(x uint64) uint64 {
	quote, slash := x^(ones*'"'), x^(ones*'\\')
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & highs
}

// text moves over a string, eight bytes at a time.
func (c *cursor) text() {
	c.at++
	start, high := c.at, uint64(0)
	for c.at+8 <= len(c.data) {
		x := binary.LittleEndian.Uint64(c.data[c.at:])
		found := special(x)
		if found == 0 {
			high |= x
			c.at += 8
			continue
		}
		n := bits.TrailingZeros64(found) &^ 7
		high |= x & (1<<n - 1)
		c.at += n >> 3
		if c.data[c.at] == '"' {
			c.closed(start, high&highs != 0)
			return
		}
		if !c.escape() {
			return
		}
	}
	for c.at < len(c.data) {
		switch b := c.data[c.at]; {
		case b == '"':
			c.closed(start, high&highs != 0)
			return
		case b == '\\' || b < ' ':
			if !c.escape() {
				return
			}
		default:
			high |= uint64(b)
			c.at++
		}
	}
	c.bad = true
}

// closed ends a string at its quote.
func (c *cursor) closed(start int, high bool) {
	c.bad = c.bad || high && !utf8.Valid(c.data[start:c.at])
	c.longest = max(c.longest, c.at-start)
	c.at++
}

// escape moves over an escape; a control character is none.
func (c *cursor) escape() bool {
	rest := c.data[c.at:]
	width := 2
	switch {
	case len(rest) < 2 || rest[0] != '\\':
		c.bad = true
	case rest[1] == 'u':
		width = 6
		c.bad = c.bad || len(rest) < 6 || !isHex(rest[2]) || !isHex(rest[3]) || !isHex(rest[4]) || !isHex(rest[5])
	case rest[1] == '"' || rest[1] == '\\' || rest[1] == '/' || rest[1] == 'b' || rest[1] == 'f' || rest[1] == 'n' ||
		rest[1] == 'r' || rest[1] == 't':
	default:
		c.bad = true
	}
	c.at += width
	if c.bad {
		c.at = min(c.at, len(c.data))
	}
	return !c.bad
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isHex(b byte) bool { return isDigit(b) || 'a' <= b|' ' && b|' ' <= 'f' }

// number moves over a number, and returns how it is spelled.
func (c *cursor) number() []byte {
	data, start, at := c.data, c.at, c.at
	if data[at] == '-' {
		at++
	}
	whole := at
	for at < len(data) && isDigit(data[at]) {
		at++
	}
	good := at == whole+1 || at > whole && data[whole] != '0'
	if at < len(data) && data[at] == '.' {
		at++
		fraction := at
		for at < len(data) && isDigit(data[at]) {
			at++
		}
		good = good && at > fraction
	}
	if at < len(data) && data[at]|' ' == 'e' {
		at++
		if at < len(data) && (data[at] == '+' || data[at] == '-') {
			at++
		}
		exponent := at
		for at < len(data) && isDigit(data[at]) {
			at++
		}
		good = good && at > exponent
	}
	c.at, c.bad = at, c.bad || !good
	c.longest = max(c.longest, at-start)
	return data[start:at]
}

func (c *cursor) literal(b byte) {
	rest := c.data[c.at:]
	switch {
	case b == 't' && len(rest) >= 4 && string(rest[:4]) == "true", b == 'n' && len(rest) >= 4 && string(rest[:4]) == "null":
		c.at += 4
	case b == 'f' && len(rest) >= 5 && string(rest[:5]) == "false":
		c.at += 5
	default:
		c.bad = true
	}
}

// end reports whether the document is over, with nothing wrong in it.
func (c *cursor) end() bool { return c.peek() == 0 && c.at == len(c.data) && !c.bad }

// plain is what a JSON string that was checked says.
func plain(quoted []byte) string {
	for _, b := range quoted {
		if b == '\\' {
			var s string
			_ = json.Unmarshal(quoted, &s) // it was checked
			return s
		}
	}
	return string(quoted[1 : len(quoted)-1])
}

// says reports whether a JSON string that was checked says s.
func says(quoted []byte, s string) bool {
	if len(quoted) == len(s)+2 && string(quoted[1:len(quoted)-1]) == s {
		for i := range len(s) {
			if s[i] == '\\' {
				return plain(quoted) == s
			}
		}
		return true
	}
	for _, b := range quoted {
		if b == '\\' {
			return plain(quoted) == s
		}
	}
	return false
}
