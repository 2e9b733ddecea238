package nacre

import "time"

// Step is one thing that a run shows as it happens. Its texts are redacted;
// they come from a sandbox and may hold any character, so whoever prints them
// escapes them.
type Step struct {
	Kind     StepKind     `json:"kind"`
	Name     string       `json:"name,omitempty"`
	Text     string       `json:"text,omitempty"`
	ExitCode *int         `json:"exit_code,omitempty"`
	IsError  bool         `json:"is_error,omitempty"`
	Check    *CheckResult `json:"check,omitempty"`
	Verdict  *AtomResult  `json:"verdict,omitempty"`
}

// StepKind says what a step tells.
type StepKind string

// The kinds of step.
const (
	StepSay     StepKind = "say"     // Text the model wrote
	StepTool    StepKind = "tool"    // a tool Name about to be used, Text sums up its input
	StepResult  StepKind = "result"  // how that went: Text, ExitCode, IsError
	StepRetry   StepKind = "retry"   // a model request that is tried again
	StepStage   StepKind = "stage"   // the run goes on to Name
	StepCheck   StepKind = "check"   // Check has a verdict
	StepVerdict StepKind = "verdict" // Verdict is what an atom's verifier said
	StepMerge   StepKind = "merge"   // Text says what became of the landing
)

// CheckResult is the verdict of one check, formed outside of the agent's sandbox.
type CheckResult struct {
	Command  string        `json:"command"`
	ExitCode int           `json:"exit_code"`
	TimedOut bool          `json:"timed_out,omitempty"`
	Tail     string        `json:"tail,omitempty"` // what it printed last, redacted
	Duration time.Duration `json:"duration_ns"`
	// Strength is "weak" where the check runs in the process of the code under
	// test, which could forge its report, and "strong" where it cannot (S-13).
	Strength string `json:"strength"`
}

// Passed reports whether the check held.
func (c CheckResult) Passed() bool { return c.ExitCode == 0 && !c.TimedOut }

// AtomResult is what the verifier of one atom said of a tree (S-14).
type AtomResult struct {
	Capability string `json:"capability"`
	Passed     bool   `json:"passed"`
	// NotRun says that its verifier was not asked, since others had failed.
	NotRun bool `json:"not_run,omitempty"`
	// Strength is "strong" where the code under test could not have forged the
	// verdict, "weak" where it could, and empty where its code did not run.
	Strength string `json:"strength,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// Change is one file that an agent changed.
type Change struct {
	Path string `json:"path"`
	// Kind is "added", "modified", "deleted" or "renamed".
	Kind string `json:"kind"`
	// Warning says why the host may run this file later; empty for most files.
	Warning string `json:"warning,omitempty"`
	// Held says that it does not land before a person has looked at it.
	Held bool `json:"held,omitempty"`
}

// Stage is how far a session's work is carried. The zero value is its end.
type Stage string

// The stages at which work can be left; the session's next opening goes on from there.
const (
	// StageReturned is when the agent has returned.
	StageReturned Stage = "returned"
	// StageVerified is when its work was verified on top of its branch.
	StageVerified Stage = "verified"
)

// RunResult is what became of a run.
type RunResult struct {
	RunWork
	Checks []CheckResult `json:"checks,omitempty"`
	// Atoms are the verdicts on the tree that was verified last.
	Atoms []AtomResult `json:"atoms,omitempty"`
	// Passed says that all that was looked at of that tree held.
	Passed bool `json:"passed"`
	// Verified is the strength of the weakest verdict on what the work does,
	// where all of them held; empty where nothing judged that (M-50).
	Verified string `json:"verified,omitempty"`
	// Report is what the agent said last, redacted: a claim.
	Report string `json:"report,omitempty"`
	// Question is what the agent asks instead of returning work.
	Question string `json:"question,omitempty"`
	// Brain is how the conversation ended: "done", or a class of failure.
	Brain  string `json:"brain"`
	Landed bool   `json:"landed"`
	// Delivered says that a role that changes nothing returned a report that
	// was verified: there is nothing to land.
	Delivered bool `json:"delivered,omitempty"`
	// Reason says why nothing landed, and Next the command that helps.
	Reason string `json:"reason,omitempty"`
	Next   string `json:"next,omitempty"`
	// Cost is what the model gateway metered, in millionths of a dollar.
	Cost int64 `json:"cost_microusd"`
}

// RunWork is what a run made: the commit it began from, its branch, and the tree and
// commit that it ended with.
type RunWork struct {
	Base    string   `json:"base"`
	Branch  string   `json:"branch"`
	Tree    string   `json:"tree,omitempty"`
	Commit  string   `json:"commit,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	// Left are files that do not land, each with the reason.
	Left []string `json:"left,omitempty"`
}

// SessionState is where a session stands.
type SessionState string

// The states of a session.
const (
	SessionOpen    SessionState = "open"
	SessionRunning SessionState = "running"
	SessionDone    SessionState = "done"
	SessionStopped SessionState = "stopped"
	// SessionInterrupted is a session whose process died.
	SessionInterrupted SessionState = "interrupted"
	// SessionNodeLost is a session of another machine whose process is not heard of any more.
	SessionNodeLost SessionState = "node_lost"
	// SessionRemoved is a session whose files were removed. Its name and the names of its
	// chains are all that is kept of it, and no list has it.
	SessionRemoved SessionState = "removed"
)

// SessionStatus is what is known of one session.
type SessionStatus struct {
	ID       SessionID    `json:"id"`
	Group    Group        `json:"group"`
	Kind     string       `json:"kind"` // "run" or "exec"
	Title    string       `json:"title"`
	Project  string       `json:"project,omitempty"`
	Brain    string       `json:"brain,omitempty"`
	State    SessionState `json:"state"`
	Started  time.Time    `json:"started"`
	Finished time.Time    `json:"finished,omitzero"`
	Outcome  string       `json:"outcome,omitempty"`
	// Parent is the session whose agent asked for this one; empty where a person did (M-69).
	Parent SessionID `json:"parent,omitempty"`
	// Resumable says that the session has unfinished work to go on with.
	Resumable bool `json:"resumable,omitempty"`
	// FailedCheck is the check that kept the session's latest work from landing, with
	// the tail of what it printed. A list of sessions leaves it out.
	FailedCheck *CheckResult `json:"failed_check,omitempty"`
}

// Live reports whether the session says that it is at work.
func (s SessionStatus) Live() bool { return s.State == SessionOpen || s.State == SessionRunning }
