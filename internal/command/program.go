package command

import (
	"context"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/seal"
)

// The kinds of session that work in the folder of a project itself.
const (
	KindExec  = "exec"
	KindAgent = "agent"
)

// Program is what a command is besides its words, such as an agent's own terminal
// interface (U-01).
type Program struct {
	Kind string // of the session
	// Brain and Version name the agent to the model gateway; empty for a command.
	Brain   string
	Version string
	// Model opens the model gateway.
	Model bool
	// Caches, where it is set, opens the package caches of the group in the project.
	Caches func(ctx context.Context, s *seal.Session, project string) Caches
	// Skills lays those of the session beside the words of the command (D-31).
	Skills func(s *seal.Session) (Inside, error)
	// Inside says, once the session is open, what the program is inside. Where it is
	// not set, the program is the words of the command, and Skills is.
	Inside func(s *seal.Session, project string) (Inside, error)
}

// Inside is what a program is, and needs, inside.
type Inside struct {
	Argv   []string
	Env    []string
	Mounts []nacre.Mount
	// Ended, where it is set, is told when the program is gone with all that it
	// started, or was not started.
	Ended func() error
}

func (p Program) inside(s *seal.Session, e Exec, project string) (Inside, error) {
	if p.Inside == nil {
		inside, err := p.Skills(s)
		inside.Argv, inside.Env = e.Argv, append(inside.Env, e.Env...)
		return inside, err
	}
	inside, err := p.Inside(s, project)
	inside.Env = append(append([]string{}, e.Env...), inside.Env...)
	return inside, err
}

// Caches are package caches that last from session to session (U-03).
type Caches struct {
	Mounts []nacre.Mount
	// Close, where it is set, is told when nothing runs in the session any more.
	Close func() error
}

// caches opens those of a command in a project. A role says itself what can be written.
func (o opened) caches(ctx context.Context) Caches {
	if o.program.Caches == nil || o.project == "" || o.exec.Role != "" {
		return Caches{}
	}
	return o.program.Caches(ctx, o.Session, o.project)
}

func (c Caches) ended() error {
	if c.Close == nil {
		return nil
	}
	return c.Close()
}

func (i Inside) ended() error {
	if i.Ended == nil {
		return nil
	}
	return i.Ended()
}
