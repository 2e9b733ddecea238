// Package terminal writes what a person reads: a run as it happens, questions,
// tables. Text from a sandbox is escaped before it reaches the terminal, lines
// fit 80 columns, and colour and marks fall back where the terminal has none.
//
// It decides nothing and reads nothing but the text it is given.
package terminal

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
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
	// Columns is how wide the terminal is. Lines of one field or mark that are longer are
	// broken between words. 0 is none, whose lines stay whole.
	Columns int
}

// Printer writes to one stream; it may be used by several goroutines.
type Printer struct {
	mu    sync.Mutex
	out   io.Writer
	style Style
	// prompt is the unfinished line of a question that waits for its answer.
	prompt string
}

// New returns a printer.
func New(out io.Writer, style Style) *Printer {
	return &Printer{out: Writer(out, style), style: style}
}

// Detect reads from the environment what the terminal can show.
func Detect(isTerminal bool, getenv func(string) string) Style {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")) // the first that is set decides (POSIX)
	utf8 := strings.Contains(strings.ToUpper(locale), "UTF-8") || strings.Contains(strings.ToUpper(locale), "UTF8")
	return Style{
		Colour:  isTerminal && getenv("NO_COLOR") == "" && !Dumb(getenv),
		Unicode: utf8 || locale == "",
	}
}

// Dumb tells a terminal that obeys no sequences, as an editor's own or a serial line: one that
// says so, or says nothing of itself.
func Dumb(getenv func(string) string) bool {
	name := getenv("TERM")
	return name == "" || name == "dumb"
}

// mark is what a mark looks like.
func mark(name string) string {
	switch name {
	case "tool":
		return "▸"
	case "denied":
		return "✕"
	case "ask":
		return "?"
	case "say":
		return "·"
	case "ok":
		return "✓"
	case "warn":
		return "!"
	default:
		return ""
	}
}

// Field writes a line under a heading, such as `checked  outside, …`.
func (p *Printer) Field(heading, format string, values ...any) {
	lines := p.folded(fmt.Sprintf(format, values...), max(len(heading), 8)+1)
	p.line(fmt.Sprintf("%s%-8s%s %s", p.accent(), heading, p.reset(), lines[0]))
	for _, line := range lines[1:] {
		p.line("         " + line)
	}
}

// folded is a text in as many lines as the terminal has room for beside an indent.
func (p *Printer) folded(text string, indent int) []string {
	text = Escape(text)
	if width := p.style.Columns - indent; width > 0 && utf8.RuneCountInString(text) > width {
		return wrap(text, width)
	}
	return []string{text}
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

// NotHeld says in one line how many limits this machine cannot hold, and what names
// them (U-14, F-125).
func (p *Printer) NotHeld(missing []string) {
	if len(missing) > 0 {
		p.Line("         not held   on this machine, %d of the limits: see nacre explain", len(missing))
	}
}

// Mark writes a line with one of the marks tool, denied, ask, say, ok, warn.
func (p *Printer) Mark(kind, name, text string) {
	name = Escape(name)
	lines := p.folded(text, max(len(name), 6)+5)
	p.line(fmt.Sprintf("  %s %-6s %s", mark(kind), name, lines[0]))
	for _, line := range lines[1:] {
		p.line("           " + line)
	}
}

// Shown is a text as long as the stream shows it.
func (p *Printer) Shown(text string) string { return p.style.shown(text) }

func (p *Printer) line(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := "\n"
	if p.style.Raw {
		end = "\r\n"
	}
	if p.prompt != "" { // an answer is typed behind it
		s, end = end+s, end+p.prompt
	}
	_, _ = io.WriteString(p.out, s+end) // a terminal that is gone does not stop a run
}

// Prompts is where questions are asked whose answers are typed on the same line. What is
// printed while one waits comes on lines of its own, and the question's last one again.
func (p *Printer) Prompts() io.Writer { return prompts{p} }

type prompts struct{ *Printer }

// Write implements [io.Writer].
func (p prompts) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompt = string(b[bytes.LastIndexByte(b, '\n')+1:])
	return p.out.Write(b)
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
			p.line("  " + mark("say") + " " + text)
		}
	case nacre.StepTool:
		p.Mark("tool", e.Name, fit(oneLine(strings.TrimPrefix(e.Text, workspace)), Width-11))
	case nacre.StepResult:
		p.result(e)
	case nacre.StepRetry:
		p.Mark("warn", "retry", trouble(e.Name)+" · "+fit(e.Text, Width-40))
	case nacre.StepStage:
		switch e.Name {
		case "check", "verify", "fetch":
			p.Mark("tool", e.Name, fit(oneLine(e.Text), Width-11))
		case "estimate":
			p.Mark("tool", "cost", oneLine(e.Text))
		case "try":
			p.Mark("warn", "try", fit(oneLine(e.Text), Width-11))
		case "child":
			p.Mark("tool", "child", oneLine(e.Text))
		case "calls":
			p.Mark("warn", "calls", oneLine(e.Text))
		case "review", "lesson":
			p.Mark("warn", "memory", oneLine(e.Text))
		case "power":
			p.Mark("warn", "power", oneLine(e.Text))
		case "escalation":
			p.Mark("warn", "gate", fit(oneLine(e.Text), Width-11))
		}
	case nacre.StepVerdict:
		p.verdict(e.Verdict)
	case nacre.StepCheck:
		p.check(*e.Check)
	case nacre.StepMerge:
	}
}

