package redact

import "strings"

// The limits of a table.
const (
	// maxColumns is how many columns are looked at, maxColumn the longest name of
	// one, and maxRow the longest row, in bytes.
	maxColumns = 32
	maxColumn  = 40
	maxRow     = 4 << 10
	// maxOdd is how many rows in a row may have other numbers of columns than the
	// header, such as lines between the rows.
	maxOdd = 2
)

// columns say how the values of each column are judged.
type columns struct {
	kinds [maxColumns]kind
	// some is set where a column holds secrets.
	some bool
}

// name notes what a column's name says.
func (c *columns) name(i int, k kind) {
	if i < maxColumns && k != notSecret {
		c.kinds[i], c.some = k, true
	}
}

// take remembers the columns of another header, if it is one.
func (c *columns) take(other columns) {
	if other.some {
		*c = other
	}
}

// of is how a value in a column is judged.
func (c *columns) of(i int) kind {
	if !c.some || i >= maxColumns || c.kinds[i] == notSecret {
		return notSecret
	}
	return c.kinds[i] | wary
}

// table is one in a text: CSV, Markdown, or what a database's shell prints.
type table struct {
	columns

	separator    byte
	count, named int // of columns, and of those with a name
}

// tabled is a table with the place that it takes in a text.
type tabled struct {
	span
	table
}

// heading looks whether a name that stands from start up to end is that of a
// column, and takes the secrets below it. A line is looked at once.
func (h *hunt) heading(start, end int) {
	if start < h.tabledTo || !h.endsCell(end) {
		return
	}
	from := max(h.tabledTo, start-maxRow)
	from += strings.LastIndexByte(h.text[from:start], '\n') + 1
	stop := h.lineEnd(from)
	h.tabledTo = stop
	if t, ok := h.engine.tableOf(h.text[from:stop]); ok {
		h.rows(t, from, stop)
	}
}

// endsCell reports whether a cell of a header ends at i.
func (r *reading) endsCell(i int) bool {
	for n := 0; n < 2 && strings.IndexByte("\"'`*", r.byteAt(i)) >= 0 && i < len(r.text); n++ {
		i++
	}
	at := i
	for at < len(r.text) && at-i < maxColumn && r.text[at] == ' ' {
		at++
	}
	return at == len(r.text) || at-i > 1 || strings.IndexByte(",;|\t\r\n", r.text[at]) >= 0
}

// lineEnd is where the line that begins at i ends, or is too long for a row.
func (r *reading) lineEnd(i int) int {
	stop := min(len(r.text), i+maxRow)
	if at := strings.IndexByte(r.text[i:stop], '\n'); at >= 0 {
		return i + at
	}
	return stop
}

// tableOf is the table that a line is the header of.
func (e *Engine) tableOf(line string) (t table, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	for _, separator := range []byte("|\t;, ") {
		if strings.IndexByte(line, separator) < 0 {
			continue
		}
		t = table{separator: separator}
		named := true
		t.each(line, func(i int, cell span) {
			name := line[cell.start:cell.end]
			named = named && isColumn(name)
			if len(name) <= maxColumn {
				t.name(i, e.kindOf(strings.ReplaceAll(name, " ", "_")))
			}
			t.count, t.named = i+1, t.named+min(len(name), 1)
		})
		return t, named && t.some && t.count > 1
	}
	return table{}, false
}

// isColumn reports whether a text may be the name of a column.
func isColumn(s string) bool {
	if len(s) > maxColumn {
		return false
	}
	for i := range len(s) {
		if b := s[i]; !dotted.has(b) && b != ' ' && b != '/' && b != '#' && b != '(' && b != ')' && b < 0x80 {
			return false
		}
	}
	return s == "" || !isDigit(s[0])
}

// rows takes the secrets of the rows below a header that ends at stop, which is
// before the text where the table began there.
func (h *hunt) rows(t table, from, stop int) {
	odd, end := 0, max(stop, 0)
	for at := stop; at < len(h.text) && (at < 0 || h.text[at] == '\n') && odd <= maxOdd; {
		row := at + 1
		at = h.lineEnd(row)
		line := strings.TrimSuffix(h.text[row:at], "\r")
		if strings.TrimSpace(line) == "" {
			break
		}
		blank := false // beside a lone column, that is how code is indented, or a comma ends it
		count := t.each(line, func(_ int, cell span) { blank = blank || cell.start == cell.end })
		if count != t.count || blank && t.named == 1 {
			odd++
			continue
		}
		odd, end = 0, at
		t.each(line, func(i int, cell span) {
			v := line[cell.start:cell.end]
			if k := t.kinds[min(i, maxColumns-1)]; i < maxColumns && k != notSecret && isCell(k, v) {
				h.found = append(h.found, span{row + cell.start, row + cell.end})
			}
		})
	}
	h.tabledTo = max(h.tabledTo, end)
	h.tables = append(h.tables, tabled{span{from, end}, t})
}

// isCell reports whether a cell below the name of a secret is one.
func isCell(k kind, v string) bool {
	m := mixOf(v)
	return !strings.Contains(v, " ") && (m.digit || m.upper && m.lower) && secretValue(k, v, true)
}

// each cuts a row into its cells, without the quotes and blanks around them, and
// counts them.
func (t *table) each(line string, do func(i int, cell span)) (count int) {
	from, to := 0, len(line)
	if t.separator == '|' {
		inner := strings.TrimSpace(line)
		from = strings.Index(line, inner)
		to = from + len(inner)
		if strings.HasPrefix(inner, "|") {
			from++
		}
		if to > from && line[to-1] == '|' {
			to--
		}
	}
	for at := from; at <= to; count++ {
		stop := t.cellEnd(line[:to], at)
		if do != nil {
			do(count, bare(line, span{at, stop}))
		}
		at = stop + 1
		for t.separator == ' ' && at < to && line[at] == ' ' {
			at++
		}
	}
	return count
}

// cellEnd is where the cell ends that begins at i. Columns that are aligned have
// two spaces between them.
func (t *table) cellEnd(line string, i int) int {
	quoted := i < len(line) && line[i] == '"'
	for at := i; at < len(line); at++ {
		switch {
		case line[at] == '"' && at > i:
			quoted = !quoted
		case quoted || line[at] != t.separator:
		case t.separator != ' ' || at+1 == len(line) || line[at+1] == ' ':
			return at
		}
	}
	return len(line)
}

// bare is a cell without what stands around its text.
func bare(line string, cell span) span {
	for cell.start < cell.end && around.has(line[cell.start]) {
		cell.start++
	}
	for cell.end > cell.start && around.has(line[cell.end-1]) {
		cell.end--
	}
	return cell
}

// tableAt is the table that goes on at a place of a text: its last row ends just
// before it, or it goes on to the end of the text.
func tableAt(tables []tabled, at, size int) *table {
	for i := range tables {
		if t := &tables[i]; t.start < at && (at <= t.end+1 || t.end+1 >= size) {
			return &t.table
		}
	}
	return nil
}
