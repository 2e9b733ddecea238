package verify

import (
	"errors"
	"fmt"
	"strings"
)

// pythonLine is a logical line: where it begins and ends, how far it is
// indented, and its first words.
type pythonLine struct {
	first, last, indent int
	words               []string
}

// pythonFunctions are the functions of a Python file, by indentation.
func pythonFunctions(source string) ([]span, error) {
	lines, err := pythonLines(strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n"))
	if err != nil {
		return nil, err
	}
	var spans []span
	type frame struct {
		indent, span int
	}
	var open []frame
	for _, l := range lines {
		for len(open) > 0 && l.indent <= open[len(open)-1].indent {
			open = open[:len(open)-1]
		}
		for _, f := range open {
			spans[f.span].last = l.last
		}
		if len(open) > maxDepth {
			return nil, errTooMany
		}
		words := l.words
		if len(words) > 0 && words[0] == "async" {
			words = words[1:]
		}
		if len(words) > 1 && words[0] == "def" {
			open = append(open, frame{l.indent, len(spans)})
			spans = append(spans, span{words[1], l.first, l.last})
		}
	}
	return spans, nil
}

// pythonReader cuts a file into logical lines.
type pythonReader struct {
	lexer
	lines []pythonLine
	depth int
	// current is the line that is read; begun says that it has begun.
	current pythonLine
	begun   bool
}

func pythonLines(source string) ([]pythonLine, error) {
	r := &pythonReader{lexer: lexer{source: strings.TrimPrefix(source, "\ufeff"), line: 1}}
	for r.at < len(r.source) {
		if !r.begun {
			r.indentation()
			if r.at == len(r.source) {
				break
			}
		}
		if err := r.next(); err != nil {
			return nil, err
		}
	}
	if r.depth > 0 {
		return nil, errors.New("a bracket is not closed")
	}
	r.end()
	return r.lines, nil
}

// indentation reads the blanks at the beginning of a line; a tab goes to the
// next multiple of eight, a form feed back to the beginning.
func (r *pythonReader) indentation() {
	r.current = pythonLine{}
	for ; r.at < len(r.source); r.at++ {
		switch r.source[r.at] {
		case ' ':
			r.current.indent++
		case '\t':
			r.current.indent += 8 - r.current.indent%8
		case '\f':
			r.current.indent = 0
		default:
			return
		}
	}
}

// begin marks that something stands on the line.
func (r *pythonReader) begin() {
	if !r.begun {
		r.begun, r.current.first = true, r.line
	}
}

// end ends a logical line, an empty one without a trace.
func (r *pythonReader) end() {
	if r.begun {
		r.lines = append(r.lines, r.current)
	}
	r.begun = false
}

func (r *pythonReader) next() error {
	switch c := r.source[r.at]; c {
	case '#':
		r.toLineEnd()
		return nil
	case '\n':
		if r.depth == 0 {
			r.end()
		}
		r.skip(1)
		return nil
	case '\\':
		if strings.HasPrefix(r.rest(), "\\\n") {
			r.begin()
			r.skip(2)
			return nil
		}
	case ' ', '\t', '\f':
		r.skip(1)
		return nil
	}
	r.begin()
	err := r.piece()
	r.current.last = r.line
	return err
}

// piece takes a word, a string or a mark.
func (r *pythonReader) piece() error {
	switch c := r.source[r.at]; c {
	case '"', '\'':
		return r.text()
	case '(', '[', '{':
		r.depth++
	case ')', ']', '}':
		if r.depth--; r.depth < 0 {
			return fmt.Errorf("line %d: %c closes nothing", r.line, c)
		}
	default:
		if n := r.wordLength(); n > 0 {
			if len(r.current.words) < 3 {
				r.current.words = append(r.current.words, r.source[r.at:r.at+n])
			}
			r.skip(n)
			return nil
		}
	}
	if len(r.current.words) == 0 {
		r.current.words = []string{""} // what begins with a mark is no definition
	}
	r.skip(1)
	return nil
}

// text takes a string. In a raw one a backslash hides a quote all the same.
func (r *pythonReader) text() error {
	if len(r.current.words) == 0 {
		r.current.words = []string{""}
	}
	quote := r.source[r.at]
	triple := strings.Repeat(string(quote), 3)
	if !r.starts(triple) {
		n := r.quotedLength(false) // a line that ends with a backslash goes on
		if n == 0 {
			return r.unended("a string")
		}
		r.skip(n)
		return nil
	}
	text := r.rest()
	for i := 3; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if strings.HasPrefix(text[i:], triple) {
			r.skip(i + 3)
			return nil
		}
	}
	return r.unended("a string")
}
