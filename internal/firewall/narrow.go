package firewall

import "github.com/nacre-dev/nacre"

// unchecked stands for what has no fields where only some are allowed.
const unchecked = `"[left out: not an object, so its fields cannot be checked]"`

// narrowed writes the part of a result that constraints allow, but for how many of its rows. It
// returns raw itself where that is all of it. told is set where something but a row out of scope
// was taken out.
func narrowed(raw []byte, c nacre.Constraints) (out []byte, told bool, err error) {
	check := cursor{data: raw}
	if check.skip(0); !check.end() {
		return nil, false, check.err()
	}
	n := narrower{c: c}
	in := cursor{data: raw}
	switch b := in.peek(); {
	case b == '[':
		n.array(raw[in.at:])
	case b == '{' && n.wraps(raw):
		n.envelope(raw)
	case !n.inScope(raw[in.at:]):
		n.hidden, n.out = true, append(n.out, "null"...)
	default:
		n.row(trimmed(raw[in.at:]))
	}
	if !n.told && !n.hidden {
		return raw, false, nil
	}
	return n.out, n.told, nil
}

// narrower writes a result that was checked anew, without what is not granted.
type narrower struct {
	c   nacre.Constraints
	out []byte
	// hidden is set where a row was out of scope, told where anything else was
	// left out; unchecked counts rows without fields.
	hidden, told bool
	unchecked    int
}

// wraps reports whether an object wraps rows that may be seen. A name by which
// objects usually do so need not be allowed: each row is narrowed by itself.
func (n *narrower) wraps(raw []byte) bool {
	if _, _, ok := envelope(raw); !ok {
		return false
	}
	reached := false
	eachMember(raw, func(name, value []byte) {
		if value[0] != '[' {
			return
		}
		switch string(name) {
		case `"rows"`, `"items"`, `"data"`, `"results"`, `"records"`, `"entries"`:
			reached = true
		default:
			reached = n.allows(name)
		}
	})
	return reached
}

func (n *narrower) allows(name []byte) bool {
	return n.c.AllowedFields == nil || among(n.c.AllowedFields, name)
}

func among(fields []string, name []byte) bool {
	for _, field := range fields {
		if says(name, field) {
			return true
		}
	}
	return false
}

// envelope keeps the rows of an object that wraps them, and what stands beside
// them where it is allowed. A total beside rows of a scope would count the others.
func (n *narrower) envelope(raw []byte) {
	n.out = append(n.out, '{')
	eachMember(raw, func(name, value []byte) {
		if value[0] != '[' && (n.c.Scope != nil || !n.allows(name)) {
			n.told = true
			return
		}
		n.next('{')
		n.out = append(append(n.out, name...), ':')
		if value[0] == '[' {
			n.array(value)
			return
		}
		n.out = append(n.out, value...)
	})
	n.out = append(n.out, '}')
}

func (n *narrower) array(raw []byte) {
	n.out = append(n.out, '[')
	eachElement(raw, func(row []byte) bool {
		if !n.inScope(row) {
			n.hidden = true
			return true
		}
		n.next('[')
		n.row(row)
		return true
	})
	n.out = append(n.out, ']')
}

// next separates what comes from what was written since the container opened.
func (n *narrower) next(open byte) {
	if n.out[len(n.out)-1] != open {
		n.out = append(n.out, ',')
	}
}

// row keeps the fields of a row that are allowed. What has no fields cannot be
// checked, but for null.
func (n *narrower) row(row []byte) {
	switch {
	case row[0] == 'n':
		n.out = append(n.out, row...)
	case n.c.AllowedFields != nil && row[0] != '{':
		n.told = true
		if n.unchecked++; n.unchecked > FrameRows { // said often enough: it may be longer than the row
			n.out = append(n.out, "null"...)
			return
		}
		n.out = append(n.out, unchecked...)
	case n.c.AllowedFields != nil:
		var left bool
		n.out, left = project(n.out, row, n.c.AllowedFields)
		n.told = n.told || left
	default:
		n.out = append(n.out, row...)
	}
}

// project writes the named fields of an object, and reports whether it has others.
func project(out, row []byte, fields []string) (_ []byte, left bool) {
	out = append(out, '{')
	first := true
	eachMember(row, func(name, value []byte) {
		if !among(fields, name) {
			left = true
			return
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(append(out, name...), ':'), value...)
	})
	return append(out, '}'), left
}

// inScope reports whether a row has every field of the scope as a string of
// that value: wherever it has the field, should it have it twice.
func (n *narrower) inScope(row []byte) bool {
	if n.c.Scope == nil {
		return true
	}
	if row[0] != '{' {
		return false
	}
	for field, want := range n.c.Scope {
		found, same := false, true
		eachMember(row, func(name, value []byte) {
			if says(name, field) {
				found, same = true, same && value[0] == '"' && says(value, want)
			}
		})
		if !found || !same {
			return false
		}
	}
	return true
}

// eachMember visits the members of an object that was checked: the name in its
// quotes, and the value. There are none in what is no object.
func eachMember(raw []byte, visit func(name, value []byte)) {
	c := cursor{data: raw}
	if !c.take('{') {
		return
	}
	for first := true; c.more(first, '}'); first = false {
		name := c.key()
		c.peek()
		start := c.at
		c.skip(1)
		visit(name, raw[start:c.at:c.at])
	}
}

// eachElement visits the elements of an array that was checked, until visit
// returns false. There are none in what is no array.
func eachElement(raw []byte, visit func(value []byte) bool) {
	c := cursor{data: raw}
	if !c.take('[') {
		return
	}
	for first := true; c.more(first, ']'); first = false {
		c.peek()
		start := c.at
		c.skip(1)
		if !visit(raw[start:c.at:c.at]) {
			return
		}
	}
}

// trimmed is a value that was checked, without the white space after it.
func trimmed(raw []byte) []byte {
	c := cursor{data: raw}
	c.skip(0)
	return raw[:c.at]
}
