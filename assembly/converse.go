package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/task"
)

const (
	// groupWorkspace is where a group's own folder is inside (D-36).
	groupWorkspace = posture.Workspace + "/group"
	// gateWall is how long a script may take to say whether there is work (D-34).
	gateWall = time.Minute
	// maxFound is how much of what a script says the agent is told, in bytes.
	maxFound = 16 << 10
	// gateWake and gateIdle are the exit codes of a script that has an answer.
	gateWake, gateIdle = 0, 1
	// outcomeDone and outcomeIdle are what the registry says of a visit that did not fail.
	outcomeDone, outcomeIdle = "done", "nothing to do"
)

// visit is one turn of an agent for a group, without a project: a message that
// came, or a timer that fired (D-33, D-34).
type visit struct {
	id    nacre.SessionID
	group nacre.Group
	kind  string // "message" or "schedule"
	title string
	// frame are the host's own words around what was said, said is that, and from
	// is whose words it is.
	frame, said string
	from        nacre.Source
	// key names the conversation that goes on; empty is one that ends with the turn.
	key string
	// idle is how long a conversation may have rested and still go on; 0 is forever.
	idle time.Duration
	// gate is a script that says whether there is anything to do; nil means that there is.
	gate []string
	// shared are the plugins that serve every session of this process.
	shared *sharedPlugins
	tell   func(nacre.Step)
	// ended, where set, is called when the turn is over and kept, and before its
	// session is closed for good: in that, another turn would begin.
	ended func()
}

// visited is what became of a visit.
type visited struct {
	task.Visit
	Receipt string
}

// visit lets an agent act once for a group, sealed, in the group's own workspace.
func (r *Runtime) visit(ctx context.Context, v visit) (done visited, err error) {
	workspace, err := r.groupWorkspace(v.group)
	if err != nil {
		return done, err
	}
	talk, err := r.openConversation(ctx, v)
	if err != nil {
		return done, err
	}
	defer talk.leave()
	s, err := r.seal(ctx, request{id: v.id, group: v.group, kind: v.kind, title: v.title, task: v.frame, shared: v.shared, tell: v.tell})
	if err != nil {
		return done, err
	}
	finished := false
	defer func() {
		if !finished {
			err = errors.Join(err, s.close(ctx, "interrupted", false))
		}
	}()
	if err := s.hear(ctx, v, talk); err != nil {
		return done, err
	}
	done.Visit, err = s.attend(ctx, v, talk, workspace)
	if s.containment() != nil {
		finished = true
		v.isOver()
		return done, errors.Join(s.containment(), s.finish(ctx, "", v.frame, ""))
	}
	if err != nil {
		return done, err
	}
	if err := talk.keep(v, done.Visit, s.kernel.Tainted(s.ID()), r.options.Now()); err != nil {
		return done, err
	}
	finished = true
	v.isOver()
	done.Receipt, err = s.concludeVisit(ctx, v, done.Visit)
	return done, err
}

func (v visit) isOver() {
	if v.ended != nil {
		v.ended()
	}
}

// hear tells the kernel whose words the agent is about to read. A conversation
// that an outsider's words entered earlier goes on as what it became (M-52).
func (s *sealed) hear(ctx context.Context, v visit, talk *conversation) error {
	if earlier := talk.before(s.ID()); earlier != "" {
		if err := s.memory.Heard(ctx, memory.Writer{Session: s.ID()}, earlier); err != nil {
			return err
		}
	}
	if err := s.kernel.Observe(s.ID(), v.from, v.said); err != nil {
		return err
	}
	if talk.Tainted {
		return s.kernel.Observe(s.ID(), nacre.Source{Provenance: nacre.SeenUntrusted, Name: "what was said earlier in this conversation"}, talk.text())
	}
	return nil
}

