// Package git promises that git does nothing but what its command line says. It runs one binary in
// an environment made from nothing, with configuration that no repository can undo, bounded in time
// and output. It ends the whole group of its processes together.
//
// It does not decide what is run, nor in which git directory: its caller does.
package git

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/hostpath"
)

const (
	// timeout bounds each run of git.
	timeout = 15 * time.Minute
	// maxOutput bounds what is read from one command, in bytes.
	maxOutput = 512 << 20
	// maxStderr is how much of a command's complaint is kept.
	maxStderr = 4096
	// killDelay is how long pipes may stay open after a command was killed.
	killDelay = 5 * time.Second
)

// oldestGit is the oldest version that this package was written for.
func oldestGit() [2]int { return [2]int{2, 34} }

// mergeTreeGit is the first version whose merge-tree writes trees.
func mergeTreeGit() [2]int { return [2]int{2, 38} }

// overrides are configuration that no repository can undo: the command line
// comes last. They leave git nothing to run.
func overrides() []string {
	return []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false",
		"core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.alternateRefsCommand=false",
		"core.sshCommand=false", "core.gitProxy=", "core.pager=cat", "core.editor=false", "core.splitIndex=false",
		"core.autocrlf=false", "core.safecrlf=false", "core.protectNTFS=true", "core.protectHFS=true",
		"core.quotePath=true", "core.logAllRefUpdates=true", "credential.helper=", "gc.auto=0", "maintenance.auto=false",
		"protocol.allow=never", "submodule.recurse=false", "diff.external=", "diff.renames=false",
		"merge.renames=true", "commit.gpgSign=false", "gpg.program=false", "index.sparse=false", "feature.manyFiles=false",
	}
}

// Program runs one git binary, in an environment made from nothing.
type Program struct {
	path string
	// Version is the first two numbers of what the binary says that it is.
	Version [2]int
}

// Command is one run of git. GitDir is always given, so that git neither
// searches for a repository nor minds who owns it.
type Command struct {
	GitDir, WorkTree, Index string
	Stdin                   io.Reader
	Env                     []string
	// As, where set, is the user to run as.
	As   *syscall.Credential
	Args []string
}

// Error is a run of git that did not end with 0.
type Error struct {
	name   string
	code   int
	stderr string
}

func (e *Error) Error() string {
	return fmt.Sprintf("git %s: exit %d: %s", e.name, e.code, strings.TrimSpace(e.stderr))
}

// ExitCode is git's exit code, or -1 where err is something else.
func ExitCode(err error) int {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.code
	}
	return -1
}

// Find asks the binary at path, or the one that PATH has, for its version and refuses one
// that is too old. It asks each binary once.
func Find(ctx context.Context, path string) (*Program, error) {
	absolute, err := located(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("git at %s: %w", path, err)
	}
	g := &Program{path: absolute}
	if known, asked := answers.Load(absolute); asked && known.(answer).of(info) {
		g.Version = known.(answer).version
		return g, nil
	}
	out, err := g.Run(ctx, Command{GitDir: "/dev/null", Args: []string{"version"}})
	if err != nil {
		return nil, err
	}
	if g.Version, err = ParseVersion(string(out)); err != nil {
		return nil, err
	}
	if !g.atLeast(oldestGit()) {
		return nil, fmt.Errorf("git %d.%d is too old: install %d.%d or newer",
			g.Version[0], g.Version[1], oldestGit()[0], oldestGit()[1])
	}
	answers.Store(absolute, answer{g.Version, info})
	return g, nil
}

// answers are what binaries have said by their paths, for a run asks git some ten times. A
// binary that was replaced is asked again.
var answers sync.Map //nolint:gochecknoglobals // a memory of what is so for the whole process

type answer struct {
	version [2]int
	info    os.FileInfo
}

func (a answer) of(info os.FileInfo) bool {
	return os.SameFile(a.info, info) && a.info.Size() == info.Size() && a.info.ModTime().Equal(info.ModTime())
}

// Once is [Find] and one run of what is found, for a caller who runs no other. git tells its
// version beside its answer, which saves the process that would be asked for it. A git that does
// not tell it so is asked.
func Once(ctx context.Context, c Command) ([]byte, error) {
	if out, err := once(ctx, c); err == nil {
		return out, nil
	}
	g, err := Find(ctx, "")
	if err != nil {
		return nil, err
	}
	return g.Run(ctx, c)
}

// Mark tells the git that PATH has from others, without running it.
func Mark() (string, error) {
	path, err := located("")
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\n%d\n%d\n", path, info.Size(), info.ModTime().UnixNano()), nil
}

// located is where the binary at path, or the one that PATH has, lies.
func located(path string) (absolute string, err error) {
	if path == "" {
		if path, err = hostpath.LookPath("git"); err != nil {
			return "", fmt.Errorf("git is not installed: %w", err)
		}
	}
	if absolute, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("git at %s: %w", path, err)
	}
	return absolute, nil
}

