package redact

import "strings"

// The limits of what stands below a secret name in a text: how much of it is
// looked at, in bytes, and how far its lines may be indented.
const (
	maxBelow  = 2 << 10
	maxIndent = 64
)

// structure is what may stand below the name at start: an object, a list or deeper
// lines, with the kind of secret that the name says.
type structure struct {
	*hunt
	kind  kind
	start int
}

// opens reports whether the value at i is an object, a list or lines of
// their own: what is in them stands under the same name.
func (s *structure) opens(i int) bool {
	b := s.byteAt(i)
	return b == '{' || b == '[' || b == '\n' || b == '\r' && s.byteAt(i+1) == '\n'
}

// take takes what looks like a secret in a structure, where one opens at i. A text
// is looked at once.
func (s *structure) take(i int) {
	if !s.opens(i) || i < s.belowTo {
		return
	}
	end := s.end(i)
	if end == len(s.text) && end-i < maxBelow { // more may come
		s.open = min(s.open, s.start)
	}
	s.belowTo = end
	for at := s.skipMarks(i, end); at < end; at = s.skipMarks(at, end) {
		f, next := s.item(at)
		if f.end <= end && !s.isMember(f.end) && secretValue(s.kind, s.text[f.start:f.end], true) && !s.isDescribed(at) {
			s.found = append(s.found, f)
		}
		at = max(at+1, next)
	}
}

// end is where the structure at i ends.
func (s *structure) end(i int) int {
	if b := s.byteAt(i); b == '\n' || b == '\r' {
		return s.outdents(i)
	}
	return s.closes(i)
}

// item is the text in quotes or the word at i, and what follows it. A word that
// goes on with other signs is code, and empty.
func (s *structure) item(i int) (f span, next int) {
	if strings.IndexByte("\"'`\\", s.text[i]) >= 0 {
		from, stop, _ := s.value(i)
		for next = stop; s.byteAt(next) == '\\'; next++ { // before the quote that ends it
		}
		return span{from, stop}, next + 1
	}
	stop := s.run(base64ed, i)
	if b := s.byteAt(stop); b > ' ' && strings.IndexByte(",;]}", b) < 0 && b != ':' {
		return span{i, i}, s.run(solid, i)
	}
	return span{i, stop}, stop
}

// skipMarks passes over what stands between the values of a structure.
func (s *structure) skipMarks(at, end int) int {
	for at < end && strings.IndexByte(" \t\r\n{}[],:;=>-", s.text[at]) >= 0 {
		at++
	}
	return at
}

// isMember reports whether what ended at i is the name of a value.
func (s *structure) isMember(i int) bool {
	for n := 0; n < maxGap && i < len(s.text) && strings.IndexByte("\"' \t\\", s.text[i]) >= 0; n++ {
		i++
	}
	return s.byteAt(i) == ':' || s.byteAt(i) == '='
}

// isDescribed reports whether the name before the value at i says what a secret
// must look like or where it is kept.
func (s *structure) isDescribed(i int) bool {
	before := strings.TrimRight(s.text[max(0, i-maxGap):i], " \t:=>\"'\\")
	at := len(before)
	for at > 0 && (dashed.has(before[at-1]) || before[at-1] == '$') {
		at--
	}
	var room [maxName]byte
	return oneOf(described, string(squeeze(before[at:], &room)))
}

// closes is where the object or list ends that opens at i, or where it is too long.
func (s *structure) closes(i int) int {
	limit, depth := min(len(s.text), i+maxBelow), 0
	for at := i; at < limit; at++ {
		switch s.text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at
			}
		}
	}
	return limit
}

// outdents is where the lines below the one of a name end, which are indented
// further than it, or begin with the dash of a list.
func (s *structure) outdents(i int) int {
	low := max(0, s.start-maxIndent-maxGap)
	own := s.indent(low + 1 + strings.LastIndexByte(s.text[low:s.start], '\n'))
	limit := min(len(s.text), i+maxBelow)
	at := i
	for at < limit {
		line := at + 1 + strings.IndexByte(s.text[at:limit], '\n')
		if line == at || line >= limit {
			break
		}
		depth := s.indent(line)
		first := s.byteAt(line + depth)
		if depth < own || depth == own && (first != '-' || s.byteAt(line+depth+1) != ' ') {
			return at
		}
		next := strings.IndexByte(s.text[line:limit], '\n')
		if next < 0 {
			return limit
		}
		at = line + next
	}
	return min(at, limit)
}

// indent is by how much the line that begins at i is indented.
func (s *structure) indent(i int) int {
	at := i
	for at < len(s.text) && at-i < maxIndent && s.text[at] == ' ' {
		at++
	}
	return at - i
}
