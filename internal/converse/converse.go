// Package converse gives an agent the turn that a message or a schedule asks for:
// gate, conversation, record.
package converse

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
	"github.com/nacre-dev/nacre/internal/agent"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/launch"
	"github.com/nacre-dev/nacre/internal/receipt"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/scheduling"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

const (
	// gateWall is how long a script may take to say whether there is work (D-34).
	gateWall = time.Minute
	// maxFound is how much of what a script says the agent is told, in bytes.
	maxFound = 16 << 10
	// gateWake and gateIdle are the exit codes of a script that has an answer.
	gateWake, gateIdle = 0, 1
)

// Attend lets an agent act once for a group, sealed, in the group's own workspace.
// shared, where it is not nil, are plugins that serve other sessions too; asking says how a person is
// asked meanwhile.
func Attend(ctx context.Context, inst *installation.Installation, v conversation.Request, shared *seal.Shared, asking seal.Asking) (done conversation.Result, err error) {
	workspace, err := workspaceOf(inst, v.Group)
	if err != nil {
		return done, err
	}
	talk, err := conversation.OpenConversation(ctx, inst, v)
	if err != nil {
		return done, err
	}
	defer talk.Leave()
	s, err := seal.Open(ctx, inst, seal.Request{ID: v.ID, Group: v.Group, Kind: v.Kind, Title: v.Title, Ways: seal.Ways{Folder: workspace}, Said: seal.Said{Task: v.Frame}, Shared: shared, Listener: seal.Listener{Tell: v.Tell}, Asking: asking})
	if err != nil {
		return done, err
	}
	ctx = s.Interruption.Context(ctx, s.Warn)
	finished := false
	defer func() {
		if !finished {
			err = errors.Join(err, s.Stopped(), s.Close(ctx, "interrupted", false))
		}
	}()
	if err := hear(ctx, s, v, talk); err != nil {
		return done, err
	}
	done.Visit, err = attend(ctx, s, v, talk, workspace)
	if s.Watch.Containment() != nil {
		finished = true
		isOver(v)
		return done, errors.Join(s.Watch.Containment(), s.Finish(ctx, "", v.Frame, ""))
	}
	if err != nil {
		return done, err
	}
	if err := talk.Keep(v, done.Visit, s.Kernel.Tainted(s.Key()), s.Kernel.AnswerEnded(s.Key()), inst.Options.Now()); err != nil {
		return done, err
	}
	finished = true
	isOver(v)
	done.Receipt, err = concludeVisit(ctx, s, v, done.Visit)
	return done, err
}

func isOver(v conversation.Request) {
	if v.Ended != nil {
		v.Ended()
	}
}

// hear tells the kernel whose words the agent is about to read. A conversation
// that an outsider's words entered earlier goes on as what it became (M-52).
func hear(ctx context.Context, s *seal.Session, v conversation.Request, talk *conversation.Conversation) error {
	if earlier := talk.Before(s.ID()); earlier != "" {
		if err := s.Heard(ctx, earlier); err != nil {
			return err
		}
	}
	if err := s.Kernel.Observe(s.Key(), v.From, v.Said); err != nil {
		return err
	}
	v.Answer.Ended = talk.Private
	if err := s.Kernel.Answer(s.Key(), v.Answer); err != nil {
		return err
	}
	if talk.Tainted {
		return s.Kernel.Observe(s.Key(), nacre.Source{Provenance: nacre.SeenUntrusted, Name: "what was said earlier in this conversation"}, talk.Text())
	}
	return nil
}

