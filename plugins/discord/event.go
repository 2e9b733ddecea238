package main

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
)

// channel is the only one that the plugin serves.
const channel = "discord"

// Limits of names.
const (
	maxID  = 20 // digits, of which three stand in a ref
	maxKey = 512
)

// isID tells numbers of Discord: of persons, channels and messages.
func isID(id string) bool {
	return id != "" && len(id) <= maxID && id[0] != '0' && strings.Trim(id, "0123456789") == ""
}

// later tells whether a message is newer than another; any is newer than none.
func later(id, than string) bool {
	if len(id) != len(than) {
		return len(id) > len(than)
	}
	return id > than
}

// epoch is from when on Discord counts milliseconds, in those of Unix. A number holds them above
// its 22 lowest bits.
const epoch = 1420070400000

func written(id string) time.Time {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return time.Time{} // 20 digits may be more than a number of Discord holds
	}
	return time.UnixMilli(n>>22 + epoch)
}

// The types of messages that persons write.
const (
	typeMessage = 0
	typeReply   = 19
)

// user is somebody. Names are not read: they prove nothing.
type user struct {
	ID  string `json:"id"`
	Bot bool   `json:"bot"`
}

// message is one that was written.
type message struct {
	ID       string `json:"id"`
	Channel  string `json:"channel_id"`
	Guild    string `json:"guild_id"` // none where a person and the bot are alone
	Author   user   `json:"author"`
	Webhook  string `json:"webhook_id"`
	Type     int    `json:"type"`
	Content  string `json:"content"`
	Mentions []user `json:"mentions"`
	Answers  struct {
		ID string `json:"message_id"`
	} `json:"message_reference"`
	Files []file `json:"attachments"`
}

type file struct {
	ID      string `json:"id"`
	Name    string `json:"filename"`
	Size    int64  `json:"size"`
	Address string `json:"url"` // good for a day
}

// personal tells whether one person wrote it, by their own account. What bots and webhooks
// write, and what the service says, is passed over.
func (m message) personal() bool {
	return isID(m.ID) && isID(m.Channel) && isID(m.Author.ID) && !m.Author.Bot && m.Webhook == "" &&
		(m.Guild == "" || isID(m.Guild)) && (m.Type == typeMessage || m.Type == typeReply)
}

// alone tells whether a person wrote it where only the bot reads.
func (m message) alone() bool { return m.Guild == "" }

// names tells whether a message is for the bot by its name.
func (m message) names(self string) bool {
	return slices.ContainsFunc(m.Mentions, func(u user) bool { return u.ID == self })
}

// body is what was written.
func (m message) body(self string) string {
	text := strings.TrimSpace(strings.ToValidUTF8(m.Content, "\uFFFD"))
	for _, name := range []string{"<@" + self + ">", "<@!" + self + ">"} {
		text = strings.TrimSpace(strings.TrimPrefix(text, name))
	}
	return text
}

// says tells whether there is anything to take.
func (m message) says(self string) bool { return m.body(self) != "" || len(m.Files) > 0 }

// files are what came with it. One whose name for Discord is none cannot be read.
func (m message) files() (list []chat.File) {
	for _, f := range m.Files {
		if !isID(f.ID) {
			f.ID = ""
		}
		list = append(list, chat.File{ID: f.ID, Name: f.Name, Size: f.Size})
	}
	return list
}

// commands tells whether somebody asks something of the host, alone with the bot.
func (m message) commands() bool { return m.alone() && chat.IsCommand(m.Content) }

// asksToPair tells whether somebody writes pair, or /pair, to the bot alone. Discord may keep a
// slash at the beginning for commands that a bot has announced.
func (m message) asksToPair() bool {
	text := strings.TrimSpace(m.Content)
	return m.alone() && (text == "pair" || text == "/pair")
}

// heard is what is known of a channel: the newest message that was taken there, and what of it
// is for the bot.
type heard struct {
	last, mode string
	// parent is the channel of which this one is a thread.
	parent string
}

