package redact

import "strings"

// maxLoneValue is how far an unquoted value goes on behind a byte that ends it
// elsewhere, in bytes.
const maxLoneValue = 512

// wholeLine is where an unquoted value ends that was cut at stop, though its
// assignment stands in a line of its own: what ends a value in a URL, a form or a
// list is a part of it there. It is stop where the line holds more than this.
func (h *hunt) wholeLine(start, end, from, stop int) int {
	if strings.IndexByte("&;,<>|]}\"'`\\", h.byteAt(stop)) < 0 || !h.standsAlone(start) || h.isGeneric(from, stop) {
		return stop
	}
	far := min(h.run(solid, stop), stop+maxLoneValue)
	variable := isUpper(h.text[start]) && isUpper(h.text[end-1]) // DB_PASSWORD=, of which no form is made
	for i := stop; i < far; i++ {
		if h.endsField(i, far, variable) {
			far = i
			break
		}
	}
	for far > stop && strings.IndexByte(",;", h.text[far-1]) >= 0 {
		far--
	}
	return far
}

// standsAlone reports whether nothing before a name in its line holds it: no
// query, call, list, tag or text in quotes.
func (h *hunt) standsAlone(start int) bool {
	low := max(0, start-2*maxGap)
	for start > low && dotted.has(h.text[start-1]) {
		start--
	}
	for start > low && (h.text[start-1] == ' ' || h.text[start-1] == '\t') {
		start--
	}
	if start == low {
		return start == 0
	}
	return strings.IndexByte("=,;({[&|?<>!\"'`\\/%", h.text[start-1]) < 0
}

// endsField reports whether the byte at i ends a value in any line: an escape, a
// tag, a bracket or quote that closes what the name stands in, or a separator
// with another field behind it.
func (h *hunt) endsField(i, far int, variable bool) bool {
	switch h.text[i] {
	case '\\':
		next := h.byteAt(i + 1) // of an escape, or of the value itself
		escaped := strings.IndexByte("nrt", next) >= 0 && (i+2 >= far || h.beginsField(i+2, far))
		return escaped || i+1 >= far || strings.IndexByte("\"'`", next) >= 0
	case ']', '}', '"', '\'', '`':
		return !variable
	case '<':
		return !variable && h.isTag(i+1, far)
	}
	return !variable && strings.IndexByte("&;,|", h.text[i]) >= 0 && h.beginsField(i+1, far)
}

// isGeneric reports whether a value is a type of other types: Map<string, Item>
func (h *hunt) isGeneric(from, stop int) bool {
	if h.byteAt(stop) != '<' || from == stop || !isUpper(h.text[from]) || !isLetter(h.byteAt(stop+1)) {
		return false
	}
	m := mixOf(h.text[from:stop])
	return m.lower && !m.digit && !m.other
}

// isTag reports whether what stands behind a < is a tag of letters: br>, /td>
func (h *hunt) isTag(i, far int) bool {
	if h.byteAt(i) == '/' {
		i++
	}
	at := i
	for at < far && isLetter(h.text[at]) {
		at++
	}
	return at > i && at < far && h.text[at] == '>'
}

// beginsField reports whether a name and its sign stand at i: user=, Server:
func (h *hunt) beginsField(i, far int) bool {
	at := i
	for at < far && at-i < maxTail && dashed.has(h.text[at]) {
		at++
	}
	return at > i && isLetter(h.text[i]) && at < far && (h.text[at] == '=' || h.text[at] == ':')
}

// bracketed reports whether a value that opens a bracket is no code: nothing is in
// the bracket, and nothing closes it.
func (h *hunt) bracketed(v string, stop int) bool {
	if b := h.byteAt(stop); len(v) > maxUserinfo || b > ' ' || !strings.ContainsAny(v, "([{") || strings.IndexByte("([{}])", v[len(v)-1]) >= 0 {
		return false
	}
	return looksRandom(v)
}