// attend is the turn itself: the gate, then the brain.
func attend(ctx context.Context, s *seal.Session, v conversation.Request, talk *conversation.Conversation, workspace string) (task.Visit, error) {
	if err := s.Running(); err != nil {
		return task.Visit{}, err
	}
	var last *launch.Program
	parts := task.Parts{
		Session: agent.ForTask(s.Basis), Kept: task.Kept{Engine: s.Inst.Registry.Paths().Engine()},
		Starting: task.Starting{Launch: func(ctx context.Context, l brain.Launch, files task.Workspace) (task.Agent, error) {
			var err error
			last, err = launchVisitor(ctx, s, l, files.Dir, talk)
			if err != nil {
				return nil, err
			}
			if v.Begun != nil {
				if err := v.Begun(); err != nil {
					return nil, errors.Join(err, last.End())
				}
			}
			return last, nil
		},
			TimedOut: func() bool { return last.TimedOut() }},
		Spent: s.Model.Spent, Progress: s.Tell, Redact: s.Inst.Redact, Now: s.Inst.Options.Now,
	}
	visit := task.VisitParts{Dir: workspace, Wake: func(ctx context.Context, found string) (task.Mind, error) { return wake(ctx, s, v, talk, found) }}
	if len(v.Gate) > 0 {
		visit.Gate = func(ctx context.Context) (task.Gate, error) { return askGate(ctx, s, v.Gate, workspace) }
	}
	return task.RunVisit(ctx, parts, visit)
}

// wake chooses a brain, opens the way to its model and prepares its turn. Where a script decides
// whether there is anything to do, nothing of that is done before (D-34). What a script printed may
// be an outsider's words.
func wake(ctx context.Context, s *seal.Session, v conversation.Request, talk *conversation.Conversation, found string) (task.Mind, error) {
	if found != "" {
		if err := s.Kernel.Observe(s.Key(), nacre.Source{Provenance: nacre.SeenUntrusted, Name: "what the schedule's script printed"}, found); err != nil {
			return task.Mind{}, err
		}
	}
	chosen, err := employ(ctx, s)
	var notReady *installation.NotReady
	var badConfig *config.Error
	if errors.As(err, &notReady) || errors.As(err, &badConfig) {
		text, _ := s.Inst.Redact.String(err.Error())
		return task.Mind{Failed: strings.Join(strings.Fields(text), " ")}, nil
	}
	if err != nil {
		return task.Mind{}, err
	}
	turn := brain.Turn{
		Model: s.Inst.Config.Model.Name, SessionToken: s.Model.Token, MaxTokens: s.Inst.Config.Model.MaxTokens,
		Context: s.Inst.Config.Model.Context, Skills: agent.Skills(s.Usable(s.Inst.Principal(s.Group(), s.ID(), v.Frame)), s.Plugins.Skills()), System: recall(ctx, s, v, talk),
	}
	turn.Task = conversation.Joined(v.Frame, conversation.Quoted(v.Said))
	if found != "" {
		turn.Task = conversation.Joined(turn.Task, "Before this, a script found:", conversation.Quoted(found))
	}
	if err := talk.Begin(s.ID()); err != nil {
		return task.Mind{}, err
	}
	if talk.Resume != "" && talk.Brain == chosen.Name() {
		turn.Resume = talk.Resume
	} else {
		turn.System = conversation.Joined(turn.System, talk.Recall())
	}
	return task.Mind{Brain: s.Watch.Brain(chosen), Turn: turn}, nil
}

// recall is what the group's memory tells the agent before it starts: nothing where whoever it
// answers may not be told (M-50b).
func recall(ctx context.Context, s *seal.Session, v conversation.Request, talk *conversation.Conversation) string {
	if !v.HearsMemory() {
		return ""
	}
	brief := agent.Brief(ctx, s.Basis, s.Memory, s.Recall)
	if brief != "" {
		talk.Remember(v)
	}
	return brief
}

// employ finds the session's brain and opens the gateway to its model.
func employ(ctx context.Context, s *seal.Session) (brain.Brain, error) {
	spec := task.Spec{Model: s.Inst.Config.Model.Name}
	agent, status, err := agent.ChooseBrain(ctx, s.Inst, &spec)
	if err != nil {
		return nil, err
	}
	s.Agent = strings.TrimSpace(spec.Brain + " " + status.Version)
	if err := s.Update(func(h *registry.Session) { h.Brain = spec.Brain }); err != nil {
		return nil, err
	}
	detail, err := json.Marshal(map[string]string{"brain": s.Agent})
	if err == nil {
		err = s.Recorder.Commit(ctx, nacre.Record{Kind: nacre.KindBrainEvent, Source: installation.SourceCore, Outcome: "chosen", Detail: detail})
	}
	if err != nil || agent.Name() == brain.ReplayName {
		return agent, err
	}
	return agent, s.Model.Serve()
}

