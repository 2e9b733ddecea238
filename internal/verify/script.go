package verify

import (
	"slices"
	"strings"
)

// script reads JavaScript and TypeScript, with markup in them or not.
type script struct {
	lexer
	// parens says, for each open parenthesis, that it is that of if, for, while
	// or with: what follows it is no operator.
	parens []bool
	closed bool // the last parenthesis that was closed was such a one
	// braces says, for each open brace, that it is within a template.
	braces []bool
	// lone is, for a quote or slash, the line on which one had no other: the rest
	// of that line is not searched for it again.
	lone [3]int
}

// scriptFunctions are the functions of a JavaScript or TypeScript file: named
// and not, methods and arrows.
func scriptFunctions(source string) ([]span, error) {
	s := &script{lexer: lexer{source: strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n"), line: 1}}
	if s.starts("#!") {
		s.toLineEnd()
	}
	for s.at < len(s.source) {
		if err := s.lexeme(); err != nil {
			return nil, err
		}
	}
	match, err := pairs(s.out, true)
	if err != nil {
		return nil, err
	}
	f := finder{list: s.out, match: match, bodies: map[int]span{}}
	for i := range f.list {
		f.at(i)
	}
	spans := make([]span, 0, len(f.bodies))
	for _, one := range f.bodies {
		spans = append(spans, one)
	}
	slices.SortFunc(spans, func(a, b span) int { return (a.first-b.first)*2 + (b.last - a.last) })
	return spans, nil
}

func (s *script) lexeme() error {
	switch c := s.source[s.at]; {
	case s.starts("//") && !s.inMarkup():
		s.toLineEnd()
	case s.starts("/*"):
		end := strings.Index(s.rest()[2:], "*/")
		if end < 0 {
			return s.unended("a comment")
		}
		s.skip(end + 4)
	case c == '"' || c == '\'':
		s.quote(c)
	case c == '`':
		s.skip(1)
		return s.template()
	case c == '/':
		s.slash()
	case s.starts("=>"):
		s.take(lexMark, 2)
	case strings.IndexByte("(){}", c) >= 0:
		return s.bracket(c)
	case !s.common():
		s.mark()
	}
	return nil
}

// quote takes a string, or the mark that an apostrophe is in the text of markup.
func (s *script) quote(c byte) {
	lone := &s.lone[0]
	if c == '"' {
		lone = &s.lone[1]
	}
	if *lone != s.line {
		if n := s.quotedLength(false); n > 0 {
			s.take(lexQuoted, n)
			return
		}
		*lone = s.line
	}
	s.mark()
}

// inMarkup tells // that follows a colon without a space, as in an address.
func (s *script) inMarkup() bool {
	return s.at > 0 && s.source[s.at-1] == ':' && len(s.out) > 1 && s.out[len(s.out)-2].kind == lexWord && strings.HasPrefix(s.out[len(s.out)-2].text, "http")
}

func (s *script) bracket(c byte) error {
	switch c {
	case '(':
		s.parens = append(s.parens, len(s.out) > 0 && s.out[len(s.out)-1].kind == lexWord && isControl(s.out[len(s.out)-1].text))
	case ')':
		if n := len(s.parens); n > 0 {
			s.closed, s.parens = s.parens[n-1], s.parens[:n-1]
		}
	case '{':
		s.braces = append(s.braces, false)
	case '}':
		if n := len(s.braces); n > 0 {
			inTemplate := s.braces[n-1]
			s.braces = s.braces[:n-1]
			if s.mark(); inTemplate {
				return s.template()
			}
			return nil
		}
	}
	s.mark()
	return nil
}

// template takes text up to the template's end, or to code within it.
func (s *script) template() error {
	text := s.rest()
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '`':
			s.take(lexQuoted, i+1)
			return nil
		case strings.HasPrefix(text[i:], "${"):
			s.take(lexQuoted, i+1)
			s.braces = append(s.braces, true)
			s.mark()
			return nil
		}
	}
	return s.unended("a template")
}

// slash takes a regular expression, or the mark where it divides or is markup.
func (s *script) slash() {
	if s.lone[2] == s.line || !s.operand() {
		s.mark()
		return
	}
	text, class := s.rest(), false
	for i := 1; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '[':
			class = true
		case text[i] == ']':
			class = false
		case text[i] == '/' && !class:
			s.take(lexQuoted, i+1)
			return
		}
	}
	s.lone[2] = s.line
	s.mark()
}

// operand tells that a value is due here, and not an operator.
func (s *script) operand() bool {
	if len(s.out) == 0 {
		return true
	}
	last := s.out[len(s.out)-1]
	switch {
	case last.kind == lexWord:
		switch last.text {
		case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "instanceof", "else", "do", "yield", "await", "default":
			return true
		}
		return false
	case last.kind != lexMark || last.text == "]":
		return false
	case last.text == "<": // the end of an element
		return s.source[s.at-1] != '<'
	case last.text == ")":
		return s.closed
	case last.text == "}":
		return last.last != s.line && !s.starts("/>")
	}
	return true
}

