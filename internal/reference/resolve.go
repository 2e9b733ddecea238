package reference

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxDepth is how deep arguments are looked into.
const maxDepth = 64

// Anywhere is the place that is all of the arguments.
const Anywhere = "*"

// Resolved are arguments with values in the place of words.
type Resolved struct {
	Arguments json.RawMessage
	// Places are the arguments, without the numbers of list elements, in which a
	// value took the place of a word and that were not declared to take any.
	Places []string
}

// Resolve puts the values into canonical arguments. In the declared places, as dotted paths, words
// are resolved wherever they stand. Elsewhere only what is a word as a whole is resolved, and all
// else is text like any other. Not ok where nothing was resolved.
func (t *Table) Resolve(canonical json.RawMessage, declared []string) (r Resolved, ok bool) {
	if t.Empty() || !bytes.Contains(canonical, []byte("-"+t.tag)) {
		return r, false
	}
	decoder := json.NewDecoder(bytes.NewReader(canonical))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return r, false
	}
	w := resolver{table: t, declared: declared}
	value = w.value(value, "", 0)
	if !w.did {
		return r, false
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return r, false
	}
	return Resolved{Arguments: bytes.TrimSpace(out.Bytes()), Places: w.places}, true
}

// resolver walks the arguments of one call.
type resolver struct {
	table    *Table
	declared []string
	places   []string
	did      bool
}

func (w *resolver) value(v any, path string, depth int) any {
	if depth > maxDepth {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = w.value(member, join(path, key), depth+1)
		}
	case []any:
		for i, element := range v {
			v[i] = w.value(element, path, depth+1)
		}
	case string:
		return w.text(v, path)
	}
	return v
}

func (w *resolver) text(s, path string) string {
	if w.takes(path) {
		clear := string(w.table.Clear([]byte(s), false))
		w.did = w.did || clear != s
		return clear
	}
	word, rest, hinted := strings.Cut(s, "(")
	value, is := w.table.values[word]
	if !is || hinted && behind([]byte("("+rest), word, value) != "("+rest {
		return s
	}
	w.did, w.places = true, append(w.places, path)
	return value
}

// takes reports whether a path is a declared place, or within one.
func (w *resolver) takes(path string) bool {
	for _, d := range w.declared {
		if d == Anywhere {
			return true
		}
		if rest, ok := strings.CutPrefix(path, d); ok && (rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}

func join(path, step string) string {
	if path == "" {
		return step
	}
	return path + "." + step
}
