package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/nacre-dev/nacre"
)

// chat speaks OpenAI's Chat Completions, and so what Ollama, LM Studio, vLLM and most others speak.
type chat struct{}

// chatCall is a call of Chat Completions while it is checked.
type chatCall struct{ *request }

// field checks one top-level field: what is not named here is refused.
func (chat) field(r *request, key string, value json.RawMessage) error {
	c := chatCall{r}
	if known, err := r.openaiField(key, value); known {
		return err
	}
	switch key {
	case "messages":
		return c.checkChatMessages(value)
	case "max_tokens", "max_completion_tokens":
		if isNull(value) {
			return nil
		}
		return r.setMaxTokens(key, value)
	case "tools":
		return c.checkChatTools(value)
	case "tool_choice":
		return r.checkChoice(value)
	case "functions":
		return c.checkFunctions(value)
	case "function_call":
		return checkCallChoice(value)
	case "n":
		if isNull(value) || string(value) == "1" {
			return nil
		}
		return refuse(ReasonField, "n: one answer a call")
	case "web_search_options":
		return c.checkSearchOptions(value)
	case "modalities":
		return checkModalities(value)
	case "stream_options":
		return c.checkStreamOptions(value)
	case "response_format", "logit_bias", "stop":
		return nil // a schema, numbers and texts for the model
	case "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "seed", "logprobs", "reasoning_effort", "verbosity":
		return checkScalar(value)
	case "audio", "prediction":
		return mustBeNull(key, value)
	}
	return unknownField(key)
}

// checkSearchOptions accepts that a model of the vendor's searches before it
// answers, if that is granted.
func (c chatCall) checkSearchOptions(value json.RawMessage) error {
	if !c.granted(webSearch) {
		return refuse(ReasonVendorTool, "web_search_options is refused: the operator has not granted web_search (vendor_tools)")
	}
	c.uses(1, searchResultTokens, openaiSearch)
	c.certain = 1
	return checkFields(value, "web_search_options", "search_context_size", "user_location")
}

func checkModalities(value json.RawMessage) error {
	wanted, err := array(value)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if err := oneOf(w, "text"); err != nil {
			return err
		}
	}
	return nil
}

func (c chatCall) checkStreamOptions(value json.RawMessage) error {
	fields, err := object(value)
	if err != nil {
		return err
	}
	c.usageAsked = string(fields["include_usage"]) == "true"
	for _, v := range fields {
		if s := string(v); s != "true" && s != "false" && s != "null" {
			return errors.New("want true or false")
		}
	}
	return onlyFields(fields, "stream_options", "include_usage", "include_obfuscation")
}

// checkCallChoice accepts the old form of tool_choice.
func checkCallChoice(value json.RawMessage) error {
	if isText(value) || isNull(value) {
		return nil
	}
	return checkFields(value, "function_call", "name")
}

func (chat) finish(r *request, u *Upstream) {
	field := r.maxField
	switch {
	case field != "":
	case u.wantsMaxTokens():
		field = "max_tokens"
	default:
		field = "max_completion_tokens"
	}
	r.drop("max_tokens")
	r.drop("max_completion_tokens")
	r.set(field, json.RawMessage(strconv.FormatInt(r.maxTokens, 10)))
	r.drop("client_metadata")
	if u.Compatible {
		r.drop("store")
	} else {
		r.set("store", json.RawMessage("false")) // it is true for some accounts where it is not set
	}
	if r.stream && !r.usageAsked {
		r.set("stream_options", json.RawMessage(`{"include_usage":true}`))
	}
}

func (chat) header(out, in http.Header, key nacre.Secret, _ allowed) dropped {
	return openaiHeader(out, in, key)
}

// chatFields are the fields of a message. Clients send an answer back as they
// got it, so there are fields that must be empty.
var chatFields = []string{
	"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning", "reasoning_content", "annotations", "audio",
}

func (c chatCall) checkChatMessages(value json.RawMessage) error {
	messages, err := array(value)
	if err != nil {
		return err
	}
	c.messages = len(messages)
	for _, m := range messages {
		fields, err := object(m)
		if err != nil {
			return err
		}
		if err := c.checkChatMessage(fields); err != nil {
			return err
		}
	}
	return nil
}

func (c chatCall) checkChatMessage(fields map[string]json.RawMessage) error {
	if err := onlyFields(fields, "message", chatFields...); err != nil {
		return err
	}
	if err := oneOf(fields["role"], "system", "developer", "user", "assistant", "tool", "function"); err != nil {
		return err
	}
	if err := checkTexts(fields, "name", "tool_call_id", "refusal", "reasoning", "reasoning_content"); err != nil {
		return err
	}
	if v, ok := fields["audio"]; ok && !isNull(v) {
		return refuse(ReasonRemoteSource, "audio is refused: it names what the vendor holds")
	}
	if err := c.checkAnnotations(fields["annotations"], "message"); err != nil {
		return err
	}
	if call, ok := fields["function_call"]; ok {
		if err := checkFields(call, "function_call", "name", "arguments"); err != nil {
			return err
		}
	}
	if err := checkToolCalls(fields["tool_calls"]); err != nil {
		return err
	}
	return c.checkChatContent(fields["content"])
}

