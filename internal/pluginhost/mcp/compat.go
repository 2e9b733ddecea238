package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/nacre-dev/nacre/internal/schema"
)

// maxSteps bounds how much of two schemas is compared: references can make a
// small schema as large as one likes.
const maxSteps = 20_000

// compatible is an error unless a server's schema takes every argument that
// the pinned one allows. It errs towards refusing: what it cannot compare must
// be the same on both sides.
func compatible(pinned json.RawMessage, offered any) error {
	ours, err := decoded(pinned)
	if err != nil {
		return fmt.Errorf("arguments_schema: %w", err)
	}
	raw, err := json.Marshal(offered)
	if err != nil {
		return err
	}
	theirs, err := decoded(raw)
	if err != nil {
		return fmt.Errorf("the server's schema: %w", err)
	}
	if err = accepts(theirs, ours); err == nil {
		return nil
	}
	// The manifest's schema may be the server's own, closed: what that takes, the
	// server's takes.
	if raw, _, failed := schema.Close(offered); failed == nil {
		if narrower, failed := decoded(raw); failed == nil && accepts(narrower, ours) == nil {
			return nil
		}
	}
	return err
}

func accepts(theirs, ours map[string]any) error {
	if reflect.DeepEqual(bare(theirs), bare(ours)) {
		return nil
	}
	c := comparison{ours: ours, theirs: theirs, seen: map[string]bool{}, left: maxSteps}
	return c.takes(theirs, ours, "arguments")
}

// bare is a schema without what it says to people.
func bare(schema any) any {
	switch s := schema.(type) {
	case map[string]any:
		own := map[string]any{}
		for word, value := range s {
			if _, text := value.(string); text && (word == "description" || word == "title" || word == "$comment") {
				continue
			}
			if word != "enum" && word != "const" && word != "default" {
				value = bare(value)
			}
			own[word] = value
		}
		return own
	case []any:
		own := make([]any, len(s))
		for i, one := range s {
			own[i] = bare(one)
		}
		return own
	}
	return schema
}

func decoded(raw []byte) (map[string]any, error) {
	var s map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&s); err != nil || s == nil {
		return nil, errors.New("not an object")
	}
	return s, nil
}

// comparison is of two whole schemas, in which references are looked up.
type comparison struct {
	ours, theirs map[string]any
	seen         map[string]bool // pairs of references that were followed
	left         int
}

// takes is an error unless the schema theirs accepts all that ours does.
func (c *comparison) takes(theirs, ours any, path string) error {
	if c.left--; c.left < 0 {
		return fmt.Errorf("%s: too large to be compared", path)
	}
	if c.followed(theirs, ours) {
		return nil
	}
	t, o := resolve(theirs, c.theirs), resolve(ours, c.ours)
	if len(t) == 0 || ours == false {
		if theirs == false {
			return fmt.Errorf("%s: nothing is accepted any more", path)
		}
		return nil
	}
	if o == nil {
		return fmt.Errorf("%s: anything is allowed here, and the server takes less", path)
	}
	if branches := listOf(o, "anyOf", "oneOf"); branches != nil {
		for _, branch := range branches {
			if err := c.takes(theirs, with(o, branch), path); err != nil {
				return err
			}
		}
		return nil
	}
	for _, check := range []func(t, o map[string]any, path string) error{c.kinds, c.members, c.elements, c.bounds, c.composed, c.others} {
		if err := check(t, o, path); err != nil {
			return err
		}
	}
	return nil
}

// followed reports whether two references were compared already, or are being:
// schemas may hold themselves.
func (c *comparison) followed(theirs, ours any) bool {
	t, _ := theirs.(map[string]any)
	o, _ := ours.(map[string]any)
	if t["$ref"] == nil || o["$ref"] == nil {
		return false
	}
	pair := fmt.Sprintf("%q %q", t["$ref"], o["$ref"])
	before := c.seen[pair]
	c.seen[pair] = true
	return before
}

// with is a schema with one of its branches in the place of all.
func with(s map[string]any, branch any) map[string]any {
	one := maps.Clone(s)
	delete(one, "anyOf")
	delete(one, "oneOf")
	if b, ok := branch.(map[string]any); ok {
		for word, value := range b {
			one[word] = value
		}
	}
	return one
}

// resolve follows references into $defs; nil stands for any value.
func resolve(schema any, root map[string]any) map[string]any {
	s, _ := schema.(map[string]any)
	for range 8 {
		ref, ok := s["$ref"].(string)
		if !ok || len(s) > 1 {
			break
		}
		target := lookUp(root, ref)
		if target == nil {
			break
		}
		s = target
	}
	return s
}

func lookUp(root map[string]any, ref string) map[string]any {
	for _, word := range []string{"$defs", "definitions"} {
		defs, _ := root[word].(map[string]any)
		for name, value := range defs {
			if s, ok := value.(map[string]any); ok && ref == "#/"+word+"/"+name {
				return s
			}
		}
	}
	return nil
}

