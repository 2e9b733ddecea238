package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/chat"
)

// maxText is the longest text of one message, in the UTF-16 units in which Telegram counts,
// after its markup is taken out.
const maxText = 4096

// outgoing is the parameters of sendMessage. Previews are off: Telegram would fetch each
// address that an agent writes.
type outgoing struct {
	Chat    int64          `json:"chat_id"`
	Topic   int64          `json:"message_thread_id,omitempty"`
	Text    string         `json:"text"`
	Mode    string         `json:"parse_mode"`
	Preview map[string]any `json:"link_preview_options"`
	Reply   *reply         `json:"reply_parameters,omitempty"`
	Buttons *keyboard      `json:"reply_markup,omitempty"`
}

type reply struct {
	Message int64 `json:"message_id"`
	// Anyway sends it also where the message is gone that it answers.
	Anyway bool `json:"allow_sending_without_reply"`
}

// keyboard is the buttons below a message.
type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

type button struct {
	Label string `json:"text"`
	Data  string `json:"callback_data"`
}

// Post sends a message. A message to one person is one to the chat with them.
func (h *handler) Post(ctx context.Context, m chat.Message) (chat.Place, error) {
	at := m.At
	if m.Person != "" {
		at = chat.Place{Chat: m.Person}
	}
	to, ok := numbers(at)
	if !ok {
		return chat.Place{}, &chat.Refusal{Why: chat.NotTaken, Said: "it is for no chat"}
	}
	if m.File != nil {
		return h.postFile(ctx, to, *m.File)
	}
	o := outgoing{Chat: to.chat, Topic: to.topic, Text: markup(m.Text), Mode: "HTML", Preview: map[string]any{"is_disabled": true}}
	if m.Answers {
		o.Reply = &reply{to.message, true}
	}
	if len(m.Buttons) > 0 {
		var row []button
		for _, b := range m.Buttons {
			row = append(row, button{b.Label, b.ID})
		}
		o.Buttons = &keyboard{[][]button{row}}
	}
	var sent struct {
		ID int64 `json:"message_id"`
	}
	if err := h.api.call(ctx, "sendMessage", o, &sent); err != nil {
		return chat.Place{}, err
	}
	return h.posted(to, sent.ID), nil
}

// postFile sends a file as it is: Telegram looks for no picture in it.
func (h *handler) postFile(ctx context.Context, to place, file chat.Attachment) (chat.Place, error) {
	form := chat.Form{Fields: [][2]string{{"chat_id", strconv.FormatInt(to.chat, 10)}, {"disable_content_type_detection", "true"}}, Field: "document", File: file}
	if to.topic != 0 {
		form.Fields = append(form.Fields, [2]string{"message_thread_id", strconv.FormatInt(to.topic, 10)})
	}
	var sent struct {
		ID int64 `json:"message_id"`
	}
	if err := h.api.call(ctx, "sendDocument", form, &sent); err != nil {
		return chat.Place{}, err
	}
	return h.posted(to, sent.ID), nil
}

// posted is the place of what was sent to another one: whoever answers it goes on with the
// conversation of that.
func (h *handler) posted(to place, id int64) chat.Place {
	if session := h.chats.Kept.Get(threadKey(to.chat, to.message)); session != "" {
		h.chats.Kept.Remember(threadKey(to.chat, id), session)
	}
	return place{to.chat, id, to.topic}.at()
}

// Fetch reads a file, of whose place Telegram tells for an hour.
func (h *handler) Fetch(ctx context.Context, _ chat.Place, f chat.File) ([]byte, error) {
	var at struct {
		Path string `json:"file_path"`
	}
	if err := h.api.call(ctx, "getFile", map[string]string{"file_id": f.ID}, &at); err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`).MatchString(at.Path) || strings.Contains(at.Path, "..") {
		return nil, chat.ErrUnreached
	}
	return chat.Download(ctx, h.api.http, h.api.base.JoinPath("file", "bot"+*h.api.token.Load(), at.Path).String(), nil)
}

// Edit gives a message another text.
func (h *handler) Edit(ctx context.Context, at chat.Place, text chat.Text) error {
	to, ok := numbers(at)
	if !ok {
		return &chat.Refusal{Why: chat.NotTaken, Said: "it is no message"}
	}
	var edited json.RawMessage
	return h.api.call(ctx, "editMessageText", map[string]any{
		"chat_id": to.chat, "message_id": to.message, "text": markup(text), "parse_mode": "HTML", "link_preview_options": map[string]any{"is_disabled": true},
	}, &edited)
}

// Tell answers a press, which only whoever pressed sees.
func (h *handler) Tell(ctx context.Context, p chat.Press, said string, refused bool) error {
	var answered json.RawMessage
	return h.api.call(ctx, "answerCallbackQuery", map[string]any{"callback_query_id": p.ID, "text": said, "show_alert": refused}, &answered)
}

// PlaceOf reads a ref of this plugin.
func (h *handler) PlaceOf(ref string) (chat.Place, bool) {
	p, ok := placeOf(ref)
	return p.at(), ok
}

// at is the place in the words of all services.
func (p place) at() chat.Place {
	at := chat.Place{Chat: strconv.FormatInt(p.chat, 10), Message: strconv.FormatInt(p.message, 10)}
	if p.topic != 0 {
		at.Thread = strconv.FormatInt(p.topic, 10)
	}
	return at
}

// numbers are a place in Telegram's own words.
func numbers(at chat.Place) (p place, ok bool) {
	for _, part := range []struct {
		text string
		to   *int64
	}{{at.Chat, &p.chat}, {at.Message, &p.message}, {at.Thread, &p.topic}} {
		n, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil && part.text != "" {
			return place{}, false
		}
		*part.to = n
	}
	return p, p.chat != 0
}

// markup is a text as Telegram's HTML.
func markup(text chat.Text) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	var b strings.Builder
	for _, s := range text {
		switch s.Kind {
		case chat.InlineCode:
			b.WriteString("<code>" + escape.Replace(s.Text) + "</code>")
		case chat.CodeBlock:
			b.WriteString("<pre>" + escape.Replace(s.Text) + "</pre>")
		default:
			b.WriteString(escape.Replace(s.Text))
		}
	}
	return b.String()
}
