package toolformat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/wire"
)

// Call is one tool call of a response.
type Call struct {
	// ID is the provider's, to which the answer is addressed; empty where it
	// could not be read. For MCP it is the request's id as written.
	ID         string
	Capability nacre.CapabilityID
	// Arguments are an object, read strictly, without the justification.
	Arguments json.RawMessage
	// Justification is the model's own: recorded, never counted (K-22).
	Justification string
	// Err says why the call cannot be carried out; the model may be told.
	Err error
}

// limits are those of the door, for a response as large as models' responses get.
func limits() wire.Limits { return wire.Limits{Message: MaxResponse, String: MaxResponse} }

// Parse finds the tool calls in a response, in order: a whole body, a list of its parts, or one of
// them. Parts that are no calls are skipped. A call that cannot be read is returned with its Err. A
// body that cannot be read, or with more than MaxCalls, is an error, and nothing of it may be
// carried out.
func (f *Format) Parse(body []byte) ([]Call, error) {
	parts, err := f.parts(body)
	if err != nil {
		return nil, fmt.Errorf("response: %w", err)
	}
	var calls []Call
	seen := map[string]bool{}
	for _, part := range parts {
		call, is := f.part(part)
		if !is {
			continue
		}
		if len(calls) == MaxCalls {
			return nil, fmt.Errorf("response: more than %d tool calls", MaxCalls)
		}
		if call.ID != "" && seen[call.ID] {
			call.ID, call.Err = "", errors.New("an earlier call has this id")
		}
		seen[call.ID] = true
		calls = append(calls, call)
	}
	return calls, nil
}

// object is a JSON object as written.
type object map[string]json.RawMessage

func readObject(raw []byte) (object, error) {
	members, err := wire.Object(raw, limits())
	if err != nil {
		return nil, err
	}
	o := make(object, len(members))
	for _, m := range members {
		o[m.Key] = m.Value
	}
	return o, nil
}

// parts are the elements of a response among which calls may be.
func (f *Format) parts(body []byte) ([]json.RawMessage, error) {
	if err := wire.Check(body, limits()); err != nil {
		return nil, err
	}
	if bytes.TrimSpace(body)[0] == '[' {
		return elements(body)
	}
	o, err := readObject(body)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"output", "content", "tool_calls"} {
		if list := o[key]; len(list) > 0 && list[0] == '[' && f.holds(key) {
			return elements(list)
		}
	}
	if choices := o["choices"]; choices != nil && f.provider == OpenAIChat {
		return choiceOf(choices)
	}
	return []json.RawMessage{body}, nil
}

// holds reports whether the provider's calls are under a key.
func (f *Format) holds(key string) bool {
	switch f.provider {
	case OpenAIResponses:
		return key == "output"
	case OpenAIChat:
		return key == "tool_calls"
	case Anthropic:
		return key == "content"
	default:
		return false
	}
}

func elements(raw []byte) ([]json.RawMessage, error) {
	var list []json.RawMessage
	err := json.Unmarshal(raw, &list)
	return list, err
}

// choiceOf takes the calls of the one choice; among several nobody has chosen.
func choiceOf(raw []byte) ([]json.RawMessage, error) {
	choices, err := elements(raw)
	if err != nil || len(choices) != 1 {
		return nil, fmt.Errorf("%d choices: ask for one", len(choices))
	}
	choice, err := readObject(choices[0])
	if err != nil {
		return nil, err
	}
	message, err := readObject(choice["message"])
	if err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	if calls := message["tool_calls"]; len(calls) > 0 && calls[0] == '[' {
		return elements(calls)
	}
	return nil, nil
}

// part reads one element; is reports whether it is a call at all.
func (f *Format) part(raw json.RawMessage) (call Call, is bool) {
	o, err := readObject(raw)
	if err != nil {
		return Call{Err: errors.New("not an object")}, true
	}
	kind, _ := wire.Text(o["type"])
	switch f.provider {
	case Anthropic:
		if kind != "tool_use" {
			return Call{}, false
		}
		return f.call(o["id"], o["name"], o["input"]), true
	case MCP:
		return f.requestCall(o)
	case OpenAIChat, OpenAIResponses: // some send the one's form for the other's
	}
	if function := o["function"]; function != nil && (kind == "function" || kind == "") {
		inner, err := readObject(function)
		if err != nil {
			inner = object{} // a call without a name
		}
		return f.call(o["id"], inner["name"], inner["arguments"]), true
	}
	if kind != "function_call" {
		return Call{}, false
	}
	return f.call(o["call_id"], o["name"], o["arguments"]), true
}

// requestCall reads a JSON-RPC request of tools/call.
func (f *Format) requestCall(o object) (call Call, is bool) {
	if method, _ := wire.Text(o["method"]); method != "tools/call" {
		return Call{}, false
	}
	params, err := readObject(o["params"])
	if err != nil {
		params = object{} // a call without a name
	}
	id := o["id"]
	call = f.call(nil, params["name"], params["arguments"])
	text, isText := wire.Text(id)
	if len(id) == 0 || len(id) > maxCallID || isText && text == "" || strings.ContainsRune("{[ntf", rune(id[0])) {
		call.Err = errors.New("the request has no usable id")
		return call, true
	}
	call.ID = string(id)
	return call, true
}

// call reads what every provider's calls are made of.
func (f *Format) call(id, name, arguments json.RawMessage) (c Call) {
	c.Arguments = json.RawMessage("{}")
	if f.provider != MCP {
		text, ok := wire.Text(id)
		if !ok || text == "" || len(text) > maxCallID || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			c.Err = errors.New("the call has no usable id")
		} else {
			c.ID = text
		}
	}
	named, ok := wire.Text(name)
	if !ok || named == "" || len(named) > maxMCPName || strings.ContainsFunc(named, notOfName) {
		c.Err = errors.Join(c.Err, errors.New("the call has no usable name"))
		return c
	}
	c.Capability = f.provider.capability(named)
	read, why, err := readArguments(arguments)
	if err != nil {
		c.Err = errors.Join(c.Err, err)
		return c
	}
	c.Arguments, c.Justification = read, why
	return c
}

// readArguments reads an object, or the text of one, and takes the model's
// justification out of it. Nothing at all stands for {}.
func readArguments(raw json.RawMessage) (arguments json.RawMessage, why string, err error) {
	if text, ok := wire.Text(raw); ok {
		raw = json.RawMessage(strings.TrimSpace(text))
	}
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), "", nil
	}
	members, err := wire.Object(raw, wire.Limits{})
	if err != nil {
		return nil, "", fmt.Errorf("arguments: %w", err)
	}
	made := []byte{'{'}
	for _, m := range members {
		if m.Key == justification {
			text, ok := wire.Text(m.Value)
			if !ok {
				return nil, "", fmt.Errorf("arguments: %s must be a string", justification)
			}
			why = text
			continue
		}
		if len(made) > 1 {
			made = append(made, ',')
		}
		made = append(append(wire.AppendText(made, m.Key), ':'), m.Value...)
	}
	return append(made, '}'), why, nil
}
