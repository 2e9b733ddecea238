// Package work lets an agent work on a project, sealed, and lands what was verified;
// and it judges and audits such work.
package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/children"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/fetch"
	"github.com/nacre-dev/nacre/internal/graduation"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/launch"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/order"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/verify"
	"github.com/nacre-dev/nacre/kernel"
)

// Run is a task for an agent (M-01).
type Run struct {
	Task    string
	Project string
	Choice
	Checks []string
	Egress []string
	Group  nacre.Group
	Assignment
	Ending
	// Session names the session; one that was interrupted goes on with its work.
	Session nacre.SessionID
	Effort
	Limits nacre.Limits
	Asking seal.Asking
	Telling
	// Observe, where set, is given what comes out of the sandbox as it came, for
	// witnesses and tests. It is unredacted: keep it from people and files.
	Observe func(text string)

	behalf
}

// Choice is of the brain that does the work.
type Choice struct {
	Brain     string // empty means the config's, else the first that is ready
	Model     string
	Recording string // what the replay brain plays
	// Record names a new file for what the brain chooses, redacted, for replay.
	Record string
}

// Ending is how far a run goes.
type Ending struct {
	// Until leaves the task at a stage, for a later run to go on with.
	Until nacre.Stage
	// Merger lands only what an auditor has passed (S-08). Session names the work.
	Merger bool
}

// Telling is who hears what happens in a run. Progress is required; it may be called concurrently.
type Telling struct {
	Started  func(seal.SessionInfo)
	Progress func(nacre.Step)
	// Child, where set, says who hears a sub-agent's run, and its end when nothing of that runs any more.
	Child func(nacre.SessionID) (run Telling, ended func(Report, error))
}

// behalf is for whom a run is, where no person asked for it, and what was found for it.
type behalf struct {
	// audited is the work that this run's agent judges.
	audited *task.Audited
	// child is what the run is to its parent, and of what its parent was asked.
	child *children.Child
	of    task.Spec
	// carried is what a machine that is lost was asked for, and packed the snapshot of it.
	carried *task.Spec
	packed  []byte
	// standing looks once for what stands against the run: that takes a git status of all of the project.
	standing func() (obstacles, error)
}

// Assignment makes a run one of the substrate, in a role. The zero value is a plain run.
type Assignment struct {
	// TaskFile is a task that the run carries out; Task is then left out: the prompt is
	// composed.
	TaskFile string
	// Role is the role of a run that has no file: the run's Task is what is asked for.
	Role string
	// Powers are those that the run has though they are locked (M-51).
	Powers []string
}

// Effort bounds what an agent may do until its work holds.
type Effort struct {
	MaxTurns int
	// Tries is how often the agent may work; each but the first is told what failed. 0
	// means once.
	Tries int
	// Budget is what the work may cost, in dollars such as "1.50". Empty means 30 % more than tasks like
	// it cost, where some are known (M-54).
	Budget string
	// Held is what becomes of changes that programs of the host obey: "wait", "leave-out" or "take".
	// Empty means what the config says, and "wait" where that is nothing (M-67).
	Held string
	// Dirty lets the agent work on the project's uncommitted edits as well, which are no part
	// of what lands (U-20).
	Dirty bool
}

// Report is what became of a run.
type Report struct {
	Session nacre.SessionID `json:"session"`
	nacre.RunResult
	Ordered
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
	Leavings
	Duration time.Duration `json:"duration_ns"`
	Counted
	Taped
	// Children says what came of each sub-agent, by its session.
	Children map[string]string `json:"children,omitempty"`
	// Kernel are the counters of this opening's kernel (K-23).
	Kernel kernel.Stats `json:"kernel"`
}

// Ordered names the task of the substrate that a run carried out; empty for other runs.
type Ordered struct {
	Agent string `json:"agent,omitempty"`
	Role  string `json:"role,omitempty"`
	DNA   string `json:"dna,omitempty"`
}

// Counted is how many calls the records of a run's session say were denied and asked about, and
// how many secrets were taken out.
type Counted struct {
	Denied   int `json:"denied"`
	Asked    int `json:"asked"`
	Redacted int `json:"redacted"`
}

