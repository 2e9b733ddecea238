package firewall

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// condition is one field that must equal a value.
type condition struct {
	field string
	value []byte
	// canonical is the value so that equal ones are spelled equally.
	canonical []byte
}

// Matcher reports of a row whether it has these fields with these values, each
// time that it has them. Values are equal as JSON: 1, 1.0 and 1e0 are; 1, true
// and "1" are three different ones; members of objects have no order; strings
// are equal by their characters, however escaped. A field that is missing does
// not equal null. An error is ErrNotJSON. The function is for one goroutine.
func (r *Result) Matcher(equal map[string]json.RawMessage) (func(i int) bool, error) {
	conditions := make([]condition, 0, len(equal))
	for field, value := range equal {
		c := cursor{data: value}
		if c.skip(0); !c.end() {
			return nil, c.err()
		}
		conditions = append(conditions, condition{field, bytes.TrimSpace(value), canonical(nil, value)})
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
	if bytes.Equal(value, k.value) {
		return true
	}
	if kind(value) != kind(k.value) {
		return false
	}
	if kind(value) == '0' { // most are told apart without writing them anew
		a, exactly := float(value)
		b, too := float(k.value)
		if exactly && too && a != b {
			return false
		}
	}
	return bytes.Equal(canonical(nil, value), k.canonical)
}

// kind tells apart values that are never equal, by their first byte.
func kind(value []byte) byte {
	if b := value[0]; b == '-' || isDigit(b) {
		return '0'
	}
	return value[0]
}

// canonical writes a value that was checked so that equal ones are written equally.
func canonical(out, value []byte) []byte {
	c := cursor{data: value}
	switch b := c.peek(); {
	case b == '"':
		start := c.at
		c.text()
		return appendQuoted(out, plain(value[start:c.at]))
	case b == '[':
		out = append(out, '[')
		eachElement(value, func(v []byte) bool {
			out = append(canonical(out, v), ',')
			return true
		})
		return closed(out, ']')
	case b == '{':
		var all [][]byte
		eachMember(value, func(name, v []byte) {
			all = append(all, append(canonical(append(appendQuoted(nil, plain(name)), ':'), v), ','))
		})
		slices.SortFunc(all, bytes.Compare)
		out = append(out, '{')
		for _, member := range all {
			out = append(out, member...)
		}
		return closed(out, '}')
	case b == '-' || isDigit(b):
		return number(out, c.number())
	}
	return append(out, bytes.TrimSpace(value)...)
}

// number writes a number as its digits and a power of ten: exactly, without
// computing what 1e999999999 is.
func number(out, spelled []byte) []byte {
	mantissa, exponent := spelled, []byte(nil)
	if e := bytes.IndexAny(spelled, "eE"); e >= 0 {
		mantissa, exponent = spelled[:e], spelled[e+1:]
	}
	negative := mantissa[0] == '-'
	whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(mantissa, []byte("-")), []byte("."))
	digits := bytes.TrimLeft(append(bytes.Clone(whole), fraction...), "0")
	short := bytes.TrimRight(digits, "0")
	if len(short) == 0 {
		return append(out, '0')
	}
	power, err := int64(0), error(nil)
	if exponent != nil {
		power, err = strconv.ParseInt(string(exponent), 10, 48)
	}
	if err != nil { // beyond any sense: equal to itself only
		return append(out, spelled...)
	}
	if negative {
		out = append(out, '-')
	}
	out = append(append(out, short...), 'e')
	return strconv.AppendInt(out, power-int64(len(fraction))+int64(len(digits)-len(short)), 10)
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
