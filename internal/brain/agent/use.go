//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nacre-dev/nacre/internal/brain"
)

// use carries the calls out one after the other: each gets one result.
func (l *loop) use(ctx context.Context, calls []block) error {
	results := make([]block, 0, len(calls))
	for _, c := range calls {
		if err := l.tell(brain.Event{Kind: brain.ToolCall, ID: c.id, Name: clip(c.name, maxCallID), Input: c.shown()}); err != nil {
			return err
		}
		r := l.do(ctx, c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.Text = middleOut(r.Text, maxShown)
		err := l.tell(brain.Event{
			Kind: brain.ToolResult, ID: c.id, Name: clip(c.name, maxCallID),
			Text: r.Text, IsError: r.IsError, ExitCode: r.ExitCode, Denied: r.Denied,
		})
		if err != nil {
			return err
		}
		results = append(results, block{kind: result, id: c.id, text: r.forModel(), failed: r.IsError})
	}
	l.talk.messages = append(l.talk.messages, message{fromUser, results})
	return nil
}

// do uses a tool that was offered. Whatever is wrong with a call is its result.
func (l *loop) do(ctx context.Context, c block) Result {
	offered := func(t offer) bool { return t.name == c.name }
	switch {
	case c.wrong != "":
		return Result{IsError: true, Text: fmt.Sprintf("%s: it begins %.200q", c.wrong, c.raw)}
	case slices.Contains(l.own, c.name):
		return l.tools.Do(ctx, c.name, c.input)
	case l.door != nil && slices.ContainsFunc(l.talk.tools, offered):
		return throughDoor(ctx, l.door, c)
	}
	return Result{IsError: true, Text: fmt.Sprintf("unknown tool %.80q: use one of those that you were given", c.name)}
}

// forModel is the result with what the model would not see of it.
func (r Result) forModel() string {
	switch {
	case r.ExitCode != nil && *r.ExitCode != 0:
		return joinLines(r.Text, fmt.Sprintf("[exit code %d]", *r.ExitCode))
	case r.Text == "":
		return "[no output]"
	}
	return r.Text
}

// shown is a call's input for the events: what is not JSON is a text.
func (b block) shown() json.RawMessage {
	if b.wrong == "" {
		return b.input
	}
	text, err := json.Marshal(clip(b.raw, maxFaultText))
	if err != nil {
		return b.input // a text is always JSON
	}
	return text
}

// sentName is a call's name as it goes back to the vendor, which takes no
// name that no tool could have.
func (b block) sentName() string {
	if isName(b.name) {
		return b.name
	}
	return "unknown"
}
