package approval

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/question"
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
	// showAll has a question shown whole that was cut.
	showAll = "all"
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

// Answerer keeps questions that a terminal answers: a [Desk], or that of a session which
// another process holds. A press that comes too late is ErrLate or ErrUnknown.
type Answerer interface {
	Press(p nacre.Press) (nacre.Pressed, error)
	// Settled gives a channel that is closed when the question no longer waits.
	Settled(id string) <-chan struct{}
	// Ended says what became of it, such as "approved by ada (slack)"; nothing where that is not known.
	Ended(id string) string
}

// Terminal asks a person at a terminal, one question after the other, and
// steps back when a question is answered elsewhere. Its zero value asks nobody.
type Terminal struct {
	Desk Answerer
	// Lines is what Lines sends. It should be unbuffered.
	Lines <-chan string
	Out   io.Writer
	// Columns is how wide Out is; nil means usualColumns.
	Columns func() int
	// By is recorded as where the answer was given, such as "terminal of ada".
	By string
}

// Run asks what questions brings until ctx ends. Where the person's input ends before, each
// question is still shown, with how other faces answer it. The error is that of writing to Out.
func (t Terminal) Run(ctx context.Context, questions *Queue) error {
	idle := t.Lines
	for {
		if q, ok := questions.next(); ok {
			if err := t.Prompt(ctx, q); err != nil {
				return err
			}
			continue
		}
		select {
		case <-questions.more:
		case _, open := <-idle: // typed while nothing was asked: no answer to what comes
			if !open {
				idle = nil
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
	if _, err := io.WriteString(t.Out, t.folded(Render(q))); err != nil {
		return err
	}
	t.discard(ctx, settled)
	whole := !IsCut(q)
	for range maxTries {
		if _, err := io.WriteString(t.Out, prompt(q, whole)); err != nil {
			return err
		}
		select {
		case typed, open := <-t.Lines:
			if !open {
				return t.say("no more input here: answer with " + elsewhere(q, whole))
			}
			ruling, ok := parseAnswer(typed)
			switch {
			case !whole && strings.EqualFold(strings.TrimSpace(typed), showAll):
				if _, err := io.WriteString(t.Out, t.folded(RenderWhole(q))); err != nil {
					return err
				}
				whole = true
				t.discard(ctx, settled)
			case ok && (whole || ruling.Verdict == nacre.Deny):
				return t.answer(q, ruling)
			}
		case <-settled:
			if what := t.Desk.Ended(q.ID); what != "" {
				return t.say("it waits no longer: " + what)
			}
			return t.say("answered elsewhere")
		case <-ctx.Done(): // what is printed next is on a line of its own
			_, err := io.WriteString(t.Out, "\n")
			return err
		}
	}
	return t.say("left open: answer with " + elsewhere(q, whole))
}

// elsewhere is the command of another terminal that answers a question, or shows what of it
// was cut.
func elsewhere(q nacre.Question, whole bool) string {
	if !whole {
		return "nacre approvals show " + question.Escape(q.ID)
	}
	return "nacre approvals approve " + question.Escape(q.ID)
}

// usualColumns is how wide a terminal is that does not say it.
const usualColumns = 80

func (t Terminal) folded(text string) string {
	columns := usualColumns
	if t.Columns != nil {
		columns = t.Columns()
	}
	if out, other := t.Out.(interface{ Shown(text string) string }); other { // in ASCII, which is longer
		text = out.Shown(text)
	}
	return Folded(text, columns)
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

func (t Terminal) answer(q nacre.Question, r nacre.Ruling) error {
	r.By = t.By
	outcome, err := t.Desk.Press(Here(q, r))
	switch {
	case errors.Is(err, ErrLate) || errors.Is(err, ErrUnknown):
		return t.say("too late, nothing was done: " + err.Error())
	case err != nil && reasonOf(err) != failed:
		return t.say("not answered, and it goes on waiting: " + err.Error())
	case err != nil:
		return t.say("denied: " + err.Error())
	}
	return t.say(Told(q, outcome, r))
}

func (t Terminal) say(what string) error {
	_, err := fmt.Fprintln(t.Out, "    "+what)
	return err
}

// Told says in words what became of a press on a question.
func Told(q nacre.Question, o nacre.Pressed, r nacre.Ruling) string {
	if o.Open > 0 {
		return "approved in part: " + stillOpen(o.Open)
	}
	if opens, ok := openingOf(q); ok {
		return opens.told(r)
	}
	return describe(r)
}

// describe says a ruling on a call in words.
func describe(r nacre.Ruling) string {
	words := map[nacre.Verdict]string{nacre.Allow: "approved"}[r.Verdict]
	if words == "" {
		words = "denied"
	}
	if r.Scope == nacre.ScopeText {
		return words + ", and what the text says is trusted until the session ends"
	}
	if r.For <= 0 {
		return words
	}
	like := map[nacre.RulingScope]string{nacre.ScopeExact: "exactly the same again", nacre.ScopeSame: "the same again"}[r.Scope]
	if like == "" {
		like = "this tool with any arguments"
	}
	if r.Times > 0 {
		return fmt.Sprintf("%s, and %s, %d times in all within %s", words, like, r.Times, long(r.For))
	}
	return fmt.Sprintf("%s, and %s for %s", words, like, long(r.For))
}

// long is a time as a person says it.
func long(d time.Duration) string {
	switch {
	case d > time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d > time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.String()
}

// maxAnswer is how many words an answer has.
const maxAnswer = 4

// parseAnswer reads y, n, and what may follow: a scope (exact, same, tool or text), a time (15m)
// and a number of calls (3x). Without a time, so many calls are those of the session.
// never refuses the tool for as long as a ruling can stand. Everything else is no answer.
func parseAnswer(typed string) (nacre.Ruling, bool) {
	words := strings.Fields(strings.ToLower(typed))
	if len(words) == 1 && words[0] == "never" {
		return nacre.Ruling{Verdict: nacre.Deny, For: MaxStanding, Scope: nacre.ScopeTool}, true
	}
	if len(words) == 0 || len(words) > maxAnswer {
		return nacre.Ruling{}, false
	}
	verdict, ok := map[string]nacre.Verdict{"y": nacre.Allow, "yes": nacre.Allow, "n": nacre.Deny, "no": nacre.Deny}[words[0]]
	if !ok {
		return nacre.Ruling{}, false
	}
	ruling := nacre.Ruling{Verdict: verdict, By: "terminal"}
	for _, word := range words[1:] {
		if !widen(&ruling, word) {
			return nacre.Ruling{}, false
		}
	}
	if ruling.Times > 0 && ruling.For == 0 {
		ruling.For = MaxStanding
	}
	if ruling.For > 0 && ruling.Scope == nacre.ScopeOnce {
		ruling.Scope = nacre.ScopeSame
	}
	return ruling, checkRuling(ruling) == nil
}

// widen takes one word of an answer, and is false for what is none or comes twice.
func widen(r *nacre.Ruling, word string) bool {
	if digits, counted := strings.CutSuffix(word, "x"); counted {
		n, err := strconv.Atoi(digits)
		if err != nil || n <= 0 || r.Times != 0 {
			return false
		}
		r.Times = n
		return true
	}
	if long, err := time.ParseDuration(word); err == nil {
		if long <= 0 || r.For != 0 {
			return false
		}
		r.For = long
		return true
	}
	return r.Scope == nacre.ScopeOnce && r.Scope.UnmarshalText([]byte(word)) == nil && r.Scope != nacre.ScopeOnce
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Counts tells whoever approved what several persons have to that others have to as well.
func Counts(o nacre.Pressed) string { return "Your approval counts; " + stillOpen(o.Open) + "." }

// stillOpen says how many persons have to approve yet.
func stillOpen(persons int) string {
	if persons == 1 {
		return "1 more person has to approve"
	}
	return fmt.Sprintf("%d more persons have to approve", persons)
}
