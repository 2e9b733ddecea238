package assembly

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
	"github.com/nacre-dev/nacre/kernel"
)

// specFile keeps what a run was asked to do, so that it can go on.
const specFile = "run.json"

// roleDir holds, in a session's folder, the files that its agent is given to read.
const roleDir = "role"

// Run is a task for an agent (M-01).
type Run struct {
	Task      string
	Project   string
	Brain     string // empty means the config's, else the first that is ready
	Model     string
	Recording string // what the replay brain plays
	// Record names a new file for what the brain chooses, redacted, for replay.
	Record string
	Checks []string
	Egress []string
	Group  nacre.Group
	// TaskFile is a task of the substrate that the run carries out; Task is then
	// left out: the prompt is composed.
	TaskFile string
	// Until leaves the task at a stage, for a later run to go on with.
	Until nacre.Stage
	// Merger lands only what an auditor has passed (S-08). Session names the work.
	Merger bool
	// Session names the session; one that was interrupted goes on with its work.
	Session  nacre.SessionID
	MaxTurns int
	Limits   nacre.Limits
	Asking   Asking
	Started  func(SessionInfo)
	Progress func(nacre.Step)
	// Observe, where set, is given what comes out of the sandbox as it came, for
	// witnesses and tests. It is unredacted: keep it from people and files.
	Observe func(text string)

	// audited is the work that this run's agent judges.
	audited *task.Audited
}

