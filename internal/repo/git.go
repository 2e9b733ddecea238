package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxOutput bounds what is read from one command, in bytes.
	maxOutput = 512 << 20
	// maxStderr is how much of a command's complaint is kept.
	maxStderr = 4096
	// killDelay is how long pipes may stay open after a command was killed.
	killDelay = 5 * time.Second
)

// oldestGit is the oldest version that this package was written for, and
// mergeTreeGit the first whose merge-tree writes trees.
var (
	oldestGit    = [2]int{2, 34}
	mergeTreeGit = [2]int{2, 38}
)

// overrides are configuration that no repository can undo: the command line
// comes last. They leave git nothing to run.
var overrides = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false",
	"core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.alternateRefsCommand=false",
	"core.sshCommand=false", "core.gitProxy=", "core.pager=cat", "core.editor=false", "core.splitIndex=false",
	"core.autocrlf=false", "core.safecrlf=false", "core.protectNTFS=true", "core.protectHFS=true",
	"core.quotePath=true", "core.logAllRefUpdates=true", "credential.helper=", "gc.auto=0", "maintenance.auto=false",
	"protocol.allow=never", "submodule.recurse=false", "diff.external=", "diff.renames=false",
	"merge.renames=true", "commit.gpgSign=false", "gpg.program=false", "index.sparse=false", "feature.manyFiles=false",
}

// git runs one git binary, in an environment made from nothing.
type git struct {
	path    string
	version [2]int
}

// command is one run of git. gitDir is always given, so that git neither
// searches for a repository nor minds who owns it.
type command struct {
	gitDir, workTree, index string
	stdin                   io.Reader
	env                     []string
	// as, where set, is the user to run as.
	as   *syscall.Credential
	args []string
}

// commandError is a run of git that did not end with 0.
type commandError struct {
	name   string
	code   int
	stderr string
}

func (e *commandError) Error() string {
	return fmt.Sprintf("git %s: exit %d: %s", e.name, e.code, strings.TrimSpace(e.stderr))
}

// exitCode is git's exit code, or -1 where err is something else.
func exitCode(err error) int {
	var failed *commandError
	if errors.As(err, &failed) {
		return failed.code
	}
	return -1
}

func findGit(ctx context.Context, path string) (*git, error) {
	if path == "" {
		found, err := exec.LookPath("git")
		if err != nil {
			return nil, fmt.Errorf("git is not installed: %w", err)
		}
		path = found
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("git at %s: %w", path, err)
	}
	g := &git{path: absolute}
	out, err := g.run(ctx, command{gitDir: "/dev/null", args: []string{"version"}})
	if err != nil {
		return nil, err
	}
	if g.version, err = parseVersion(string(out)); err != nil {
		return nil, err
	}
	if !g.atLeast(oldestGit) {
		return nil, fmt.Errorf("git %d.%d is too old: install %d.%d or newer",
			g.version[0], g.version[1], oldestGit[0], oldestGit[1])
	}
	return g, nil
}

var versionForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^git version (\d{1,4})\.(\d{1,4})`) })

func parseVersion(s string) (v [2]int, err error) {
	m := versionForm().FindStringSubmatch(s)
	if m == nil {
		return v, fmt.Errorf("git says %.80q instead of its version", s)
	}
	v[0], _ = strconv.Atoi(m[1]) // four digits at most
	v[1], _ = strconv.Atoi(m[2])
	return v, nil
}

func (g *git) atLeast(v [2]int) bool {
	return g.version[0] > v[0] || g.version[0] == v[0] && g.version[1] >= v[1]
}

// environment has what git needs, and each switch that keeps it to itself.
func (g *git) environment(c command) []string {
	env := []string{
		"PATH=" + filepath.Dir(g.path) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false",
		"GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_SSH_COMMAND=false",
		"GIT_ALLOW_PROTOCOL=none", "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_DIR=" + c.gitDir,
	}
	if c.workTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.workTree)
	}
	if c.index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.index)
	}
	return append(env, c.env...)
}

// prepare makes the process; cancel must be called when it has ended.
func (g *git) prepare(ctx context.Context, c command) (cmd *exec.Cmd, complaint *capped, cancel context.CancelFunc) {
	ctx, cancel = context.WithTimeout(ctx, commandTimeout)
	args := make([]string, 0, 2*len(overrides)+len(c.args))
	for _, override := range overrides {
		args = append(args, "-c", override)
	}
	cmd = exec.CommandContext(ctx, g.path, append(args, c.args...)...)
	cmd.Env = g.environment(c)
	cmd.Dir = "/"
	if c.workTree != "" {
		cmd.Dir = c.workTree
	}
	cmd.Stdin = c.stdin
	complaint = &capped{limit: maxStderr}
	cmd.Stderr = complaint
	// git starts helpers of its own: the whole group ends together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.as}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = killDelay
	return cmd, complaint, cancel
}

// run returns the command's output, or a *commandError.
func (g *git) run(ctx context.Context, c command) ([]byte, error) {
	cmd, complaint, cancel := g.prepare(ctx, c)
	defer cancel()
	out := &capped{limit: maxOutput, strict: true}
	cmd.Stdout = out
	err := cmd.Run()
	return out.Bytes(), explain(ctx, c, complaint, err)
}

// line is run for a command that prints one line.
func (g *git) line(ctx context.Context, c command) (string, error) {
	out, err := g.run(ctx, c)
	return strings.TrimSuffix(string(out), "\n"), err
}

func explain(ctx context.Context, c command, complaint *capped, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", c.args[0], ctx.Err())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &commandError{name: c.args[0], code: exit.ExitCode(), stderr: complaint.String()}
	}
	return fmt.Errorf("git %s: %w", c.args[0], err)
}

// capped keeps the first limit bytes; a strict one refuses more.
type capped struct {
	bytes.Buffer
	limit  int
	strict bool
}

func (b *capped) Write(p []byte) (int, error) {
	room := b.limit - b.Len()
	if b.strict && len(p) > room {
		return 0, fmt.Errorf("output of more than %d bytes: %w", b.limit, ErrTooBig)
	}
	_, _ = b.Buffer.Write(p[:min(len(p), room)]) // a buffer in memory takes all
	return len(p), nil
}

// zeros splits output whose records end with NUL.
func zeros(out []byte) []string {
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}
