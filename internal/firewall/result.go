package firewall

import (
	"encoding/json"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

// shape is what the rows of a result are.
type shape uint8

const (
	// sole: the whole result is the one row.
	sole shape = iota
	// listed: the rows are the elements of an array.
	listed
	// wrapped: the rows are the elements of the only array of an object whose
	// other members are plain values: {"rows": […], "total": 7}.
	wrapped
)

// Result is a result that was read once: the bytes that a grant's constraints
// leave of it, where its rows stand, and what there is to say about them. It
// is immutable, and safe for concurrent use.
type Result struct {
	raw   []byte
	shape shape
	rows  []span
	// granted is how many rows may be seen in all, at most the number of rows.
	granted int
	// capped is set where the grant allows fewer rows than there are, narrowed
	// where fields or rows were taken out.
	capped, narrowed bool
	// objects is set where every row that may be seen is an object, mixed where
	// any row is none.
	objects, mixed bool
	// depth is how many containers stand inside of each other in a row, fields
	// the most members of one object.
	depth, fields int
	// plain is set where rows have no white space and no long texts in them.
	plain bool
	// widest is the most elements of an array other than the one of the rows.
	widest int
	// wrap is the name, in its quotes, of the array that wrapped rows stand in.
	wrap []byte
	// columns are nil where they have not been collected on the way.
	columns []column
}

// Read reads a result, and takes out of it what the constraints do not allow:
// rows that are out of scope, and fields. Their number is not to be learned
// from what is left. It keeps raw, which must not change any more. An error is
// ErrNotJSON.
func Read(raw json.RawMessage, c nacre.Constraints) (*Result, error) {
	if len(raw) > math.MaxUint32 {
		return nil, ErrNotJSON
	}
	granted := math.MaxInt
	if c.MaxRows != nil {
		granted = max(*c.MaxRows, 0)
	}
	told := false
	if c.AllowedFields != nil || c.Scope != nil {
		var err error
		if raw, told, err = narrowed(raw, c); err != nil {
			return nil, err
		}
	}
	r, err := scan(raw, granted)
	if err == nil && r.widest > granted && (r.shape == sole || r.mixed) {
		// What may be rows stands where rows cannot be told from other values.
		told = true
		r, err = scan(cut(raw, granted), granted)
	}
	if err != nil {
		return nil, err
	}
	r.narrowed = told
	return r, nil
}

// cut writes a value that was checked anew with no array longer than limit, but
// for the outermost: its rows are counted.
func cut(raw []byte, limit int) []byte {
	c := cursor{data: raw}
	out := make([]byte, 0, len(raw))
	if c.peek() != '[' {
		return c.cut(out, limit)
	}
	c.at++
	out = append(out, '[')
	for first := true; c.more(first, ']'); first = false {
		out = append(c.cut(out, limit), ',')
	}
	return closed(out, ']')
}

// cut writes the next value.
func (c *cursor) cut(out []byte, limit int) []byte {
	b := c.peek()
	start := c.at
	if b != '{' && b != '[' {
		c.skip(0)
		return append(out, c.data[start:c.at]...)
	}
	c.at++
	out = append(out, b)
	end := b + 2 // in ASCII, the closing bracket
	for n := 0; c.more(n == 0, end); n++ {
		if b == '[' && n >= limit {
			c.skip(0)
			continue
		}
		if b == '{' {
			out = append(append(out, c.key()...), ':')
		}
		out = append(c.cut(out, limit), ',')
	}
	return closed(out, end)
}

// closed ends a container whose elements were each written with a comma.
func closed(out []byte, end byte) []byte {
	if out[len(out)-1] == ',' {
		out = out[:len(out)-1]
	}
	return append(out, end)
}

// scan reads what may be seen, in one pass.
func scan(raw []byte, granted int) (*Result, error) {
	r := &Result{raw: raw}
	c := cursor{data: raw}
	var g *collector
	if len(raw) > FrameChars { // a smaller one is likely passed on as it is
		g = &collector{columns: make([]column, 0, topColumns)}
	}
	switch c.peek() {
	case '[':
		r.shape = listed
		r.scanRows(&c, g, granted, 1)
		c.depth = max(c.depth-1, 0) // of a row
	case '{':
		if name, rows, ok := envelope(raw); ok {
			r.shape, r.wrap = wrapped, name
			c.at = int(rows.start)
			r.scanRows(&c, g, granted, 2)
			c.depth = max(c.depth-2, 0)
			c.at = len(raw) // envelope has checked the rest
			break
		}
		fallthrough
	default:
		start := c.at
		c.skip(0)
		r.rows = []span{{uint32(start), uint32(c.at)}}
	}
	if !c.end() {
		return nil, c.err()
	}
	r.granted = min(granted, len(r.rows))
	r.capped = r.granted < len(r.rows)
	r.depth, r.fields, r.widest = c.depth, c.fields, c.widest
	r.plain = !c.spaced && c.longest <= nameLimit
	if g != nil {
		r.columns = g.ranked()
	}
	return r, nil
}

// scanRows reads the array that stands inside of depth-1 containers.
func (r *Result) scanRows(c *cursor, g *collector, granted, depth int) {
	if !c.enter(depth) {
		return
	}
	r.objects = true
	for c.more(len(r.rows) == 0, ']') {
		b := c.peek()
		start := c.at
		seen := len(r.rows) < granted
		r.mixed = r.mixed || b != '{'
		r.objects = r.objects && (b == '{' || !seen)
		if r.objects && seen && g != nil {
			g.row(c, depth+1)
		} else {
			c.skip(depth)
		}
		if len(r.rows) == 1 { // the rest is likely of the same kind
			r.rows = slices.Grow(r.rows, min(len(c.data)/int(r.rows[0].end-r.rows[0].start+1), 4096))
		}
		r.rows = append(r.rows, span{uint32(start), uint32(c.at)})
	}
	r.objects = r.objects && len(r.rows) > 0
}

// envelope finds the rows of an object that wraps them. Such an object has one array, which holds
// at least one object and nothing else, and every other member is a plain value.
func envelope(raw []byte) (name []byte, rows span, ok bool) {
	c := cursor{data: raw}
	c.peek()
	c.at++
	found := false
	for first := true; c.more(first, '}'); first = false {
		key := c.key()
		switch b := c.peek(); b {
		case '{':
			return nil, span{}, false
		case '[':
			if found {
				return nil, span{}, false
			}
			start := c.at
			if !c.objects() {
				return nil, span{}, false
			}
			name, rows, found = key, span{uint32(start), uint32(c.at)}, true
		default:
			c.skip(1)
		}
	}
	return name, rows, found && c.end()
}

// objects moves over an array of objects; it reports false, and stops, at
// anything else and where there is none.
func (c *cursor) objects() bool {
	c.at++
	n := 0
	for c.more(n == 0, ']') {
		if c.peek() != '{' {
			return false
		}
		c.skip(2)
		n++
	}
	return n > 0 && !c.bad
}

// Len is how many rows a handle for the result pages over: those in scope.
func (r *Result) Len() int { return len(r.rows) }

// Rows is how many rows may be seen in all.
func (r *Result) Rows() int { return r.granted }

// Size is how much memory the result takes, in bytes.
func (r *Result) Size() int { return cap(r.raw) + 8*cap(r.rows) + columnBytes*cap(r.columns) + 256 }

// Row is the i-th row with the named fields only; nil fields mean all. Where
// fields are named, a row that is no object becomes null.
func (r *Result) Row(i int, fields []string) json.RawMessage {
	row := r.row(i)
	if fields == nil {
		return row
	}
	if row[0] != '{' {
		return json.RawMessage("null")
	}
	out, _ := project(make([]byte, 0, 64), row, fields)
	return out
}

func (r *Result) row(i int) []byte {
	s := r.rows[i]
	return r.raw[s.start:s.end:s.end]
}

// Whole reports whether all of the result may be seen and is within limits, so
// that it can be passed on as it is.
func (r *Result) Whole(l Limits) bool {
	return !r.capped && (r.shape == sole || len(r.rows) <= l.Rows) && r.fields <= l.Fields && r.depth <= l.Depth &&
		r.chars(l.Chars) <= l.Chars
}

// chars counts characters, or says that they are more than limit, or how many
// they are at most where that is not.
func (r *Result) chars(limit int) int {
	switch n := len(r.raw); {
	case n <= limit:
		return n
	case n > utf8.UTFMax*limit:
		return limit + 1
	}
	return Runes(r.raw)
}