func checkToolCalls(value json.RawMessage) error {
	calls, err := array(value)
	if err != nil {
		return err
	}
	for _, c := range calls {
		fields, err := object(c)
		if err != nil {
			return err
		}
		if kind, _ := text(fields["type"]); kind != "function" && kind != "custom" {
			return refuse(ReasonContentBlock, "tool call %.64q: not on the gateway's list", kind)
		}
		if err := onlyFields(fields, "tool_calls", "id", "type", "function", "custom", "index"); err != nil {
			return err
		}
		for _, key := range []string{"function", "custom"} {
			if inner, ok := fields[key]; ok {
				if err := checkFields(inner, key, "name", "arguments", "input"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkChatContent accepts a text, or parts that are on the list.
func (c chatCall) checkChatContent(value json.RawMessage) error {
	if isText(value) {
		return nil
	}
	parts, err := array(value)
	if err != nil {
		return errors.New("want a text or parts")
	}
	for _, p := range parts {
		fields, err := object(p)
		if err != nil {
			return err
		}
		if err := c.checkChatPart(fields); err != nil {
			return err
		}
	}
	return nil
}

func (c chatCall) checkChatPart(fields map[string]json.RawMessage) error {
	switch kind, _ := text(fields["type"]); kind {
	case "text", "refusal":
		if err := checkTexts(fields, "text", "refusal"); err != nil {
			return err
		}
		return onlyFields(fields, kind, "type", "text", "refusal")
	case "image_url":
		image, err := object(fields["image_url"])
		if err != nil {
			return err
		}
		if err := onlyFields(image, "image_url", "url", "detail"); err != nil {
			return err
		}
		if err := onlyFields(fields, "image", "type", "image_url"); err != nil {
			return err
		}
		return c.imageURL(image["url"])
	case "file", "input_file":
		return refuse(ReasonRemoteSource, "a file is refused: send its text")
	default:
		return refuse(ReasonContentBlock, "part %.64q: not on the gateway's list", kind)
	}
}

func (c chatCall) checkChatTools(value json.RawMessage) error {
	tools, err := array(value)
	if err != nil {
		return err
	}
	for _, t := range tools {
		fields, err := object(t)
		if err != nil {
			return err
		}
		kind, _ := text(fields["type"])
		if kind != "function" && kind != "custom" {
			return refuse(ReasonVendorTool, "the tool type %.64q is refused: only the client's own tools may be used", kind)
		}
		if err := onlyFields(fields, "tool", "type", kind); err != nil {
			return err
		}
		if err := c.checkChatTool(fields[kind]); err != nil {
			return err
		}
	}
	return nil
}

// checkChatTool accepts the definition of a function or of a freeform tool.
func (c chatCall) checkChatTool(value json.RawMessage) error {
	c.tools++
	fields, err := object(value)
	if err != nil {
		return err
	}
	if err := checkToolName(fields); err != nil {
		return err
	}
	if format, ok := fields["format"]; ok {
		if err := checkFormat(format); err != nil {
			return err
		}
	}
	return onlyFields(fields, "tool", "name", "description", "parameters", "strict", "format")
}

// checkFunctions accepts the old form of tools.
func (c chatCall) checkFunctions(value json.RawMessage) error {
	functions, err := array(value)
	if err != nil {
		return err
	}
	for _, f := range functions {
		if err := c.checkChatTool(f); err != nil {
			return err
		}
	}
	return nil
}

// chatEvent is the part of a stream's chunk, or of a whole answer, that is metered.
type chatEvent struct {
	Error   json.RawMessage `json:"error"`
	Usage   *openaiUsage    `json:"usage"`
	Choices []struct {
		Delta   chatText `json:"delta"`
		Message chatText `json:"message"`
	} `json:"choices"`
}

type chatText struct {
	Content   said `json:"content"`
	ToolCalls []struct {
		Function struct {
			Arguments said `json:"arguments"`
		} `json:"function"`
		Custom struct {
			Input said `json:"input"`
		} `json:"custom"`
	} `json:"tool_calls"`
}

func (t chatText) size() int {
	n := int(t.Content)
	for _, c := range t.ToolCalls {
		n += int(c.Function.Arguments + c.Custom.Input)
	}
	return n
}

func (chat) read(data []byte, m *meter) {
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		m.ended = true
		return
	}
	var e chatEvent
	if json.Unmarshal(data, &e) != nil {
		m.unread = true
		return
	}
	if len(e.Error) > 0 && !isNull(e.Error) {
		m.wrong = true
		return
	}
	e.Usage.into(m)
	for _, c := range e.Choices {
		m.text += c.Delta.size() + c.Message.size()
	}
	m.withhold = m.quiet && len(e.Choices) == 0 && e.Usage != nil
}
