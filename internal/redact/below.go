package redact

import "strings"

// The limits of what stands below a secret name in a text: how much of it is
// looked at, in bytes, and how far its lines may be indented.
const (
	maxBelow  = 2 << 10
	maxIndent = 64
)

// opensBelow reports whether the value at i is an object, a list or lines of
// their own: what is in them stands under the same name.
func (h *hunt) opensBelow(i int) bool {
	b := h.byteAt(i)
	return b == '{' || b == '[' || b == '\n' || b == '\r' && h.byteAt(i+1) == '\n'
}

// below takes what looks like a secret in the object, the list or the deeper
// lines at i, which stand under the name at start. A text is looked at once.
func (h *hunt) below(k kind, start, i int) {
	if i < h.belowTo {
		return
	}
	end := h.belowEnd(start, i)
	if end == len(h.text) && end-i < maxBelow { // more may come
		h.open = min(h.open, start)
	}
	h.belowTo = end
	for at := h.skipMarks(i, end); at < end; at = h.skipMarks(at, end) {
		f, next := h.item(at)
		if f.end <= end && !h.isMember(f.end) && secretValue(k, h.text[f.start:f.end], true) && !h.isDescribed(at) {
			h.found = append(h.found, f)
		}
		at = max(at+1, next)
	}
}

// belowEnd is where ends what is below the name at start.
func (h *hunt) belowEnd(start, i int) int {
	if b := h.byteAt(i); b == '\n' || b == '\r' {
		return h.outdents(start, i)
	}
	return h.closes(i)
}

// item is the text in quotes or the word at i, and what follows it. A word that
// goes on with other signs is code, and empty.
func (h *hunt) item(i int) (f span, next int) {
	if strings.IndexByte("\"'`\\", h.text[i]) >= 0 {
		from, stop, _ := h.value(i)
		for next = stop; h.byteAt(next) == '\\'; next++ { // before the quote that ends it
		}
		return span{from, stop}, next + 1
	}
	stop := h.run(base64ed, i)
	if b := h.byteAt(stop); b > ' ' && strings.IndexByte(",;]}", b) < 0 && b != ':' {
		return span{i, i}, h.run(solid, i)
	}
	return span{i, stop}, stop
}

// skipMarks passes over what stands between the values of a structure.
func (h *hunt) skipMarks(at, end int) int {
	for at < end && strings.IndexByte(" \t\r\n{}[],:;=>-", h.text[at]) >= 0 {
		at++
	}
	return at
}

// isMember reports whether what ended at i is the name of a value.
func (h *hunt) isMember(i int) bool {
	for n := 0; n < maxGap && i < len(h.text) && strings.IndexByte("\"' \t\\", h.text[i]) >= 0; n++ {
		i++
	}
	return h.byteAt(i) == ':' || h.byteAt(i) == '='
}

// isDescribed reports whether the name before the value at i says what a secret
// must look like or where it is kept.
func (h *hunt) isDescribed(i int) bool {
	before := strings.TrimRight(h.text[max(0, i-maxGap):i], " \t:=>\"'\\")
	at := len(before)
	for at > 0 && (dashed.has(before[at-1]) || before[at-1] == '$') {
		at--
	}
	var room [maxName]byte
	return oneOf(described, string(squeeze(before[at:], &room)))
}

// closes is where the object or list ends that opens at i, or where it is too long.
func (h *hunt) closes(i int) int {
	limit, depth := min(len(h.text), i+maxBelow), 0
	for at := i; at < limit; at++ {
		switch h.text[at] {
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
func (h *hunt) outdents(start, i int) int {
	low := max(0, start-maxIndent-maxGap)
	own := h.indent(low + 1 + strings.LastIndexByte(h.text[low:start], '\n'))
	limit := min(len(h.text), i+maxBelow)
	at := i
	for at < limit {
		line := at + 1 + strings.IndexByte(h.text[at:limit], '\n')
		if line == at || line >= limit {
			break
		}
		depth := h.indent(line)
		first := h.byteAt(line + depth)
		if depth < own || depth == own && (first != '-' || h.byteAt(line+depth+1) != ' ') {
			return at
		}
		next := strings.IndexByte(h.text[line:limit], '\n')
		if next < 0 {
			return limit
		}
		at = line + next
	}
	return min(at, limit)
}

// indent is by how much the line that begins at i is indented.
func (h *hunt) indent(i int) int {
	at := i
	for at < len(h.text) && at-i < maxIndent && h.text[at] == ' ' {
		at++
	}
	return at - i
}
