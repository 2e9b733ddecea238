package cockpit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/plugin"
)

const (
	// chatPoll is how often questions are looked for, and chatAgain how often a card is shown
	// again to a plugin, which may have been restarted meanwhile.
	chatPoll  = time.Second
	chatAgain = 30 * time.Second
	// endings is how often the end of a card is told: after twice as long each time, for more
	// than a day, since a service may be down for one.
	endings = 13
	// maxCards is how many cards are known at once, those included that are over; the oldest go.
	maxCards = 2000
	// maxStrangers is how many presses of strangers go to the desks in a minute, which record them:
	// they decide nothing, and each asks every session.
	maxStrangers = 60
	// buttonBytes is the length of a button's id, drawn from 32 letters.
	buttonBytes = 16
)

// Chats shows questions to persons at the services, and takes what they press there. It
// decides nothing: each press goes the way of all presses ([Press]). A button from before a
// restart is good for nothing: the card is told to be over, and a question that still waits
// is shown again.
type Chats struct {
	inst       *installation.Installation
	everything func(context.Context) ([]Waiting, error)

	mu    sync.Mutex
	cards []*chatCard // the oldest in front
	shown shownFile
	// strangers are the presses of strangers in the minute that began then.
	strangers int
	began     time.Time
}

// chatCard is one card that was shown to one person.
type chatCard struct {
	question.Card
	asked         string // the question's digest, to which a ruling is bound
	id            string
	to            person.Person
	approve, deny string // the ids of the buttons; approve is empty where it cannot be approved here
	hour          string // of the button that approves for an hour; empty where none does
	text          string
	over          bool
	outcome       string // where it was decided at a service
	withdrawn     bool   // whoever was shown it may not answer it any more
	earlier       string // the digest of what another process showed with it, which is gone
	told          int    // how often its end was
	last          time.Time
}

// NewChats shows the questions of an installation. everything is all that waits for a person in it:
// with an error, what can be read.
func NewChats(inst *installation.Installation, everything func(context.Context) ([]Waiting, error)) *Chats {
	return &Chats{inst: inst, everything: everything}
}

