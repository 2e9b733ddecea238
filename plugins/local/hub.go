package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

const (
	channel     = "local"
	topicError  = "agent.error"
	topicEnd    = "agent.completed"
	publishTime = 10 * time.Second
	// unanswered is what the sender of a message is told whose agent sent nothing.
	unanswered = "The agent ended without an answer."
	// interrupted begins the outcome of a message that was given up.
	interrupted = "interrupted"
	// givenUp is what the sender of a message is told that nobody answers any more.
	givenUp = "A message of yours was given up: the work on it was interrupted twice. Some of it may be done. Write again if you still want it."
)

// hub brings senders and agents together.
type hub struct {
	now     func() time.Time
	setup   plugin.Setup
	history history
	asked   asked

	mu    sync.Mutex
	rooms map[string]map[*client]bool // by sender
}

// inbound is the payload of message.inbound (D-33).
type inbound struct {
	Channel     string   `json:"channel"`
	Sender      string   `json:"sender"`
	ContentType string   `json:"content_type"`
	Body        string   `json:"body"`
	Metadata    metadata `json:"metadata"`
}

type metadata struct {
	Chat string `json:"chat,omitempty"`
	Ref  string `json:"ref"`
}

// join tells a client what was said, and from then on what is.
func (h *hub) join(c *client, sender string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines, err := h.history.read(sender)
	if err != nil {
		return err
	}
	for _, l := range lines {
		l.History = true
		c.tell(l)
	}
	c.tell(line{Kind: kindReady})
	if h.rooms[sender] == nil {
		h.rooms[sender] = map[*client]bool{}
	}
	h.rooms[sender][c] = true
	return nil
}

func (h *hub) leave(c *client, sender string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rooms[sender], c)
	if len(h.rooms[sender]) == 0 {
		delete(h.rooms, sender)
	}
}

// take hands a message to the host, and keeps it once that has it.
func (h *hub) take(ctx context.Context, from *client, s said) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	ref, q := h.asked.add(s.sender)
	defer close(q.taken)
	own := line{Kind: kindOwn, From: s.sender, Chat: s.chat, Body: s.body, Time: h.now().UTC()}
	err := h.setup.Publish(ctx, plugin.TopicInbound, inbound{channel, s.sender, "text", s.body, metadata{s.chat, ref}})
	if err != nil {
		h.asked.end(ref)
	}
	if errors.Is(err, plugin.ErrDropped) {
		from.tell(line{Kind: kindError, Body: "no [[route]] of config.toml takes this: add one for channel \"local\" with this sender or chat, and start nacre serve again"})
		return
	}
	var refused *plugin.Refused
	if errors.As(err, &refused) {
		from.tell(line{Kind: kindError, Body: "nacre did not take the message: " + refused.Words})
		return
	}
	if err != nil {
		from.tell(line{Kind: kindError, Body: "nacre did not take the message in time: the records of nacre serve say why (nacre audit show SESSION)"})
		return
	}
	from.tell(line{Kind: kindSent, For: ref})
	_, _ = h.deliver(s.sender, own, from) // it was taken: that it is not kept changes nothing
}

// event tells a sender that nobody answers their message any more (D-33). Events that
// name no message are about something else.
func (h *hub) event(_ context.Context, e plugin.Envelope) {
	var about struct {
		Outcome string
		Message struct{ Channel, Sender, Chat, Ref string }
	}
	if json.Unmarshal(e.Payload, &about) != nil || about.Message.Channel != channel {
		return
	}
	m := about.Message
	q, known := h.asked.end(m.Ref)
	if known {
		m.Sender = q.sender // as it stands: the event's is without what looks like a secret
	}
	text := ""
	switch {
	case q.answered:
		return
	case e.Topic == topicEnd && known:
		text = unanswered
	case e.Topic == topicError && (about.Outcome == "" || strings.HasPrefix(about.Outcome, interrupted)):
		text = givenUp
	case e.Topic == topicError:
		text = "No answer will come: " + about.Outcome
	default:
		return
	}
	if !isName(m.Sender) || !h.knows(m.Sender) {
		return
	}
	_, err := h.deliver(m.Sender, line{Kind: kindNotice, From: string(e.Group), Chat: m.Chat, Body: text, Time: h.now().UTC(), For: m.Ref}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "keep a notice:", err) // who is connected has it
	}
}

// deliver keeps a line and tells it to all connections of a sender but one.
func (h *hub) deliver(sender string, l line, except *client) (told int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.rooms[sender] {
		if c != except {
			c.tell(l)
			told++
		}
	}
	return told, h.history.add(sender, l)
}

type sendArgs struct{ Recipient, Body string }

func (h *hub) send(ctx context.Context, r *plugin.Request, args sendArgs) (any, error) {
	if !isName(args.Recipient) || !h.knows(args.Recipient) {
		return nil, &plugin.ToolError{Code: "UNKNOWN_RECIPIENT", Message: fmt.Sprintf("Nobody called %.80q has written here: give the sender of the message as it stands", args.Recipient)}
	}
	ref := h.answers(ctx, r, args.Recipient)
	told, err := h.deliver(args.Recipient, line{Kind: kindMessage, From: string(r.Group), Body: args.Body, Time: h.now().UTC(), For: ref}, nil)
	if err != nil && told == 0 {
		return nil, err
	}
	status := "delivered"
	if told == 0 {
		status = "kept" // until they connect
	}
	return map[string]any{"status": status, "connections": told}, nil
}

// answers is the message that an agent answers with what it sends: the one that woke
// its session, if it came on this channel and goes to who wrote that. Other channels
// have senders of the same name.
func (h *hub) answers(ctx context.Context, r *plugin.Request, recipient string) (ref string) {
	var session struct {
		Message struct{ Channel, Sender, Ref string }
	}
	info, err := r.SessionInfo(ctx)
	if err != nil || json.Unmarshal(info, &session) != nil || session.Message.Channel != channel || session.Message.Sender != recipient {
		return ""
	}
	q := h.asked.answer(session.Message.Ref, recipient)
	if q != nil {
		select {
		case <-q.taken: // its sender knows the name of the message by now
		case <-ctx.Done():
		}
	}
	return session.Message.Ref
}

func (h *hub) knows(sender string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.rooms[sender]) > 0 || h.history.knows(sender)
}
