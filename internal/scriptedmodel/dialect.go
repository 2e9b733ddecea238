package scriptedmodel

import (
	"encoding/json"
	"net/http"
)

// dialect is one vendor's form of a conversation.
type dialect interface {
	// read takes a request apart.
	read(body []byte) (asked, error)
	// whole is an answer as one JSON object.
	whole(t Turn, a asked) object
	// events are an answer as server-sent events.
	events(t Turn, a asked) []event
	// fault is an error body for a status.
	fault(status int, message string) object
	// tooLong is the error body for a conversation that the model cannot read.
	tooLong() object
	// breakOff is the event of an error in a stream.
	breakOff() event
}

// event is one server-sent event; with no name only its data is sent.
type event struct {
	name string
	data any
}

// dialects are the paths that are answered.
func dialects(path string) (dialect, bool) {
	switch path {
	case "/v1/messages", "/v1/messages/count_tokens":
		return messages{}, true
	case "/v1/responses", "/backend-api/codex/responses": // the second for a login
		return responses{}, true
	case "/v1/chat/completions":
		return chat{}, true
	}
	return messages{}, false
}

// object is a JSON object.
type object = map[string]any

// messages is Anthropic's Messages.
type messages struct{}

// read counts as one answer what neighbouring messages of the assistant say.
func (messages) read(body []byte) (asked, error) {
	var sent struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return asked{}, err
	}
	a := asked{model: sent.Model, stream: sent.Stream, tools: map[string]string{}}
	a.add("system", sent.System)
	for _, m := range sent.Messages {
		a.add(m.Role, m.Content)
	}
	for _, t := range sent.Tools {
		a.tools[t.Name] = "custom"
	}
	return a, nil
}

func (messages) fault(status int, message string) object {
	kind := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 529: "overloaded_error",
	}[status]
	if kind == "" {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}

func (messages) tooLong() object {
	return object{"type": "error", "error": object{"type": "invalid_request_error", "message": "prompt is too long: 250000 tokens > 200000 maximum"}}
}

func (messages) breakOff() event {
	return event{"error", object{"type": "error", "error": object{"type": "overloaded_error", "message": scriptedFault}}}
}

// openaiFault is the error body of both of OpenAI's dialects.
func openaiFault(status int, message string) object {
	kind := map[int]string{401: "authentication_error", 429: "requests"}[status]
	switch {
	case kind != "":
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	default:
		kind = "invalid_request_error"
	}
	return object{"error": object{"type": kind, "message": message, "param": nil, "code": nil}}
}

// openaiTooLong is the error of both of OpenAI's dialects for a conversation
// that the model cannot read.
func openaiTooLong() object {
	return object{"error": object{
		"type": "invalid_request_error", "code": "context_length_exceeded", "param": "input",
		"message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
	}}
}