// Taped is the recording of a run.
type Taped struct {
	// Recorded is the file of the recording; Unrecorded names the tools whose
	// calls it could not hold.
	Recorded   string `json:"recorded,omitempty"`
	Unrecorded string `json:"unrecorded,omitempty"`
}

// Leavings are the agent's files of a run that did not land.
type Leavings struct {
	// Work is where they are. Where Over is set, those alone are there that differ from
	// that commit's, with an empty device for each that is gone.
	Work string `json:"work,omitempty"`
	Over string `json:"over,omitempty"`
}

// groupOf is the group that a session works for: one that goes on stays what it was.
func groupOf(inst *installation.Installation, id nacre.SessionID, asked nacre.Group) (nacre.Group, error) {
	known, err := inst.Registry.Show(id)
	switch {
	case errors.Is(err, registry.ErrUnknown) || err == nil && !known.Resumable:
		return inst.Group(asked)
	case err != nil:
		return "", err
	case asked != "" && asked != known.Group:
		return "", config.Errorf("session %s works for the group %s: go on without --group, or with --group %s", id, known.Group, known.Group)
	}
	return inst.Group(known.Group)
}

// request is the session that a run asks for.
func (run Run) request(id nacre.SessionID, group nacre.Group, spec task.Spec, agent brain.Brain, status brain.Status, family *children.Family) seal.Request {
	return seal.Request{
		ID: id, Group: group, Kind: "run", Title: title(spec.Words()), Project: spec.Project,
		Mind: seal.Mind{Brain: spec.Brain, Version: status.Version, Model: agent.Name() != brain.ReplayName && !run.startsNone()}, Said: seal.Said{Task: spec.Task}, Ways: seal.Ways{Egress: slices.Concat(spec.Egress, spec.PowerHosts), Powers: spec.Powers}, Asking: run.Asking,
		Listener: seal.Listener{Tell: run.Progress}, Holding: seal.Holding{Confined: spec.Order != nil}, Kin: family.Kin(),
		Prepare: func(dir string) error { return errors.Join(task.KeepPack(dir, run.packed), keepSpec(dir, spec)) },
	}
}

// Do lets an agent work on a project, sealed, and lands what was verified.
func Do(ctx context.Context, inst *installation.Installation, run Run) (report Report, err error) {
	if err := canRecord(run.Record); err != nil {
		return Report{}, err
	}
	id, err := run.sessionID()
	if err != nil {
		return Report{}, err
	}
	spec, err := spec(ctx, inst, id, run)
	if err != nil {
		return Report{}, err
	}
	if run.Merger {
		if refused, err := mayMerge(ctx, inst, id, spec); err != nil || refused.Reason != "" {
			return refused, err
		}
	}
	group, err := groupOf(inst, id, run.Group)
	if err != nil {
		return Report{}, err
	}
	agent, status, estimate, err := ready(ctx, inst, id, &run, &spec)
	if err != nil {
		return Report{}, err
	}
	family := run.family(inst, spec)
	s, err := seal.Open(ctx, inst, run.request(id, group, spec, agent, status, family))
	if err != nil {
		return Report{}, err
	}
	tellLocked(s)
	family.Below(parentOf(s))
	if run.child != nil { // its parent does not wait for its calls
		defer context.AfterFunc(ctx, func() { s.Stop(operator.ErrStopped) })()
	}
	ctx = s.Interruption.Context(ctx, s.Warn)
	report = reportOf(s.ID(), spec)
	finished := false
	defer func() {
		if !finished {
			err = errors.Join(err, suspend(ctx, s, spec, err))
		}
	}()
	if err := bind(ctx, s, spec, estimate); err != nil {
		return report, err
	}
	var recorder brain.Recorder
	if run.Record != "" {
		agent = brain.Record(agent, &recorder)
	}
	report.RunResult, err = work(ctx, s, run, spec, family, s.Watch.Brain(agent))
	family.Close() // nothing of them outlives it
	report.Children = family.Outcomes()
	report.Failed = failuresOf(report.Atoms)
	err = errors.Join(err, registry.KeepFailedCheck(s.Dir(), report.Checks))
	err = cmp.Or(err, keepRecording(s, run.Record, &recorder, spec, &report))
	if c := s.Watch.Containment(); c != nil {
		finished = true
		report.Reason, report.Passed, report.Landed = "its session was contained: "+c.What, false, false
		err := hadLanded(ctx, s, &report.RunResult)
		return report, errors.Join(c, err, giveUp(ctx, s, spec, report.RunResult), s.Finish(ctx, "", spec.Task, spec.Project))
	}
	if errors.Is(err, task.ErrPaused) {
		report.pause(run.Until)
		return report, nil // the session is left to go on
	}
	if err = closeBooks(ctx, s, &report, spec, err); err != nil {
		return report, err
	}
	report.Limit, _ = s.Limited.Load().(string)
	report.TimedOut, report.Kernel = report.Brain == task.TimedOut, s.Kernel.Stats()
	finished = true
	return conclude(ctx, s, report, spec)
}

