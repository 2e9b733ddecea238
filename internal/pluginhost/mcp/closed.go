package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/schema"
)

// maxDepth is how deep a server's schema may nest.
const maxDepth = 32

// closed returns a schema of a server as the kernel takes it: every object
// gets only the properties that it names (D-11), and optional arguments that
// cannot be closed are left out. The warnings say what was narrowed.
func closed(offered any) (json.RawMessage, []string, error) {
	raw, err := json.Marshal(offered)
	if err != nil {
		return nil, nil, err
	}
	root, err := decoded(raw)
	if err != nil {
		return nil, nil, err
	}
	var c closer
	delete(root, "$schema")
	delete(root, "$id")
	if defs, ok := root["definitions"]; ok && root["$defs"] == nil {
		root["$defs"] = defs
		delete(root, "definitions")
	}
	root["type"] = "object"
	if root["properties"] == nil {
		root["properties"] = map[string]any{} // how servers say that there are no arguments
	}
	if err := c.value(root, "arguments", 0); err != nil {
		return nil, nil, err
	}
	defs, _ := root["$defs"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if err := c.value(defs[name], "$defs."+name, 0); err != nil {
			return nil, nil, err
		}
	}
	if raw, err = json.Marshal(root); err != nil {
		return nil, nil, err
	}
	if _, err := schema.Compile(raw); err != nil {
		return nil, nil, err
	}
	return raw, c.warnings, nil
}

type closer struct{ warnings []string }

func (c *closer) warn(format string, values ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, values...))
}

// value closes a schema that stands for a value of its own.
func (c *closer) value(schema any, path string, depth int) error {
	s, ok := schema.(map[string]any)
	if !ok || len(s) == 0 {
		return fmt.Errorf("%s accepts anything", path)
	}
	if depth > maxDepth {
		return fmt.Errorf("%s: nested deeper than %d", path, maxDepth)
	}
	c.words(s, path)
	if err := bounded(s, path); err != nil {
		return err
	}
	if s["additionalProperties"] == true {
		delete(s, "additionalProperties")
	}
	if mayBeObject(s) && s["additionalProperties"] == nil && s["unevaluatedProperties"] == nil {
		word := "additionalProperties"
		if composed(s) {
			word = "unevaluatedProperties"
		}
		s[word] = false
	}
	return c.parts(s, path, depth)
}

// bounded refuses what no closing would give a meaning.
func bounded(s map[string]any, path string) error {
	types := typesOf(s)
	rest := s["additionalProperties"]
	switch {
	case types == nil && s["enum"] == nil && s["const"] == nil && s["properties"] == nil && !composed(s):
		return fmt.Errorf("%s accepts anything", path)
	case slices.Contains(types, "array") && s["items"] == nil && s["prefixItems"] == nil:
		return fmt.Errorf("%s is a list of anything", path)
	case rest != nil && rest != true && rest != false:
		return fmt.Errorf("%s is an object with any properties of a kind", path)
	case slices.Contains(types, "object") && s["properties"] == nil && s["patternProperties"] == nil && !composed(s) && rest != false:
		return fmt.Errorf("%s is an object with any properties", path)
	}
	return nil
}

// composed reports whether other schemas describe the same value.
func composed(s map[string]any) bool {
	return slices.ContainsFunc([]string{"$ref", "allOf", "anyOf", "oneOf", "if"}, func(word string) bool { return s[word] != nil })
}

// mayBeObject reports whether a schema may accept an object.
func mayBeObject(s map[string]any) bool {
	if types := typesOf(s); types != nil {
		return slices.Contains(types, "object")
	}
	if s["enum"] != nil || s["const"] != nil {
		return false
	}
	branches := listOf(s, "anyOf", "oneOf")
	return branches == nil || slices.ContainsFunc(branches, func(one any) bool {
		branch, ok := one.(map[string]any)
		return !ok || mayBeObject(branch)
	})
}

// words rewrites what 2020-12 says otherwise, and drops what nothing checks.
func (c *closer) words(s map[string]any, path string) {
	if ref, ok := s["$ref"].(string); ok {
		s["$ref"] = strings.Replace(ref, "#/definitions/", "#/$defs/", 1)
	}
	if list, ok := s["items"].([]any); ok {
		s["prefixItems"], s["items"] = list, false
		delete(s, "additionalItems")
	}
	if format, ok := s["format"]; ok && !slices.Contains([]any{"date-time", "date", "time", "email", "ipv4", "ipv6", "uri", "uuid"}, format) {
		delete(s, "format")
		c.warn("%s: the format %.40v is left to the server", path, format)
	}
}

func (c *closer) parts(s map[string]any, path string, depth int) error {
	if err := c.properties(s, path, depth); err != nil {
		return err
	}
	if items, ok := s["items"]; ok && items != false {
		if err := c.value(items, path+"[]", depth+1); err != nil {
			return err
		}
	}
	if patterns, ok := s["patternProperties"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(patterns)) {
			if err := c.value(patterns[name], path+"."+name, depth+1); err != nil {
				return err
			}
		}
	}
	for _, inner := range listOf(s, "prefixItems") {
		if err := c.value(inner, path+"[]", depth+1); err != nil {
			return err
		}
	}
	return c.branches(s, path, depth)
}

// branches closes what is inside of schemas that describe the same value.
func (c *closer) branches(s map[string]any, path string, depth int) error {
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		for _, one := range listOf(s, word) {
			branch, ok := one.(map[string]any)
			if !ok || depth > maxDepth {
				return fmt.Errorf("%s: a branch of %s accepts anything", path, word)
			}
			c.words(branch, path)
			if branch["additionalProperties"] == true {
				delete(branch, "additionalProperties")
			}
			if err := c.parts(branch, path, depth+1); err != nil {
				return err
			}
		}
	}
	if s["if"] != nil || s["not"] != nil || s["dependentSchemas"] != nil {
		return errors.New(path + ": conditions are not carried over")
	}
	return nil
}

// properties closes each property; an optional one that cannot be closed is left out.
func (c *closer) properties(s map[string]any, path string, depth int) error {
	all, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := c.value(all[name], path+"."+name, depth+1)
		if err == nil {
			continue
		}
		if slices.Contains(listOf(s, "required"), any(name)) {
			return err
		}
		delete(all, name)
		c.warn("%v: it is optional and left out", err)
	}
	return nil
}
