package scriptedmodel

import (
	"encoding/json"
	"fmt"
)

// responses is OpenAI's Responses.
type responses struct{}

// item is one element of an input; a short message has no type.
type item struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Status  string          `json:"status"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
	Tools   []offered       `json:"tools"`
}

// read counts neighbouring items of the model as one answer, and neighbouring
// results of tools as one message.
func (responses) read(body []byte) (asked, error) {
	var sent struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Instructions json.RawMessage `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Tools        []offered       `json:"tools"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return asked{}, err
	}
	a := asked{model: sent.Model, stream: sent.Stream, tools: map[string]string{}}
	a.add("system", sent.Instructions)
	var items []item
	if json.Unmarshal(sent.Input, &items) != nil {
		a.add("user", sent.Input)
	}
	for _, i := range items {
		switch i.Type {
		case "", "message":
			a.add(i.Role, i.Content)
		case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output":
			a.result(i.Output, i.Status == "failed" || i.Status == "incomplete")
		case "additional_tools":
			sent.Tools = append(sent.Tools, i.Tools...)
		default:
			a.add("assistant", i.Content)
		}
	}
	for _, t := range sent.Tools {
		t.into(a.tools)
	}
	a.spaces = spaces(sent.Tools)
	return a, nil
}

// spaces are the namespaces of the tools on offer, by name.
func spaces(tools []offered) map[string]string {
	named := map[string]string{}
	for _, t := range tools {
		for _, inner := range t.Tools {
			named[inner.Name] = t.Name
		}
	}
	return named
}

// offered is a tool in either of OpenAI's dialects.
type offered struct {
	Type     string    `json:"type"`
	Name     string    `json:"name"`
	Tools    []offered `json:"tools"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
	Custom struct {
		Name string `json:"name"`
	} `json:"custom"`
}

// into adds the tool by its name; one without a name is named as its type.
func (t offered) into(tools map[string]string) {
	for _, inner := range t.Tools {
		inner.into(tools)
	}
	for _, name := range []string{t.Name, t.Function.Name, t.Custom.Name, t.Type} {
		if name != "" {
			tools[name] = t.Type
			return
		}
	}
}

// said is one item of an answer, and the events that carry its text.
type said struct {
	begun, whole object
	deltas       []object
}

// items are the answer's items.
func (t Turn) items(a asked) []said {
	var all []said
	if t.Thinking != "" {
		id := fmt.Sprintf("rs_%d", a.turn())
		all = append(all, said{
			object{"type": "reasoning", "id": id, "summary": []object{}},
			object{"type": "reasoning", "id": id, "summary": []object{{"type": "summary_text", "text": t.Thinking}}, "encrypted_content": "c2NyaXB0ZWQ="},
			[]object{
				{"type": "response.reasoning_summary_part.added", "summary_index": 0, "item_id": id, "part": object{"type": "summary_text", "text": ""}},
				{"type": "response.reasoning_summary_text.delta", "summary_index": 0, "item_id": id, "delta": t.Thinking},
				{"type": "response.reasoning_summary_text.done", "summary_index": 0, "item_id": id, "text": t.Thinking},
				{"type": "response.reasoning_summary_part.done", "summary_index": 0, "item_id": id, "part": object{"type": "summary_text", "text": t.Thinking}},
			},
		})
	}
	if text := t.text(); text != "" {
		id := fmt.Sprintf("msg_%d", a.turn())
		message := func(status string, content ...object) object {
			return object{"type": "message", "id": id, "role": "assistant", "status": status, "content": append([]object{}, content...)}
		}
		part := object{"type": "output_text", "text": text, "annotations": []object{}}
		all = append(all, said{message("in_progress"), message("completed", part), []object{
			{"type": "response.content_part.added", "item_id": id, "content_index": 0, "part": object{"type": "output_text", "text": "", "annotations": []object{}}},
			{"type": "response.output_text.delta", "item_id": id, "content_index": 0, "delta": text},
			{"type": "response.output_text.done", "item_id": id, "content_index": 0, "text": text},
			{"type": "response.content_part.done", "item_id": id, "content_index": 0, "part": part},
		}})
	}
	for i, tool := range t.Tools {
		all = append(all, tool.item(a, i))
	}
	return all
}

