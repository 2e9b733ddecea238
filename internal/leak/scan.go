package leak

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Scan looks for secrets in a stream: as they are, escaped in percent signs, backslashes or HTML's
// entities, in UTF-16, and in hexadecimal digits of either case. It looks for them, too, in base64
// of either alphabet, in lines, escaped, and at any place of the encoded text. It is linear in the
// stream, and holds back only bytes that a secret may have begun in.
//
// It does not know compressed, encrypted or otherwise transformed text.
type Scan struct {
	// begins are the matchers that a byte may begin a match of, by how they read.
	begins [viewCount][256][]*matcher
	// open are those whose match has begun.
	open [viewCount][]*matcher
	// first are the bytes that matter while no match has begun.
	first [256]bool
	held  []byte
	// symbols counts what was shown to matchers.
	symbols uint64
	// at is where in the stream the next byte is.
	at int64
	// escape is what an escape has so far, which began at escapeAt.
	escape   []byte
	escapeAt int64
	// last is the byte before.
	last byte
	// lines are the ends of lines in base64, and in base64 that is escaped.
	lines [2]lineEnds
	// apart counts the symbols until both views of base64 read the same again.
	apart int
	// longest64 is the length of the longest pattern of base64.
	longest64 int
}

// view is how a matcher reads bytes.
type view uint8

const (
	viewRaw view = iota
	viewUnescaped
	viewHex
	viewBase64
	viewBase64Unescaped
	viewCount
)

// New makes a scanner of one stream.
func New(secrets []string) *Scan {
	s := &Scan{}
	for _, secret := range secrets {
		s.add(viewRaw, secret)
		s.add(viewUnescaped, secret)
		if plain := unescapedText(secret); plain != secret && len(plain) >= MinSecret {
			s.add(viewUnescaped, plain) // what is left of escapes that are the secret's own
		}
		s.add(viewHex, hex.EncodeToString([]byte(secret)))
		for shift := range 3 {
			core := base64Core(secret, shift)
			s.add(viewBase64, core).twin = s.add(viewBase64Unescaped, core)
			s.longest64 = max(s.longest64, len(core))
		}
	}
	s.first['%'], s.first['\\'], s.first['&'] = true, true, true
	return s
}

// base64Core is what a secret's base64 has in common wherever it begins: shift
// bytes stand before it in its group of three.
func base64Core(secret string, shift int) string {
	text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
	return text[(shift*8+5)/6 : (shift+len(secret))*8/6]
}

// Reset begins another stream.
func (s *Scan) Reset() {
	for v := range viewCount {
		s.forget(v)
	}
	s.held, s.escape, s.last, s.lines, s.apart = nil, s.escape[:0], 0, [2]lineEnds{}, 0
}

func (s *Scan) add(v view, pattern string) *matcher {
	m := newMatcher(pattern)
	for c := range 256 {
		if fold(v, byte(c)) == pattern[0] {
			s.begins[v][c] = append(s.begins[v][c], m)
			s.first[c] = true
		}
	}
	return m
}

// fold is how a view reads a byte: digits in either case, and both alphabets of base64.
func fold(v view, c byte) byte {
	switch {
	case v == viewHex && 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	case v >= viewBase64 && c == '-':
		return '+'
	case v >= viewBase64 && c == '_':
		return '/'
	}
	return c
}

// Feed takes the next bytes, and gives those that may be passed on. Once it
// reports a leak, nothing more may be.
func (s *Scan) Feed(b []byte) (clear []byte, leak bool) {
	for i := 0; i < len(b); i++ {
		if s.idle() {
			for i < len(b) && !s.first[b[i]] {
				i++
				s.at++
			}
			if i == len(b) {
				break
			}
		}
		if s.step(b[i]) {
			return nil, true
		}
	}
	work := b
	if len(s.held) > 0 {
		work = append(s.held, b...)
	}
	keep := int(s.at - s.earliest())
	clear = work[:len(work)-keep]
	s.held = append([]byte(nil), work[len(work)-keep:]...)
	return clear, false
}

// Rest is what was held back, when the stream has ended.
func (s *Scan) Rest() []byte { return s.held }

// idle reports whether no match has begun.
func (s *Scan) idle() bool {
	return len(s.escape) == 0 && len(s.open[viewRaw]) == 0 && len(s.open[viewUnescaped]) == 0 &&
		len(s.open[viewHex]) == 0 && len(s.open[viewBase64]) == 0 && len(s.open[viewBase64Unescaped]) == 0
}

