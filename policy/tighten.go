package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// ErrConstraint says that constraints are malformed or exclude one another.
// The decision that needs them is a deny with nacre.ReasonInvalidConstraint.
var ErrConstraint = errors.New("invalid constraint")

// Tighten combines two sets of constraints: what the result lets through, both
// do (K-05). Constraints that exclude one another are an error that wraps
// ErrConstraint. The result shares no memory with a or b.
func Tighten(a, b nacre.Constraints) (nacre.Constraints, error) {
	if err := errors.Join(checkConstraints(a), checkConstraints(b)); err != nil {
		return nacre.Constraints{}, err
	}
	c := nacre.Constraints{MaxRows: fewest(a.MaxRows, b.MaxRows), AllowedFields: both(a.AllowedFields, b.AllowedFields)}
	var err error
	if c.Scope, err = union("scope", a.Scope, b.Scope, sameText); err != nil {
		return nacre.Constraints{}, err
	}
	c.Arguments.AllowedKeys = both(a.Arguments.AllowedKeys, b.Arguments.AllowedKeys)
	if c.Arguments.Pinned, err = union("pinned argument", a.Arguments.Pinned, b.Arguments.Pinned, samePin); err != nil {
		return nacre.Constraints{}, err
	}
	if c.Arguments.Prefix, err = union("prefix of argument", a.Arguments.Prefix, b.Arguments.Prefix, longerPrefix); err != nil {
		return nacre.Constraints{}, err
	}
	return c.Clone(), nil
}

// checkConstraints refuses what could loosen when it is combined.
func checkConstraints(c nacre.Constraints) error {
	for name, value := range c.Arguments.Pinned {
		if !json.Valid(value) {
			return fmt.Errorf("%w: pinned argument %.80q is not JSON", ErrConstraint, name)
		}
	}
	for name, prefix := range c.Arguments.Prefix {
		parts := strings.FieldsFunc(prefix, func(r rune) bool { return r == '/' || r == '\\' })
		if slices.Contains(parts, "..") {
			return fmt.Errorf("%w: .. climbs out of the prefix of argument %.80q", ErrConstraint, name)
		}
	}
	return nil
}

// fewest rows; fewer than none are none.
func fewest(a, b *int) *int {
	if a == nil {
		a = b
	}
	if a == nil {
		return nil
	}
	n := *a
	if b != nil {
		n = min(n, *b)
	}
	n = max(n, 0)
	return &n
}

// both keeps what is in either list, where nil is everything.
func both(a, b []string) []string {
	if a == nil {
		a = b
	}
	if a == nil {
		return nil
	}
	kept := make([]string, 0, len(a))
	for _, s := range a {
		if (b == nil || slices.Contains(b, s)) && !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// union holds the entries of both maps; one that is in both is what join makes of it.
func union[V any](noun string, a, b map[string]V, join func(V, V) (V, bool)) (map[string]V, error) {
	if a == nil && b == nil {
		return nil, nil
	}
	all := make(map[string]V, len(a)+len(b))
	for name, value := range a {
		all[name] = value
	}
	for name, value := range b {
		if other, ok := all[name]; ok {
			if value, ok = join(other, value); !ok {
				return nil, fmt.Errorf("%w: %s %.80q is wanted to be two things", ErrConstraint, noun, name)
			}
		}
		all[name] = value
	}
	return all, nil
}

func sameText(a, b string) (string, bool) { return a, a == b }

func samePin(a, b json.RawMessage) (json.RawMessage, bool) {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return nil, false
	}
	return a, sameScalar(x.String(), y.String())
}

func longerPrefix(a, b string) (string, bool) {
	switch {
	case strings.HasPrefix(a, b):
		return a, true
	case strings.HasPrefix(b, a):
		return b, true
	}
	return "", false
}

// MaxConstraints is the size of constraints as JSON, in bytes.
const MaxConstraints = 64 << 10

// ParseConstraints reads the constraints that a request asks for. max_rows may
// be a number, whose fraction is dropped, or a text that is a whole number;
// fewer than none are none. What is unknown or cannot be read is an error that
// wraps ErrConstraint (K-04).
func ParseConstraints(data []byte) (nacre.Constraints, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nacre.Constraints{}, nil
	}
	if len(data) > MaxConstraints {
		return nacre.Constraints{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrConstraint, len(data), MaxConstraints)
	}
	if err := uniqueKeys(data); err != nil {
		return nacre.Constraints{}, fmt.Errorf("%w: %w", ErrConstraint, err)
	}
	var given struct {
		MaxRows       json.RawMessage      `json:"max_rows"`
		AllowedFields *[]string            `json:"allowed_fields"`
		Scope         map[string]string    `json:"scope"`
		Arguments     nacre.ArgumentLimits `json:"arguments"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return nacre.Constraints{}, fmt.Errorf("%w: %w", ErrConstraint, err)
	}
	c := nacre.Constraints{Scope: given.Scope, Arguments: given.Arguments}
	if given.AllowedFields != nil {
		c.AllowedFields = *given.AllowedFields
	}
	if given.MaxRows != nil {
		rows, err := parseRows(string(given.MaxRows))
		if err != nil {
			return nacre.Constraints{}, err
		}
		c.MaxRows = &rows
	}
	return c, checkConstraints(c)
}

func parseRows(raw string) (int, error) {
	text, quoted := unquote(raw)
	if !quoted {
		text = raw
	}
	whole, fraction, dotted := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 32)
	badFraction := dotted && (quoted || strings.Trim(fraction, "0123456789") != "")
	if err != nil || badFraction {
		return 0, fmt.Errorf("%w: max_rows %.40s: use a whole number", ErrConstraint, raw)
	}
	return max(int(n), 0), nil
}

// uniqueKeys refuses JSON that two readers may read differently.
func uniqueKeys(data []byte) error {
	if !json.Valid(data) {
		return errors.New("this is not JSON")
	}
	return uniqueIn(string(data), 0)
}

func uniqueIn(raw string, depth int) error {
	if depth > maxArgumentDepth {
		return fmt.Errorf("more than %d levels", maxArgumentDepth)
	}
	seen := map[string]bool{}
	for m := membersOf(raw); ; {
		name, value, after, ok := m.next()
		if !ok {
			return nil
		}
		m = after
		if m.object {
			key, _ := unquote(name) // it is valid JSON, so its names are
			if seen[key] {
				return fmt.Errorf("%.80q is there twice", key)
			}
			seen[key] = true
		}
		if err := uniqueIn(value, depth+1); err != nil {
			return err
		}
	}
}
