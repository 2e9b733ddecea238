package firewall

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

// The limits of what is counted about the rows of a result.
const (
	// sampleRows is how many rows name the columns.
	sampleRows = 10
	// topColumns are the columns that are told, statColumns those of numbers
	// with statistics, and those of words with a distribution.
	topColumns, statColumns = 10, 5
	// maxColumns bounds the columns that are followed while they are ranked.
	maxColumns = 32
	// maxDistinct is how many different words a distribution may have.
	maxDistinct = 10
	// columnBytes is about what a column takes in memory.
	columnBytes = 512
)

// column is what is known of a field over the rows that have it.
type column struct {
	// name is in its quotes, as it is spelled.
	name []byte
	// present counts the rows that have the field; numbers, truths, falses and
	// words those where it is such a value.
	present, numbers, truths, falses, words int
	// sampled is how many of the first rows have the field.
	sampled       int
	min, max, sum float64
	// lowest and highest are how min and max are spelled.
	lowest, highest []byte
	// distinct are the words and how often each one came; more is set when there
	// are too many of them.
	distinct [maxDistinct]word
	known    int
	more     bool
}

type word struct {
	quoted []byte
	n      int
}

// collector gathers columns on one pass over rows that are objects.
type collector struct {
	columns []column
	rows    int
}

// collect reads the rows of a result that are objects into room.
func collect(r *Result, room []column) []column {
	g := collector{columns: room}
	for i := range r.granted {
		c := cursor{data: r.row(i)}
		g.row(&c, 1)
	}
	return g.ranked()
}

// row reads an object that stands inside of depth-1 containers as the next row.
func (g *collector) row(c *cursor, depth int) {
	if !c.enter(depth) {
		return
	}
	n := 0
	for c.more(n == 0, '}') {
		g.field(c, depth, n)
		n++
	}
	c.fields = max(c.fields, n)
	if g.rows++; g.rows == sampleRows {
		g.rank()
	}
}

// field reads the n-th member of a row. Rows mostly have the same fields in
// the same order, so the n-th column is looked at first.
func (g *collector) field(c *cursor, depth, n int) {
	if c.peek() == '"' && n < len(g.columns) {
		col := &g.columns[n]
		if end := c.at + len(col.name); end < len(c.data) && c.data[end] == ':' && string(c.data[c.at:end]) == string(col.name) {
			c.at = end + 1
			col.value(c, depth, g.rows < sampleRows)
			return
		}
	}
	name := c.key()
	if col := g.find(name); col != nil && !c.bad {
		col.value(c, depth, g.rows < sampleRows)
		return
	}
	c.skip(depth)
}

func (g *collector) find(name []byte) *column {
	for i := range g.columns {
		if bytes.Equal(g.columns[i].name, name) {
			return &g.columns[i]
		}
	}
	if g.rows >= sampleRows || len(g.columns) == maxColumns {
		return nil
	}
	g.columns = append(g.columns, column{name: name})
	return &g.columns[len(g.columns)-1]
}

// rank puts the columns in order: the most common among the first rows first,
// and keeps those that are told.
func (g *collector) rank() {
	slices.SortStableFunc(g.columns, func(a, b column) int { return b.sampled - a.sampled })
	g.columns = g.columns[:min(len(g.columns), topColumns)]
}

func (g *collector) ranked() []column {
	if g.rows < sampleRows {
		g.rank()
	}
	return g.columns
}

// value reads the value of the column in one row.
func (k *column) value(c *cursor, depth int, sample bool) {
	k.present++
	if sample {
		k.sampled++
	}
	b := c.peek()
	start := c.at
	switch {
	case b == '"':
		c.text()
		k.words++
		if !k.more && !c.bad {
			k.word(c.data[start:c.at])
		}
	case b == '-' || isDigit(b):
		k.number(c.number())
	default:
		c.skip(depth)
		switch b {
		case 't':
			k.truths++
		case 'f':
			k.falses++
		}
	}
}

func (k *column) word(quoted []byte) {
	for i := range k.distinct[:k.known] {
		if w := &k.distinct[i]; string(w.quoted) == string(quoted) {
			w.n++
			return
		}
	}
	if k.known == maxDistinct {
		k.more, k.known = true, 0
		return
	}
	k.distinct[k.known] = word{quoted, 1}
	k.known++
}

func (k *column) number(spelled []byte) {
	v, ok := float(spelled)
	if !ok {
		return
	}
	if k.numbers == 0 || v < k.min {
		k.min, k.lowest = v, spelled
	}
	if k.numbers == 0 || v > k.max {
		k.max, k.highest = v, spelled
	}
	k.sum += v
	k.numbers++
}

// exact are the powers of ten that a float64 holds exactly.
var exact = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// float is the value of a number that was checked. It is not ok beyond what a
// float64 holds.
func float(spelled []byte) (v float64, ok bool) {
	if len(spelled) <= len(exact) { // at most 15 digits: exact in a float64
		whole, point, digits := int64(0), -1, spelled
		if digits[0] == '-' {
			digits = digits[1:]
		}
		for i, b := range digits {
			switch {
			case isDigit(b):
				whole = whole*10 + int64(b-'0')
			case b == '.':
				point = i
			default:
				return parse(spelled)
			}
		}
		v = float64(whole)
		if point >= 0 {
			v /= exact[len(digits)-1-point]
		}
		if len(digits) < len(spelled) {
			v = -v
		}
		return v, true
	}
	return parse(spelled)
}

func parse(spelled []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(spelled), 64)
	return v, err == nil && !math.IsInf(v, 0)
}
