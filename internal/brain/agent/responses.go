//go:build linux

package agent

import (
	"encoding/json"
	"errors"

	"github.com/nacre-dev/nacre/internal/brain"
)

// responses speaks OpenAI's Responses. Nothing is kept at the vendor, so what
// a model thought is not carried from one answer to the next.
type responses struct{ chat }

func (responses) path() string { return "/v1/responses" }

func (responses) request(c *conversation) ([]byte, error) {
	var sent []object
	for _, m := range c.messages {
		for _, b := range m.blocks {
			if item := responsesItem(m.role, b); item != nil {
				sent = append(sent, item)
			}
		}
	}
	tools := make([]object, 0, len(c.tools))
	for _, t := range c.tools {
		tools = append(tools, object{"type": "function", "name": t.name, "description": t.description, "parameters": t.schema, "strict": false})
	}
	return encode(object{"model": c.model, "stream": true, "store": false, "instructions": c.system, "input": sent, "tools": tools})
}

// responsesItem is a block as an item without an id of the vendor's, since
// those refer to what it holds.
func responsesItem(from role, b block) object {
	switch b.kind {
	case called:
		return object{"type": "function_call", "call_id": b.id, "name": b.sentName(), "arguments": string(b.input)}
	case result:
		text := b.text
		if b.failed {
			text = "error: " + text
		}
		return object{"type": "function_call_output", "call_id": b.id, "output": text}
	case said:
		return object{"type": "message", "role": [...]string{"user", "assistant"}[from], "content": b.text}
	}
	return nil
}

func (responses) listen() listener { return &responsesListener{} }

// responsesListener takes the items when each is whole.
type responsesListener struct {
	items   []responsesOutput
	status  string
	reason  string
	refusal string
	usage   brain.Usage
}

type responsesOutput struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

type responsesEvent struct {
	Type string `json:"type"`
	// Item is read for whole items only.
	Item     json.RawMessage `json:"item"`
	Response struct {
		Error   vendorError `json:"error"`
		Details struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Usage struct {
			In      int64 `json:"input_tokens"`
			Out     int64 `json:"output_tokens"`
			Details struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"input_tokens_details"`
		} `json:"usage"`
	} `json:"response"`
	// Code and Message are those of an event that is an error.
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (l *responsesListener) hear(data []byte) error {
	if string(data) == "[DONE]" {
		return nil
	}
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return notUnderstood(err)
	}
	switch e.Type {
	case "response.output_item.done":
		var item responsesOutput
		if err := json.Unmarshal(e.Item, &item); err != nil {
			return notUnderstood(err)
		}
		if l.items = append(l.items, item); len(l.items) > maxParts {
			return notUnderstood(errors.New("too many items"))
		}
	case "response.completed", "response.incomplete":
		u := e.Response.Usage
		cached := min(max(u.Details.Cached, 0), max(u.In, 0))
		l.status, l.reason = e.Type, e.Response.Details.Reason
		l.usage = brain.Usage{In: max(u.In, 0) - cached, Out: max(u.Out, 0), CacheRead: cached}
	case "response.failed":
		return e.Response.Error.fault(0)
	case "error":
		return vendorError{Code: e.Code, Message: e.Message}.fault(0)
	}
	return nil
}

func (l *responsesListener) answer() (reply, error) {
	a := reply{stop: stopEnd, why: l.reason, usage: l.usage}
	switch l.status {
	case "":
		return a, cut()
	case "response.incomplete":
		a.stop = map[string]stop{"max_output_tokens": stopLength, "content_filter": stopRefused}[l.reason]
	}
	calls := 0
	for _, item := range l.items {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				l.refusal += part.Refusal
				a.blocks = append(a.blocks, block{kind: said, text: part.Text})
			}
		case "function_call":
			b := block{kind: called, id: item.CallID, name: item.Name}
			b.takeInput([]byte(item.Arguments), a.stop == stopLength)
			a.blocks = append(a.blocks, b)
			calls++
		}
	}
	if l.refusal != "" && calls == 0 {
		a.stop, a.why = stopRefused, l.refusal
	}
	return a, nil
}
