package brain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// claudeRequest is what the program asks of its host.
type claudeRequest struct {
	Subtype    string          `json:"subtype"`
	ToolName   string          `json:"tool_name"`
	Input      json.RawMessage `json:"input"`
	CallbackID string          `json:"callback_id"`
}

// control answers a request. Inside the sandbox everything is allowed that
// the sandbox allows, for the tools the turn was given; all else is denied.
// An error answer is taken for silence there and lets the call through, so
// every doubt about a hook or a permission is answered with a denial.
func (d *claudeDialect) control(s *stream, m claudeMessage) error {
	var r claudeRequest
	if err := json.Unmarshal(m.Request, &r); err != nil {
		return fmt.Errorf("claude's control request: %w", plain(err))
	}
	if m.RequestID == "" || len(m.RequestID) > maxID {
		return fmt.Errorf("claude's control request has an id of %d bytes", len(m.RequestID))
	}
	switch r.Subtype {
	case "can_use_tool":
		return s.send(controlResponse(m.RequestID, permission(r)))
	case "hook_callback":
		return s.send(controlResponse(m.RequestID, hookAnswer(r)))
	}
	return s.send(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "error", "request_id": m.RequestID, "error": "not supported by this host",
	}})
}

func controlResponse(id string, response any) map[string]any {
	return map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": id, "response": response,
	}}
}

func permission(r claudeRequest) map[string]any {
	if !slices.Contains(claudeTools, r.ToolName) || !isObject(r.Input) {
		return map[string]any{"behavior": "deny", "message": refusal(r.ToolName)}
	}
	return map[string]any{"behavior": "allow", "updatedInput": r.Input}
}

// hookAnswer is an early no; an empty answer leaves the decision to
// can_use_tool and to the sandbox.
func hookAnswer(r claudeRequest) map[string]any {
	var in struct {
		Event string `json:"hook_event_name"`
		Tool  string `json:"tool_name"`
	}
	err := json.Unmarshal(r.Input, &in)
	if err == nil && r.CallbackID == claudeHook && in.Event == "PreToolUse" && slices.Contains(claudeTools, in.Tool) {
		return map[string]any{}
	}
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": refusal(in.Tool),
	}}
}

func refusal(tool string) string {
	return fmt.Sprintf("this session may not use %s: it has %s, and tools through ipc", clip(tool, 80), strings.Join(claudeTools, ", "))
}

func isObject(data json.RawMessage) bool { return len(data) > 0 && data[0] == '{' }

// interrupt asks for the end of the turn, so that what it did is kept for a
// later one.
func (d *claudeDialect) interrupt(s *stream) bool {
	d.stopped = true
	return s.send(controlRequest(claudeInterrupt, map[string]any{"subtype": "interrupt"})) == nil
}

func (d *claudeDialect) end(x exit) Event {
	r := d.result
	switch {
	case r == nil:
		return unfinished(x.code)
	case r.IsError || r.Subtype != "success":
		return Event{Kind: Error, Class: d.class(), Text: r.words()}
	case x.code != 0 && !x.forced:
		return unfinished(x.code)
	}
	session := r.Session
	if !isSession(session) {
		session = ""
	}
	return Event{Kind: Done, Text: r.Result, Session: session}
}

func (r *claudeResult) words() string {
	parts := slices.DeleteFunc(append([]string{r.Result}, r.Errors...), func(s string) bool { return s == "" })
	if len(parts) == 0 {
		parts = []string{strings.TrimSpace(r.Subtype + " " + r.TerminalReason)}
	}
	return clip(strings.Join(parts, "\n"), maxRaw)
}

// class says why the last result is an error.
func (d *claudeDialect) class() Class {
	r := d.result
	switch {
	case r.Subtype == "error_max_turns" || r.TerminalReason == "max_turns":
		return ClassTurns
	case r.Subtype == "error_max_budget_usd" || r.TerminalReason == "budget_exhausted" || d.fault == "billing_error":
		return ClassBudget
	case faultClass(r.words()) == ClassContext:
		return ClassContext
	case r.APIStatus != 0:
		return StatusClass(r.APIStatus)
	case d.fault == "authentication_failed":
		return ClassAuth
	case d.fault == "rate_limit":
		return ClassRate
	case r.TerminalReason == "api_error":
		return StatusClass(d.status)
	case r.TerminalReason == "aborted_tools" || r.TerminalReason == "aborted_streaming":
		return ClassKilled
	}
	return ClassProtocol
}

// StatusClass says why a model request failed that was answered with an HTTP
// status; 0 is one that was not answered.
func StatusClass(status int) Class {
	switch {
	case status == 0:
		return ClassNetwork
	case status == 401 || status == 403:
		return ClassAuth
	case status == 402:
		return ClassBudget
	case status == 429:
		return ClassRate
	case status >= 500:
		return ClassOverload
	}
	return ClassProtocol
}
