package nacre

import (
	"fmt"
	"regexp"
	"strings"
)

// Group is a tenant or conversation with its own memory, policy and budget.
type Group string

// SessionID names one sealed sandbox with its sockets, from open to close.
type SessionID string

// PluginName is the name of a plugin's folder, which is its identity (D-20).
type PluginName string

// ToolName is what an agent writes after "tool.invoke."; unique in an installation.
type ToolName string

// CapabilityID is the dotted name the kernel authorises: "<plugin>.<tool>".
type CapabilityID string

// Correlation links a request to its answer; the agent chooses it, so it is never identity.
type Correlation string

var (
	groupForm      = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	sessionForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	pluginForm     = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	toolForm       = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	capabilityForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}(\.[a-z0-9][a-z0-9_-]{0,63}){1,7}$`)
)

// MaxCorrelation is the longest correlation id accepted, in bytes.
const MaxCorrelation = 128

// ParseGroup accepts 1–64 characters of [a-zA-Z0-9_-].
func ParseGroup(s string) (Group, error) {
	if !groupForm.MatchString(s) {
		return "", fmt.Errorf("group %.80q: use 1–64 letters, digits, _ or -", s)
	}
	return Group(s), nil
}

// ParseSessionID accepts 1–40 characters of [a-z0-9-], not starting with a dash.
func ParseSessionID(s string) (SessionID, error) {
	if !sessionForm.MatchString(s) {
		return "", fmt.Errorf("session %.80q: use 1–40 lower-case letters, digits or dashes", s)
	}
	return SessionID(s), nil
}

// ParsePluginName accepts 1–64 characters of [a-z0-9_-].
func ParsePluginName(s string) (PluginName, error) {
	if !pluginForm.MatchString(s) {
		return "", fmt.Errorf("plugin %.80q: use 1–64 lower-case letters, digits, _ or -", s)
	}
	return PluginName(s), nil
}

// ParseToolName accepts 1–64 characters of [a-z0-9_], starting with a letter.
func ParseToolName(s string) (ToolName, error) {
	if !toolForm.MatchString(s) {
		return "", fmt.Errorf("tool %.80q: use 1–64 lower-case letters, digits or _, starting with a letter", s)
	}
	return ToolName(s), nil
}

// ParseCapabilityID accepts 2–8 dotted parts of [a-z0-9_-].
func ParseCapabilityID(s string) (CapabilityID, error) {
	if !capabilityForm.MatchString(s) {
		return "", fmt.Errorf("capability %.80q: use dotted lower-case names, such as reminders.create_reminder", s)
	}
	return CapabilityID(s), nil
}

// ParseCorrelation accepts 1–128 bytes of printable ASCII without spaces.
func ParseCorrelation(s string) (Correlation, error) {
	if s == "" || len(s) > MaxCorrelation {
		return "", fmt.Errorf("correlation of %d bytes: use 1–%d", len(s), MaxCorrelation)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("correlation %q: use printable ASCII without spaces", s)
	}
	return Correlation(s), nil
}

// Secret is a value that must never be printed: every formatting verb and
// JSON give "[secret]". Reveal is the one way to its bytes.
type Secret struct{ value string }

// NewSecret wraps a value so that it cannot be printed by accident.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value, for the one place that must send it.
func (s Secret) Reveal() string { return s.value }

// Empty reports whether there is no value.
func (s Secret) Empty() bool { return s.value == "" }

// String implements fmt.Stringer.
func (Secret) String() string { return "[secret]" }

// GoString implements fmt.GoStringer, so that %#v does not print the value.
func (Secret) GoString() string { return "[secret]" }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }
