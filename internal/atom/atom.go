// Package atom promises to read capability atoms strictly (S-01 to S-04). It reads what one
// declares at each of its four layers (prompt text, tool gate, operating system, verifier), its
// parameters and where it comes from. An unknown key, a missing text or an unknown handler is an
// error that names the file. It enforces nothing: rooms that gate, seal and verify read what it
// says.
package atom

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The limits of an atom's files.
const (
	// MaxFile is the largest file of an atom or a task, in bytes.
	MaxFile = 256 << 10
	// MaxWords is the longest text fragment (S-03).
	MaxWords = 200
	// maxList is the longest list in a file.
	maxList = 1024
)

// ID names an atom: <category>::<slug>.
type ID string

var half = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`) })

// ParseID reads an atom's name (S-01).
func ParseID(name string) (ID, error) {
	category, slug, ok := strings.Cut(name, "::")
	if !ok || !half().MatchString(category) || !half().MatchString(slug) {
		return "", fmt.Errorf("%q is no atom's name: write <category>::<slug>, each of a-z, 0-9 and -, from a letter, 64 at most", clip(name))
	}
	return ID(name), nil
}

// Category is the half before the colons.
func (id ID) Category() string {
	category, _, _ := strings.Cut(string(id), "::")
	return category
}

// Slug is the half behind the colons.
func (id ID) Slug() string {
	_, slug, _ := strings.Cut(string(id), "::")
	return slug
}

// path is where an atom lies below capabilities/.
func (id ID) path() string { return id.Category() + "/" + id.Slug() }

// clip shortens foreign text for an error.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// canonicalName resolves the names that the seed has retired.
func canonicalName(name string) string {
	switch name {
	case "tools::read-only":
		return "tools::deny-tools"
	case "tools::cargo-only-bash":
		return "tools::bash-allowlist"
	}
	return name
}

// Severity is what a gate's refusal does. The zero value blocks.
type Severity uint8

// The severities, from the strictest (S-02).
const (
	Block    Severity = iota // exit 2
	Warn                     // exit 0, and the reason on standard error
	Advisory                 // a log entry only
)

var severityNames = [...]string{"block", "warn", "advisory"}

func (s Severity) String() string {
	if int(s) >= len(severityNames) {
		return severityNames[Block]
	}
	return severityNames[s]
}

// Callable is what may be called under an atom.
type Callable struct {
	// Forbidden are patterns of commands that may not be called.
	Forbidden []string
	// Denied are tools that may not be called.
	Denied []string
	// Tools are the only tools that may be called; empty means no such limit.
	Tools []string
	// Commands are patterns of the only commands that may be called, for the
	// gate bash-allowlist.
	Commands []string
}

// Atom is one restriction with all its layers. An atom is read by a Library;
// the zero value is none.
type Atom struct {
	ID          ID
	Version     string
	Description string
	Rationale   string
	// Text is the prompt fragment.
	Text string
	// Accepts are the task's keys that parameterise the atom.
	Accepts []string
	Callable
	Gate    Gate
	OS      OS
	Verify  Verifier
	Lineage Lineage
	// BuiltIn says that the atom ships with nacre.
	BuiltIn bool

	source, text []byte
}

// Gate is the layer that decides on a tool call before it happens.
type Gate struct {
	// Handler names the built-in gate; empty means none.
	Handler string
	// Event is when the agent's program asks, such as PreToolUse:Bash.
	Event    string
	Severity Severity
	// BypassEnv is a variable of the orchestrator's own environment that,
	// with the value 1, lets a refused call pass.
	BypassEnv string
}

// OS is what the operating system holds, as data for whoever computes a
// sandbox. A word with a leading $ stands for that list of the task.
type OS struct {
	// Confined says that Writable is meant: nothing else may be written.
	Confined bool
	Writable []string
	// ReadOnly are globs of what may not be written.
	ReadOnly []string
	// HidePrograms are not there to be run.
	HidePrograms []string
	// Unless is a key of the task that, when true, lifts the layer.
	Unless string
}

// IsZero says that the layer is not declared.
func (o OS) IsZero() bool {
	return !o.Confined && len(o.ReadOnly) == 0 && len(o.HidePrograms) == 0
}

// Verifier is the layer that checks what came back.
type Verifier struct {
	// Handler names the built-in verifier; empty means none.
	Handler string
	// RunMode is worktree, simulated-merge or both.
	RunMode string
	// When is on-return or per-tool-call.
	When string
}

// Lineage says what an atom was forked from.
type Lineage struct {
	ForkFrom string
	Parents  []string
	Creator  string
	// Created is a time in RFC 3339, in UTC.
	Created string
}

// HasGate says that a call can be refused by this atom.
func (a Atom) HasGate() bool {
	return a.Gate.Handler != "" || len(a.Forbidden) > 0 || len(a.Denied) > 0 || len(a.Tools) > 0
}

// Needs are the task's lists without which the atom's gate cannot decide.
func (a Atom) Needs() []string {
	switch a.Gate.Handler {
	case "files-whitelist":
		return []string{"files-whitelist"}
	case "files-denylist":
		return []string{"files-denylist"}
	}
	return nil
}

// checkText holds a fragment against S-03.
func checkText(text []byte) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("the text is not UTF-8")
	}
	words := len(strings.Fields(string(text)))
	if words == 0 {
		return fmt.Errorf("the text is empty: say what the agent must not do, and why")
	}
	if words > MaxWords {
		return fmt.Errorf("the text has %d words, over the limit of %d: shorten it", words, MaxWords)
	}
	for _, r := range string(text) {
		if unicode.Is(unicode.Cc, r) && r != '\n' && r != '\t' && r != '\r' || unicode.Is(unicode.Cf, r) {
			return fmt.Errorf("the text has a character that cannot be seen (%U)", r)
		}
	}
	return nil
}