func listOf(s map[string]any, words ...string) []any {
	for _, word := range words {
		if list, ok := s[word].([]any); ok {
			return list
		}
	}
	return nil
}

// kinds compares types and lists of values.
func (c *comparison) kinds(t, o map[string]any, path string) error {
	values, listed := valuesOf(o)
	if allowed, ok := valuesOf(t); ok {
		for _, v := range values {
			if !slices.ContainsFunc(allowed, func(a any) bool { return reflect.DeepEqual(a, v) }) {
				return fmt.Errorf("%s: the value %v is not taken", path, v)
			}
		}
		if !listed {
			return fmt.Errorf("%s: only certain values are taken", path)
		}
	}
	types := typesOf(t)
	if types == nil {
		return nil
	}
	given := typesOf(o)
	if given == nil {
		for _, v := range values {
			given = append(given, typeOf(v))
		}
	}
	if given == nil {
		return fmt.Errorf("%s: only %v is taken", path, types)
	}
	for _, g := range given {
		if !slices.Contains(types, g) && (g != "integer" || !slices.Contains(types, "number")) {
			return fmt.Errorf("%s: %s is not taken, %v is", path, g, types)
		}
	}
	return nil
}

func valuesOf(s map[string]any) ([]any, bool) {
	if v, ok := s["const"]; ok {
		return []any{v}, true
	}
	list, ok := s["enum"].([]any)
	return list, ok
}

func typesOf(s map[string]any) (types []string) {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			types = append(types, fmt.Sprint(one))
		}
	}
	return types
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// members compares properties, and which must be there.
func (c *comparison) members(t, o map[string]any, path string) error {
	theirs, _ := t["properties"].(map[string]any)
	ours, _ := o["properties"].(map[string]any)
	rest, closed := t["additionalProperties"]
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		under, ok := theirs[name]
		if !ok && closed {
			under, ok = rest, rest != true
		}
		if !ok {
			continue // an open object takes any
		}
		if under == false && ours[name] != false {
			return fmt.Errorf("%s.%s: the server has no such argument", path, name)
		}
		if err := c.takes(under, ours[name], path+"."+name); err != nil {
			return err
		}
	}
	for _, name := range listOf(t, "required") {
		if key, _ := name.(string); !slices.Contains(listOf(o, "required"), name) && !hasDefault(ours[key]) {
			return fmt.Errorf("%s.%v: the server requires it, and the manifest does not", path, name)
		}
	}
	return nil
}

// hasDefault reports whether the kernel fills a property in.
func hasDefault(property any) bool {
	s, _ := property.(map[string]any)
	v, ok := s["default"]
	return ok && v != nil
}

func (c *comparison) elements(t, o map[string]any, path string) error {
	items, ok := t["items"]
	if !ok {
		return nil
	}
	if _, tuple := items.([]any); tuple || o["prefixItems"] != nil || t["prefixItems"] != nil {
		return nil // compared by others
	}
	if types := typesOf(o); types != nil && !slices.Contains(types, "array") {
		return nil
	}
	return c.takes(items, o["items"], path+"[]")
}

// bounds compares limits: those of ours must be as narrow.
func (c *comparison) bounds(t, o map[string]any, path string) error {
	for word, upper := range map[string]bool{
		"minimum": false, "exclusiveMinimum": false, "minLength": false, "minItems": false, "minProperties": false,
		"maximum": true, "exclusiveMaximum": true, "maxLength": true, "maxItems": true, "maxProperties": true,
	} {
		theirs, ok := number(t[word])
		if !ok || !bears(word, o) {
			continue
		}
		ours, ok := number(o[word])
		if !ok || upper && ours > theirs || !upper && ours < theirs {
			return fmt.Errorf("%s: %s is %v on the server", path, word, t[word])
		}
	}
	return nil
}

// bears reports whether a limit says anything of what ours accepts.
func bears(word string, o map[string]any) bool {
	if _, listed := valuesOf(o); listed {
		return false
	}
	n, ok := number(o[word])
	return !ok || n != 0 || word[:3] == "max"
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// composed compares alternatives and conjunctions.
func (c *comparison) composed(t, o map[string]any, path string) error {
	for _, all := range listOf(t, "allOf") {
		if err := c.takes(all, o, path); err != nil {
			return err
		}
	}
	branches := listOf(t, "anyOf", "oneOf")
	var last error
	for _, branch := range branches {
		if last = c.takes(branch, o, path); last == nil {
			return nil
		}
	}
	return last
}

// others are words that must be the same on both sides.
func (c *comparison) others(t, o map[string]any, path string) error {
	for _, word := range []string{
		"pattern", "multipleOf", "uniqueItems", "not", "if", "then", "else", "contains", "propertyNames", "prefixItems", "patternProperties",
		"dependentRequired", "dependentSchemas", "$ref",
	} {
		theirs, ok := t[word]
		if ok && theirs != false && !reflect.DeepEqual(theirs, o[word]) {
			return fmt.Errorf("%s: %s is %.200v on the server", path, word, theirs)
		}
	}
	return nil
}
