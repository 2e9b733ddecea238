package workcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// face shows a run as it happens: lines for people, one JSON event a line for scripts.
type face struct {
	env     *command.Env
	printer *terminal.Printer
	// terminal is the person's, nil where there is none. They may stop it, and no run with it.
	terminal io.Writer
	log      *assembly.EventLog // nil before the session is there, and where none is kept
	notice   *terminal.Notice
	// verbose shows what tools were called with and gave.
	verbose bool
	// told says that a person knows already what keeps the work from landing.
	told bool
	// prompts says that the terminal itself shows each question, and asks.
	prompts bool
}

func newFace(env *command.Env) *face {
	f := &face{env: env, printer: env.Printer(env.Stdout)}
	if terminal.Is(env.Stdout) {
		f.terminal = terminal.NewUnheld(env.Stdout)
		f.printer = terminal.New(f.terminal, env.Style(env.Stdout))
	}
	return f
}

// asking asks in this terminal, if it is one, and shows how to answer from another.
func (f *face) asking() assembly.Asking {
	a := assembly.Asking{Ask: f.ask, Settled: f.settled, Watched: !f.env.JSON && terminal.Is(f.env.Stdout)}
	if !f.env.JSON && terminal.Is(f.env.Stdin) && terminal.Is(f.env.Stdout) {
		f.prompts = true
		a.Columns = func() int { return terminal.Columns(f.env.Stdout) }
		a.In, a.Out, a.By = f.env.Typed(), f.printer.Prompts(), command.Operator()+" in the first terminal"
	}
	return a
}

// leave lets go of our streams.
func (f *face) leave() {
	if err := leave(f.env.Stdout, f.env.Stderr); err != nil {
		f.printer.Mark("warn", "detach", err.Error())
	}
}

// event keeps what happened, and tells it to scripts; it is false where a person is to be
// told.
func (f *face) event(name string, body any) (told bool) {
	_ = f.log.Write(name, body) // the audit has what counts
	if f.env.JSON {
		_ = f.env.PrintJSON(map[string]any{"event": name, "data": body}) // the reader may be gone
	}
	return f.env.JSON
}

func (f *face) started(info assembly.SessionInfo) {
	if f.event(eventStarted, info) {
		return
	}
	again := ""
	if info.Resumed {
		again = " · goes on"
	}
	f.printer.Field("nacre", "session %s · brain %s%s", info.Session, info.Brain, again)
	f.printer.Line("         sealed by  %s", info.Sandbox)
	f.printer.Line("         may write  a private clone of %s", info.Project)
	nothing := "nothing"
	if info.Model != "" {
		nothing = "nothing else"
		f.printer.Line("         may spend  %s at %s, through the gateway", info.BudgetUSD, info.Model)
		if info.Today != "" {
			f.printer.Line("         today      %s", info.Today)
		}
	}
	f.printer.Line("         may reach  %s", terminal.List(info.Egress, nothing))
	if len(info.Inside) > 0 {
		f.printer.Line("         may read   %s", strings.Join(info.Inside, ", "))
	}
	f.printer.NotHeld(info.NotEnforced)
	for _, limit := range info.Widened {
		f.printer.Prose("         not held  ", limit)
	}
	if info.Unseen != "" {
		f.printer.Prose("  ! unseen", "git does not track "+info.Unseen+": the agent works without them; commit them, or add --dirty")
	}
	if !f.told {
		f.obstacles(info.Obstacles)
	}
}

func (f *face) obstacles(list []string) {
	for _, obstacle := range list {
		f.printer.Prose("  ! lands ", obstacle)
	}
}

// confirm asks whether to begin where something will keep the work from landing, whether
// or not its agent costs money. Where nobody can be asked, nothing begins (U-20).
func (f *face) confirm(ctx context.Context, obstacles []string) error {
	if len(obstacles) == 0 {
		return nil
	}
	if f.env.JSON || !terminal.Is(f.env.Stdin) || !terminal.Is(f.env.Stdout) {
		return command.Usage("%s\nnothing was begun, and nothing was paid for: add --yes to begin all the same", strings.Join(obstacles, "\n"))
	}
	f.obstacles(obstacles)
	f.told = true
	if yes, err := f.env.Agrees(ctx, f.env.Stdout, "         begin all the same? [y/N] "); err != nil || yes {
		return err
	}
	return command.ExitWith(command.ExitFailed, errors.New("nothing was begun, and nothing was paid for"))
}

func (f *face) progress(e nacre.Step) {
	if f.event(eventProgress, e) {
		return
	}
	f.printer.Step(e)
	if f.verbose {
		f.printer.Detail(e)
	}
}

// ask shows a question and how to answer it, where the prompt does not.
func (f *face) ask(q nacre.Question, _ func(nacre.Ruling) (nacre.Pressed, error)) {
	f.notice.Waits(q.ID)
	if !f.event(eventQuestion, q) && !f.prompts {
		f.printer.Question(q, time.Now())
	}
}

// settled keeps that a question waits no longer. Whoever answered it was told.
func (f *face) settled(id string) {
	f.notice.Settled(id)
	_ = f.log.Write(eventSettled, map[string]string{"id": id}) // the audit has the answer
}

// broken says what became of a run that ended with an error.
func (f *face) broken(report assembly.Report, err error) error {
	var contained *assembly.Contained
	switch {
	case errors.As(err, &contained):
		return f.contained(contained, err)
	case report.Session != "":
		return f.interrupted(report, err)
	}
	return err
}