// maxDetail is how many lines of a call or of its result Detail shows.
const maxDetail = 60

// Detail shows the text of a call of a tool, where Step had no room for all of it, and
// that of its result.
func (p *Printer) Detail(e nacre.Step) {
	switch e.Kind {
	case nacre.StepTool:
		if text := strings.TrimPrefix(e.Text, workspace); fit(oneLine(text), Width-11) != text {
			p.Output(text, maxDetail)
		}
	case nacre.StepResult:
		p.Output(e.Text, maxDetail)
	case nacre.StepSay, nacre.StepRetry, nacre.StepStage, nacre.StepVerdict, nacre.StepCheck, nacre.StepMerge: // shown whole
	}
}

// maxOutput is how many lines of a failed check's output are shown where it failed.
const maxOutput = 20

// check shows how a check ended, and what it printed last where it failed (F-121).
func (p *Printer) check(c nacre.CheckResult) {
	ended := fmt.Sprintf("exit %d", c.ExitCode)
	if c.TimedOut {
		ended = "ended by its time limit"
	}
	p.Mark(okMark(c.Passed()), "check", fmt.Sprintf("%s · %s · %s", fit(oneLine(c.Command), 40), ended, Seconds(c.Duration)))
	if !c.Passed() {
		p.Output(c.Tail, maxOutput)
	}
}

// Output shows the last lines of what a program printed. It says how many lines of
// the text it leaves out.
func (p *Printer) Output(text string, most int) {
	text = strings.Trim(text, "\r\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	lines := strings.Split(text, "\n")
	if cut := len(lines) - most; cut > 0 {
		p.line(fmt.Sprintf("         │ %d lines before these", cut))
		lines = lines[cut:]
	}
	for _, line := range lines {
		p.line("         │ " + Escape(strings.TrimRight(line, "\r")))
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
	p.Mark(okMark(a.Passed), "verify", fit(oneLine(text), Width-11))
	if !a.Passed {
		p.Output(a.Detail, verdictLines)
	}
}

// verdictLines is how many lines of what a verifier found are shown.
const verdictLines = 12

// result is quiet where all went well: the next line says what follows.
func (p *Printer) result(e nacre.Step) {
	if !e.IsError && (e.ExitCode == nil || *e.ExitCode == 0) {
		return
	}
	text := firstLine(e.Text)
	if e.ExitCode != nil {
		text = strings.TrimSuffix("exit "+strconv.Itoa(*e.ExitCode)+" · "+text, " · ")
	}
	rows := 1
	if tells(e.Name) {
		rows = maxTold
	}
	lines := wrap(Escape(fit(text, rows*(Width-11))), Width-11)
	p.Mark("denied", e.Name, strings.Join(lines[:min(len(lines), 1)], ""))
	for _, line := range lines[min(len(lines), 1):] {
		p.line("           " + line)
	}
}

// maxTold is how many lines what nacre tells may take.
const maxTold = 4

// tells tells what nacre says of itself from what a tool of the agent's returned: what to do
// comes last in it, and is not cut.
func tells(name string) bool {
	return slices.Contains([]string{"access", "caches", "calls", "egress", "limit", "memory", "model", "plugin", "ssh", "tripwire"}, name)
}

// oneLine shows where a text of several lines breaks.
func oneLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\\\n", " ") // a shell goes on there
	return strings.ReplaceAll(s, "\n", " ⏎ ")
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

// Question shows what a person is asked and how to answer: where there is no room for all
// that is asked, that it is read first.
func (p *Printer) Question(q nacre.Question, now time.Time) {
	next := "approve"
	if !p.wanted(q) {
		next = "show"
	}
	p.line(fmt.Sprintf("           waiting for you · nacre approvals %s %s · expires in %s", next, q.ID, Seconds(q.Expires.Sub(now))))
}

// Asked shows what a person was asked, and how it ended.
func (p *Printer) Asked(q nacre.Question, outcome string) {
	p.wanted(q)
	p.line("           " + Escape(outcome))
}

// wanted shows what is asked for, and tells whether that is all of it.
func (p *Printer) wanted(q nacre.Question) (whole bool) {
	if q.Capability == question.Egress {
		p.Mark("ask", "egress", question.HostOf(q))
		return true
	}
	if f, ok := question.FolderOf(q); ok {
		p.Mark("ask", "folder", question.Escape(f.Folder))
		return f.Keys == ""
	}
	if what := question.LeaseOf(q); what != "" {
		p.Mark("ask", "credential", what)
		return true
	}
	arguments := fit(string(q.Arguments), 48)
	p.Mark("ask", "tool", fmt.Sprintf("%s %s", q.Capability, arguments))
	return !strings.HasSuffix(arguments, "…")
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
			cells[i] = p.style.shown(Escape(cell))
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

// Seconds shows a duration as a person reads it. Less than nothing, by a clock that was set back, is nothing.
func Seconds(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
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

// Bytes shows a size as a person reads it.
func Bytes(n int64) string {
	const step = 1000
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/step, 0
	for units := "kMGTPE"; size >= step && unit < len(units)-1; unit++ {
		size /= step
	}
	return fmt.Sprintf("%.1f %cB", size, "kMGTPE"[unit])
}
