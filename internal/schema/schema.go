// Package schema promises that arguments are what their JSON Schema says, and nothing else. A schema
// that is open at any level is refused (D-11). Arguments are validated first and completed with
// defaults after, and what comes out is canonical.
//
// It loads nothing: a schema refers to itself only. It does not know what the
// arguments mean.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// MaxArguments is the most that the arguments of one call may be, in bytes.
const MaxArguments = 1 << 20

// Schema is that of one tool's arguments, compiled once. It is safe for
// concurrent use.
type Schema struct {
	whole     *rules
	defaults  *defaults
	flat      *flat // nil where the schema says more than types
	canonical []byte
	warnings  []string
}

// Compile checks a schema and finds its defaults. One that violates its own
// schema is left out, with a warning.
func Compile(raw json.RawMessage) (*Schema, error) {
	root, err := closed(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{}
	if s.whole, err = compileRules(root); err != nil {
		return nil, err
	}
	s.defaults, s.warnings = collect(s.whole, "")
	if s.canonical, err = wire.Canonical(raw); err != nil {
		return nil, err
	}
	s.flat = newFlat(s.canonical, s.defaults)
	return s, nil
}

// Canonical is the schema in canonical form: what a digest is made of.
func (s *Schema) Canonical() []byte { return slices.Clone(s.canonical) }

// Warnings are the defaults that were left out.
func (s *Schema) Warnings() []string { return slices.Clone(s.warnings) }

// Has reports whether there is an argument at a dotted path. The elements of a
// list stand for it: "to.address" is that of each element of the list "to".
func (s *Schema) Has(path string) bool { return s.at(path) != nil }

func (s *Schema) at(path string) *rules {
	at := s.whole
	for name := range strings.SplitSeq(path, ".") {
		if at = argument(at, name); at == nil {
			return nil
		}
	}
	return at
}

// Types are those of JSON that the argument at a dotted path may have, or each element where that is a
// list; none where the schema does not say.
func (s *Schema) Types(path string) []string {
	at := s.at(path)
	for range maxSchemaDepth {
		switch {
		case at == nil:
			return nil
		case at.ref != nil:
			at = at.ref
		case at.array.items != nil:
			at = at.array.items
		default:
			return slices.Clone(at.kinds)
		}
	}
	return nil
}

// maxChoices is how many values of an argument are few.
const maxChoices = 64

// Choices are the texts of which the arguments at some dotted paths have to be one, at most
// 64 for each; of a list, each of its elements. An argument is not in them where the schema
// lists no values for it, too many, or one that is no text.
func (s *Schema) Choices(paths []string) map[string][]string {
	few := make(map[string][]string)
	for _, path := range paths {
		if texts := s.choices(path); texts != nil {
			few[path] = texts
		}
	}
	return few
}

func (s *Schema) choices(path string) []string {
	at := s.at(path)
	for range maxSchemaDepth {
		switch {
		case at == nil:
			return nil
		case len(at.values) == 1:
			return textsOf(at.values[0].shown)
		case at.ref != nil:
			at = at.ref
		case at.array.items != nil:
			at = at.array.items
		default:
			return nil
		}
	}
	return nil
}

func textsOf(list []any) []string {
	if len(list) > maxChoices {
		return nil
	}
	texts := make([]string, 0, len(list))
	for _, one := range list {
		text, ok := one.(string)
		if !ok {
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

// argument looks through references and lists, so far as a schema can be deep.
func argument(at *rules, name string) *rules {
	for range maxSchemaDepth {
		switch {
		case at == nil:
			return nil
		case at.object.properties[name] != nil:
			return at.object.properties[name]
		case at.ref != nil:
			at = at.ref
		default:
			at = at.array.items
		}
	}
	return nil
}

// Arguments returns the canonical form of valid arguments with defaults
// inserted, or why they are not valid. Nothing at all stands for {}.
func (s *Schema) Arguments(raw json.RawMessage) (json.RawMessage, *nacre.Refusal) {
	if len(raw) > MaxArguments {
		return nil, &nacre.Refusal{Message: fmt.Sprintf("arguments of %d bytes, the limit is %d", len(raw), MaxArguments)}
	}
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	canonical, err := wire.Canonical(raw)
	if err != nil {
		return nil, &nacre.Refusal{Message: "arguments are not usable JSON: " + err.Error()}
	}
	if s.flat != nil && canonical[0] == '{' {
		if filled, ok := s.flat.accept(canonical); ok {
			return filled, nil
		}
	}
	value, err := decode(canonical)
	if err != nil {
		return nil, &nacre.Refusal{Message: "arguments are not usable JSON: " + err.Error()}
	}
	if refusal := judged(s.whole, value); refusal != nil {
		return nil, refusal
	}
	_, spelled := spellIntegers(s.whole, value)
	if !s.defaults.insert(value) && !spelled {
		return canonical, nil
	}
	if refusal := judged(s.whole, value); refusal != nil { // a driver never sees what its schema refuses
		return nil, refusal
	}
	filled, err := json.Marshal(value)
	if err == nil {
		filled, err = wire.Canonical(filled)
	}
	if err != nil {
		return nil, &nacre.Refusal{Message: "arguments cannot be completed: " + err.Error()}
	}
	return filled, nil
}

// decode keeps numbers as they are spelled.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// defaults are the values to insert into an object, and into the objects in it.
type defaults struct {
	names  []string
	values map[string]any
	inside map[string]*defaults
}

// collect finds the defaults of an object's properties. One that violates its
// own schema is left out, with a warning (D-11).
func collect(schema *rules, path string) (*defaults, []string) {
	found := &defaults{values: map[string]any{}, inside: map[string]*defaults{}}
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(schema.object.properties)) {
		property := schema.object.properties[name]
		if value := defaultOf(property); value != nil {
			if judged(property, *value) != nil {
				warnings = append(warnings, ignored(path+name))
			} else {
				found.values[name] = *value
			}
		}
		if len(property.object.properties) > 0 {
			inside, more := collect(property, path+name+".")
			warnings = append(warnings, more...)
			if len(inside.names) > 0 {
				found.inside[name] = inside
			}
		}
		if _, ok := found.values[name]; ok || found.inside[name] != nil {
			found.names = append(found.names, name)
		}
	}
	return found, warnings
}

func ignored(argument string) string {
	return fmt.Sprintf("the default of %s violates its own schema and is ignored", argument)
}

// defaultOf is a property's own default, or that of what it refers to.
func defaultOf(property *rules) *any {
	for range maxSchemaDepth {
		if property.fallback != nil || property.ref == nil {
			break
		}
		property = property.ref
	}
	return property.fallback
}

// insert adds what is absent, and reports whether anything was.
func (d *defaults) insert(value any) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	changed := false
	for _, name := range d.names {
		if _, present := object[name]; !present {
			if value, ok := d.values[name]; ok {
				object[name] = copyOf(value)
				changed = true
			}
		}
		if inside := d.inside[name]; inside != nil {
			changed = inside.insert(object[name]) || changed
		}
	}
	return changed
}

// copyOf keeps calls from sharing the containers of a default.
func copyOf(value any) any {
	switch v := value.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, inner := range v {
			c[name] = copyOf(inner)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, inner := range v {
			c[i] = copyOf(inner)
		}
		return c
	}
	return value
}

// cut shortens a text to limit bytes, and marks that it did.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
