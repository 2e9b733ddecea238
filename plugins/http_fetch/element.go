package main

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// open writes what an element begins with.
func (w *writer) open(t html.Token) {
	switch a := t.DataAtom; a {
	case atom.Title:
		w.inTitle = w.head.Len() == 0
	case atom.Base:
		w.rebase(t)
	case atom.Br:
		w.breakLine(1)
	case atom.Hr:
		w.breakLine(2)
		w.mark("---")
		w.breakLine(2)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.breakLine(2)
		w.mark(strings.Repeat("#", int(t.Data[1]-'0')))
		w.space = w.markdown
	case atom.Li:
		w.item()
	case atom.Ul, atom.Ol:
		w.lists++
		w.breakLine(1)
	case atom.Blockquote:
		w.breakLine(2)
		if w.markdown {
			w.quotes++
		}
	case atom.Pre:
		w.breakLine(2)
		w.mark("```\n")
		w.pre++
	case atom.Code:
		if w.pre == 0 {
			w.mark("`")
		}
	case atom.Td, atom.Th:
		if w.cell {
			w.space = true
			w.flush()
			w.put("|")
			w.space = true
		}
		w.cell = true
	case atom.Tr:
		w.breakLine(1)
		w.cell = false
	case atom.A:
		w.openLink(t)
	case atom.Img:
		w.image(t)
	default:
		w.breakLine(distance(a))
	}
}

// close writes what an element ends with.
func (w *writer) close(a atom.Atom) {
	switch a {
	case atom.Title:
		w.inTitle = false
	case atom.Ul, atom.Ol:
		w.lists = max(0, w.lists-1)
		w.breakLine(1)
	case atom.Blockquote:
		w.quotes = max(0, w.quotes-1)
		w.breakLine(2)
	case atom.Pre:
		if w.pre = max(0, w.pre-1); w.markdown {
			w.put("\n```")
		}
		w.breakLine(2)
	case atom.Code:
		if w.pre == 0 && w.markdown {
			w.put("`")
		}
	case atom.A:
		w.closeLink()
	case atom.Tr, atom.Li:
		w.breakLine(1)
	default:
		w.breakLine(distance(a))
	}
}

// distance is how many line ends stand around an element.
func distance(a atom.Atom) int {
	switch a {
	case atom.P, atom.Table, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Main, atom.Nav, atom.Aside, atom.Figure, atom.Form, atom.Fieldset, atom.Dl,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Body, atom.Details, atom.Address:
		return 2
	case atom.Div, atom.Dt, atom.Dd, atom.Thead, atom.Tbody, atom.Tfoot, atom.Caption, atom.Figcaption, atom.Summary, atom.Legend, atom.Center, atom.Option:
		return 1
	default:
		return 0
	}
}

func (w *writer) item() {
	w.breakLine(1)
	w.flush()
	w.put(strings.Repeat("  ", min(max(w.lists-1, 0), maxQuotes)) + "-")
	w.space = true
}

func (w *writer) openLink(t html.Token) {
	w.closeLink() // links do not nest
	href, _ := attribute(t, "href")
	if w.link.address = w.resolve(href); w.link.address == "" {
		return
	}
	w.mark("[")
	w.link.from = w.out.Len()
}

// closeLink writes where the link that is open leads, if it has a text.
func (w *writer) closeLink() {
	address := w.link.address
	w.link.address = ""
	switch {
	case address == "":
	case w.markdown:
		w.put("](" + address + ")")
	case w.out.Len() > w.link.from && !strings.HasSuffix(w.out.String(), address):
		w.put(" (" + address + ")")
	}
}

// resolve is the address of a link to another page, in full; "" for any other.
func (w *writer) resolve(href string) string {
	href = strings.TrimSpace(href)
	if href == "" || strings.HasPrefix(href, "#") || len(href) > maxLink {
		return ""
	}
	u, err := url.Parse(href)
	if err != nil {
		return ""
	}
	u = w.base.ResolveReference(u)
	if u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	u.User = nil
	text := u.String()
	if len(text) > maxLink {
		return ""
	}
	return strings.NewReplacer("(", "%28", ")", "%29").Replace(text)
}

func (w *writer) rebase(t html.Token) {
	href, _ := attribute(t, "href")
	if u, err := w.base.Parse(href); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		w.base = u
	}
}

func (w *writer) image(t html.Token) {
	alt, _ := attribute(t, "alt")
	if alt = strings.Join(strings.Fields(alt), " "); alt != "" {
		w.say(" [image: " + alt[:min(len(alt), maxTitle)] + "] ")
	}
}
