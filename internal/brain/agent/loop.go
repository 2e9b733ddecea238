//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/brain"
)

// The loop's own limits, where the turn names no others.
const (
	defaultTurns   = 250
	defaultTokens  = 50_000_000
	defaultTime    = 6 * time.Hour
	defaultContext = 160_000
	// maxGoOn is how often in a row an answer may be cut off by its maximum.
	maxGoOn = 3
	// maxShorter is how often a conversation is shortened for one answer.
	maxShorter = 4
	// bytesPerToken is what a token takes of a request, roughly.
	bytesPerToken = 4
	// maxUsage is the most tokens that one answer is believed to have taken.
	maxUsage = 1 << 40
)

// settings are what the loop is started with.
type settings struct {
	dialect dialect
	// keyEnv and urlEnv name the variables that hold the token and the gateway.
	keyEnv, urlEnv string
	model          string
	notes, skills  string
	turns          int
	tokens         int64
	seconds        int64
	context        int64
}

// loop is one turn: it asks the model, uses the tools that it chooses, and asks
// again, until the model ends or a limit is met.
type loop struct {
	settings settings
	out      *json.Encoder
	tools    Tools
	own      []string
	door     Door
	asker    *asker
	talk     conversation
	used     brain.Usage
	// last is what the model said last.
	last string
	// goOn counts answers in a row that were cut off.
	goOn int
}

// converse carries out the task on w.Stdin and prints the events of it.
func converse(ctx context.Context, w World, s settings) error {
	out := json.NewEncoder(w.Stdout)
	out.SetEscapeHTML(false)
	l := &loop{settings: s, out: out, door: w.Door}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(s.seconds)*time.Second,
		fmt.Errorf("the limit of %d seconds was met", s.seconds))
	defer cancel()
	err := l.begin(ctx, w)
	if err == nil {
		err = l.run(ctx)
	}
	if l.asker != nil {
		l.asker.client.CloseIdleConnections()
	}
	if err == nil {
		return out.Encode(brain.Event{Kind: brain.Done, Text: l.last})
	}
	return errors.Join(err, out.Encode(failed(classOf(ctx, err), err)))
}

func classOf(ctx context.Context, err error) brain.Class {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.class
	}
	if ctx.Err() != nil {
		return brain.ClassKilled
	}
	return brain.ClassProtocol
}

// begin gathers what the model is told first.
func (l *loop) begin(ctx context.Context, w World) error {
	task, err := io.ReadAll(io.LimitReader(w.Stdin, brain.MaxTask+1))
	switch {
	case err != nil:
		return fmt.Errorf("task: %w", err)
	case len(task) > brain.MaxTask:
		return fmt.Errorf("the task is over %d bytes", brain.MaxTask)
	case strings.TrimSpace(string(task)) == "":
		return errors.New("the task is empty")
	}
	if err := l.connect(w); err != nil {
		return err
	}
	if err := l.place(w); err != nil {
		return err
	}
	door, err := l.offers(ctx)
	if err != nil {
		return err
	}
	l.talk.system, err = l.system(door)
	if err != nil {
		return err
	}
	l.talk.say(strings.ToValidUTF8(string(task), "\uFFFD"))
	return l.readProject(ctx)
}

// connect finds the gateway.
func (l *loop) connect(w World) error {
	s := l.settings
	url, err := gatewayURL(s.urlEnv, w.Getenv(s.urlEnv), s.dialect.path())
	if err != nil {
		return err
	}
	token := w.Getenv(s.keyEnv)
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return fmt.Errorf("%s holds no session token", s.keyEnv)
	}
	pause := w.Pause
	if pause == nil {
		pause = sleep
	}
	l.asker = &asker{
		dialect: s.dialect, url: url, token: token, client: newClient(), pause: pause,
		retrying: func(class brain.Class, text string) error {
			return l.tell(brain.Event{Kind: brain.Retry, Class: class, Text: text})
		},
	}
	return nil
}

// place finds the folders that the tools work in.
func (l *loop) place(w World) error {
	dir := w.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return err
		}
	}
	roots := []string{dir, os.TempDir()}
	for _, more := range []string{w.Getenv("HOME"), l.settings.skills} {
		if filepath.IsAbs(more) && more != "/" {
			roots = append(roots, more)
		}
	}
	l.tools = Tools{Dir: dir, Getenv: w.Getenv, Roots: roots, Hidden: []string{l.settings.keyEnv}, Gates: gates(w.Gates), Refusals: w.Refusals}
	return nil
}

// offers puts the tools together: ours, and those of the door under their own
// names, as far as those are free.
func (l *loop) offers(ctx context.Context) (door []offer, err error) {
	l.talk.model, l.talk.tools = l.settings.model, l.tools.offered()
	for _, t := range l.talk.tools {
		l.own = append(l.own, t.name)
	}
	if l.door == nil {
		return nil, nil
	}
	door, err = doorTools(ctx, l.door)
	if err != nil {
		// Without a list there is nothing to call: the work may need none of it.
		return nil, l.tell(brain.Event{Kind: brain.Raw, Name: "no tools of the door", Text: err.Error()})
	}
	door = slices.DeleteFunc(door, func(t offer) bool { return slices.Contains(l.own, t.name) })
	l.talk.tools = append(l.talk.tools, door...)
	return door, nil
}

func (l *loop) system(door []offer) (string, error) {
	var skills []skill
	var notes string
	var err error
	if l.settings.skills != "" {
		if skills, err = findSkills(l.settings.skills); err != nil {
			return "", err
		}
	}
	if l.settings.notes != "" {
		if notes, err = readNotes(l.settings.notes); err != nil {
			return "", err
		}
	}
	return prompt(l.tools.Dir, door, notes, skills), nil
}