// Report is what became of a run.
type Report struct {
	Session nacre.SessionID `json:"session"`
	nacre.RunResult
	// Agent, Role and DNA name the task of the substrate; empty for other runs.
	Agent string `json:"agent,omitempty"`
	Role  string `json:"role,omitempty"`
	DNA   string `json:"dna,omitempty"`
	// Failed are the atoms that did not hold, with what was found; empty where
	// all did, and missing where none was judged (S-14).
	Failed []AtomFailure `json:"failed,omitzero"`
	// Paused is the stage at which the task was left, as was asked for.
	Paused nacre.Stage `json:"paused,omitempty"`
	// TimedOut says that the time limit ended the agent.
	TimedOut bool `json:"timed_out,omitempty"`
	// Limit says what the agent did beyond its limits, when it was ended for it.
	Limit   string `json:"limit,omitempty"`
	Receipt string `json:"receipt,omitempty"`
	// Work is where the agent's files are, when they did not land.
	Work     string        `json:"work,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	Denied   int           `json:"denied"`
	Asked    int           `json:"asked"`
	Redacted int           `json:"redacted"`
	// Recorded is the file of the recording; Unrecorded names the tools whose
	// calls it could not hold.
	Recorded   string `json:"recorded,omitempty"`
	Unrecorded string `json:"unrecorded,omitempty"`
	// Kernel are the counters of this opening's kernel (K-23).
	Kernel kernel.Stats `json:"kernel"`
}

// groupOf is the group that a session works for: one that goes on stays what it was.
func (r *Runtime) groupOf(id nacre.SessionID, asked nacre.Group) (nacre.Group, error) {
	known, err := r.registry.Show(id)
	switch {
	case errors.Is(err, registry.ErrUnknown) || err == nil && !known.Resumable:
		return r.group(asked)
	case err != nil:
		return "", err
	case asked != "" && asked != known.Group:
		return "", badConfig("session %s works for the group %s: go on without --group, or with --group %s", id, known.Group, known.Group)
	}
	return r.group(known.Group)
}

// Run lets an agent work on a project, sealed, and lands what was verified.
func (r *Runtime) Run(ctx context.Context, run Run) (report Report, err error) {
	if err := canRecord(run.Record); err != nil {
		return Report{}, err
	}
	id, err := run.sessionID()
	if err != nil {
		return Report{}, err
	}
	spec, err := r.spec(ctx, id, run)
	if err != nil {
		return Report{}, err
	}
	if run.Merger {
		if refused, err := r.mayMerge(ctx, id, spec); err != nil || refused.Reason != "" {
			return refused, err
		}
	}
	group, err := r.groupOf(id, run.Group)
	if err != nil {
		return Report{}, err
	}
	agent, status, err := r.agentOf(ctx, run, &spec)
	if err != nil {
		return Report{}, err
	}
	s, err := r.seal(ctx, request{
		id: id, group: group, kind: "run", title: title(spec.Words()), project: spec.Project, brain: spec.Brain,
		version: status.Version, task: spec.Task, egress: spec.Egress, model: agent.Name() != brain.ReplayName && !run.startsNone(), asking: run.Asking,
		tell: run.Progress, confined: spec.Order != nil,
		prepare: func(dir string) error { return keepSpec(dir, spec) },
	})
	if err != nil {
		return Report{}, err
	}
	report = reportOf(s.ID(), spec)
	finished := false
	defer func() {
		if !finished {
			err = errors.Join(err, s.suspend(ctx, spec))
		}
	}()
	var recorder brain.Recorder
	if run.Record != "" {
		agent = brain.Record(agent, &recorder)
	}
	report.RunResult, err = s.work(ctx, run, spec, watchedBrain{agent, s})
	report.Failed = failuresOf(report.Atoms)
	if recordErr := s.keepRecording(run.Record, &recorder, spec, &report); recordErr != nil && err == nil {
		err = recordErr
	}
	if s.containment() != nil {
		finished = true
		return report, errors.Join(s.containment(), s.finish(ctx, "", spec.Task, spec.Project))
	}
	if errors.Is(err, task.ErrPaused) {
		report.Paused = run.Until
		if report.Reason != "" { // what was verified must not land yet
			report.Paused = nacre.StageVerified
			if report.Next == "" {
				report.Next = auditNext(report.Session)
			}
		}
		return report, nil // the session is left to go on
	}
	if err = s.closeBooks(ctx, &report, spec, err); err != nil {
		return report, err
	}
	report.Limit, _ = s.limited.Load().(string)
	report.TimedOut, report.Kernel = report.Brain == task.TimedOut, s.kernel.Stats()
	finished = true
	return s.conclude(ctx, report, spec)
}

// closeBooks accounts for work that the engine has ended without a result, with
// which nobody can go on. Any other error stays what it is.
func (s *sealed) closeBooks(ctx context.Context, report *Report, spec task.Spec, err error) error {
	var ended *task.EndedError
	if !errors.As(err, &ended) {
		return err
	}
	report.Reason, report.Next = "the work ended without a result: "+ended.Reason, "begin anew, in this session or another"
	return errors.Join(s.decided(ctx, spec, report.RunResult), s.account(ctx, spec, report.RunResult))
}

// reportOf begins the report of a run.
func reportOf(id nacre.SessionID, spec task.Spec) Report {
	report := Report{Session: id}
	if o := spec.Order; o != nil {
		report.Agent, report.Role, report.DNA = o.Agent, o.Role, o.DNA
	}
	return report
}

// spec is what the run does: what it was asked now, or what it was asked when
// it was interrupted.
func (r *Runtime) spec(ctx context.Context, id nacre.SessionID, run Run) (task.Spec, error) {
	earlier, going, err := r.interrupted(id)
	if err != nil {
		return task.Spec{}, err
	}
	if going {
		if run.Task != "" && run.Task != earlier.Task {
			return task.Spec{}, badConfig("session %s has unfinished work: go on with `nacre run --session %s`, or use another session", id, id)
		}
		return earlier, errors.Join(sameTask(id, earlier.Order, run.TaskFile), sameWork(id, earlier, run))
	}
	if run.Task == "" && run.TaskFile == "" && run.Session != "" && run.Recording == "" {
		if _, err := r.registry.Show(id); errors.Is(err, registry.ErrUnknown) {
			return task.Spec{}, badConfig("no task, and %w", err)
		}
		return task.Spec{}, badConfig("no task, and session %s has no unfinished work to go on with: name a task", id)
	}
	if run.Task == "" && run.Recording == "" && run.TaskFile == "" && run.audited == nil {
		return task.Spec{}, badConfig("no task: write one after `nacre run`, or name a file with --prompt-file")
	}
	project, err := projectFolder(orDot(run.Project))
	if err != nil {
		return task.Spec{}, err
	}
	if err := r.inspect(ctx, project); err != nil {
		return task.Spec{}, err
	}
	order, err := run.pin(project)
	if err != nil {
		return task.Spec{}, err
	}
	spec := task.Spec{
		Order: order, Audited: run.audited, Task: run.Task, Project: project, Brain: run.Brain, Model: run.Model, Checks: run.Checks, Egress: run.Egress,
		MaxTurns: run.MaxTurns,
	}
	if len(spec.Checks) == 0 {
		spec.Checks = r.config.Checks
	}
	if spec.Model == "" {
		spec.Model = r.config.Model.Name
	}
	if run.Recording != "" {
		if spec.Recording, err = filepath.Abs(run.Recording); err == nil {
			_, err = readRecording(spec.Recording)
		}
	}
	return spec, err
}

// sessionID is the session that was named; a task's goes by its agent's id
// where that can name one.
func (run *Run) sessionID() (nacre.SessionID, error) {
	if run.Session != "" || run.TaskFile == "" {
		return orNew(run.Session), nil
	}
	t, err := readTask(run.TaskFile)
	if err != nil {
		return "", err
	}
	id, err := nacre.ParseSessionID(strings.ToLower(t.AgentID))
	if err != nil {
		return orNew(""), nil //nolint:nilerr // then it has a name of its own
	}
	return id, nil
}

// pin reads the task that the run carries out, if it carries out one: its
// prompt and its own checks are the run's.
func (run *Run) pin(project string) (*task.Order, error) {
	var t atom.Task
	switch {
	case run.audited != nil:
		t = auditTask(run.audited)
	case run.TaskFile == "":
		return nil, nil //nolint:nilnil // not every run carries out a task of the substrate
	case run.Task != "":
		return nil, badConfig("a task's file has its own words: leave the other task out")
	default:
		var err error
		if t, err = readTask(run.TaskFile); err != nil {
			return nil, err
		}
	}
	order, prompt, err := pin(project, t)
	if err != nil {
		return nil, err
	}
	run.Task = prompt
	run.Checks = append(append([]string{}, t.Commands...), run.Checks...)
	return &order, nil
}

// sameWork refuses to go on with other work than was begun, instead of leaving
// the difference out.
func sameWork(id nacre.SessionID, earlier task.Spec, run Run) error {
	recording := run.Recording
	if abs, err := filepath.Abs(recording); err == nil && recording != "" {
		recording = abs
	}
	for _, flag := range []struct {
		name  string
		other bool
	}{
		{"brain", run.Brain != "" && run.Brain != earlier.Brain},
		{"project", otherProject(run.Project, earlier.Project)},
		{"model", run.Model != "" && run.Model != earlier.Model},
		{"recording", recording != "" && recording != earlier.Recording},
		{"check", len(run.Checks) > 0 && !slices.Equal(run.Checks, earlier.Checks)},
		{"egress", len(run.Egress) > 0 && !slices.Equal(run.Egress, earlier.Egress)},
		{"max-turns", run.MaxTurns != 0 && run.MaxTurns != earlier.MaxTurns},
	} {
		if flag.other {
			return badConfig("session %s goes on as it was begun: leave --%s out, or use another session", id, flag.name)
		}
	}
	return nil
}

// otherProject tells whether a folder was named that is not the one of the
// work. The folder one stands in is what is meant where none is named.
func otherProject(named, earlier string) bool {
	if orDot(named) == "." {
		return false
	}
	folder, err := projectFolder(named)
	return err != nil || folder != earlier
}

// inspect refuses a project that a run could not work on, before it begins.
func (r *Runtime) inspect(ctx context.Context, project string) error {
	if _, err := exec.LookPath("git"); err != nil {
		return &NotReady{What: "git is not installed", Next: "install git: runs work on repositories", err: err}
	}
	dir, err := os.MkdirTemp(r.registry.Paths().State, "inspect-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing of worth is in it
	if err := task.Inspect(ctx, project, dir, r.options.Now); err != nil && ctx.Err() == nil {
		return &ConfigError{err}
	}
	return ctx.Err()
}

func (r *Runtime) interrupted(id nacre.SessionID) (task.Spec, bool, error) {
	known, err := r.registry.Show(id)
	if errors.Is(err, registry.ErrUnknown) || (err == nil && known.Work == "") {
		return task.Spec{}, false, nil
	}
	if err != nil {
		return task.Spec{}, false, err
	}
	if known.Kind != "run" {
		return task.Spec{}, false, badConfig("session %s is an exec session: use another name", id)
	}
	data, err := os.ReadFile(filepath.Join(r.registry.Paths().Session(id), specFile))
	if errors.Is(err, os.ErrNotExist) {
		return task.Spec{}, false, nil // it was interrupted before it began
	}
	if err != nil {
		return task.Spec{}, false, err
	}
	var spec task.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return task.Spec{}, false, fmt.Errorf("session %s: what it was asked to do is damaged: %w", id, err)
	}
	return spec, true, nil
}

func keepSpec(dir string, spec task.Spec) error {
	data, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(dir, specFile), data, 0o600)
}

// chooseBrain finds the brain that was named, or the first that is ready.
func (r *Runtime) chooseBrain(ctx context.Context, spec *task.Spec) (brain.Brain, brain.Status, error) {
	options := r.brains(spec.Model)
	if spec.Brain == "" && spec.Recording != "" {
		spec.Brain = brain.ReplayName
	}
	if spec.Brain == "" {
		spec.Brain = r.config.Brain.Name
	}
	if spec.Brain == "" {
		found, status, err := brain.Detect(ctx, options)
		if err != nil {
			return nil, status, notReady("no brain is ready", status)
		}
		spec.Brain = found.Name()
		return found, status, nil
	}
	named, err := brain.Named(spec.Brain, options)
	if err != nil {
		return nil, brain.Status{}, &ConfigError{err}
	}
	if named.Name() == brain.ReplayName && spec.Recording == "" {
		return nil, brain.Status{}, badConfig("brain replay plays a recording: name it with --recording FILE")
	}
	status := named.Detect(ctx)
	if !status.Ready() {
		return nil, status, notReady("brain "+named.Name(), status)
	}
	return named, status, nil
}

// notReady says what a brain lacks, and what helps.
func notReady(what string, s brain.Status) error {
	return &NotReady{What: what, Next: s.Next, err: errors.New(s.Why)}
}

// work runs the task with the parts that this session has.
func (s *sealed) work(ctx context.Context, run Run, spec task.Spec, agent brain.Brain) (nacre.RunResult, error) {
	if err := s.Running(); err != nil {
		return nacre.RunResult{}, err
	}
	if run.audited != nil { // what an earlier auditor passed holds until here
		if err := s.runtime.keepAudit(pendingAudit(run.audited)); err != nil {
			return nacre.RunResult{}, err
		}
	}
	if err := s.enter(ctx, spec); err != nil {
		return nacre.RunResult{}, err
	}
	turn, err := s.turn(ctx, run, spec)
	if err != nil {
		return nacre.RunResult{}, err
	}
	var last *process // each conversation launches one
	var left nacre.RunResult
	result, err := task.Run(ctx, task.Parts{
		Session: s.Session, EnginePath: s.runtime.registry.Paths().Engine(), Brain: agent, Turn: turn,
		Launch: func(ctx context.Context, l brain.Launch, dir string) (brain.Process, error) {
			var err error
			if last, err = s.launchBrain(ctx, l, dir, run, spec); err != nil {
				return nil, err
			}
			s.watchResult(last, dir)
			return last, nil
		},
		TimedOut: func() bool { return last.timedOut.Load() },
		Check:    s.check, Fetch: s.fetchPackages,
		Spent:    s.spent,
		Observe:  run.Observe,
		Progress: s.tell, Redact: s.runtime.redact, Now: s.runtime.options.Now,
		Queue: func(ctx context.Context) (func(), error) { return s.runtime.queue(ctx, spec.Project) },
		Account: func(ctx context.Context, result nacre.RunResult) error {
			return errors.Join(s.decided(ctx, spec, result), s.account(ctx, spec, result))
		},
		MayLand: func(tree string) string { return s.mayLand(run, tree) },
		Judge: func(ctx context.Context, w verify.Subject, atoms []atom.Atom) (verify.Report, error) {
			return s.judge(ctx, spec.Order, w, atoms)
		}, Notify: s.goOn, Until: run.Until, Paused: func(r nacre.RunResult) { left = r },
	}, spec)
	if errors.Is(err, task.ErrPaused) {
		return left, err
	}
	return result, err
}

// turn is what the brain is given: the task, the memory brief and the skills.
func (s *sealed) turn(ctx context.Context, run Run, spec task.Spec) (brain.Turn, error) {
	if run.startsNone() {
		var err error
		_, s.earlier, err = s.runtime.count(s.Chains()) // the gateway is what counts it elsewhere
		return brain.Turn{}, err
	}
	turn := brain.Turn{
		Task: spec.Task, Model: spec.Model, SessionToken: s.token, MaxTurns: spec.MaxTurns,
		MaxTokens: s.runtime.config.Model.MaxTokens, Context: s.runtime.config.Model.Context,
		Skills: s.skills(s.runtime.principal(s.Group(), s.ID(), spec.Task)), System: s.brief(ctx),
	}
	var err error
	if spec.Order != nil {
		if turn.Gates, err = spec.Order.Gates.Bytes(); err != nil {
			return brain.Turn{}, err
		}
	}
	if spec.Recording == "" {
		return turn, nil
	}
	turn.Recording, err = readRecording(spec.Recording)
	return turn, err
}

func readRecording(path string) ([]byte, error) {
	data, err := readRegular(path, brain.MaxRecording)
	if err != nil {
		return nil, badConfig("recording %s: %w", path, err)
	}
	if _, err := brain.ParseRecording(data); err != nil {
		return nil, badConfig("%s: %w", path, err)
	}
	return data, nil
}

// brief is what trusted memory tells the agent before it starts. A slow one is
// left out with a record (D-43).
func (s *sealed) brief(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, briefLimit)
	defer cancel()
	brief, err := s.memory.Brief(ctx, false)
	if err == nil {
		err = s.memory.Recalled(ctx, memory.Writer{Session: s.ID()}, brief.IDs())
	}
	if err != nil {
		// The recorder itself stops the session if it fails.
		_ = s.Recorder.Append(context.WithoutCancel(ctx), nacre.Record{Kind: nacre.KindMemory, Source: "core", Outcome: "no brief", Reason: err.Error()})
		return ""
	}
	s.memory.Warm() // a brain takes longer to begin than this
	return brief.Markdown()
}

// launchBrain seals the brain over its private clone, whose git folder it cannot write.
func (s *sealed) launchBrain(ctx context.Context, l brain.Launch, dir string, run Run, spec task.Spec) (*process, error) {
	mounts, err := s.roleFiles(l.Files)
	if err != nil {
		return nil, err
	}
	in := posture.Input{
		Project: dir, Protected: []string{".git"}, Mounts: append(mounts, l.Mounts...), Env: l.Env,
		Model: s.gateway != nil, Limits: run.Limits,
	}
	if spec.Audited != nil {
		in.Mounts = append(in.Mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: filepath.Join(s.Dir(), task.EvidenceDir), Target: evidenceAt})
	}
	var widened []string
	if spec.Order != nil {
		if widened, err = s.confine(&in, spec.Order.Atoms, spec.Order.Parameters); err != nil {
			return nil, err
		}
	}
	p, err := s.posture(in)
	if err != nil {
		return nil, err
	}
	if run.Started != nil {
		info := s.info(p, s.agent)
		info.Project = spec.Project
		info.NotEnforced = append(info.NotEnforced, widened...)
		run.Started(info)
	}
	started, err := startPiped(ctx, s.Session, sandbox.Command{Posture: p, SocketDir: s.SocketDir(), Argv: l.Argv})
	if err == nil {
		started.limited = func(why string) { s.noteLimit(ctx, why); s.limited.Store(why) }
	}
	return started, err
}

// roleFiles writes a brain's read-only files and binds each where it belongs.
func (s *sealed) roleFiles(files []brain.File) ([]nacre.Mount, error) {
	dir := filepath.Join(s.Dir(), roleDir)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return roleMounts(dir, files)
}

// roleMounts writes a brain's read-only files into dir and binds each where it belongs.
func roleMounts(dir string, files []brain.File) ([]nacre.Mount, error) {
	var mounts []nacre.Mount
	for i, f := range files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			return nil, fmt.Errorf("brain file %q: not a plain absolute path", f.Path)
		}
		host := filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(host, f.Data, os.FileMode(f.Mode)|0o400); err != nil {
			return nil, err
		}
		mounts = append(mounts, nacre.Mount{Source: host, Target: f.Path})
	}
	return mounts, nil
}

func (s *sealed) spent() int64 {
	micro := s.earlier.MicroUSD
	if s.gateway != nil {
		more, _, _ := s.gateway.Spent()
		micro += more
	}
	return micro
}

func title(text string) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), 60)])
}

func taskDigest(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}
