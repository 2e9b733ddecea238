package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/dna"
)

// Limits of a row.
const (
	// MaxSummary is the longest summary or reason kept, in bytes. What is longer is cut, since a
	// run must not be lost over its report.
	MaxSummary = 4000
	// MaxText is the longest task or prompt, in bytes.
	MaxText = 4 << 20
	// maxPath is the longest path of a project, in bytes: what the system opens.
	maxPath = 4096
	// maxWord is the longest other text of a row, in bytes.
	maxWord = 512
)

// Status is where a run stands.
type Status string

// The statuses. A run begins as running. It is interrupted while no session works on it,
// until one goes on or it is given up; nothing else leads back.
const (
	Running     Status = "running"
	Interrupted Status = "interrupted"
	Done        Status = "done"
	Failed      Status = "failed"
	Merged      Status = "merged"
	Rejected    Status = "rejected"
)

// ParseStatus reads a status.
func ParseStatus(s string) (Status, error) {
	switch Status(s) {
	case Running, Interrupted, Done, Failed, Merged, Rejected:
		return Status(s), nil
	}
	return "", fmt.Errorf("%.40q is no status: write running, interrupted, done, failed, merged or rejected", s)
}

// Outcome is what is known of a run's work from signals that its agent cannot
// forge (M-50). Only [StrongCheck], [PersonDecision] and [WeakCheck] make one;
// the zero value is none. An agent's own report makes none.
type Outcome struct{ verdict, by, who string }

// StrongCheck is the host's verdict of a check whose report the code under
// test cannot forge (S-13). It counts.
func StrongCheck(held bool) Outcome { return Outcome{verdict: verdictOf(held), by: "strong"} }

// byPerson is who a person's decision is by.
const byPerson = "person"

// PersonDecision is what a person decided, and counts. who names them, for
// those who read the ledger.
func PersonDecision(held bool, who string) Outcome {
	return Outcome{verdict: verdictOf(held), by: byPerson, who: who}
}

// WeakCheck is the verdict of a check that runs in the process of the code
// under test. It is kept and shown, and does not count.
func WeakCheck(held bool) Outcome { return Outcome{verdict: verdictOf(held), by: "weak"} }

func verdictOf(held bool) string {
	if held {
		return "held"
	}
	return "failed"
}

// Verified reports whether the work is verified: it held, by a signal that counts.
func (o Outcome) Verified() bool { return o.Counts() && o.verdict == "held" }

// Counts reports whether the outcome may be learned from: it came from a
// strong check or a person, whatever it says.
func (o Outcome) Counts() bool { return o.by == "strong" || o.by == "person" }

// IsZero reports whether nothing is known.
func (o Outcome) IsZero() bool { return o == Outcome{} }

// String says what is known and from where, such as "held (strong check)".
func (o Outcome) String() string {
	switch o.by {
	case "strong":
		return o.verdict + " (strong check)"
	case "person":
		return strings.TrimSpace(o.verdict+" (person") + suffix(o.who) + ")"
	case "weak":
		return o.verdict + " (weak check: does not count)"
	}
	return "not verified"
}

func suffix(who string) string {
	if who == "" {
		return ""
	}
	return " " + who
}

// MarshalJSON gives {"verdict","by","who","counts"}; null where nothing is known.
func (o Outcome) MarshalJSON() ([]byte, error) {
	if o.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Verdict string `json:"verdict"`
		By      string `json:"by"`
		Who     string `json:"who,omitempty"`
		Counts  bool   `json:"counts"`
	}{o.verdict, o.by, o.who, o.Counts()})
}

// Anchor is the record of the audit chain that a change of a row stands on.
type Anchor struct {
	Chain string `json:"chain"`
	Seq   uint64 `json:"seq"`
	// Hash is the record's, in hex.
	Hash string `json:"hash"`
}

func (a Anchor) check() error {
	if a.Chain == "" || a.Hash == "" || a.Seq > 1<<53 {
		return fmt.Errorf("%w: it has no record in the audit chain to stand on", ErrInvalid)
	}
	return errors.Join(checkWord("chain", a.Chain), checkWord("hash", a.Hash))
}

// Start is a run that begins.
type Start struct {
	// ID is the agent's; a later run may bear it again. Role is required.
	ID, Role string
	// Parent is the agent on whose behalf it runs; empty means none.
	Parent string
	// Branch is where its work will be, Session whose sandbox it runs in.
	Branch, Session string
	// Task is what was pinned, in its canonical form, and SpecSHA its digest.
	Task    []byte
	SpecSHA string
	Prompt  string
	// DNA names this run and no other.
	DNA string
	// Provider and Model are what it is to be run by; Finish may correct them.
	Provider, Model string
	Anchor          Anchor
	// At is when it began; zero means now.
	At time.Time
}

