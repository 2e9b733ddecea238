package firewall

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The limits of facts (K-14).
const (
	MaxFacts = 20
	// factChars is the longest fact, but for its ellipsis, in characters.
	factChars = 500
	// valueChars is how much of a field's value, and itemChars how much of an
	// element, a fact tells.
	valueChars, itemChars = 80, 100
	// namedFields is how many names one fact lists.
	namedFields = 20
)

// facts say what there is in a result: the same for the same result, and
// nothing of what the redactor knows by the name of a field.
func (r *Result) facts(redactor Redactor, room *Room) ([]string, error) {
	switch {
	case r.shape == listed && r.objects:
		return r.tableFacts(redactor, room)
	case r.shape == listed:
		return r.listFacts(redactor)
	case r.first() == '{':
		return r.objectFacts(redactor)
	default:
		return r.valueFacts(redactor)
	}
}

func (r *Result) first() byte { return (&cursor{data: r.raw}).peek() }

// capFacts keeps MaxFacts of them, the last of which then says how many more
// there would be.
func capFacts(facts []string, total int) []string {
	if total <= MaxFacts {
		return facts
	}
	return append(facts[:MaxFacts-1], fmt.Sprintf("… (%d more facts omitted; full data via handle)", total-MaxFacts+1))
}

func (r *Result) tableFacts(redactor Redactor, room *Room) ([]string, error) {
	if r.granted == 0 {
		return []string{"Total rows: 0"}, nil
	}
	columns := r.columns
	if columns == nil {
		columns = collect(r, room.columns[:0])
	}
	told, err := tellable(columns, redactor, room)
	if err != nil {
		return nil, err
	}
	t := teller{redactor: redactor, text: room.text[:0]}
	t.text = strconv.AppendInt(append(t.text, "Total rows: "...), int64(r.granted), 10)
	t.end()
	t.keys(columns)
	left := statColumns
	for i := range columns {
		if k := &columns[i]; k.numeric() && left > 0 {
			left--
			if told[i] && !math.IsInf(k.sum, 0) {
				t.spread(i, k)
			}
		}
	}
	for i := range columns[:min(len(columns), statColumns)] {
		k := &columns[i]
		switch {
		case k.numeric() || !told[i]:
		case k.truths+k.falses == k.present:
			t.name(i)
			t.text = strconv.AppendInt(append(t.text, ": True="...), int64(k.truths), 10)
			t.text = strconv.AppendInt(append(t.text, ", False="...), int64(k.falses), 10)
			t.end()
		case !k.more && k.known > 1:
			t.name(i)
			t.distribution(k)
			t.end()
		}
	}
	room.text = t.text
	return t.facts(), nil
}

// factsBytes is about what the facts of a table take, maxTableFacts how many
// there are at most.
const (
	factsBytes    = 1024
	maxTableFacts = 2 + 2*statColumns
)

// teller writes the facts of a table one after another.
type teller struct {
	redactor Redactor
	text     []byte
	// names are where the names of the columns stand in text.
	names [topColumns]span
	ends  [maxTableFacts]int
	n     int
}

// end ends a fact.
func (t *teller) end() {
	t.ends[t.n] = len(t.text)
	t.n++
}

func (t *teller) facts() []string {
	all, start := string(t.text), 0
	facts := make([]string, 0, t.n)
	for _, end := range t.ends[:t.n] {
		facts = append(facts, all[start:end])
		start = end
	}
	return facts
}

func (t *teller) keys(columns []column) {
	t.text = append(t.text, "Top keys: "...)
	for i := range columns {
		if i > 0 {
			t.text = append(t.text, ", "...)
		}
		start := len(t.text)
		t.text = appendHead(t.text, columns[i].name, nameLimit, t.redactor)
		t.names[i] = span{uint32(start), uint32(len(t.text))}
	}
	t.end()
}

func (t *teller) name(i int) { t.text = append(t.text, t.names[i].of(t.text)...) }

// spread tells the numbers of a column.
func (t *teller) spread(i int, k *column) {
	t.name(i)
	t.text = appendDecimal(append(t.text, ": min="...), k.min)
	t.text = appendDecimal(append(t.text, ", max="...), k.max)
	t.text = appendDecimal(append(t.text, ", avg="...), k.sum/float64(k.present))
	t.end()
}

