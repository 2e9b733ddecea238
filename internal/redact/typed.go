package redact

import (
	"strings"

	"github.com/nacre-dev/nacre/internal/redact/encoded"
)

// typed is where the text in quotes begins that is given to a name with a type,
// as in `password: str = "…"` and `password string = "…"`, or -1.
func (a *assignment) typed(from int) int {
	at := from
	for at < len(a.text) && at-from < 4 && strings.IndexByte(" :?", a.text[at]) >= 0 {
		at++
	}
	word := at
	for at < len(a.text) && at-word < maxTail && (alnum.has(a.text[at]) || strings.IndexByte("_.[]<>&*|?", a.text[at]) >= 0) {
		if at++; strings.HasPrefix(a.text[at:], " | ") {
			at += len(" | ")
		}
	}
	equals := encoded.Blanks(a.text[:min(len(a.text), at+4)], at)
	if word == from || at == word || a.byteAt(equals) != '=' || equals == at && !strings.Contains(a.text[from:word], ":") { // <token type="…">
		return -1
	}
	quote := encoded.Blanks(a.text[:min(len(a.text), equals+4)], equals+1)
	if b := a.byteAt(quote); b != '"' && b != '\'' && b != '`' {
		return -1
	}
	return quote
}

// markup is where the text begins that XML gives to a name which has
// attributes, is one or stands in a list of properties, or -1.
func (a *assignment) markup(at int) int {
	start := a.start
	rest := a.text[at:min(len(a.text), at+maxGap)]
	switch {
	case strings.HasPrefix(rest, "</key>"):
		next := encoded.Blanks(rest, len("</key>"))
		if strings.HasPrefix(rest[next:], "<string>") {
			return at + next + len("<string>")
		}
	case strings.HasPrefix(rest, `">`):
		for n := 0; n < maxTail && start > 0 && dotted.has(a.text[start-1]); n++ {
			start--
		}
		before := a.text[:start]
		v := a.text[at+len(`">`) : a.run(value, at+len(`">`))]
		if (strings.HasSuffix(before, ` name="`) || strings.HasSuffix(before, ` key="`)) && mixOf(v).digit {
			return at + len(`">`)
		}
	case strings.HasPrefix(rest, " ") && a.opens():
		if end := strings.IndexAny(rest, "<>"); end > 0 && rest[end] == '>' && rest[end-1] != '/' {
			return at + end + 1
		}
	}
	return -1
}

// The words of a wallet's phrase: how many there are, and how long each is.
const (
	minPhrase = 12
	maxPhrase = 24
	minWord   = 3
	maxWord   = 8
)

// phrase takes twelve words or more that stand for a wallet's key.
func (a *assignment) phrase(at int) (span, bool) {
	for at < len(a.text) && strings.IndexByte("\"'` *", a.text[at]) >= 0 {
		at++
	}
	stop, words := phraseEnd(a.text, at)
	return span{at, stop}, words >= minPhrase
}

// phraseEnd is where the words from i on end, and how many they are.
func phraseEnd(s string, i int) (stop, words int) {
	stop = i
	for next := i; words < maxPhrase; next++ {
		end := next
		for end < len(s) && s[end] >= 'a' && s[end] <= 'z' && end-next <= maxWord {
			end++
		}
		if end-next < minWord || end-next > maxWord {
			break
		}
		words, stop, next = words+1, end, end
		if next == len(s) || s[next] != ' ' {
			break
		}
	}
	return stop, words
}

// maxDeclared is how far from the name of a variable its default is looked for, in bytes.
const maxDeclared = 256

// declared is where the default begins of a variable that Terraform declares:
// variable "db_password" { default = "…" }; -1 where none does.
func declared(text string, at int) int {
	if at >= len(text) || text[at] != '"' {
		return -1
	}
	body := text[at+1 : min(len(text), at+1+maxDeclared)]
	open := strings.TrimLeft(body, " ")
	if !strings.HasPrefix(open, "{") {
		return -1
	}
	if end := strings.IndexByte(open, '}'); end >= 0 {
		open = open[:end]
	}
	name := strings.Index(open, "default")
	if name < 0 {
		return -1
	}
	rest := strings.TrimLeft(open[name+len("default"):], " \t")
	if !strings.HasPrefix(rest, "=") {
		return -1
	}
	rest = strings.TrimLeft(rest[1:], " \t")
	return at + 1 + strings.Index(body, open[:1]) + len(open) - len(rest)
}
