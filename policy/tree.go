package policy

import (
	"fmt"
	"slices"
)

// kind is what a value of a policy file is.
type kind uint8

const (
	kindTable kind = iota
	kindList
	kindText
	kindBool
	kindInt
	kindFloat
	kindNull
	kindOther // dates, and numbers that are not decimal
)

// node is a value of a policy file and the line it stands on, the same for
// every notation.
type node struct {
	kind  kind
	line  int
	text  string // of a text; of a number and a bool as JSON
	yes   bool
	num   int64
	table map[string]*node
	list  []*node
}

// maxTree is how deep a policy file may be nested.
const maxTree = 16

// file names its places in errors.
type file struct{ name string }

func (f file) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", f.name, max(line, 1), fmt.Errorf(format, args...))
}

// keys of a table in a fixed order.
func (n *node) keys() []string {
	keys := make([]string, 0, len(n.table))
	for key := range n.table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// known refuses keys that are not in allowed: the one that stands first.
func (f file) known(n *node, allowed []string) error {
	first := ""
	for _, key := range n.keys() {
		if !slices.Contains(allowed, key) && (first == "" || n.table[key].line < n.table[first].line) {
			first = key
		}
	}
	if first == "" && n.table[""] == nil {
		return nil
	}
	return f.errorf(n.table[first].line, "unknown key %.80q; %s", first, suggest(first, allowed))
}

func (n *node) String() string {
	switch n.kind {
	case kindTable:
		return "a table"
	case kindList:
		texts := make([]string, len(n.list))
		for i, one := range n.list {
			texts[i] = one.String()
		}
		return fmt.Sprint(texts)
	case kindNull:
		return "nothing"
	default:
		return n.text
	}
}

// texts refuses an empty list, which would match nothing and look like a rule.
func (f file) texts(key string, n *node) ([]string, error) {
	if n.kind != kindList || len(n.list) == 0 {
		return nil, f.errorf(n.line, "%s: use a list of strings, such as [\"*\"]", key)
	}
	list := make([]string, 0, len(n.list))
	for _, one := range n.list {
		if one.kind != kindText || one.text == "" {
			return nil, f.errorf(one.line, "%s: %.80s is not a string that names something", key, one)
		}
		list = append(list, one.text)
	}
	return list, nil
}
