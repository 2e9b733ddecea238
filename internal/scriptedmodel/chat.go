package scriptedmodel

import (
	"encoding/json"
	"fmt"
)

// chat is OpenAI's Chat Completions.
type chat struct{}

// read counts neighbouring messages of the assistant as one answer, and
// neighbouring results of tools as one message.
func (chat) read(body []byte) (asked, error) {
	var sent struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools         []offered `json:"tools"`
		StreamOptions struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return asked{}, err
	}
	a := asked{model: sent.Model, stream: sent.Stream, usage: sent.StreamOptions.Usage, tools: map[string]string{}}
	for _, m := range sent.Messages {
		if m.Role == "tool" || m.Role == "function" {
			a.result(m.Content, false)
		} else {
			a.add(m.Role, m.Content)
		}
	}
	for _, t := range sent.Tools {
		t.into(a.tools)
	}
	return a, nil
}

// call is a tool's call as a message holds it.
func (t Tool) call(a asked, place int) object {
	id := fmt.Sprintf("call_%d_%d", a.turn(), place)
	if a.tools[t.Name] == "custom" {
		return object{"id": id, "type": "custom", "custom": object{"name": t.Name, "input": t.freeform()}}
	}
	return object{"id": id, "type": "function", "function": object{"name": t.Name, "arguments": t.arguments()}}
}

// finish is how the answer ended, in the words of Chat.
func (t Turn) finish() string {
	switch stop := t.stop(); stop {
	case "end_turn":
		return "stop"
	case "tool_use":
		return "tool_calls"
	case "max_tokens":
		return "length"
	default:
		return stop
	}
}

func (t Turn) chatUsage() any {
	if t.Fault != nil && t.Fault.NoUsage {
		return nil
	}
	u := t.usage()
	in := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"prompt_tokens": in, "prompt_tokens_details": object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"completion_tokens": u.Output, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": in + u.Output,
	}
}

func (chat) whole(t Turn, a asked) object {
	message := object{"role": "assistant", "content": nil, "refusal": nil}
	if text := t.text(); text != "" {
		message["content"] = text
	}
	if t.Thinking != "" {
		message["reasoning_content"] = t.Thinking
	}
	var calls []object
	for i, tool := range t.Tools {
		calls = append(calls, tool.call(a, i))
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return object{
		"id": fmt.Sprintf("chatcmpl-%d", a.turn()), "object": "chat.completion", "created": 0, "model": a.model, "usage": t.chatUsage(),
		"choices": []object{{"index": 0, "message": message, "finish_reason": t.finish()}},
	}
}

func (chat) events(t Turn, a asked) []event {
	var events []event
	chunk := func(choices []object, usage any) {
		o := object{"id": fmt.Sprintf("chatcmpl-%d", a.turn()), "object": "chat.completion.chunk", "created": 0, "model": a.model, "choices": choices}
		if a.usage {
			o["usage"] = usage
		}
		events = append(events, event{"", o})
	}
	delta := func(d object, finish any) { chunk([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil) }
	delta(object{"role": "assistant", "content": ""}, nil)
	if t.Thinking != "" {
		delta(object{"reasoning_content": t.Thinking}, nil)
	}
	if text := t.text(); text != "" {
		delta(object{"content": text}, nil)
	}
	for i, tool := range t.Tools {
		call := tool.call(a, i)
		call["index"] = i
		delta(object{"tool_calls": []object{call}}, nil)
	}
	delta(object{}, t.finish())
	if a.usage {
		chunk([]object{}, t.chatUsage())
	}
	return append(events, event{"", json.RawMessage("[DONE]")})
}

func (chat) fault(status int, message string) object { return openaiFault(status, message) }

func (chat) tooLong() object { return openaiTooLong() }

func (chat) breakOff() event {
	return event{"", object{"error": object{"type": "server_error", "message": scriptedFault, "param": nil, "code": nil}}}
}
