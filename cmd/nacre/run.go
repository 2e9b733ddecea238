package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/display"
	"github.com/nacre-dev/nacre/kernel"
	"github.com/nacre-dev/nacre/telemetry"
)

// maxPrompt is the longest task text, in bytes.
const maxPrompt = 1 << 20

func (a *app) runCommand() *cobra.Command {
	var run assembly.Run
	var promptFile, group, name, metrics string
	var wall time.Duration
	c := &cobra.Command{
		Use: "run TASK | --prompt-file FILE | -", Short: "let an agent work sealed; what was verified lands",
		Long: `An agent works on a private clone of the project, sealed. What it made is checked
outside, in a fresh sandbox, first alone and then on top of the branch as it is by
then. Exactly the tree that passed lands. Without a check nothing lands.`,
		Example: "  nacre run \"fix the failing date test\" --check \"go test ./...\"\n  nacre run --session work        # go on with what was interrupted",
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(checkNames(group, name), checkTime(wall)); err != nil {
				return err
			}
			if run.MaxTurns < 0 {
				return usage("--max-turns %d: write a number above 0", run.MaxTurns)
			}
			text, err := a.taskText(args, promptFile, name != "" || run.Recording != "")
			if err != nil {
				return err
			}
			run.Task, run.Group, run.Session, run.Limits.Wall = text, nacre.Group(group), nacre.SessionID(name), wall
			return a.run(c.Context(), run, metrics)
		},
	}
	flags := c.Flags()
	flags.StringVar(&promptFile, "prompt-file", "", "read the task from FILE")
	flags.StringVar(&run.Project, "project", ".", "git repository to work on")
	flags.StringVar(&run.Brain, "brain", "", "claude, codex, acp, anthropic, openai or replay (default: the first that is ready)")
	flags.StringVar(&run.Model, "model", "", "model for the brain (default: the brain's own)")
	flags.StringVar(&run.Recording, "recording", "", "recorded session for the replay brain")
	flags.StringVar(&run.Record, "record", "", "write what the brain chooses to a new FILE, without secrets, for the replay brain")
	flags.StringArrayVar(&run.Checks, "check", nil, "command that must succeed on the result; may be repeated")
	flags.StringArrayVar(&run.Egress, "egress", nil, "HOST:PORT that may be reached; may be repeated")
	flags.StringVar(&group, "group", "", "whose memory, tools and policy apply (default main)")
	flags.StringVar(&name, "session", "", "name of the session; one that was interrupted goes on")
	flags.IntVar(&run.MaxTurns, "max-turns", 0, "limit of the model's turns (default: the brain's own)")
	flags.DurationVar(&wall, "time", 0, "time limit of the agent (default 1h)")
	flags.StringVar(&metrics, "metrics", "", "write the kernel's counters to FILE at the end, in Prometheus' text format")
	return c
}

// taskText takes the task from exactly one source (M-01).
func (a *app) taskText(args []string, file string, optional bool) (string, error) {
	if len(args) > 1 {
		return "", usage("one task, please: put it in quotes")
	}
	if len(args) == 1 && file != "" {
		return "", usage("two tasks: one on the command line and one in --prompt-file; name one")
	}
	var text string
	switch {
	case len(args) == 1 && args[0] == "-":
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxPrompt+1))
		if err != nil {
			return "", err
		}
		text = string(data)
	case len(args) == 1:
		text = args[0]
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", usage("--prompt-file: %w", err)
		}
		text = string(data)
	case optional:
		return "", nil
	default:
		return "", usage("no task: nacre run \"what to do\", or --prompt-file FILE, or - for standard input")
	}
	if len(text) > maxPrompt {
		return "", usage("the task is over %d bytes: shorten it", maxPrompt)
	}
	if strings.TrimSpace(text) == "" {
		return "", usage("the task is empty")
	}
	return text, nil
}

func (a *app) run(ctx context.Context, run assembly.Run, metrics string) error {
	rt, err := a.open(ctx)
	if err != nil {
		return err
	}
	face := a.face()
	run.Started, run.Progress, run.Asking = face.started, face.progress, face.asking()
	report, err := rt.Run(ctx, run)
	if err != nil {
		return face.broken(report, err)
	}
	if err := errors.Join(face.report(report), writeMetrics(metrics, report.Kernel)); err != nil {
		return err
	}
	switch {
	case report.Paused != "" && report.Brain == "done" && report.Reason == "":
		return nil
	case report.TimedOut || report.Limit != "":
		return &exitError{code: exitTimeout}
	case !report.Landed && !report.Delivered:
		return &exitError{code: exitFailed}
	}
	return nil
}

