package nacre

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Group is a tenant or conversation with its own memory, policy and budget.
type Group string

// SessionID names one sealed sandbox with its sockets, from open to close.
type SessionID string

// SessionKey is which session is meant where groups share a program: two groups
// may give their sessions the same name, and share nothing by it. KeyOf makes one;
// no other text is a complete key.
type SessionKey string

// KeyOf names a session of a group. Where either is empty, so is the key.
func KeyOf(group Group, session SessionID) SessionKey {
	if group == "" || session == "" {
		return ""
	}
	// The length keeps apart what a group's name with a slash would join.
	return SessionKey(strconv.Itoa(len(group)) + ":" + string(group) + "/" + string(session))
}

// Complete reports whether both the group and the session are named; what is
// kept of sessions is kept of complete keys only.
func (k SessionKey) Complete() bool {
	size, rest, _ := strings.Cut(string(k), ":")
	group, err := strconv.Atoi(size)
	return err == nil && group > 0 && group+1 < len(rest) && rest[group] == '/' && strconv.Itoa(group) == size
}

// PluginName is the name of a plugin's folder, which is its identity (D-20).
type PluginName string

// ToolName is what an agent writes after "tool.invoke."; unique in an installation.
type ToolName string

// CapabilityID is the dotted name the kernel authorises: "<plugin>.<tool>".
type CapabilityID string

// Correlation links a request to its answer; the agent chooses it, so it is never identity.
type Correlation string

// The forms are checked by hand and not by regular expressions, which every
// small program that imports this package would compile at its start.
const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// made reports whether s has 1 to limit characters, the first of first and the
// others of rest.
func made(s string, limit int, first, rest string) bool {
	if s == "" || len(s) > limit || strings.IndexByte(first, s[0]) < 0 {
		return false
	}
	for i := 1; i < len(s); i++ {
		if strings.IndexByte(rest, s[i]) < 0 {
			return false
		}
	}
	return true
}

// MaxCorrelation is the longest correlation id accepted, in bytes.
const MaxCorrelation = 128

// ParseGroup accepts 1–64 characters of [a-zA-Z0-9_-].
func ParseGroup(s string) (Group, error) {
	if letters := lower + strings.ToUpper(lower) + digits + "_-"; !made(s, 64, letters, letters) {
		return "", fmt.Errorf("group %.80q: use 1–64 letters, digits, _ or -", s)
	}
	return Group(s), nil
}

// ParseSessionID accepts 1–40 characters of [a-z0-9-], not starting with a dash.
func ParseSessionID(s string) (SessionID, error) {
	if !made(s, 40, lower+digits, lower+digits+"-") {
		return "", fmt.Errorf("session %.80q: use 1–40 lower-case letters, digits or dashes", s)
	}
	return SessionID(s), nil
}

// ParsePluginName accepts 1–64 characters of [a-z0-9_-].
func ParsePluginName(s string) (PluginName, error) {
	if !made(s, 64, lower+digits, lower+digits+"_-") {
		return "", fmt.Errorf("plugin %.80q: use 1–64 lower-case letters, digits, _ or -", s)
	}
	return PluginName(s), nil
}

// ParseToolName accepts 1–64 characters of [a-z0-9_], starting with a letter.
func ParseToolName(s string) (ToolName, error) {
	if !made(s, 64, lower, lower+digits+"_") {
		return "", fmt.Errorf("tool %.80q: use 1–64 lower-case letters, digits or _, starting with a letter", s)
	}
	return ToolName(s), nil
}

// ParseCapabilityID accepts 2–8 dotted parts of [a-z0-9_-].
func ParseCapabilityID(s string) (CapabilityID, error) {
	parts := strings.Split(s, ".")
	bad := func(part string) bool { return !made(part, 64, lower+digits, lower+digits+"_-") }
	if len(parts) < 2 || len(parts) > 8 || slices.ContainsFunc(parts, bad) {
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
