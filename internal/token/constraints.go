package token

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// ErrConstraint is a constraint that cannot be held, or two that nothing can
// meet. Its reason code is nacre.ReasonInvalidConstraint.
var ErrConstraint = fmt.Errorf("%w: constraint", ErrMalformed)

// ParseConstraints reads constraints as they stand in a file or a request.
// Unknown and repeated names, other types and null members are refused, since
// what is not understood cannot be held. Nothing at all and null narrow nothing.
func ParseConstraints(raw json.RawMessage) (c nacre.Constraints, err error) {
	if isNull(raw) {
		return c, nil
	}
	members, err := membersOf(raw)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrConstraint, err)
	}
	for _, m := range members {
		switch m.name {
		case "max_rows":
			c.MaxRows, err = parseRows(m.value)
		case "allowed_fields":
			c.AllowedFields, err = parseList(m.value)
		case "scope":
			c.Scope, err = parseStrings(m.value)
		case "arguments":
			c.Arguments, err = parseLimits(m.value)
		default:
			err = fmt.Errorf("%w: unknown name: use max_rows, allowed_fields, scope or arguments", ErrConstraint)
		}
		if err != nil {
			return nacre.Constraints{}, fmt.Errorf("%.80q: %w", m.name, err)
		}
	}
	return c, nil
}

// ParseArgumentLimits reads limits on arguments as strictly as ParseConstraints.
func ParseArgumentLimits(raw json.RawMessage) (nacre.ArgumentLimits, error) {
	if isNull(raw) {
		return nacre.ArgumentLimits{}, nil
	}
	return parseLimits(raw)
}

func isNull(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s == "" || s == "null"
}

func parseLimits(raw json.RawMessage) (a nacre.ArgumentLimits, err error) {
	members, err := membersOf(raw)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrConstraint, err)
	}
	for _, m := range members {
		switch m.name {
		case "allowed_keys":
			a.AllowedKeys, err = parseList(m.value)
		case "pinned":
			a.Pinned, err = parsePinned(m.value)
		case "prefix":
			a.Prefix, err = parseStrings(m.value)
		default:
			err = fmt.Errorf("%w: unknown name: use allowed_keys, pinned or prefix", ErrConstraint)
		}
		if err != nil {
			return nacre.ArgumentLimits{}, fmt.Errorf("%.80q: %w", m.name, err)
		}
	}
	return a, checkPrefixes(a.Prefix)
}

func parseRows(value json.RawMessage) (*int, error) {
	rows, err := strconv.Atoi(string(value))
	if err != nil || rows < 0 || rows > maxNumber {
		return nil, fmt.Errorf("%w: use a whole number of rows from 0 to %d", ErrConstraint, maxNumber)
	}
	return &rows, nil
}

func parseList(value json.RawMessage) ([]string, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(value, &items); err != nil || items == nil {
		return nil, fmt.Errorf("%w: use a list of strings", ErrConstraint)
	}
	list := make([]string, len(items))
	for i, item := range items {
		if item[0] != '"' || json.Unmarshal(item, &list[i]) != nil {
			return nil, fmt.Errorf("%w: use a list of strings only", ErrConstraint)
		}
	}
	return list, nil
}

func parseStrings(value json.RawMessage) (map[string]string, error) {
	members, err := membersOf(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConstraint, err)
	}
	m := make(map[string]string, len(members))
	for _, member := range members {
		var s string
		if member.value[0] != '"' || json.Unmarshal(member.value, &s) != nil {
			return nil, fmt.Errorf("%w: %.80q must be a string", ErrConstraint, member.name)
		}
		m[member.name] = s
	}
	return m, nil
}

func parsePinned(value json.RawMessage) (map[string]json.RawMessage, error) {
	members, err := membersOf(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConstraint, err)
	}
	m := make(map[string]json.RawMessage, len(members))
	for _, member := range members {
		m[member.name] = member.value
	}
	return m, nil
}