// pause says after which step the run waits; what was verified and must not land
// yet waits for its audit.
func (r *Report) pause(after nacre.Stage) {
	r.Paused = after
	if r.Reason == "" {
		return
	}
	r.Paused = nacre.StageVerified
	if r.Next == "" {
		r.Next = auditNext(r.Session)
	}
}

// closeBooks accounts for work that the engine has ended without a result, with
// which nobody can go on. Any other error stays what it is.
func closeBooks(ctx context.Context, s *seal.Session, report *Report, spec task.Spec, err error) error {
	var ended *task.EndedError
	if !errors.As(err, &ended) {
		return err
	}
	report.Reason, report.Next = "the work ended without a result: "+ended.Reason, "begin anew, in this session or another"
	if err := hadLanded(ctx, s, &report.RunResult); err != nil {
		return err
	}
	return errors.Join(decided(ctx, s, spec, report.RunResult), account(ctx, s, spec, report.RunResult, 0))
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
func spec(ctx context.Context, inst *installation.Installation, id nacre.SessionID, run Run) (task.Spec, error) {
	if run.carried != nil {
		return *run.carried, nil
	}
	earlier, going, err := interrupted(inst, id)
	if err != nil {
		return task.Spec{}, err
	}
	if going {
		if run.Task != "" && run.Task != earlier.Task {
			return task.Spec{}, config.Errorf("session %s has unfinished work: go on with `nacre run --session %s`, or use another session", id, id)
		}
		return earlier, errors.Join(order.SameTask(id, earlier.Order, run.TaskFile), sameWork(id, earlier, run))
	}
	if run.Task == "" && run.TaskFile == "" && run.Session != "" && run.Recording == "" {
		if _, err := inst.Registry.Show(id); errors.Is(err, registry.ErrUnknown) {
			return task.Spec{}, config.Errorf("no task, and %w", err)
		}
		return task.Spec{}, config.Errorf("no task, and session %s has no unfinished work to go on with: name a task", id)
	}
	if run.Task == "" && run.Recording == "" && run.TaskFile == "" && run.audited == nil {
		return task.Spec{}, config.Errorf("no task: write one after `nacre run`, or name a file with --prompt-file")
	}
	project, err := installation.ProjectFolder(config.OrDot(run.Project))
	if err != nil {
		return task.Spec{}, err
	}
	if err := inspect(ctx, inst, project); err != nil {
		return task.Spec{}, err
	}
	own, err := installation.OwnBelow(inst, project)
	if err != nil {
		return task.Spec{}, &config.Error{Err: err}
	}
	order, err := run.pin(project)
	if err == nil {
		err = knownParent(ctx, inst, order)
	}
	if err != nil {
		return task.Spec{}, err
	}
	held, err := task.ParseHeld(cmp.Or(run.Held, inst.Config.Landing.Held))
	if err != nil {
		return task.Spec{}, config.Errorf("--held %w", err)
	}
	spec := task.Spec{
		Origin: task.Origin{Parent: run.parent()}, Held: held, Order: order, Audited: run.audited, Task: run.Task, Project: project, Brain: run.Brain, Model: run.Model, Checks: run.Checks, Reach: task.Reach{Egress: run.Egress, Powers: run.Powers},
		MaxTurns: run.MaxTurns, Tries: run.Tries, Files: task.Files{Own: own, Dirty: run.Dirty},
	}
	if spec.PowerHosts, err = graduation.Hosts(inst, run.Powers); err != nil {
		return task.Spec{}, err
	}
	if len(spec.Checks) == 0 {
		spec.Checks = inst.Config.Checks
	}
	if spec.Model == "" {
		spec.Model = inst.Config.Model.Name
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
		return registry.OrNew(run.Session), nil
	}
	t, err := order.ReadTask(run.TaskFile)
	if err != nil {
		return "", err
	}
	id, err := nacre.ParseSessionID(strings.ToLower(t.AgentID))
	if err != nil {
		return registry.OrNew(""), nil //nolint:nilerr // then it has a name of its own
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
	case run.child != nil:
		var held bool
		var err error
		if t, held, err = order.Below(run.of, run.child.Role, run.Task); err != nil || !held {
			return nil, err
		}
		t.Parent = run.child.Kin.Row
	case run.TaskFile != "" && run.Role != "":
		return nil, config.Errorf("a task's file names its role: leave --role out")
	case run.Role != "":
		var err error
		if t, err = atom.NewTask(run.Role, run.Task); err != nil {
			return nil, config.Errorf("--role %s: %w", run.Role, err)
		}
	case run.TaskFile == "":
		return nil, nil //nolint:nilnil // not every run carries out a task of the substrate
	case run.Task != "":
		return nil, config.Errorf("a task's file has its own words: leave the other task out")
	default:
		var err error
		if t, err = order.ReadTask(run.TaskFile); err != nil {
			return nil, err
		}
	}
	order, prompt, err := order.Pin(project, t)
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
		{"role", run.Role != "" && (earlier.Order == nil || run.Role != earlier.Order.Role)},
		{"brain", run.Brain != "" && run.Brain != earlier.Brain},
		{"project", otherProject(run.Project, earlier.Project)},
		{"model", run.Model != "" && run.Model != earlier.Model},
		{"recording", recording != "" && recording != earlier.Recording},
		{"check", len(run.Checks) > 0 && !slices.Equal(run.Checks, earlier.Checks)},
		{"egress", len(run.Egress) > 0 && !slices.Equal(run.Egress, earlier.Egress)},
		{"power", len(run.Powers) > 0 && !slices.Equal(run.Powers, earlier.Powers)},
		{"held", run.Held != "" && !sameHeld(run.Held, earlier.Held)},
		{"tries", run.Tries > 1 && run.Tries != earlier.Tries},
		{"max-turns", run.MaxTurns != 0 && run.MaxTurns != earlier.MaxTurns},
	} {
		if flag.other {
			return config.Errorf("session %s goes on as it was begun: leave --%s out, or use another session", id, flag.name)
		}
	}
	return nil
}

