package brain

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// codexDialect reads the events of `codex exec --json`. A call that Codex does not make, such as
// one of a tool it does not have, is no event at all. One that the task's gates refused is in its
// log.
type codexDialect struct {
	task string
	// limit is how many calls may begin; zero is any number. The program tells
	// of calls, not of answers.
	limit   int
	calls   int
	refused int // by the task's gates
	session string
	last    string
	ended   bool
	// fault is what a failed turn said.
	fault *string
}

type codexMessage struct {
	Type    string          `json:"type"`
	Thread  string          `json:"thread_id"`
	Item    json.RawMessage `json:"item"`
	Message string          `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage struct {
		In         int64 `json:"input_tokens"`
		Cached     int64 `json:"cached_input_tokens"`
		CacheWrite int64 `json:"cache_write_input_tokens"`
		Out        int64 `json:"output_tokens"`
	} `json:"usage"`
}

type codexItem struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Text   string `json:"text"`
	Status string `json:"status"`
	// command_execution
	Command string `json:"command"`
	Output  string `json:"aggregated_output"`
	Exit    *int   `json:"exit_code"`
	// file_change
	Changes json.RawMessage `json:"changes"`
	// mcp_tool_call
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    struct {
		Content json.RawMessage `json:"content"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// begin hands the task over; nothing more is said to the program.
func (d *codexDialect) begin(s *stream) error {
	err := s.outbox.put([]byte(d.task))
	s.outbox.close()
	return err
}

func (d *codexDialect) line(s *stream, line []byte) error {
	var m codexMessage
	if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
		return s.garbled(line)
	}
	if json.Unmarshal(line, &m) != nil {
		return s.raw("not understood", line)
	}
	switch m.Type {
	case "thread.started":
		d.session = m.Thread
	case "item.started", "item.completed":
		return d.item(s, m, line)
	case "error":
		return d.trouble(s, m.Message, line)
	case "turn.completed", "turn.failed":
		return d.turn(s, m, line)
	}
	return s.raw(m.Type, line)
}

func (d *codexDialect) item(s *stream, m codexMessage, line []byte) error {
	var i codexItem
	if json.Unmarshal(m.Item, &i) != nil {
		return s.raw("not understood", line)
	}
	done := m.Type == "item.completed"
	switch i.Type {
	case "agent_message":
		if !done {
			return nil
		}
		d.last = i.Text
		return s.event(Event{Kind: Text, Text: i.Text})
	case "command_execution", "file_change", "mcp_tool_call":
		if done {
			return s.event(i.result())
		}
		if err := d.count(); err != nil {
			return err
		}
		return s.event(i.call())
	}
	return s.raw(m.Type+"/"+i.Type, line)
}

func (d *codexDialect) count() error {
	if d.calls++; d.limit > 0 && d.calls > d.limit {
		return &Failure{Class: ClassTurns, Message: fmt.Sprintf("more than %d calls", d.limit)}
	}
	return nil
}

// codexBlocked is how Codex tells of a call that its hook refused: in its log,
// on standard error, and nowhere else.
var codexBlocked = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`ERROR codex_core::tools::router: error=(?:Command|Tool call) blocked by PreToolUse hook: (.*)`)
})

// complaint tells of a refused call, of which the first line of the reason is known.
func (d *codexDialect) complaint(s *stream, line string) error {
	m := codexBlocked().FindStringSubmatch(line)
	if m == nil || d.refused >= maxPending {
		return nil
	}
	if err := d.count(); err != nil {
		return err
	}
	d.refused++
	id := "refused-" + strconv.Itoa(d.refused)
	if err := s.event(Event{Kind: ToolCall, ID: id, Name: "refused", Input: mustJSON(map[string]string{"title": m[1]})}); err != nil {
		return err
	}
	return s.event(Event{Kind: ToolResult, ID: id, Text: m[1], IsError: true, Denied: true})
}

// call names tools as nacre's own loop does.
func (i codexItem) call() Event {
	e := Event{Kind: ToolCall, ID: i.ID}
	switch i.Type {
	case "command_execution":
		e.Name, e.Input = "shell", mustJSON(map[string]string{"command": unwrapShell(i.Command)})
	case "file_change":
		e.Name, e.Input = "apply_patch", mustJSON(map[string]json.RawMessage{"changes": orNull(i.Changes)})
	default:
		e.Name, e.Input = clip(i.Server+"/"+i.Tool, maxID/2), orNull(i.Arguments)
	}
	return e
}

