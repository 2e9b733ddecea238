package workcmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
)

type replCommand Commands

// maxLine is the longest line that is said to an agent, in bytes.
const maxLine = 64 << 10

func (cmd replCommand) command() *cobra.Command {
	var group string
	var anew, verbose bool
	c := &cobra.Command{
		Use: "repl", Short: "talk to an agent in this terminal, without nacre serve",
		Long: `Each line that you type is said to an agent, which works sealed in the group's own
workspace with the group's tools, and its answer is shown. What the agent asks is
asked here. The conversation goes on the next time, until it has rested for as long as
[serve] says. Ctrl-D ends it. With input that is not a terminal each line is a turn.`,
		Example: "  nacre repl\n  nacre repl --group family --new",
		Args:    command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkNames(group, ""); err != nil {
				return err
			}
			return cmd.repl(c.Context(), nacre.Group(group), anew, verbose)
		},
	}
	c.Flags().StringVar(&group, "group", "", "whose memory, tools and policy apply (default main)")
	c.Flags().BoolVar(&anew, "new", false, "begin a new conversation")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what tools are called with and what they give, in full lines")
	return c
}

// repl is a conversation at a terminal. One goroutine reads what is typed: a line is an
// answer where a question waits, and else what is said next.
type repl struct {
	face   *face
	rt     *assembly.Runtime
	typed  chan string
	failed error // why reading ended, once typed is closed
	// asked tells of each question that begins (1) or ends (-1) to wait.
	asked chan int
}

func (cmd replCommand) repl(ctx context.Context, group nacre.Group, anew, verbose bool) error {
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	r := &repl{face: newFace(cmd.Env), rt: rt, typed: make(chan string), asked: make(chan int)}
	r.face.verbose = verbose
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go r.read(ctx, cmd.Typed()) // ends with the next line, the input or the program
	var last error              // of the last turn, which a script is told by its exit code
	for saying := (assembly.Saying{Group: group, Anew: anew}); ; saying.Anew = false {
		r.prompt(cmd.Env)
		select {
		case <-ctx.Done():
			return command.Exit(command.ExitInterrupted)
		case words, more := <-r.typed:
			if !more {
				if r.failed != nil || !terminal.Is(cmd.Stdin) {
					return cmp.Or(r.failed, last)
				}
				return nil
			}
			if saying.Words = strings.TrimSpace(words); saying.Words == "" {
				continue
			}
		}
		if last = r.say(ctx, saying); ctx.Err() != nil {
			return command.Exit(command.ExitInterrupted)
		}
		r.told(last, cmd.Env)
	}
}

// told shows why a turn failed where the person can go on.
func (r *repl) told(err error, env *command.Env) {
	if err != nil && terminal.Is(env.Stdin) {
		r.face.printer.Prose("! ", err.Error())
	}
}

// prompt shows that it is the person's turn.
func (r *repl) prompt(env *command.Env) {
	if !env.JSON && terminal.Is(env.Stdin) && r.face.terminal != nil {
		_, _ = fmt.Fprint(env.Stdout, "> ") // a terminal that is gone types nothing
	}
}

func (r *repl) read(ctx context.Context, from io.Reader) {
	defer close(r.typed)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		select {
		case r.typed <- lines.Text():
		case <-ctx.Done():
			return
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		r.failed = command.Usage("a line is over %d bytes: shorten it", maxLine)
	} else {
		r.failed = err
	}
}

// say is one turn, and shows its answer.
func (r *repl) say(ctx context.Context, s assembly.Saying) error {
	steps := &steps{show: r.face.progress}
	s.Tell, s.Asking = steps.next, r.face.asking()
	if s.Asking.In != nil {
		end := r.lend(&s.Asking)
		defer end()
	}
	said, err := assembly.Say(ctx, r.rt, s)
	var contained *assembly.Contained
	switch {
	case errors.As(err, &contained):
		return r.face.contained(contained, err)
	case err != nil:
		return err
	}
	if !r.face.event(eventReport, said) {
		steps.end(said.Answer)
		for line := range strings.Lines(said.Answer) {
			r.face.printer.Line("%s", strings.TrimRight(line, "\r\n"))
		}
	}
	if !said.Done() {
		return command.ExitWith(command.ExitFailed, fmt.Errorf("the turn ended with %s", said.Ended))
	}
	return nil
}

// lend lets the questions of a turn have what is typed while one of them waits. What is
// typed while none does is said next. end takes it back.
func (r *repl) lend(a *assembly.Asking) (end func()) {
	answers, feed := io.Pipe()
	over := make(chan struct{})
	count := func(n int) {
		select {
		case r.asked <- n:
		case <-over:
		}
	}
	ask, settled := a.Ask, a.Settled
	a.In = answers
	a.Ask = func(q nacre.Question, answer func(nacre.Ruling) (nacre.Pressed, error)) {
		go count(1) // a question is told of where nothing may wait
		ask(q, answer)
	}
	a.Settled = func(id string) {
		count(-1)
		settled(id)
	}
	var feeding sync.WaitGroup
	feeding.Go(func() { r.feed(feed, over) })
	return func() {
		_ = answers.Close() // whoever writes there is let go
		close(over)
		feeding.Wait()
	}
}

func (r *repl) feed(to io.Writer, over <-chan struct{}) {
	for waiting, gone := 0, false; ; {
		var typed chan string
		if waiting > 0 && !gone {
			typed = r.typed
		}
		select {
		case n := <-r.asked:
			waiting += n
		case line, more := <-typed:
			if gone = !more; gone {
				continue // nobody is there to answer
			}
			_, _ = io.WriteString(to, line+"\n") // a question that has ended is answered by nobody
		case <-over:
			return
		}
	}
}

// steps shows what an agent does, and not what it says last: that is its answer.
type steps struct {
	show func(nacre.Step)
	mu   sync.Mutex
	said *nacre.Step
}

func (s *steps) next(e nacre.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said != nil {
		s.show(*s.said)
		s.said = nil
	}
	if e.Kind == nacre.StepSay {
		s.said = &e
		return
	}
	s.show(e)
}

// end shows what was said last where it is not the answer.
func (s *steps) end(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said != nil && strings.TrimSpace(s.said.Text) != strings.TrimSpace(answer) {
		s.show(*s.said)
	}
}
