// Package verify promises a verdict on work that came back, formed from two clean checkouts that
// the host made: the base and the tree under judgement (S-04, S-13, S-14). Every atom with a
// verifier is held against it; one whose verifier is missing has failed. Commands of the code under
// test run through the function that is handed in, sealed and offline. This room starts no process
// itself and merges nothing.
package verify

import (
	"context"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/report"
)

// Subject is the work to judge.
type Subject struct {
	// Base and Tree are absolute host folders with clean checkouts. Base is what the work is on top
	// of (the recorded base, in pass 2 the target), and Tree is the tree under judgement. They are
	// read, never written.
	Base, Tree string
	// Changes lead from Base to Tree. They are held against the trees: a list
	// that says anything else fails the work.
	Changes []nacre.Change
	// Left are paths in the agent's work that cannot land and are not in Tree,
	// such as a git folder of its own.
	Left []string
	// Task holds the parameters of the task.
	Task atom.Parameters
	// Report is what the agent said last, in its own words: a claim.
	Report []byte
	// Ledger says that the run has its row in the ledger.
	Ledger bool
	// Merged says that Tree is the work on top of its target (pass 2).
	Merged bool
	// Scratch is the host folder in which copies for commands are made, each in
	// a new folder that is gone afterwards; empty means the system's own.
	Scratch string
	// Fetch fetches dependencies; nil fetches none.
	Fetch Fetcher

	// delta is what Judge found to differ.
	delta delta
}

// MaxReport is the longest text that Subject.Report is read of, in bytes.
const MaxReport = report.Max

// Command is one command over the code under test.
type Command struct {
	// Dir is the host folder that is bound, writable, as the working directory.
	Dir string
	// Argv is run as it is; no shell reads it.
	Argv []string
	// Env is added to the sandbox's own.
	Env []string
	// Modules are shown below Dir, where there is an empty folder for each.
	Modules []Module
	// Limit is how long it may take; zero means the documented default.
	Limit time.Duration
}

// Output is what a command left.
type Output struct {
	ExitCode       int
	TimedOut       bool
	Stdout, Stderr []byte // up to MaxOutput each, from the beginning
	Cut            bool   // some of it is missing
	Duration       time.Duration
}

// MaxOutput is how much of each of a command's streams is read, in bytes.
const MaxOutput = 16 << 20

// Runner runs a command sealed, without network, sockets and secrets, and
// returns an error only where the host failed.
type Runner func(ctx context.Context, c Command) (Output, error)

// Strong is a verdict that the code under test cannot forge, Weak one that it
// could: its report was formed in that code's own process (S-13).
const (
	Strong = "strong"
	Weak   = "weak"
)

// Verdict is what one atom's verifier said.
type Verdict struct {
	Capability atom.ID `json:"capability"`
	Passed     bool    `json:"passed"`
	// NotRun says that there is no verdict: its commands were not run, because the
	// files had failed already.
	NotRun   bool   `json:"not_run,omitempty"`
	Strength string `json:"strength,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// Report is what all verifiers said (S-14). It passed only where every verdict
// that was due was formed and is good.
type Report struct {
	Passed   bool      `json:"passed"`
	Failed   []Failure `json:"failed"`
	Verdicts []Verdict `json:"verdicts"`
}

// Failure is one atom that did not hold.
type Failure struct {
	Capability atom.ID `json:"capability"`
	Reason     string  `json:"reason"`
	Detail     string  `json:"detail,omitempty"`
}
