package task

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/report"
)

// Order is a task of the substrate as it was pinned when it was spawned: later
// edits of its files change nothing (S-09).
type Order struct {
	// Agent and Parent are the task's own names; Role is what it may do.
	Agent  string `json:"agent"`
	Parent string `json:"parent,omitempty"`
	Role   string `json:"role"`
	// Body is what was asked for, in the words of whoever wrote the task.
	Body string `json:"body"`
	// Task is the task in its canonical form, SpecSHA its digest, and DNA the
	// name of this run of it.
	Task    string `json:"task"`
	SpecSHA string `json:"spec_sha"`
	DNA     string `json:"dna"`
	// Parameters and Atoms are what gates, sandbox and verifiers hold it against.
	Parameters atom.Parameters `json:"parameters"`
	Atoms      []atom.Atom     `json:"atoms"`
	Gates      guard.Set       `json:"gates"`
	Escalation Escalation      `json:"escalation"`
}

// Escalation says what a refused call does to its run (S-18). The zero value
// lets the agent go on with what it may do.
type Escalation string

// The escalations.
const (
	// FailFast ends the run at the first refusal.
	FailFast Escalation = "fail-fast"
	// AskViaReturn lets the agent return a question instead of work.
	AskViaReturn Escalation = "ask-via-return"
	// Notify tells a person at once, and the run waits for the answer.
	Notify Escalation = "orchestrator-notify"
)

// ErrPaused is why a session's work stops at the stage that was asked for.
var ErrPaused = errors.New("the task was carried as far as it was asked to be")

// endedWell is how a conversation ends in which nothing failed.
const endedWell = "done"

// question is what an agent asks instead of returning work: a field of that
// name in its report. What its strict reader refuses may ask all the same.
func question(said string) string {
	if asked := report.Question([]byte(said)); asked != "" {
		return asked
	}
	text := strings.TrimSpace(said)
	var fields struct {
		Question string `json:"question"`
	}
	if json.Unmarshal([]byte(text), &fields) == nil {
		return strings.TrimSpace(fields.Question)
	}
	front, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return ""
	}
	front, _, ok = strings.Cut(front, "\n---")
	if !ok {
		return ""
	}
	for line := range strings.SplitSeq(front, "\n") {
		if value, ok := strings.CutPrefix(line, "question:"); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}
