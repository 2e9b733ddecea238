package brain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/guard"
)

// The requests of ours, by their ids.
const (
	acpInitialize = iota + 1
	acpSession
	acpSetMode
	acpFence
	acpPrompt
)

const (
	acpVersion = 1
	// acpWorkspace is where the project is inside.
	acpWorkspace = "/workspace"
	// maxSpoken is how much text is gathered before it is told.
	maxSpoken = 64 << 10
)

// acpStrict are the modes in which known agents ask for the most, the best first.
var acpStrict = []string{"read-only", "default", "ask", "manual"}

// acpDialect speaks the Agent Client Protocol, version 1.
type acpDialect struct {
	turn    Turn
	gates   *guard.Set // nil means that the turn has none
	mode    string     // the one wanted; empty means that there is none
	modes   []string
	now     string // the one that the agent says it is in
	session string
	loading bool
	spoken  bytes.Buffer
	speaker string
	last    string
	open    map[string]*acpCall
	entered bool // into the mode
	stopped bool
	result  *acpResult
	fault   *acpError
}

// acpCall is a call that has no result yet.
type acpCall struct {
	name, kind, title string
	input             json.RawMessage
	text              string
	// told is set once the stream has it, odd where it is of a kind that is
	// rejected, denied where it was.
	told, odd, denied bool
}

func newACPDialect(t Turn, mode string) *acpDialect {
	return &acpDialect{turn: t, gates: acpGates(t.Gates), mode: mode, open: map[string]*acpCall{}}
}

type acpMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *acpError       `json:"error"`
}

type acpError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *acpError) words() string {
	words := e.Message
	if len(e.Data) > 0 && string(e.Data) != "null" {
		words += " " + string(e.Data)
	}
	return clip(words, maxRaw)
}

type acpResult struct {
	Stop  string `json:"stopReason"`
	Usage *struct {
		In         int64 `json:"inputTokens"`
		Out        int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cachedReadTokens"`
		CacheWrite int64 `json:"cachedWriteTokens"`
	} `json:"usage"`
}

type acpOption struct {
	Category string          `json:"category"`
	Current  json.RawMessage `json:"currentValue"`
}

// begin asks the agent what it can do. It is offered neither files nor a
// terminal of the host: its own tools are inside.
func (d *acpDialect) begin(s *stream) error {
	return d.request(s, acpInitialize, "initialize", map[string]any{
		"protocolVersion": acpVersion,
		"clientCapabilities": map[string]any{
			"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false,
		},
		"clientInfo": map[string]string{"name": "nacre", "version": "1"},
	})
}

func (d *acpDialect) request(s *stream, id int, method string, params any) error {
	return s.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

func (d *acpDialect) line(s *stream, line []byte) error {
	var m acpMessage
	if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
		return s.garbled(line)
	}
	if json.Unmarshal(line, &m) != nil {
		return s.raw("not understood", line)
	}
	switch {
	case m.Method == "session/update":
		return d.update(s, m.Params, line)
	case m.Method == "session/request_permission" && m.ID != nil:
		return d.permission(s, m)
	case m.Method != "" && m.ID != nil:
		return d.answer(s, m.ID, nil, &acpError{Code: -32601, Message: "not offered by this host"})
	case m.Method == "" && (m.Result != nil || m.Error != nil):
		return d.answered(s, m, line)
	}
	return s.raw(m.Method, line)
}

func (d *acpDialect) answer(s *stream, id json.RawMessage, result any, fault *acpError) error {
	if len(id) > maxID {
		return fmt.Errorf("the agent's request has an id of %d bytes", len(id))
	}
	reply := map[string]any{"jsonrpc": "2.0", "id": id}
	if fault != nil {
		reply["error"] = map[string]any{"code": fault.Code, "message": fault.Message}
	} else {
		reply["result"] = result
	}
	return s.send(reply)
}

// answered takes what the agent says to a request of ours.
func (d *acpDialect) answered(s *stream, m acpMessage, line []byte) error {
	var id int
	if json.Unmarshal(m.ID, &id) != nil || id < acpInitialize || id > acpPrompt || d.result != nil || d.fault != nil {
		return s.raw("answer to nothing", line)
	}
	if m.Error != nil {
		d.fault = m.Error
		d.speak(s)
		s.finish()
		return nil
	}
	switch id {
	case acpInitialize:
		return d.initialized(s, m.Result)
	case acpSession:
		return d.begun(s, m.Result)
	case acpSetMode:
		return d.settled(s, false)
	case acpFence:
		return d.settled(s, true)
	}
	return d.ended(s, m.Result)
}