func sameHeld(text string, earlier task.Held) bool {
	held, err := task.ParseHeld(text)
	return err == nil && held == earlier
}

// otherProject tells whether a folder was named that is not the one of the
// work. The folder one stands in is what is meant where none is named.
func otherProject(named, earlier string) bool {
	if config.OrDot(named) == "." {
		return false
	}
	folder, err := installation.ProjectFolder(named)
	return err != nil || folder != earlier
}

// inspect refuses a project that a run could not work on, before it begins.
func inspect(ctx context.Context, inst *installation.Installation, project string) error {
	if _, err := exec.LookPath("git"); err != nil {
		return &installation.NotReady{What: "git is not installed", Next: "install git: runs work on repositories", Err: err}
	}
	dir, err := os.MkdirTemp(inst.Registry.Paths().State, "inspect-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing of worth is in it
	if err := task.Inspect(ctx, project, dir, inst.Options.Now); err != nil && ctx.Err() == nil {
		return &config.Error{Err: err}
	}
	return ctx.Err()
}

func interrupted(inst *installation.Installation, id nacre.SessionID) (task.Spec, bool, error) {
	known, err := inst.Registry.Show(id)
	if errors.Is(err, registry.ErrUnknown) || (err == nil && known.Work == "") {
		return task.Spec{}, false, nil
	}
	if err != nil {
		return task.Spec{}, false, err
	}
	if known.Kind != "run" {
		return task.Spec{}, false, config.Errorf("session %s is an exec session: use another name", id)
	}
	if known.Parent != "" {
		return task.Spec{}, false, config.Errorf("session %s is that of a sub-agent, whose work ends with it: go on with its parent, nacre run --session %s", id, known.Parent)
	}
	dir := inst.Registry.Paths().Session(id)
	spec, there, err := specIn(dir)
	if err == nil && !there { // it was interrupted before it began
		var begun bool
		if begun, err = task.HasBegun(dir, known.Work); begun {
			err = errors.New("its work has begun, and what it was asked to do is gone: give it up with nacre sessions give-up " + string(id))
		}
	}
	if err != nil {
		return task.Spec{}, false, fmt.Errorf("session %s: %w", id, err)
	}
	return spec, there, nil
}

// specIn is what the session of a folder was asked to do, where that is kept.
func specIn(dir string) (spec task.Spec, there bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, registry.SpecFile))
	if errors.Is(err, os.ErrNotExist) {
		return task.Spec{}, false, nil
	}
	if err != nil {
		return task.Spec{}, false, err
	}
	err = json.Unmarshal(data, &spec)
	if err == nil && !filepath.IsAbs(spec.Project) {
		err = errors.New("it names no project")
	}
	if err != nil {
		return task.Spec{}, false, fmt.Errorf("what it was asked to do is damaged: %w; give it up with nacre sessions give-up", err)
	}
	return spec, true, nil
}

