package workcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/terminal"
)

// The events that a session tells and keeps.
const (
	eventStarted     = "started"
	eventProgress    = "progress"
	eventNotice      = "notice"
	eventQuestion    = "question"
	eventSettled     = "settled"
	eventPrinted     = "printed"
	eventReport      = "report"
	eventExited      = "exited"
	eventInterrupted = "interrupted"
	eventContained   = "contained"
	eventEnded       = "ended"
)

const (
	// maxEvent is the longest line of an event, in bytes.
	maxEvent = 16 << 20
	// askEvery is how often a session is asked whether a question still waits, and whether it
	// has begun to tell.
	askEvery = 300 * time.Millisecond
)

// ending is how nacre's own process ended.
type ending struct {
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error,omitempty"`
}

// keep opens the log that other terminals read.
func (f *face) keep(rt *assembly.Runtime, id nacre.SessionID) {
	if f.log == nil { // an agent that tries again is told of again
		f.log = openLog(f.env, rt, id)
	}
}

// end keeps how the command ended.
func (f *face) end(err error) { endLog(f.env, f.log, err) }

// openLog opens a session's log. A session is told of all the same where it cannot be
// kept: then it is nil, which keeps nothing.
func openLog(env *command.Env, rt *assembly.Runtime, id nacre.SessionID) *assembly.EventLog {
	log, err := assembly.OpenEventLog(rt, id)
	if err != nil {
		env.Printer(env.Stderr).Mark("warn", "log", "nacre logs and nacre attach will not see this session: "+err.Error())
		return nil
	}
	return log
}

func endLog(env *command.Env, log *assembly.EventLog, err error) {
	e := ending{ExitCode: command.ExitOK}
	if err != nil {
		e = ending{env.CodeOf(err), err.Error()}
	}
	_ = log.End(eventEnded, e, err == nil || e.Error == "") // the ledger and the audit have it too
}

// Logs is nacre logs.
func (c Commands) Logs() *cobra.Command {
	var follow bool
	logs := &cobra.Command{
		Use: "logs SESSION", Short: "show what a session told the person before it", Args: command.OneArgument("a session"),
		Long: `Shows what nacre run, nacre task run and nacre exec told while they worked: steps, notices,
questions, the end, and what a detached command printed. -f goes on while the session does. What the agent wrote is shown and can
do nothing to your terminal. --json shows the events. nacre audit show SESSION has the proof.`,
		Example: "  nacre logs k3f9ab\n  nacre logs -f k3f9ab",
		RunE: func(cc *cobra.Command, args []string) error {
			p, err := c.player(cc.Context(), args[0])
			if err != nil {
				return err
			}
			if !follow {
				return p.play(cc.Context(), false)
			}
			return c.Follow(cc.Context(), func(ctx context.Context) error { return p.play(ctx, true) })
		},
	}
	logs.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is told, until the session is over")
	command.Completes(logs, c.told)
	return logs
}

// Attach is nacre attach.
func (c Commands) Attach() *cobra.Command {
	attach := &cobra.Command{
		Use: "attach SESSION", Short: "come back to a session that works: see what it does, answer what it asks", Args: command.OneArgument("a session"),
		Long: `Shows what a session told so far and what it tells from now on, and asks its questions in this
terminal. Ctrl-C leaves it: it goes on, and nacre attach comes back. The exit code is the
session's own, and 130 where it was left.`,
		Example: "  nacre attach k3f9ab",
		RunE: func(cc *cobra.Command, args []string) error {
			p, err := c.player(cc.Context(), args[0])
			if err != nil {
				return err
			}
			return p.attach(cc.Context())
		},
	}
	command.Completes(attach, c.working)
	return attach
}

// told are the sessions that there are, for completion.
func (c Commands) told(ctx context.Context) ([]command.Offered, error) {
	return c.sessions(ctx, func(nacre.SessionStatus) bool { return true })
}

// working are those that are not over, for completion.
func (c Commands) working(ctx context.Context) ([]command.Offered, error) {
	return c.sessions(ctx, nacre.SessionStatus.Live)
}

func (c Commands) sessions(ctx context.Context, fits func(nacre.SessionStatus) bool) ([]command.Offered, error) {
	rt, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	list, err := rt.Sessions()
	var offered []command.Offered
	for _, s := range list {
		if fits(s) {
			offered = append(offered, command.Offered{Word: string(s.ID), About: s.Kind + ", " + string(s.State)})
		}
	}
	return offered, err
}

