package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre"
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
	case n.kind == kindText:
		p, err := parsePattern(n.text)
		if err != nil {
			return f.errorf(n.line, "%s %s: %w", noun, c.name, err)
		}
		c.patterns = append(c.patterns, p)
	case c.key == keyArguments && numbers:
		c.scalars = append(c.scalars, n.text)
	case c.key == keyArguments:
		return f.errorf(n.line, "%s %s: use a string, a number, true or false, or a list of them", noun, c.name)
	default:
		return f.errorf(n.line, "%s %s: use a string", noun, c.name)
	}
	return nil
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
	var c nacre.Constraints
	if rows := n.table["max_rows"]; rows != nil {
		if rows.kind != kindInt || rows.num < 0 || rows.num > 1<<31-1 {
			return c, f.errorf(rows.line, "max_rows: use a whole number from 0 on")
		}
		count := int(rows.num)
		c.MaxRows = &count
	}
	var err error
	if c.AllowedFields, err = f.names(n, "allowed_fields"); err != nil {
		return c, err
	}
	if c.Scope, err = f.textTable(n, "scope"); err != nil {
		return c, err
	}
	if arguments := n.table["arguments"]; arguments != nil {
		if c.Arguments, err = f.limits(arguments); err != nil {
			return c, err
		}
	}
	if err := checkConstraints(c); err != nil {
		return c, f.errorf(n.line, "constraints: %w", err)
	}
	return c, nil
}

func (f file) limits(n *node) (nacre.ArgumentLimits, error) {
	var a nacre.ArgumentLimits
	if n.kind != kindTable {
		return a, f.errorf(n.line, "arguments: use a table of allowed_keys, pinned and prefix")
	}
	if err := f.known(n, []string{"allowed_keys", "pinned", "prefix"}); err != nil {
		return a, err
	}
	var err error
	if a.AllowedKeys, err = f.names(n, "allowed_keys"); err != nil {
		return a, err
	}
	if a.Prefix, err = f.textTable(n, "prefix"); err != nil {
		return a, err
	}
	pinned := n.table["pinned"]
	if pinned == nil {
		return a, nil
	}
	if pinned.kind != kindTable {
		return a, f.errorf(pinned.line, "pinned: use a table of arguments and values")
	}
	a.Pinned = map[string]json.RawMessage{}
	for _, name := range pinned.keys() {
		if a.Pinned[name], err = f.pin(name, pinned.table[name]); err != nil {
			return a, err
		}
	}
	return a, nil
}

// pin is a scalar as JSON.
func (f file) pin(name string, n *node) (json.RawMessage, error) {
	switch n.kind { //nolint:exhaustive // all others are refused
	case kindText:
		raw, err := json.Marshal(n.text)
		if err != nil {
			return nil, fmt.Errorf("pinned %s: %w", name, err)
		}
		return raw, nil
	case kindInt, kindFloat, kindBool:
		return json.RawMessage(n.text), nil
	}
	return nil, f.errorf(n.line, "pinned %s: use a string, a number, true or false", name)
}

// names is an optional list, in which nothing at all is a meaning: none.
func (f file) names(n *node, key string) ([]string, error) {
	list := n.table[key]
	switch {
	case list == nil:
		return nil, nil
	case list.kind == kindList && len(list.list) == 0:
		return []string{}, nil
	}
	return f.texts(key, list)
}

func (f file) textTable(n *node, key string) (map[string]string, error) {
	table := n.table[key]
	if table == nil {
		return nil, nil
	}
	if table.kind != kindTable {
		return nil, f.errorf(table.line, "%s: use a table of names and strings", key)
	}
	values := make(map[string]string, len(table.table))
	for _, name := range table.keys() {
		if table.table[name].kind != kindText {
			return nil, f.errorf(table.table[name].line, "%s %s: use a string", key, name)
		}
		values[name] = table.table[name].text
	}
	return values, nil
}