// attend is the turn itself: the gate, then the brain.
func (s *sealed) attend(ctx context.Context, v visit, talk *conversation, workspace string) (task.Visit, error) {
	if err := s.Running(); err != nil {
		return task.Visit{}, err
	}
	var last *process
	parts := task.Parts{
		Session: s.Session, EnginePath: s.runtime.registry.Paths().Engine(),
		Launch: func(ctx context.Context, l brain.Launch, dir string) (brain.Process, error) {
			var err error
			last, err = s.launchVisitor(ctx, l, dir, talk)
			if err != nil {
				return nil, err
			}
			return last, nil
		},
		TimedOut: func() bool { return last.timedOut.Load() },
		Spent:    s.spent, Progress: s.tell, Redact: s.runtime.redact, Now: s.runtime.options.Now,
	}
	visit := task.VisitParts{Dir: workspace, Wake: func(ctx context.Context, found string) (task.Mind, error) { return s.wake(ctx, v, talk, found) }}
	if len(v.gate) > 0 {
		visit.Gate = func(ctx context.Context) (task.Gate, error) { return s.askGate(ctx, v.gate, workspace) }
	}
	return task.RunVisit(ctx, parts, visit)
}

// wake chooses a brain, opens the way to its model and prepares its turn: where a
// script decides whether there is anything to do, nothing of that is done before
// (D-34). What a script printed may be an outsider's words.
func (s *sealed) wake(ctx context.Context, v visit, talk *conversation, found string) (task.Mind, error) {
	if found != "" {
		if err := s.kernel.Observe(s.ID(), nacre.Source{Provenance: nacre.SeenUntrusted, Name: "what the schedule's script printed"}, found); err != nil {
			return task.Mind{}, err
		}
	}
	agent, err := s.employ(ctx)
	var notReady *NotReady
	var badConfig *ConfigError
	if errors.As(err, &notReady) || errors.As(err, &badConfig) {
		text, _ := s.runtime.redact.String(err.Error())
		return task.Mind{Failed: strings.Join(strings.Fields(text), " ")}, nil
	}
	if err != nil {
		return task.Mind{}, err
	}
	turn := brain.Turn{
		Model: s.runtime.config.Model.Name, SessionToken: s.token, MaxTokens: s.runtime.config.Model.MaxTokens,
		Context: s.runtime.config.Model.Context, Skills: s.skills(s.runtime.principal(s.Group(), s.ID(), v.frame)), System: s.brief(ctx),
	}
	turn.Task = joined(v.frame, quoted(v.said))
	if found != "" {
		turn.Task = joined(turn.Task, "Before this, a script found:", quoted(found))
	}
	if err := talk.begin(s.ID()); err != nil {
		return task.Mind{}, err
	}
	if talk.Resume != "" && talk.Brain == agent.Name() {
		turn.Resume = talk.Resume
	} else {
		turn.System = joined(turn.System, talk.recall())
	}
	return task.Mind{Brain: watchedBrain{agent, s}, Turn: turn}, nil
}

// employ finds the session's brain and opens the gateway to its model.
func (s *sealed) employ(ctx context.Context) (brain.Brain, error) {
	spec := task.Spec{Model: s.runtime.config.Model.Name}
	agent, status, err := s.runtime.chooseBrain(ctx, &spec)
	if err != nil {
		return nil, err
	}
	s.agent = strings.TrimSpace(spec.Brain + " " + status.Version)
	if err := s.Update(func(h *registry.Session) { h.Brain = spec.Brain }); err != nil {
		return nil, err
	}
	detail, err := json.Marshal(map[string]string{"brain": s.agent})
	if err == nil {
		err = s.Recorder.Commit(ctx, nacre.Record{Kind: nacre.KindBrainEvent, Source: sourceCore, Outcome: "chosen", Detail: detail})
	}
	if err != nil || agent.Name() == brain.ReplayName {
		return agent, err
	}
	return agent, s.serveModel()
}

// visitorInput is what every program of a visit may reach: the group's workspace.
func visitorInput(workspace string) posture.Input {
	return posture.Input{Mounts: []nacre.Mount{{Kind: nacre.BindReadWrite, Source: workspace, Target: groupWorkspace}}}
}

