package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/sandbox"
)

// Exec is a command to run sealed (M-06).
type Exec struct {
	Argv    []string
	Project string // empty means a scratch folder
	Egress  []string
	// Role holds the command as far as the operating system can: where it may
	// write, and which programs are there. Empty means none.
	Role    string
	Group   nacre.Group
	Session nacre.SessionID // empty means a new one
	Stdin   *os.File
	Stdout  *os.File
	Stderr  *os.File
	// Term is the operator's TERM when the streams are a terminal that the caller
	// made; Relay then begins to show what is printed there, read through count.
	Term   string
	Relay  func(count func(io.Reader) io.Reader)
	Limits nacre.Limits
	Asking Asking
	// Started is told when the command runs, with what the session is.
	Started func(SessionInfo)
	// Notice is told what the operator has to know while the command runs.
	Notice func(nacre.Step)
}

// SessionInfo says what a session is, for whoever shows it.
type SessionInfo struct {
	Session  nacre.SessionID `json:"session"`
	Group    nacre.Group     `json:"group"`
	Brain    string          `json:"brain,omitempty"`
	Role     string          `json:"role,omitempty"`
	Project  string          `json:"project,omitempty"`
	Writable []string        `json:"may_write"`
	Egress   []string        `json:"may_reach"`
	// Inside are the credentials that its agent can read, and where.
	Inside      []string `json:"credentials_inside,omitempty"`
	Backend     string   `json:"backend"`
	Sandbox     string   `json:"sandbox"`
	NotEnforced []string `json:"not_enforced,omitempty"`
	// Model is the host that the gateway speaks to, BudgetUSD what it may cost.
	Model     string `json:"model,omitempty"`
	BudgetUSD string `json:"budget_usd,omitempty"`
	// Today says what is left of the day's budgets, where there are any.
	Today   string `json:"budget_today,omitempty"`
	Resumed bool   `json:"resumed,omitempty"`
	State   string `json:"state"`
}

// ExecResult is what became of a command.
type ExecResult struct {
	Session  nacre.SessionID `json:"session"`
	ExitCode int             `json:"exit_code"`
	TimedOut bool            `json:"timed_out,omitempty"`
	// Limit says what it did beyond its limits, when it was ended for it.
	Limit string `json:"limit,omitempty"`
	// Planted are files that make the host run something later, and that appeared
	// or changed meanwhile.
	Planted []string `json:"planted,omitempty"`
}

// Exec runs the command and returns when it and everything it started is gone.
func (r *Runtime) Exec(ctx context.Context, e Exec) (result ExecResult, err error) {
	project, err := projectFolder(e.Project)
	if err != nil {
		return ExecResult{}, err
	}
	atoms, err := roleAtoms(project, e.Role)
	if err != nil {
		return ExecResult{}, err
	}
	group, err := r.group(e.Group)
	if err != nil {
		return ExecResult{}, err
	}
	id := orNew(e.Session)
	if err := r.freeForExec(id); err != nil {
		return ExecResult{}, err
	}
	s, err := r.seal(ctx, request{
		id: id, group: group, kind: "exec", title: e.Argv[0], project: project,
		egress: e.Egress, asking: e.Asking, warn: e.Notice, role: e.Role, confined: e.Role != "",
	})
	if err != nil {
		return ExecResult{}, err
	}
	result.Session = s.ID()
	outcome := "failed"
	defer func() { err = errors.Join(err, s.finish(ctx, outcome, "", project)) }()
	before, start := existing(project, posture.LateExecution()), r.options.Now()
	in := posture.Input{Project: project, Protected: protected(project, before), Limits: e.Limits, Terminal: e.Term}
	widened, err := s.confine(&in, atoms, atom.Parameters{})
	if err != nil {
		return result, &ConfigError{err}
	}
	p, err := s.posture(in)
	if err != nil {
		return result, &ConfigError{err}
	}
	g := newKeeper(p.Limits)
	stdout, stderr, started, err := e.streams(g.meter)
	if err != nil {
		return result, err
	}
	g.count(p.Mounts)
	defer g.close()
	process, err := s.Start(ctx, sandbox.Command{
		Posture: p, SocketDir: s.SocketDir(), Argv: e.Argv, Stdin: e.Stdin, Stdout: stdout, Stderr: stderr, Terminal: e.Term != "",
	})
	started()
	if err != nil {
		g.meter.Finish(true)
		return result, &NotReady{What: "start " + e.Argv[0], err: err}
	}
	g.watch(process)
	told := s.tellRunning(process)
	if e.Started != nil {
		info := s.info(p, "")
		info.Role, info.NotEnforced = e.Role, append(info.NotEnforced, widened...)
		e.Started(info)
	}
	exit, err := s.Wait(ctx, process)
	err = errors.Join(err, told)
	g.meter.Finish(!exit.TimedOut && !exit.Killed)
	result.ExitCode, result.TimedOut, result.Limit = exit.Code, exit.TimedOut, g.close()
	s.noteLimit(ctx, result.Limit)
	result.Planted = planted(project, before, start)
	s.planted(result.Planted)
	outcome = fmt.Sprintf("exit %d", exit.Code)
	return result, errors.Join(err, s.ended(ctx))
}