// What is for the bot: what names it, everything in a thread that is a conversation with it, and
// everything where a person and the bot are alone.
const (
	hearsNames  = "named"
	hearsThread = "thread"
	hearsAlone  = "alone"
)

func readHeard(value string) (of heard) {
	for i, part := range strings.Fields(value) {
		switch i {
		case 0:
			of.last = part
		case 1:
			of.mode = part
		default:
			of.parent = part
		}
	}
	return of
}

func (of heard) String() string { return strings.TrimSpace(of.last + " " + of.mode + " " + of.parent) }

// forUs tells whether a message of a channel is for the bot.
func (l *listener) forUs(m message) bool {
	self := *l.self.Load()
	return m.personal() && m.says(self) && (m.alone() || m.names(self) || readHeard(l.marks.Get(m.Channel)).mode == hearsThread)
}

// maxExpected is how many threads are expected at once.
const maxExpected = 1000

// mayBeForUs is [listener.forUs] before the messages that wait were taken: one of them may be
// that with which the thread began.
func (l *listener) mayBeForUs(m message) bool {
	self := *l.self.Load()
	if !m.personal() || !m.says(self) {
		return false
	}
	if !m.alone() && m.names(self) {
		if len(l.expected) >= maxExpected {
			clear(l.expected)
		}
		l.expected[m.ID], l.expected[m.Channel] = true, true
	}
	return l.expected[m.Channel] || l.forUs(m)
}

// take brings a message to the host. With an error the host has not decided on it.
func (l *listener) take(ctx context.Context, m message) error {
	if !l.forUs(m) {
		return nil
	}
	if m.asksToPair() {
		l.chats.Pair(ctx, m.Author.ID, chat.Place{Chat: m.Channel})
		return nil
	}
	at, err := l.place(ctx, m)
	if err != nil {
		return err
	}
	session := l.sessionOf(m, at)
	taken, err := l.chats.Take(ctx, chat.Said{Sender: m.Author.ID, Chat: at.Chat, Body: m.body(*l.self.Load()), Ref: refOf(at), Session: session, Files: m.files()})
	if taken {
		l.remember(m, at, session)
	}
	return err
}

// place is where a message stands: what it says of that is the thread, where it stands in one,
// and Discord has to be asked of which channel.
func (l *listener) place(ctx context.Context, m message) (chat.Place, error) {
	at := chat.Place{Chat: m.Channel, Message: m.ID}
	if m.alone() {
		return at, nil
	}
	parent, err := l.parent(ctx, m.Channel)
	if parent != "" {
		at.Chat, at.Thread = parent, m.Channel
	}
	return at, err
}

// The types of channels that are threads.
const (
	typeNewsThread = 10
	typePrivate    = 12
)

// parent is the channel of a thread; empty for a channel that is none.
func (h *handler) parent(ctx context.Context, id string) (string, error) {
	if known := h.marks.Get(id); known != "" {
		return readHeard(known).parent, nil
	}
	ctx, cancel := context.WithTimeout(ctx, chat.CallTime)
	defer cancel()
	var room struct {
		Type   int    `json:"type"`
		Parent string `json:"parent_id"`
	}
	err := h.api.call(ctx, http.MethodGet, []string{"channels", id}, nil, &room)
	if why, _, _ := chat.Refused(err); err != nil && why != chat.NotTaken {
		return "", err
	}
	if err != nil || room.Type < typeNewsThread || room.Type > typePrivate || !isID(room.Parent) {
		return "", nil // what Discord does not tell of is a channel of its own
	}
	return room.Parent, nil
}

func threadKey(message string) string { return "thread/" + message }

// sessionOf names the conversation of a message for routes with session = "explicit". In a thread
// it is the thread's, which has the number of the message that it began with. Alone with the bot,
// where there are no threads, it is that of the message that this one answers, or a new one.
func (l *listener) sessionOf(m message, at chat.Place) string {
	switch {
	case at.Thread != "":
		return "thread-" + at.Thread
	case !m.alone():
		return "thread-" + m.ID
	}
	if known := l.chats.Kept.Get(threadKey(m.Answers.ID)); isID(m.Answers.ID) && known != "" {
		return known
	}
	return "message-" + m.ID
}

