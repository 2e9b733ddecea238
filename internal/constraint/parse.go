package constraint

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// MaxJSON is the size of constraints as JSON, in bytes.
const MaxJSON = 64 << 10

// Parse reads constraints as they stand in a file or a request, and returns
// them as Normalize does. Unknown and repeated names, other types and null
// members are an ErrInvalid, since what is not understood cannot be held.
// Nothing at all and null narrow nothing.
func Parse(raw json.RawMessage) (c nacre.Constraints, err error) {
	if s := strings.TrimSpace(string(raw)); s == "" || s == "null" {
		return c, nil
	}
	members, err := membersOf(raw)
	if err != nil {
		return c, err
	}
	for _, m := range members {
		switch m.Key {
		case "max_rows":
			c.MaxRows, err = parseRows(m.Value)
		case "allowed_fields":
			c.AllowedFields, err = parseList(m.Value)
		case "scope":
			c.Scope, err = parseMap(m.Value, parseText)
		case "arguments":
			c.Arguments, err = parseLimits(m.Value)
		default:
			err = fmt.Errorf("%w: unknown name: use max_rows, allowed_fields, scope or arguments", ErrInvalid)
		}
		if err != nil {
			return nacre.Constraints{}, fmt.Errorf("%.80q: %w", m.Key, err)
		}
	}
	return Normalize(c)
}

func membersOf(raw json.RawMessage) ([]wire.Member, error) {
	members, err := wire.Object(raw, wire.Limits{Message: MaxJSON, CaseSensitive: true})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return members, nil
}

func parseLimits(raw json.RawMessage) (a nacre.ArgumentLimits, err error) {
	members, err := membersOf(raw)
	if err != nil {
		return a, err
	}
	for _, m := range members {
		switch m.Key {
		case "allowed_keys":
			a.AllowedKeys, err = parseList(m.Value)
		case "pinned":
			a.Pinned, err = parseMap(m.Value, func(value json.RawMessage) (json.RawMessage, error) { return value, nil })
		case "prefix":
			a.Prefix, err = parseMap(m.Value, parseText)
		default:
			err = fmt.Errorf("%w: unknown name: use allowed_keys, pinned or prefix", ErrInvalid)
		}
		if err != nil {
			return nacre.ArgumentLimits{}, fmt.Errorf("%.80q: %w", m.Key, err)
		}
	}
	return a, nil
}

// parseRows takes 50.0, too, which some encoders make of 50.
func parseRows(value json.RawMessage) (*int, error) {
	whole, fraction, _ := strings.Cut(string(value), ".")
	rows, err := strconv.Atoi(whole)
	if err != nil || strings.Trim(fraction, "0") != "" || rows < 0 || rows > MaxRows {
		return nil, fmt.Errorf("%w: use a whole number of rows from 0 to %d", ErrInvalid, MaxRows)
	}
	return &rows, nil
}

func parseText(value json.RawMessage) (string, error) {
	s, ok := wire.Text(value)
	if !ok {
		return "", fmt.Errorf("%w: use a string", ErrInvalid)
	}
	return s, nil
}

func parseList(value json.RawMessage) ([]string, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil || items == nil {
		return nil, fmt.Errorf("%w: use a list of strings", ErrInvalid)
	}
	list := make([]string, len(items))
	for i, item := range items {
		var err error
		if list[i], err = parseText(item); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseMap[V any](raw json.RawMessage, parse func(json.RawMessage) (V, error)) (map[string]V, error) {
	members, err := membersOf(raw)
	if err != nil {
		return nil, err
	}
	all := make(map[string]V, len(members))
	for _, m := range members {
		if all[m.Key], err = parse(m.Value); err != nil {
			return nil, fmt.Errorf("%.80q: %w", m.Key, err)
		}
	}
	return all, nil
}