func (k *column) numeric() bool { return k.numbers > 0 && k.numbers == k.present }

func appendDecimal(out []byte, v float64) []byte {
	if math.Abs(v) >= 1e21 {
		return strconv.AppendFloat(out, v, 'g', -1, 64)
	}
	return strconv.AppendFloat(out, v, 'f', 2, 64)
}

// appendHead writes what a string says, redacted and cut to limit bytes where it is longer.
func appendHead(out, quoted []byte, limit int, redactor Redactor) []byte {
	if len(quoted)-2 <= limit && bytes.IndexByte(quoted, '\\') < 0 {
		return append(out, quoted[1:len(quoted)-1]...)
	}
	return append(out, clip(head(quoted, limit+edge), limit, redactor)...)
}

// distribution tells how often each word came, in the order of the words.
// Words that are alike where they are cut count as one.
func (t *teller) distribution(k *column) {
	var room [256]byte
	var values [maxDistinct]struct {
		at span
		n  int
	}
	known, texts := values[:0], room[:0]
	for _, w := range k.distinct[:k.known] {
		start := len(texts)
		texts = appendHead(texts, w.quoted, valueChars, t.redactor)
		text, i := texts[start:], len(known)
		for i > 0 && bytes.Compare(known[i-1].at.of(texts), text) >= 0 { // mostly they came in order
			i--
		}
		if i == len(known) || !bytes.Equal(known[i].at.of(texts), text) {
			known = known[:len(known)+1]
			copy(known[i+1:], known[i:])
			known[i].at, known[i].n = span{uint32(start), uint32(len(texts))}, 0
		}
		known[i].n += w.n
	}
	t.text = append(t.text, " distribution: "...)
	for i, v := range known {
		if i > 0 {
			t.text = append(t.text, ", "...)
		}
		t.text = strconv.AppendInt(append(append(t.text, v.at.of(texts)...), '='), int64(v.n), 10)
	}
}

// tellable says of each column whether what a fact would tell of it may be
// told under its name: the redactor is shown name and values together.
func tellable(columns []column, redactor Redactor, room *Room) ([topColumns]bool, error) {
	var told [topColumns]bool
	harmless := true
	for i := range columns {
		k := &columns[i]
		told[i] = !k.numeric() || len(k.lowest) <= textLimit && len(k.highest) <= textLimit
		k.tells(i, func(value []byte) { harmless = harmless && redactor.Harmless(k.name, value) })
	}
	if harmless {
		return told, nil
	}
	p := printer{redactor: redactor, text: textLimit, out: append(room.pairs[:0], '[')}
	var of [topColumns * (maxDistinct + 1)]int
	n := 0
	for i := range columns {
		if !told[i] {
			continue
		}
		columns[i].tells(i, func(value []byte) {
			if n > 0 {
				p.out = append(p.out, ',')
			}
			of[n] = i
			n++
			p.out = append(p.out, '{')
			p.string(columns[i].name, nameLimit)
			p.out = append(p.out, ':')
			if value[0] == '"' {
				p.string(value, textLimit)
			} else {
				p.out = append(p.out, value...)
			}
			p.out = append(p.out, '}')
		})
	}
	p.out = append(p.out, ']')
	room.pairs = p.out
	clean, _, err := redactor.JSON(p.out)
	if err != nil {
		return told, fmt.Errorf("facts: %w", err)
	}
	if bytes.Equal(clean, p.out) {
		return told, nil
	}
	before := make([][]byte, 0, n)
	eachElement(p.out, func(v []byte) bool { before = append(before, v); return true })
	i := 0
	eachElement(clean, func(v []byte) bool {
		if i < n && string(v) != string(before[i]) {
			told[of[i]] = false
		}
		i++
		return true
	})
	return told, nil
}

// tells visits the values that the facts of the i-th column say.
func (k *column) tells(i int, visit func(value []byte)) {
	switch {
	case k.numeric():
		visit(k.lowest)
		visit(k.highest)
	case i < statColumns:
		for _, w := range k.distinct[:k.known] {
			visit(w.quoted)
		}
	}
}

