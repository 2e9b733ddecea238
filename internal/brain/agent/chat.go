//go:build linux

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/nacre-dev/nacre/internal/brain"
)

// chat speaks OpenAI's Chat Completions, as most servers do.
type chat struct{}

func (chat) path() string { return "/v1/chat/completions" }

func (chat) sign(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }

func (chat) request(c *conversation) ([]byte, error) {
	sent := []object{{"role": "system", "content": c.system}}
	for _, m := range c.messages {
		if m.role == fromModel {
			sent = append(sent, chatAnswer(m))
			continue
		}
		for _, b := range m.blocks {
			sent = append(sent, chatTold(b))
		}
	}
	body := object{"model": c.model, "stream": true, "stream_options": object{"include_usage": true}, "messages": sent}
	tools := make([]object, 0, len(c.tools))
	for _, t := range c.tools {
		tools = append(tools, object{"type": "function", "function": object{"name": t.name, "description": t.description, "parameters": t.schema}})
	}
	if len(tools) > 0 {
		body["tools"] = tools // an empty list is refused
	}
	return encode(body)
}

// chatTold is what the model is told: a text, or what came of a call. Chat
// has no mark for errors, so the result says it.
func chatTold(b block) object {
	if b.kind != result {
		return object{"role": "user", "content": b.text}
	}
	text := b.text
	if b.failed {
		text = "error: " + text
	}
	return object{"role": "tool", "tool_call_id": b.id, "content": text}
}

func chatAnswer(m message) object {
	var text string
	var calls []object
	for _, b := range m.blocks {
		switch b.kind {
		case said:
			text = joinTexts(text, b.text)
		case called:
			calls = append(calls, object{
				"id": b.id, "type": "function", "function": object{"name": b.sentName(), "arguments": string(b.input)},
			})
		}
	}
	sent := object{"role": "assistant", "content": text}
	if len(calls) > 0 {
		sent["tool_calls"] = calls
	}
	return sent
}

func joinTexts(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n" + b
}

func (chat) listen() listener { return &chatListener{last: map[int]int{}} }

type chatListener struct {
	text, refusal []byte
	calls         []chatCall
	// last is the call that an index stands for now.
	last   map[int]int
	reason string
	usage  brain.Usage
	ended  bool
}

type chatCall struct {
	id, name  string
	arguments []byte
}

type chatEvent struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index  int    `json:"index"`
		Finish string `json:"finish_reason"`
		Delta  struct {
			Content   string          `json:"content"`
			Refusal   string          `json:"refusal"`
			ToolCalls []chatCallDelta `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

type chatCallDelta struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func (l *chatListener) hear(data []byte) error {
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		l.ended = true
		return nil
	}
	var e chatEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return notUnderstood(err)
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		var said vendorError
		_ = json.Unmarshal(e.Error, &said) // one of another shape has no words
		return said.fault(0)
	}
	if u := e.Usage; u != nil {
		cached := min(max(u.Details.Cached, 0), max(u.Prompt, 0))
		l.usage = brain.Usage{In: max(u.Prompt, 0) - cached, Out: max(u.Completion, 0), CacheRead: cached}
	}
	for _, c := range e.Choices {
		if c.Index != 0 {
			continue // one answer was asked for
		}
		l.text, l.refusal = append(l.text, c.Delta.Content...), append(l.refusal, c.Delta.Refusal...)
		for _, d := range c.Delta.ToolCalls {
			if err := l.call(d); err != nil {
				return err
			}
		}
		if c.Finish != "" {
			l.reason = c.Finish
		}
	}
	return nil
}

// call adds to the call of an index. Some servers send whole calls, each with
// the same index: another id begins another call.
func (l *chatListener) call(d chatCallDelta) error {
	i, begun := l.last[d.Index]
	if !begun || (d.ID != "" && l.calls[i].id != "" && d.ID != l.calls[i].id) {
		if len(l.calls) == maxParts {
			return notUnderstood(errors.New("too many calls"))
		}
		i = len(l.calls)
		l.calls, l.last[d.Index] = append(l.calls, chatCall{}), i
	}
	c := &l.calls[i]
	if c.id == "" {
		c.id = d.ID
	}
	if len(c.name)+len(d.Function.Name) <= maxCallID && c.name != d.Function.Name {
		c.name += d.Function.Name
	}
	var text string
	switch raw := d.Function.Arguments; {
	case json.Unmarshal(raw, &text) == nil:
		c.arguments = append(c.arguments, text...)
	case len(raw) > 0 && raw[0] == '{': // some servers forget to write it as a text
		c.arguments = append(c.arguments, raw...)
	}
	return nil
}

func (l *chatListener) answer() (reply, error) {
	if l.reason == "" {
		return reply{usage: l.usage}, cut()
	}
	a := reply{why: l.reason, usage: l.usage, stop: map[string]stop{
		"stop": stopEnd, "eos": stopEnd, "end_turn": stopEnd, "tool_calls": stopTools, "function_call": stopTools,
		"length": stopLength, "content_filter": stopRefused,
	}[l.reason]}
	if len(l.refusal) > 0 && len(l.calls) == 0 {
		a.stop, a.why = stopRefused, string(l.refusal)
	}
	if len(l.text) > 0 {
		a.blocks = append(a.blocks, block{kind: said, text: string(l.text)})
	}
	for _, c := range l.calls {
		b := block{kind: called, id: c.id, name: c.name}
		b.takeInput(c.arguments, a.stop == stopLength)
		a.blocks = append(a.blocks, b)
	}
	return a, nil
}