// visitorInput is what every program of a visit may reach: the group's workspace.
func visitorInput(workspace string) launch.Inside {
	return launch.Inside{Mounts: []nacre.Mount{{Kind: nacre.BindReadWrite, Source: workspace, Target: launch.GroupDir}}}
}

// launchVisitor seals a brain over the group's workspace, with what its
// conversation keeps.
func launchVisitor(ctx context.Context, s *seal.Session, l brain.Launch, workspace string, talk *conversation.Conversation) (*launch.Program, error) {
	mounts, err := agent.RoleFiles(s.Basis, l.Files)
	if err != nil {
		return nil, err
	}
	in := visitorInput(workspace)
	in.Env, in.Model = l.Env, s.Model.Gateway != nil
	in.Mounts = append(append(in.Mounts, mounts...), l.Mounts...)
	if l.State != "" && talk.State != "" {
		in.Mounts = append(in.Mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: talk.State, Target: l.State})
	}
	p, err := s.Posture(in)
	if err != nil {
		return nil, err
	}
	return launch.Start(ctx, s.Basis, p, l.Argv, &s.Limited)
}

// askGate runs a script sealed in the group's workspace: 0 wakes the model with
// what the script printed, 1 is nothing to do, all else is a failure.
func askGate(ctx context.Context, s *seal.Session, argv []string, workspace string) (task.Gate, error) {
	in := visitorInput(workspace)
	in.Limits.Wall = gateWall
	p, err := s.Posture(in)
	if err != nil {
		return task.Gate{}, err
	}
	script, err := launch.Start(ctx, s.Basis, p, argv, nil)
	if err != nil {
		return task.Gate{}, err
	}
	out, code, err := script.Collect(maxFound)
	switch {
	case ctx.Err() != nil:
		return task.Gate{}, ctx.Err()
	case script.TimedOut():
		return task.Gate{Failed: "the script took longer than " + gateWall.String()}, nil
	case err != nil:
		return task.Gate{Failed: err.Error()}, nil //nolint:nilerr // it is what the gate has to say
	}
	found, _ := s.Inst.Redact.String(strings.ToValidUTF8(string(out), "\uFFFD"))
	switch code {
	case gateWake:
		return task.Gate{Wake: true, Found: found}, nil
	case gateIdle:
		return task.Gate{}, nil
	}
	return task.Gate{Failed: "the script ended with " + strconv.Itoa(code)}, nil
}

// concludeVisit closes the session and signs what it did.
func concludeVisit(ctx context.Context, s *seal.Session, v conversation.Request, done task.Visit) (string, error) {
	outcome := "failed"
	switch {
	case done.Idle:
		outcome = scheduling.OutcomeIdle
	case done.Done():
		outcome = scheduling.OutcomeDone
	}
	chains, box := s.Chains(), s.Sandbox().Name()
	if err := s.Close(ctx, outcome, true); err != nil {
		return "", err
	}
	path, _, err := receipt.WriteSession(s.Inst, receipt.Session{
		ID: s.ID(), Group: s.Group(), Started: s.Started, Outcome: outcome, Task: conversation.Joined(v.Frame, v.Said), Brain: s.Agent, Sandbox: box, Chains: chains,
	})
	return path, err
}

// workspaceOf makes a group's own folder, which outlives its sessions (D-36).
func workspaceOf(inst *installation.Installation, g nacre.Group) (string, error) {
	dir := filepath.Join(inst.Registry.Paths().Group(g), "workspace")
	return dir, os.MkdirAll(dir, 0o700)
}