// tidy returns constraints that share no memory with c and are in the form in
// which they are signed, or an error where they cannot be held.
func tidy(c nacre.Constraints) (nacre.Constraints, error) {
	if c.IsZero() {
		return c, nil
	}
	c = c.Clone()
	if c.MaxRows != nil && (*c.MaxRows < 0 || *c.MaxRows > maxNumber) {
		return c, fmt.Errorf("%w: %d rows: use 0–%d", ErrConstraint, *c.MaxRows, maxNumber)
	}
	for key, value := range c.Arguments.Pinned {
		canonical, err := canonicalJSON(value)
		if err != nil {
			return c, fmt.Errorf("%w: pinned argument %.80q: %w", ErrConstraint, key, err)
		}
		c.Arguments.Pinned[key] = canonical
	}
	if err := checkText(c); err != nil {
		return c, err
	}
	return c, checkPrefixes(c.Arguments.Prefix)
}

// checkText refuses strings that a journey as JSON would change.
func checkText(c nacre.Constraints) error {
	lists := [][]string{
		c.AllowedFields, c.Arguments.AllowedKeys,
		slices.Collect(maps.Keys(c.Arguments.Pinned)),
		slices.Collect(maps.Keys(c.Scope)), slices.Collect(maps.Values(c.Scope)),
		slices.Collect(maps.Keys(c.Arguments.Prefix)), slices.Collect(maps.Values(c.Arguments.Prefix)),
	}
	for _, list := range lists {
		for _, s := range list {
			if !utf8.ValidString(s) {
				return fmt.Errorf("%w: %.80q is not UTF-8", ErrConstraint, s)
			}
		}
	}
	return nil
}

// Narrow returns what both a and b allow, and shares no memory with them. Two
// that nothing can meet together, such as two values pinned for one argument,
// are an ErrConstraint.
func Narrow(a, b nacre.Constraints) (nacre.Constraints, error) {
	a, err := tidy(a)
	if err != nil {
		return nacre.Constraints{}, err
	}
	if b, err = tidy(b); err != nil {
		return nacre.Constraints{}, err
	}
	if b.MaxRows != nil && (a.MaxRows == nil || *b.MaxRows < *a.MaxRows) {
		a.MaxRows = b.MaxRows
	}
	a.AllowedFields = intersect(a.AllowedFields, b.AllowedFields)
	a.Arguments.AllowedKeys = intersect(a.Arguments.AllowedKeys, b.Arguments.AllowedKeys)
	if a.Scope, err = union(a.Scope, b.Scope, onlyEqual); err != nil {
		return nacre.Constraints{}, fmt.Errorf("scope: %w", err)
	}
	if a.Arguments.Pinned, err = union(a.Arguments.Pinned, b.Arguments.Pinned, onlySame); err != nil {
		return nacre.Constraints{}, fmt.Errorf("pinned: %w", err)
	}
	if a.Arguments.Prefix, err = union(a.Arguments.Prefix, b.Arguments.Prefix, longerPrefix); err != nil {
		return nacre.Constraints{}, fmt.Errorf("prefix: %w", err)
	}
	return a, nil
}

// intersect keeps what both lists have; nil is the list of everything.
func intersect(a, b []string) []string {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	in := make(map[string]bool, len(b))
	for _, s := range b {
		in[s] = true
	}
	both := []string{}
	for _, s := range a {
		if in[s] {
			both = append(both, s)
			in[s] = false // each once
		}
	}
	return both
}

// union holds everything to both maps; pick returns what meets both values.
func union[V any](a, b map[string]V, pick func(a, b V) (V, bool)) (map[string]V, error) {
	if a == nil {
		return b, nil
	}
	for key, theirs := range b {
		ours, both := a[key]
		if !both {
			a[key] = theirs
			continue
		}
		value, ok := pick(ours, theirs)
		if !ok {
			return nil, fmt.Errorf("%w: nothing meets both demands on %.80q", ErrConstraint, key)
		}
		a[key] = value
	}
	return a, nil
}

func onlyEqual(a, b string) (string, bool) { return a, a == b }

func onlySame(a, b json.RawMessage) (json.RawMessage, bool) { return a, string(a) == string(b) }

func longerPrefix(a, b string) (string, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	return a, strings.HasPrefix(a, b)
}
