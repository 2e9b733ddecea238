package firewall

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
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
	columnBytes = 544
)

// column is what is known of a field over the rows that have it.
type column struct {
	// name is in its quotes, as it is spelled.
	name []byte
	key  pattern
	// present counts the rows that have the field; numbers, truths and falses
	// those where it is such a value.
	present, numbers, truths, falses int
	// sampled is how many of the first rows have the field.
	sampled       int
	min, max, sum float64
	// lowest and highest are how min and max are spelled.
	lowest, highest []byte
	words
}

// words are those of a column.
type words struct {
	// distinct are the words and how often each one came; more is set when there
	// are too many of them.
	distinct [maxDistinct]word
	known    int
	more     bool
	// last is which of them came last, and repeat how it is spelled.
	last   int
	repeat pattern
}

// pattern is a text that is looked for at one place: one or two words of eight bytes
// mostly tell whether it stands there.
type pattern struct {
	// head is how it begins, under mask where it is shorter than a word; tail is
	// its last word where it is longer.
	head, mask, tail uint64
	size             int
}

const wordSize = 8

func patternOf(text []byte) pattern {
	var first [wordSize]byte
	copy(first[:], text)
	p := pattern{head: binary.LittleEndian.Uint64(first[:]), mask: math.MaxUint64, size: len(text)}
	if len(text) < wordSize {
		p.mask = 1<<(8*len(text)) - 1
	} else {
		p.tail = binary.LittleEndian.Uint64(text[len(text)-wordSize:])
	}
	return p
}

// at reports whether text, which the pattern was made of, stands in data at i. It says no
// of the last seven bytes of data, whatever stands there.
func (p *pattern) at(data []byte, i int, text []byte) bool {
	end := i + p.size
	if i+wordSize > len(data) || end > len(data) || (binary.LittleEndian.Uint64(data[i:])^p.head)&p.mask != 0 {
		return false
	}
	return p.size <= wordSize || binary.LittleEndian.Uint64(data[end-wordSize:]) == p.tail &&
		(p.size <= 2*wordSize || string(data[i:end]) == string(text))
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
		if n < len(g.columns) && !c.bad { // rows mostly have the same fields in the same order
			if next, ok := g.columns[n].member(c.data, c.at, n > 0); ok {
				c.at = next
				g.columns[n].count(g.rows < sampleRows)
				continue
			}
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

// member reads the member of a row from at on, and says where it ends, where it is the
// column's, is spelled as most are and has a short value. Else it is not ok, and nothing
// was counted. It keeps in registers what a cursor keeps in memory.
func (k *column) member(data []byte, at int, comma bool) (next int, ok bool) {
	if comma {
		if at >= len(data) || data[at] != ',' {
			return 0, false
		}
		at++
	}
	if !k.key.at(data, at, k.name) {
		return 0, false
	}
	at += k.key.size
	if at+1+wordSize > len(data) || data[at] != ':' {
		return 0, false
	}
	at++
	switch b := data[at]; {
	case b == '"':
		return k.text(data, at)
	case b == '-' || isDigit(b):
		v, next := short(data, at)
		if next > at {
			k.number(v, data[at:next])
		}
		return next, next > at
	case string(data[at:at+4]) == "true":
		k.truths++
		return at + 4, true
	case string(data[at:at+5]) == "false":
		k.falses++
		return at + 5, true
	case string(data[at:at+4]) == "null":
		return at + 4, true
	}
	return 0, false
}

// text reads a string of ASCII without escapes that is no longer than a name.
func (k *column) text(data []byte, start int) (next int, ok bool) {
	if k.known > 0 && k.repeat.at(data, start, k.distinct[k.last].quoted) { // as in the row before
		k.distinct[k.last].n++
		return start + k.repeat.size, true
	}
	for at := start + 1; at+wordSize <= len(data) && at < start+nameLimit-wordSize; at += wordSize {
		x := binary.LittleEndian.Uint64(data[at:])
		found := special(x)
		if found == 0 && x&highs == 0 {
			continue
		}
		end := at + bits.TrailingZeros64(found)/8
		if found == 0 || x&highs&(found&-found-1) != 0 || data[end] != '"' {
			return 0, false
		}
		if end++; !k.more {
			k.word(data[start:end])
		}
		return end, true
	}
	return 0, false
}

// count counts a row that has the column.
func (k *column) count(sample bool) {
	k.present++
	if sample {
		k.sampled++
	}
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
	g.columns = append(g.columns, column{name: name, key: patternOf(name)})
	return &g.columns[len(g.columns)-1]
}

// rank puts the columns in order: the most common among the first rows first,
// and keeps those that are told.
func (g *collector) rank() {
	for i := range g.columns[:max(len(g.columns)-1, 0)] { // which are large: mostly they stand in order
		if g.columns[i].sampled < g.columns[i+1].sampled {
			slices.SortStableFunc(g.columns, func(a, b column) int { return b.sampled - a.sampled })
			break
		}
	}
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
	k.count(sample)
	b := c.peek()
	start := c.at
	switch {
	case b == '"':
		c.text()
		if !k.more && !c.bad {
			k.word(c.data[start:c.at])
		}
	case b == '-' || isDigit(b):
		if v, ok := float(c.number()); ok {
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

func (k *column) word(quoted []byte) {
	at, last := 0, quoted[len(quoted)-2] // words of one column mostly differ at their ends
	for ; at < k.known; at++ {
		known := k.distinct[at].quoted
		if len(known) == len(quoted) && known[len(known)-2] == last && string(known) == string(quoted) {
			break
		}
	}
	if at == maxDistinct {
		k.more, k.known = true, 0
		return
	}
	if at == k.known {
		k.distinct[at] = word{quoted: quoted}
		k.known++
	}
	k.distinct[at].n++
	k.last, k.repeat = at, patternOf(quoted)
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

// short reads a number without an exponent, and says where it ends. The number takes no more bytes
// than exact has powers, so that it is exact in a float64. Of any other number, the end is at.
func short(data []byte, start int) (v float64, end int) {
	at, whole, decimals := start, int64(0), 0
	if data[at] == '-' {
		at++
	}
	first := at
	for ; at < len(data) && isDigit(data[at]); at++ {
		whole = whole*10 + int64(data[at]-'0')
	}
	if at == first || at > first+1 && data[first] == '0' {
		return 0, start
	}
	if at < len(data) && data[at] == '.' {
		point := at
		for at++; at < len(data) && isDigit(data[at]); at++ {
			whole = whole*10 + int64(data[at]-'0')
		}
		if decimals = at - point - 1; decimals == 0 {
			return 0, start
		}
	}
	if at-start > len(exact) || at < len(data) && data[at]|' ' == 'e' {
		return 0, start
	}
	if v = float64(whole); decimals > 0 {
		v /= exact[decimals]
	}
	if first > start {
		v = -v
	}
	return v, at
}

// float is the value of a number that was checked. It is not ok beyond what a
// float64 holds.
func float(spelled []byte) (v float64, ok bool) {
	if v, end := short(spelled, 0); end > 0 {
		return v, true
	}
	return parse(spelled)
}

func parse(spelled []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(spelled), 64)
	return v, err == nil && !math.IsInf(v, 0)
}