// launchVisitor seals a brain over the group's workspace, with what its
// conversation keeps.
func (s *sealed) launchVisitor(ctx context.Context, l brain.Launch, workspace string, talk *conversation) (*process, error) {
	mounts, err := s.roleFiles(l.Files)
	if err != nil {
		return nil, err
	}
	in := visitorInput(workspace)
	in.Env, in.Model = l.Env, s.gateway != nil
	in.Mounts = append(append(in.Mounts, mounts...), l.Mounts...)
	if l.State != "" && talk.state != "" {
		in.Mounts = append(in.Mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: talk.state, Target: l.State})
	}
	p, err := s.posture(in)
	if err != nil {
		return nil, err
	}
	started, err := startPiped(ctx, s.Session, sandbox.Command{Posture: p, SocketDir: s.SocketDir(), Argv: l.Argv})
	if err == nil {
		started.limited = func(why string) { s.noteLimit(ctx, why); s.limited.Store(why) }
	}
	return started, err
}

// askGate runs a script sealed in the group's workspace: 0 wakes the model with
// what the script printed, 1 is nothing to do, all else is a failure.
func (s *sealed) askGate(ctx context.Context, argv []string, workspace string) (task.Gate, error) {
	in := visitorInput(workspace)
	in.Limits.Wall = gateWall
	p, err := s.posture(in)
	if err != nil {
		return task.Gate{}, err
	}
	script, err := startPiped(ctx, s.Session, sandbox.Command{Posture: p, SocketDir: s.SocketDir(), Argv: argv})
	if err != nil {
		return task.Gate{}, err
	}
	out, code, err := script.collect(maxFound)
	switch {
	case ctx.Err() != nil:
		return task.Gate{}, ctx.Err()
	case script.timedOut.Load():
		return task.Gate{Failed: "the script took longer than " + gateWall.String()}, nil
	case err != nil:
		return task.Gate{Failed: err.Error()}, nil //nolint:nilerr // it is what the gate has to say
	}
	found, _ := s.runtime.redact.String(strings.ToValidUTF8(string(out), "\uFFFD"))
	switch code {
	case gateWake:
		return task.Gate{Wake: true, Found: found}, nil
	case gateIdle:
		return task.Gate{}, nil
	}
	return task.Gate{Failed: "the script ended with " + strconv.Itoa(code)}, nil
}

// concludeVisit closes the session and signs what it did.
func (s *sealed) concludeVisit(ctx context.Context, v visit, done task.Visit) (string, error) {
	outcome := "failed"
	switch {
	case done.Idle:
		outcome = outcomeIdle
	case done.Done():
		outcome = outcomeDone
	}
	chains, box := s.Chains(), s.Sandbox().Name()
	if err := s.close(ctx, outcome, true); err != nil {
		return "", err
	}
	r := s.runtime
	counts, cost, err := r.count(chains)
	if err != nil {
		return "", err
	}
	return r.writeReceipt(audit.Receipt{
		Session: s.ID(), Group: s.Group(), Started: s.started, Finished: r.options.Now(), TaskDigest: taskDigest(joined(v.frame, v.said)),
		Outcome: outcome, Brain: s.agent, Sandbox: box, PolicyDigest: r.policy.Version(), Counts: counts, Cost: cost,
	}, chains[len(chains)-1])
}

// groupWorkspace makes a group's own folder, which outlives its sessions (D-36).
func (r *Runtime) groupWorkspace(g nacre.Group) (string, error) {
	dir := filepath.Join(r.registry.Paths().Group(g), "workspace")
	return dir, os.MkdirAll(dir, 0o700)
}

// joined puts paragraphs together, without the empty ones.
func joined(paragraphs ...string) string {
	var kept []string
	for _, p := range paragraphs {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "\n\n")
}

// quoted marks a text as somebody's words: no line of it can end the quotation.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return "> " + strings.Join(strings.FieldsFunc(text, lineEnd), "\n> ")
}

// lineEnd tells every character that a reader may take for the end of a line.
func lineEnd(c rune) bool {
	switch c {
	case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}