// player shows the events of a session.
type player struct {
	env  *command.Env
	rt   *assembly.Runtime
	id   nacre.SessionID
	kind string // of session
	face *face
	// questions, where set, are those that the terminal is to be asked.
	questions *approval.Queue
	// last is how the session's process ended, if it did.
	last *ending
	// over are the questions that waited no longer when it was begun to show them: all, where the
	// session is over.
	over func(id string) bool
}

func (c Commands) player(ctx context.Context, name string) (*player, error) {
	id, err := nacre.ParseSessionID(name)
	if err != nil {
		return nil, command.UsageOf(err)
	}
	rt, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	known, err := rt.Session(id)
	if err != nil {
		return nil, err
	}
	return &player{env: c.Env, rt: rt, id: id, kind: known.Kind, face: newFace(c.Env)}, nil
}

// play shows what was told, and with follow what is.
func (p *player) play(ctx context.Context, follow bool) error {
	for {
		live := p.live()
		p.over = p.settled(ctx, live)
		err := assembly.ReadEventLog(ctx, p.rt, p.id, follow, p.show)
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case !follow || !live:
			return fmt.Errorf("session %s told nothing that was kept; nacre audit show %s has its records", p.id, p.id)
		}
		select { // it has only begun
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(askEvery):
		}
	}
}

// settled tells the questions that wait no longer, as far as that is told by now.
func (p *player) settled(ctx context.Context, live bool) func(id string) bool {
	over := map[string]bool{}
	_ = assembly.ReadEventLog(ctx, p.rt, p.id, false, func(e assembly.LoggedEvent) error { // it is read again, and an error told
		over[settledBy(e)] = true
		return nil
	})
	return func(id string) bool { return !live || over[id] }
}

// settledBy is the question whose end an event tells, or "".
func settledBy(e assembly.LoggedEvent) string {
	var settled struct {
		ID string `json:"id"`
	}
	if e.Name != eventSettled || json.Unmarshal(e.Data, &settled) != nil {
		return ""
	}
	return settled.ID
}

// live tells whether the session works now, or begins to.
func (p *player) live() bool {
	known, err := p.rt.Session(p.id)
	return err == nil && known.Live()
}

// show shows one event. What is not known was written by a later version.
func (p *player) show(e assembly.LoggedEvent) error {
	if e.Name == eventEnded {
		p.last = &ending{}
		_ = json.Unmarshal(e.Data, p.last) // data that was too long stays out
	}
	if e.Name == eventStarted {
		p.last = nil // it goes on
	}
	if p.env.JSON {
		return p.env.PrintJSON(e)
	}
	data := func(into any) bool { return json.Unmarshal(e.Data, into) == nil }
	printer := p.face.printer
	switch e.Name {
	case eventStarted:
		var info assembly.SessionInfo
		if data(&info) {
			p.started(info)
		}
	case eventProgress, eventNotice:
		var step nacre.Step
		if data(&step) {
			showNotice(printer, step)
		}
	case eventPrinted:
		var output printed
		if data(&output) {
			for line := range strings.Lines(output.Text) {
				printer.Line("%s", strings.TrimRight(line, "\r\n"))
			}
		}
	case eventQuestion:
		var q nacre.Question
		if data(&q) {
			p.question(q, e.Time)
		}
	case eventReport:
		var report assembly.Report
		if data(&report) {
			printReport(printer, report)
		}
	case eventExited:
		var result assembly.ExecResult
		if data(&result) {
			showExit(printer, result)
		}
	case eventInterrupted:
		var i interruption
		if data(&i) {
			p.face.stopped(i.Session, i.Role)
		}
	default:
		p.rest(e)
	}
	return nil
}

// started shows the lines that the session itself began with.
func (p *player) started(info assembly.SessionInfo) {
	if p.kind == "run" {
		p.face.started(info)
		return
	}
	startedOn(p.env, p.kind == "agent", info)
}

// startedOn shows on standard output what a command or an agent began with.
func startedOn(env *command.Env, agent bool, info assembly.SessionInfo) {
	here := *env
	here.Stderr = here.Stdout
	status{env: &here, screen: &screen{agent: agent}}.started(info)
}

