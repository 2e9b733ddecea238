package chat

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

// Limits of presses.
const (
	maxSaid   = 200  // characters of what a presser is told
	maxSeen   = 1000 // presses that are known when a service brings them again, and users
	maxButton = 64   // bytes of a button's id; the host's are shorter
)

// Press is a press on a button. Button is the button's id, and nothing else of it is believed.
type Press struct {
	ID     string // the service's own name for the press
	User   string // the id that never changes of whoever pressed
	Button string
	Card   Place // the message with the button, where the service says it
}

// seen are the newest of some ids. It is for one goroutine.
type seen struct {
	ids   map[string]bool
	order []string
}

// add reports whether an id is new.
func (s *seen) add(id string) bool {
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	if s.ids[id] {
		return false
	}
	s.ids[id] = true
	if s.order = append(s.order, id); len(s.order) > maxSeen {
		delete(s.ids, s.order[0])
		s.order = s.order[1:]
	}
	return true
}

func cardKey(id string) string { return "card/" + id }

// card shows a question to one person, once, and takes its buttons away at its end (M-47).
// One that cannot be shown now comes again.
func (c *Channel) card(ctx context.Context, e plugin.Envelope) {
	var shows plugin.Card
	if json.Unmarshal(e.Payload, &shows) != nil || shows.Channel != c.Name {
		return
	}
	c.Known.add(shows.To)
	text := Whole(shows.Text, c.Limit)
	if text == nil {
		Note("a card cannot be shown: it is too long for one message, or empty")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	shown, known := placeKept(c.Kept.Get(cardKey(shows.ID)))
	switch {
	case len(shows.Buttons) > 0 && !known:
		c.showCard(ctx, shows, text)
	case len(shows.Buttons) == 0 && known:
		c.endCard(ctx, shows.ID, shown, text)
	}
}

func (c *Channel) showCard(ctx context.Context, shows plugin.Card, text Text) {
	for _, b := range shows.Buttons {
		if b.ID == "" || len(b.ID) > maxButton {
			Note("a card cannot be shown: the id of its button is too long")
			return
		}
	}
	at, err := c.post(ctx, Message{Person: shows.To, Text: text, Buttons: shows.Buttons})
	if err != nil {
		Note("show a card: %v", err)
		return
	}
	c.Kept.Remember(cardKey(shows.ID), at.kept())
}

func (c *Channel) endCard(ctx context.Context, card string, shown Place, text Text) {
	err := c.edit(ctx, shown, text)
	if why, _, _ := Refused(err); err != nil && why != NotTaken { // NotTaken: it is gone, or shows that already
		Note("end a card: %v", err)
		return
	}
	c.Kept.Remember(cardKey(card), "")
}

// Users are those who are somebody for the host: it had them shown a card or told something since
// the handler was started, as it never has strangers. It is safe for concurrent use.
type Users struct {
	mu     sync.Mutex
	newest seen
}

// Has tells whether a user is one of them.
func (u *Users) Has(user string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.newest.ids[user]
}

func (u *Users) add(user string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.newest.add(user)
}

// Pressed brings a press to the host and tells whoever pressed, alone, what became of it. One
// that the service brings twice is one. Where the host says nothing, neither does the channel.
func (c *Channel) Pressed(ctx context.Context, p Press) {
	if p.ID == "" || p.User == "" || !c.first(p.ID) {
		return
	}
	asking, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	done, err := c.Setup.Press(asking, plugin.Press{Channel: c.Name, User: p.User, Button: p.Button[:min(len(p.Button), maxButton)]})
	if err != nil {
		Note("a press was not decided on: %v", err)
	}
	if err != nil && c.Known.Has(p.User) {
		done = plugin.Pressed{Said: "nacre did not answer, so it is not known what was decided: look again.", Refused: true}
	}
	if done.Said == "" {
		return
	}
	c.Known.add(p.User)
	telling, end := context.WithTimeout(ctx, CallTime)
	defer end()
	if err := c.Service.Tell(telling, p, shortened(done.Said), done.Refused); err != nil {
		Note("tell who pressed: %v", err)
	}
	if text := Whole(done.Said, c.Limit); done.Over && text != nil && p.Card.Message != "" {
		if err := c.edit(ctx, p.Card, text); err != nil {
			Note("end an old card: %v", err)
		}
	}
}

func (c *Channel) first(press string) bool {
	c.pressing.Lock()
	defer c.pressing.Unlock()
	return c.presses.add(press)
}

func shortened(text string) string {
	runes := []rune(Clean(text))
	if len(runes) > maxSaid {
		return string(runes[:maxSaid-2]) + " …"
	}
	return string(runes)
}

// The commands that a person writes to the bot alone.
const (
	// commandAge is how old one may be: what was meant for a session yesterday stops none today.
	commandAge = 5 * time.Minute
	maxName    = 64 // bytes of a session's
)

// IsCommand tells whether a text asks something of the host itself: status, waiting, or kill and
// the name of a session. A slash stands before it, or an exclamation mark where the service takes
// slashes for itself.
func IsCommand(text string) bool {
	_, ok := commandOf(text)
	return ok
}

func commandOf(text string) (c plugin.Command, ok bool) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > 2 || !strings.ContainsAny(words[0][:1], "/!") {
		return c, false
	}
	c.Name = words[0][1:]
	if len(words) == 2 {
		c.Session = words[1]
	}
	lists := c.Name == plugin.CommandStatus || c.Name == plugin.CommandWaiting
	return c, lists && c.Session == "" || c.Name == plugin.CommandKill && len(c.Session) <= maxName
}

// Command brings a command to the host and tells whoever wrote it what came of it. One that
// the service brings twice is one, and one that is old is none: only the newest words of a
// person are meant for what runs now.
func (c *Channel) Command(ctx context.Context, m Said, written time.Time, at Place) {
	asks, ok := commandOf(m.Body)
	if !ok || !c.first("command "+m.Ref) {
		return
	}
	if age := c.World.Now().Sub(written); age > commandAge || age < -commandAge {
		Note("a command was passed over: it was written at another time")
		return
	}
	asks.Channel, asks.User = c.Name, m.Sender
	asking, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	said, err := c.Setup.Command(asking, asks)
	if err != nil {
		Note("a command was not done: %v", err)
		return
	}
	if said == "" {
		return
	}
	c.Known.add(asks.User)
	if _, err := c.post(asking, Message{At: at, Text: plainly(fitting(Clean(said), c.Limit))}); err != nil {
		Note("tell what came of a command: %v", err)
	}
}

// Pair shows the code by which whoever wrote to the bot alone becomes an operator, while a
// person on the host wants that. At any other time they are told nothing.
func (c *Channel) Pair(ctx context.Context, user string, at Place) {
	asking, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	code, err := c.Setup.Pair(asking, plugin.Pairing{Channel: c.Name, User: user})
	if err != nil || code == "" {
		return
	}
	if _, err := c.post(asking, Message{At: at, Text: plainly("Your code is " + code + ". Say it to the person who pairs you, on the host.")}); err != nil {
		Note("show a code: %v", err)
	}
}