// step takes one byte.
func (s *Scan) step(c byte) (leak bool) {
	at := s.at
	s.at++
	if len(s.escape) == 0 && (c == '%' || c == '\\' || c == '&' || c == 0 && s.last != 0) {
		s.diverge()
	}
	leak = s.push(viewRaw, c, at)
	leak = s.push(viewHex, c, at) || leak
	leak = s.pushBase64(viewBase64, c, at) || leak
	leak = s.unescaped(c, at) || leak
	s.last = c
	return leak
}

// diverge begins to show what is unescaped to matchers of base64 too, which go on from those of
// base64 as it is. Where nothing was escaped for as long as a pattern, both would find the same.
func (s *Scan) diverge() {
	if s.apart == 0 {
		for _, m := range s.open[viewBase64] {
			copy(m.twin.starts, m.starts)
			m.twin.state, m.twin.count = m.state, m.count
			s.open[viewBase64Unescaped] = append(s.open[viewBase64Unescaped], m.twin)
		}
		s.lines[viewBase64Unescaped-viewBase64] = s.lines[0]
	}
	s.apart = s.longest64 + maxEscape + 1
}

// push shows a byte to the matchers of a view: to those whose match is open,
// and to those that it begins one of.
func (s *Scan) push(v view, c byte, at int64) (leak bool) {
	c = fold(v, c)
	s.symbols++
	still := s.open[v][:0]
	for _, m := range s.open[v] {
		leak = m.push(c, at) || leak
		m.seen = s.symbols
		if m.state > 0 {
			still = append(still, m)
		}
	}
	for _, m := range s.begins[v][c] {
		if m.seen == s.symbols {
			continue // above
		}
		if leak = m.push(c, at) || leak; m.state > 0 {
			still = append(still, m)
		}
	}
	s.open[v] = still
	return leak
}

// lineEnds counts the ends of lines that came just now; last is the latest.
type lineEnds struct {
	count int
	last  byte
}

// pushBase64 passes over the end of a line, but not over an empty one: the end
// of an event must not be held back.
func (s *Scan) pushBase64(v view, c byte, at int64) bool {
	ends := &s.lines[v-viewBase64]
	if c != '\r' && c != '\n' {
		*ends = lineEnds{}
		return s.push(v, c, at)
	}
	if ends.count >= 2 || ends.count == 1 && ends.last == c {
		s.forget(v)
	}
	*ends = lineEnds{ends.count + 1, c}
	return false
}

// forget ends the matches of a view that are open.
func (s *Scan) forget(v view) {
	for _, m := range s.open[v] {
		m.state = 0
	}
	s.open[v] = s.open[v][:0]
}

// plain shows a character to those that read what is escaped.
func (s *Scan) plain(c byte, at int64) (leak bool) {
	leak = s.push(viewUnescaped, c, at)
	if s.apart == 0 {
		return leak
	}
	leak = s.pushBase64(viewBase64Unescaped, c, at) || leak
	if c != '\r' && c != '\n' {
		s.apart--
	}
	if s.apart == 0 {
		s.forget(viewBase64Unescaped)
	}
	return leak
}

// unescaped decodes escapes, and shows what they stand for to the matchers of
// that view.
func (s *Scan) unescaped(c byte, at int64) (leak bool) {
	if len(s.escape) == 0 {
		switch {
		case c == '%' || c == '\\' || c == '&':
			s.diverge()
			s.escape, s.escapeAt = append(s.escape, c), at
			return false
		case c == 0 && s.last != 0: // of UTF-16
			return false
		}
		return s.plain(c, at)
	}
	s.escape = append(s.escape, c)
	value, state := decodeEscape(s.escape)
	switch state {
	case escapeMore:
		return false
	case escapeWhole:
		s.escape = s.escape[:0]
		return s.plain(value, s.escapeAt)
	}
	var pending [maxEscape]byte
	n := copy(pending[:], s.escape)
	s.escape = s.escape[:0]
	leak = s.plain(pending[0], s.escapeAt)
	for i := 1; i < n; i++ {
		leak = s.unescaped(pending[i], s.escapeAt+int64(i)) || leak
	}
	return leak
}

// earliest is where the first match that is open began, or the next byte.
func (s *Scan) earliest() int64 {
	at := s.at
	if len(s.escape) > 0 {
		at = s.escapeAt
	}
	for _, open := range s.open {
		for _, m := range open {
			at = min(at, m.begun())
		}
	}
	return at
}

