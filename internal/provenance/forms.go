package provenance

import (
	"bytes"
	"path"
	"strings"
	"unicode/utf8"
)

// The kinds of docs that are not text: what a text says in one spelling for all
// of them. A doc of text cannot begin with their first byte.
const (
	// aliasByte begins all of them, and that of days.
	aliasByte   = 1
	numberKind  = "\x01n"
	accountKind = "\x01d"
	urlKind     = "\x01u"
	hostKind    = "\x01h"
	jsonKind    = "\x01j"
)

const (
	// maxAtom is the longest value that may be a URL, an address or a path.
	maxAtom = 4 << 10
	// minWord is the shortest value that is looked for within texts, in characters.
	minWord = 3
)

// forms are the spellings of one value.
type forms struct {
	needles []needle
	// short values are seen only as the whole of a doc.
	short bool
}

func (f *forms) plain(text string) { f.add(text, f.short) }

func (f *forms) add(text string, alone bool) {
	for _, n := range f.needles {
		if string(n.text) == text {
			return
		}
	}
	if n := newNeedle([]byte(text), alone); len(n.runs) > 0 {
		f.needles = append(f.needles, n)
	}
}

// formsOf returns the spellings in which a JSON value that is no container may
// have been seen; none where it cannot have been.
func formsOf(raw []byte) []needle {
	f := forms{}
	switch {
	case len(raw) == 0 || len(raw) > MaxValue:
	case raw[0] == '"':
		f.text(unescape(raw[1 : len(raw)-1]))
	case raw[0] == '-' || isDigit(raw[0]):
		f.number(string(raw))
	}
	return f.needles
}

func (f *forms) number(raw string) {
	if number, ok := decimal(raw); ok {
		f.add(number, false)
		f.add(numberKind+number, true)
	}
}

func (f *forms) text(value []byte) {
	if !utf8.Valid(value) || bytes.ContainsRune(value, utf8.RuneError) {
		return
	}
	text := string(normalise(value))
	length := wordLength([]byte(text), minWord)
	if length == 0 {
		return
	}
	number, isNumber := spokenNumber(text)
	f.short = length < minWord && !isNumber
	f.plain(text)
	if isNumber {
		f.number(number)
	}
	if isCode(text) {
		f.add(codeKind+text, true)
	}
	if len(text) > maxAtom || f.short {
		return
	}
	if text[0] == '{' || text[0] == '[' || text[0] == '"' {
		f.add(wholeJSON([]byte(text)), true)
	}
	if account, ok := accountOf(text); ok {
		f.plain(account)
		f.add(accountKind+account, true)
	}
	switch {
	case strings.Contains(text, "://"):
		f.url(text)
	case strings.ContainsRune(text, '@'):
		f.address(text)
	default:
		f.host(text)
		f.path(text)
	}
}

// url adds the canonical spelling, and the one without scheme that a person writes.
func (f *forms) url(text string) {
	u, ok := parseURL(text)
	if !ok {
		return
	}
	f.add(urlKind+u.String(), true)
	if u.scheme == "http" || u.scheme == "https" {
		rest := u.path + u.query + u.fragment
		f.plain(u.written + rest)
		if rest == "/" {
			f.plain(u.written)
		}
	}
}

// address adds the address of a mailbox without the name that is shown. A list
// of addresses is no address.
func (f *forms) address(text string) {
	text, _ = strings.CutPrefix(text, "mailto:")
	if name, rest, ok := strings.Cut(text, "<"); ok && strings.HasSuffix(rest, ">") && !strings.ContainsAny(name, `@,;:\()`) {
		text = strings.TrimSuffix(rest, ">")
	}
	if strings.Count(text, "@") == 1 && !strings.ContainsAny(text, ` ,;:?<>"\()`) {
		f.plain(text)
	}
}

func (f *forms) host(text string) {
	if !strings.ContainsAny(text, ".:") || strings.ContainsAny(text, "/ ") {
		return
	}
	if host, ok := parseHost(text, ""); ok {
		f.add(hostKind+host, true)
	}
	if host, ok := strings.CutSuffix(text, "."); ok && !strings.HasSuffix(host, ".") {
		f.plain(host)
	}
}

// path adds what a path is once it is cleaned. Whoever opens it must clean it
// in the same way, without asking the disk.
func (f *forms) path(text string) {
	if clean, ok := cleanPath(text); ok {
		f.plain(clean)
	}
}

func cleanPath(text string) (clean string, ok bool) {
	// Two slashes at the beginning may be those of a URL without its scheme.
	if !strings.Contains(text, "/") || strings.HasPrefix(text, "//") {
		return "", false
	}
	clean = path.Clean(text)
	return clean, clean != text && wordLength([]byte(clean), 1) > 0
}
