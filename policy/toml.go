package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/nacre-dev/nacre/internal/atom"
)

// readTOML makes a tree of a file in TOML, whose tables stand under list.
func readTOML(name, list string, data []byte) (*node, error) {
	if err := atom.CheckText(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := file{name}
	if err := f.flat(string(data)); err != nil {
		return nil, err
	}
	var tree map[string]any
	if _, err := toml.Decode(string(data), &tree); err != nil {
		var bad toml.ParseError
		if errors.As(err, &bad) {
			return nil, f.errorf(bad.Position.Line, "%s", bad.Message)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := tomlTree{f, locate(string(data), list)}
	root := &node{kind: kindTable, line: 1, table: map[string]*node{}}
	for key, value := range tree {
		if key != list {
			root.table[key] = t.node(-1, key, value, 1)
		}
	}
	value, ok := tree[list]
	if !ok {
		return root, nil
	}
	line := t.lines.of(-1, list)
	tables, ok := value.([]map[string]any)
	if !ok {
		return nil, f.errorf(line, "%s: write each %s as a [[%s]] table", list, strings.TrimSuffix(list, "s"), list)
	}
	root.table[list] = &node{kind: kindList, line: line}
	for i, entry := range tables {
		root.table[list].list = append(root.table[list].list, t.table(i, "", entry, 1))
	}
	return root, nil
}

type tomlTree struct {
	file
	lines places
}

func (t tomlTree) node(rule int, path string, value any, depth int) *node {
	n := &node{kind: kindOther, line: t.lines.of(rule, path), text: fmt.Sprintf("%.80v", value)}
	switch v := value.(type) {
	case string:
		n.kind, n.text = kindText, v
	case bool:
		n.kind, n.yes, n.text = kindBool, v, strconv.FormatBool(v)
	case int64:
		n.kind, n.num, n.text = kindInt, v, strconv.FormatInt(v, 10)
	case float64:
		if raw, err := json.Marshal(v); err == nil { // infinity is no JSON
			n.kind, n.text = kindFloat, string(raw)
		}
	case map[string]any:
		return t.table(rule, path, v, depth)
	case []map[string]any:
		n.kind = kindList
		for _, one := range v {
			n.list = append(n.list, t.table(rule, path, one, depth+1))
		}
	case []any:
		n.kind = kindList
		for _, one := range v {
			n.list = append(n.list, t.node(rule, path, one, depth+1))
		}
	}
	return n
}

func (t tomlTree) table(rule int, path string, entry map[string]any, depth int) *node {
	n := &node{kind: kindTable, line: t.lines.of(rule, path), table: make(map[string]*node, len(entry))}
	if depth > maxTree {
		n.kind = kindOther
		return n
	}
	for key, value := range entry {
		at := key
		if path != "" {
			at = path + "." + key
		}
		n.table[key] = t.node(rule, at, value, depth+1)
	}
	return n
}

// flat refuses what makes a TOML reader recurse or walk without bound, before
// it is given the text: brackets in brackets, and keys of many parts.
func (f file) flat(data string) error {
	line, depth, dots := 1, 0, 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '\n':
			line, dots = line+1, 0
		case '#':
			i += len(upTo(data[i:], "\n")) - 1
		case '"', '\'':
			text := quotedText(data[i:])
			line += strings.Count(text, "\n")
			i += len(text) - 1
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = max(depth-1, 0), 0
		case '=', ',':
			dots = 0
		case '.':
			dots++
		}
		if depth > maxTree || dots > maxTree {
			return f.errorf(line, "nested more than %d deep", maxTree)
		}
	}
	return nil
}

// quotedText is the TOML string that data begins with, its quotes included.
func quotedText(data string) string {
	quote := data[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(data, triple) {
		return triple + closed(data[3:], triple, quote == `"`)
	}
	return quote + upTo(closed(data[1:], quote, quote == `"`), "\n")
}

// closed is data up to and with the end mark.
func closed(data, mark string, escapes bool) string {
	for i := 0; i < len(data); i++ {
		if escapes && data[i] == '\\' {
			i++
		} else if strings.HasPrefix(data[i:], mark) {
			return data[:i+len(mark)]
		}
	}
	return data
}

// upTo is data before the mark, or all of it.
func upTo(data, mark string) string {
	before, _, _ := strings.Cut(data, mark)
	return before
}