// Follow tells show which cards are to be shown, and which are over, until ctx ends.
func (c *Chats) Follow(ctx context.Context, channels func() []string, show func(plugin.Card)) {
	c.remember()
	defer func() { _ = c.shown.close() }() // its lock ends with the process, too
	tick := time.NewTicker(chatPoll)
	defer tick.Stop()
	for {
		for _, card := range c.due(ctx, channels()) {
			show(card)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// remember knows the cards again that a process before this one showed. Where they cannot be
// read, their buttons stay, and are good for nothing.
func (c *Chats) remember() {
	mine, left, _ := openShown(c.inst.Registry.Paths().State)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = mine
	for _, one := range left {
		c.cards = append(c.cards, &chatCard{id: one.ID, to: person.Person{Identity: one.To}, text: one.Title, earlier: one.Digest, over: true})
	}
}

// due are the cards that a plugin is to be told of now.
func (c *Chats) due(ctx context.Context, channels []string) []plugin.Card {
	directory, err := Roster(c.inst).Directory()
	if err != nil || !reaches(directory, channels) && !c.any() {
		return nil // while nobody is known, nobody is asked
	}
	questions, unread := Questions(ctx, c.inst)
	now := c.inst.Options.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := map[string]bool{}
	for _, q := range questions {
		card := question.Of(q)
		waiting[card.Digest()] = true
		for _, p := range directory.Reached(card.Matter()) {
			face := string(p.Identity.Face())
			if slices.Contains(channels, face) && p.Wants(face, now) && !c.knows(card, p) {
				c.add(card, q, p)
			}
		}
	}
	var due []plugin.Card
	for _, card := range c.cards {
		switch {
		case !slices.Contains(channels, string(card.to.Identity.Face())):
			continue // its plugin is not there yet, or any more
		case !card.withdrawn && !mayAnswer(directory, card):
			card.withdraw()
		case card.earlier != "" && waiting[card.earlier]:
			card.outcome = "nacre was restarted, so these buttons are good for nothing: the question is shown again."
		case !waiting[card.Digest()] && unread == nil:
			card.over = true
		}
		if !card.over && !card.to.Wants(string(card.to.Identity.Face()), now) {
			continue // a service that was away meanwhile would ring in quiet hours
		}
		if shown, now := card.dueAt(now); now {
			due = append(due, shown)
		}
	}
	c.forget()
	return due
}

// mayAnswer tells whether whoever was shown a card may answer it still, if only by a denial. Of
// one that an earlier process showed it is not known what it asked for, but to whom.
func mayAnswer(d person.Directory, card *chatCard) bool {
	p, err := d.Who(card.to.Identity)
	return err == nil && (card.earlier != "" || p.Answer(card.Matter(), nacre.Ruling{}) == nil)
}

// withdraw takes a card back from somebody whose right to answer it was taken: its words, its
// buttons, and what comes of the question.
func (k *chatCard) withdraw() {
	k.over, k.withdrawn, k.approve, k.deny, k.hour = true, true, "", "", ""
	k.text, k.outcome = "A question was shown here.", "It is not yours to answer any more."
}

// forget drops the cards whose end was told often enough. mu is held.
func (c *Chats) forget() {
	c.cards = slices.DeleteFunc(c.cards, func(card *chatCard) bool {
		if card.told < endings {
			return false
		}
		_ = c.shown.add(shown{ID: card.id}) // else the next process tells of it again
		return true
	})
}

// reaches tells whether anybody may be asked at one of the channels.
func reaches(d person.Directory, channels []string) bool {
	at := func(id string) bool {
		return slices.Contains(channels, string(person.Identity(id).Face())) && !person.Identity(id).Face().Host()
	}
	for _, o := range d.Operators {
		if slices.ContainsFunc(o.Identities, at) {
			return true
		}
	}
	return slices.ContainsFunc(d.Paired, func(p person.Paired) bool { return at(p.Identity) })
}

func (c *Chats) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.cards) > 0
}

func (c *Chats) knows(card question.Card, p person.Person) bool {
	return slices.ContainsFunc(c.cards, func(known *chatCard) bool {
		return !known.withdrawn && known.ID == card.ID && known.Session == card.Session && known.to.Identity == p.Identity && known.Digest() == card.Digest()
	})
}

// add makes the card of one person. What looks like a secret goes to no service: such a
// question is read, and approved, in a terminal or on the web page.
func (c *Chats) add(card question.Card, q nacre.Question, p person.Person) {
	face := p.Identity.Face()
	made := &chatCard{Card: card, asked: q.Digest, id: drawn(), to: p, deny: drawn(), text: card.Shown(face)}
	title := card.Title
	_, secret := c.inst.Redact.String(card.Text())
	if secret {
		title = "A question that is not shown here"
		made.text = fmt.Sprintf("%s asks for a decision on %s (%s, %s). The question holds what looks like a secret, so it is not shown here: "+
			"open it in a terminal (nacre approvals show %s) or on the web page. It can be denied here.", card.Group, card.ID, card.Kind, card.Risk, card.ID)
	}
	if !secret && card.Fits(face) && p.Answer(card.Matter(), nacre.Ruling{Verdict: nacre.Allow, Scope: nacre.ScopeOnce}) == nil {
		made.approve = drawn()
	}
	if ruling, stands := forAnHour(card); stands && made.approve != "" && p.Answer(card.Matter(), ruling) == nil {
		made.hour = drawn()
	}
	_ = c.shown.add(shown{ID: made.id, To: p.Identity, Digest: card.Digest(), Title: title}) // else it keeps its buttons when this process is gone
	c.cards = append(c.cards, made)
	if len(c.cards) > maxCards {
		c.cards = c.cards[len(c.cards)-maxCards:]
	}
}

// forAnHour is the longest approval that a service may give: of a host, or of a call with exactly the
// arguments that are shown. What several persons have to approve is approved once.
func forAnHour(card question.Card) (ruling nacre.Ruling, stands bool) {
	ruling = nacre.Ruling{Verdict: nacre.Allow, For: person.MaxRemote, Scope: nacre.ScopeExact}
	if card.Kind == person.Egress {
		ruling.Scope = nacre.ScopeSame
	}
	return ruling, card.Approvers <= 1 && (card.Kind == person.Tool || card.Kind == person.Egress)
}

// drawn is an id that nobody guesses.
func drawn() string { return strings.ToLower(rand.Text()[:buttonBytes]) }

// dueAt is the card as it is to be shown, and whether its plugin is to be told now.
func (k *chatCard) dueAt(now time.Time) (plugin.Card, bool) {
	pause := chatAgain
	if k.over {
		pause <<= k.told
	}
	again := k.last.IsZero() || now.Sub(k.last) >= pause || now.Before(k.last)
	if k.over && k.told == 0 {
		again = true
	}
	if !again || k.over && k.told >= endings {
		return plugin.Card{}, false
	}
	k.last = now
	_, user, _ := strings.Cut(string(k.to.Identity), ":")
	card := plugin.Card{Channel: string(k.to.Identity.Face()), To: user, ID: k.id, Text: k.text}
	if k.over {
		k.told++
		card.Text += "\n" + orElse(k.outcome, "It waits no longer: it was answered, its time is over, or its session ended.")
		return card, true
	}
	if k.approve != "" {
		card.Buttons = append(card.Buttons, plugin.Button{ID: k.approve, Label: "Approve once"})
	}
	card.Buttons = append(card.Buttons, plugin.Button{ID: k.deny, Label: "Deny"})
	if k.hour != "" {
		card.Buttons = append(card.Buttons, plugin.Button{ID: k.hour, Label: "Approve exactly this for 1 h"})
	}
	return card, true
}

func orElse(text, fallback string) string {
	if text != "" {
		return text
	}
	return fallback
}

// Press takes a press from the plugin of a channel. The identity is made of that channel, so a
// plugin speaks for no other one, and never for a face of the host's. The words are for whoever
// pressed; a stranger gets none.
func (c *Chats) Press(ctx context.Context, channel string, p plugin.Press) (plugin.Pressed, error) {
	id, err := ofChannel(channel, p.User)
	if err != nil {
		return plugin.Pressed{}, err
	}
	if c.tooManyStrangers(id) {
		return plugin.Pressed{Refused: true}, nil
	}
	card, ruling := c.pressed(p.Button)
	ruling.By = channel
	press := nacre.Press{ID: p.Button, Identity: string(id), Ruling: ruling}
	if card != nil {
		press.ID = card.ID
	}
	if card != nil && card.to.Identity == id { // else nothing was shown to whoever pressed
		press.Shown, press.Ruling.Digest = card.Digest(), card.asked
	}
	done, err := Press(ctx, c.inst, press)
	switch {
	case errors.Is(err, person.ErrStranger) || errors.Is(err, approval.ErrNobody):
		return plugin.Pressed{Refused: true}, nil
	case err != nil:
		return plugin.Pressed{Said: "Nothing was decided: " + question.Escape(err.Error()), Refused: true, Over: card == nil}, nil
	case done.Open > 0:
		return plugin.Pressed{Said: approval.Counts(done)}, nil
	}
	outcome := "Denied by " + question.Escape(done.By) + "."
	switch {
	case ruling.For > 0:
		outcome = "Approved for an hour by " + question.Escape(done.By) + "."
	case ruling.Verdict == nacre.Allow:
		outcome = "Approved once by " + question.Escape(done.By) + "."
	}
	c.settle(card, outcome)
	return plugin.Pressed{Said: outcome}, nil
}

// tooManyStrangers tells of a press that is a stranger's, where enough of those were recorded.
func (c *Chats) tooManyStrangers(id person.Identity) bool {
	directory, err := Roster(c.inst).Directory()
	if err != nil {
		return false // the desk says so
	}
	if _, err := directory.Who(id); !errors.Is(err, person.ErrStranger) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.inst.Options.Now(); now.Sub(c.began) >= time.Minute || now.Before(c.began) {
		c.began, c.strangers = now, 0
	}
	c.strangers++
	return c.strangers > maxStrangers
}

// pressed finds the card of a button, and what the button says; nil for none.
func (c *Chats) pressed(button string) (*chatCard, nacre.Ruling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, card := range c.cards {
		switch button {
		case "":
		case card.approve:
			return card, nacre.Ruling{Verdict: nacre.Allow, Scope: nacre.ScopeOnce}
		case card.deny:
			return card, nacre.Ruling{Verdict: nacre.Deny, Scope: nacre.ScopeOnce}
		case card.hour:
			ruling, _ := forAnHour(card.Card)
			return card, ruling
		}
	}
	return nil, nacre.Ruling{Verdict: nacre.Deny, Scope: nacre.ScopeOnce}
}

// settle notes on all cards of a question what came of it.
func (c *Chats) settle(of *chatCard, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, card := range c.cards {
		if !card.withdrawn && card.ID == of.ID && card.Session == of.Session && card.Digest() == of.Digest() {
			card.outcome, card.over = outcome, true
		}
	}
}

// Pair gives the code by which somebody at a channel becomes an operator's, while a person on the
// host wants that. Otherwise it gives none, and whoever asked is told nothing.
func (c *Chats) Pair(ctx context.Context, channel string, p plugin.Pairing) (code string, err error) {
	id, err := ofChannel(channel, p.User)
	if err != nil {
		return "", err
	}
	code, err = Roster(c.inst).Ask(ctx, id)
	if errors.Is(err, person.ErrNoPairing) {
		return "", nil
	}
	return code, err
}

// ofChannel is the identity of a user of a channel's own service.
func ofChannel(channel, user string) (person.Identity, error) {
	id, err := person.ParseIdentity(channel + ":" + user)
	if err == nil && (id.Face().Host() || string(id.Face()) != channel) {
		err = fmt.Errorf("%.40q is not a service at which persons press", channel)
	}
	return id, err
}
