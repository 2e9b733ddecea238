package approval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
)

const (
	// maxTyped is the longest line that is read as an answer.
	maxTyped = 4 << 10
	// quiet is for how long after a question appeared nothing that is typed
	// counts: nobody has read it yet, so it was meant for something else.
	quiet = 300 * time.Millisecond
	// maxTries is how often something else than yes or no is typed before the
	// question is left to another face, or to expire.
	maxTries = 5
)

// Lines sends the lines of r until r ends or ctx does, and closes out. Reading
// cannot be broken off: where r is a terminal, the goroutine that the caller
// runs this in ends with the next line typed, or with the process.
func Lines(ctx context.Context, r io.Reader, out chan<- string) error {
	defer close(out)
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, maxTyped), maxTyped)
	for s.Scan() {
		select {
		case out <- s.Text():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Err()
}

// Terminal asks a person at a terminal, one question after the other, and
// steps back when a question is answered elsewhere. Its zero value asks nobody.
type Terminal struct {
	Desk *Desk
	// Lines is what Lines sends. It should be unbuffered.
	Lines <-chan string
	Out   io.Writer
	// By is recorded as who answered, such as "terminal of ada".
	By string
}

// Run asks what questions brings until ctx ends, or the person's input does:
// then questions are left to other faces. The error is that of writing to Out.
func (t Terminal) Run(ctx context.Context, questions <-chan nacre.Question) error {
	for {
		select {
		case q := <-questions:
			if err := t.Prompt(ctx, q); err != nil {
				return err
			}
		case _, ok := <-t.Lines: // typed while nothing was asked: no answer to what comes
			if !ok {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Prompt asks one question. What was typed before it was shown does not count.
func (t Terminal) Prompt(ctx context.Context, q nacre.Question) error {
	if t.Desk == nil || t.Out == nil {
		return errors.New("terminal has no desk or no output to ask at")
	}
	settled := t.Desk.Settled(q.ID)
	if isClosed(settled) {
		return nil
	}
	if _, err := io.WriteString(t.Out, Render(q)); err != nil {
		return err
	}
	t.discard(ctx, settled)
	for range maxTries {
		if _, err := io.WriteString(t.Out, prompt(q)); err != nil {
			return err
		}
		select {
		case typed, open := <-t.Lines:
			if !open {
				return t.say("no more input here: answer with nacre approvals")
			}
			if ruling, ok := parseAnswer(typed); ok {
				return t.answer(q.ID, ruling)
			}
		case <-settled:
			return t.say("answered elsewhere")
		case <-ctx.Done():
			return nil
		}
	}
	return t.say("left open: answer with nacre approvals")
}

// discard drops what is typed while nobody can have read the question.
func (t Terminal) discard(ctx context.Context, settled <-chan struct{}) {
	over := time.NewTimer(quiet)
	defer over.Stop()
	for {
		select {
		case _, open := <-t.Lines:
			if !open {
				return
			}
		case <-over.C:
			return
		case <-settled:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (t Terminal) answer(id string, r nacre.Ruling) error {
	r.By = t.By
	err := t.Desk.Answer(id, r)
	switch {
	case errors.Is(err, ErrLate) || errors.Is(err, ErrUnknown):
		return t.say("too late, nothing was done: " + err.Error())
	case err != nil:
		return t.say("denied: " + err.Error())
	}
	return t.say(Describe(r))
}

func (t Terminal) say(what string) error {
	_, err := fmt.Fprintln(t.Out, "    "+what)
	return err
}

// Describe says a ruling in words.
func Describe(r nacre.Ruling) string {
	words := map[nacre.Verdict]string{nacre.Allow: "approved"}[r.Verdict]
	if words == "" {
		words = "denied"
	}
	switch {
	case r.For <= 0:
		return words
	case r.Scope == nacre.ScopeSame:
		return fmt.Sprintf("%s, and the same again for %v", words, r.For)
	default:
		return fmt.Sprintf("%s, and this tool with any arguments for %v", words, r.For)
	}
}

// parseAnswer reads y, n, "y 15m" for the same again within 15 minutes, "y tool
// 15m" for the tool with any arguments, and never, which refuses the tool for
// as long as a ruling can stand. Everything else is no answer.
func parseAnswer(typed string) (nacre.Ruling, bool) {
	words := strings.Fields(strings.ToLower(typed))
	if len(words) == 1 && words[0] == "never" {
		return nacre.Ruling{Verdict: nacre.Deny, For: MaxStanding, Scope: nacre.ScopeTool}, true
	}
	if len(words) == 0 || len(words) > 3 {
		return nacre.Ruling{}, false
	}
	verdict, ok := map[string]nacre.Verdict{"y": nacre.Allow, "yes": nacre.Allow, "n": nacre.Deny, "no": nacre.Deny}[words[0]]
	if !ok {
		return nacre.Ruling{}, false
	}
	if len(words) == 1 {
		return nacre.Ruling{Verdict: verdict}, true
	}
	scope := nacre.ScopeSame
	if len(words) == 3 {
		if scope.UnmarshalText([]byte(words[1])) != nil {
			return nacre.Ruling{}, false
		}
	}
	long, err := time.ParseDuration(words[len(words)-1])
	ruling := nacre.Ruling{Verdict: verdict, By: "terminal", For: long, Scope: scope}
	return ruling, err == nil && checkRuling(ruling) == nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
