package account

import (
	_ "embed" // the page's style
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"
)

//go:embed page.css
var style string

// markup is HTML that is being written. Only text and attr put in what somebody else wrote.
type markup struct{ strings.Builder }

func (m *markup) tag(s string)  { m.WriteString(s) }
func (m *markup) text(s string) { m.WriteString(html.EscapeString(strings.ToValidUTF8(s, "\uFFFD"))) }

// in writes a text within an element: a name and, in it, nothing but a class.
func (m *markup) in(element, class, text string) {
	m.tag("<" + element)
	if class != "" {
		m.tag(` class="` + class + `"`)
	}
	m.tag(">")
	m.text(text)
	m.tag("</" + element + ">\n")
}

// Page writes the account as one page for a person, which needs nothing else: no script, no
// picture, no address. Whatever an agent or an outsider wrote is text in it.
func (a *Account) Page(w io.Writer) error {
	m := &markup{}
	r := a.Receipt
	title := "Receipt of " + r.Facts[factWork] + ": " + r.Outcome
	m.tag("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	m.tag(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">` + "\n")
	m.in("title", "", title)
	m.tag("<style>\n" + style + "</style>\n</head>\n<body>\n<main>\n")
	m.in("h1", "", title)
	m.summary(a)
	for _, g := range a.Links.Groups() {
		m.group(g)
	}
	if err := m.records(a); err != nil {
		return err
	}
	m.tag("</main>\n</body>\n</html>\n")
	_, err := io.WriteString(w, m.String())
	return err
}

func (m *markup) summary(a *Account) {
	r := a.Receipt
	const at = "2006-01-02 15:04:05"
	m.tag("<dl>\n")
	for _, row := range [][2]string{
		{"What", together(" · ", r.Facts[factKind], r.Brain, r.Project)},
		{"When", r.Started.Format(at) + " to " + r.Finished.Format(at) + " UTC"},
		{"Sealed by", r.Sandbox},
		{"Decisions", fmt.Sprintf("%d allowed · %d denied · %d asked · %d redacted", r.Counts.Allowed, r.Counts.Denied, r.Counts.Asked, r.Counts.Redacted)},
		{"Cost", fmt.Sprintf("%s · %d calls to the model", money(r.Cost.MicroUSD), r.Cost.ModelCalls)},
		{"Bytes", fmt.Sprintf("%d sent out · %d came in", r.Counts.BytesOut, r.Counts.BytesIn)},
		{"Signed by", r.PublicKey},
	} {
		m.in("dt", "", row[0])
		m.in("dd", "", row[1])
	}
	m.tag("</dl>\n")
	if tree := a.Links.unverified(); tree != "" {
		m.in("strong", "", "No check held of what landed: tree "+tree)
	}
	m.in("p", "soft", "This page proves nothing by itself. Check the receipt's file with “nacre receipt verify FILE --public-key KEY”, or with verify_audit.py, and a key that you have from somewhere you trust.")
}

func (m *markup) group(g Group) {
	m.in("h2", "", g.Name)
	if len(g.Links) == 0 {
		m.in("p", "soft", "Nothing.")
		return
	}
	m.tag("<ul>\n")
	for _, l := range g.Links {
		m.tag("<li>")
		m.text(together(": ", l.What, l.Outcome))
		m.tag(" ")
		m.in("span", "soft", facts(l))
		for _, at := range l.Records {
			m.tag(`<a class="at" href="#` + html.EscapeString(anchor(at)) + `">`)
			m.text(at)
			m.tag("</a> ")
		}
		m.tag("</li>\n")
	}
	m.tag("</ul>\n")
}

// records writes all records, below what they are linked to.
func (m *markup) records(a *Account) error {
	m.tag("<details>\n")
	m.in("summary", "", "All records")
	m.tag("<ul>\n")
	for _, c := range a.Chains {
		for _, line := range c.Records {
			var r struct {
				Seq                                uint64
				Time, Kind, Topic, Outcome, Reason string
				Detail                             json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return fmt.Errorf("a record of chain %s: %w", c.Head.Chain, err)
			}
			at := c.Head.Chain + "#" + strconv.FormatUint(r.Seq, 10)
			m.tag(`<li id="` + html.EscapeString(anchor(at)) + `">`)
			m.in("span", "at", at+" · "+r.Time)
			m.text(together(" · ", r.Kind, r.Topic, r.Outcome, r.Reason))
			if len(r.Detail) > 0 {
				m.in("pre", "", string(r.Detail))
			}
			m.tag("</li>\n")
		}
	}
	m.tag("</ul>\n</details>\n")
	return nil
}

// together joins texts that are not empty.
func together(between string, texts ...string) string {
	var list []string
	for _, text := range texts {
		if text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, between)
}

// money is an amount as a person writes it.
func money(micro int64) string { return fmt.Sprintf("$%.4f", float64(micro)/1e6) }

// anchor is a record's place as the name of a part of the page.
func anchor(record string) string { return "r-" + strings.ReplaceAll(record, "#", "-") }

// Words is a link in one line.
func Words(l Link) string {
	return together(" · ", together(": ", l.What, l.Outcome), facts(l), strings.Join(l.Records, " "))
}

// facts is what a link says beside its outcome, in words.
func facts(l Link) string {
	var list []string
	add := func(have bool, format string, values ...any) {
		if have {
			list = append(list, fmt.Sprintf(format, values...))
		}
	}
	add(l.Times > 1, "%d times", l.Times)
	add(l.By != "", "by %s", l.By)
	add(l.Why != "", "%s", l.Why)
	add(l.Sent+l.Received > 0, "%d bytes sent, %d received", l.Sent, l.Received)
	add(l.In+l.Out > 0, "%d tokens in, %d out, %s", l.In, l.Out, money(l.MicroUSD))
	add(l.Strength != "", "%s", l.Strength)
	add(l.Tree != "", "tree %.12s", l.Tree)
	add(l.Commit != "", "%.12s → %.12s", l.From, l.Commit)
	return strings.Join(list, " · ")
}