func keepSpec(dir string, spec task.Spec) error {
	return registry.Keep(dir, registry.SpecFile, spec)
}

// work runs the task with the parts that this session has.
func work(ctx context.Context, s *seal.Session, run Run, spec task.Spec, family *children.Family, chosen brain.Brain) (nacre.RunResult, error) {
	if err := s.Running(); err != nil {
		return nacre.RunResult{}, err
	}
	if run.audited != nil { // what an earlier auditor passed holds until here
		if err := keepAudit(s.Inst, pendingAudit(run.audited)); err != nil {
			return nacre.RunResult{}, err
		}
	}
	if err := enter(ctx, s, spec); err != nil {
		return nacre.RunResult{}, err
	}
	turn, err := turn(ctx, s, run, spec)
	if err != nil {
		return nacre.RunResult{}, err
	}
	var last *launch.Program // each conversation launches one
	var left nacre.RunResult
	result, err := task.Run(ctx, task.Parts{
		Session: agent.ForTask(s.Basis), Kept: task.Kept{Engine: s.Inst.Registry.Paths().Engine(), Bases: bases(ctx, s, spec), Aside: aside(s, spec)}, Starting: task.Starting{Brain: children.Brain(chosen, family), Turn: turn,
			Launch: func(ctx context.Context, l brain.Launch, files task.Workspace) (task.Agent, error) {
				var err error
				s.WorksOver(files.Base)
				family.Works(s.Inst.Options.Now().Add(run.Limits.WithDefaults().Wall))
				if last, err = launchBrain(ctx, s, l, files, run, spec); err != nil {
					return nil, err
				}
				s.Watch.Result(last.Process, repo.Written(files.Dir))
				return last, nil
			},
			TimedOut: func() bool { return last.TimedOut() }},
		Judging: task.Judging{Check: func(ctx context.Context, code task.Workspace, command string, modules []verify.Module) (nacre.CheckResult, error) {
			return apart(s).Check(ctx, code.Dir, code.Base, command, modules)
		}, Fetch: func(ctx context.Context, p verify.Packages) (verify.Fetched, error) {
			return fetch.Packages(ctx, s.Basis, p)
		}, Judge: func(ctx context.Context, w verify.Subject, atoms []atom.Atom) (verify.Report, error) {
			return judge(ctx, s, spec.Order, w, atoms)
		}},
		Spent:    s.Model.Spent,
		Observe:  run.Observe,
		Progress: s.Tell, Redact: s.Inst.Redact, Now: s.Inst.Options.Now,
		Merging: task.Merging{Queue: run.queue(s, spec), Delegated: family.Delegated},
		Account: func(ctx context.Context, result nacre.RunResult, before []nacre.RunResult) error {
			learn(ctx, s, spec, result, before)
			return errors.Join(decided(ctx, s, spec, result), account(ctx, s, spec, result, len(before)+1))
		},
		MayLand: func(tree string) string { return mayLand(s, run, tree) },
		Notify:  func(ctx context.Context, refusal string) error { return order.GoOn(ctx, s.Basis, refusal) }, Until: run.Until, Paused: func(r nacre.RunResult) { left = r },
	}, spec)
	if errors.Is(err, task.ErrPaused) {
		return left, err
	}
	return result, err
}

