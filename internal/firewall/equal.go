package firewall

import (
	"bytes"
	"encoding/json"

	"github.com/nacre-dev/nacre/internal/constraint"
)

// condition is one field that must equal a value.
type condition struct {
	field string
	value []byte
	// canonical is the one form of the value, or nil where it has none.
	canonical []byte
}

// Matcher reports of a row whether it has these fields with these values, each time that it has
// them. Values are equal as JSON: 1, 1.0 and 1e0 are, and 1, true and "1" are three different ones.
// Members of objects have no order, and strings are equal by their characters, however escaped. A
// value beyond the limits of package wire, such as 1e1000, equals only one that is spelled as it
// is. A field that is missing does not equal null. An error is ErrNotJSON. The function is for one
// goroutine.
func (r *Result) Matcher(equal map[string]json.RawMessage) (func(i int) bool, error) {
	conditions := make([]condition, 0, len(equal))
	for field, value := range equal {
		c := cursor{data: value}
		if c.skip(0); !c.end() {
			return nil, c.err()
		}
		canonical, err := constraint.Canonical(value)
		if err != nil {
			canonical = nil // equals only what is spelled alike
		}
		conditions = append(conditions, condition{field, bytes.TrimSpace(value), canonical})
	}
	return func(i int) bool {
		row := r.row(i)
		for k := range conditions {
			if !conditions[k].holds(row) {
				return false
			}
		}
		return true
	}, nil
}

func (k *condition) holds(row []byte) bool {
	c := cursor{data: row}
	if !c.take('{') {
		return false
	}
	found := false
	for first := true; c.more(first, '}'); first = false {
		name := c.key()
		c.peek()
		start := c.at
		c.skip(1)
		if !says(name, k.field) {
			continue
		}
		if found = k.equals(row[start:c.at]); !found {
			return false
		}
	}
	return found
}

func (k *condition) equals(value []byte) bool {
	if bytes.Equal(value, k.value) || bytes.Equal(value, k.canonical) {
		return true
	}
	if k.canonical == nil || kind(value) != kind(k.value) {
		return false
	}
	switch kind(value) { // most are told apart without writing them anew
	case '0':
		a, exactly := float(value)
		b, too := float(k.value)
		if exactly && too && a != b {
			return false
		}
	case '"':
		if bytes.IndexByte(value, '\\') < 0 && bytes.IndexByte(k.canonical, '\\') < 0 {
			return false
		}
	}
	canonical, err := constraint.Canonical(value)
	return err == nil && bytes.Equal(canonical, k.canonical)
}

// kind tells apart values that are never equal, by their first byte.
func kind(value []byte) byte {
	if b := value[0]; b == '-' || isDigit(b) {
		return '0'
	}
	return value[0]
}

// FromRows is a result of rows that were read before, such as a page.
func FromRows(rows []json.RawMessage) (*Result, error) {
	raw := []byte{'['}
	for i, row := range rows {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, row...)
	}
	return scan(append(raw, ']'), len(rows))
}