func (i codexItem) result() Event {
	e := Event{Kind: ToolResult, ID: i.ID, IsError: i.Status != "completed", Denied: i.Status == "declined", ExitCode: i.Exit}
	switch i.Type {
	case "command_execution":
		e.Text = i.Output
	case "mcp_tool_call":
		e.Text = text(i.Result.Content)
	}
	if e.Text == "" {
		e.Text = i.Error.Message
	}
	return e
}

// unwrapShell is the command without the shell that Codex puts around it:
// `/bin/bash -c 'X'` as its own quoting writes it.
func unwrapShell(command string) string {
	for _, shell := range []string{"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh", "bash", "sh"} {
		for _, flag := range []string{" -c ", " -lc "} {
			rest, ok := strings.CutPrefix(command, shell+flag)
			if word, whole := shellWord(rest); ok && whole {
				return word
			}
		}
	}
	return command
}

// shellWord reads one word as a shell would, and reports whether that was all.
func shellWord(s string) (word string, whole bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return "", false
			}
			b.WriteString(s[i+1 : i+1+end])
			i += end + 1
		case '"':
			n, ok := doubleQuoted(&b, s[i+1:])
			if !ok {
				return "", false
			}
			i += n
		case '\\':
			if i+1 == len(s) {
				return "", false
			}
			i++
			b.WriteByte(s[i])
		case ' ', '\t', '\n':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// doubleQuoted reads up to the closing quote and returns how much that was.
func doubleQuoted(b *strings.Builder, s string) (n int, ok bool) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return i + 1, true
		case s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
		}
		b.WriteByte(s[i])
	}
	return 0, false
}

// trouble is a request that is tried again, or what the turn is about to fail of.
func (d *codexDialect) trouble(s *stream, message string, line []byte) error {
	if strings.HasPrefix(message, "Reconnecting") {
		s.emit(Event{Kind: Retry, Class: faultClass(message), Text: clip(message, maxGarbled)})
		return nil
	}
	return s.raw("error", line)
}

func (d *codexDialect) turn(s *stream, m codexMessage, line []byte) error {
	if d.ended {
		return s.raw(m.Type, line)
	}
	d.ended = true
	if m.Type == "turn.failed" {
		d.fault = &m.Error.Message
	} else {
		u := m.Usage
		s.emit(Event{Kind: Cost, Usage: &Usage{In: max(0, u.In-u.Cached), Out: u.Out, CacheRead: u.Cached, CacheWrite: u.CacheWrite}})
	}
	s.finish()
	return nil
}

// interrupt has no word for it: the program is killed.
func (d *codexDialect) interrupt(*stream) bool { return false }

func (d *codexDialect) end(x exit) Event {
	switch {
	case d.fault != nil:
		return Event{Kind: Error, Class: faultClass(*d.fault), Text: clip(*d.fault, maxRaw)}
	case !d.ended || x.code != 0 && !x.forced:
		return unfinished(x.code)
	}
	session := d.session
	if !isSession(session) {
		session = ""
	}
	return Event{Kind: Done, Text: d.last, Session: session}
}

// statusInText finds an HTTP status in what a program says of a request.
var statusInText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:status:?|api error:?|http)\s+([1-5][0-9]{2})\b`)
})

// faultClass says why a turn failed of which only words are known.
func faultClass(words string) Class {
	lower := strings.ToLower(words)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(lower, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("budget exhausted", "quota"):
		return ClassBudget
	case has("context window", "context_length", "prompt is too long", "context length"):
		return ClassContext
	}
	if m := statusInText().FindStringSubmatch(words); m != nil {
		status, err := strconv.Atoi(m[1])
		if err == nil {
			return StatusClass(status)
		}
	}
	switch {
	case has("rate limit", "rate_limit", "too many requests"):
		return ClassRate
	case has("overloaded", "high demand", "server_error"):
		return ClassOverload
	case has("stream disconnected", "connection", "network", "error sending request", "timed out", "timeout"):
		return ClassNetwork
	case has("unauthorized", "authentication"):
		return ClassAuth
	case has("refus", "content_filter"):
		return ClassRefused
	}
	return ClassProtocol
}

// mustJSON encodes what always can be.
func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

func orNull(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return json.RawMessage("null")
	}
	return data
}
