package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// kinds are the types of JSON Schema.
func kinds() []string {
	return []string{"array", "boolean", "integer", "null", "number", "object", "string"}
}

// keyword compiles one of a schema's keywords. One that JSON Schema does not
// know says nothing.
func (b *builder) keyword(r *rules, s map[string]any, name string) error {
	value := s[name]
	switch name {
	case "title", "description", "$comment", "contentEncoding", "contentMediaType":
		return r.text(name, value)
	case "$id", "$schema":
		return r.address(name, value)
	case "deprecated", "readOnly", "writeOnly":
		return r.truth(name, value)
	case "examples":
		if _, ok := value.([]any); !ok {
			return r.wrong(name, "a list")
		}
	case "default":
		r.fallback = &value
	case "$vocabulary":
		return r.vocabulary(value)
	case "type":
		return r.types(value)
	case "enum", "const":
		return r.listed(name, value)
	case "format":
		return b.formatted(r, value)
	case "$ref":
		target, err := b.reference(r, value)
		r.ref = target
		return err
	case "$defs", "definitions":
		_, err := b.named(r, name, value)
		return err
	case "contentSchema":
		_, err := b.part(r, value, name)
		return err
	case "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "dependencies", "additionalItems":
		if b.older && name[0] != '$' {
			return b.olderWord(r, s, name)
		}
		return fmt.Errorf("%s: %q is not supported; use $defs and $ref", place(r.at), name)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return r.limit(name, value)
	case "pattern":
		return r.pattern(value)
	case "required", "dependentRequired", "uniqueItems":
		return r.needs(name, value)
	default:
		if slices.Contains(sizes, name) {
			return r.size(name, value)
		}
		return b.inside(r, s, name, value)
	}
	return nil
}

// inside compiles the keywords that hold schemas.
func (b *builder) inside(r *rules, s map[string]any, name string, value any) (err error) {
	switch name {
	case "properties":
		r.object.properties, err = b.named(r, name, value)
	case "patternProperties":
		err = b.patterns(r, value)
	case "additionalProperties":
		r.object.additional, err = b.part(r, value, name)
	case "propertyNames":
		r.object.names, err = b.part(r, value, name)
	case "prefixItems":
		r.array.prefix, err = b.parts(r, name, value)
	case "items":
		if _, list := value.([]any); list && b.older {
			return b.olderWord(r, s, name)
		} else if list {
			return r.wrong(name, "one schema; use prefixItems for a list of them")
		}
		r.array.items, err = b.part(r, value, name)
	case "contains":
		err = b.contains(r, s, value)
	case "unevaluatedProperties":
		r.rest.properties, err = b.part(r, value, name)
	case "unevaluatedItems":
		r.rest.items, err = b.part(r, value, name)
	case "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas":
		err = b.combine(r, s, name, value)
	}
	return err
}

func (r *rules) text(name string, value any) error {
	if _, ok := value.(string); !ok {
		return r.wrong(name, "a text")
	}
	return nil
}

func (r *rules) truth(name string, value any) error {
	if _, ok := value.(bool); !ok {
		return r.wrong(name, "true or false")
	}
	return nil
}

// address checks what names a schema. Nothing is loaded from it.
func (r *rules) address(name string, value any) error {
	text, ok := value.(string)
	if !ok {
		return r.wrong(name, "a text")
	}
	address, err := url.Parse(text)
	if err != nil || name == "$schema" && !address.IsAbs() || name == "$id" && address.Fragment != "" {
		return r.wrong(name, "the address of a schema")
	}
	return nil
}

func (r *rules) vocabulary(value any) error {
	object, ok := value.(map[string]any)
	for _, used := range object {
		_, truth := used.(bool)
		ok = ok && truth
	}
	if !ok {
		return r.wrong("$vocabulary", "an object of true and false")
	}
	return nil
}

func (r *rules) types(value any) error {
	list, ok := value.([]any)
	if name, one := value.(string); one {
		list, ok = []any{name}, true
	}
	for _, one := range list {
		name, isText := one.(string)
		if !isText || !slices.Contains(kinds(), name) || slices.Contains(r.kinds, name) {
			ok = false
			break
		}
		r.kinds = append(r.kinds, name)
	}
	if !ok || len(r.kinds) == 0 {
		return r.wrong("type", "one of "+strings.Join(kinds(), ", ")+", or a list of them, each once")
	}
	return nil
}

