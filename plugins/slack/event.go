package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/chat"
)

// channel is the only one that the plugin serves.
const channel = "slack"

// The letters with which ids begin: those of conversations, persons, teams and
// files.
const (
	conversations = "CDG"
	people        = "UW"
	teams         = "TE"
	files         = "F"
)

// Limits of names.
const (
	maxID    = 20 // bytes of an id, of which three stand in a ref
	maxStamp = 10 // digits of a second
)

// isID tells ids of Slack.
func isID(id, first string) bool {
	return len(id) >= 2 && len(id) <= maxID && strings.Contains(first, id[:1]) && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// isStamp tells the name that a message has in its conversation: SECONDS.MICROSECONDS.
func isStamp(ts string) bool {
	seconds, micros, found := strings.Cut(ts, ".")
	return found && seconds != "" && len(seconds) <= maxStamp && len(micros) == 6 && strings.Trim(seconds+micros, "0123456789") == ""
}

// event is what happened in a conversation. Names are not read: they prove nothing.
type event struct {
	Type        string `json:"type"`
	Subtype     string `json:"subtype"`
	Channel     string `json:"channel"`
	ChannelType string `json:"channel_type"`
	User        string `json:"user"`
	BotID       string `json:"bot_id"`
	Team        string `json:"team"`
	UserTeam    string `json:"user_team"` // of a person of another workspace
	Text        string `json:"text"`
	Stamp       string `json:"ts"`
	Thread      string `json:"thread_ts"`
	Replies     int    `json:"reply_count"`
	Files       []file `json:"files"`
}

type file struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// readEvent reads a payload; ok is false for what is no message of a person.
func (h *handler) readEvent(payload json.RawMessage) (e event, ok bool) {
	var p struct {
		Team  string          `json:"team_id"`
		Event json.RawMessage `json:"event"`
	}
	if json.Unmarshal(payload, &p) != nil || json.Unmarshal(p.Event, &e) != nil {
		return event{}, false
	}
	switch e.Type {
	case "tokens_revoked", "app_uninstalled":
		chat.Note("Slack took the app's tokens away (%s)", e.Type)
		return event{}, false
	case "message", "app_mention":
	default:
		return event{}, false
	}
	if e.Team == "" {
		e.Team = p.Team
	}
	if e.UserTeam != "" {
		e.Team = e.UserTeam
	}
	return e, e.personal() && e.says(h.self.Load())
}

// personal tells whether one person wrote it, by their own account. What bots write, what the
// service says, and what somebody edited or deleted is passed over.
func (e event) personal() bool {
	switch e.Subtype {
	case "", "file_share", "thread_broadcast", "me_message":
	default:
		return false
	}
	return e.BotID == "" && isID(e.User, people) && isID(e.Team, teams) && isID(e.Channel, conversations) &&
		isStamp(e.Stamp) && (e.Thread == "" || isStamp(e.Thread))
}

// sender is who wrote it.
func (e event) sender() string { return e.Team + ":" + e.User }

// body is what was written.
func (e event) body(self *identity) string {
	text := strings.ToValidUTF8(e.Text, "\uFFFD")
	if self != nil {
		text = strings.TrimPrefix(text, "<@"+self.User+">")
	}
	return strings.TrimSpace(plain(text))
}

// says tells whether there is anything to take.
func (e event) says(self *identity) bool { return e.body(self) != "" || len(e.Files) > 0 }

// files are what came with it. One whose name for Slack is none cannot be read.
func (e event) files() (list []chat.File) {
	for _, f := range e.Files {
		if !isID(f.ID, files) {
			f.ID = ""
		}
		list = append(list, chat.File{ID: f.ID, Name: f.Name, Size: f.Size})
	}
	return list
}

// take brings a message to the host. With an error the host has not decided on it.
func (l *listener) take(ctx context.Context, e event) error {
	if e.asksToPair() {
		l.chats.Pair(ctx, e.sender(), chat.Place{Chat: e.Channel})
		return nil
	}
	at := e.place()
	taken, err := l.chats.Take(ctx, chat.Said{Sender: e.sender(), Chat: e.Channel, Body: e.body(l.self.Load()), Ref: refOf(at), Session: e.session(), Files: e.files()})
	if taken {
		l.remember(e)
	}
	return err
}

// commands tells whether somebody asks something of the host, alone with the bot.
func (e event) commands() bool { return e.Channel[0] == 'D' && chat.IsCommand(e.Text) }

// command asks it. It does not wait for messages that the host does not take: a person may
// want to stop the very agent for which they wait.
func (l *listener) command(ctx context.Context, e event) {
	seconds, _, _ := strings.Cut(e.Stamp, ".")
	written, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return // a stamp is digits
	}
	l.chats.Command(ctx, chat.Said{Sender: e.sender(), Body: e.Text, Ref: refOf(e.place())}, time.Unix(written, 0), chat.Place{Chat: e.Channel})
}

