package cockpit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// maxTold is how many sessions a person is told of in one answer.
	maxTold = 30
	// commandTime is how long a command may take: the channel waits for it.
	commandTime = 8 * time.Second
)

// Command does what a person asks of the host at a service (M-40). status tells them of the sessions
// that run and that are theirs to see, waiting tells of all that waits for them, and kill stops a
// session. What they may do is their rights' to say and the session's own to ask for; a stranger is
// told nothing.
func (c *Chats) Command(ctx context.Context, channel string, p plugin.Command) (said string, err error) {
	id, err := ofChannel(channel, p.User)
	if err != nil {
		return "", err
	}
	directory, err := Roster(c.inst).Directory()
	if err != nil {
		return "", err
	}
	who, err := directory.Who(id)
	if errors.Is(err, person.ErrStranger) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	switch {
	case p.Name == plugin.CommandStatus:
		return c.status(ctx, who)
	case p.Name == plugin.CommandWaiting:
		return c.waiting(ctx, who), nil
	case p.Name == plugin.CommandKill && p.Session == "":
		return "Nothing was stopped: say which session. The status names them.", nil
	case p.Name == plugin.CommandKill:
		return c.kill(ctx, nacre.SessionID(p.Session), id), nil
	}
	return "", fmt.Errorf("%.40q is no command", p.Name)
}

func (c *Chats) kill(ctx context.Context, session nacre.SessionID, by person.Identity) string {
	if err := Stop(ctx, c.inst, session, by); err != nil {
		return "Nothing was stopped: " + question.Escape(err.Error())
	}
	return fmt.Sprintf("Session %s was told to stop.", question.Escape(string(session)))
}

// maxWhat is how much is told of one thing that waits, in characters.
const maxWhat = 200

// waiting lists what the person may decide, here or at another face.
func (c *Chats) waiting(ctx context.Context, who person.Person) string {
	all, unread := c.everything(ctx)
	all = slices.DeleteFunc(all, func(w Waiting) bool {
		return who.Answer(person.Matter{Kind: person.Kind(w.Kind), Group: w.Group}, nacre.Ruling{}) != nil
	})
	var lines []string
	for _, w := range all[:min(len(all), maxTold)] {
		lines = append(lines, c.inTwoLines(w))
	}
	if more := len(all) - maxTold; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if len(lines) == 0 {
		lines = []string{"Nothing waits for you."}
	}
	if unread != nil {
		lines = append(lines, "Some of it could not be read.")
	}
	return strings.Join(lines, "\n")
}

// inTwoLines says what waits and for how long, and how it is seen whole. What looks like a secret is
// taken out.
func (c *Chats) inTwoLines(w Waiting) string {
	what, _ := c.inst.Redact.String(w.What)
	if runes := []rune(what); len(runes) > maxWhat {
		what = string(runes[:maxWhat]) + " …"
	}
	since, until := "", "without an end"
	if !w.Since.IsZero() {
		since = "since " + w.Since.UTC().Format(time.DateTime) + ", "
	}
	if !w.Expires.IsZero() {
		until = "until " + w.Expires.UTC().Format(time.DateTime)
	}
	return fmt.Sprintf("%s %s: %s (%s%s, UTC)\n    %s", w.Kind, question.Escape(w.ID), question.Escape(what), since, until, question.Escape(w.Next))
}

// status lists the live sessions of groups in which the person may do anything with them.
func (c *Chats) status(ctx context.Context, who person.Person) (string, error) {
	list, err := c.inst.Registry.Live()
	var lines []string
	more := 0
	for _, s := range list {
		if s.Group == "" || who.Stop(s.Group) != nil && who.Ask(s.Group) != nil {
			continue // nacre serve itself, or none of the person's business
		}
		remote, dialled := session.Dial(s)
		if dialled != nil {
			continue // it is not live
		}
		if len(lines) == maxTold {
			more++
			continue
		}
		line := fmt.Sprintf("%s (%s, group %s)", question.Escape(string(s.ID)), s.Kind, question.Escape(string(s.Group)))
		if questions, err := remote.Approvals(ctx); err == nil && len(questions) > 0 {
			line += fmt.Sprintf(": %d waiting for a decision", len(questions))
		}
		lines = append(lines, line)
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if len(lines) == 0 {
		lines = []string{"No session runs that you may stop or ask."}
	}
	if err != nil {
		lines = append(lines, "Some sessions could not be read.")
	}
	return strings.Join(lines, "\n"), nil
}