// rest shows events that are a line.
func (p *player) rest(e assembly.LoggedEvent) {
	switch e.Name {
	case "cut":
		p.face.printer.Field("cut", "the session told more than is kept; nacre audit show %s has its records", p.id)
	case eventSettled:
		if p.questions != nil {
			p.questions.Drop(settledBy(e))
		}
	case eventEnded:
		if p.last.Error != "" {
			p.face.printer.Prose("ended", p.last.Error)
		}
	default:
	}
}

func (p *player) question(q nacre.Question, at time.Time) {
	if p.over(q.ID) {
		p.face.printer.Asked(q, fmt.Sprintf("waits no longer · nacre show %s", p.id))
		return
	}
	if p.questions != nil { // the prompt shows it
		p.questions.Put(q)
		return
	}
	p.face.printer.Question(q, at)
}

// attach plays and asks until the session is over or the person leaves.
func (p *player) attach(ctx context.Context) error {
	known, err := p.rt.Session(p.id)
	if err != nil {
		return err
	}
	if !known.Live() {
		next := ""
		if known.Resumable {
			next = fmt.Sprintf("; nacre run --session %s goes on with it", p.id)
		}
		return fmt.Errorf("session %s is not running: it is %s; nacre logs %s shows what it told%s", p.id, known.State, p.id, next)
	}
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	if !p.env.JSON && terminal.Is(p.env.Stdin) && terminal.Is(p.env.Stdout) {
		p.questions = approval.NewQueue()
		asked.Go(func() { p.answer(asking, p.questions) })
	}
	err = p.play(ctx, true)
	stop()
	asked.Wait()
	switch {
	case err != nil && ctx.Err() != nil:
		if !p.env.JSON {
			p.face.printer.Field("left", "session %[1]s goes on; nacre attach %[1]s comes back to it", p.id)
		}
		return command.Exit(command.ExitInterrupted)
	case err != nil:
		return err
	case p.last == nil:
		return command.ExitWith(command.ExitFailed, fmt.Errorf("session %s ended without a word: its process was killed; nacre sessions show %s", p.id, p.id))
	case p.last.ExitCode != command.ExitOK:
		return command.Exit(p.last.ExitCode)
	}
	return nil
}

// answer asks the questions of the session in this terminal.
func (p *player) answer(ctx context.Context, questions *approval.Queue) {
	lines := make(chan string)
	go func() { _ = approval.Lines(ctx, p.env.Typed(), lines) }() // ends with the next line typed, or the process
	desk := remoteDesk{ctx: ctx, rt: p.rt, session: p.id}
	t := approval.Terminal{Desk: desk, Lines: lines, Out: p.face.printer.Prompts(), Columns: func() int { return terminal.Columns(p.env.Stdout) }, By: command.Operator() + " in an attached terminal"}
	_ = t.Run(ctx, questions) // a terminal that is gone leaves questions to others
}

// remoteDesk is the desk of a session in another process.
type remoteDesk struct {
	ctx     context.Context //nolint:containedctx // a desk's methods have none; it ends with the terminal's
	rt      *assembly.Runtime
	session nacre.SessionID
}

// Press implements [approval.Answerer].
func (d remoteDesk) Press(p nacre.Press) (nacre.Pressed, error) {
	if !d.waits(p.ID) {
		return nacre.Pressed{}, fmt.Errorf("%w: %s was answered elsewhere, or expired", approval.ErrLate, p.ID)
	}
	return d.rt.Answer(d.ctx, p)
}

// Ended implements [approval.Answerer]: the session's own process knows.
func (remoteDesk) Ended(string) string { return "" }

// Settled implements [approval.Answerer].
func (d remoteDesk) Settled(id string) <-chan struct{} {
	settled := make(chan struct{})
	if !d.waits(id) {
		close(settled)
		return settled
	}
	go func() {
		defer close(settled)
		for d.ctx.Err() == nil && d.waits(id) {
			select {
			case <-d.ctx.Done():
			case <-time.After(askEvery):
			}
		}
	}()
	return settled
}

// waits tells whether the question waits. A session that is gone asks nothing.
func (d remoteDesk) waits(id string) bool {
	questions, err := assembly.QuestionsOf(d.ctx, d.rt, d.session)
	return err == nil && slices.ContainsFunc(questions, func(q nacre.Question) bool { return q.ID == id })
}
