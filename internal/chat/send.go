package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

const (
	sendTime = 25 * time.Second // with all parts; the host waits 30 s
	// spareTime is what is left of the host's patience when the agent is told.
	spareTime = 5 * time.Second
)

// fileArgument is the one of a tool that sends which names a file of the project. The host hands
// over what it holds, as it was when the call was decided on.
const fileArgument = "file"

// Send is the tool by which an agent writes to a chat: a text, and after it a file. Where a
// message of that chat woke the agent's session, what it sends belongs to it.
func (c *Channel) Send(ctx context.Context, r *plugin.Request, to, body string) (any, error) {
	parts := Messages(body, c.Limit)
	if len(parts) == 0 {
		return nil, Refuse("EMPTY", false, "The body holds nothing that %s would show", c.Title)
	}
	ctx, cancel := context.WithTimeout(ctx, timeToSend(r))
	defer cancel()
	at, ref := c.answers(ctx, r, to)
	messages := make([]Message, 0, len(parts)+1)
	for i, part := range parts {
		messages = append(messages, Message{At: at, Answers: i == 0 && at.Message != "", Text: part})
	}
	if file, ok := r.Files[fileArgument]; ok {
		messages = append(messages, Message{At: at, File: &Attachment{
			Name: shortName(file.Name), Bytes: file.Bytes, Open: func(ctx context.Context) io.Reader { return r.Open(ctx, fileArgument) },
		}})
	}
	for i, m := range messages {
		if _, err := c.post(ctx, m); err != nil {
			return nil, c.notSent(err, i, len(messages))
		}
	}
	c.answered(ref)
	return map[string]any{"status": "sent", "messages": len(messages)}, nil
}

// timeToSend is how long all parts may take: as long as the host waits, which an operator may
// have made longer for large files.
func timeToSend(r *plugin.Request) time.Duration {
	return max(sendTime, time.Until(r.Until)-spareTime)
}

// answers is the place of the message that an agent answers with what it sends: the one that
// woke its session, where that was written in the same chat. Else it is the chat alone.
func (c *Channel) answers(ctx context.Context, r *plugin.Request, chat string) (Place, string) {
	var session struct {
		Message struct{ Channel, Ref string }
	}
	info, err := r.SessionInfo(ctx)
	if err != nil || json.Unmarshal(info, &session) != nil || session.Message.Channel != c.Name {
		return Place{Chat: chat}, ""
	}
	at, ok := c.Service.PlaceOf(session.Message.Ref)
	if !ok || at.Chat != chat {
		return Place{Chat: chat}, ""
	}
	return at, session.Message.Ref
}

// Refuse is what an agent is told.
func Refuse(code string, retriable bool, format string, values ...any) *plugin.ToolError {
	return &plugin.ToolError{Code: code, Message: fmt.Sprintf(format, values...), Retriable: retriable}
}

func (c *Channel) notSent(err error, sent, all int) error {
	so := ""
	if sent > 0 {
		so = fmt.Sprintf(" %d of %d parts were sent before.", sent, all)
	}
	why, _, refused := Refused(err)
	if !refused {
		return Refuse("NOT_KNOWN", false, "Nobody knows whether it was sent: %s did not answer.%s", c.Title, so)
	}
	switch why {
	case TooOften:
		return Refuse("TOO_OFTEN", true, "%s takes no more messages for a while: send it later.%s", c.Title, so)
	case NotTaken:
		return Refuse("NOT_TAKEN", false, "%s did not take it (%v): the chat is unknown, or its people do not let the bot write there.%s", c.Title, err, so)
	case Revoked:
		return Refuse("AUTH", false, "%s does not know the bot's token: the operator has to give it a new one.%s", c.Title, so)
	case Unknown, Elsewhere:
	}
	return Refuse("NOT_KNOWN", false, "Nobody knows whether it was sent: %v.%s", err, so)
}
