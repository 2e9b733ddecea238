package brain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// acpKinds are the kinds of calls that an agent may make: what they reach is
// decided by the sandbox around them. One that is not here, such as to fetch or
// to switch the mode, is rejected, and so is one without a kind.
var acpKinds = []string{"read", "edit", "delete", "move", "search", "execute", "think"}

type acpUpdate struct {
	Kind    string          `json:"sessionUpdate"`
	Content json.RawMessage `json:"content"`
	Message string          `json:"messageId"`
	Mode    string          `json:"currentModeId"`
	Options []acpOption     `json:"configOptions"`
	acpToolCall
}

// acpToolCall is a call, or what has changed of one.
type acpToolCall struct {
	ID     string          `json:"toolCallId"`
	Name   string          `json:"name"`
	Title  string          `json:"title"`
	Does   string          `json:"kind"`
	Status string          `json:"status"`
	Input  json.RawMessage `json:"rawInput"`
	Output json.RawMessage `json:"rawOutput"`
	Parts  json.RawMessage `json:"-"` // content, which an update has at the same place
}

func (d *acpDialect) update(s *stream, params json.RawMessage, line []byte) error {
	var p struct {
		Session string    `json:"sessionId"`
		Update  acpUpdate `json:"update"`
	}
	if json.Unmarshal(params, &p) != nil || d.loading || d.session != "" && p.Session != d.session {
		return s.raw("session/update", line)
	}
	u := p.Update
	u.Parts = u.Content
	switch u.Kind {
	case "agent_message_chunk":
		return d.chunk(s, u)
	case "tool_call", "tool_call_update":
		if begun := d.open[u.ID] != nil; begun == (u.Kind == "tool_call") && u.ID != "" {
			return s.raw(u.Kind+" out of order", line)
		}
		return d.call(s, u.acpToolCall)
	case "current_mode_update":
		d.now = u.Mode
		return d.keepsMode(s)
	case "config_option_update":
		d.noteOptions(u.Options)
		return d.keepsMode(s)
	}
	return s.raw("session/update "+u.Kind, line)
}

// noteOptions takes the mode from an agent's options.
func (d *acpDialect) noteOptions(options []acpOption) {
	for _, o := range options {
		var value string
		if o.Category == "mode" && json.Unmarshal(o.Current, &value) == nil {
			d.now = value
		}
	}
}

// keepsMode refuses an agent that leaves its mode. Before it was put there it
// may be in any.
func (d *acpDialect) keepsMode(s *stream) error {
	s.emit(Event{Kind: Raw, Name: "mode", Text: clip(d.now, maxID)})
	if d.entered && d.mode != "" && d.now != d.mode {
		return fmt.Errorf("the agent left its mode %q for %q", d.mode, clip(d.now, maxID))
	}
	return nil
}

// chunk gathers what the agent says until it does or says something else.
func (d *acpDialect) chunk(s *stream, u acpUpdate) error {
	var part struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(u.Content, &part) != nil || part.Type != "text" {
		return s.raw("said "+part.Type, u.Content)
	}
	if u.Message != d.speaker {
		d.speak(s)
	}
	d.speaker = u.Message
	d.spoken.WriteString(part.Text)
	if d.spoken.Len() > maxSpoken {
		d.speak(s)
	}
	return nil
}

func (d *acpDialect) speak(s *stream) {
	if d.spoken.Len() == 0 {
		return
	}
	d.last = d.spoken.String()
	d.spoken.Reset()
	s.emit(Event{Kind: Text, Text: d.last})
}

// call follows a call through its updates. Its input may come after its
// beginning, so it is told once that is there, or something came of it.
func (d *acpDialect) call(s *stream, c acpToolCall) error {
	d.speak(s)
	known, err := d.known(c)
	if err != nil {
		return err
	}
	over := c.Status == "completed" || c.Status == "failed"
	if over || !isEmpty(known.input) {
		if err := d.tell(s, c.ID, known); err != nil {
			return err
		}
	}
	if !over {
		return nil
	}
	delete(d.open, c.ID)
	e := Event{Kind: ToolResult, ID: c.ID, Text: known.text, IsError: c.Status == "failed" || known.denied, Denied: known.denied, ExitCode: acpExit(c)}
	return s.event(e)
}

