package chat

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of messages.
const (
	maxBody   = 8192             // characters that the host takes
	cutRoom   = 100              // of them for saying that a message was cut
	takeTime  = 10 * time.Second // for the host to take one
	wholeTime = time.Hour        // for one with a file, which the host's patience ends before
	chatPause = time.Second      // between two messages to one chat, of which services want no more
	maxPaced  = 1000             // chats whose last message is known
)

// Why is why a service said no.
type Why int

// The reasons of services. The zero value is one that nobody knows the meaning of.
const (
	Unknown   Why = iota
	TooOften      // the same may be said later
	NotTaken      // the chat, the person or the message is not one to which it can be said
	Revoked       // the token is not known
	Elsewhere     // another program does the same
)

// A Refusal is a service's no.
type Refusal struct {
	Why  Why
	Said string // such as "the Bot API said 429"
	// Pause is how long another try is useless.
	Pause time.Duration
}

func (r *Refusal) Error() string { return r.Said }

// Refused is why a service said no, for an error that is its no.
func Refused(err error) (why Why, pause time.Duration, ok bool) {
	var r *Refusal
	if !errors.As(err, &r) {
		return Unknown, 0, false
	}
	return r.Why, r.Pause, true
}

// Place is where a message stands: in a chat, and there perhaps in a thread. Its parts are a
// service's own words.
type Place struct{ Chat, Message, Thread string }

// Message is one that is written.
type Message struct {
	// At is the place of the message that it belongs to, or a chat alone.
	At Place
	// Person is to whom it is written alone, where At is nowhere.
	Person string
	// Answers says that it answers the message at At.
	Answers bool
	Text    Text
	Buttons []plugin.Button
	// File, unless nil, is written in place of Text and Buttons.
	File *Attachment
}

// Service is what a service has of its own. Its methods may be called concurrently. An error
// is a *[Refusal], or else it is not known whether it was done.
type Service interface {
	// Post writes a message once, and tells where it stands.
	Post(ctx context.Context, m Message) (Place, error)
	// Edit gives a message another text, and takes its buttons away.
	Edit(ctx context.Context, at Place, text Text) error
	// Tell says something to whoever pressed, and to nobody else.
	Tell(ctx context.Context, p Press, said string, refused bool) error
	// Fetch reads a file that came with the message at a place. Its error may be [ErrTooLarge].
	Fetch(ctx context.Context, at Place, f File) ([]byte, error)
	// PlaceOf reads the name that a message has for the host; ok is false for one that is none.
	PlaceOf(ref string) (at Place, ok bool)
}

// Channel is a plugin's channel to one service.
type Channel struct {
	Name  string // as the manifest has it
	Title string // as the service calls itself
	// Limit is how many UTF-16 units one message shows.
	Limit   int
	World   World
	Setup   plugin.Setup
	Service Service
	Kept    *Kept
	Known   Users

	pacing sync.Mutex
	sent   map[string]time.Time // when a chat was written to last

	pressing sync.Mutex
	presses  seen

	file fetched
}

// Open begins with what is kept in the plugin's data folder.
func (c *Channel) Open() (err error) {
	c.Kept, err = openKept(filepath.Join(c.Setup.DataDir, "kept.json"))
	return err
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
	Chat    string `json:"chat"`
	Ref     string `json:"ref"`
	Session string `json:"session"`
}

// Said is a message that somebody wrote.
type Said struct {
	Sender, Chat, Body string
	Ref                string // its name for the host, by which it is taken once
	Session            string // the conversation that it belongs to
	Files              []File
}

// Take brings a message to the host; taken is false where no route takes it. With an error the
// host has not decided on it: bring it again.
func (c *Channel) Take(ctx context.Context, m Said) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	note := c.come(m.Ref, m.Files) // before the agent hears of them
	text, left := body(m.Body, note)
	if left > 0 {
		c.Kept.Remember(cutKey(m.Ref), strconv.Itoa(left))
	}
	err = c.Setup.Publish(ctx, plugin.TopicInbound, inbound{c.Name, m.Sender, "text", text, metadata{m.Chat, m.Ref, m.Session}})
	if errors.Is(err, plugin.ErrDropped) {
		c.forget(m.Ref, m.Files)
		c.Kept.Remember(cutKey(m.Ref), "")
		return false, nil
	}
	return err == nil, err
}

// body is a text as the host takes it, with what is said of its files, and how many of its
// characters are left out, which it says itself.
func body(text, note string) (all string, left int) {
	room := maxBody
	if note != "" {
		room -= utf8.RuneCountInString(note) + 1
	}
	if n := utf8.RuneCountInString(text); n > room {
		left = n - room + cutRoom
		text = string([]rune(text)[:n-left]) + fmt.Sprintf("\n[the last %d characters of the message are left out here]", left)
	}
	switch {
	case note == "":
		return text, left
	case text == "":
		return note, left
	}
	return text + "\n" + note, left
}

// post writes one message, not too soon after the one before it.
func (c *Channel) post(ctx context.Context, m Message) (at Place, err error) {
	if err := c.World.Wait(ctx, c.turn(m.At.Chat+m.Person)); err != nil {
		return Place{}, errNoTime
	}
	limit := CallTime
	if m.File != nil {
		limit = wholeTime
	}
	err = c.patiently(ctx, limit, m.At.Chat+m.Person, func(ctx context.Context) error {
		at, err = c.Service.Post(ctx, m)
		return err
	})
	return at, err
}

func (c *Channel) edit(ctx context.Context, at Place, text Text) error {
	return c.patiently(ctx, CallTime, at.Chat, func(ctx context.Context) error { return c.Service.Edit(ctx, at, text) })
}

// errNoTime is what is said of a message that had no turn.
var errNoTime = &Refusal{Why: TooOften, Said: "there was no time to send it"}

// patiently asks something of the service, and again only where the service said that it did
// not take it yet, while there is time for that. One try takes so long at most.
func (c *Channel) patiently(ctx context.Context, limit time.Duration, chat string, ask func(context.Context) error) error {
	for {
		asking, cancel := begun(ctx, limit)
		err := ask(asking)
		cancel()
		why, pause, _ := Refused(err)
		if err == nil || why != TooOften {
			return err
		}
		deadline, _ := ctx.Deadline()
		if time.Until(deadline) < pause || c.World.Wait(ctx, max(pause, chatPause)) != nil {
			return err
		}
		if c.World.Wait(ctx, c.turn(chat)) != nil {
			return errNoTime
		}
	}
}

// begun is for a call of the service that begins now. It is finished although ctx is cancelled,
// as where nacre stops: else nobody would know which message it became.
func begun(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// turn is how long to wait before a chat may be written to, which is then its turn.
func (c *Channel) turn(chat string) time.Duration {
	c.pacing.Lock()
	defer c.pacing.Unlock()
	now := c.World.Now()
	at := now
	if last, known := c.sent[chat]; known && last.Add(chatPause).After(now) && last.Before(now.Add(time.Minute)) {
		at = last.Add(chatPause)
	}
	if c.sent == nil || len(c.sent) >= maxPaced {
		c.sent = map[string]time.Time{}
	}
	c.sent[chat] = at
	return at.Sub(now)
}
