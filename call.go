package nacre

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Call is a request as it enters the kernel: parsed once, and never changed after.
type Call struct {
	// ID is the envelope's id, given by the host.
	ID          string
	Principal   Principal
	Tool        ToolName
	Arguments   json.RawMessage
	Correlation Correlation
	Hints       Hints
	// OnAsk, when set, is told once that a person is being asked and until when.
	OnAsk func(expires time.Time)
}

// Hints are the agent's own words about a call: recorded, never counted as authority (D-02).
type Hints struct {
	Justification string
	Mode          string
	DryRun        bool
}

// Outcome is what the kernel lets the agent see of a call that was carried out.
type Outcome struct {
	// Result is the redacted result, structurally unchanged when it is within budget (D-10).
	Result json.RawMessage
	// Label is the trust of Result.
	Label Label
	// Redacted are the field paths whose values were redacted.
	Redacted []string
	// Handle is the ticket for what Result leaves out; nil where it is whole.
	Handle *Handle
}

// Code is a stable error code of the door (D-06).
type Code string

// The ten codes of the seed.
const (
	CodeUnknownTool         Code = "UNKNOWN_TOOL"
	CodeValidationFailed    Code = "VALIDATION_FAILED"
	CodeUnauthorized        Code = "UNAUTHORIZED"
	CodeRateLimited         Code = "RATE_LIMITED"
	CodeConfirmationTimeout Code = "CONFIRMATION_TIMEOUT"
	CodeConfirmationDenied  Code = "CONFIRMATION_DENIED"
	CodePluginTimeout       Code = "PLUGIN_TIMEOUT"
	CodePluginUnavailable   Code = "PLUGIN_UNAVAILABLE"
	CodePluginError         Code = "PLUGIN_ERROR"
	CodeHandlerError        Code = "HANDLER_ERROR"
)

// Refusal is why a call was not carried out, in the form the agent sees. It is
// a value to act on; failures of the host are plain errors.
type Refusal struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Retriable bool   `json:"retriable"`
	// Stage is the pipeline stage, 1–6, for the core's own refusals.
	Stage int `json:"stage,omitempty"`
	// Field is the argument that failed validation.
	Field string `json:"field,omitempty"`
	// RetryAfter is in whole seconds.
	RetryAfter int `json:"retry_after,omitempty"`
	// Reason is the stable policy code, for records and programs on the host.
	Reason ReasonCode `json:"-"`
	// Original is a handler's own code before normalisation to HANDLER_ERROR.
	Original string `json:"-"`
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Code, r.Message) }

// Question is what a person is asked: exactly what would run (D-13).
type Question struct {
	ID         string       `json:"id"`
	Session    SessionID    `json:"session"`
	Group      Group        `json:"group"`
	Capability CapabilityID `json:"capability"`
	// Arguments are canonical, after defaults.
	Arguments json.RawMessage `json:"arguments"`
	// Files are what the arguments name, as it was when it was copied.
	Files []FilePin `json:"files,omitempty"`
	// Digest binds the answer to capability, arguments, files, code, policy and session.
	Digest string `json:"digest"`
	// Origins say where each risky value came from (K-26).
	Origins []Origin `json:"origins,omitempty"`
	// Why says what made the kernel ask.
	Why string `json:"why"`
	// AgentWords is the agent's own justification: shown as such, never counted.
	AgentWords string    `json:"agent_words,omitempty"`
	Expires    time.Time `json:"expires"`
}

// FilePin is a file that an argument names, copied so that what was decided on
// is what runs (D-13).
type FilePin struct {
	// Argument is the dotted path of the argument, with the numbers of list
	// elements in it; Name is its value, relative to the workspace.
	Argument string `json:"argument"`
	Name     string `json:"name"`
	// SHA256 is the digest of the content, in lower-case hex, Bytes its length.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// Path is the private copy on the host. No agent and no record sees it.
	Path string `json:"-"`
}

// Ruling is a person's answer. The zero value denies.
type Ruling struct {
	Verdict Verdict `json:"verdict"`
	// By names the person and the face they answered from, such as "terminal".
	By string `json:"by"`
	// Digest repeats the question's, so that what was approved is what runs.
	Digest string `json:"digest"`
	// For and Scope let the ruling stand: what is like the question is decided
	// the same way without asking again, for so long, in this session only.
	For   time.Duration `json:"for,omitempty"`
	Scope RulingScope   `json:"scope,omitempty"`
}

// RulingScope says what a ruling that stands is for. The zero value is the
// narrowest: this one question.
type RulingScope uint8

// The scopes, from the narrowest.
const (
	ScopeOnce RulingScope = iota
	// ScopeSame is the same tool with the same values where a wrong one does
	// harm: its sinks, or all arguments where it declares none.
	ScopeSame
	// ScopeTool is the same tool with whatever arguments.
	ScopeTool
)

var scopeNames = [...]string{"once", "same", "tool"}

func (s RulingScope) String() string { return enumName(scopeNames[:], uint8(s), "once") }

// MarshalText implements encoding.TextMarshaler.
func (s RulingScope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts exactly "once", "same" or "tool".
func (s *RulingScope) UnmarshalText(text []byte) error {
	i, err := enumIndex("scope", scopeNames[:], string(text))
	*s = RulingScope(i)
	return err
}

// Approver asks a person. Ask returns when the person has answered or ctx
// ends; every error, and every digest but the question's own, denies.
type Approver interface {
	Ask(ctx context.Context, q Question) (Ruling, error)
}
