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
	// Traced asks for the outcome's Trace. The host sets it, never an agent.
	Traced bool
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
	// Shape says what Result is; empty where nothing is shown.
	Shape Shape
	// Label is the trust of Result.
	Label Label
	// Redacted are the field paths whose values were redacted.
	Redacted []string
	// Handle is the ticket for what Result leaves out; nil where it is whole.
	Handle *Handle
	// Decision is what the policy said of the call, in the words for a person: also of
	// one that was refused, as far as it came. Code is empty where nothing was decided.
	Decision Decision
	// Trace is how the policy came to Decision, where the call asked for it with Traced
	// and the policy can say so (K-09); nil otherwise.
	Trace *DecisionTrace
}

// Shape is what the result of an outcome is.
type Shape string

// The shapes. A frame is the JSON of a [Frame], which says what it leaves out.
const (
	ShapeResult Shape = "result"
	ShapeFrame  Shape = "frame"
	ShapePlan   Shape = "plan" // of a dry run
)

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
	// Text is what a person can vouch for, with ScopeText; nil where there is no such text.
	Text *SourceText `json:"text,omitempty"`
	// Why says what made the kernel ask.
	Why string `json:"why"`
	// AgentWords is the agent's own justification: shown as such, never counted.
	AgentWords string `json:"agent_words,omitempty"`
	// Asked is when it began to wait; zero where that is not known.
	Asked   time.Time `json:"asked,omitzero"`
	Expires time.Time `json:"expires"`
	// Safety is what the answer could do to the world.
	Safety SafetyClass `json:"safety"`
	// Approvers is how many persons have to approve; 0 means one.
	Approvers int `json:"approvers,omitempty"`
}

// SourceText is the one text in which all those values of a call stand that no trusted
// text has said, such as a mail, a page or a file.
type SourceText struct {
	// Source says whose it is, as in [Origin].
	Source string `json:"source"`
	// Text is all of it, in lower case and one line, at most 4 KiB.
	Text string `json:"text"`
}

// FilePin is a file that an argument names, copied so that what was decided on
// is what runs (D-13).
type FilePin struct {
	// Argument is the dotted path of the argument, with the numbers of list elements in it. Name is
	// its value, relative to the workspace.
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
	// Times is for how many calls it stands, this one among them; 0 means for any number.
	Times int `json:"times,omitempty"`
}

// RulingScope says what a ruling that stands is for. The zero value is the
// narrowest: this one question.
type RulingScope uint8

// The scopes, from the narrowest.
const (
	ScopeOnce RulingScope = iota
	// ScopeExact is the same tool with exactly the same arguments.
	ScopeExact
	// ScopeSame is the same tool with the same values where a wrong one does
	// harm: its sinks, or all arguments where it declares none.
	ScopeSame
	// ScopeTool is the same tool with whatever arguments.
	ScopeTool
	// ScopeText approves this one call, and hands authority to [Question.Text]: a value
	// that stands in it counts as trusted until the session ends, for every tool (K-29).
	// It has neither a time nor a number.
	ScopeText
)

var scopeNames = [...]string{"once", "exact", "same", "tool", "text"}

func (s RulingScope) String() string { return enumName(scopeNames[:], uint8(s), "once") }

// MarshalText implements encoding.TextMarshaler.
func (s RulingScope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts exactly "once", "exact", "same", "tool" or "text".
func (s *RulingScope) UnmarshalText(text []byte) error {
	i, err := enumIndex("scope", scopeNames[:], string(text))
	*s = RulingScope(i)
	return err
}

// Press is what somebody pressed at a face which knows who it was. The zero value is
// nobody's, and decides nothing.
type Press struct {
	// ID is the question's.
	ID string `json:"id"`
	// Identity is who pressed, as the face authenticated it, such as terminal:1000.
	Identity string `json:"identity"`
	// Shown is the digest of the card that was shown.
	Shown string `json:"shown"`
	// Ruling is what was pressed. Its By says in words where; its Digest is the question's.
	Ruling Ruling `json:"ruling"`
}

// Pressed is what became of a press that counted.
type Pressed struct {
	// By is who decided, as records have it.
	By string `json:"by"`
	// Open is how many more persons have to approve; 0 where the question is settled.
	Open int `json:"open,omitempty"`
}

// Approver asks a person. Ask returns when the person has answered or ctx
// ends; every error, and every digest but the question's own, denies.
type Approver interface {
	Ask(ctx context.Context, q Question) (Ruling, error)
}