// End is how a run came to its end.
type End struct {
	// Status is Done or Failed.
	Status Status
	// Summary is what came of it, in the agent's or the host's words: a claim.
	Summary string
	// CostMicroUSD is what the gateway metered, in millionths of a dollar.
	CostMicroUSD        int64
	TokensIn, TokensOut int64
	// Project is the folder that it worked on, and Tries how often its agent did. Tries is 0 where
	// the run did not come to a result of its own, from which nothing is estimated.
	Project string
	Tries   int
	// Uses are the powers that it used.
	Uses Uses
	// Provider, Model and Branch replace those of the start where not empty.
	Provider, Model, Branch string
	Outcome                 Outcome
	Anchor                  Anchor
	// At is when it ended; zero means now.
	At time.Time
}

// Landing is what became of a run's work: merged or rejected.
type Landing struct {
	// Reason says why, for those who read the ledger.
	Reason string
	// Outcome, where not zero, is what is known by now. A weak one does not
	// take the place of one that counts.
	Outcome Outcome
	Anchor  Anchor
}

// Thought is what a run's model was, and what it took: millionths of a dollar, and tokens.
type Thought struct {
	Cost      int64  `json:"cost_microusd"`
	TokensIn  int64  `json:"tokens_in"`
	TokensOut int64  `json:"tokens_out"`
	Provider  string `json:"provider,omitempty"`
	Model     string `json:"model,omitempty"`
}

// Run is one row.
type Run struct {
	ID       string `json:"id"`
	Parent   string `json:"parent,omitempty"`
	Role     string `json:"role"`
	Branch   string `json:"branch,omitempty"`
	Session  string `json:"session,omitempty"`
	SpecSHA  string `json:"spec_sha"`
	DNA      string `json:"dna"`
	Status   Status `json:"status"`
	Started  string `json:"started"`
	Finished string `json:"finished,omitempty"`
	Summary  string `json:"summary,omitempty"`
	Thought
	Outcome Outcome `json:"outcome"`

	seq, parentSeq int64
}

// Change is one step of a row, and the record it stands on.
type Change struct {
	Status Status `json:"status"`
	At     string `json:"at"`
	Reason string `json:"reason,omitempty"`
	Anchor Anchor `json:"anchor"`
}

// Entry is a row with its texts and its history.
type Entry struct {
	Run
	Task    string   `json:"task"`
	Prompt  string   `json:"prompt"`
	Changes []Change `json:"changes"`
	// Forgotten says that what was asked was erased ([Ledger.Forget]).
	Forgotten bool `json:"forgotten,omitempty"`
}

// Node is a row with those that ran on its behalf.
type Node struct {
	Run
	Children []*Node `json:"children"`
}

// Why an operation was refused.
var (
	ErrNotFound   = errors.New("no such run")
	ErrTransition = errors.New("a run only moves forward")
	ErrTaken      = errors.New("there is such a run already")
	ErrInvalid    = errors.New("invalid row")
)

// check holds a start against what a row may be.
func (s Start) check() error {
	if err := atom.CheckAgentID(s.ID); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if s.Parent != "" {
		if err := atom.CheckAgentID(s.Parent); err != nil {
			return fmt.Errorf("%w: parent: %w", ErrInvalid, err)
		}
	}
	if err := atom.CheckSlug(s.Role); err != nil {
		return fmt.Errorf("%w: role: %w", ErrInvalid, err)
	}
	if d, err := dna.Parse(s.DNA); err != nil || d.Role != s.Role {
		return fmt.Errorf("%w: the DNA %.80q is not one of role %s", ErrInvalid, s.DNA, s.Role)
	}
	if digest(s.Task) != s.SpecSHA {
		return fmt.Errorf("%w: spec_sha is not the digest of the task", ErrInvalid)
	}
	if len(s.Task) > MaxText || len(s.Prompt) > MaxText || !utf8.Valid(s.Task) || !utf8.ValidString(s.Prompt) {
		return fmt.Errorf("%w: the task or the prompt is no text of at most %d bytes", ErrInvalid, MaxText)
	}
	return errors.Join(checkWord("branch", s.Branch), checkWord("session", s.Session), checkWord("provider", s.Provider), checkWord("model", s.Model), s.Anchor.check())
}

func (e End) check() error {
	if e.Status != Done && e.Status != Failed {
		return fmt.Errorf("%w: a run ends done or failed, not %q", ErrTransition, e.Status)
	}
	if min(e.CostMicroUSD, e.TokensIn, e.TokensOut, int64(e.Tries)) < 0 {
		return fmt.Errorf("%w: cost, tokens and tries are zero or more", ErrInvalid)
	}
	if len(e.Project) > maxPath {
		return fmt.Errorf("%w: the project's path has more than %d bytes", ErrInvalid, maxPath)
	}
	return errors.Join(checkWord("branch", e.Branch), checkWord("provider", e.Provider), checkWord("model", e.Model), e.Outcome.check(), e.Anchor.check(), e.Uses.check())
}

func (o Outcome) check() error { return checkWord("who", o.who) }

func checkWord(what, word string) error {
	if len(word) > maxWord || !utf8.ValidString(word) || strings.ContainsFunc(word, unicode.IsControl) {
		return fmt.Errorf("%w: %s is %.80q: write one line of at most %d bytes", ErrInvalid, what, word, maxWord)
	}
	return nil
}

// cut makes valid text of bounded length.
func cut(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= MaxSummary {
		return s
	}
	end := MaxSummary
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
