package toolset

import (
	"cmp"
	"crypto/rand"
	"errors"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/access"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/pins"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/kernel"
)

// newKernel decides by the installation's policy, as the session began.
func (t *Toolset) newKernel() (*kernel.Kernel, error) {
	inst, approver := t.on.Inst, t.on.Approvals
	keys := kernel.Keys{Current: kernel.Key(inst.Grants.Current)}
	for _, key := range inst.Grants.Previous {
		keys.Retired = append(keys.Retired, kernel.Key(key))
	}
	k, err := kernel.New(kernel.Config{
		Policy: inst.Policy, Groups: access.ToolGroups(inst, t.on.Started), Approver: approver, Pinner: t.pins,
		Recorder: installation.Words{Recorder: t.on.Recorder, Redact: inst.Redact}, Now: inst.Options.Now,
		Random: rand.Reader, Keys: keys,
		Shared: kernel.Shared{Revocations: inst.Revoked, Limiter: inst.Calls}, AskTTL: approver.TTL(), OutputBudget: cmp.Or(inst.Config.OutputTokens, config.DefaultOutputTokens),
		ResultLimits: inst.Config.ResultLimits,
	})
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	return k, nil
}

// OpenPins serves the folder that the session's agent works in. What a killed
// opening left of copies is removed. Where the session has no project, files are those of folder.
func (t *Toolset) OpenPins(folder string) (err error) {
	workspace := t.o.Project
	switch {
	case t.o.Kind == basis.KindRun: // its agent works on a clone, which is there once the work begins
		if workspace, err = t.clone(); err != nil {
			return err
		}
	case workspace == "" && folder != "":
		if workspace, err = filepath.EvalSymlinks(folder); err != nil {
			return err
		}
	}
	t.pins = pins.New(workspace, filepath.Join(t.on.Dir(), registry.PinsDir))
	return t.pins.Close()
}

// ClosePins removes the copies of files that calls named.
func (t *Toolset) ClosePins() error { return t.pins.Close() }

// WorksOver says what the agent's files are a layer over, so that a file that is
// pinned is the one that the agent sees; empty where they are whole.
func (t *Toolset) WorksOver(base string) { t.pins.Over(base) }

// clone is where the agent of a run works.
func (t *Toolset) clone() (string, error) {
	dir, err := filepath.EvalSymlinks(t.on.Dir())
	return filepath.Join(dir, registry.WorkDir), err
}

// WorkFolder is the folder that the session's agent works on. What a role keeps
// from its agent cannot be kept from a handler, which therefore sees nothing.
func (t *Toolset) WorkFolder() (string, error) {
	switch {
	case t.o.Confined:
		return "", errors.New("the role of this session confines its agent to a part of the project, of which plugins see nothing")
	case t.o.Kind == basis.KindRun:
		return t.clone()
	case t.o.Project == "":
		return "", errors.New("this session has no project")
	}
	return t.o.Project, nil
}
