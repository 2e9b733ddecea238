package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/chat"
)

// Flags of messages.
const (
	flagNoPreviews = 1 << 2 // Discord would fetch each address of which it makes one
	flagPrivate    = 1 << 6 // only whoever pressed sees it
)

// outgoing is a message that is written. An empty list of Components or Embeds takes away what
// an edited message had.
type outgoing struct {
	Content    string     `json:"content"`
	Embeds     []embed    `json:"embeds"`
	Components []row      `json:"components"`
	Mentions   mentions   `json:"allowed_mentions"`
	Flags      int        `json:"flags"`
	Answers    *reference `json:"message_reference,omitempty"`
}

// embed is a text in a frame, which may be twice as long.
type embed struct {
	Description string `json:"description"`
}

// mentions are who a message may call: nobody.
type mentions struct {
	Parse   []string `json:"parse"`
	Replied bool     `json:"replied_user"`
}

type reference struct {
	Message string `json:"message_id"`
	// Strict refuses to answer a message that is gone.
	Strict bool `json:"fail_if_not_exists"`
}

// row holds the buttons below a message.
type row struct {
	Type    int      `json:"type"`
	Buttons []button `json:"components"`
}

type button struct {
	Type  int    `json:"type"`
	Style int    `json:"style"`
	Label string `json:"label"`
	ID    string `json:"custom_id"`
}

const (
	typeRow   = 1
	styleGrey = 2
)

func newOutgoing(text chat.Text) outgoing {
	o := outgoing{Content: markup(text), Embeds: []embed{}, Components: []row{}, Mentions: mentions{Parse: []string{}}, Flags: flagNoPreviews}
	if utf8.RuneCountInString(o.Content) > maxContent {
		o.Content, o.Embeds, o.Flags = "", []embed{{o.Content}}, 0
	}
	return o
}

// Post writes a message: in the thread of the one that it belongs to, or to one person alone.
func (h *handler) Post(ctx context.Context, m chat.Message) (chat.Place, error) {
	o := newOutgoing(m.Text)
	for _, b := range m.Buttons {
		if len(o.Components) == 0 {
			o.Components = []row{{Type: typeRow}}
		}
		o.Components[0].Buttons = append(o.Components[0].Buttons, button{typeButton, styleGrey, b.Label, b.ID})
	}
	to, err := h.room(ctx, m, &o)
	if err != nil {
		return chat.Place{}, err
	}
	params, err := o.with(m.File)
	if err != nil {
		return chat.Place{}, err
	}
	var at struct {
		ID string `json:"id"`
	}
	if err := h.api.call(ctx, http.MethodPost, []string{"channels", to, "messages"}, params, &at); err != nil {
		return chat.Place{}, err
	}
	if !isID(at.ID) {
		return chat.Place{}, chat.ErrUnreached
	}
	if session := h.chats.Kept.Get(threadKey(m.At.Message)); session != "" {
		h.chats.Kept.Remember(threadKey(at.ID), session) // whoever answers this goes on with it
	}
	return chat.Place{Chat: to, Message: at.ID}, nil
}

// room is the channel that a message goes to.
func (h *handler) room(ctx context.Context, m chat.Message, o *outgoing) (string, error) {
	switch {
	case m.Person != "":
		return h.private(ctx, m.Person)
	case !isID(m.At.Chat):
		return "", &chat.Refusal{Why: chat.NotTaken, Said: "it is for no channel"}
	case m.At.Thread != "":
		return m.At.Thread, nil
	case m.At.Message == "":
		return m.At.Chat, nil
	}
	if h.chats.Kept.Get(threadKey(m.At.Message)) == "" { // else it was written to the bot alone
		begun, err := h.thread(ctx, m.At)
		if begun || err != nil {
			return m.At.Message, err
		}
	}
	if m.Answers {
		o.Answers = &reference{Message: m.At.Message}
	}
	return m.At.Chat, nil
}

