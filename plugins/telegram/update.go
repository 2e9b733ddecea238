package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre/internal/chat"
)

// channel is the only one that the plugin serves.
const channel = "telegram"

const kindPeople = "private"

// update is one thing that happened. What of it cannot be read is nil.
type update struct {
	ID      int64
	Message *message
	Press   *press
	// raw is how it came.
	raw json.RawMessage
}

// MarshalJSON writes an update as it came.
func (u update) MarshalJSON() ([]byte, error) { return u.raw, nil } //nolint:unparam // encoding/json wants the error

// press is a press on a button. Data is the button's id, and nothing else of it is believed.
type press struct {
	ID      string `json:"id"`
	From    user   `json:"from"`
	Data    string `json:"data"`
	Message *struct {
		ID   int64 `json:"message_id"`
		Chat room  `json:"chat"`
	} `json:"message"`
}

// UnmarshalJSON reads the number of an update, and of the rest what can be read. An update of a
// form that is not known must not keep those after it from coming.
func (u *update) UnmarshalJSON(data []byte) error {
	var outer struct {
		ID      int64           `json:"update_id"`
		Message json.RawMessage `json:"message"`
		Press   json.RawMessage `json:"callback_query"`
	}
	if err := json.Unmarshal(data, &outer); err != nil {
		return err
	}
	u.ID, u.raw = outer.ID, bytes.Clone(data)
	var m message
	if outer.Message != nil && json.Unmarshal(outer.Message, &m) == nil {
		u.Message = &m
	}
	var p press
	if outer.Press != nil && json.Unmarshal(outer.Press, &p) == nil {
		u.Press = &p
	}
	return nil
}

type user struct {
	ID    int64 `json:"id"`
	IsBot bool  `json:"is_bot"`
}

type room struct {
	ID   int64  `json:"id"`
	Type string `json:"type"`
}

// message is one that somebody wrote. Names are not read: they prove nothing.
type message struct {
	ID         int64           `json:"message_id"`
	From       *user           `json:"from"`
	SenderChat json.RawMessage `json:"sender_chat"`
	Chat       room            `json:"chat"`
	Date       int64           `json:"date"` // in seconds
	Text       string          `json:"text"`
	Caption    string          `json:"caption"`
	Topic      int64           `json:"message_thread_id"`
	IsTopic    bool            `json:"is_topic_message"`
	ReplyTo    *struct {
		ID int64 `json:"message_id"`
	} `json:"reply_to_message"`
	Document *file  `json:"document"`
	Photo    []file `json:"photo"` // one picture in several sizes, the largest one last
	Voice    *file  `json:"voice"`
	Audio    *file  `json:"audio"`
	Video    *file  `json:"video"`
}

type file struct {
	ID   string `json:"file_id"`
	Name string `json:"file_name"`
	Size int64  `json:"file_size"`
}

// personal tells whether one person wrote it, by their own account. Whoever writes as a
// channel, as a group or as a bot is no person that could be known again.
func (m *message) personal() bool {
	return m.ID > 0 && m.Chat.ID != 0 && m.From != nil && m.From.ID > 0 && !m.From.IsBot && m.SenderChat == nil
}

// body is what was written.
func (m *message) body() string { return strings.ToValidUTF8(m.Text+m.Caption, "\uFFFD") }

// files are what came with it. What Telegram gives no name is called by its kind.
func (m *message) files() (list []chat.File) {
	var picture *file
	if n := len(m.Photo); n > 0 {
		picture = &m.Photo[n-1]
	}
	for _, f := range []struct {
		*file
		kind string
	}{{m.Document, "file"}, {picture, "picture.jpg"}, {m.Voice, "voice.ogg"}, {m.Audio, "audio"}, {m.Video, "video.mp4"}} {
		if f.file == nil {
			continue
		}
		if f.Name == "" {
			f.Name = f.kind
		}
		list = append(list, chat.File{ID: f.ID, Name: f.Name, Size: f.Size})
	}
	return list
}

// place is where a message stands: in a chat, and there perhaps in a topic. Its text is the
// message's name for the host.
type place struct{ chat, message, topic int64 }

func (m *message) place() place {
	p := place{chat: m.Chat.ID, message: m.ID}
	if m.IsTopic {
		p.topic = m.Topic
	}
	return p
}

// ref is the place in the letters that the host takes: n stands for the minus of a group.
func (p place) ref() string {
	text := fmt.Sprintf("%s-%d", strings.Replace(strconv.FormatInt(p.chat, 10), "-", "n", 1), p.message)
	if p.topic != 0 {
		text += fmt.Sprintf("-%d", p.topic)
	}
	return text
}

// placeOf reads a ref of this plugin; ok is false for any other text.
func placeOf(ref string) (p place, ok bool) {
	parts := strings.Split(strings.Replace(ref, "n", "-", 1), "-")
	if strings.HasPrefix(ref, "n") { // the first part is the nothing before the minus
		parts = append([]string{"-" + parts[1]}, parts[2:]...)
	}
	if len(parts) < 2 || len(parts) > 3 {
		return place{}, false
	}
	for i, to := range []*int64{&p.chat, &p.message, &p.topic}[:len(parts)] {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil {
			return place{}, false
		}
		*to = n
	}
	return p, p.ref() == ref
}

// pressed is a press in the words of all services; nobody's where no person pressed.
func (p press) pressed() chat.Press {
	if p.From.ID <= 0 || p.From.IsBot {
		return chat.Press{}
	}
	pressed := chat.Press{ID: p.ID, User: strconv.FormatInt(p.From.ID, 10), Button: p.Data}
	if p.Message != nil {
		pressed.Card = place{chat: p.Message.Chat.ID, message: p.Message.ID}.at()
	}
	return pressed
}

// commands tells whether somebody asks something of the host, alone with the bot.
func (m *message) commands() bool {
	return m != nil && m.personal() && m.Chat.Type == kindPeople && m.Chat.ID == m.From.ID && chat.IsCommand(m.Text)
}

// asksToPair tells whether somebody writes /pair to the bot alone.
func (m *message) asksToPair() bool {
	return m.Chat.Type == kindPeople && m.Chat.ID == m.From.ID && strings.TrimSpace(m.Text) == "/pair"
}
