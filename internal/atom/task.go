package atom

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// The limits of a task.
const (
	// MaxLines is the longest task file. What is longer is material, which
	// belongs into a file of the project that the task names.
	MaxLines = 4000
	// MaxBody is the longest text of a task, in bytes: with its fragments it
	// still fits into one argument of a program.
	MaxBody = 64 << 10
	// maxID is the longest agent id, in bytes.
	maxID = 64
	// maxEntry is the longest entry of a list, in bytes.
	maxEntry = 1024
)

// Task is a task spec (S-09): what one agent is asked to do, in which role and within what.
// ParseTask makes it. A key that is absent means none, so that a scope without a whitelist allows
// nothing and one without a denylist denies nothing more.
type Task struct {
	// Parameters are the task's keys; Whitelist and Denylist are never nil.
	// AgentID is empty where whoever runs the task is to allocate one.
	Parameters
	// Parent is the agent on whose behalf the task is done; empty means none.
	Parent string
	// Body is what is asked for, in words.
	Body string
}

// NewTask is a task that has a role and words alone: no lists, and what its role requires
// of them is missing.
func NewTask(role, body string) (Task, error) {
	t := Task{Parameters: Parameters{Role: role, Whitelist: []string{}, Denylist: []string{}}, Body: body}
	return t, t.check(false, false)
}

// ParseTask reads a task's TOML. A role and a body are required; unknown keys
// are errors that name the line.
func ParseTask(data []byte) (Task, error) {
	if lines := bytes.Count(data, []byte("\n")); lines > MaxLines {
		return Task{}, fmt.Errorf("the task has %d lines, over the limit of %d: put long material into a file of the project and name it", lines, MaxLines)
	}
	f, meta, err := decodeTask(data)
	if err != nil {
		return Task{}, err
	}
	p, err := f.parameters(meta)
	if err != nil {
		return Task{}, err
	}
	p.Whitelist, p.Denylist = append([]string{}, p.Whitelist...), append([]string{}, p.Denylist...)
	for _, list := range []*[]string{&p.Commands, &p.CheckCrates, &p.TestCrates, &p.ReportFields} {
		if len(*list) == 0 {
			*list = nil // empty and absent mean the same here
		}
	}
	t := Task{Parameters: p, Parent: f.Task.ParentAgent, Body: f.Body.Text}
	if err := t.check(meta.IsDefined("task", "agent-id"), meta.IsDefined("task", "parent-agent")); err != nil {
		return Task{}, err
	}
	return t, nil
}

// check holds the texts of a task; named and nested say which ids are there.
func (t Task) check(named, nested bool) error {
	if t.Role == "" {
		return errors.New("task.role is missing: nacre role list shows the roles there are")
	}
	if err := CheckSlug(t.Role); err != nil {
		return fmt.Errorf("task.role: %w", err)
	}
	if named {
		if err := CheckAgentID(t.AgentID); err != nil {
			return fmt.Errorf("task.agent-id: %w", err)
		}
	}
	if nested {
		if err := CheckAgentID(t.Parent); err != nil {
			return fmt.Errorf("task.parent-agent: %w; leave it out where there is none", err)
		}
		if strings.EqualFold(t.Parent, t.AgentID) {
			return fmt.Errorf("task.parent-agent is the agent itself, %q", t.AgentID)
		}
	}
	if t.Language != "" {
		if err := CheckSlug(t.Language); err != nil {
			return fmt.Errorf("verification.language: %w", err)
		}
	}
	return checkBody(t.Body)
}

func checkBody(body string) error {
	switch {
	case strings.TrimSpace(body) == "":
		return errors.New("body.text is missing: say what is to be done")
	case len(body) > MaxBody:
		return fmt.Errorf("body.text has %d bytes, over the limit of %d: put long material into a file of the project and name it", len(body), MaxBody)
	}
	for _, r := range body {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || unicode.Is(unicode.Cf, r) && !joins(r) {
			return fmt.Errorf("body.text has a character that cannot be seen (%U)", r)
		}
	}
	return nil
}

// joins tells the two characters that cannot be seen and that scripts and
// emoji need.
func joins(r rune) bool { return r == '\u200c' || r == '\u200d' }

// CheckSlug holds the name of a role, or half of an atom's, against S-01.
func CheckSlug(name string) error {
	if !half().MatchString(name) {
		return fmt.Errorf("%q is no name: write a-z, 0-9 and -, from a letter, 64 at most", clip(name))
	}
	return nil
}