// roleAtoms are what holds a command in a role. There is no task whose lists of
// files would open anything.
func roleAtoms(project, name string) ([]atom.Atom, error) {
	if name == "" {
		return nil, nil
	}
	resolved, err := resolve(project, name)
	if err == nil {
		err = resolved.CheckSpawnable()
	}
	if err != nil {
		return nil, &ConfigError{err}
	}
	return resolved.Atoms, nil
}

// tellRunning writes that the session runs. Where that cannot be written the process ends.
func (s *sealed) tellRunning(process sandbox.Process) error {
	err := s.Running()
	if err != nil {
		err = errors.Join(err, process.Kill())
	}
	return err
}

// streams are what the command prints to, through the meter.
func (e Exec) streams(m *sandbox.Meter) (stdout, stderr *os.File, started func(), err error) {
	if e.Term == "" {
		return m.Streams(e.Stdout, e.Stderr)
	}
	if e.Relay != nil {
		e.Relay(m.Reader)
	}
	return e.Stdout, e.Stderr, func() {}, nil
}

// freeForExec keeps a command out of a session that a run will go on with.
func (r *Runtime) freeForExec(id nacre.SessionID) error {
	known, err := r.registry.Show(id)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return nil
	case err != nil:
		return err
	case known.Resumable:
		return badConfig("session %s has the unfinished work of a run: use another name, or go on with `nacre run --session %s`", id, id)
	}
	return nil
}

// ended is why the session was cut short, if it was.
func (s *sealed) ended(ctx context.Context) error {
	if err := s.Failure(); err != nil {
		return err
	}
	return errors.Join(context.Cause(ctx), context.Cause(s.Context()))
}

func (s *sealed) info(p nacre.Posture, brainName string) SessionInfo {
	info := SessionInfo{
		Session: s.ID(), Group: s.Group(), Brain: brainName, Egress: s.runtime.config.reach(s.Group(), s.rules), Inside: s.runtime.config.delivered(s.Group()), Backend: s.Sandbox().Name(),
		Sandbox: s.Sandbox().Holds(), NotEnforced: s.Sandbox().NotEnforced(), Resumed: s.Resumed(), State: s.runtime.registry.Paths().State,
	}
	if s.gateway != nil {
		info.Model, info.BudgetUSD, info.Today = s.upstream, budget.Dollars(s.limit), s.today
	}
	for _, m := range p.Mounts {
		if m.Kind == nacre.BindReadWrite {
			info.Writable = append(info.Writable, m.Target)
		}
	}
	return info
}

// projectFolder is the folder with all symbolic links resolved, once.
func projectFolder(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", badConfig("project %s: %w", dir, err)
	}
	if !isDir(abs) {
		return "", badConfig("project %s is not a folder", dir)
	}
	return abs, nil
}

func existing(project string, names []string) []string {
	var there []string
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(project, name)); err == nil && project != "" {
			there = append(there, name)
		}
	}
	return there
}

// protected are the paths that a command may not write: those that were there, the
// repository where it is not in .git, and what git takes for one in submodules. For a
// link to something else in the project, such as .claude to .agents, it is that: the
// link itself can be replaced, which is told afterwards.
func protected(project string, before []string) []string {
	if project == "" {
		return nil
	}
	paths := repo.Submodules(project)
	for _, name := range before {
		if target, ok := linkInside(project, name); ok {
			name = target
		}
		paths = append(paths, name)
	}
	if folder := repo.GitFolder(project); folder != "" {
		paths = append(paths, folder)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// linkInside gives what a link at the project's top leads to, where that is below
// the project and no link is on the way. What .git leads to is no repository of the
// project's own; that and all else is refused as a mount.
func linkInside(project, name string) (target string, ok bool) {
	to, err := os.Readlink(filepath.Join(project, name))
	if err != nil || name == ".git" || !filepath.IsLocal(to) || filepath.Clean(to) == "." {
		return "", false
	}
	target = filepath.Clean(to)
	resolved, err := filepath.EvalSymlinks(filepath.Join(project, target))
	return target, err == nil && resolved == filepath.Join(project, target)
}

// clockStep is how far a file system's clock may be behind ours.
const clockStep = 10 * time.Millisecond

// planted names what the command left in the project for the host's tools to
// run or trust (M-13). Nothing is held back for it: the files are there already.
func planted(project string, before []string, start time.Time) []string {
	if project == "" {
		return nil
	}
	names := without(existing(project, posture.LateExecution()), before)
	found, more, err := repo.Since(project, start.Add(-clockStep))
	for _, f := range found {
		if !slices.Contains(names, f.Path) {
			names = append(names, f.Path)
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if err != nil {
		names = append(names, "what was not looked at: "+err.Error())
	}
	return names
}

func without(all, some []string) []string {
	known := map[string]bool{}
	for _, s := range some {
		known[s] = true
	}
	var rest []string
	for _, s := range all {
		if !known[s] {
			rest = append(rest, s)
		}
	}
	return rest
}

func orNew(id nacre.SessionID) nacre.SessionID {
	if id == "" {
		return registry.NewID()
	}
	return id
}