func isControl(name string) bool {
	switch name {
	case "if", "for", "while", "with", "switch", "catch", "await":
		return true
	}
	return false
}

// finder finds functions in the lexemes of a script.
type finder struct {
	list  []lexeme
	match []int
	// bodies are the functions by where their bodies begin.
	bodies map[int]span
}

func (f *finder) is(i int, text string) bool {
	return i >= 0 && i < len(f.list) && f.list[i].kind == lexMark && f.list[i].text == text
}

func (f *finder) isWord(i int, text string) bool {
	return i >= 0 && i < len(f.list) && f.list[i].kind == lexWord && f.list[i].text == text
}

// add keeps the outermost beginning of a body's function.
func (f *finder) add(name string, from, body int) {
	if f.isWord(from-1, "async") {
		from--
	}
	one := span{name, f.list[from].first, f.list[f.match[body]].last}
	if known, ok := f.bodies[body]; !ok || one.first < known.first {
		f.bodies[body] = one
	}
}

func (f *finder) at(i int) {
	switch {
	case f.isWord(i, "function") && !f.is(i-1, ".") && !f.is(i+1, ":"):
		f.named(i)
	case f.is(i, "=>"):
		f.arrow(i)
	case f.is(i, "(") && f.match[i] >= 0:
		f.method(i)
	}
}

// maxScriptHead is how many parts a function's head is read for its parameters.
const maxScriptHead = 256

func (f *finder) named(i int) {
	name := "a function"
	for j := i + 1; j < len(f.list) && j < i+maxScriptHead; j++ {
		switch {
		case f.list[j].kind == lexWord && j <= i+2:
			name = f.list[j].text
		case f.is(j, "(") && f.match[j] >= 0:
			if body := f.body(f.match[j] + 1); body >= 0 {
				f.add(name, i, body)
			}
			return
		case f.is(j, "{") && f.match[j] >= 0:
			j = f.match[j]
		case f.is(j, ";"), f.is(j, "}"):
			return
		}
	}
}

func (f *finder) arrow(i int) {
	body := i + 1
	if !f.is(body, "{") && !f.is(body, "(") || f.match[body] < 0 {
		return
	}
	from := i - 1
	if !f.is(from, ")") {
		for j := i - 1; j > 0 && j > i-maxScriptHead; j-- { // a type stands between
			if f.is(j, ")") && f.is(j+1, ":") {
				from = j
				break
			}
			if f.is(j, ";") || f.is(j, "{") || f.is(j, ",") || f.is(j, "=") {
				break
			}
		}
	}
	if f.is(from, ")") && f.match[from] >= 0 {
		from = f.match[from]
	}
	f.add("an arrow function", max(from, 0), body)
}

// method finds name(…) {…}, in which name is neither a keyword nor missing.
func (f *finder) method(i int) {
	if i == 0 {
		return
	}
	before := f.list[i-1]
	switch {
	case before.kind == lexWord && isControl(before.text), before.kind == lexNumber:
		return
	case before.kind == lexMark && before.text != "]" && before.text != ">":
		return
	}
	if body := f.body(f.match[i] + 1); body >= 0 {
		name := before.text
		if before.kind != lexWord {
			name = "a method"
		}
		f.add(name, i, body)
	}
}

// body is the brace that opens a body right here, or behind a type; -1 is none.
func (f *finder) body(i int) int {
	if f.is(i, "{") {
		return i
	}
	if !f.is(i, ":") {
		return -1
	}
	due := true // a type, and not what joins two
	for end := i + maxScriptHead; i+1 < len(f.list) && i < end; {
		i++
		l := f.list[i]
		switch {
		case f.is(i, "{") && !due:
			return i
		case f.is(i, "{"), f.is(i, "["), f.is(i, "(") && due:
			if f.match[i] < 0 {
				return -1
			}
			i, due = f.match[i], false
		case f.is(i, "<"):
			if i = f.angle(i); i < 0 {
				return -1
			}
		case f.is(i, "|"), f.is(i, "&"), f.is(i, "."), f.is(i, "=>"), f.is(i, "?"), f.is(i, ":"):
			due = true
		case l.kind == lexMark && l.text != "-":
			return -1
		case l.kind == lexWord && joins(l.text):
			due = true
		default:
			due = false
		}
	}
	return -1
}

// joins tells the words after which a type goes on.
func joins(name string) bool {
	switch name {
	case "is", "extends", "keyof", "typeof", "readonly", "infer", "unique", "asserts", "new", "abstract", "in":
		return true
	}
	return false
}

// angle is where an angle bracket is closed; -1 is nowhere.
func (f *finder) angle(i int) int {
	depth := 0
	for end := i + maxScriptHead; i < len(f.list) && i < end; i++ {
		switch {
		case f.is(i, "<"):
			depth++
		case f.is(i, ">"):
			if depth--; depth == 0 {
				return i
			}
		case f.is(i, "{"), f.is(i, "("), f.is(i, "["):
			if f.match[i] < 0 {
				return -1
			}
			i = f.match[i]
		}
	}
	return -1
}
