package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP answers POST /v1/messages and /v1/messages/count_tokens.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		apiError(w, http.StatusRequestEntityTooLarge, "request_too_large", "the body could not be read")
		return
	}
	s.mu.Lock()
	if len(s.requests) < maxKept {
		s.requests = append(s.requests, Request{r.URL.Path, r.Header.Clone(), body})
	}
	s.mu.Unlock()
	s.inspect(r, body)
	var a asked
	switch {
	case r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/v1/messages"):
		s.fail("%s %s is not of the Messages API", r.Method, r.URL.Path)
		apiError(w, http.StatusNotFound, "not_found_error", "no such path")
	case json.Unmarshal(body, &a) != nil:
		s.fail("the body is not JSON")
		apiError(w, http.StatusBadRequest, "invalid_request_error", "the body is not JSON")
	case r.URL.Path == "/v1/messages/count_tokens":
		writeJSON(w, map[string]any{"input_tokens": len(body) / 4})
	default:
		s.play(w, r, a)
	}
}

func (s *Server) play(w http.ResponseWriter, r *http.Request, a asked) {
	turn, name, ok := s.choose(r.URL.Path, a)
	if !ok {
		s.fail("%s: the script has no such turn", name)
		turn = Turn{Text: "The script has ended."}
	}
	s.check(name, turn.Expect, a)
	f := turn.Fault
	if f == nil {
		f = &Fault{}
	}
	if f.Hang {
		<-r.Context().Done()
		return
	}
	if f.Status != 0 && s.faulty(name, f.Times) {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		kind := map[int]string{401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}[f.Status]
		if kind == "" {
			kind = "api_error"
		}
		apiError(w, f.Status, kind, "scripted fault")
		return
	}
	if a.Stream {
		if f.CutAfter > 0 && !s.faulty(name, f.Times) {
			f = &Fault{}
		}
		stream(w, r, f, turn.events(a))
		return
	}
	writeJSON(w, turn.message(a))
}

// faulty counts a turn's faults, and reports whether this one is still due.
func (s *Server) faulty(name string, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[name]++
	return times == 0 || s.faults[name] <= times
}

// object is a JSON object.
type object = map[string]any

func (t Turn) usage() Usage {
	if t.Usage != nil {
		return *t.Usage
	}
	return Usage{Input: 10, Output: 5}
}

func (t Turn) stop() string {
	switch {
	case t.Stop != "":
		return t.Stop
	case len(t.Tools) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (t Turn) text() string {
	if t.Fault != nil && t.Fault.Huge > 0 {
		return t.Text + strings.Repeat("x", t.Fault.Huge)
	}
	return t.Text
}

// part is one content block, begun empty and then filled by a delta.
type part struct {
	begin, delta object
	whole        object
}

func (t Turn) parts(a asked) []part {
	var parts []part
	if t.Thinking != "" {
		parts = append(parts, part{
			object{"type": "thinking", "thinking": "", "signature": ""},
			object{"type": "thinking_delta", "thinking": t.Thinking},
			object{"type": "thinking", "thinking": t.Thinking, "signature": "c2NyaXB0ZWQ="},
		})
	}
	if text := t.text(); text != "" {
		parts = append(parts, part{
			object{"type": "text", "text": ""}, object{"type": "text_delta", "text": text}, object{"type": "text", "text": text},
		})
	}
	for i, tool := range t.Tools {
		id := fmt.Sprintf("toolu_%d_%d", a.turn(), i)
		input := tool.Input
		if input == nil {
			input = json.RawMessage("{}")
		}
		raw := tool.Raw
		if raw == "" {
			raw = string(input)
		}
		parts = append(parts, part{
			object{"type": "tool_use", "id": id, "name": tool.Name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": raw},
			object{"type": "tool_use", "id": id, "name": tool.Name, "input": input},
		})
	}
	return parts
}

// message is the answer as one JSON object.
func (t Turn) message(a asked) object {
	content := []object{}
	for _, p := range t.parts(a) {
		content = append(content, p.whole)
	}
	return object{
		"id": fmt.Sprintf("msg_%d", a.turn()), "type": "message", "role": "assistant", "model": a.Model, "content": content,
		"stop_reason": t.stop(), "stop_sequence": nil, "usage": t.usage(),
	}
}

// events are the answer as server-sent events.
func (t Turn) events(a asked) []object {
	start := t.message(a)
	begun := t.usage()
	begun.Output = 1
	start["content"], start["stop_reason"], start["usage"] = []object{}, nil, begun
	events := []object{{"type": "message_start", "message": start}}
	for i, p := range t.parts(a) {
		events = append(events,
			object{"type": "content_block_start", "index": i, "content_block": p.begin},
			object{"type": "content_block_delta", "index": i, "delta": p.delta},
			object{"type": "content_block_stop", "index": i})
	}
	return append(events,
		object{"type": "message_delta", "delta": object{"stop_reason": t.stop(), "stop_sequence": nil}, "usage": object{"output_tokens": t.usage().Output}},
		object{"type": "message_stop"})
}

// stream writes the events, each at once, and breaks off where the fault says.
func stream(w http.ResponseWriter, r *http.Request, f *Fault, events []object) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for i, e := range events {
		if f.CutAfter > 0 && i == f.CutAfter {
			panic(http.ErrAbortHandler) // the way net/http has to cut a connection
		}
		if f.ErrorAfter > 0 && i == f.ErrorAfter {
			e = object{"type": "error", "error": object{"type": "overloaded_error", "message": "scripted fault"}}
		}
		if !pause(r, f.DelayMS) {
			return
		}
		data, err := json.Marshal(e)
		if err != nil {
			return // a script's input that is no JSON was refused by Read
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], data); err != nil || out.Flush() != nil {
			return
		}
		if e["type"] == "error" {
			return
		}
	}
}

// pause waits ms milliseconds, and reports whether the client is still there.
func pause(r *http.Request, ms int) bool {
	if ms <= 0 {
		return true
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}

func apiError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"type": "error", "error": object{"type": kind, "message": message}})
}