// turn is what the brain is given: the task, the memory brief and the skills.
func turn(ctx context.Context, s *seal.Session, run Run, spec task.Spec) (brain.Turn, error) {
	if run.startsNone() {
		var err error
		_, s.Model.Earlier, err = receipt.Count(s.Inst, s.Chains()) // the gateway is what counts it elsewhere
		return brain.Turn{}, err
	}
	turn := brain.Turn{
		Task: spec.Task, Model: spec.Model, SessionToken: s.Model.Token, MaxTurns: spec.MaxTurns,
		MaxTokens: s.Inst.Config.Model.MaxTokens, Context: s.Inst.Config.Model.Context,
		Skills: agent.Skills(s.Usable(s.Inst.Principal(s.Group(), s.ID(), spec.Task)), s.Plugins.Skills()), System: agent.Brief(ctx, s.Basis, s.Memory, s.Recall) + warning(ctx, s, spec),
	}
	var err error
	if spec.Order != nil {
		if turn.Gates, err = spec.Order.Gates.Bytes(); err != nil {
			return brain.Turn{}, err
		}
		turn.Offers = spec.Order.Gates.Offers
	}
	if spec.Recording == "" {
		return turn, nil
	}
	turn.Recording, err = readRecording(spec.Recording)
	return turn, err
}

func readRecording(path string) ([]byte, error) {
	data, err := order.ReadRegular(path, brain.MaxRecording)
	if err != nil {
		return nil, config.Errorf("recording %s: %w", path, err)
	}
	if _, err := brain.ParseRecording(data); err != nil {
		return nil, config.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// bases is where the bases are that a run's stages are layers over (P-03). Empty means that each stage
// gets a whole copy. It does where this machine or this backend lays no layers. It does where something
// of the host reads or writes the agent's files while it works, as roles, auditors and plugins that see
// the project do. So does an agent that may try again: not every layer that was written to can be laid a
// second time.
func bases(ctx context.Context, s *seal.Session, spec task.Spec) string {
	if spec.Tries > 1 || spec.Order != nil || spec.Audited != nil || spec.Carried != nil || s.Plugins.ShowsProject() {
		return ""
	}
	return launch.Bases(ctx, s.Basis)
}

// launchBrain seals the brain over its private clone, whose git folder it cannot write.
func launchBrain(ctx context.Context, s *seal.Session, l brain.Launch, files task.Workspace, run Run, spec task.Spec) (*launch.Program, error) {
	mounts, err := agent.RoleFiles(s.Basis, l.Files)
	if err != nil {
		return nil, err
	}
	in := launch.Inside{
		Project: files.Dir, Base: files.Base, Protected: []string{".git"}, Mounts: append(mounts, l.Mounts...), Env: l.Env,
		Model: s.Model.Gateway != nil, Limits: run.Limits,
	}
	if spec.Audited != nil {
		in.Mounts = append(in.Mounts, nacre.Mount{Kind: nacre.BindReadOnly, Source: filepath.Join(s.Dir(), task.EvidenceDir), Target: evidenceAt})
	}
	var widened []string
	if spec.Order != nil {
		if widened, err = order.Confine(s.Basis, &in, spec.Order.Atoms, spec.Order.Parameters); err != nil {
			return nil, err
		}
	}
	p, err := s.Posture(in)
	if err != nil {
		return nil, err
	}
	if run.Started != nil {
		info := s.Info(p, s.Agent)
		info.Project, info.Widened = spec.Project, widened
		known, err := run.standing()
		if err != nil {
			return nil, err
		}
		info.Obstacles, info.Unseen = known.found, known.unseen
		run.Started(info)
	}
	deaf := func() {}
	if l.Refused != nil {
		if deaf, err = agent.HearRefusals(ctx, s.SocketDir(), l.Refused); err != nil {
			return nil, err
		}
	}
	started, err := launch.Start(ctx, s.Basis, p, l.Argv, &s.Limited)
	if err != nil {
		deaf()
		return nil, err
	}
	await := started.Await
	started.Await = func() (int, error) {
		defer deaf()
		return await()
	}
	return started, nil
}

func title(text string) string {
	runes := []rune(task.WithoutSecrets(text)) // before it is cut: half a secret is not known for one
	return string(runes[:min(len(runes), 60)])
}