// readProject tells the model the project's own instruction files as data.
func (l *loop) readProject(ctx context.Context) error {
	calls, results := projectTexts(ctx, l.tools)
	if len(calls) == 0 {
		return nil
	}
	for i, c := range l.talk.answered(calls) {
		results[i].id = c.id
		err := errors.Join(
			l.tell(brain.Event{Kind: brain.ToolCall, ID: c.id, Name: c.name, Input: c.input}),
			l.tell(brain.Event{Kind: brain.ToolResult, ID: c.id, Name: c.name, Text: results[i].text}))
		if err != nil {
			return err
		}
	}
	l.talk.messages = append(l.talk.messages, message{fromUser, results})
	return nil
}

func (l *loop) tell(e brain.Event) error {
	if err := l.out.Encode(e); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	return nil
}

// run is the loop itself.
func (l *loop) run(ctx context.Context) error {
	for turn := 1; ; turn++ {
		if err := l.within(turn); err != nil {
			return err
		}
		got, err := l.ask(ctx)
		if err != nil {
			return err
		}
		done, err := l.take(ctx, got)
		if done || err != nil {
			return err
		}
	}
}

// within refuses a further request once a limit is met.
func (l *loop) within(turn int) error {
	switch used := total(l.used); {
	case turn > l.settings.turns:
		return &fault{class: brain.ClassTurns, text: fmt.Sprintf("the limit of %d turns was met", l.settings.turns)}
	case used >= l.settings.tokens:
		return &fault{class: brain.ClassBudget, text: fmt.Sprintf("the limit of %d tokens was met: %d were used", l.settings.tokens, used)}
	}
	return nil
}

// ask asks the model, and makes the conversation shorter where it is too long for it.
func (l *loop) ask(ctx context.Context) (reply, error) {
	for range maxShorter {
		got, err := l.asker.ask(ctx, &l.talk)
		f, ok := errors.AsType[*fault](err)
		switch {
		case err == nil && got.stop != stopContext:
			return got, l.count(got)
		case err == nil:
			if err := l.count(got); err != nil {
				return reply{}, err
			}
			f = &fault{class: brain.ClassContext, text: "the model can read no more"}
		case !ok || !f.long:
			return reply{}, err
		}
		if !l.talk.shorten() {
			f.text += ": the conversation cannot be made any shorter"
			return reply{}, f
		}
		if err := l.tell(brain.Event{Kind: brain.Raw, Name: "shortened", Text: f.text}); err != nil {
			return reply{}, err
		}
	}
	return reply{}, &fault{class: brain.ClassContext, text: "the conversation is too long for the model, and could not be made short enough"}
}

// count adds up what was used, and makes room in time for what comes. Where
// nothing is reported, the length of the request says how much it was.
func (l *loop) count(got reply) error {
	believed := func(n int64) int64 { return min(max(n, 0), maxUsage) }
	u := brain.Usage{
		In: believed(got.usage.In), Out: believed(got.usage.Out), CacheRead: believed(got.usage.CacheRead), CacheWrite: believed(got.usage.CacheWrite),
	}
	size := total(u)
	if size == 0 {
		size = int64(got.sent / bytesPerToken)
	}
	if size > l.settings.context {
		l.talk.shorten() // what cannot be shorter is refused by the model, and told then
	} else {
		l.talk.settled()
	}
	l.used.In += u.In
	l.used.Out += u.Out
	l.used.CacheRead += u.CacheRead
	l.used.CacheWrite += u.CacheWrite
	used := l.used
	return l.tell(brain.Event{Kind: brain.Cost, Usage: &used})
}

func total(u brain.Usage) int64 { return u.In + u.Out + u.CacheRead + u.CacheWrite }

// take does what an answer says, and reports whether it was the last.
func (l *loop) take(ctx context.Context, a reply) (done bool, err error) {
	calls := l.talk.answered(a.blocks)
	spoken := ""
	for _, b := range a.blocks {
		if b.kind == said && strings.TrimSpace(b.text) != "" {
			spoken = joinTexts(spoken, b.text)
			if err := l.tell(brain.Event{Kind: brain.Text, Text: b.text}); err != nil {
				return false, err
			}
		}
	}
	if spoken != "" {
		l.last = spoken
	}
	switch {
	case a.stop == stopRefused:
		return false, &fault{class: brain.ClassRefused, text: "the model refused: " + clip(a.why, maxFaultText)}
	case len(calls) > maxCalls:
		return false, &fault{class: brain.ClassProtocol, text: fmt.Sprintf("%d calls in one answer: at most %d", len(calls), maxCalls)}
	case len(calls) > 0:
		l.goOn = 0
		return false, l.use(ctx, calls)
	case a.stop == stopLength:
		return false, l.continued(spoken)
	case a.stop == stopEnd, a.stop == stopTools:
		return true, nil
	}
	return false, &fault{class: brain.ClassProtocol, text: fmt.Sprintf("the model stopped for an unknown reason %.80q", a.why)}
}

// continued asks for the rest of an answer that reached its maximum.
func (l *loop) continued(spoken string) error {
	if l.goOn++; l.goOn > maxGoOn || spoken == "" {
		return &fault{class: brain.ClassProtocol, text: "the model's answers reach their maximum length before they end"}
	}
	l.talk.say("Your answer reached its maximum length. Go on where it ended.")
	return nil
}
