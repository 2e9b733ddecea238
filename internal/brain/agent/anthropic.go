//go:build linux

package agent

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/nacre-dev/nacre/internal/brain"
)

// anthropicVersion is the version of the API that is spoken.
const anthropicVersion = "2023-06-01"

// maxParts is how many blocks one answer may have.
const maxParts = 1024

// messages speaks Anthropic Messages.
type messages struct{}

func (messages) path() string { return "/v1/messages" }

func (messages) sign(h http.Header, token string) {
	h.Set("X-Api-Key", token)
	h.Set("Anthropic-Version", anthropicVersion)
}

// request sets no maximum of output: the gateway sets the operator's. What
// does not change from one request to the next is marked for the cache.
func (messages) request(c *conversation) ([]byte, error) {
	cached := object{"type": "ephemeral"}
	tools := make([]object, 0, len(c.tools))
	for _, t := range c.tools {
		tools = append(tools, object{"name": t.name, "description": t.description, "input_schema": t.schema})
	}
	sent := make([]object, 0, len(c.messages))
	for i, m := range c.messages {
		content := make([]object, 0, len(m.blocks))
		for _, b := range m.blocks {
			content = append(content, messagesBlock(b))
		}
		if i == len(c.messages)-1 && m.role == fromUser {
			content[len(content)-1]["cache_control"] = cached
		}
		sent = append(sent, object{"role": [...]string{"user", "assistant"}[m.role], "content": content})
	}
	return encode(object{
		"model": c.model, "stream": true, "tools": tools, "messages": sent,
		"system": []object{{"type": "text", "text": c.system, "cache_control": cached}},
	})
}

func messagesBlock(b block) object {
	switch b.kind {
	case thought:
		return object{"type": "thinking", "thinking": b.text, "signature": b.seal}
	case hidden:
		return object{"type": "redacted_thinking", "data": b.seal}
	case called:
		return object{"type": "tool_use", "id": b.id, "name": b.sentName(), "input": b.input}
	case result:
		return object{"type": "tool_result", "tool_use_id": b.id, "content": b.text, "is_error": b.failed}
	}
	return object{"type": "text", "text": b.text}
}

func (messages) listen() listener { return &messagesListener{at: map[int]int{}} }

// messagesListener keeps the blocks in the order in which they began.
type messagesListener struct {
	parts []messagesPart
	// at is where the block of an index is.
	at      map[int]int
	reason  string
	usage   brain.Usage
	ended   bool
	stopped bool
}

type messagesPart struct {
	kind             string
	text, seal, json []byte
	id, name         string
}

type messagesEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage messagesUsage `json:"usage"`
	} `json:"message"`
	Block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Text       string `json:"text"`
		Thinking   string `json:"thinking"`
		Signature  string `json:"signature"`
		Partial    string `json:"partial_json"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage messagesUsage `json:"usage"`
	Error vendorError   `json:"error"`
}

// messagesUsage counts tokens; each report holds the totals so far.
type messagesUsage struct {
	In         int64 `json:"input_tokens"`
	Out        int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

func (l *messagesListener) hear(data []byte) error {
	var e messagesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return notUnderstood(err)
	}
	switch e.Type {
	case "message_start":
		l.count(e.Message.Usage)
	case "content_block_start":
		return l.begin(e)
	case "content_block_delta":
		i, begun := l.at[e.Index]
		if !begun {
			return notUnderstood(errors.New("a part of a block that never began"))
		}
		p := &l.parts[i]
		p.text = append(append(p.text, e.Delta.Text...), e.Delta.Thinking...)
		p.seal = append(p.seal, e.Delta.Signature...)
		p.json = append(p.json, e.Delta.Partial...)
	case "message_delta":
		l.count(e.Usage)
		if e.Delta.StopReason != "" {
			l.reason, l.stopped = e.Delta.StopReason, true
		}
	case "message_stop":
		l.ended = true
	case "error":
		return e.Error.fault(0)
	}
	return nil // pings, and what is not known yet
}

func (l *messagesListener) begin(e messagesEvent) error {
	if _, begun := l.at[e.Index]; begun || len(l.parts) == maxParts {
		return notUnderstood(errors.New("a block that began twice, or too many"))
	}
	b := e.Block
	p := messagesPart{kind: b.Type, id: b.ID, name: b.Name, text: []byte(b.Text + b.Thinking), seal: []byte(b.Signature + b.Data)}
	if s := string(b.Input); s != "{}" && s != "null" {
		p.json = append(p.json, s...)
	}
	l.at[e.Index] = len(l.parts)
	l.parts = append(l.parts, p)
	return nil
}

func (l *messagesListener) count(u messagesUsage) {
	l.usage.In, l.usage.Out = max(l.usage.In, u.In), max(l.usage.Out, u.Out)
	l.usage.CacheRead, l.usage.CacheWrite = max(l.usage.CacheRead, u.CacheRead), max(l.usage.CacheWrite, u.CacheWrite)
}

func (l *messagesListener) answer() (reply, error) {
	if !l.ended || !l.stopped {
		return reply{usage: l.usage}, cut()
	}
	a := reply{why: l.reason, usage: l.usage, stop: map[string]stop{
		"end_turn": stopEnd, "stop_sequence": stopEnd, "tool_use": stopTools, "max_tokens": stopLength,
		"model_context_window_exceeded": stopContext, "refusal": stopRefused,
	}[l.reason]}
	for _, p := range l.parts {
		switch p.kind {
		case "text":
			a.blocks = append(a.blocks, block{kind: said, text: string(p.text)})
		case "thinking":
			a.blocks = append(a.blocks, block{kind: thought, text: string(p.text), seal: string(p.seal)})
		case "redacted_thinking":
			a.blocks = append(a.blocks, block{kind: hidden, seal: string(p.seal)})
		case "tool_use":
			b := block{kind: called, id: p.id, name: p.name}
			b.takeInput(p.json, a.stop == stopLength || a.stop == stopContext)
			a.blocks = append(a.blocks, b)
		}
	}
	return a, nil
}
