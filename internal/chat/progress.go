package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/plugin"
)

// The events that tell how a message goes.
const (
	topicStarted = "agent.started"
	topicError   = "agent.error"
	topicEnd     = "agent.completed"
	// interrupted begins the outcome of a message that was given up.
	interrupted = "interrupted"
	// eventTime is how long telling of one event may take: others wait behind it.
	eventTime = 10 * time.Second
)

// What the sender of a message is shown of how it goes.
const (
	working    = "Working on it …"
	done       = "Done."
	unanswered = "The agent ended without an answer."
	givenUp    = "A message of yours was given up: the work on it was interrupted twice. Some of it may be done. Write again if you still want it."
)

func progressKey(ref string) string { return "progress/" + ref }

// answeredKey stands by itself: an answer may be sent before the service has said which message
// shows the progress.
func answeredKey(ref string) string { return "answered/" + ref }

// cutKey is of how much was left out of a message.
func cutKey(ref string) string { return "cut/" + ref }

// answered notes that an answer was sent.
func (c *Channel) answered(ref string) {
	if ref != "" {
		c.Kept.Remember(answeredKey(ref), "yes")
	}
}

// Event shows in one message, which is edited, how the work on a message goes (M-48); and it
// shows cards.
func (c *Channel) Event(ctx context.Context, e plugin.Envelope) {
	if e.Topic == plugin.TopicCard {
		c.card(ctx, e)
		return
	}
	var about struct {
		Outcome string
		Message struct{ Channel, Ref string }
	}
	if json.Unmarshal(e.Payload, &about) != nil || about.Message.Channel != c.Name {
		return
	}
	ref := about.Message.Ref
	at, ok := c.Service.PlaceOf(ref)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	shown, sent := c.Kept.Get(progressKey(ref)), c.Kept.Get(answeredKey(ref)) != ""
	if e.Topic != topicStarted {
		defer c.Kept.Remember(answeredKey(ref), "")
	}
	switch {
	case e.Topic == topicStarted && shown == "":
		c.begin(ctx, at, ref)
	case e.Topic == topicEnd && sent && shown == "":
	case e.Topic == topicEnd && sent:
		c.show(ctx, at, ref, done)
	case e.Topic == topicEnd:
		c.show(ctx, at, ref, unanswered)
	case e.Topic == topicError && (about.Outcome == "" || strings.HasPrefix(about.Outcome, interrupted)):
		c.show(ctx, at, ref, givenUp)
	case e.Topic == topicError:
		c.show(ctx, at, ref, "No answer will come: "+about.Outcome)
	}
}

func (c *Channel) begin(ctx context.Context, at Place, ref string) {
	if left := c.Kept.Get(cutKey(ref)); left != "" {
		tellCut(ctx, c, at, left)
		c.Kept.Remember(cutKey(ref), "")
	}
	shown, err := c.post(ctx, Message{At: at, Text: plainly(working)})
	if err != nil {
		Note("show progress: %v", err)
		return
	}
	c.Kept.Remember(progressKey(ref), shown.kept())
}

// tellCut says to whoever wrote a message that the agent has its beginning only.
func tellCut(ctx context.Context, c *Channel, at Place, left string) {
	said := fmt.Sprintf("Your message is too long: its last %s characters are left out. Send what is long as a file.", left)
	if _, err := c.post(ctx, Message{At: at, Text: plainly(said)}); err != nil {
		Note("tell of a message that is too long: %v", err)
	}
}

// show ends the message that shows the progress, or sends one where there is none.
func (c *Channel) show(ctx context.Context, at Place, ref, text string) {
	parts := Messages(text, c.Limit)
	if len(parts) == 0 {
		return
	}
	shown, ok := placeKept(c.Kept.Get(progressKey(ref)))
	if !ok {
		if _, err := c.post(ctx, Message{At: at, Text: parts[0]}); err != nil {
			Note("tell of an end: %v", err)
		}
		return
	}
	if err := c.edit(ctx, shown, parts[0]); err != nil {
		Note("show an end: %v", err)
		return
	}
	c.Kept.Remember(progressKey(ref), "")
}

// kept is a place as it is kept: where a message can be edited.
func (p Place) kept() string { return p.Chat + "/" + p.Message }

func placeKept(text string) (Place, bool) {
	chat, message, ok := strings.Cut(text, "/")
	return Place{Chat: chat, Message: message}, ok && chat != "" && message != ""
}
