// Package display writes what a person reads: a run as it happens, questions,
// tables. Text from a sandbox is escaped before it reaches the terminal, lines
// fit 80 columns, and colour and marks fall back where the terminal has none.
//
// It decides nothing and reads nothing but the text it is given.
package display

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
)

// workspace is where a project lies inside; paths are shown from there.
const workspace = "/workspace/"

// Width is how many columns a line may take.
const Width = 80

// Style is what a terminal can show. The zero value is plain ASCII lines.
type Style struct {
	Colour  bool
	Unicode bool
	// Raw is a terminal in raw mode, whose lines need a carriage return.
	Raw bool
}

// Printer writes to one stream; it may be used by several goroutines.
type Printer struct {
	mu    sync.Mutex
	out   io.Writer
	style Style
}

// New returns a printer.
func New(out io.Writer, style Style) *Printer { return &Printer{out: out, style: style} }

// Detect reads from the environment what the terminal can show.
func Detect(isTerminal bool, getenv func(string) string) Style {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")) // the first that is set decides (POSIX)
	utf8 := strings.Contains(strings.ToUpper(locale), "UTF-8") || strings.Contains(strings.ToUpper(locale), "UTF8")
	return Style{
		Colour:  isTerminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
		Unicode: utf8 || locale == "",
	}
}

var marks = map[string][2]string{
	"tool": {"▸", ">"}, "denied": {"✕", "x"}, "ask": {"?", "?"}, "say": {"·", "-"}, "ok": {"✓", "+"}, "warn": {"!", "!"},
}

func (p *Printer) mark(name string) string {
	if p.style.Unicode {
		return marks[name][0]
	}
	return marks[name][1]
}

// Field writes a line under a heading, such as `checked  outside, …`.
func (p *Printer) Field(heading, format string, values ...any) {
	p.line(fmt.Sprintf("%s%-8s%s %s", p.accent(), heading, p.reset(), Escape(fmt.Sprintf(format, values...))))
}

// Prose writes a text under a heading, in as many lines as it takes.
func (p *Printer) Prose(heading, text string) {
	lines := wrap(Escape(text), Width-max(len(heading), 8)-1)
	if len(lines) == 0 {
		lines = []string{""}
	}
	p.Field(heading, "%s", lines[0])
	for _, line := range lines[1:] {
		p.line("         " + line)
	}
}

// Line writes one line with nothing added.
func (p *Printer) Line(format string, values ...any) { p.line(Escape(fmt.Sprintf(format, values...))) }

// Mark writes a line with one of the marks tool, denied, ask, say, ok, warn.
func (p *Printer) Mark(mark, name, text string) {
	p.line(fmt.Sprintf("  %s %-6s %s", p.mark(mark), Escape(name), Escape(text)))
}

func (p *Printer) line(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := "\n"
	if p.style.Raw {
		end = "\r\n"
	}
	_, _ = io.WriteString(p.out, s+end) // a terminal that is gone does not stop a run
}

func (p *Printer) accent() string {
	if p.style.Colour {
		return "\x1b[36m"
	}
	return ""
}

func (p *Printer) reset() string {
	if p.style.Colour {
		return "\x1b[0m"
	}
	return ""
}

// Step shows one step of a run.
func (p *Printer) Step(e nacre.Step) {
	switch e.Kind {
	case nacre.StepSay:
		for _, text := range wrap(Escape(strings.ReplaceAll(e.Text, "\n", " ")), Width-6) {
			p.line("  " + p.mark("say") + " " + text)
		}
	case nacre.StepTool:
		p.Mark("tool", e.Name, fit(p.oneLine(strings.TrimPrefix(e.Text, workspace)), Width-11))
	case nacre.StepResult:
		p.result(e)
	case nacre.StepRetry:
		p.Mark("warn", "retry", trouble(e.Name)+" · "+fit(e.Text, Width-40))
	case nacre.StepStage:
		switch e.Name {
		case "check", "verify", "fetch":
			p.Mark("tool", e.Name, fit(p.oneLine(e.Text), Width-11))
		case "escalation":
			p.Mark("warn", "gate", fit(p.oneLine(e.Text), Width-11))
		}
	case nacre.StepVerdict:
		p.verdict(e.Verdict)
	case nacre.StepCheck:
		p.Mark(okMark(e.Check.Passed()), "check", fmt.Sprintf("%s · exit %d · %s", fit(p.oneLine(e.Check.Command), 40), e.Check.ExitCode, Seconds(e.Check.Duration)))
	case nacre.StepMerge:
	}
}

