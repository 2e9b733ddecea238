package brain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// claudeDialect speaks stream-json with the control protocol over stdio.
type claudeDialect struct {
	turn    Turn
	session string
	denied  map[string]bool
	tools   map[string]string // the tool behind an unanswered call
	result  *claudeResult
	fault   string // the error the last assistant message carried
	status  int    // the status of the last failed model request
	stopped bool
}

func newClaudeDialect(t Turn) *claudeDialect {
	return &claudeDialect{turn: t, denied: map[string]bool{}, tools: map[string]string{}}
}

type claudeMessage struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	Session   string          `json:"session_id"`
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  *struct {
		Subtype string `json:"subtype"`
		Error   string `json:"error"`
	} `json:"response"`
	Message *struct {
		Content json.RawMessage `json:"content"`
		Model   string          `json:"model"`
	} `json:"message"`
	Error     json.RawMessage `json:"error"`
	Synthetic bool            `json:"isSynthetic"`
	Meta      []struct {
		ID       string `json:"id"`
		Decision struct {
			Decision string `json:"decision"`
		} `json:"permission_decision"`
	} `json:"tool_result_meta"`
	ToolUseID   string `json:"tool_use_id"`
	ErrorStatus int    `json:"error_status"`
	Attempt     int    `json:"attempt"`
	claudeInit
}

// claudeInit is what the program says of itself before it asks the model.
type claudeInit struct {
	Tools      []string          `json:"tools"`
	MCPServers []json.RawMessage `json:"mcp_servers"`
	Mode       string            `json:"permissionMode"`
	KeySource  string            `json:"apiKeySource"`
}

type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

type claudeResult struct {
	Subtype        string   `json:"subtype"`
	IsError        bool     `json:"is_error"`
	Result         string   `json:"result"`
	Errors         []string `json:"errors"`
	Session        string   `json:"session_id"`
	TerminalReason string   `json:"terminal_reason"`
	APIStatus      int      `json:"api_error_status"`
	ModelUsage     map[string]struct {
		In         int64 `json:"inputTokens"`
		Out        int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cacheReadInputTokens"`
		CacheWrite int64 `json:"cacheCreationInputTokens"`
	} `json:"modelUsage"`
}

const (
	claudeHook      = "nacre-pre"
	claudeInitID    = "nacre-init"
	claudeInterrupt = "nacre-stop"
)

// begin registers for every tool call and states the task. A task that starts
// with a slash is words, not one of the program's own commands.
func (d *claudeDialect) begin(s *stream) error {
	hooks := map[string]any{"PreToolUse": []any{map[string]any{"matcher": "", "hookCallbackIds": []string{claudeHook}}}}
	err := s.send(controlRequest(claudeInitID, map[string]any{"subtype": "initialize", "hooks": hooks}))
	task := d.turn.Task
	if strings.HasPrefix(task, "/") {
		task = "\n" + task
	}
	return errors.Join(err, s.send(map[string]any{
		"type": "user", "message": map[string]any{"role": "user", "content": task},
		"parent_tool_use_id": nil, "session_id": "",
	}))
}

func controlRequest(id string, request map[string]any) map[string]any {
	return map[string]any{"type": "control_request", "request_id": id, "request": request}
}

func (d *claudeDialect) line(s *stream, line []byte) error {
	var m claudeMessage
	if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
		return s.garbled(line)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return d.misread(s, line, err)
	}
	switch m.Type {
	case "assistant":
		return d.assistant(s, m, line)
	case "user":
		return d.user(s, m, line)
	case "system":
		return d.system(s, m, line)
	case "result":
		return d.results(s, line)
	case "control_request":
		return d.control(s, m)
	case "control_response":
		return d.answered(m)
	}
	return s.raw(m.Type, line)
}

// misread passes on what has an unexpected shape, unless somebody waits for it.
func (d *claudeDialect) misread(s *stream, line []byte, err error) error {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(line, &head) == nil && slices.Contains([]string{"result", "control_request", "control_response"}, head.Type) {
		return fmt.Errorf("claude's %s: %w", head.Type, plain(err))
	}
	return s.raw("not understood", line)
}

// answered refuses to go on when the program did not take our word: without
// it no call would be asked about.
func (d *claudeDialect) answered(m claudeMessage) error {
	if m.Response == nil || (m.Response.Subtype == "error" && !d.stopped) {
		return errors.New("claude refused the control protocol: use version 2.1.329 or newer")
	}
	return nil
}

func (d *claudeDialect) system(s *stream, m claudeMessage, line []byte) error {
	switch m.Subtype {
	case "init":
		d.session = m.Session
		if err := m.verify(); err != nil {
			return err
		}
	case "permission_denied":
		d.deny(m.ToolUseID)
	case "api_retry":
		d.status = m.ErrorStatus
		s.emit(Event{Kind: Retry, Class: StatusClass(m.ErrorStatus), Text: fmt.Sprintf("attempt %d", m.Attempt)})
		return nil
	}
	return s.raw("system/"+m.Subtype, line)
}

