package verify

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"unicode/utf8"
)

// goFunctions are the functions of a Go file, literals too. Line directives
// move nothing.
func goFunctions(source []byte) ([]span, error) {
	if !utf8.Valid(source) {
		return nil, errors.New("it is not UTF-8")
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		var list scanner.ErrorList
		if errors.As(err, &list) && len(list) > 0 {
			err = errors.New(list[0].Msg)
		}
		return nil, err
	}
	var spans []span
	ast.Inspect(parsed, func(n ast.Node) bool {
		name := ""
		switch f := n.(type) {
		case *ast.FuncDecl:
			name = f.Name.Name
		case *ast.FuncLit:
			name = "a function literal"
		default:
			return true
		}
		spans = append(spans, span{name, set.PositionFor(n.Pos(), false).Line, set.PositionFor(n.End()-1, false).Line})
		return true
	})
	return spans, nil
}
