package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// closer checks that a schema is closed (D-11): that every object which it
// accepts, at any depth, has only properties that it names. An open object
// would carry what nobody validated, and nobody was shown, to a handler.
type closer struct {
	root map[string]any
	// seen are the references that were followed, steps what may still be looked
	// at: references can make a small schema as large as one likes.
	seen  map[string]bool
	steps int
}

func newCloser(root map[string]any) *closer {
	return &closer{root: root, seen: map[string]bool{}, steps: maxSchemaSteps}
}

// Where a schema holds others. Those of values describe what is inside of an
// instance, those in place narrow the instance itself.
var (
	valueMaps   = []string{"properties", "patternProperties"}
	valueLists  = []string{"prefixItems"}
	valueOnes   = []string{"items", "contains", "unevaluatedItems"}
	inPlaceMaps = []string{"dependentSchemas"}
	inPlaceList = []string{"allOf", "anyOf", "oneOf"}
	inPlaceOnes = []string{"if", "then", "else"}
	sizes       = []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
	unspoken    = []string{"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "definitions", "dependencies", "additionalItems"}
)

// value checks a schema that stands for a value of its own.
func (c *closer) value(schema any, path string, depth int) error {
	for _, kind := range []string{"object", "array"} {
		if !c.bounded(schema, kind, depth) {
			return fmt.Errorf("%s accepts %ss with anything in them: %s", path, kind, remedy(kind))
		}
	}
	return c.parts(schema, path, depth)
}

func remedy(kind string) string {
	if kind == "array" {
		return `give it a "type" without "array", or "items"`
	}
	return `give it a "type" without "object", or "additionalProperties": false ("unevaluatedProperties": false where schemas are composed)`
}

// bounded reports whether what a schema accepts of a kind is limited by it.
func (c *closer) bounded(schema any, kind string, depth int) bool {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema == false
	}
	if c.steps--; depth > maxSchemaDepth || c.steps < 0 {
		return false
	}
	_, enum := s["enum"]
	_, constant := s["const"]
	if types := typesOf(s); enum || constant || len(types) > 0 && !slices.Contains(types, kind) {
		return true
	}
	if kind == "object" && (s["additionalProperties"] == false || s["unevaluatedProperties"] == false) {
		return true
	}
	if _, items := s["items"]; kind == "array" && items {
		return true
	}
	every := func(name string) bool {
		list, ok := s[name].([]any)
		return ok && len(list) > 0 && !slices.ContainsFunc(list, func(one any) bool { return !c.bounded(one, kind, depth+1) })
	}
	some := slices.ContainsFunc(listOf(s["allOf"]), func(one any) bool { return c.bounded(one, kind, depth+1) })
	if some || every("anyOf") || every("oneOf") {
		return true
	}
	target, err := c.resolve(s)
	return err == nil && target != nil && c.bounded(target, kind, depth+1)
}

// parts checks the schemas inside of a schema.
func (c *closer) parts(schema any, path string, depth int) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if c.steps--; depth > maxSchemaDepth || c.steps < 0 {
		return fmt.Errorf("%s: nested deeper than %d, or too large", path, maxSchemaDepth)
	}
	if err := c.keywords(s, path, depth); err != nil {
		return err
	}
	for _, inner := range inside(s, valueMaps, valueLists, valueOnes) {
		if err := c.value(inner.schema, path+inner.path, depth+1); err != nil {
			return err
		}
	}
	for _, inner := range inside(s, inPlaceMaps, inPlaceList, inPlaceOnes) {
		if err := c.parts(inner.schema, path+inner.path, depth+1); err != nil {
			return err
		}
	}
	target, err := c.resolve(s)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	ref := fmt.Sprint(s["$ref"])
	if target == nil || c.seen[ref] {
		return nil
	}
	c.seen[ref] = true
	return c.parts(target, path, depth+1)
}

// keywords refuses what would open an object again, or mean something else than it says.
func (c *closer) keywords(s map[string]any, path string, depth int) error {
	for _, name := range []string{"additionalProperties", "unevaluatedProperties"} {
		if value, ok := s[name]; ok && value != false {
			return fmt.Errorf("%s: %q must be false", path, name)
		}
	}
	for _, name := range unspoken {
		if _, ok := s[name]; ok {
			return fmt.Errorf("%s: %q is not supported; use $defs and $ref", path, name)
		}
	}
	if _, ok := s["$id"]; ok && depth > 0 {
		return fmt.Errorf("%s: $id is for the whole schema only", path)
	}
	if format, ok := s["format"]; ok && !slices.Contains(formats, fmt.Sprint(format)) {
		return fmt.Errorf("%s: format %.40q is not checked by anything; use one of %s", path, format, strings.Join(formats, ", "))
	}
	for _, name := range sizes {
		if size, ok := s[name].(json.Number); ok && !countable(size) {
			return fmt.Errorf("%s: %s %.40s: no argument can be that large; write at most %d", path, name, size, MaxArguments)
		}
	}
	return nil
}

// maxSize is the largest size that is kept as it was written: a number of JSON
// everywhere, and a machine's word.
const maxSize = min(1<<53, math.MaxInt)

// countable says that a size is one that is kept as it was written.
func countable(size json.Number) bool {
	n, err := size.Float64()
	return err == nil && n <= maxSize
}

// resolve returns what a $ref refers to, or nil where there is none.
func (c *closer) resolve(s map[string]any) (any, error) {
	ref, ok := s["$ref"]
	if !ok {
		return nil, nil
	}
	pointer, ok := ref.(string)
	if !ok || !strings.HasPrefix(pointer, "#/$defs/") || strings.Contains(pointer, "%") {
		return nil, fmt.Errorf("$ref %.80q: refer to #/$defs/… in the same schema", ref)
	}
	_, at, err := find(c.root, pointer)
	return at, err
}

func child(at any, part string) any {
	switch v := at.(type) {
	case map[string]any:
		return v[part]
	case []any:
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

type inner struct {
	schema any
	path   string
}

// inside lists the schemas under keywords that hold maps, lists and single ones.
func inside(s map[string]any, inMaps, inLists, inOnes []string) (all []inner) {
	for _, name := range inMaps {
		m, _ := s[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			all = append(all, inner{m[key], "." + key})
		}
	}
	for _, name := range inLists {
		for i, one := range listOf(s[name]) {
			all = append(all, inner{one, fmt.Sprintf("/%s[%d]", name, i)})
		}
	}
	for _, name := range inOnes {
		if one, ok := s[name]; ok {
			all = append(all, inner{one, "/" + name})
		}
	}
	return all
}

func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}

// typesOf lists the types that a schema names; none where it names none, or nonsense.
func typesOf(s map[string]any) (types []string) {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			name, ok := one.(string)
			if !ok {
				return nil
			}
			types = append(types, name)
		}
	case json.Number:
	}
	return types
}
