package nacre

import (
	"context"
	"encoding/json"
	"time"
)

// SafetyClass says what a capability can do to the world. The zero value is the strictest.
type SafetyClass uint8

// The safety classes, from the strictest (K-02).
const (
	Destructive SafetyClass = iota
	Write
	Read
)

var safetyNames = [...]string{"DESTRUCTIVE", "WRITE", "READ"}

func (c SafetyClass) String() string { return enumName(safetyNames[:], uint8(c), "DESTRUCTIVE") }

// MarshalText implements encoding.TextMarshaler.
func (c SafetyClass) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText accepts exactly "READ", "WRITE" or "DESTRUCTIVE".
func (c *SafetyClass) UnmarshalText(text []byte) error {
	i, err := enumIndex("safety class", safetyNames[:], string(text))
	*c = SafetyClass(i)
	return err
}

// Sensitivity says what kind of data a capability touches (K-02).
type Sensitivity uint8

// The sensitivities, from the strictest.
const (
	SensitiveSecrets Sensitivity = iota
	SensitivePCI
	SensitivePII
	SensitiveMemory
	SensitiveNone
)

var sensitivityNames = [...]string{"SECRETS", "PCI", "PII", "MEMORY", "NONE"}

func (s Sensitivity) String() string { return enumName(sensitivityNames[:], uint8(s), "SECRETS") }

// MarshalText implements encoding.TextMarshaler.
func (s Sensitivity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts exactly "NONE", "MEMORY", "PII", "PCI" or "SECRETS".
func (s *Sensitivity) UnmarshalText(text []byte) error {
	i, err := enumIndex("sensitivity", sensitivityNames[:], string(text))
	*s = Sensitivity(i)
	return err
}

// Label is the trust of a piece of data, set by the host and never by content
// (K-25). The zero value is untrusted.
type Label uint8

// The labels. What is declared or written down is one of the first two.
const (
	Untrusted Label = iota
	Trusted
	// Unvouched, between the two, is what nobody vouches for and no outsider sent either, such as
	// what a session stored that had listened to none (M-52). Like the text of a repository, its
	// values are untrusted, and it taints nobody. In text it is untrusted.
	Unvouched
)

var labelNames = [...]string{"untrusted", "trusted"}

func (l Label) String() string { return enumName(labelNames[:], uint8(l), "untrusted") }

// And combines the labels of two sources: the lower trust wins.
func (l Label) And(m Label) Label {
	switch {
	case l == m && l <= Unvouched:
		return l
	case l == Trusted && m == Unvouched, l == Unvouched && m == Trusted:
		return Unvouched
	}
	return Untrusted
}

// MarshalText implements encoding.TextMarshaler.
func (l Label) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText accepts exactly "trusted" or "untrusted".
func (l *Label) UnmarshalText(text []byte) error {
	i, err := enumIndex("label", labelNames[:], string(text))
	*l = Label(i)
	return err
}

// RateLimit allows Calls within any Window. The zero value means the class's default.
type RateLimit struct {
	Calls  int
	Window time.Duration
}

// Capability is one operation that the kernel can authorise. Each tool of a
// plugin is one (K-02, D-20).
type Capability struct {
	ID          CapabilityID
	Tool        ToolName
	Name        string
	Description string
	Safety      SafetyClass
	Sensitivity Sensitivity
	// Schema is the JSON Schema (2020-12) of the arguments; it must be closed (D-11).
	Schema json.RawMessage
	// AllowedFields limits what of a result may be seen; empty means all. Of PII
	// and PCI a principal with the role pii_reader sees all that policy allows.
	AllowedFields []string
	Tags          []string
	// Returns is the label of what the capability returns.
	Returns Label
	// Values are the arguments in which a wrong value does harm, the kinds of those
	// values, and what of a result the system itself makes (K-25, K-29).
	Values
	Handling
	Rate RateLimit
	// Deadline of one call; zero means 30 s (D-14).
	Deadline time.Duration
	// ContentHash pins the code behind the capability, such as a plugin's folder (D-13).
	ContentHash string
}

// Handling is what of a capability takes more than its class says.
type Handling struct {
	// Files are the arguments that name files of the session's workspace, as dotted
	// paths like Sinks. What they hold is copied and digested before anybody is
	// asked, and the driver is given the copies (D-13).
	Files []string
	// Behavioural marks what writes text that later sessions act on (M-52).
	Behavioural bool
	// HighRisk adds a question to a person to every call (D-13).
	HighRisk bool
	// Intrinsic marks the core's own tools, which every group may use (D-12, D-30).
	Intrinsic bool
}

// Principal is who a kernel call acts for. It comes from the listener a
// request arrived on, never from the request.
type Principal struct {
	ID         string
	Group      Group
	Session    SessionID
	Roles      []string
	Attributes map[string]string
	// Justification is the operator's task text: the only words that count as a reason (K-22).
	Justification string
	// Intent and Scope say what the host opened the session for, in words that
	// policy can match (K-05). An empty intent matches no rule that wants one.
	Intent string
	Scope  map[string]string
	// Channel is where the work came from, such as "terminal" or "webhook".
	Channel string
	// Agent says whose calls are counted together in all of a group's sessions, where the host has
	// set such a rate. Empty means those of the principal's id (K-35).
	Agent string
}

// SessionKey says which session a principal acts in.
func (p Principal) SessionKey() SessionKey { return KeyOf(p.Group, p.Session) }

// Invocation is a call after every check: what a driver acts on.
type Invocation struct {
	ID         string
	Principal  Principal
	Capability CapabilityID
	Tool       ToolName
	// Arguments are validated, with defaults inserted.
	Arguments json.RawMessage
	// Files are the copies of what the arguments name, good until Do returns.
	Files       []FilePin
	Correlation Correlation
	Time        time.Time
	// Label is the trust of what the session had been told when it called. It is untrusted once an
	// outsider's words were in it, and unvouched once it had read other text that nobody vouches
	// for.
	Label Label
	// Origins say where each risky value came from, as far as it is known (K-26).
	Origins []Origin
}

// Driver carries out one capability on the host. Do must honour ctx's deadline and may be called
// concurrently. A *Refusal it returns reaches the agent as HANDLER_ERROR with its message. Any
// other error reaches the agent as PLUGIN_ERROR without detail (D-06, D-14).
type Driver interface {
	Do(ctx context.Context, in Invocation) (json.RawMessage, error)
}

// DriverFunc is a function as a Driver.
type DriverFunc func(ctx context.Context, in Invocation) (json.RawMessage, error)

// Do calls f.
func (f DriverFunc) Do(ctx context.Context, in Invocation) (json.RawMessage, error) {
	return f(ctx, in)
}

// Tool is a capability with the driver that carries it out.
type Tool struct {
	Capability Capability
	Driver     Driver
	// ShownWhole is up to how many characters a result is passed on in the form in which the driver
	// gives it. Zero means the 4,000 of K-14. It is for a tool whose own form agents were taught to
	// read.
	ShownWhole int
}