// known adds what is said of a call to what was said before.
func (d *acpDialect) known(c acpToolCall) (*acpCall, error) {
	if c.ID == "" || len(c.ID) > maxID {
		return nil, fmt.Errorf("a call whose id has %d bytes", len(c.ID))
	}
	known := d.open[c.ID]
	if known == nil {
		if len(d.open) >= maxPending {
			return nil, fmt.Errorf("more than %d calls without a result", maxPending)
		}
		known = &acpCall{}
		d.open[c.ID] = known
	}
	known.name, known.kind = cmp.Or(c.Name, known.name), cmp.Or(c.Does, known.kind)
	known.title, known.text = cmp.Or(c.Title, known.title), cmp.Or(acpText(c), known.text)
	// What was once of another kind does not become harmless by a new name.
	known.odd = known.odd || known.kind != "" && !slices.Contains(acpKinds, known.kind)
	if !isEmpty(c.Input) {
		known.input = c.Input
	}
	return known, nil
}

func isEmpty(input json.RawMessage) bool {
	return len(input) == 0 || string(input) == "null" || string(input) == "{}"
}

func (d *acpDialect) tell(s *stream, id string, c *acpCall) error {
	if c.told {
		return nil
	}
	c.told = true
	e := Event{Kind: ToolCall, ID: id, Name: c.name, Input: c.input}
	e.Name = clip(cmp.Or(e.Name, c.kind, "other"), maxID/2)
	if !isObject(e.Input) {
		e.Input = mustJSON(map[string]string{"title": clip(c.title, maxGarbled)})
	}
	return s.event(e)
}

// tellAll tells of the calls that something was said of and nothing came of.
func (d *acpDialect) tellAll(s *stream) error {
	var ids []string
	for id := range d.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := d.tell(s, id, d.open[id]); err != nil {
			return err
		}
	}
	return nil
}

// acpText is what came of a call, in words.
func acpText(c acpToolCall) string {
	var parts []struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
		Path    string          `json:"path"`
	}
	var words []string
	if json.Unmarshal(c.Parts, &parts) == nil {
		for _, p := range parts {
			var inner struct {
				Text string `json:"text"`
			}
			if p.Type == "content" && json.Unmarshal(p.Content, &inner) == nil && inner.Text != "" {
				words = append(words, unfence(inner.Text))
			}
		}
	}
	if len(words) > 0 {
		return strings.Join(words, "\n")
	}
	var out string
	if json.Unmarshal(c.Output, &out) == nil {
		return out
	}
	return ""
}

// unfence takes off the fence of Markdown that agents put around output.
func unfence(text string) string {
	inner, opened := strings.CutPrefix(text, "```")
	inner, closed := strings.CutSuffix(inner, "\n```")
	if _, body, ok := strings.Cut(inner, "\n"); opened && closed && ok {
		return body
	}
	return text
}

// acpExit is the exit code of a command, where the agent tells one.
func acpExit(c acpToolCall) *int {
	var o struct {
		Snake *int `json:"exit_code"`
		Camel *int `json:"exitCode"`
	}
	if json.Unmarshal(c.Output, &o) == nil {
		if o.Snake != nil {
			return o.Snake
		}
		return o.Camel
	}
	var text string
	if json.Unmarshal(c.Output, &text) == nil && c.Status == "failed" {
		return bashExit(text, true)
	}
	return nil
}

// permission answers a question. Only this once is ever allowed; where no
// answer fits, the question is cancelled.
func (d *acpDialect) permission(s *stream, m acpMessage) error {
	var p struct {
		Session string      `json:"sessionId"`
		Call    acpToolCall `json:"toolCall"`
		Options []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	cancelled := map[string]any{"outcome": map[string]string{"outcome": "cancelled"}}
	if json.Unmarshal(m.Params, &p) != nil || p.Session != d.session || d.session == "" || d.stopped {
		return d.answer(s, m.ID, cancelled, nil)
	}
	d.speak(s)
	known, err := d.known(p.Call)
	if err != nil {
		return err
	}
	if err := d.tell(s, p.Call.ID, known); err != nil {
		return err
	}
	pick := func(kind string) (string, bool) {
		for _, o := range p.Options {
			if o.Kind == kind && o.ID != "" && len(o.ID) <= maxID {
				return o.ID, true
			}
		}
		return "", false
	}
	choice, ok := "", false
	if slices.Contains(acpKinds, known.kind) && !known.odd && !known.denied && !d.gated(s, known) {
		choice, ok = pick("allow_once")
	}
	if !ok {
		known.denied = true
		choice, ok = pick("reject_once")
	}
	if !ok {
		return d.answer(s, m.ID, cancelled, nil)
	}
	return d.answer(s, m.ID, map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": choice}}, nil)
}
