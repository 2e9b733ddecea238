package provenance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// maxNested is how often JSON is read out of a string of JSON.
const maxNested = 3

// doc is a text that values are looked for in, normalised; values do not span two.
type doc []byte

// read returns the texts of a text: itself, or what stands in it where it is JSON.
func read(text []byte) []doc {
	r := reader{}
	r.text(text, 0)
	return r.docs
}

// readValues is read without the keys of JSON.
func readValues(text []byte) []doc {
	r := reader{keyless: true}
	r.text(text, 0)
	return r.docs
}

type reader struct {
	docs    []doc
	keyless bool
}

// text reads a text that may be JSON, or lines of JSON.
func (r *reader) text(text []byte, nested int) {
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) == 0 {
		return
	}
	if nested < maxNested && (trimmed[0] == '{' || trimmed[0] == '[' || (nested == 0 && trimmed[0] == '"')) {
		if json.Valid(trimmed) {
			s := scanner{data: trimmed}
			r.value(&s, 0, nested)
			if whole := normalise(trimmed); len(whole) <= maxAtom {
				r.docs = append(r.docs, doc(wholeJSON(whole)))
			}
			return
		}
		if r.lines(trimmed, nested) {
			return
		}
	}
	r.add(trimmed)
}

// lines reads a text of which every line is JSON.
func (r *reader) lines(text []byte, nested int) bool {
	first, _, more := bytes.Cut(text, []byte("\n"))
	if !more || !json.Valid(first) {
		return false
	}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			r.add(line)
			continue
		}
		s := scanner{data: line}
		r.value(&s, 0, nested)
	}
	return true
}

// value reads every key and every value of a document that is valid.
func (r *reader) value(s *scanner, depth, nested int) {
	switch c := s.peek(); {
	case c == '"':
		raw, _ := s.text()
		r.text(unescape(raw), nested+1)
	case (c == '{' || c == '[') && depth < maxDepth:
		if s.empty() {
			return
		}
		for more := true; more; more = s.next() {
			if c == '{' {
				if key, _ := s.key(); !r.keyless {
					r.add(unescape(key))
				}
			}
			r.value(s, depth+1, nested)
		}
	case c == '{' || c == '[':
		s.skip()
	default:
		r.scalar(s.scalar())
	}
}

// scalar reads a number, in the spelling that values are looked for in.
func (r *reader) scalar(raw []byte) {
	if len(raw) == 0 || (raw[0] != '-' && !isDigit(raw[0])) {
		return
	}
	if number, ok := decimal(string(raw)); ok {
		raw = []byte(number)
	}
	r.add(raw)
}

func (r *reader) add(text []byte) {
	if d := normalise(apart(text)); len(d) > 0 {
		r.docs = append(r.docs, d)
	}
}

// wholeJSON stands for a document of JSON as a value of its own. It is a digest,
// in which no other value can be found.
func wholeJSON(normal []byte) string {
	sum := sha256.Sum256(normal)
	return jsonKind + hex.EncodeToString(sum[:])
}