// writeMetrics writes the kernel's counters where a collector of text files
// finds them: whole or not at all.
func writeMetrics(path string, stats kernel.Stats) error {
	if path == "" {
		return nil
	}
	var text bytes.Buffer
	if err := telemetry.Write(&text, stats); err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}

// face shows a run as it happens: lines for people, one JSON event a line for scripts.
type face struct {
	app     *app
	printer *display.Printer
}

func (a *app) face() *face { return &face{app: a, printer: a.printer(a.stdout)} }

// asking asks in this terminal, if it is one, and shows how to answer from another.
func (f *face) asking() assembly.Asking {
	a := assembly.Asking{Ask: f.ask}
	if !f.app.json && isTerminal(f.app.stdin) && isTerminal(f.app.stdout) {
		a.In, a.Out, a.By = f.app.stdin, f.app.stdout, operator()+" in the first terminal"
	}
	return a
}

func (f *face) event(name string, body any) {
	_ = printJSON(f.app.stdout, map[string]any{"event": name, "data": body}) // the reader may be gone
}

func (f *face) started(info assembly.SessionInfo) {
	if f.app.json {
		f.event("started", info)
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
	f.printer.Line("         may reach  %s", listOr(info.Egress, nothing))
	if len(info.Inside) > 0 {
		f.printer.Line("         may read   %s", strings.Join(info.Inside, ", "))
	}
	for _, missing := range info.NotEnforced {
		f.printer.Prose("         not held  ", missing)
	}
}

func (f *face) progress(e nacre.Step) {
	if f.app.json {
		f.event("progress", e)
		return
	}
	f.printer.Step(e)
}

// ask shows a question and how to answer it.
func (f *face) ask(q nacre.Question, _ func(nacre.Ruling) error) {
	if f.app.json {
		f.event("question", q)
		return
	}
	f.printer.Question(q, time.Now())
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
	code := f.app.codeOf(err)
	if f.app.json {
		f.event("interrupted", map[string]any{"session": report.Session, "error": err.Error()})
		return &exitError{code: code}
	}
	f.printer.Field("stopped", "nothing runs any more, and nothing half-done is on the branch")
	f.printer.Field("go on", "nacre run --session %s", report.Session)
	if code == exitInterrupted {
		return &exitError{code: code}
	}
	return err
}

// contained says that a run was ended for good, and where to look.
func (f *face) contained(c *assembly.Contained, err error) error {
	if f.app.json {
		f.event("contained", c)
		return &exitError{code: exitFailed}
	}
	return &exitError{exitFailed, err}
}

func (f *face) report(r assembly.Report) error {
	if f.app.json {
		return printJSON(f.app.stdout, map[string]any{"event": "report", "data": r})
	}
	printReport(f.printer, r)
	return nil
}

// maxLeftShown is how many files that do not land are named on a terminal;
// --json names all that were kept.
const maxLeftShown = 20

// printLeft names what the agent made and does not land, with the reasons (S-11).
func printLeft(p *display.Printer, left []string) {
	for _, file := range left[:min(len(left), maxLeftShown)] {
		p.Line("         left out %s", file)
	}
	if more := len(left) - maxLeftShown; more > 0 {
		p.Line("         left out %d more; --json names them", more)
	}
}

// printReport shows what became of a run.
func printReport(p *display.Printer, r assembly.Report) {
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
		p.Field("look", "%s holds what the agent made", r.Work)
	}
	if r.Recorded != "" {
		p.Field("recorded", "%s", r.Recorded)
	}
	if r.Unrecorded != "" {
		p.Prose("         not in it  ", "calls that cannot be played again: "+r.Unrecorded)
	}
	p.Field("cost", "%s · %d denied · %d asked · %d redacted · %s", display.Dollars(r.Cost), r.Denied, r.Asked, r.Redacted, display.Seconds(r.Duration))
	p.Field("receipt", "nacre audit verify --receipt %s", r.Receipt)
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