// CheckAgentID accepts 1–64 of [A-Za-z0-9._-] that begin with a letter or a
// digit and can be a folder's name and a part of a branch's everywhere.
func CheckAgentID(id string) error {
	return idError(id, whyNoAgentID(id))
}

func idError(id, why string) error {
	if why == "" {
		return nil
	}
	return fmt.Errorf("agent id %q: %s; write 1–%d letters, digits, ., _ or -, from a letter or a digit", clip(id), why, maxID)
}

func whyNoAgentID(id string) string {
	switch {
	case id == "":
		return "it is empty"
	case len(id) > maxID:
		return "its length is over the limit"
	case strings.Contains(id, ".."):
		return "it has '..'"
	}
	for _, r := range id {
		if why := whyNoRune(r); why != "" {
			return why
		}
	}
	stem, _, _ := strings.Cut(strings.ToLower(id), ".")
	switch {
	case strings.IndexByte("._-", id[0]) >= 0:
		return "its first char is no letter or digit"
	case isDevice(stem):
		return "it names a device on windows"
	case strings.HasSuffix(id, "."), strings.HasSuffix(strings.ToLower(id), ".lock"):
		return "it ends as no branch may"
	}
	return ""
}

func whyNoRune(r rune) string {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
		return ""
	case r == '/', r == ':':
		return "it has '" + string(r) + "'"
	case r == '\\':
		return "it has a backslash"
	case r == 0:
		return "it has a NUL"
	case unicode.IsSpace(r):
		return "it has whitespace"
	case r > unicode.MaxASCII:
		return "it is non-ASCII"
	}
	return "a character is not in the charset"
}

// isDevice knows the names that Windows keeps for itself, in lower case.
func isDevice(stem string) bool {
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	prefix, number := stem[:min(3, len(stem))], stem[min(3, len(stem)):]
	return (prefix == "com" || prefix == "lpt") && len(number) == 1 && number >= "1" && number <= "9"
}

// Canonical is the task in one spelling: TOML with its keys in a fixed order,
// lists as they are, and nothing that the file only decorates. ParseTask reads
// it back as the same task. It is what spawn pins.
func (t Task) Canonical() []byte {
	var b bytes.Buffer
	b.WriteString("[task]\n")
	text(&b, "role", t.Role)
	text(&b, "agent-id", t.AgentID)
	text(&b, "parent-agent", t.Parent)
	b.WriteString("\n[scope]\n")
	texts(&b, "files-whitelist", t.Whitelist)
	texts(&b, "files-denylist", t.Denylist)
	number(&b, "max-deletes", t.MaxDeletes)
	b.WriteString("\n[verification]\n")
	texts(&b, "cargo-check-crates", t.CheckCrates)
	texts(&b, "cargo-test-crates", t.TestCrates)
	number(&b, "test-count-min", t.TestCount)
	if t.AllowDepBump {
		b.WriteString("allow-dep-bump = true\n")
	}
	text(&b, "language", t.Language)
	texts(&b, "commands", t.Commands)
	number(&b, "max-file-lines", t.MaxFileLines)
	number(&b, "max-function-lines", t.MaxFunctionLines)
	b.WriteString("\n[output]\n")
	texts(&b, "report-fields-required", t.ReportFields)
	b.WriteString("\n[body]\n")
	text(&b, "text", t.Body)
	return b.Bytes()
}

// SpecSHA is the digest of the canonical form, in hex. Tasks with one digest
// ask for the same.
func (t Task) SpecSHA() string {
	sum := sha256.Sum256(t.Canonical())
	return hex.EncodeToString(sum[:])
}

func text(b *bytes.Buffer, key, value string) {
	if value != "" {
		fmt.Fprintf(b, "%s = %s\n", key, quoteTOML(value))
	}
}

func number(b *bytes.Buffer, key string, value int) {
	if value != 0 {
		b.WriteString(key + " = " + strconv.Itoa(value) + "\n")
	}
}

// texts writes a list that is there, be it empty.
func texts(b *bytes.Buffer, key string, values []string) {
	if values == nil {
		return
	}
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = quoteTOML(value)
	}
	b.WriteString(key + " = [" + strings.Join(quoted, ", ") + "]\n")
}
