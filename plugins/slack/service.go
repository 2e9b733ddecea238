package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/chat"
)

// maxText is the longest text of one message, in UTF-16 units: as much as one block of Slack
// holds in every form.
const maxText = 3000

// buttons is the name of the block with a card's buttons.
const buttons = "nacre"

// block is a part of a message. What an agent says is the text of elements, in which Slack
// looks for no markup, no address, and no name of anybody.
type block struct {
	Type     string    `json:"type"`
	ID       string    `json:"block_id,omitempty"`
	Elements []element `json:"elements"`
}

type element struct {
	Type     string    `json:"type"`
	Text     any       `json:"text,omitempty"`
	Style    *style    `json:"style,omitempty"`
	ActionID string    `json:"action_id,omitempty"`
	Value    string    `json:"value,omitempty"`
	Elements []element `json:"elements,omitempty"`
}

type style struct {
	Code bool `json:"code"`
}

type label struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji bool   `json:"emoji"`
}

// outgoing is the parameters of the methods that write. Text is what a notice shows of it.
// Slack would fetch each address of which it makes a preview.
type outgoing struct {
	Channel     string  `json:"channel"`
	User        string  `json:"user,omitempty"`
	Stamp       string  `json:"ts,omitempty"`
	Thread      string  `json:"thread_ts,omitempty"`
	Text        string  `json:"text"`
	Blocks      []block `json:"blocks"`
	Parse       string  `json:"parse"`
	Markup      bool    `json:"mrkdwn"`
	LinkNames   bool    `json:"link_names"`
	UnfurlLinks bool    `json:"unfurl_links"`
	UnfurlMedia bool    `json:"unfurl_media"`
}

func newOutgoing(to string, text chat.Text) outgoing {
	o := outgoing{Channel: to, Parse: "none", Blocks: []block{{Type: "rich_text", Elements: sections(text)}}}
	for _, s := range text {
		o.Text += escaped(s.Text)
	}
	return o
}

// sections are a text as Slack shows it: code as code, and all else as it stands.
func sections(text chat.Text) (list []element) {
	for _, s := range text {
		if s.Text == "" {
			continue
		}
		kind := "rich_text_section"
		if s.Kind == chat.CodeBlock {
			kind = "rich_text_preformatted"
		}
		piece := element{Type: "text", Text: s.Text}
		if s.Kind == chat.InlineCode {
			piece.Style = &style{Code: true}
		}
		if n := len(list); n > 0 && list[n-1].Type == kind && s.Kind != chat.CodeBlock {
			list[n-1].Elements = append(list[n-1].Elements, piece)
			continue
		}
		list = append(list, element{Type: kind, Elements: []element{piece}})
	}
	return list
}

// escaped is a text in which Slack finds no markup of its own: no link, and nobody to call.
func escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// Post writes a message, in the thread of the one that it belongs to. A message to one person
// is one in the conversation with them.
func (h *handler) Post(ctx context.Context, m chat.Message) (chat.Place, error) {
	o := newOutgoing(m.At.Chat, m.Text)
	if o.Thread = m.At.Thread; o.Thread == "" {
		o.Thread = m.At.Message
	}
	if m.Person != "" {
		user, err := h.person(ctx, m.Person)
		if err != nil {
			return chat.Place{}, err
		}
		o.Channel = user
	}
	if m.File != nil {
		return h.postFile(ctx, o.Channel, o.Thread, *m.File)
	}
	if len(m.Buttons) > 0 {
		row := block{Type: "actions", ID: buttons}
		for i, b := range m.Buttons {
			row.Elements = append(row.Elements, element{Type: "button", ActionID: strconv.Itoa(i), Value: b.ID, Text: label{"plain_text", b.Label, false}})
		}
		o.Blocks = append(o.Blocks, row)
	}
	var sent struct {
		Channel string `json:"channel"`
		Stamp   string `json:"ts"`
	}
	if _, err := h.api.speak(ctx, "chat.postMessage", o, &sent); err != nil {
		return chat.Place{}, err
	}
	return chat.Place{Chat: sent.Channel, Message: sent.Stamp, Thread: o.Thread}, nil
}

// person is the id by which a person of the bot's own workspace is written to. The same id is
// somebody else's in another one.
func (h *handler) person(ctx context.Context, identity string) (string, error) {
	team, user, _ := strings.Cut(identity, ":")
	me, err := h.whoami(ctx)
	if err != nil {
		return "", err
	}
	if !isID(user, people) || team == "" || team != me.Team && team != me.Enterprise {
		return "", &chat.Refusal{Why: chat.NotTaken, Said: "it is for nobody of the bot's workspace"}
	}
	return user, nil
}

// Edit gives a message another text.
func (h *handler) Edit(ctx context.Context, at chat.Place, text chat.Text) error {
	o := newOutgoing(at.Chat, text)
	o.Stamp = at.Message
	_, err := h.api.speak(ctx, "chat.update", o, &struct{}{})
	return err
}

// Tell says something to whoever pressed, which only they see. A press itself was acknowledged
// before.
func (h *handler) Tell(ctx context.Context, p chat.Press, said string, _ bool) error {
	if said == "" || p.Card.Chat == "" {
		return nil
	}
	_, user, _ := strings.Cut(p.User, ":")
	o := newOutgoing(p.Card.Chat, chat.Whole(said, maxText))
	o.User = user
	_, err := h.api.speak(ctx, "chat.postEphemeral", o, &struct{}{})
	return err
}