func once(ctx context.Context, c Command) ([]byte, error) {
	path, err := located("")
	if err != nil {
		return nil, err
	}
	told, err := disk.Unnamed("git's trace")
	if err != nil {
		return nil, err
	}
	defer func() { _ = told.Close() }() // it has no name
	g := &Program{path: path}
	c.Env = append(slices.Clip(c.Env), "GIT_TRACE2_EVENT=3")
	cmd, complaint, cancel := g.Prepare(ctx, c)
	defer cancel()
	out := &Capped{limit: maxOutput, strict: true}
	cmd.Stdout, cmd.ExtraFiles = out, []*os.File{told}
	if err := Explain(ctx, c, complaint, cmd.Run()); err != nil {
		return nil, err
	}
	var first struct {
		Event string `json:"event"`
		Exe   string `json:"exe"`
	}
	if err := json.NewDecoder(io.NewSectionReader(told, 0, maxStderr)).Decode(&first); err != nil {
		return nil, err
	}
	if g.Version, err = ParseVersion("git " + first.Event + " " + first.Exe); err != nil {
		return nil, err
	}
	if !g.atLeast(oldestGit()) {
		return nil, errors.New("too old")
	}
	return out.Bytes(), nil
}

// ParseVersion reads what git says of its version.
func ParseVersion(s string) (v [2]int, err error) {
	m := regexp.MustCompile(`^git version (\d{1,4})\.(\d{1,4})`).FindStringSubmatch(s)
	if m == nil {
		return v, fmt.Errorf("git says %.80q instead of its version", s)
	}
	v[0], _ = strconv.Atoi(m[1]) // four digits at most
	v[1], _ = strconv.Atoi(m[2])
	return v, nil
}

// MergesTrees reports whether merge-tree writes trees.
func (g *Program) MergesTrees() bool { return g.atLeast(mergeTreeGit()) }

func (g *Program) atLeast(v [2]int) bool {
	return g.Version[0] > v[0] || g.Version[0] == v[0] && g.Version[1] >= v[1]
}

// environment has what git needs, and each switch that keeps it to itself.
func (g *Program) environment(c Command) []string {
	env := []string{
		"PATH=" + filepath.Dir(g.path) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
		"GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_SSH_COMMAND=false",
		"GIT_ALLOW_PROTOCOL=none", "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_DIR=" + c.GitDir,
	}
	if c.WorkTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.WorkTree)
	}
	if c.Index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.Index)
	}
	return append(env, c.Env...)
}

// Prepare makes the process; cancel must be called when it has ended.
func (g *Program) Prepare(ctx context.Context, c Command) (cmd *exec.Cmd, complaint *Capped, cancel context.CancelFunc) {
	ctx, cancel = context.WithTimeout(ctx, timeout)
	args := make([]string, 0, 2*len(overrides())+len(c.Args))
	for _, override := range overrides() {
		args = append(args, "-c", override)
	}
	cmd = exec.CommandContext(ctx, g.path, append(args, c.Args...)...)
	cmd.Env = g.environment(c)
	cmd.Dir = "/"
	if c.WorkTree != "" {
		cmd.Dir = c.WorkTree
	}
	cmd.Stdin = c.Stdin
	complaint = &Capped{limit: maxStderr}
	cmd.Stderr = complaint
	// git starts helpers of its own: the whole group ends together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.As}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = killDelay
	return cmd, complaint, cancel
}

// Run returns the command's output, or a *Error.
func (g *Program) Run(ctx context.Context, c Command) ([]byte, error) {
	cmd, complaint, cancel := g.Prepare(ctx, c)
	defer cancel()
	out := &Capped{limit: maxOutput, strict: true}
	cmd.Stdout = out
	err := cmd.Run()
	return out.Bytes(), Explain(ctx, c, complaint, err)
}

// Line is Run for a command that prints one line.
func (g *Program) Line(ctx context.Context, c Command) (string, error) {
	out, err := g.Run(ctx, c)
	return strings.TrimSuffix(string(out), "\n"), err
}

// Explain says how a prepared command failed: an *Error where git said it.
func Explain(ctx context.Context, c Command, complaint *Capped, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", c.Args[0], ctx.Err())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &Error{name: c.Args[0], code: exit.ExitCode(), stderr: complaint.String()}
	}
	return fmt.Errorf("git %s: %w", c.Args[0], err)
}

// ErrTooBig is an output of more than its limit.
var ErrTooBig = errors.New("too big")

// NewCapped keeps the first limit bytes of an output.
func NewCapped(limit int) *Capped { return &Capped{limit: limit} }

// Capped keeps the first bytes up to its limit; a strict one refuses more.
type Capped struct {
	bytes.Buffer
	limit  int
	strict bool
}

func (b *Capped) Write(p []byte) (int, error) {
	room := b.limit - b.Len()
	if b.strict && len(p) > room {
		return 0, fmt.Errorf("output of more than %d bytes: %w", b.limit, ErrTooBig)
	}
	_, _ = b.Buffer.Write(p[:min(len(p), room)]) // a buffer in memory takes all
	return len(p), nil
}

// Zeros splits output whose records end with NUL.
func Zeros(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}
