package schema

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The keywords of a plain schema: those of every argument, and those of the whole.
var (
	plainKeys = []string{
		"additionalProperties", "default", "description", "enum", "examples", "format", "items", "maxItems", "maxLength", "maximum",
		"minItems", "minLength", "minimum", "pattern", "properties", "required", "title", "type",
	}
	plainKinds = []string{"array", "boolean", "integer", "null", "number", "object", "string"}
)

// maxPlainDigits is how long the numbers of a plain schema are, so that they are
// whole and compare as machine words.
const maxPlainDigits = 15

// isPlain reports whether a schema says so little that it can be seen here to be
// a schema: whole compilation would take it, and is left to the first arguments
// that only it can judge. It is asked about closed schemas.
func isPlain(root map[string]any) bool {
	if version, ok := root["$schema"]; ok && version != draft {
		return false
	}
	rest := maps.Clone(root)
	delete(rest, "$schema")
	return plainSchema(rest, 0)
}

func plainSchema(schema any, depth int) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth > maxSchemaDepth || !within(s, plainKeys) || !plainType(s) {
		return false
	}
	for name, value := range s {
		if !plainKeyword(name, value, depth) {
			return false
		}
	}
	value, ok := s["default"]
	return !ok || plainDefault(s, value)
}

// plainType is one type, or none where the values are listed.
func plainType(s map[string]any) bool {
	if _, ok := s["type"]; !ok {
		return s["enum"] != nil
	}
	types := typesOf(s)
	return len(types) == 1 && slices.Contains(plainKinds, types[0])
}

func plainKeyword(name string, value any, depth int) bool {
	switch name {
	case "properties":
		properties, ok := value.(map[string]any)
		for name, inner := range properties {
			ok = ok && plainName(name) && plainSchema(inner, depth+1)
		}
		return ok
	case "items":
		return plainSchema(value, depth+1)
	case "additionalProperties":
		return value == false
	case "required":
		return distinctNames(value)
	case "title", "description":
		_, ok := value.(string)
		return ok
	case "format": // one that is known, or the schema would not be closed
		_, ok := value.(string)
		return ok
	case "pattern":
		text, ok := value.(string)
		_, err := regexp.Compile(text)
		return ok && err == nil
	case "examples":
		_, ok := value.([]any)
		return ok
	case "enum":
		list, ok := value.([]any)
		return ok && len(list) > 0 && !slices.ContainsFunc(list, func(one any) bool { _, ok := one.(string); return !ok })
	case "minimum", "maximum":
		_, ok := plainNumber(value)
		return ok
	case "minLength", "maxLength", "minItems", "maxItems":
		n, ok := plainNumber(value)
		return ok && n >= 0
	}
	return name == "type" || name == "default" // which are looked at elsewhere
}

// plainName keeps what means something in a path of a schema out.
func plainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func distinctNames(value any) bool {
	list, ok := value.([]any)
	if !ok {
		return false
	}
	seen := map[string]bool{}
	for _, one := range list {
		name, ok := one.(string)
		if !ok || seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

func plainNumber(value any) (int64, bool) {
	number, ok := value.(json.Number)
	if !ok || len(number) > maxPlainDigits {
		return 0, false
	}
	n, err := strconv.ParseInt(string(number), 10, 64)
	return n, err == nil
}

// plainDefault reports whether a default is seen to be valid. One that may not
// be is for the whole schema to judge.
func plainDefault(s map[string]any, value any) bool {
	_, format := s["format"]
	_, pattern := s["pattern"]
	if format || pattern {
		return false
	}
	switch v := value.(type) {
	case nil:
		return refusesNull(s)
	case []any:
		return len(v) == 0 && s["type"] == "array" && s["enum"] == nil && s["minItems"] == nil
	case bool:
		return s["type"] == "boolean" && s["enum"] == nil
	case string:
		return s["type"] == "string" && between(s, "minLength", int64(utf8.RuneCountInString(v)), "maxLength") &&
			(s["enum"] == nil || slices.Contains(listOf(s["enum"]), any(v)))
	case json.Number:
		n, ok := plainNumber(v)
		return ok && (s["type"] == "integer" || s["type"] == "number") && s["enum"] == nil && between(s, "minimum", n, "maximum")
	}
	return false
}

// refusesNull says that null, as the default of an argument that has none, is not
// valid for sure.
func refusesNull(s map[string]any) bool {
	kind, ok := s["type"].(string)
	return ok && kind != "null" && s["enum"] == nil
}

func between(s map[string]any, low string, n int64, high string) bool {
	least, limited := plainNumber(s[low])
	if limited && n < least {
		return false
	}
	most, limited := plainNumber(s[high])
	return !limited || n <= most
}

// plainDefaults are what collect finds, of a plain schema.
func plainDefaults(s map[string]any, path string) (*defaults, []string) {
	found := &defaults{values: map[string]any{}, inside: map[string]*defaults{}}
	var warnings []string
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		switch value, ok := property["default"]; {
		case ok && value == nil && refusesNull(property):
			warnings = append(warnings, ignored(path+name))
		case ok:
			found.values[name] = value
		}
		inside, more := plainDefaults(property, path+name+".")
		warnings = append(warnings, more...)
		if len(inside.names) > 0 {
			found.inside[name] = inside
		}
		if _, ok := found.values[name]; ok || found.inside[name] != nil {
			found.names = append(found.names, name)
		}
	}
	return found, warnings
}

// plainArgument is what argument finds, of a plain schema.
func plainArgument(at map[string]any, name string) map[string]any {
	for range maxSchemaDepth {
		properties, _ := at["properties"].(map[string]any)
		if inner, ok := properties[name].(map[string]any); ok {
			return inner
		}
		if at, _ = at["items"].(map[string]any); at == nil {
			return nil
		}
	}
	return nil
}