// verdict shows what an atom's verifier said, and why where it did not hold.
func (p *Printer) verdict(a *nacre.AtomResult) {
	text := a.Capability
	for _, more := range []string{a.Strength, a.Reason} {
		if more != "" {
			text += " · " + more
		}
	}
	p.Mark(okMark(a.Passed), "verify", fit(p.oneLine(text), Width-11))
}

// result is quiet where all went well: the next line says what follows.
func (p *Printer) result(e nacre.Step) {
	if !e.IsError && (e.ExitCode == nil || *e.ExitCode == 0) {
		return
	}
	text := firstLine(e.Text)
	if e.ExitCode != nil {
		text = strings.TrimSuffix("exit "+strconv.Itoa(*e.ExitCode)+" · "+text, " · ")
	}
	p.Mark("denied", e.Name, fit(text, Width-11))
}

// oneLine shows where a text of several lines breaks.
func (p *Printer) oneLine(s string) string {
	mark := " \\n "
	if p.style.Unicode {
		mark = " ⏎ "
	}
	s = strings.ReplaceAll(strings.TrimSpace(s), "\\\n", " ") // a shell goes on there
	return strings.ReplaceAll(s, "\n", mark)
}

// trouble says why a model request is tried again.
func trouble(class string) string {
	switch class {
	case "overload":
		return "the model is overloaded"
	case "rate":
		return "the model's rate limit"
	case "network":
		return "the model was not reached"
	}
	return class
}

func okMark(ok bool) string {
	if ok {
		return "ok"
	}
	return "denied"
}

// Question shows what a person is asked and how to answer.
func (p *Printer) Question(q nacre.Question, now time.Time) {
	if q.Capability == approval.Egress {
		p.Mark("ask", "egress", fit(approval.Wanted(q), 48))
	} else {
		p.Mark("ask", "tool", fmt.Sprintf("%s %s", q.Capability, fit(string(q.Arguments), 48)))
	}
	p.line(fmt.Sprintf("           waiting for you · nacre approvals approve %s · expires in %s", q.ID, Seconds(q.Expires.Sub(now))))
}

// Table writes rows in columns.
func (p *Printer) Table(header []string, rows [][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := tabwriter.NewWriter(p.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Escape(cell)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // as in line
}

// Escape makes text safe for a terminal: control characters, escapes, and the
// characters that reorder or hide text become visible (M-05). So do bytes that
// are no UTF-8: some terminals take those from 0x80 on for control characters.
func Escape(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			_, _ = fmt.Fprintf(&b, "\\x%02x", s[i]) // a builder takes everything
		case r == '\n':
			b.WriteString("\\n")
		case r == '\t':
			b.WriteByte(' ')
		case hidden(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}

// Seconds shows a duration as a person reads it.
func Seconds(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
}

// Dollars shows millionths of a dollar.
func Dollars(micro int64) string {
	if micro > 0 && micro < 10_000 {
		return fmt.Sprintf("$%.4f", float64(micro)/1e6)
	}
	return fmt.Sprintf("$%.2f", float64(micro)/1e6)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// fit cuts text to a number of characters.
func fit(s string, n int) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

func wrap(s string, width int) []string {
	var lines []string
	var line string
	for _, word := range strings.Fields(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