// interrupted says what a run that did not get to its end left, and how it goes on.
func (f *face) interrupted(report assembly.Report, err error) error {
	code := f.env.CodeOf(err)
	if f.event(eventInterrupted, interruption{report.Session, report.Role, err.Error()}) {
		return command.Exit(code)
	}
	f.stopped(report.Session, report.Role)
	if code == command.ExitInterrupted {
		return command.Exit(code)
	}
	return err
}

// interruption is a run that did not get to its end.
type interruption struct {
	Session nacre.SessionID `json:"session"`
	Role    string          `json:"role,omitempty"`
	Error   string          `json:"error"`
}

func (f *face) stopped(session nacre.SessionID, role string) {
	f.printer.Field("stopped", "nothing runs any more; what is half-done is completed or taken back when it goes on")
	again := "nacre run"
	if role != "" {
		again = "nacre task run"
	}
	f.printer.Field("go on", "%s --session %s", again, session)
}

// contained says that a run was ended for good, and where to look.
func (f *face) contained(c *assembly.Contained, err error) error {
	if f.event(eventContained, c) {
		return command.Exit(command.ExitFailed)
	}
	return command.ExitWith(command.ExitFailed, err)
}

func (f *face) report(r assembly.Report) error {
	_ = f.log.Write(eventReport, r) // the receipt has what counts
	if f.env.JSON {
		return f.env.PrintJSON(map[string]any{"event": eventReport, "data": r})
	}
	printReport(f.printer, r)
	return nil
}

// maxLeftShown is how many files that do not land are named on a terminal;
// --json names all that were kept.
const maxLeftShown = 20

// printLeft names what the agent made and does not land, with the reasons (S-11).
func printLeft(p *terminal.Printer, left []string) {
	for _, file := range left[:min(len(left), maxLeftShown)] {
		p.Line("         left out %s", file)
	}
	if more := len(left) - maxLeftShown; more > 0 {
		p.Line("         left out %d more; --json names them", more)
	}
}

// printReport shows what became of a run.
func printReport(p *terminal.Printer, r assembly.Report) {
	for _, c := range r.Changes {
		p.Line("         %s", changeLine(c))
	}
	printLeft(p, r.Left)
	if len(r.Atoms) > 0 {
		p.Field("verified", "%d of %d atoms of the role %s hold%s", held(r.Atoms), len(r.Atoms), r.Role, strengthOf(r.Verified))
	}
	if len(r.Checks) > 0 {
		p.Field("checked", "outside, from a clean tree: %d of %d held (%s)", passed(r.Checks), len(r.Checks), r.Checks[0].Strength)
	}
	if r.Reason != "" && (r.Paused != "" || r.Receipt == "") { // its session goes on
		p.Prose("not merged", r.Reason)
		p.Field("next", "%s", r.Next)
		return
	}
	if r.Paused != "" {
		p.Field(string(r.Paused), "%s · nothing has landed", r.DNA)
		p.Field("next", "nacre task %s", nextOf(r))
		return
	}
	switch {
	case r.Delivered:
		p.Prose("report   ", r.Report)
	case r.Landed:
		p.Field("merged", "%s %.7s → %.7s", r.Branch, r.Base, r.Commit)
	default:
		p.Prose("not merged", r.Reason)
		if r.Next != "" {
			p.Field("next", "%s", r.Next)
		}
		if r.Work == "" { // nothing was changed
			break
		}
		p.Field("look", "%s holds what the agent made%s", r.Work, madeOver(r.Over))
		p.Field("take", "nacre sessions diff %[1]s · apply %[1]s · branch %[1]s · discard %[1]s", r.Session)
	}
	if r.Recorded != "" {
		p.Field("recorded", "%s", r.Recorded)
	}
	if r.Unrecorded != "" {
		p.Prose("         not in it  ", "calls that cannot be played again: "+r.Unrecorded)
	}
	p.Field("cost", "%s · %d denied · %d asked · %d redacted · %s", terminal.Dollars(r.Cost), r.Denied, r.Asked, r.Redacted, terminal.Seconds(r.Duration))
	p.Field("receipt", "nacre audit verify --receipt %s", r.Receipt)
}

// madeOver says that a folder has not all of the agent's files, but those that differ
// from a commit's.
func madeOver(commit string) string {
	if commit == "" {
		return ""
	}
	return fmt.Sprintf(": the files that differ from %.7s, and an empty device for each that is gone", commit)
}

// nextOf is the command that carries a task further that was left.
func nextOf(r assembly.Report) string {
	if r.Paused == nacre.StageReturned {
		return "verify " + string(r.Session)
	}
	return "run --session " + string(r.Session)
}

func held(atoms []nacre.AtomResult) int {
	n := 0
	for _, a := range atoms {
		if a.Passed {
			n++
		}
	}
	return n
}

// strengthOf says what a verified outcome is worth (M-50).
func strengthOf(verified string) string {
	switch verified {
	case "":
		return ""
	case "weak":
		return " · weak: the code under test could have forged it"
	}
	return " · " + verified
}

func changeLine(c nacre.Change) string {
	line := fmt.Sprintf("%-8s %s", c.Kind, c.Path)
	if c.Warning != "" {
		line += "   ← look: " + c.Warning
	}
	return line
}

func passed(checks []nacre.CheckResult) int {
	n := 0
	for _, c := range checks {
		if c.Passed() {
			n++
		}
	}
	return n
}
