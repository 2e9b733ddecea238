package verify

import "strings"

// rustFunctions are the functions with a body of a Rust file.
func rustFunctions(source string) ([]span, error) {
	x := &lexer{source: source, line: 1}
	for x.at < len(x.source) {
		if err := x.rustLexeme(); err != nil {
			return nil, err
		}
	}
	match, err := pairs(x.out, false)
	if err != nil {
		return nil, err
	}
	var spans []span
	for i := 0; i+1 < len(x.out); i++ {
		if x.out[i].kind != lexWord || x.out[i].text != "fn" || x.out[i+1].kind != lexWord {
			continue
		}
		if body := rustBody(x.out, match, i+2); body >= 0 {
			spans = append(spans, span{x.out[i+1].text, x.out[i].first, x.out[match[body]].last})
		}
	}
	return spans, nil
}

func (x *lexer) rustLexeme() error {
	switch {
	case x.starts("//"):
		x.toLineEnd()
		return nil
	case x.starts("/*"):
		return x.rustComment()
	case x.starts("'"):
		x.rustTick()
		return nil
	case x.starts("->") || x.starts("=>"):
		x.take(lexMark, 2)
		return nil
	}
	prefix := 0
	for prefix < 2 && x.at+prefix < len(x.source) && strings.IndexByte("bcr", x.source[x.at+prefix]) >= 0 {
		prefix++
	}
	if rest := x.rest()[prefix:]; strings.HasPrefix(rest, `"`) || strings.HasPrefix(rest, "#") && strings.HasPrefix(strings.TrimLeft(rest, "#"), `"`) && prefix > 0 {
		return x.rustString(prefix)
	} else if prefix == 1 && x.source[x.at] == 'b' && strings.HasPrefix(rest, "'") {
		x.skip(1)
		x.rustTick()
		return nil
	} else if prefix == 1 && x.source[x.at] == 'r' && strings.HasPrefix(rest, "#") {
		x.skip(2) // a raw identifier: r#fn is a name
		if n := x.wordLength(); n > 0 {
			x.take(lexWord, n)
			x.out[len(x.out)-1].text = "r#" + x.out[len(x.out)-1].text
		}
		return nil
	}
	if !x.common() {
		x.mark()
	}
	return nil
}

// rustComment skips a comment, in which others nest.
func (x *lexer) rustComment() error {
	depth, i, text := 0, 0, x.rest()
	for i < len(text)-1 {
		switch text[i : i+2] {
		case "/*":
			depth++
			i += 2
		case "*/":
			depth--
			i += 2
		default:
			i++
		}
		if depth == 0 {
			x.skip(i)
			return nil
		}
	}
	return x.unended("a comment")
}

// maxTick is more than the longest character is written with, in bytes.
const maxTick = 16

// rustTick takes a character, or the tick of a lifetime.
func (x *lexer) rustTick() {
	text := x.rest()
	if strings.HasPrefix(text, `'\`) {
		for n := 3; n < min(len(text), maxTick); n++ {
			if text[n] == '\'' {
				x.take(lexQuoted, n+1)
				return
			}
		}
	}
	n := 0
	for _, r := range text[1:] {
		n = 1 + len(string(r))
		break
	}
	if n > 1 && strings.HasPrefix(text[n:], "'") && text[1] != '\'' {
		x.take(lexQuoted, n+1)
		return
	}
	x.skip(1)
}

// rustString takes a string behind a prefix of b, c and r.
func (x *lexer) rustString(prefix int) error {
	raw := strings.Contains(x.rest()[:prefix], "r")
	x.skip(prefix)
	if !raw {
		n := x.quotedLength(true)
		if n == 0 {
			return x.unended("a string")
		}
		x.take(lexQuoted, n)
		return nil
	}
	text := x.rest()
	hashes := len(text) - len(strings.TrimLeft(text, "#"))
	end := strings.Index(text[hashes+1:], `"`+text[:hashes])
	if end < 0 {
		return x.unended("a raw string")
	}
	x.take(lexQuoted, hashes+1+end+1+hashes)
	return nil
}

// maxRustHead is how many parts a function's head may have, groups in brackets
// counting as one.
const maxRustHead = 4096

// rustBody is the brace that opens a function's body, or -1 where it has none.
// Braces within its types belong to constants.
func rustBody(list []lexeme, match []int, from int) int {
	angle := 0
	for i, n := from, 0; i < len(list) && n < maxRustHead; i, n = i+1, n+1 {
		if list[i].kind != lexMark {
			continue
		}
		switch list[i].text {
		case "(", "[":
			i = match[i]
		case "<":
			angle++
		case ">":
			angle = max(angle-1, 0)
		case "{":
			if angle == 0 {
				return i
			}
			i = match[i]
		case ";", "}", ")", "]":
			return -1
		}
	}
	return -1
}
