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
	// present counts the rows that have the field; numbers, truths and falses
	// those where it is such a value.
	present, numbers, truths, falses int
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
	// last is which of them came last.
	last int
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
	for ; ; n++ {
		if n < len(g.columns) && c.expected(g.columns[n].name, n) { // rows mostly have the same fields in the same order
			g.columns[n].value(c, depth, g.rows < sampleRows)
			continue
		}
		if !c.more(n == 0, '}') {
			break
		}
		g.field(c, depth)
	}
	c.fields = max(c.fields, n)
	if g.rows++; g.rows == sampleRows {
		g.rank()
	}
}

// expected takes the name of the n-th member and its colon, or nothing where they are not
// spelled so.
func (c *cursor) expected(name []byte, n int) bool {
	at := c.at
	if n > 0 {
		if at == len(c.data) || c.data[at] != ',' {
			return false
		}
		at++
	}
	end := at + len(name)
	if c.bad || end >= len(c.data) || c.data[end] != ':' || string(c.data[at:end]) != string(name) {
		return false
	}
	c.at = end + 1
	return true
}

// field reads a member of a row.
func (g *collector) field(c *cursor, depth int) {
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
		if k.repeated(c) {
			return
		}
		c.text()
		if !k.more && !c.bad {
			k.word(c.data[start:c.at])
		}
	case b == '-' || isDigit(b):
		if v, ok := c.short(); ok {
			k.number(v, c.data[start:c.at])
		} else if v, ok = parse(c.number()); ok {
			k.number(v, c.data[start:c.at])
		}
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

// repeated takes the word that the row before had.
func (k *column) repeated(c *cursor) bool {
	if k.known == 0 {
		return false
	}
	w := &k.distinct[k.last]
	end := c.at + len(w.quoted)
	if end > len(c.data) || string(c.data[c.at:end]) != string(w.quoted) {
		return false
	}
	c.at = end
	w.n++
	return true
}

func (k *column) word(quoted []byte) {
	for i := range k.distinct[:k.known] {
		if w := &k.distinct[i]; string(w.quoted) == string(quoted) {
			k.last = i
			w.n++
			return
		}
	}
	if k.known == maxDistinct {
		k.more, k.known = true, 0
		return
	}
	k.distinct[k.known] = word{quoted, 1}
	k.last = k.known
	k.known++
}

func (k *column) number(v float64, spelled []byte) {
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

// short moves over a number without an exponent that takes no more bytes than exact has
// powers, so that it is exact in a float64; it moves over no other.
func (c *cursor) short() (v float64, ok bool) {
	data, at := c.data, c.at
	if data[at] == '-' {
		at++
	}
	first, whole, decimals := at, int64(0), 0
	for ; at < len(data) && isDigit(data[at]); at++ {
		whole = whole*10 + int64(data[at]-'0')
	}
	if at == first || at > first+1 && data[first] == '0' {
		return 0, false
	}
	if at < len(data) && data[at] == '.' {
		point := at
		for at++; at < len(data) && isDigit(data[at]); at++ {
			whole = whole*10 + int64(data[at]-'0')
		}
		if decimals = at - point - 1; decimals == 0 {
			return 0, false
		}
	}
	if at-c.at > len(exact) || at < len(data) && data[at]|' ' == 'e' {
		return 0, false
	}
	v = float64(whole) / exact[decimals]
	if first > c.at {
		v = -v
	}
	c.longest = max(c.longest, at-c.at)
	c.at = at
	return v, true
}

// float is the value of a number that was checked. It is not ok beyond what a
// float64 holds.
func float(spelled []byte) (v float64, ok bool) {
	if v, ok = (&cursor{data: spelled}).short(); ok {
		return v, true
	}
	return parse(spelled)
}

func parse(spelled []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(spelled), 64)
	return v, err == nil && !math.IsInf(v, 0)
}
