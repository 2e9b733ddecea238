package assembly

import (
	"context"
	"slices"
	"time"

	"github.com/nacre-dev/nacre/internal/cockpit"
	"github.com/nacre-dev/nacre/internal/command"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/home"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/interactive"
	"github.com/nacre-dev/nacre/internal/seal"
)

// agentTime is how long an agent's terminal interface may stay open where nobody
// says: a person sits before it, and comes back to it.
const agentTime = 24 * time.Hour

type (
	// Agent is an agent's own terminal interface (U-01).
	Agent = interactive.Agent
	// KeptHome is what a group keeps for one project (U-03).
	KeptHome = home.Kept
)

// OpenAgent opens an agent's own terminal interface sealed, on the streams and with
// the limits of e, and returns when it and everything it started is gone. What of e
// are words of a command is set here.
func OpenAgent(ctx context.Context, r *Runtime, a Agent, e Exec) (ExecResult, error) {
	project, err := installation.ProjectFolder(config.OrDot(e.Project))
	if err != nil {
		return ExecResult{}, err
	}
	if err := interactive.CheckProject(project, r.inst.Options.Getenv); err != nil {
		return ExecResult{}, err
	}
	program, err := interactive.Find(ctx, r.inst, a)
	if err != nil {
		return ExecResult{}, err
	}
	lasting := caches
	if a.Fresh {
		lasting = nil
	}
	e.Project, e.Argv = project, append([]string{a.Name}, a.Args...)
	if e.Limits.Wall == 0 {
		e.Limits.Wall = agentTime
	}
	return command.Run(ctx, r.inst, e, command.Program{
		Kind: command.KindAgent, Brain: a.Name, Version: program.Version, Model: true, Caches: lasting,
		Inside: func(s *seal.Session, project string) (command.Inside, error) {
			inside, err := program.Open(ctx, s, project)
			return command.Inside(inside), err
		},
	})
}

// caches opens the package caches of a session (U-03).
func caches(ctx context.Context, s *seal.Session, project string) command.Caches {
	return command.Caches(interactive.OpenCaches(ctx, s, project))
}

// skills lays the skills of a session for a command (D-31).
func skills(s *seal.Session) (command.Inside, error) {
	laid, err := interactive.LaySkills(s)
	return command.Inside(laid), err
}

// Notifies reports whether a person who looks elsewhere is told that a question waits (U-13).
func Notifies(r *Runtime) bool { return !r.inst.Config.Approval.Quiet }

// Wanted reports whether the person at this terminal is to be told so now (M-46).
func Wanted(r *Runtime) bool { return cockpit.WantedHere(r.inst) }

// Homes are what agents left for their next session, of all groups and projects.
func Homes(ctx context.Context, r *Runtime) ([]KeptHome, error) {
	return home.List(ctx, r.inst.Registry.Paths().Homes())
}

// RemoveHomes removes what agents left for their next session. Where a session works with one of the
// homes none of them is removed: its files would go while they are in use.
func RemoveHomes(r *Runtime, kept []KeptHome) error {
	live, err := r.inst.Registry.Live()
	if err != nil {
		return err
	}
	for _, s := range live {
		works := func(k KeptHome) bool { return k.Group == s.Group && k.Project == s.Project }
		if (s.Kind == command.KindAgent || s.Kind == command.KindExec) && slices.ContainsFunc(kept, works) {
			return config.Errorf("session %s works in %s: end it first, as with nacre sessions stop %s", s.ID, s.Project, s.ID)
		}
	}
	for _, k := range kept {
		if err := home.Remove(k); err != nil {
			return err
		}
	}
	return nil
}
