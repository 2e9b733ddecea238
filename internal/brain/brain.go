// Package brain promises one seam for every kind of agent: a brain is given a
// turn and yields a well-formed stream of events, whatever the program behind
// it does (M-02). It is the one room that knows the names of providers.
//
// It does not start processes, build sandboxes or hold model keys. An adapter says what it needs
// inside as a [Launch], is handed the running [Process], and speaks its protocol over three pipes.
// What a brain reports is a claim of untrusted code; what happened is what the host's own records
// say.
package brain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/guard"
)

// Paths inside every sandbox that adapters rely on.
const (
	// Program is the static binary of this module that brains run as or use.
	Program = "/opt/nacre/bin/brain"
	// Home is writable and lost when the sandbox ends.
	Home = "/home/agent"
	// RoleDir holds the read-only instructions and skills of a turn.
	RoleDir = "/opt/nacre/role"
	// GatesFile holds the gates of the turn's task, read-only; missing means none.
	GatesFile = RoleDir + "/gates.json"
	// GateSocket is where the host hears inside of what the gates refuse.
	GateSocket = nacre.SocketDir + "/" + nacre.GateSocket
	// GateCommand makes Program answer one hook by GatesFile.
	GateCommand = "gate"
)

// Limits of a turn.
const (
	// MaxTask is the longest task or system text, in bytes.
	MaxTask = 1 << 20
	// MaxSkills is how many skills a turn may carry.
	MaxSkills = 256
	// MaxSkillSize is the longest skill text, in bytes.
	MaxSkillSize = 256 << 10
	// MaxTurns is the largest turn limit that can be asked for.
	MaxTurns = 10_000
)

// Turn is one piece of work for a brain.
type Turn struct {
	// Task is what to do, in the operator's words. Required, except for replay.
	Task string
	// System is added to the brain's own instructions.
	System string
	Skills []Skill
	// Model names the model; empty means the brain's default.
	Model string
	// SessionToken is what the model gateway knows this session by. It is no
	// model key, opens nothing else, and is worthless outside the session.
	SessionToken nacre.Secret
	// Resume is the Session of an earlier done event; empty starts afresh.
	Resume string
	// MaxTurns limits the model's turns; zero means the brain's own limit.
	MaxTurns int
	// MaxTokens, MaxTime and Context hold for the loops of nacre's own alone. They are the tokens
	// of all requests, the time of the turn (whole seconds), and how many tokens the model can read
	// at once. Zero means the loop's own limit.
	MaxTokens int64
	MaxTime   time.Duration
	Context   int64
	// Recording is what the replay brain plays.
	Recording []byte
	// Gates is the file of the task's gates, as package guard writes it; nil
	// means that there are none. Each brain asks them before each of its calls.
	Gates []byte
	// Offers tells whether the task's role lets a tool, by the name that Claude Code has for it, be
	// called at all. Nil means that it lets all. The loops of nacre's own ask Gates.
	Offers func(tool string) bool
}

// offered are the tools of a list that the turn's role lets be called.
func (t Turn) offered(tools []string) []string {
	return slices.DeleteFunc(slices.Clone(tools), func(tool string) bool { return t.Offers != nil && !t.Offers(tool) })
}

// refused are the tools that Claude Code must not have in the turn.
func (t Turn) refused() []string {
	offered := t.offered(claudeTools)
	withheld := slices.DeleteFunc(slices.Clone(claudeTools), func(tool string) bool { return slices.Contains(offered, tool) })
	return append(slices.Clone(claudeRefused), withheld...)
}

// gateFiles are what the gates need inside.
func (t Turn) gateFiles() []File {
	if t.Gates == nil {
		return nil
	}
	return []File{{Path: GatesFile, Data: t.Gates, Mode: 0o444}}
}

// gateHook is the line by which another's program asks the gates before each
// call. Whatever becomes of it, what is not a clear yes is a no.
const gateHook = Program + " " + GateCommand + " || exit 2"

// hookSeconds is how long the gates may take. Programs let a call through whose
// hook takes too long: it is above what a person takes who is asked of a refusal (M-65).
const hookSeconds = 7 * 24 * 3600

// preToolUse are the hooks, as Claude Code and Codex read them alike, that ask
// the task's gates before every call.
func preToolUse() map[string]any {
	return map[string]any{"PreToolUse": []any{map[string]any{
		"matcher": "*", "hooks": []any{map[string]any{"type": "command", "command": gateHook, "timeout": hookSeconds}},
	}}}
}

// Skill is a text that teaches the brain to use something, such as `ipc`.
type Skill struct {
	// Name is 1–64 characters of [a-z0-9_-].
	Name string
	// Markdown is the SKILL.md, front matter included.
	Markdown string
}

// Launch is what a brain needs inside the sandbox. The composition root turns
// it into the posture; nothing in it is a secret of the host.
type Launch struct {
	Argv []string
	// Env is added to the posture's environment as KEY=value and wins over it.
	Env []string
	// Mounts are read-only binds of the brain's program.
	Mounts []nacre.Mount
	// Files must exist inside, read-only, before the program starts.
	Files []File
	// State is the folder inside in which the program keeps what Resume goes on
	// from; empty where it keeps nothing there.
	State string
	// Refused is told of each call that the turn's gates refuse, before the agent is,
	// by several goroutines at once; nil where nobody is told. Whoever starts the
	// program hears of them on the gates' socket.
	Refused func(guard.Refusal)
}

// File is a read-only file inside the sandbox.
type File struct {
	// Path is absolute and clean.
	Path string
	Data []byte
	// Mode is the permission bits, such as 0o444.
	Mode uint32
}

