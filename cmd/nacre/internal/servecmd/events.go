package servecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/cmd/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/terminal"
	"github.com/nacre-dev/nacre/plugin"
)

type eventsCommand Commands

const (
	// maxSummary is how much of a payload a line shows, in characters.
	maxSummary = 100
	// maxTail is the largest --count.
	maxTail = 1_000_000
)

// errEnough ends a tail that has shown what was asked for.
var errEnough = errors.New("enough")

// tail is what nacre events tail was asked for.
type tail struct {
	topics  []string
	count   int
	timeout time.Duration
	seen    int
}

func (cmd eventsCommand) command() *cobra.Command {
	var t tail
	c := &cobra.Command{
		Use: "tail", Short: "show what happens in every running nacre serve, as it happens", Args: command.NoArguments,
		Long: `Shows the events of every nacre serve that runs now, until it ends or Ctrl-C.
A topic names itself and all below it: task is task.created and task.triggered.
With --count it ends after so many events, and with 124 where --timeout came first.`,
		Example: "  nacre events tail\n  nacre events tail --topic message.inbound --topic agent --json\n  nacre events tail --topic task.triggered --count 1 --timeout 1m",
		RunE:    func(c *cobra.Command, _ []string) error { return cmd.tailEvents(c.Context(), &t) },
	}
	f := c.Flags()
	f.StringArrayVar(&t.topics, "topic", nil, "only this topic and those below it; may be given again")
	f.IntVar(&t.count, "count", 0, "end after so many events")
	f.DurationVar(&t.timeout, "timeout", 0, "end after this time, such as 30s")
	return command.Group("events", "see what happens", c)
}

func (t *tail) check() error {
	if t.count < 0 || t.count > maxTail {
		return command.Usage("--count %d: 1 to %d", t.count, maxTail)
	}
	if t.timeout < 0 {
		return command.Usage("--timeout %s: a time such as 30s", t.timeout)
	}
	for _, topic := range t.topics {
		if topic == "" {
			return command.Usage("--topic: name a topic, or leave it out for all")
		}
		if err := assembly.CheckEventPrefix(topic); err != nil {
			return command.Usage("--topic: %w", err)
		}
	}
	if len(t.topics) == 0 {
		t.topics = []string{""}
	}
	return nil
}

func (cmd eventsCommand) tailEvents(ctx context.Context, t *tail) error {
	if err := t.check(); err != nil {
		return err
	}
	rt, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	if t.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.timeout)
		defer cancel()
	}
	err = rt.FollowEvents(ctx, t.topics, func(e plugin.Envelope) error {
		if err := cmd.showEvent(e); err != nil {
			return err
		}
		if t.seen++; t.seen == t.count {
			return errEnough
		}
		return nil
	})
	return t.end(err)
}

// end says how a tail ended: with what was asked for, or without it.
func (t *tail) end(err error) error {
	switch {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, context.DeadlineExceeded) && t.count == 0:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%d of %d events came in %s: %w", t.seen, t.count, t.timeout, err)
	case err == nil && t.count > 0:
		return command.ExitWith(command.ExitFailed, fmt.Errorf("nacre serve ended after %d of %d events", t.seen, t.count))
	}
	return err
}

func (cmd eventsCommand) showEvent(e plugin.Envelope) error {
	if cmd.JSON {
		return cmd.PrintJSON(e)
	}
	group := string(e.Group)
	if group == "" {
		group = "-"
	}
	cmd.Printer(cmd.Stdout).Line("%s  %-16s %-12s %-12s %s", e.Timestamp.Local().Format("15:04:05.000"), e.Topic, group, e.Source, summary(e.Payload))
	return nil
}

// summary is the beginning of a payload: a message as channel, sender and what
// was written, anything else as JSON. Secrets were taken out when it was published.
func summary(payload json.RawMessage) string {
	var m struct {
		Channel, Sender, Body, Prompt string
		TaskID                        string `json:"task_id"`
	}
	text := string(payload)
	if json.Unmarshal(payload, &m) == nil {
		switch {
		case m.Channel != "" && m.Sender != "":
			text = m.Channel + " " + m.Sender + ": " + m.Body
		case m.TaskID != "":
			text = m.TaskID + ": " + m.Prompt
		}
	}
	text = terminal.Escape(strings.Join(strings.Fields(text), " "))
	if runes := []rune(text); len(runes) > maxSummary {
		text = string(runes[:maxSummary-1]) + "…"
	}
	return text
}
