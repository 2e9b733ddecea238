package policy

import "strings"

// maxInline is how many lines an inline table's keys are looked for.
const maxInline = 20

// places is the line of each key of a policy file. The TOML library keeps no
// positions of decoded keys, and an error that names no line sends a person
// looking through every rule.
type places struct {
	lines map[place]int
	text  []string
}

// place is a key of the file (rule -1) or of the n-th table of the list.
type place struct {
	rule int
	key  string
}

// of is the line of a key, else that of the closest table around it, else
// that of the rule.
func (p places) of(rule int, key string) int {
	if line, ok := p.lines[place{rule, key}]; ok {
		return line
	}
	for at := key; strings.Contains(at, "."); {
		at = at[:strings.LastIndexByte(at, '.')]
		if line, ok := p.lines[place{rule, at}]; ok {
			return p.within(line, key[len(at)+1:])
		}
	}
	return max(p.lines[place{rule, ""}], 1)
}

// within looks for a key of an inline table from its first line on.
func (p places) within(line int, key string) int {
	for i := line; i <= len(p.text) && i < line+maxInline; i++ {
		if strings.Contains(p.text[i-1], key) {
			return i
		}
	}
	return line
}

// locate notes where the keys of a file stand that the TOML library accepted;
// list is the name of its [[tables]].
func locate(data, list string) places {
	p := places{lines: map[place]int{}, text: strings.Split(data, "\n")}
	rules := -1            // the number of the last [[rules]] table
	scope := place{-1, ""} // the table that we are in, with a dot after its name
	var quote string       // of the multi-line string that we are in
	depth := 0             // brackets of a value that are open
	for i, line := range p.text {
		line = strings.TrimSpace(line)
		key, value, pair := strings.Cut(line, "=")
		switch {
		case quote != "":
			if strings.Contains(line, quote) {
				quote = ""
			}
		case depth > 0:
			depth += brackets(line)
			quote = opens(line)
		case line == "" || line[0] == '#':
		case line[0] == '[':
			if header(line) == list {
				rules++
			}
			scope = p.table(header(line), list, place{rules, ""}, i+1)
		case pair:
			p.note(place{scope.rule, scope.key + bare(key)}, i+1)
			quote = opens(value)
			depth = brackets(value)
		}
	}
	return p
}

// table notes a header and returns the scope of the keys below it.
func (p places) table(name, list string, at place, line int) place {
	top, rest, nested := strings.Cut(name, ".")
	p.note(place{-1, top}, line)
	switch {
	case top == list && !nested:
		p.note(at, line)
		return at
	case top == list:
		p.note(place{at.rule, rest}, line)
		return place{at.rule, rest + "."}
	default:
		return place{-1, name + "."}
	}
}

// note keeps the first line of a key.
func (p places) note(at place, line int) {
	if _, known := p.lines[at]; !known {
		p.lines[at] = line
	}
}

// header is the dotted name in "[name]" or "[[name]]".
func header(line string) string {
	end := strings.IndexByte(line, ']')
	if end < 0 {
		return ""
	}
	return bare(strings.Trim(line[:end], "["))
}

// bare drops what quoting and spacing a simple dotted key may have.
func bare(key string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' || r == '"' || r == '\'' {
			return -1
		}
		return r
	}, key)
}

// opens is the delimiter of a multi-line string that value starts and does not end.
func opens(value string) string {
	for _, quote := range []string{`"""`, `'''`} {
		if strings.Count(value, quote)%2 == 1 {
			return quote
		}
	}
	return ""
}

// brackets is how many a line opens and does not close, those in texts left out.
func brackets(line string) int {
	n := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '#':
			return n
		case '"', '\'':
			i += len(quotedText(line[i:])) - 1
		case '[', '{':
			n++
		case ']', '}':
			n--
		}
	}
	return n
}

// suggest names the key that was meant, and all that there are (U-32).
func suggest(key string, allowed []string) string {
	best, distance := "", 3
	for _, candidate := range allowed {
		if d := edits(strings.ToLower(key), candidate); d < distance {
			best, distance = candidate, d
		}
	}
	all := strings.Join(allowed, ", ")
	if best != "" {
		return "did you mean \"" + best + "\"? The keys here are " + all
	}
	return "the keys here are " + all
}

// edits is the Levenshtein distance of two short keys.
func edits(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
