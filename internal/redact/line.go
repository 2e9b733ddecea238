package redact

import "strings"

// maxLoneValue is how far an unquoted value goes on behind a byte that ends it
// elsewhere, in bytes.
const maxLoneValue = 512

// wholeLine is where an unquoted value ends that was cut at stop, though its assignment stands in a
// line of its own. What ends a value in a URL, a form or a list is a part of it there. It is stop
// where the line holds more than this.
func (a *assignment) wholeLine(from, stop int) int {
	if strings.IndexByte("&;,<>|]}\"'`\\", a.byteAt(stop)) < 0 || !a.standsAlone() || a.isGeneric(from, stop) {
		return stop
	}
	far := min(a.run(solid, stop), stop+maxLoneValue)
	variable := isUpper(a.text[a.start]) && isUpper(a.text[a.end-1]) // DB_PASSWORD=, of which no form is made
	for i := stop; i < far; i++ {
		if a.endsField(i, far, variable) {
			far = i
			break
		}
	}
	for far > stop && strings.IndexByte(",;", a.text[far-1]) >= 0 {
		far--
	}
	return far
}

// standsAlone reports whether nothing before a name in its line holds it: no
// query, call, list, tag or text in quotes.
func (a *assignment) standsAlone() bool {
	start := a.start
	low := max(0, start-2*maxGap)
	for start > low && dotted.has(a.text[start-1]) {
		start--
	}
	for start > low && (a.text[start-1] == ' ' || a.text[start-1] == '\t') {
		start--
	}
	if start == low {
		return start == 0
	}
	return strings.IndexByte("=,;({[&|?<>!\"'`\\/%", a.text[start-1]) < 0
}

// endsField reports whether the byte at i ends a value in any line. An escape, a tag, and a bracket
// or quote that closes what the name stands in do. So does a separator with another field behind
// it.
func (a *assignment) endsField(i, far int, variable bool) bool {
	switch a.text[i] {
	case '\\':
		next := a.byteAt(i + 1) // of an escape, or of the value itself
		escaped := strings.IndexByte("nrt", next) >= 0 && (i+2 >= far || a.beginsField(i+2, far))
		return escaped || i+1 >= far || strings.IndexByte("\"'`", next) >= 0
	case ']', '}', '"', '\'', '`':
		return !variable
	case '<':
		return !variable && a.isTag(i+1, far)
	}
	return !variable && strings.IndexByte("&;,|", a.text[i]) >= 0 && a.beginsField(i+1, far)
}

// isGeneric reports whether a value is a type of other types: Map<string, Item>
func (a *assignment) isGeneric(from, stop int) bool {
	if a.byteAt(stop) != '<' || from == stop || !isUpper(a.text[from]) || !isLetter(a.byteAt(stop+1)) {
		return false
	}
	m := mixOf(a.text[from:stop])
	return m.lower && !m.digit && !m.other
}

// isTag reports whether what stands behind a < is a tag of letters: br>, /td>
func (a *assignment) isTag(i, far int) bool {
	if a.byteAt(i) == '/' {
		i++
	}
	at := i
	for at < far && isLetter(a.text[at]) {
		at++
	}
	return at > i && at < far && a.text[at] == '>'
}

// beginsField reports whether a name and its sign stand at i: user=, Server:
func (a *assignment) beginsField(i, far int) bool {
	at := i
	for at < far && at-i < maxTail && dashed.has(a.text[at]) {
		at++
	}
	return at > i && isLetter(a.text[i]) && at < far && (a.text[at] == '=' || a.text[at] == ':')
}

// bracketed reports whether a value that opens a bracket is no code: nothing is in
// the bracket, and nothing closes it.
func (a *assignment) bracketed(v string, stop int) bool {
	if b := a.byteAt(stop); len(v) > maxUserinfo || b > ' ' || !strings.ContainsAny(v, "([{") || strings.IndexByte("([{}])", v[len(v)-1]) >= 0 {
		return false
	}
	return looksRandom(v)
}
