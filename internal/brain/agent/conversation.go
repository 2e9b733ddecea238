//go:build linux

package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre/internal/brain"
)

// Limits of a conversation.
const (
	// maxShown is how much of a tool's output the model is shown, in bytes: the
	// first and the last half of it.
	maxShown = 48 << 10
	// maxCalls is how many tools one answer may use.
	maxCalls = 128
	// maxCallID is the longest id of a call that is kept as the model made it.
	maxCallID = 64
)

// When a conversation is too long for its model, old results go first.
const (
	// briefResult is the longest old result that is kept, in bytes.
	briefResult = 256
	// briefInput is the longest old input of a call that is kept, in bytes.
	briefInput = 2 << 10
	// recentResult is how much of a recent result is kept in the end.
	recentResult = 4 << 10
	keptFirst    = 8
	keptThen     = 2
)

type role uint8

const (
	fromUser role = iota
	fromModel
)

type kind uint8

const (
	said kind = iota
	thought
	hidden // a thought that only the vendor can read
	called
	result
)

// block is one part of a message, in no vendor's form.
type block struct {
	kind kind
	text string
	// id and name are a call's; a result has its call's id.
	id, name string
	// input is a call's, always a JSON object; wrong says why what the model sent
	// is none, and raw is what it sent.
	input json.RawMessage
	raw   string
	wrong string
	// seal is the vendor's mark on a thought, which goes back unchanged.
	seal string
	// failed marks a result as an error.
	failed bool
}

type message struct {
	role   role
	blocks []block
}

// conversation is all that the model is told: each request holds it whole.
type conversation struct {
	model    string
	system   string
	tools    []offer
	messages []message
	// ids are those of all calls so far.
	ids map[string]bool
	// shortened counts how often it had to become shorter.
	shortened int
}

func (c *conversation) say(text string) {
	c.messages = append(c.messages, message{fromUser, []block{{kind: said, text: text}}})
}

// answered adds what the model said, with ids that no other call has. It
// returns the calls in it.
func (c *conversation) answered(blocks []block) (calls []block) {
	kept := make([]block, 0, len(blocks))
	for _, b := range blocks {
		switch {
		case b.kind == said && strings.TrimSpace(b.text) == "":
			continue // an empty text is refused by the vendors
		case b.kind == called:
			b.id = c.unique(b.id)
			calls = append(calls, b)
		}
		kept = append(kept, b)
	}
	if len(kept) > 0 {
		c.messages = append(c.messages, message{fromModel, kept})
	}
	return calls
}

// unique keeps an id that can be sent back and was not used before, and makes
// another where it cannot: some servers count their calls anew in each answer.
func (c *conversation) unique(id string) string {
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	if id == "" || len(id) > maxCallID || c.ids[id] || !isName(id) {
		for n := len(c.ids) + 1; ; n++ {
			if id = fmt.Sprintf("nacre%04d", n); !c.ids[id] {
				break
			}
		}
	}
	c.ids[id] = true
	return id
}

// isName accepts what every vendor takes as the name of a tool or the id of a call.
func isName(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}

// shorten makes the conversation shorter, more so each time, and reports
// whether it could. The task and the last step always stay.
func (c *conversation) shorten() bool {
	for c.shortened < 2 {
		c.shortened++
		if c.clear([]int{keptFirst, keptThen}[c.shortened-1]) {
			return true
		}
	}
	return c.drop()
}

// settled starts anew with the mildest step, where the last one was enough.
func (c *conversation) settled() { c.shortened = 0 }

// clear leaves out what is bulky in all but the last messages.
func (c *conversation) clear(last int) (shorter bool) {
	for i := 1; i < len(c.messages)-last; i++ {
		for j := range c.messages[i].blocks {
			b := &c.messages[i].blocks[j]
			switch {
			case b.kind == result && len(b.text) > briefResult:
				b.text = fmt.Sprintf("[%d bytes left out to save room: use the tool again if you need them]", len(b.text))
				shorter = true
			case b.kind == called && len(b.input) > briefInput:
				b.input = json.RawMessage(fmt.Sprintf(`{"left_out":"%d bytes"}`, len(b.input)))
				shorter = true
			}
		}
	}
	return shorter
}

const dropped = "\n\n[Earlier steps of this work were left out to save room. What was done is in the files.]"

// drop leaves out all steps but the last, and most of what that one gave.
func (c *conversation) drop() bool {
	last := len(c.messages) - 1
	for last > 0 && c.messages[last].role != fromModel {
		last--
	}
	shorter := last > 1
	if shorter {
		task := c.messages[0].blocks[0]
		task.text = strings.TrimSuffix(task.text, dropped) + dropped
		c.messages = append([]message{{fromUser, []block{task}}}, c.messages[last:]...)
	}
	for i := range c.messages[1:] {
		for j := range c.messages[i+1].blocks {
			if b := &c.messages[i+1].blocks[j]; b.kind == result && len(b.text) > recentResult {
				b.text = middleOut(b.text, recentResult)
				shorter = true
			}
		}
	}
	return shorter
}

// middleOut keeps the first and the last half of limit bytes.
func middleOut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head, tail := s[:limit/2], s[len(s)-limit/2:]
	return strings.ToValidUTF8(fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, len(s)-limit, tail), "")
}

// stop says why an answer ended.
type stop uint8

const (
	stopUnknown stop = iota
	stopEnd
	stopTools
	// stopLength is an answer that was cut off by its maximum.
	stopLength
	// stopContext is one that was cut off because the model can read no more.
	stopContext
	stopRefused
)

// reply is what the model gave to one request.
type reply struct {
	blocks []block
	stop   stop
	// why is the vendor's word for stop.
	why   string
	usage brain.Usage
	// sent is how long the request was, in bytes.
	sent int
}

// takeInput makes what a model sent as a call's input an object, or says why
// it is none. What is sent back to the vendor is an object in either case.
func (b *block) takeInput(raw []byte, cut bool) {
	if strings.TrimSpace(string(raw)) == "" && !cut {
		raw = []byte("{}")
	}
	b.raw = string(raw)
	switch {
	case cut && !json.Valid(raw):
		b.wrong = "the input was cut off, since the answer reached its maximum length: do it in smaller steps"
	case !json.Valid(raw):
		b.wrong = "the input is not JSON"
	case strings.TrimSpace(b.raw)[0] != '{':
		b.wrong = "the input is not a JSON object"
	default:
		b.input = raw
		return
	}
	b.input = json.RawMessage("{}")
}
