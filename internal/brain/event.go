package brain

import (
	"encoding/json"
	"fmt"
)

// EventKind says what an event tells.
type EventKind string

// The kinds of event.
const (
	// Text is something the model said: Text.
	Text EventKind = "text"
	// ToolCall is a tool about to be used: ID, Name, Input.
	ToolCall EventKind = "tool_call"
	// ToolResult answers the ToolCall with the same ID: Text, IsError, ExitCode, Denied.
	ToolResult EventKind = "tool_result"
	// Cost is what the brain says it used so far, cumulative: Usage. The
	// gateway's own figures are the truth; this is a cross-check.
	Cost EventKind = "cost"
	// Retry says that a model request failed and is tried again: Class, Text.
	Retry EventKind = "retry"
	// Done ends a turn that the brain finished: Text, Session.
	Done EventKind = "done"
	// Error ends a turn that it did not finish: Class, Text.
	Error EventKind = "error"
	// Raw is what the adapter does not know: Name, and Input where it is JSON
	// or Text where it is not.
	Raw EventKind = "raw"
)

// Refused is the Name of a Raw event whose Input is the guard.Refusal of a call that the
// adapter itself held against the task's gates, before its agent was told.
const Refused = "refused"

// Class says why a turn failed.
type Class string

// The classes of failure.
const (
	ClassAuth     Class = "auth"
	ClassRate     Class = "rate"
	ClassOverload Class = "overload"
	ClassNetwork  Class = "network"
	ClassBudget   Class = "budget"
	ClassTurns    Class = "turns"
	// ClassContext is a conversation that is longer than the model can read.
	ClassContext Class = "context"
	// ClassRefused is a model that would not answer.
	ClassRefused Class = "refused"
	// ClassKilled is a brain that was ended before it had finished.
	ClassKilled Class = "killed"
	// ClassProtocol is a brain that did not keep to its protocol.
	ClassProtocol Class = "protocol"
)

// Event is one step of a brain, the same for all of them. A stream is well-formed: after every tool
// call comes exactly one result with its id, and no result is without a call. Exactly one terminal
// event (done or error) comes last, when the process has ended. All fields are claims of untrusted
// code: escape them before a terminal sees them (M-05).
type Event struct {
	Kind     EventKind       `json:"kind"`
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Text     string          `json:"text,omitempty"`
	IsError  bool            `json:"is_error,omitempty"`
	Denied   bool            `json:"denied,omitempty"`
	ExitCode *int            `json:"exit_code,omitempty"`
	Class    Class           `json:"class,omitempty"`
	Usage    *Usage          `json:"usage,omitempty"`
	// Session is what a later turn's Resume takes.
	Session string `json:"session,omitempty"`
}

// Terminal reports whether e ends its stream.
func (e Event) Terminal() bool { return e.Kind == Done || e.Kind == Error }

// Usage counts tokens.
type Usage struct {
	In         int64 `json:"in"`
	Out        int64 `json:"out"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Failure is why a turn ended without being done.
type Failure struct {
	Class   Class
	Message string
	// cause is the context's error where the host ended the turn.
	cause error
}

func (f *Failure) Error() string { return fmt.Sprintf("brain: %s: %s", f.Class, f.Message) }

// Unwrap gives context.Canceled or context.DeadlineExceeded where the host
// ended the turn.
func (f *Failure) Unwrap() error { return f.cause }