// matcher finds one pattern in a stream (Knuth, Morris and Pratt).
type matcher struct {
	pattern string
	fail    []int
	state   int
	// starts are where the last symbols came from, as many as the pattern has.
	starts []int64
	count  int
	// seen is the symbol that an open match was shown last.
	seen uint64
	// twin reads the same pattern where it is escaped; nil in all views but viewBase64.
	twin *matcher
}

func newMatcher(pattern string) *matcher {
	m := &matcher{pattern: pattern, fail: make([]int, len(pattern)), starts: make([]int64, len(pattern))}
	for i, k := 1, 0; i < len(pattern); i++ {
		for k > 0 && pattern[i] != pattern[k] {
			k = m.fail[k-1]
		}
		if pattern[i] == pattern[k] {
			k++
		}
		m.fail[i] = k
	}
	return m
}

// push takes a symbol that came from a place of the stream.
func (m *matcher) push(c byte, at int64) bool {
	for m.state > 0 && m.pattern[m.state] != c {
		m.state = m.fail[m.state-1]
	}
	if m.pattern[m.state] != c {
		return false
	}
	m.starts[m.count%len(m.starts)] = at
	m.count++
	m.state++
	if m.state < len(m.pattern) {
		return false
	}
	m.state = 0
	return true
}

// begun is where the open match began.
func (m *matcher) begun() int64 {
	return m.starts[(m.count-m.state)%len(m.starts)]
}

// MinSecret is the shortest text that answers are searched for, in bytes.
const MinSecret = 8

// LeastPart is the fewest characters of a secret that are known at the edge of a part of a text. It
// is also the fewest bytes that a part has which begins in the secret's middle.
const LeastPart = 4

// least is leastPart as a view writes it: two digits are one character.
func least(v view) int {
	if v == viewHex {
		return 2 * LeastPart
	}
	return LeastPart
}

// Reach is how much of a text Continues has to see, in bytes: the longest pattern, each of its
// characters escaped.
func (s *Scan) Reach() int {
	most := 0
	s.each(func(_ view, m *matcher) { most = max(most, len(m.pattern)) })
	return (most + 1) * maxEscape
}

// each gives every matcher, once or more often.
func (s *Scan) each(see func(view, *matcher)) {
	for v := range viewCount {
		for _, list := range s.begins[v] {
			for _, m := range list {
				see(v, m)
			}
		}
	}
}

// Continues reports whether a text begins with what a pattern ends with, or is the middle of one,
// as it is or escaped. The first escape may be cut, too.
func (s *Scan) Continues(text []byte) (found bool) {
	wide := bytes.ReplaceAll(text, []byte{0}, nil) // of UTF-16
	readings := [][]byte{text, wide}
	for cut := 0; cut < maxEscape && cut <= len(wide); cut++ {
		readings = append(readings, []byte(unescapedText(string(wide[cut:]))))
		if cut < len(wide) && !isLetterOrDigit(wide[cut]) && wide[cut] != '#' && wide[cut] != ';' {
			break // no rest of an escape has it
		}
	}
	s.each(func(v view, m *matcher) {
		for i, reading := range readings {
			shortest := 1
			if i > 2 { // what was cut away may not have been an escape's
				shortest = LeastPart
			}
			found = found || m.continues(v, reading, shortest)
		}
	})
	return found
}

// continues is Continues for one pattern and one reading of the text. Of the middle of a pattern
// it takes shortest characters for enough.
func (m *matcher) continues(v view, text []byte, shortest int) bool {
	folded := make([]byte, 0, len(m.pattern))
	whole := true
	for _, c := range text {
		if v >= viewBase64 && (c == '\r' || c == '\n') {
			continue
		}
		if len(folded) == len(m.pattern) {
			whole = false
			break
		}
		folded = append(folded, fold(v, c))
	}
	if whole && len(folded) >= shortest && len(folded) < len(m.pattern) && strings.Contains(m.pattern, string(folded)) {
		return true
	}
	for n := least(v); n <= len(folded); n++ {
		if strings.HasSuffix(m.pattern, string(folded[:n])) {
			return true
		}
	}
	return false
}

// Begun reports whether the text that was fed ends in the middle of a pattern.
func (s *Scan) Begun() bool {
	for v, open := range s.open {
		for _, m := range open {
			if m.state >= least(view(v)) {
				return true
			}
		}
	}
	return false
}
