package main

import (
	"errors"
	"io"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of a page that is turned into text.
const (
	maxToken  = 1 << 20 // bytes of one tag or text
	maxTitle  = 300     // bytes
	maxLink   = 1000    // bytes of a link's address
	maxQuotes = 8       // levels of quotations and lists that are shown
)

// writer turns HTML into text, token by token, so that time and memory are in
// proportion to the page whatever its nesting.
type writer struct {
	limit    int
	base     *url.URL
	markdown bool

	out   strings.Builder
	full  bool
	space bool // between words, not written yet
	lines int  // line ends, not written yet
	cell  bool

	head    strings.Builder // the title
	inTitle bool
	pre     int
	lists   int
	quotes  int
	link    link

	hidden hidden
}

// link is the link that is open; the zero value is none.
type link struct {
	address string
	from    int // where its text begins
}

// hidden is the element that is left out; the zero value is none.
type hidden struct {
	atom  atom.Atom
	name  string
	depth int // how many of its name are open
}

// is tells an element of the same name.
func (h hidden) is(a atom.Atom, name string) bool { return a == h.atom && name == h.name }

func (w *writer) title() string { return strings.Join(strings.Fields(w.head.String()), " ") }

func (w *writer) text() string { return strings.TrimSpace(w.out.String()) }

func (w *writer) convert(in io.Reader) {
	z := html.NewTokenizer(in)
	z.SetMaxBuf(maxToken)
	for !w.full {
		switch z.Next() {
		case html.ErrorToken:
			w.full = !errors.Is(z.Err(), io.EOF)
			w.closeLink()
			return
		case html.TextToken:
			if !w.skipping() {
				w.say(string(z.Text()))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			w.start(z.Token())
		case html.EndTagToken:
			name, _ := z.TagName()
			w.end(atom.Lookup(name), string(name))
		case html.CommentToken, html.DoctypeToken: // nobody who looks at the page sees them
		}
	}
}

func (w *writer) skipping() bool { return w.hidden.depth > 0 }

func (w *writer) start(t html.Token) {
	if w.skipping() {
		if w.hidden.is(t.DataAtom, t.Data) {
			if w.hidden.depth == 1 && endsItself(t.DataAtom) { // <li hidden>…<li>: the next one ends it
				w.hidden = hidden{}
			} else {
				w.hidden.depth++
				return
			}
		} else {
			return
		}
	}
	if leftOut(t) {
		if !isVoid(t.DataAtom) {
			w.hidden = hidden{t.DataAtom, t.Data, 1}
		}
		return
	}
	w.open(t)
}

func (w *writer) end(a atom.Atom, name string) {
	if w.skipping() {
		if w.hidden.is(a, name) {
			w.hidden.depth--
		}
		return
	}
	w.close(a)
}

// leftOut says of an element whether nobody who looks at the page sees it.
func leftOut(t html.Token) bool {
	switch t.DataAtom {
	case atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Object, atom.Svg, atom.Math, atom.Canvas,
		atom.Audio, atom.Video, atom.Select, atom.Datalist, atom.Noembed, atom.Noframes, atom.Textarea:
		return true
	case atom.Dialog:
		_, shown := attribute(t, "open")
		return !shown
	default:
		return hasHiding(t)
	}
}

// hasHiding looks for an attribute that hides any element.
func hasHiding(t html.Token) bool {
	if _, ok := attribute(t, "hidden"); ok {
		return true
	}
	if v, _ := attribute(t, "aria-hidden"); strings.EqualFold(strings.TrimSpace(v), "true") {
		return true
	}
	if v, _ := attribute(t, "type"); t.DataAtom == atom.Input && strings.EqualFold(v, "hidden") {
		return true
	}
	style, _ := attribute(t, "style")
	return hides(style)
}

// hides reads an inline style. Style sheets are not: what only they hide is told.
func hides(style string) bool {
	for declaration := range strings.SplitSeq(strings.ToLower(style), ";") {
		key, value, _ := strings.Cut(declaration, ":")
		value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "!important"))
		switch strings.TrimSpace(key) {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "opacity", "font-size", "max-height", "max-width":
			if isZero(value) {
				return true
			}
		}
	}
	return false
}

func isZero(value string) bool {
	number := strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyz% ")
	return number != "" && strings.Trim(number, "0.+-") == ""
}

func attribute(t html.Token, name string) (string, bool) {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func isVoid(a atom.Atom) bool {
	switch a {
	case atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Param, atom.Source, atom.Track, atom.Wbr:
		return true
	default:
		return false
	}
}

func endsItself(a atom.Atom) bool {
	switch a {
	case atom.P, atom.Li, atom.Dt, atom.Dd, atom.Option, atom.Tr, atom.Td, atom.Th:
		return true
	default:
		return false
	}
}

// say writes text, with the space of HTML: any amount is one.
func (w *writer) say(s string) {
	if w.inTitle {
		if w.head.Len() < maxTitle {
			w.head.WriteString(strings.ToValidUTF8(s[:min(len(s), maxTitle)], ""))
		}
		return
	}
	if w.pre > 0 {
		w.flush()
		w.put(s)
		return
	}
	for i, word := range strings.Fields(s) {
		w.space = w.space || i > 0 || startsWithSpace(s)
		w.flush()
		w.put(word)
	}
	if s != "" && startsWithSpace(s[len(s)-1:]) {
		w.space = true
	}
}

func startsWithSpace(s string) bool { return strings.ContainsAny(s[:1], " \t\r\n\f") }

// flush writes the space and the line ends that are due before a word.
func (w *writer) flush() {
	if w.out.Len() > 0 && w.lines > 0 {
		w.put(strings.Repeat("\n", min(w.lines, 2)))
		w.put(strings.Repeat("> ", min(w.quotes, maxQuotes)))
	} else if w.out.Len() > 0 && w.space {
		w.put(" ")
	}
	w.lines, w.space = 0, false
}

func (w *writer) put(s string) {
	if w.full {
		return
	}
	if left := w.limit - w.out.Len(); len(s) > left {
		s, w.full = strings.ToValidUTF8(s[:left], ""), true
	}
	w.out.WriteString(s)
}

func (w *writer) breakLine(n int) { w.lines = max(w.lines, n) }

// mark writes what markdown alone has.
func (w *writer) mark(s string) {
	if w.markdown {
		w.flush()
		w.put(s)
	}
}
