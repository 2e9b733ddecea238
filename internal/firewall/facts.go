package firewall

import (
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
func (r *Result) facts(redactor Redactor) ([]string, error) {
	switch {
	case r.shape == listed && r.objects:
		return r.tableFacts(redactor)
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

func (r *Result) tableFacts(redactor Redactor) ([]string, error) {
	columns := r.columns
	if columns == nil {
		columns = collect(r)
	}
	names := make([]string, 0, len(columns))
	for i := range columns {
		names = append(names, clip(head(columns[i].name, nameLimit+edge), nameLimit, redactor))
	}
	facts := make([]string, 0, 2+2*statColumns)
	facts = append(facts, "Total rows: "+strconv.Itoa(r.granted), "Top keys: "+strings.Join(names, ", "))
	if r.granted == 0 {
		return facts[:1], nil
	}
	told, err := tellable(columns, redactor)
	if err != nil {
		return nil, err
	}
	left := statColumns
	for i := range names {
		k := &columns[i]
		if k.numeric() && left > 0 {
			left--
			if told[i] && !math.IsInf(k.sum, 0) {
				facts = append(facts, fmt.Sprintf("%s: min=%s, max=%s, avg=%s", names[i],
					decimal(k.min), decimal(k.max), decimal(k.sum/float64(k.present))))
			}
		}
	}
	for i := range names[:min(len(names), statColumns)] {
		k := &columns[i]
		switch {
		case k.numeric() || !told[i]:
		case k.truths+k.falses == k.present:
			facts = append(facts, fmt.Sprintf("%s: True=%d, False=%d", names[i], k.truths, k.falses))
		case !k.more && k.known > 1:
			facts = append(facts, names[i]+" distribution: "+k.distribution(redactor))
		}
	}
	return facts, nil
}

func (k *column) numeric() bool { return k.numbers > 0 && k.numbers == k.present }

func decimal(v float64) string {
	if math.Abs(v) >= 1e21 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func (k *column) distribution(redactor Redactor) string {
	counts := make(map[string]int, k.known)
	values := make([]string, 0, k.known)
	for _, w := range k.distinct[:k.known] {
		value := clip(head(w.quoted, valueChars+edge), valueChars, redactor)
		if counts[value] == 0 {
			values = append(values, value)
		}
		counts[value] += w.n
	}
	slices.Sort(values)
	for i, value := range values {
		values[i] = value + "=" + strconv.Itoa(counts[value])
	}
	return strings.Join(values, ", ")
}

// tellable says of each column whether what a fact would tell of it may be
// told under its name: the redactor is shown name and values together.
func tellable(columns []column, redactor Redactor) ([topColumns]bool, error) {
	var told [topColumns]bool
	p := printer{redactor: redactor, text: textLimit, out: []byte{'['}}
	var of [topColumns * (maxDistinct + 1)]int
	n := 0
	pair := func(column int, value []byte) {
		if n > 0 {
			p.out = append(p.out, ',')
		}
		of[n] = column
		n++
		p.out = append(p.out, '{')
		p.string(columns[column].name, nameLimit)
		p.out = append(p.out, ':')
		if value[0] == '"' {
			p.string(value, textLimit)
		} else {
			p.out = append(p.out, value...)
		}
		p.out = append(p.out, '}')
	}
	for i := range columns {
		k := &columns[i]
		told[i] = true
		switch {
		case k.numeric():
			told[i] = len(k.lowest) <= textLimit && len(k.highest) <= textLimit
			if told[i] {
				pair(i, k.lowest)
				pair(i, k.highest)
			}
		case i < statColumns:
			for _, w := range k.distinct[:k.known] {
				pair(i, w.quoted)
			}
		}
	}
	p.out = append(p.out, ']')
	clean, _, err := redactor.JSON(p.out)
	if err != nil {
		return told, fmt.Errorf("facts: %w", err)
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