// private is the channel of a person and the bot alone.
func (h *handler) private(ctx context.Context, person string) (string, error) {
	if !isID(person) {
		return "", &chat.Refusal{Why: chat.NotTaken, Said: "it is for nobody"}
	}
	known := "alone/" + person
	if id := h.chats.Kept.Get(known); isID(id) {
		return id, nil
	}
	var room struct {
		ID string `json:"id"`
	}
	if err := h.api.call(ctx, http.MethodPost, []string{"users", "@me", "channels"}, map[string]string{"recipient_id": person}, &room); err != nil {
		return "", unsent(err)
	}
	if !isID(room.ID) {
		return "", unsent(chat.ErrUnreached)
	}
	h.chats.Kept.Remember(known, room.ID)
	return room.ID, nil
}

func begunKey(message string) string { return "begun/" + message }

// How a thread begins.
const (
	threadTime = 1440 // minutes without a message after which Discord hides it
	maxTitle   = 60   // characters
	noTitle    = "Conversation"
)

// thread begins the thread of a message, which has the number of the message. It is not begun
// where the bot may not: then the answer stands beside the message.
func (h *handler) thread(ctx context.Context, at chat.Place) (begun bool, err error) {
	if known := h.chats.Kept.Get(begunKey(at.Message)); known != "" {
		return known == "yes", nil
	}
	path := []string{"channels", at.Chat, "messages", at.Message}
	var asked message
	if err := h.api.call(ctx, http.MethodGet, path, nil, &asked); err != nil {
		asked = message{} // it has another title then
	}
	err = h.api.call(ctx, http.MethodPost, append(path, "threads"), map[string]any{"name": title(asked.body("")), "auto_archive_duration": threadTime}, nil)
	var no *refused
	switch why, _, _ := chat.Refused(err); {
	case err == nil, errors.As(err, &no) && no.code == codeHasThread:
		h.chats.Kept.Remember(begunKey(at.Message), "yes")
		return true, nil
	case why == chat.NotTaken:
		h.chats.Kept.Remember(begunKey(at.Message), "no")
		return false, nil
	}
	return false, unsent(err)
}

// unsent is an error of what comes before a message is written: nothing was, so it may be
// tried again.
func unsent(err error) error {
	if why, _, said := chat.Refused(err); said && why != chat.Unknown {
		return err
	}
	return &chat.Refusal{Why: chat.TooOften, Said: err.Error()}
}

// title names a thread after what was asked.
func title(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(chat.Clean(text)), "\n")
	runes := []rune(strings.TrimSpace(line))
	switch {
	case len(runes) == 0:
		return noTitle
	case len(runes) > maxTitle:
		return string(runes[:maxTitle-2]) + " …"
	}
	return string(runes)
}

// Edit gives a message another text, and takes its buttons away.
func (h *handler) Edit(ctx context.Context, at chat.Place, text chat.Text) error {
	if !isID(at.Chat) || !isID(at.Message) {
		return &chat.Refusal{Why: chat.NotTaken, Said: "it is no message"}
	}
	return h.api.call(ctx, http.MethodPatch, []string{"channels", at.Chat, "messages", at.Message}, newOutgoing(text), nil)
}

// Tell says something to whoever pressed, which only they see. A press itself was acknowledged
// before.
func (h *handler) Tell(ctx context.Context, p chat.Press, said string, _ bool) error {
	text := chat.Whole(said, maxText)
	if text == nil {
		return nil
	}
	parts := strings.SplitN(p.ID, "/", 3)
	o := newOutgoing(text)
	o.Flags |= flagPrivate
	return h.api.call(ctx, http.MethodPost, []string{"webhooks", parts[1], parts[2]}, o, nil)
}

// acknowledge tells Discord that a press was heard: it shows a person a failure after three
// seconds.
func (h *handler) acknowledge(ctx context.Context, p chat.Press) error {
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	parts := strings.SplitN(p.ID, "/", 3)
	const laterOrNever = 6 // an answer may come, and the card stays as it is
	return h.api.call(ctx, http.MethodPost, []string{"interactions", parts[0], parts[2], "callback"}, map[string]int{"type": laterOrNever}, nil)
}
