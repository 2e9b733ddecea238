package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/nacre-dev/nacre/internal/wire"
)

// maxFlat is how many arguments a flat schema has at most.
const maxFlat = 64

// flat is a schema that says of each argument only its type, and which are
// required: most tools' do. It is checked without decoding anything. It only
// ever accepts; what it does not is left to the whole schema to judge.
type flat struct {
	arguments []flatArgument // in the order of their names
	required  uint64         // a bit for each
}

type flatArgument struct {
	name []byte
	kind string
	// head is the name as a member begins with it, colon included; fallback the
	// canonical default, nil where there is none.
	head, fallback []byte
}

// The keywords that a flat schema and its arguments may have.
var (
	flatRoot  = []string{"$schema", "additionalProperties", "description", "properties", "required", "title", "type"}
	flatKinds = []string{"boolean", "integer", "number", "string"}
	flatInner = []string{"default", "description", "examples", "title", "type"}
)

// newFlat returns nil for a schema that says more.
func newFlat(canonical []byte, found *defaults) *flat {
	document, err := decode(canonical)
	root, ok := document.(map[string]any)
	if err != nil || !ok || !within(root, flatRoot) || root["additionalProperties"] != false {
		return nil
	}
	properties, _ := root["properties"].(map[string]any)
	if len(properties) > maxFlat {
		return nil
	}
	f := &flat{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		inner, ok := properties[name].(map[string]any)
		kind, _ := inner["type"].(string)
		if !ok || !within(inner, flatInner) || !slices.Contains(flatKinds, kind) {
			return nil
		}
		a := flatArgument{name: []byte(name), kind: kind, head: append(wire.AppendText(nil, name), ':')}
		if len(a.head) != len(name)+len(`"":`) { // accept reads no escapes: a\ would be how a"… begins
			return nil
		}
		if value, ok := found.values[name]; ok {
			if a.fallback, err = canonicalOf(value); err != nil {
				return nil
			}
		}
		f.arguments = append(f.arguments, a)
	}
	for _, name := range listOf(root["required"]) {
		i := slices.IndexFunc(f.arguments, func(a flatArgument) bool { return string(a.name) == name })
		if i < 0 {
			return nil
		}
		f.required |= 1 << i
	}
	return f
}

func within(object map[string]any, names []string) bool {
	for name := range object {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

func canonicalOf(value any) ([]byte, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return wire.Canonical(encoded)
}

// accept returns canonical arguments with defaults inserted, or false where it
// cannot tell that they are valid.
func (f *flat) accept(canonical []byte) ([]byte, bool) {
	var values [maxFlat][]byte
	var present uint64
	i := 0 // names stand in order on both sides
	for rest := canonical[1:]; rest[0] != '}'; {
		if rest[0] == ',' {
			rest = rest[1:]
		}
		end := 1 + bytes.IndexByte(rest[1:], '"')
		name := rest[1:end]
		for i < len(f.arguments) && !bytes.Equal(f.arguments[i].name, name) {
			i++
		}
		if i == len(f.arguments) { // unknown, or with an escape in it
			return nil, false
		}
		rest = rest[end+2:]
		n := scalar(rest, f.arguments[i].kind)
		if n == 0 {
			return nil, false
		}
		values[i], rest = rest[:n], rest[n:]
		present |= 1 << i
		i++
	}
	if present&f.required != f.required {
		return nil, false
	}
	return f.filled(canonical, &values), true
}

// scalar is the length of the value that b begins with, or 0 where it is of
// another type.
func scalar(b []byte, kind string) int {
	switch c := b[0]; {
	case c == '"':
		if kind != "string" {
			return 0
		}
		for i := 1; ; i++ {
			switch b[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
	case c == 't' || c == 'f':
		if kind != "boolean" {
			return 0
		}
		return bytes.IndexByte(b, 'e') + 1
	case c == '-' || '0' <= c && c <= '9':
		n := bytes.IndexAny(b, ",}")
		if kind == "number" || kind == "integer" && !bytes.ContainsAny(b[:n], ".eE") {
			return n
		}
	}
	return 0
}

// filled inserts the defaults of what is absent.
func (f *flat) filled(canonical []byte, values *[maxFlat][]byte) []byte {
	lacks := func(i int) bool { return values[i] == nil && f.arguments[i].fallback != nil }
	missing := 0
	for i := range f.arguments {
		if lacks(i) {
			missing += len(f.arguments[i].head) + len(f.arguments[i].fallback) + 1
		}
	}
	if missing == 0 {
		return canonical
	}
	out := append(make([]byte, 0, len(canonical)+missing), '{')
	for i, a := range f.arguments {
		value := values[i]
		if value == nil {
			value = a.fallback
		}
		if value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, a.head...), value...)
	}
	return append(out, '}')
}