func (r *rules) listed(name string, value any) error {
	list, ok := value.([]any)
	if name == "const" {
		list, ok = []any{value}, true
	}
	if !ok {
		return r.wrong(name, "a list")
	}
	v := values{word: name, known: map[string]bool{}, shown: list}
	for _, one := range list {
		v.known[keyOf(one)] = true
	}
	r.values = append(r.values, v)
	return nil
}

func (b *builder) formatted(r *rules, value any) error {
	name, ok := value.(string)
	if !ok {
		return r.wrong("format", "a text")
	}
	if slices.Contains(formats, name) {
		r.format = name
		r.reads++
	} else if !b.open {
		return r.wrong("format", "checked by anything")
	}
	return nil
}

// numberOf reads a number exactly. What it is spelled with is limited by package wire.
func numberOf(value any) (*big.Rat, bool) {
	spelled, ok := value.(json.Number)
	if !ok {
		return nil, false
	}
	return new(big.Rat).SetString(string(spelled))
}

func (r *rules) limit(name string, value any) error {
	limit, ok := numberOf(value)
	if !ok {
		return r.wrong(name, "a number")
	}
	if name == "multipleOf" && limit.Sign() <= 0 {
		return r.wrong(name, "more than zero")
	}
	holds := map[string]func(int) bool{
		"minimum": func(c int) bool { return c >= 0 }, "maximum": func(c int) bool { return c <= 0 },
		"exclusiveMinimum": func(c int) bool { return c > 0 }, "exclusiveMaximum": func(c int) bool { return c < 0 },
	}[name]
	r.checks = append(r.checks, func(j *judge, value any) *finding {
		n, ok := numberOf(value)
		switch {
		case !ok:
			return nil
		case holds == nil && new(big.Rat).Quo(n, limit).IsInt(), holds != nil && holds(n.Cmp(limit)):
			return nil
		}
		return j.say(r, name, func() string { return fmt.Sprintf("%s: got %.80v, want %.80v", name, value, limitText(limit)) })
	})
	return nil
}

// limitText is a number as people write it, where that is exact.
func limitText(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	if digits, exact := n.FloatPrec(); exact && digits <= maxDigits {
		return n.FloatString(digits)
	}
	return n.RatString()
}

// maxDigits after the point are written in a message.
const maxDigits = 40

func (r *rules) pattern(value any) error {
	text, ok := value.(string)
	if !ok {
		return r.wrong("pattern", "a text")
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return fmt.Errorf("%s: pattern: %w", place(r.at), err)
	}
	r.reads++
	r.checks = append(r.checks, func(j *judge, value any) *finding {
		if s, ok := value.(string); !ok || pattern.MatchString(s) {
			return nil
		}
		return j.say(r, "pattern", func() string { return fmt.Sprintf("%s does not match pattern %.100q", shown(value), text) })
	})
	return nil
}

func (b *builder) patterns(r *rules, value any) error {
	all, err := b.named(r, "patternProperties", value)
	for text, inner := range all {
		names, failed := regexp.Compile(text)
		if failed != nil {
			return fmt.Errorf("%s: patternProperties: %w", place(r.at), failed)
		}
		r.object.patterns = append(r.object.patterns, patternRules{names, inner})
	}
	return err
}

// sizeOf reads a size.
func (r *rules) sizeOf(name string, value any) (int, error) {
	n, ok := numberOf(value)
	if !ok || !n.IsInt() || n.Sign() < 0 {
		return 0, r.wrong(name, "a whole number, zero or more")
	}
	if !n.Num().IsInt64() || n.Num().Int64() > maxSize {
		return 0, fmt.Errorf("%s: %s %.40v: no argument can be that large; write at most %d", place(r.at), name, value, MaxArguments)
	}
	return int(n.Num().Int64()), nil
}

// stringList reads a list of texts, each of which is there once.
func (r *rules) stringList(name string, value any) ([]string, error) {
	list, ok := value.([]any)
	var all []string
	seen := map[string]bool{}
	for _, one := range list {
		text, isText := one.(string)
		ok = ok && isText && !seen[text]
		seen[text] = true
		all = append(all, text)
	}
	if !ok {
		return nil, r.wrong(name, "a list of names, each once")
	}
	return all, nil
}
