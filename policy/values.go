package policy

import (
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
	"github.com/nacre-dev/nacre/internal/quantity"
)

// values reads a table of names and what each must be: a pattern or a list of
// them, and for arguments a number or a bool too.
func (f file) values(key string, n *node) ([]condition, error) {
	noun := strings.TrimSuffix(key, "s")
	if n.kind != kindTable || len(n.table) == 0 {
		return nil, f.errorf(n.line, `%s: use a table of names and values, "*" for any value`, key)
	}
	if len(n.table) > maxList {
		return nil, f.errorf(n.line, "%s: %d names, the limit is %d", key, len(n.table), maxList)
	}
	var conditions []condition
	for _, name := range n.keys() {
		value := n.table[name]
		if name == "" || len(name) > maxGlob {
			return nil, f.errorf(value.line, "%s: a name of 1–%d bytes is needed", key, maxGlob)
		}
		c := condition{key: key, name: name}
		list := []*node{value}
		if value.kind == kindList {
			list = value.list
		}
		if len(list) == 0 || len(list) > maxList {
			return nil, f.errorf(value.line, "%s %s: use a string, or a list of 1–%d", noun, name, maxList)
		}
		for _, one := range list {
			if err := f.value(&c, noun, one); err != nil {
				return nil, err
			}
		}
		if c.from != "" && len(list) > 1 {
			return nil, f.errorf(value.line, "%s %s: ${scope.…} stands alone", noun, name)
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

// value adds one pattern or scalar to a condition.
func (f file) value(c *condition, noun string, n *node) error {
	numbers := n.kind == kindInt || n.kind == kindFloat || n.kind == kindBool
	switch {
	case n.kind == kindText && c.key == keyAttributes && strings.HasPrefix(n.text, "${"):
		from, ok := strings.CutPrefix(n.text, "${scope.")
		if from, ok = cutSuffix(from, "}", ok); !ok || from == "" {
			return f.errorf(n.line, "%s %s: %.80q: only ${scope.NAME} can be referred to", noun, c.name, n.text)
		}
		c.from = from
	case n.kind == kindText && c.key == keyArguments && addBound(c, n.text):
	case n.kind == kindText:
		p, err := parsePattern(n.text)
		if err != nil {
			return f.errorf(n.line, "%s %s: %w", noun, c.name, err)
		}
		c.patterns = append(c.patterns, p)
	case c.key == keyArguments && numbers:
		c.scalars = append(c.scalars, n.text)
		if isNumber(n.text) {
			read, ok := quantity.ParseNumber(n.text)
			if !ok {
				return f.errorf(n.line, "%s %s: %.80s is no number of at most %d characters", noun, c.name, n.text, quantity.MaxNumber)
			}
			c.numbers = append(c.numbers, read)
		}
	case c.key == keyArguments:
		return f.errorf(n.line, "%s %s: use a string, a number, true or false, or a list of them", noun, c.name)
	default:
		return f.errorf(n.line, "%s %s: use a string", noun, c.name)
	}
	return nil
}

// addBound adds a text that is a comparison; false where it is a pattern.
func addBound(c *condition, text string) bool {
	b, ok := quantity.ParseBound(text)
	if ok {
		c.bounds = append(c.bounds, b)
	}
	return ok
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	before, found := strings.CutSuffix(s, suffix)
	return before, ok && found
}

// provenances reads the table form: for each sink, where its value may have
// been seen.
func (f file) provenances(n *node) ([]condition, error) {
	if len(n.table) == 0 {
		return nil, f.errorf(n.line, "provenance: use a list, or a table of sinks and lists")
	}
	var conditions []condition
	for _, sink := range n.keys() {
		list, err := f.texts("provenance of "+sink, n.table[sink])
		if err != nil {
			return nil, err
		}
		bits, err := provenanceBits(list)
		if err != nil || sink == "" {
			return nil, f.errorf(n.table[sink].line, "provenance of %q: %w", sink, err)
		}
		conditions = append(conditions, condition{key: keyProvenance, name: sink, bits: bits})
	}
	return conditions, nil
}

// constraints reads what a rule narrows its allow or its question to.
func (f file) constraints(n *node) (nacre.Constraints, error) {
	if n.kind != kindTable {
		return nacre.Constraints{}, f.errorf(n.line, "constraints: use a table")
	}
	if err := f.known(n, []string{"max_rows", "allowed_fields", "scope", "arguments"}); err != nil {
		return nacre.Constraints{}, err
	}
	raw, err := n.json()
	if err != nil {
		return nacre.Constraints{}, f.errorf(n.line, "constraints: %w", err)
	}
	c, err := constraint.Parse(raw)
	if err != nil {
		return c, f.errorf(n.line, "constraints: %w", err)
	}
	return c, nil
}
