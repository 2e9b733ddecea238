package httpdriver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/nacre-dev/nacre/internal/wire"
)

// filled is a request with the arguments in their places.
type filled struct {
	url  string
	body []byte // nil means none
}

// fill puts arguments into their places. Every error is for whoever called,
// and quotes no value.
func (e *endpoint) fill(raw json.RawMessage) (filled, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	members, err := wire.Object(raw, wire.Limits{Message: wire.MaxCanonical, String: wire.MaxCanonical})
	if err != nil {
		return filled{}, fmt.Errorf("arguments: %w", err)
	}
	arguments := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		if _, secret := e.hidden[m.Key]; secret || !e.places[m.Key] && !e.rest {
			return filled{}, fmt.Errorf("argument %.80q has no place in the request", m.Key)
		}
		arguments[m.Key] = m.Value
	}
	target, err := e.target(arguments)
	if err != nil || e.body == nil {
		return filled{url: target}, err
	}
	document, _ := e.place(e.body, arguments)
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return filled{}, fmt.Errorf("body: %w", err)
	}
	return filled{url: target, body: bytes.TrimSpace(body.Bytes())}, nil
}

// target makes the URL: the declared origin, then escaped text only.
func (e *endpoint) target(arguments map[string]json.RawMessage) (string, error) {
	if len(e.hidden) > 0 {
		arguments = maps.Clone(arguments)
		for name, value := range e.hidden {
			arguments[name] = wire.AppendText(nil, value.Reveal())
		}
	}
	var b strings.Builder
	b.WriteString(e.origin)
	for _, segment := range e.path {
		text, err := fillSegment(segment, arguments)
		if err != nil {
			return "", err
		}
		b.WriteByte('/')
		b.WriteString(text)
	}
	separator := byte('?')
	for _, p := range e.query {
		values, err := p.fill(arguments)
		if err != nil {
			return "", err
		}
		for _, value := range values {
			b.WriteByte(separator)
			b.WriteString(url.QueryEscape(p.key) + "=" + url.QueryEscape(value))
			separator = '&'
		}
	}
	if b.Len() > maxURL {
		return "", fmt.Errorf("the URL would be %d bytes, the limit is %d", b.Len(), maxURL)
	}
	return b.String(), nil
}

func fillSegment(t template, arguments map[string]json.RawMessage) (string, error) {
	var b strings.Builder
	for i, part := range t {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		text, err := scalar(part, arguments[part])
		if err != nil {
			return "", err
		}
		if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "", fmt.Errorf("argument %s must not be empty or hold control characters: it is part of a path", part)
		}
		b.WriteString(url.PathEscape(text))
	}
	filled := b.String()
	if len(t) > 1 && climbs(filled) {
		return "", fmt.Errorf("argument %s must not climb: it is part of a path", t[1])
	}
	return filled, nil
}

// climbs reports whether a segment is, or is to a server that unescapes twice
// or takes a backslash for a slash, a step up or on the spot.
func climbs(segment string) bool {
	for range 3 {
		for _, part := range strings.FieldsFunc(segment, func(r rune) bool { return r == '/' || r == '\\' || r == ';' }) {
			if part == "." || part == ".." {
				return true
			}
		}
		unescaped, err := url.PathUnescape(segment)
		if err != nil || unescaped == segment {
			return false
		}
		segment = unescaped
	}
	return true // escaped over and over: nobody needs that
}

// fill gives the parameter's values: none where its argument is absent.
func (p parameter) fill(arguments map[string]json.RawMessage) ([]string, error) {
	if len(p.value) == 3 && p.value[0] == "" && p.value[2] == "" {
		return list(p.value[1], arguments[p.value[1]])
	}
	var b strings.Builder
	for i, part := range p.value {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		text, err := scalar(part, arguments[part])
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	return []string{b.String()}, nil
}

func list(name string, value json.RawMessage) ([]string, error) {
	if len(value) == 0 {
		return nil, nil
	}
	if value[0] != '[' {
		text, err := scalar(name, value)
		return []string{text}, err
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(value, &elements); err != nil {
		return nil, fmt.Errorf("argument %s: not a list", name)
	}
	all := make([]string, 0, len(elements))
	for _, element := range elements {
		text, err := scalar(name, element)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// scalar is a string's text, or a number or truth value as written.
func scalar(name string, value json.RawMessage) (string, error) {
	if len(value) == 0 {
		return "", fmt.Errorf("argument %s is missing: it is part of the URL", name)
	}
	switch value[0] {
	case '"':
		if text, ok := wire.Text(value); ok {
			return text, nil
		}
	case '{', '[', 'n':
	default:
		return string(value), nil
	}
	return "", fmt.Errorf("argument %s must be a string, a number or true or false: it is part of the URL", name)
}

// place copies a body with the arguments in it; ok is false where the value is
// a place whose argument is absent.
func (e *endpoint) place(value any, arguments map[string]json.RawMessage) (placed any, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		made := make(map[string]any, len(v))
		for key, inner := range v {
			if placed, ok := e.place(inner, arguments); ok {
				made[key] = placed
			}
		}
		return made, true
	case []any:
		made := make([]any, 0, len(v))
		for _, inner := range v {
			if placed, ok := e.place(inner, arguments); ok {
				made = append(made, placed)
			}
		}
		return made, true
	case string:
		return e.placeText(v, arguments)
	}
	return value, true
}

func (e *endpoint) placeText(text string, arguments map[string]json.RawMessage) (any, bool) {
	if text == Rest {
		made := map[string]json.RawMessage{}
		for name, value := range arguments {
			if !e.places[name] {
				made[name] = value
			}
		}
		return made, true
	}
	if name, place := placeOf(text); place {
		value, ok := arguments[name]
		return value, ok
	}
	return text, true
}

// decode keeps numbers as they are spelled.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	err := d.Decode(&value)
	return value, err
}