// item is a call of the type under which the tool was offered.
func (t Tool) item(a asked, place int) said {
	id, call := fmt.Sprintf("fc_%d_%d", a.turn(), place), fmt.Sprintf("call_%d_%d", a.turn(), place)
	form := func(kind, key, status string, value any) object {
		o := object{"type": kind, "id": id, "call_id": call, "name": t.Name, key: value, "status": status}
		if space := a.spaces[t.Name]; space != "" {
			o["namespace"] = space
		}
		return o
	}
	switch a.tools[t.Name] {
	case "custom":
		input := t.freeform()
		return said{form("custom_tool_call", "input", "in_progress", ""), form("custom_tool_call", "input", "completed", input), []object{
			{"type": "response.custom_tool_call_input.delta", "item_id": id, "delta": input},
			{"type": "response.custom_tool_call_input.done", "item_id": id, "input": input},
		}}
	case "local_shell":
		whole := object{"type": "local_shell_call", "id": id, "call_id": call, "action": json.RawMessage(t.arguments()), "status": "completed"}
		return said{whole, whole, nil}
	}
	input := t.arguments()
	return said{form("function_call", "arguments", "in_progress", ""), form("function_call", "arguments", "completed", input), []object{
		{"type": "response.function_call_arguments.delta", "item_id": id, "delta": input},
		{"type": "response.function_call_arguments.done", "item_id": id, "arguments": input},
	}}
}

// arguments are the tool's input as text, as it is sent.
func (t Tool) arguments() string {
	switch {
	case t.Raw != "":
		return t.Raw
	case t.Input == nil:
		return "{}"
	}
	return string(t.Input)
}

// freeform is the input of a tool that takes text.
func (t Tool) freeform() string {
	var s string
	if json.Unmarshal(t.Input, &s) == nil {
		return s
	}
	return t.arguments()
}

// status is how the answer ended, in the words of Responses.
func (t Turn) status() (status string, details any) {
	if t.Stop == "max_tokens" {
		return "incomplete", object{"reason": "max_output_tokens"}
	}
	return "completed", nil
}

func (responses) whole(t Turn, a asked) object {
	status, details := t.status()
	output := []object{}
	for _, i := range t.items(a) {
		output = append(output, i.whole)
	}
	return object{
		"id": fmt.Sprintf("resp_%d", a.turn()), "object": "response", "created_at": 0, "status": status, "incomplete_details": details,
		"error": nil, "model": a.model, "output": output, "parallel_tool_calls": true, "store": false, "usage": t.responsesUsage(),
	}
}

func (t Turn) responsesUsage() any {
	if t.Fault != nil && t.Fault.NoUsage {
		return nil
	}
	u := t.usage()
	in := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"input_tokens": in, "input_tokens_details": object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": in + u.Output,
	}
}

func (d responses) events(t Turn, a asked) []event {
	begun := d.whole(t, a)
	begun["status"], begun["output"], begun["usage"], begun["incomplete_details"] = "in_progress", []object{}, nil, nil
	all := []object{{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}}
	for i, s := range t.items(a) {
		all = append(all, object{"type": "response.output_item.added", "output_index": i, "item": s.begun})
		for _, delta := range s.deltas {
			delta["output_index"] = i
			all = append(all, delta)
		}
		all = append(all, object{"type": "response.output_item.done", "output_index": i, "item": s.whole})
	}
	status, _ := t.status()
	all = append(all, object{"type": "response." + status, "response": d.whole(t, a)})
	var events []event
	for i, o := range all {
		o["sequence_number"] = i
		events = append(events, event{o["type"].(string), o})
	}
	return events
}

func (responses) fault(status int, message string) object { return openaiFault(status, message) }

func (responses) tooLong() object { return openaiTooLong() }

func (responses) breakOff() event {
	return event{"response.failed", object{"type": "response.failed", "response": object{
		"object": "response", "status": "failed", "error": object{"code": "server_error", "message": scriptedFault},
	}}}
}
