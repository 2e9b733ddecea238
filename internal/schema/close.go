package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Close narrows a schema that somebody else left open until [Compile] takes it. Every object gets
// only the properties that it names (D-11), and older drafts' words become those of 2020-12.
// Optional arguments that cannot be closed are left out. The warnings say what was narrowed. What
// cannot be closed without losing a required argument is an error.
func Close(offered any) (raw json.RawMessage, warnings []string, err error) {
	root, err := ownCopy(offered)
	if err != nil {
		return nil, nil, err
	}
	if err := modern(root); err != nil {
		return nil, nil, err
	}
	if types := typesOf(root); root["type"] == nil || slices.Contains(types, "object") {
		root["type"] = "object"
	}
	_, named := root["properties"]
	if _, declared := root["additionalProperties"]; !named && !declared && !composed(root) {
		root["properties"] = map[string]any{} // how servers say that there are no arguments
	}
	var n narrowing
	if err := n.value(root, "arguments", 0); err != nil {
		return nil, nil, err
	}
	defs, _ := root["$defs"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if err := n.parts(defs[name], "$defs."+name, 0); err != nil {
			return nil, nil, err
		}
	}
	if raw, err = json.Marshal(root); err != nil {
		return nil, nil, err
	}
	_, err = Compile(raw)
	return raw, n.warnings, err
}

func ownCopy(offered any) (map[string]any, error) {
	raw, err := json.Marshal(offered)
	if err != nil {
		return nil, err
	}
	value, err := decode(raw)
	root, ok := value.(map[string]any)
	if err == nil && !ok {
		err = errors.New("the input schema is not an object")
	}
	return root, err
}

// modern turns older drafts' words into those of 2020-12 where they mean the same.
func modern(root map[string]any) error {
	version, _ := root["$schema"].(string)
	switch strings.TrimSuffix(version, "#") {
	case "", draft, "https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-06/schema":
	default:
		return fmt.Errorf("$schema %.80q is not spoken", version)
	}
	delete(root, "$schema")
	delete(root, "$id")
	if definitions, ok := root["definitions"]; ok {
		if _, both := root["$defs"]; both {
			return errors.New(`both "definitions" and "$defs"`)
		}
		root["$defs"] = definitions
		delete(root, "definitions")
	}
	return nil
}

// narrowing closes schemas in place, and remembers what it did.
type narrowing struct{ warnings []string }

func (n *narrowing) warn(format string, values ...any) {
	n.warnings = append(n.warnings, fmt.Sprintf(format, values...))
}

// value closes a schema that stands for a value of its own.
func (n *narrowing) value(schema any, path string, depth int) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%s accepts anything", path)
	}
	if err := meant(s, path); err != nil {
		return err
	}
	open(s)
	if mayBeObject(s) && s["additionalProperties"] != false && s["unevaluatedProperties"] != false {
		word := "additionalProperties"
		if composed(s) {
			word = "unevaluatedProperties"
		}
		s[word] = false
		n.warn("%s is open; closed to the properties that it names", path)
	}
	return n.parts(s, path, depth)
}

// open drops the word that says of an object what is so without it.
func open(s map[string]any) {
	if s["additionalProperties"] == true {
		delete(s, "additionalProperties")
	}
}

// meant refuses what no closing would give a meaning: anything at all, a list of
// anything, an object whose properties have no names.
func meant(s map[string]any, path string) error {
	_, items := s["items"]
	_, prefix := s["prefixItems"]
	_, named := s["properties"]
	_, patterns := s["patternProperties"]
	rest, declared := s["additionalProperties"]
	switch {
	case typeless(s) && !named && !composed(s):
		return fmt.Errorf("%s accepts anything", path)
	case slices.Contains(typesOf(s), "array") && !items && !prefix:
		return fmt.Errorf("%s is a list of anything", path)
	case declared && rest != false && rest != true:
		return fmt.Errorf("%s is an object with any properties of a kind", path)
	case slices.Contains(typesOf(s), "object") && !named && !patterns && !composed(s) && rest != false:
		return fmt.Errorf("%s is an object with any properties", path)
	}
	return nil
}

// composed reports whether other schemas describe the same value, so that
// additionalProperties would not see the properties that they name.
func composed(s map[string]any) bool {
	return hasAny(s, "$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
}

func typeless(s map[string]any) bool { return !hasAny(s, "type", "enum", "const") }

func hasAny(s map[string]any, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { _, ok := s[word]; return ok })
}

// mayBeObject reports whether a schema may accept an object.
func mayBeObject(s map[string]any) bool {
	if !typeless(s) {
		return slices.Contains(typesOf(s), "object")
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		list, ok := s[word].([]any)
		if ok && !slices.ContainsFunc(list, func(one any) bool {
			branch, ok := one.(map[string]any)
			return !ok || mayBeObject(branch)
		}) {
			return false
		}
	}
	return true
}

// parts closes the schemas inside of a schema.
func (n *narrowing) parts(schema any, path string, depth int) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if depth > maxSchemaDepth {
		return fmt.Errorf("%s: nested deeper than %d", path, maxSchemaDepth)
	}
	n.words(s, path)
	if err := n.properties(s, path, depth); err != nil {
		return err
	}
	for _, inner := range inside(s, []string{"patternProperties"}, valueLists, []string{"items", "contains"}) {
		if inner.schema == false {
			continue
		}
		if err := n.value(inner.schema, path+inner.path, depth+1); err != nil {
			return err
		}
	}
	for _, inner := range inside(s, inPlaceMaps, inPlaceList, inPlaceOnes) {
		branch, ok := inner.schema.(map[string]any)
		if !ok {
			continue
		}
		open(branch) // another schema closes the value that it is about
		if err := n.parts(branch, path+inner.path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// properties closes each property; an optional one that cannot be closed is left out.
func (n *narrowing) properties(s map[string]any, path string, depth int) error {
	all, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := n.value(all[name], path+"."+name, depth+1)
		if err == nil {
			continue
		}
		if slices.Contains(listOf(s["required"]), any(name)) {
			return err
		}
		delete(all, name)
		n.warn("%v; it is optional and left out", err)
	}
	return nil
}

// words rewrites what 2020-12 says otherwise, and drops formats that nothing checks.
func (n *narrowing) words(s map[string]any, path string) {
	if ref, ok := s["$ref"].(string); ok {
		if name, old := strings.CutPrefix(ref, "#/definitions/"); old {
			s["$ref"] = "#/$defs/" + name
		}
	}
	if list, ok := s["items"].([]any); ok {
		s["prefixItems"], s["items"] = list, false
		if more, ok := s["additionalItems"].(map[string]any); ok {
			s["items"] = more
		}
		delete(s, "additionalItems")
	}
	if format, ok := s["format"].(string); ok && !slices.Contains(formats, format) {
		delete(s, "format")
		n.warn("%s: nothing checks the format %.40q", path, format)
	}
}
