package mcpdriver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/schema"
)

// maxSchemaDepth is how deep schemas may nest.
const maxSchemaDepth = 32

// closer closes a schema that a server left open: every object gets only the
// properties that it names (D-11). It narrows, and says what it did.
type closer struct{ warnings []string }

// closed returns a schema that the kernel accepts. What cannot be closed
// without losing a required argument is an error.
func closed(input any) (json.RawMessage, []string, error) {
	root, ok := clone(input).(map[string]any)
	if !ok {
		return nil, nil, errors.New("the input schema is not an object")
	}
	var c closer
	if err := c.speak(root); err != nil {
		return nil, nil, err
	}
	if _, typed := root["type"]; !typed {
		root["type"] = "object"
	}
	_, named := root["properties"]
	if _, declared := root["additionalProperties"]; !named && !declared && !composed(root) {
		root["properties"] = map[string]any{} // how servers say that there are no arguments
	}
	if err := c.value(root, "arguments", 0); err != nil {
		return nil, nil, err
	}
	defs, _ := root["$defs"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if err := c.parts(defs[name], "$defs."+name, 0); err != nil {
			return nil, nil, err
		}
	}
	raw, err := json.Marshal(root)
	if err != nil {
		return nil, nil, err
	}
	if _, err := schema.Compile(raw); err != nil {
		return nil, nil, err
	}
	return raw, c.warnings, nil
}

// speak turns older drafts' words into those of 2020-12 where they mean the same.
func (c *closer) speak(root map[string]any) error {
	version, _ := root["$schema"].(string)
	switch strings.TrimSuffix(version, "#") {
	case "", "https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
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

func (c *closer) warn(format string, values ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, values...))
}

// composed reports whether other schemas describe the same value, so that
// additionalProperties would not see the properties that they name.
func composed(s map[string]any) bool {
	for _, word := range []string{"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"} {
		if _, ok := s[word]; ok {
			return true
		}
	}
	return false
}

// value closes a schema that stands for a value of its own.
func (c *closer) value(schema any, path string, depth int) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%s accepts anything", path)
	}
	if err := bounded(s, path); err != nil {
		return err
	}
	if s["additionalProperties"] == true {
		delete(s, "additionalProperties")
	}
	if mayBeObject(s) && s["additionalProperties"] != false && s["unevaluatedProperties"] != false {
		word := "additionalProperties"
		if composed(s) {
			word = "unevaluatedProperties"
		}
		s[word] = false
		c.warn("%s is open; closed to the properties that it names", path)
	}
	return c.parts(s, path, depth)
}

// bounded refuses what no closing would give a meaning: anything at all, a
// list of anything, an object whose properties have no names.
func bounded(s map[string]any, path string) error {
	_, items := s["items"]
	_, prefix := s["prefixItems"]
	_, named := s["properties"]
	_, patterns := s["patternProperties"]
	rest, declared := s["additionalProperties"]
	switch {
	case typeless(s) && !named && !composed(s):
		return fmt.Errorf("%s accepts anything", path)
	case has(s, "array") && !items && !prefix:
		return fmt.Errorf("%s is a list of anything", path)
	case declared && rest != false && rest != true:
		return fmt.Errorf("%s is an object with any properties of a kind", path)
	case has(s, "object") && !named && !patterns && !composed(s) && rest != false:
		return fmt.Errorf("%s is an object with any properties", path)
	}
	return nil
}

func typeless(s map[string]any) bool {
	for _, word := range []string{"type", "enum", "const"} {
		if _, ok := s[word]; ok {
			return false
		}
	}
	return true
}

// mayBeObject reports whether a schema may accept an object.
func mayBeObject(s map[string]any) bool {
	if !typeless(s) {
		return has(s, "object")
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
func (c *closer) parts(schema any, path string, depth int) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if depth > maxSchemaDepth {
		return fmt.Errorf("%s: nested deeper than %d", path, maxSchemaDepth)
	}
	c.words(s, path)
	if err := c.properties(s, path, depth); err != nil {
		return err
	}
	for _, inner := range inside(s, "items", "contains", "prefixItems", "patternProperties") {
		if inner.schema == false {
			continue
		}
		if err := c.value(inner.schema, path+inner.path, depth+1); err != nil {
			return err
		}
	}
	for _, inner := range inside(s, "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas") {
		if err := c.branch(inner.schema, path+inner.path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// branch closes what is inside of a schema for a value that another one closes.
func (c *closer) branch(schema any, path string, depth int) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if s["additionalProperties"] == true {
		delete(s, "additionalProperties")
	}
	return c.parts(s, path, depth)
}

// properties closes each property; an optional one that cannot be closed is left out.
func (c *closer) properties(s map[string]any, path string, depth int) error {
	all, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := c.value(all[name], path+"."+name, depth+1)
		if err == nil {
			continue
		}
		if slices.Contains(required, any(name)) {
			return err
		}
		delete(all, name)
		c.warn("%v; it is optional and left out", err)
	}
	return nil
}

// words rewrites what 2020-12 says otherwise, and drops formats that nothing checks.
func (c *closer) words(s map[string]any, path string) {
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
	if format, ok := s["format"].(string); ok && !slices.Contains(checkedFormats, format) {
		delete(s, "format")
		c.warn("%s: nothing checks the format %.40q", path, format)
	}
}

// checkedFormats are those that the kernel's schemas check.
var checkedFormats = []string{
	"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "iri",
	"iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
}

// has reports whether a schema's type names kind.
func has(s map[string]any, kind string) bool {
	if list, ok := s["type"].([]any); ok {
		return slices.Contains(list, any(kind))
	}
	return s["type"] == kind
}

type inner struct {
	schema any
	path   string
}

// inside lists the schemas under keywords that hold one, a list or a map of them.
func inside(s map[string]any, words ...string) (all []inner) {
	for _, word := range words {
		switch v := s[word].(type) {
		case nil:
		case []any:
			for i, one := range v {
				all = append(all, inner{one, fmt.Sprintf("/%s[%d]", word, i)})
			}
		case map[string]any:
			if word != "patternProperties" && word != "dependentSchemas" {
				all = append(all, inner{v, "/" + word})
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				all = append(all, inner{v[key], "/" + word + "." + key})
			}
		default:
			all = append(all, inner{v, "/" + word})
		}
	}
	return all
}

// clone copies what was decoded from JSON.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		own := make(map[string]any, len(v))
		for key, inner := range v {
			own[key] = clone(inner)
		}
		return own
	case []any:
		own := make([]any, len(v))
		for i, inner := range v {
			own[i] = clone(inner)
		}
		return own
	}
	return value
}