func (d *acpDialect) initialized(s *stream, result json.RawMessage) error {
	var r struct {
		Version      int `json:"protocolVersion"`
		Capabilities struct {
			Load bool `json:"loadSession"`
		} `json:"agentCapabilities"`
		Info json.RawMessage `json:"agentInfo"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("the agent's initialize: %w", plain(err))
	}
	if r.Version != acpVersion {
		return fmt.Errorf("the agent speaks version %d of the protocol: version %d is spoken here", r.Version, acpVersion)
	}
	s.emit(Event{Kind: Raw, Name: "agent", Text: clip(string(r.Info), maxGarbled)})
	params := map[string]any{"cwd": acpWorkspace, "mcpServers": []any{}, "_meta": acpMeta(d.turn)}
	if d.turn.Resume == "" {
		return d.request(s, acpSession, "session/new", params)
	}
	if !r.Capabilities.Load {
		return errors.New("the agent cannot load a session: start a new one")
	}
	d.loading, d.session = true, d.turn.Resume
	params["sessionId"] = d.turn.Resume
	return d.request(s, acpSession, "session/load", params)
}

// acpMeta tells the agent around Claude Code to read nothing that the project
// brings, and which tools not to offer. To all others it is nothing.
func acpMeta(t Turn) map[string]any {
	return map[string]any{"claudeCode": map[string]any{"options": map[string]any{
		"settingSources": []string{}, "strictMcpConfig": true, "disallowedTools": t.refused(),
	}}}
}

func (d *acpDialect) begun(s *stream, result json.RawMessage) error {
	var r struct {
		Session string `json:"sessionId"`
		Modes   struct {
			Current   string `json:"currentModeId"`
			Available []struct {
				ID string `json:"id"`
			} `json:"availableModes"`
		} `json:"modes"`
		Options []acpOption `json:"configOptions"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("the agent's session: %w", plain(err))
	}
	d.loading = false
	if d.session == "" {
		d.session = r.Session
	}
	if d.session == "" || len(d.session) > maxID {
		return fmt.Errorf("the agent's session has a name of %d bytes", len(d.session))
	}
	for _, m := range r.Modes.Available {
		d.modes = append(d.modes, m.ID)
	}
	d.now = r.Modes.Current
	d.noteOptions(r.Options)
	return d.enter(s)
}

// enter puts the agent into its strictest mode.
func (d *acpDialect) enter(s *stream) error {
	if d.mode == "" {
		i := slices.IndexFunc(acpStrict, func(m string) bool { return slices.Contains(d.modes, m) })
		if i < 0 {
			return fmt.Errorf("the agent has no mode of permissions that is known to ask (it has %s): name one as mode under [brain.acp] in config.toml",
				clip(orNone(d.modes), maxID))
		}
		d.mode = acpStrict[i]
	}
	switch {
	case d.mode == acpAnyMode && len(d.modes) == 0:
		d.mode = ""
	case !slices.Contains(d.modes, d.mode):
		return fmt.Errorf("the agent has no mode %q: it has %s", d.mode, clip(orNone(d.modes), maxID))
	case d.now != d.mode:
		return d.setMode(s, acpSetMode)
	}
	return d.prompt(s)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return acpAnyMode
	}
	return strings.Join(names, ", ")
}

func (d *acpDialect) setMode(s *stream, id int) error {
	return d.request(s, id, "session/set_mode", map[string]any{"sessionId": d.session, "modeId": d.mode})
}

// settled goes on once the agent has said that it is in the mode. It may say so
// just after its answer: it is asked a second time, and must have said so
// before its second answer.
func (d *acpDialect) settled(s *stream, fence bool) error {
	switch {
	case d.now == d.mode:
		return d.prompt(s)
	case !fence:
		return d.setMode(s, acpFence)
	}
	return fmt.Errorf("the agent was put into mode %q and says that it is in %q", d.mode, clip(d.now, maxID))
}

// prompt states the task. What the host knows goes before it.
func (d *acpDialect) prompt(s *stream) error {
	d.entered = true
	if d.gates != nil {
		s.emit(Event{Kind: Raw, Name: "gates", Text: acpAdvisory})
	}
	var parts []map[string]string
	if brief := d.turn.briefing(); brief != "" {
		parts = append(parts, map[string]string{"type": "text", "text": brief})
	}
	task := d.turn.Task
	if strings.HasPrefix(task, "/") {
		task = "\n" + task // words, not one of the agent's own commands
	}
	parts = append(parts, map[string]string{"type": "text", "text": task})
	return d.request(s, acpPrompt, "session/prompt", map[string]any{"sessionId": d.session, "prompt": parts})
}

func (d *acpDialect) ended(s *stream, result json.RawMessage) error {
	var r acpResult
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("the agent's answer: %w", plain(err))
	}
	d.speak(s)
	if err := d.tellAll(s); err != nil {
		return err
	}
	d.result = &r
	if u := r.Usage; u != nil {
		s.emit(Event{Kind: Cost, Usage: &Usage{In: u.In, Out: u.Out, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}})
	}
	s.finish()
	return nil
}

// interrupt cancels the turn; the agent answers with what it has.
func (d *acpDialect) interrupt(s *stream) bool {
	d.stopped = true
	if d.session == "" {
		return false
	}
	return s.send(map[string]any{"jsonrpc": "2.0", "method": "session/cancel", "params": map[string]string{"sessionId": d.session}}) == nil
}

func (d *acpDialect) end(x exit) Event {
	switch {
	case d.fault != nil:
		words := d.fault.words()
		return Event{Kind: Error, Class: faultClass(words), Text: words}
	case d.result == nil || x.code != 0 && !x.forced:
		return unfinished(x.code)
	}
	switch d.result.Stop {
	case "end_turn":
		return Event{Kind: Done, Text: d.last, Session: d.session}
	case "max_turn_requests":
		return Event{Kind: Error, Class: ClassTurns, Text: "the agent reached its limit of turns"}
	case "refusal":
		return Event{Kind: Error, Class: ClassRefused, Text: "the model would not answer"}
	case "cancelled":
		return Event{Kind: Error, Class: ClassKilled, Text: "the agent was cancelled"}
	}
	return Event{Kind: Error, Class: ClassProtocol, Text: "the agent stopped: " + clip(d.result.Stop, maxID)}
}
