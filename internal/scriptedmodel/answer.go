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

const scriptedFault = "scripted fault"

// ServeHTTP answers POST /v1/messages, /v1/messages/count_tokens, /v1/responses and /v1/chat/completions,
// and with a login its refreshes and /backend-api/codex/responses.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, known := dialects(r.URL.Path)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		apiError(w, d, http.StatusRequestEntityTooLarge, "the body could not be read")
		return
	}
	s.mu.Lock()
	if len(s.requests) < maxKept {
		s.requests = append(s.requests, Request{r.URL.Path, r.Header.Clone(), body})
	}
	s.mu.Unlock()
	s.inspect(r, body)
	if !s.signedIn(w, r, d, body) {
		return
	}
	if r.Method != http.MethodPost || !known {
		s.fail("%s %s is not of an API that is spoken here", r.Method, r.URL.Path)
		apiError(w, d, http.StatusNotFound, "no such path")
		return
	}
	a, err := d.read(body)
	switch {
	case err != nil:
		s.fail("the body is not JSON")
		apiError(w, d, http.StatusBadRequest, "the body is not JSON")
	case r.URL.Path == "/v1/messages/count_tokens":
		writeJSON(w, map[string]any{"input_tokens": len(body) / 4})
	default:
		s.play(w, r, d, a)
	}
}

func (s *Server) play(w http.ResponseWriter, r *http.Request, d dialect, a asked) {
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
	if f.TooLong {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(d.tooLong()) // the client may be gone
		return
	}
	if f.Status != 0 && s.faulty(name, f.Times) {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		apiError(w, d, f.Status, scriptedFault)
		return
	}
	if a.stream {
		if f.CutAfter > 0 && !s.faulty(name, f.Times) {
			f = &Fault{}
		}
		stream(w, r, f, d.events(turn, a), d.breakOff())
		return
	}
	writeJSON(w, d.whole(turn, a))
}

// faulty counts a turn's faults, and reports whether this one is still due.
func (s *Server) faulty(name string, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[name]++
	return times == 0 || s.faults[name] <= times
}

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
		parts = append(parts, part{
			object{"type": "tool_use", "id": id, "name": tool.Name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": tool.arguments()},
			object{"type": "tool_use", "id": id, "name": tool.Name, "input": input},
		})
	}
	return parts
}

// whole is the answer as one JSON object.
func (messages) whole(t Turn, a asked) object {
	content := []object{}
	for _, p := range t.parts(a) {
		content = append(content, p.whole)
	}
	whole := object{
		"id": fmt.Sprintf("msg_%d", a.turn()), "type": "message", "role": "assistant", "model": a.model, "content": content,
		"stop_reason": t.stop(), "stop_sequence": nil, "usage": t.usage(),
	}
	if t.Fault != nil && t.Fault.NoUsage {
		delete(whole, "usage")
	}
	return whole
}

// events are the answer as server-sent events.
func (d messages) events(t Turn, a asked) []event {
	start := d.whole(t, a)
	start["content"], start["stop_reason"] = []object{}, nil
	ended := object{"type": "message_delta", "delta": object{"stop_reason": t.stop(), "stop_sequence": nil}}
	if _, told := start["usage"]; told {
		begun := t.usage()
		begun.Output = 1
		start["usage"], ended["usage"] = begun, object{"output_tokens": t.usage().Output}
	}
	all := []object{{"type": "message_start", "message": start}}
	for i, p := range t.parts(a) {
		all = append(all,
			object{"type": "content_block_start", "index": i, "content_block": p.begin},
			object{"type": "content_block_delta", "index": i, "delta": p.delta},
			object{"type": "content_block_stop", "index": i})
	}
	var events []event
	for _, o := range append(all, ended, object{"type": "message_stop"}) {
		events = append(events, event{o["type"].(string), o})
	}
	return events
}

// stream writes the events, each at once, and breaks off where the fault says.
func stream(w http.ResponseWriter, r *http.Request, f *Fault, events []event, broken event) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for i, e := range events {
		if f.CutAfter > 0 && i == f.CutAfter {
			panic(http.ErrAbortHandler) // the way net/http has to cut a connection
		}
		last := f.ErrorAfter > 0 && i == f.ErrorAfter
		if last {
			e = broken
		}
		if !pause(r, f.DelayMS) {
			return
		}
		if err := e.write(w); err != nil || out.Flush() != nil || last {
			return
		}
	}
}

// write sends one event. Data that is no JSON, such as Chat's last, is sent as it is.
func (e event) write(w io.Writer) error {
	data, ok := e.data.(json.RawMessage)
	if !ok {
		var err error
		if data, err = json.Marshal(e.data); err != nil {
			return err // a script's input that is no JSON was refused by Read
		}
	}
	name := ""
	if e.name != "" {
		name = "event: " + e.name + "\n"
	}
	_, err := fmt.Fprintf(w, "%sdata: %s\n\n", name, data)
	return err
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

func apiError(w http.ResponseWriter, d dialect, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(d.fault(status, message))
}