// verify refuses a program that came up with more than it was given, such as
// a server or a key helper out of the project.
func (i claudeInit) verify() error {
	for _, tool := range i.Tools {
		if !slices.Contains(claudeTools, tool) {
			return fmt.Errorf("claude came up with the tool %.80q, which it was not given", tool)
		}
	}
	switch {
	case len(i.MCPServers) > 0:
		return errors.New("claude came up with MCP servers, which it was not given")
	case i.Mode != "default":
		return fmt.Errorf("claude came up in permission mode %.40q, not in default", i.Mode)
	case i.KeySource != "ANTHROPIC_API_KEY":
		return fmt.Errorf("claude has its key from %.80q, not from the session", i.KeySource)
	}
	return nil
}

func (d *claudeDialect) deny(id string) {
	if len(d.denied) < maxPending {
		d.denied[id] = true
	}
}

func (d *claudeDialect) assistant(s *stream, m claudeMessage, line []byte) error {
	d.fault = text(m.Error)
	blocks, ok := m.blocks()
	if !ok || m.Message.Model == "<synthetic>" {
		return s.raw("assistant", line)
	}
	for _, b := range blocks {
		var err error
		switch b.Type {
		case "text":
			err = s.event(Event{Kind: Text, Text: b.Text})
		case "tool_use":
			if len(d.tools) < maxPending {
				d.tools[b.ID] = b.Name
			}
			err = s.event(Event{Kind: ToolCall, ID: b.ID, Name: b.Name, Input: b.Input})
		default:
			s.emit(Event{Kind: Raw, Name: clip("assistant/"+b.Type, maxID)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *claudeDialect) user(s *stream, m claudeMessage, line []byte) error {
	blocks, ok := m.blocks()
	if !ok || m.Synthetic {
		return s.raw("user", line)
	}
	for _, meta := range m.Meta {
		if meta.Decision.Decision == "reject" {
			d.deny(meta.ID)
		}
	}
	for _, b := range blocks {
		if b.Type != "tool_result" {
			s.emit(Event{Kind: Raw, Name: clip("user/"+b.Type, maxID)})
			continue
		}
		if err := s.event(d.toolResult(b)); err != nil {
			return err
		}
	}
	return nil
}

func (d *claudeDialect) toolResult(b claudeBlock) Event {
	e := Event{Kind: ToolResult, ID: b.ToolUseID, Text: text(b.Content), IsError: b.IsError, Denied: d.denied[b.ToolUseID]}
	if d.tools[b.ToolUseID] == "Bash" && !e.Denied {
		e.ExitCode = bashExit(e.Text, e.IsError)
	}
	if e.IsError {
		e.Text = plainError(e.Text, e.ExitCode != nil)
	}
	delete(d.tools, b.ToolUseID)
	delete(d.denied, b.ToolUseID)
	return e
}

// bashExit is the exit code of a command, where its result tells one.
func bashExit(text string, isError bool) *int {
	if !isError {
		return new(int)
	}
	first, _, _ := strings.Cut(text, "\n")
	digits, ok := strings.CutPrefix(first, "Exit code ")
	code, err := strconv.Atoi(digits)
	if !ok || err != nil || code < 0 || code > 255 {
		return nil
	}
	return &code
}

// plainError is the text of a failed call without the program's own marks
// around it. Where hasCode, the first line is the exit code.
func plainError(text string, hasCode bool) string {
	if hasCode {
		_, text, _ = strings.Cut(text, "\n")
	}
	if inner, ok := strings.CutPrefix(text, "<tool_use_error>"); ok {
		text = strings.TrimSuffix(inner, "</tool_use_error>")
	}
	return text
}

// results keeps the last result: there can be more than one in a process.
func (d *claudeDialect) results(s *stream, line []byte) error {
	var r claudeResult
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("claude's result: %w", plain(err))
	}
	d.result = &r
	var usage Usage
	for _, u := range r.ModelUsage {
		usage.In += u.In
		usage.Out += u.Out
		usage.CacheRead += u.CacheRead
		usage.CacheWrite += u.CacheWrite
	}
	s.emit(Event{Kind: Cost, Usage: &usage})
	s.finish()
	return nil
}

func (m claudeMessage) blocks() ([]claudeBlock, bool) {
	if m.Message == nil {
		return nil, false
	}
	var blocks []claudeBlock
	err := json.Unmarshal(m.Message.Content, &blocks)
	return blocks, err == nil
}

// text flattens a string or a list of content blocks.
func text(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []claudeBlock
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		if b.Type == "text" {
			parts = append(parts, b.Text)
		} else {
			parts = append(parts, "["+clip(b.Type, 40)+"]")
		}
	}
	return strings.Join(parts, "\n")
}