// listFacts are for an array that does not hold objects only.
func (r *Result) listFacts(redactor Redactor) ([]string, error) {
	p := printer{redactor: redactor, text: itemChars * 4, fields: FrameFields, out: []byte{'['}}
	shown := min(r.granted, MaxFacts)
	for i := range shown {
		if i > 0 {
			p.out = append(p.out, ',')
		}
		p.in = cursor{data: r.row(i)}
		p.value(FrameDepth)
	}
	clean, _, err := redactor.JSON(append(p.out, ']'))
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	facts := make([]string, 0, MaxFacts+1)
	facts = append(facts, fmt.Sprintf("List of %d items", r.granted))
	eachElement(clean, func(item []byte) bool {
		facts = append(facts, runes(repr(item, true), itemChars))
		return true
	})
	return capFacts(facts, 1+r.granted), nil
}

// objectFacts are for an object: its names in order, and its first values.
func (r *Result) objectFacts(redactor Redactor) ([]string, error) {
	if r.shape == sole && r.granted == 0 { // the one row is not to be seen
		return []string{}, nil
	}
	var names []string
	count := 0
	var values []string
	p := printer{redactor: redactor, text: textLimit, fields: FrameFields, out: []byte{'{'}}
	eachMember(r.raw, func(name, value []byte) {
		count++
		names = least(names, clip(head(name, nameLimit+edge), nameLimit, redactor))
		if count > MaxFacts {
			return
		}
		if count > 1 {
			p.out = append(p.out, ',')
		}
		p.string(name, nameLimit)
		p.out = append(p.out, ':')
		p.in = cursor{data: value}
		p.value(FrameDepth)
		values = append(values, summary(value, redactor))
	})
	clean, _, err := redactor.JSON(append(p.out, '}'))
	if err != nil {
		return nil, fmt.Errorf("facts: %w", err)
	}
	facts := make([]string, 0, MaxFacts+1)
	facts = append(facts, "Keys: "+strings.Join(names, ", "))
	eachMember(clean, func(name, value []byte) {
		i := len(facts) - 1
		said := values[i]
		if said == "" || value[0] == '"' { // plain, or a container that was redacted for its name
			said = runes(repr(value, false), valueChars)
		}
		facts = append(facts, plain(name)+": "+said)
	})
	return capFacts(facts, 1+count), nil
}

// least keeps the first namedFields names in order.
func least(names []string, name string) []string {
	i, _ := slices.BinarySearch(names, name)
	if i == namedFields {
		return names
	}
	names = slices.Insert(names, i, name)
	return names[:min(len(names), namedFields)]
}

// summary says what a container holds; it is empty for a plain value.
func summary(value []byte, redactor Redactor) string {
	switch value[0] {
	case '[':
		n := 0
		eachElement(value, func([]byte) bool { n++; return true })
		return fmt.Sprintf("list of %d items", n)
	case '{':
		var names []string
		eachMember(value, func(name, _ []byte) {
			if len(names) < 5 {
				names = append(names, clip(head(name, nameLimit+edge), nameLimit, redactor))
			}
		})
		return "dict with keys [" + strings.Join(names, ", ") + "]"
	}
	return ""
}

// valueFacts are for one plain value.
func (r *Result) valueFacts(redactor Redactor) ([]string, error) {
	if r.granted == 0 {
		return []string{}, nil
	}
	value := r.row(0)
	if value[0] != '"' {
		return []string{runes(repr(value, false), 2*itemChars)}, nil
	}
	s := plain(value)
	all := 0
	for range s {
		all++
	}
	if all <= factChars {
		return []string{s}, nil
	}
	clean := clip(s, len(runes(s, factChars)), redactor)
	return []string{fmt.Sprintf("%s… (%d chars total)", strings.TrimSuffix(clean, "…"), all)}, nil
}

// repr is how facts write a value that was checked: the seed's forms of what
// JSON calls null, true and false, and strings in single quotes where quotes is set.
func repr(value []byte, quotes bool) string {
	switch value[0] {
	case 'n':
		return "None"
	case 't':
		return "True"
	case 'f':
		return "False"
	case '"':
		if !quotes {
			return plain(value)
		}
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(plain(value)) + "'"
	}
	return string(value)
}