// Process is a started program with its pipes. Wait may be called while the pipes are still read
// and must not discard what they hold. After the program ended, or was killed with everything it
// started, Stdout and Stderr reach their end. Kill may be called at any time, more than once, and
// by any goroutine. Readers that can be closed are closed when a program that ended left its pipes
// open.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader
	// Wait returns the exit code, 128+n for a program ended by signal n.
	Wait() (code int, err error)
	Kill() error
}

// Brain is an adapter for one kind of agent.
type Brain interface {
	// Name is what `--brain` takes.
	Name() string
	// Detect looks at this machine, without network.
	Detect(ctx context.Context) Status
	// Launch is pure but for looking up the brain's program; it refuses a turn
	// that could not be carried out.
	Launch(t Turn) (Launch, error)
	// Converse carries out the turn over p's pipes and returns when p has
	// ended: by itself, or killed because ctx ended or it broke the protocol.
	// emit is called by one goroutine at a time with a well-formed stream (see
	// [Event]), whose one terminal event comes last. The error is nil after
	// done, and a *[Failure] after error.
	Converse(ctx context.Context, p Process, t Turn, emit func(Event)) error
}

// Status says whether a brain can be used here, and what to do when not.
type Status struct {
	Installed bool
	SignedIn  bool
	Version   string
	// Path is the program on the host.
	Path string
	// KeyFrom says where the gateway's credential comes from. Never its value.
	KeyFrom string
	// Why says what is missing, and Next is the command that helps.
	Why  string
	Next string
}

// Ready reports whether the brain can be used.
func (s Status) Ready() bool { return s.Installed && s.SignedIn }

// Options configure the brains of an installation. The zero value finds
// programs nowhere and is signed in to nothing.
type Options struct {
	// ClaudePath is the Claude Code program; it wins over Path.
	ClaudePath string
	// CodexPath is the Codex program; it wins over Path.
	CodexPath string
	// ACP is the operator's own agent; the zero value is none.
	ACP ACP
	// Path is the list of directories in which programs are looked up.
	Path string
	// KeyFrom says where the model gateway has its credential from, such as
	// "ANTHROPIC_API_KEY"; empty means that there is none.
	KeyFrom string
	// OpenAIFrom says the same of an upstream that speaks Chat Completions, which may need no key,
	// such as "OPENAI_API_KEY" or "http://localhost:11434 needs none". Empty means that there is no
	// such upstream.
	OpenAIFrom string
	// ResponsesFrom says the same of an upstream that speaks Responses, which is
	// all that Codex speaks.
	ResponsesFrom string
	// KeyHelp, OpenAIHelp and ResponsesHelp say how to give those the key that
	// the operator's config names; empty where it names none.
	KeyHelp, OpenAIHelp, ResponsesHelp string
	// Responses says that this upstream is asked in OpenAI's Responses instead.
	Responses bool
	// Model is what the operator named; the brain openai has no other.
	Model string
}

// All returns every brain in the order in which they are tried (M-03).
func All(o Options) []Brain {
	return []Brain{NewClaude(o), NewCodex(o), NewACP(o), NewAnthropic(o), NewOpenAI(o), NewReplay()}
}

// Named returns the brain that `--brain` names.
func Named(name string, o Options) (Brain, error) {
	var known []string
	for _, b := range All(o) {
		if b.Name() == name {
			return b, nil
		}
		known = append(known, b.Name())
	}
	return nil, fmt.Errorf("unknown brain %.40q: one of %s", name, strings.Join(known, ", "))
}

// Detect returns the first brain that is installed and signed in. Replay is
// never chosen: it needs a recording. Where none is ready, the error says what
// the first brain lacks that has a key, or else the first.
func Detect(ctx context.Context, o Options) (Brain, Status, error) {
	var first Status
	for i, b := range All(o) {
		if b.Name() == ReplayName {
			continue
		}
		status := b.Detect(ctx)
		if status.Ready() {
			return b, status, nil
		}
		if i == 0 || status.SignedIn && !first.SignedIn {
			first = status
		}
	}
	return nil, first, fmt.Errorf("no brain is ready: %s · %s", first.Why, first.Next)
}

// validate refuses what no brain can carry out.
func (t Turn) validate() error {
	switch {
	case len(t.Task) > MaxTask:
		return fmt.Errorf("task of %d bytes: at most %d", len(t.Task), MaxTask)
	case len(t.System) > MaxTask:
		return fmt.Errorf("instructions of %d bytes: at most %d", len(t.System), MaxTask)
	case len(t.Skills) > MaxSkills:
		return fmt.Errorf("%d skills: at most %d", len(t.Skills), MaxSkills)
	case t.MaxTurns < 0 || t.MaxTurns > MaxTurns:
		return fmt.Errorf("turn limit %d: use 0–%d", t.MaxTurns, MaxTurns)
	case t.MaxTokens < 0 || t.MaxTime < 0 || t.Context < 0:
		return errors.New("a limit is below 0")
	}
	var names []string
	for _, s := range t.Skills {
		if _, err := nacre.ParsePluginName(s.Name); err != nil {
			return fmt.Errorf("skill %.80q: use 1–64 lower-case letters, digits, _ or -", s.Name)
		}
		if len(s.Markdown) > MaxSkillSize {
			return fmt.Errorf("skill %s of %d bytes: at most %d", s.Name, len(s.Markdown), MaxSkillSize)
		}
		if slices.Contains(names, s.Name) {
			return fmt.Errorf("skill %s is there twice", s.Name)
		}
		names = append(names, s.Name)
	}
	return nil
}
