package task_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
)

// agent writes one file and is done; it counts how often it was started.
type agent struct {
	dir    string
	starts int
	// more is what it does besides.
	more func(dir string) error
}

func (a *agent) Name() string                            { return "fake" }
func (a *agent) Detect(context.Context) brain.Status     { return brain.Status{} }
func (a *agent) Launch(brain.Turn) (brain.Launch, error) { return brain.Launch{}, nil }

func (a *agent) Converse(context.Context, brain.Process, brain.Turn, func(brain.Event)) error {
	a.starts++
	if a.more != nil {
		if err := a.more(a.dir); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(a.dir, "work.txt"), []byte("done\n"), 0o600)
}

// bench is a project with one commit, and where sessions on it live.
type bench struct {
	t       *testing.T
	paths   registry.Paths
	keys    audit.Keys
	project string
	agent   *agent
	order   *task.Order // of the substrate; nil for a plain run
	moved   int
	paused  nacre.RunResult
}

func newBench(t *testing.T) *bench {
	t.Helper()
	runtime, err := os.MkdirTemp("", "ns") //nolint:usetesting // a unix socket's path holds 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) }) // the system's temporary folder is emptied anyway
	env := map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": runtime}
	b := &bench{t: t, project: t.TempDir(), agent: &agent{}}
	if b.paths, err = registry.ResolvePaths(func(k string) string { return env[k] }); err != nil {
		t.Fatal(err)
	}
	if b.keys, err = audit.LoadKeys(b.paths.Keys()); err != nil {
		t.Fatal(err)
	}
	b.git("init", "-q", "-b", "main")
	b.moves()
	return b
}

func (b *bench) git(args ...string) string {
	b.t.Helper()
	command := exec.CommandContext(b.t.Context(), "git", append([]string{"-C", b.project, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "maintenance.auto=false"}, args...)...)
	command.Env = append(os.Environ(), "GIT_TEMPLATE_DIR=") // no examples of hooks
	out, err := command.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// moves the branch by a commit of a file.
func (b *bench) moves() {
	b.t.Helper()
	b.moved++
	if err := os.WriteFile(filepath.Join(b.project, fmt.Sprintf("mine%d.txt", b.moved)), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "mine")
}

// opens carries the session's work on; check is what happens while it is verified.
func (b *bench) opens(ctx context.Context, check func(), change func(*task.Parts)) (nacre.RunResult, error) {
	b.t.Helper()
	s, err := session.Open(ctx, session.Options{
		Registry: registry.New(b.paths), Keys: b.keys, Now: time.Now,
		EndOrphans: func(string) ([]string, error) { return nil, nil },
		Sandbox:    func(string) (sandbox.Backend, error) { return nil, nil },
		Session:    registry.Session{SessionStatus: nacre.SessionStatus{ID: "s1", Group: "g1", Kind: "run", Started: time.Now()}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.agent.dir, b.paused = filepath.Join(s.Dir(), task.WorkDir), nacre.RunResult{}
	parts := task.Parts{
		Session: task.Session{Opened: s, Recorder: s.Recorder, Interrupted: s.Interruption.Begun(), Heed: s.Refusals.Heed}, Kept: task.Kept{Engine: b.paths.Engine()}, Starting: task.Starting{Brain: b.agent, Launch: func(context.Context, brain.Launch, task.Workspace) (task.Agent, error) { return nil, nil }, TimedOut: func() bool { return false }}, Redact: redact.New(), Now: time.Now,

		Judging: task.Judging{Check: func(_ context.Context, _ task.Workspace, command string, _ []verify.Module) (nacre.CheckResult, error) {
			check()
			return nacre.CheckResult{Command: command, Strength: "weak"}, nil
		}},
		Spent: func() int64 { return 0 }, Progress: func(nacre.Step) {},
		Merging: task.Merging{Queue: func(context.Context) (func(), error) { return func() {}, nil }},
		Account: func(context.Context, nacre.RunResult, []nacre.RunResult) error { return nil },
		MayLand: func(string) string { return "" },
		Paused:  func(r nacre.RunResult) { b.paused = r },
	}
	if change != nil {
		change(&parts)
	}
	result, err := task.Run(ctx, parts, task.Spec{Task: "work", Project: b.project, Checks: []string{"true"}, Order: b.order})
	if closing := s.Close(b.t.Context(), "ended", err == nil); closing != nil {
		b.t.Error(closing)
	}
	return result, err
}

// S-12: a target that does not rest while its merge is verified ends an opening, and not the work.
// A later opening merges what the agent did once, however often earlier ones gave way.
func TestATargetThatDoesNotRestIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 3 {
		verified := 0
		_, err := b.opens(t.Context(), func() { verified++; b.moves() }, nil)
		if !errors.Is(err, task.ErrPaused) || !strings.Contains(b.paused.Reason, "main moved 5 times") || b.paused.Next != "nacre run --session s1" {
			t.Fatalf("have %v, %+v", err, b.paused)
		}
		if verified < 5 || verified > 6 { // pass 1 is the first opening's
			t.Errorf("verified %d times", verified)
		}
	}
	verified := 0
	result, err := b.opens(t.Context(), func() { // it still moves, and rests before the fifth time
		if verified++; verified < 5 {
			b.moves()
		}
	}, nil)
	if err != nil || !result.Landed {
		t.Fatalf("have %v, %+v", err, result)
	}
	if b.agent.starts != 1 || b.git("show", "HEAD:work.txt") != "done" || b.git("status", "--porcelain") != "" {
		t.Errorf("the agent was started %d times; have %s", b.agent.starts, b.git("log", "--oneline"))
	}
}

// S-12, S-19: work that waits for its turn to merge is interrupted at once, and
// goes on later.
func TestWorkThatWaitsForItsTurnIsInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := b.opens(ctx, func() {}, func(p *task.Parts) {
		p.Queue = func(waiting context.Context) (func(), error) {
			cancel()
			<-waiting.Done()
			return nil, context.Cause(waiting)
		}
	})
	if err == nil || err.Error() != context.Canceled.Error() { // and nothing besides
		t.Fatalf("have %v", err)
	}
	if result, err := b.opens(t.Context(), func() {}, nil); err != nil || !result.Landed || b.agent.starts != 1 {
		t.Fatalf("have %v, %+v after %d starts", err, result, b.agent.starts)
	}
}

// S-12: names that are too much to be kept are the agent's doing: its work is
// refused, and the session is free for other work.
func TestNamesThatAreTooMuchToBeKeptAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agent.more = func(dir string) error {
		for range 11 {
			dir = filepath.Join(dir, strings.Repeat("&", 250)) // each takes six bytes as JSON
		}
		err := os.MkdirAll(dir, 0o700)
		for n := range 600 {
			err = errors.Join(err, syscall.Mkfifo(filepath.Join(dir, strconv.Itoa(n)), 0o600))
		}
		return err
	}
	result, err := b.opens(t.Context(), func() {}, nil)
	if err != nil || result.Landed || !strings.Contains(result.Reason, "too much to be kept") {
		t.Fatalf("have %v, %.300q", err, result.Reason)
	}
	b.agent.more = nil
	if result, err := b.opens(t.Context(), func() {}, nil); err != nil || !result.Landed {
		t.Fatalf("have %v, %.300q", err, result.Reason)
	}
}