// remember keeps what was heard last, so that what is written while nobody listens can be
// asked for, and what goes on with it.
func (l *listener) remember(m message, at chat.Place, session string) {
	mark := func(id string, of heard) {
		l.marks.Remember(id, func(known string) string {
			if !later(of.last, readHeard(known).last) {
				return ""
			}
			return of.String()
		})
	}
	switch {
	case m.alone():
		mark(m.Channel, heard{m.ID, hearsAlone, ""})
		l.chats.Kept.Remember(threadKey(m.ID), session)
	case at.Thread != "":
		mark(m.Channel, heard{m.ID, hearsThread, at.Chat})
	default:
		mark(m.Channel, heard{m.ID, hearsNames, ""})
		mark(m.ID, heard{m.ID, hearsThread, m.Channel}) // the thread that its answer begins
	}
}

// refOf is a place in the letters that the host takes.
func refOf(at chat.Place) string {
	return strings.TrimSuffix(at.Chat+"-"+at.Message+"-"+at.Thread, "-")
}

// PlaceOf reads a ref of this plugin.
func (*handler) PlaceOf(ref string) (at chat.Place, ok bool) { return placeOf(ref) }

func placeOf(ref string) (at chat.Place, ok bool) {
	parts := strings.Split(ref, "-")
	if len(parts) < 2 || len(parts) > 3 || !isID(parts[0]) || !isID(parts[1]) {
		return chat.Place{}, false
	}
	at = chat.Place{Chat: parts[0], Message: parts[1]}
	if len(parts) == 3 {
		at.Thread = parts[2]
	}
	return at, len(parts) == 2 || isID(at.Thread)
}

// command asks something of the host. It does not wait for messages that the host does not
// take: a person may want to stop the very agent for which they wait.
func (l *listener) command(ctx context.Context, m message) {
	at := chat.Place{Chat: m.Channel, Message: m.ID}
	l.chats.Command(ctx, chat.Said{Sender: m.Author.ID, Body: m.Content, Ref: refOf(at)}, written(m.ID), chat.Place{Chat: m.Channel})
}

// interaction is a press on a button of a card. Of the button only its id is believed.
type interaction struct {
	ID          string `json:"id"`
	Application string `json:"application_id"`
	Key         string `json:"token"` // with which this one press is answered
	Type        int    `json:"type"`
	Channel     string `json:"channel_id"`
	User        *user  `json:"user"` // alone with the bot
	Member      *struct {
		User user `json:"user"`
	} `json:"member"`
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Data struct {
		Type   int    `json:"component_type"`
		Button string `json:"custom_id"`
	} `json:"data"`
}

const (
	typeComponent = 3 // an interaction with a part of a message
	typeButton    = 2
)

// readPress reads a press; ok is false for anything else.
func readPress(data json.RawMessage) (p chat.Press, ok bool) {
	var i interaction
	if json.Unmarshal(data, &i) != nil || i.Type != typeComponent || i.Data.Type != typeButton {
		return chat.Press{}, false
	}
	who := i.User
	if i.Member != nil {
		if who != nil {
			return chat.Press{}, false // two persons
		}
		who = &i.Member.User
	}
	key := regexp.MustCompile(`^[A-Za-z0-9_=.-]+$`)
	if who == nil || who.Bot || !isID(who.ID) || !isID(i.ID) || !isID(i.Application) || len(i.Key) > maxKey || !key.MatchString(i.Key) || strings.Trim(i.Key, ".") == "" {
		return chat.Press{}, false
	}
	p = chat.Press{ID: strings.Join([]string{i.ID, i.Application, i.Key}, "/"), User: who.ID, Button: i.Data.Button}
	if isID(i.Channel) && isID(i.Message.ID) {
		p.Card = chat.Place{Chat: i.Channel, Message: i.Message.ID}
	}
	return p, true
}
