package constraint

import (
	"encoding/json"
	"errors"
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
		return c, fmt.Errorf("%w: %w", ErrInvalid, err)
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
			err = errors.New("unknown name: use max_rows, allowed_fields, scope or arguments")
		}
		if err != nil {
			return nacre.Constraints{}, fmt.Errorf("%w: %.80q: %w", ErrInvalid, m.Key, err)
		}
	}
	return Normalize(c)
}

func membersOf(raw json.RawMessage) ([]wire.Member, error) {
	return wire.Object(raw, wire.Limits{Message: MaxJSON, CaseSensitive: true})
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
			err = errors.New("unknown name: use allowed_keys, pinned or prefix")
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
		return nil, fmt.Errorf("use a whole number of rows from 0 to %d", MaxRows)
	}
	return &rows, nil
}

func parseText(value json.RawMessage) (string, error) {
	s, ok := wire.Text(value)
	if !ok {
		return "", errors.New("use a string")
	}
	return s, nil
}

func parseList(value json.RawMessage) ([]string, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil || items == nil {
		return nil, errors.New("use a list of strings")
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
