package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The limits of YAML, beside those of every policy file.
const (
	maxYAML   = 256 << 10
	maxIndent = 128 // columns before the first character of a line
)

// readYAML makes a tree of a file in YAML. Of YAML's ways to say one thing in
// another place or with another type, none is taken: no anchors, no merged
// keys, no tags, no second document.
func readYAML(name string, data []byte) (root *node, err error) {
	f := file{name}
	if len(data) > maxYAML {
		return nil, fmt.Errorf("%s: %d bytes, the limit for YAML is %d", name, len(data), maxYAML)
	}
	defer func() { // the library is not ours, and a policy that is not understood must not decide
		if broken := recover(); broken != nil {
			root, err = nil, f.errorf(1, "this YAML cannot be read")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if err := f.plain(tokens); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, f.yamlError(err)
	}
	root = &node{kind: kindTable, line: 1, table: map[string]*node{}}
	bodies := 0
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if bodies++; bodies > 1 {
			return nil, f.errorf(doc.Body.GetToken().Position.Line, "a second document: a file holds one")
		}
		if root, err = f.yaml(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// yamlError keeps the line and the first sentence of the library's errors,
// which quote the text.
func (f file) yamlError(err error) error {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) && located.GetToken() != nil {
		return f.errorf(located.GetToken().Position.Line, "%s", located.GetMessage())
	}
	return f.errorf(1, "%s", upTo(err.Error(), "\n"))
}

// plain refuses tokens that mean something that stands elsewhere, and nesting
// that would make the parser recurse without bound.
func (f file) plain(tokens token.Tokens) error {
	depth, line, dashes, documents := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
			if t.Position.Column > maxIndent && depth == 0 {
				return f.errorf(line, "indented by more than %d columns", maxIndent)
			}
		}
		if what, refused := refusedToken(t.Type); refused {
			return f.errorf(line, "%s", what)
		}
		switch t.Type {
		case token.DocumentHeaderType:
			if documents++; documents > 1 {
				return f.errorf(line, "a second document: a file holds one")
			}
		case token.SequenceEntryType:
			dashes++
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		}
		if depth > maxTree || dashes > maxTree {
			return f.errorf(line, "nested more than %d deep", maxTree)
		}
	}
	return nil
}

func refusedToken(t token.Type) (what string, refused bool) {
	switch t {
	case token.AnchorType, token.AliasType:
		return `anchors and aliases are not taken: write the value where it is meant, and a star in quotes, as "*"`, true
	case token.MergeKeyType:
		return "merged keys are not taken: write the keys where they are meant", true
	case token.TagType, token.DirectiveType:
		return "tags and directives are not taken", true
	case token.MappingKeyType:
		return "a key is a plain word here, without ?", true
	case token.InvalidType:
		return "this is not YAML", true
	}
	return "", false
}

func (f file) yaml(n ast.Node, depth int) (*node, error) {
	if n == nil || n.GetToken() == nil {
		return nil, f.errorf(1, "this YAML cannot be read")
	}
	made := &node{kind: kindOther, line: n.GetToken().Position.Line, text: n.GetToken().Value}
	if depth > maxTree {
		return nil, f.errorf(made.line, "nested more than %d deep", maxTree)
	}
	switch v := n.(type) {
	case *ast.StringNode:
		made.kind, made.text = kindText, v.Value
	case *ast.LiteralNode:
		made.kind, made.text = kindText, v.Value.Value
	case *ast.BoolNode:
		made.kind, made.yes, made.text = kindBool, v.Value, strconv.FormatBool(v.Value)
	case *ast.NullNode:
		made.kind = kindNull
	case *ast.IntegerNode:
		if number, err := strconv.ParseInt(made.text, 10, 64); err == nil && strconv.FormatInt(number, 10) == made.text {
			made.kind, made.num = kindInt, number
		}
	case *ast.FloatNode:
		if raw, err := json.Marshal(v.Value); err == nil {
			made.kind, made.text = kindFloat, string(raw)
		}
	case *ast.SequenceNode:
		made.kind = kindList
		for _, one := range v.Values {
			item, err := f.yaml(one, depth+1)
			if err != nil {
				return nil, err
			}
			made.list = append(made.list, item)
		}
	case *ast.MappingNode:
		return f.yamlTable(made, v.Values, depth)
	case *ast.MappingValueNode:
		return f.yamlTable(made, []*ast.MappingValueNode{v}, depth)
	}
	return made, nil
}

func (f file) yamlTable(made *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	made.kind, made.table = kindTable, make(map[string]*node, len(values))
	for i, pair := range values {
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			return nil, f.errorf(pair.Key.GetToken().Position.Line, "the key %.80s is not a word; put it in quotes", strings.TrimSpace(pair.Key.String()))
		}
		line := key.Token.Position.Line
		if i == 0 {
			made.line = line
		}
		if made.table[key.Value] != nil {
			return nil, f.errorf(line, "the key %.80q is there twice", key.Value)
		}
		value, err := f.yaml(pair.Value, depth+1)
		if err != nil {
			return nil, err
		}
		value.line = line
		made.table[key.Value] = value
	}
	return made, nil
}