// asksToPair tells whether somebody writes pair, or /pair, to the bot alone. Slack keeps a
// slash at the beginning for commands that an app has announced.
func (e event) asksToPair() bool {
	text := strings.TrimSpace(e.Text)
	return e.Channel[0] == 'D' && (text == "pair" || text == "/pair")
}

// place is where a message stands. A thread is named by the message that began it.
func (e event) place() chat.Place {
	at := chat.Place{Chat: e.Channel, Message: e.Stamp}
	if e.Thread != e.Stamp {
		at.Thread = e.Thread
	}
	return at
}

// session names the conversation of a message for routes with session = "explicit": that of
// its thread, or the one that it begins.
func (e event) session() string {
	at := e.place()
	if at.Thread != "" {
		at.Message, at.Thread = at.Thread, ""
	}
	return refOf(at)
}

// refOf is a place in the letters that the host takes.
func refOf(at chat.Place) string {
	text := strings.ToLower(at.Chat) + "-" + strings.Replace(at.Message, ".", "", 1)
	if at.Thread != "" {
		text += "-" + strings.Replace(at.Thread, ".", "", 1)
	}
	return text
}

// PlaceOf reads a ref of this plugin.
func (*handler) PlaceOf(ref string) (at chat.Place, ok bool) { return placeOf(ref) }

func placeOf(ref string) (at chat.Place, ok bool) {
	parts := strings.Split(ref, "-")
	if len(parts) < 2 || len(parts) > 3 {
		return chat.Place{}, false
	}
	at.Chat = strings.ToUpper(parts[0])
	for i, to := range []*string{&at.Message, &at.Thread}[:len(parts)-1] {
		digits := parts[i+1]
		if len(digits) <= 6 {
			return chat.Place{}, false
		}
		*to = digits[:len(digits)-6] + "." + digits[len(digits)-6:]
		if !isStamp(*to) {
			return chat.Place{}, false
		}
	}
	return at, isID(at.Chat, conversations) && refOf(at) == ref
}

// readPress reads a press on a button of a card; ok is false for anything else. Of the button
// only its id is believed.
func readPress(payload json.RawMessage) (p chat.Press, ok bool) {
	var said struct {
		Type string `json:"type"`
		User struct {
			ID   string `json:"id"`
			Team string `json:"team_id"`
		} `json:"user"`
		Team struct {
			ID string `json:"id"`
		} `json:"team"`
		Channel struct {
			ID string `json:"id"`
		} `json:"channel"`
		Message struct {
			Stamp string `json:"ts"`
		} `json:"message"`
		Actions []struct {
			Type  string `json:"type"`
			Block string `json:"block_id"`
			Value string `json:"value"`
			Stamp string `json:"action_ts"`
		} `json:"actions"`
	}
	if json.Unmarshal(payload, &said) != nil || said.Type != "block_actions" || len(said.Actions) != 1 {
		return chat.Press{}, false
	}
	action, team := said.Actions[0], said.User.Team
	if team == "" {
		team = said.Team.ID
	}
	if action.Type != "button" || action.Block != buttons || action.Stamp == "" || !isID(said.User.ID, people) || !isID(team, teams) {
		return chat.Press{}, false
	}
	p = chat.Press{ID: strings.Join([]string{said.User.ID, action.Stamp, action.Value}, " "), User: team + ":" + said.User.ID, Button: action.Value}
	if isID(said.Channel.ID, conversations) && isStamp(said.Message.Stamp) {
		p.Card = chat.Place{Chat: said.Channel.ID, Message: said.Message.Stamp}
	}
	return p, true
}
