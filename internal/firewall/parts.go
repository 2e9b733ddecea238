package firewall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// member is a field of an object, in the order it was written.
type member struct {
	name  string
	value json.RawMessage
}

func first(raw json.RawMessage) byte {
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) > 0 {
		return trimmed[0]
	}
	return 0
}

// elements are the first elements of an array, at most limit.
func elements(raw json.RawMessage, limit int) ([]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("array: %w", err)
	}
	var all []json.RawMessage
	for len(all) < limit && d.More() {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("array: %w", err)
		}
		all = append(all, value)
	}
	return all, nil
}

// members are the first members of an object, at most limit; none of any other value.
func members(raw json.RawMessage, limit int) ([]member, error) {
	if first(raw) != '{' {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	var all []member
	for len(all) < limit && d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		m := member{name: fmt.Sprint(name)}
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		all = append(all, m)
	}
	return all, nil
}

// only keeps the named fields of an object, or of each row of an array, and
// counts the others. What has no fields cannot be checked and is left out,
// but for null.
func only(raw json.RawMessage, fields []string) (json.RawMessage, int, error) {
	if first(raw) != '[' {
		return onlyOf(raw, fields)
	}
	rows, err := elements(raw, len(raw))
	if err != nil {
		return nil, 0, err
	}
	out, dropped := []byte{'['}, 0
	for i, row := range rows {
		kept, n, err := onlyOf(row, fields)
		if err != nil {
			return nil, 0, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out, dropped = append(out, kept...), dropped+n
	}
	return append(out, ']'), dropped, nil
}

func onlyOf(raw json.RawMessage, fields []string) (json.RawMessage, int, error) {
	switch first(raw) {
	case '{':
	case 'n':
		return raw, 0, nil
	default:
		return quote("[left out: not an object, so its fields cannot be checked]"), 1, nil
	}
	all, err := members(raw, len(raw))
	if err != nil {
		return nil, 0, err
	}
	out, dropped := []byte{'{'}, 0
	for _, m := range all {
		if !slices.Contains(fields, m.name) {
			dropped++
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(m.name)...), ':'), m.value...)
	}
	return append(out, '}'), dropped, nil
}

// quote writes a string as JSON.
func quote(s string) json.RawMessage {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}
