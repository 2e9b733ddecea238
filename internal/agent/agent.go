// Package agent is what an agent is launched with in an open session: its brain,
// the files of its role, and the brief of its memory.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/task"
	"github.com/nacre-dev/nacre/internal/upstream"
)

// Brains are what this installation can let an agent be. named is the model that it is asked
// for; empty means the config's.
func Brains(inst *installation.Installation, named string) brain.Options {
	if named == "" {
		named = inst.Config.Model.Name
	}
	anthropic, chat, responses := upstream.Keys(inst)
	acp := inst.Config.Brain.ACP
	return brain.Options{
		ClaudePath: inst.Options.Getenv("NACRE_CLAUDE"), Path: inst.Options.Getenv("PATH"), Model: named,
		KeyFrom: anthropic.From, OpenAIFrom: cmp.Or(chat.From, responses.From), Responses: chat.From == "", ResponsesFrom: responses.From,
		KeyHelp: anthropic.Help, OpenAIHelp: cmp.Or(chat.Help, responses.Help), ResponsesHelp: responses.Help,
		CodexPath: inst.Options.Getenv("NACRE_CODEX"), ACP: brain.ACP{Command: acp.Command, Folders: acp.Folders, Env: acp.Env, Mode: acp.Mode},
	}
}

// ChooseBrain finds the brain that was named, or the first that is ready.
func ChooseBrain(ctx context.Context, inst *installation.Installation, spec *task.Spec) (brain.Brain, brain.Status, error) {
	options := Brains(inst, spec.Model)
	if spec.Brain == "" && spec.Recording != "" {
		spec.Brain = brain.ReplayName
	}
	if spec.Brain == "" {
		spec.Brain = inst.Config.Brain.Name
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
		return nil, brain.Status{}, &config.Error{Err: err}
	}
	if named.Name() == brain.ReplayName && spec.Recording == "" {
		return nil, brain.Status{}, config.Errorf("brain replay plays a recording: name it with --recording FILE")
	}
	status := named.Detect(ctx)
	if !status.Ready() {
		return nil, status, notReady("brain "+named.Name(), status)
	}
	return named, status, nil
}

// notReady says what a brain lacks, and what helps.
func notReady(what string, s brain.Status) error {
	return &installation.NotReady{What: what, Next: s.Next, Err: errors.New(s.Why)}
}

// BriefLimit is how long the memory brief may take before a run starts without it (D-43).
const BriefLimit = 5 * time.Second

// Brief is what trusted memory tells the agent before it starts. A slow one is
// left out with a record (D-43). Recall says what the session may see of it (K-27).
func Brief(ctx context.Context, s *basis.Basis, m *memory.Store, recall func(string) (string, error)) string {
	ctx, cancel := context.WithTimeout(ctx, BriefLimit)
	defer cancel()
	brief, err := m.Brief(ctx, false)
	if err == nil {
		err = m.Recalled(ctx, memory.Writer{Session: s.ID()}, brief.IDs())
	}
	var told string
	if err == nil {
		told, err = recall(brief.Markdown())
	}
	if err != nil {
		// The recorder itself stops the session if it fails.
		_ = s.Recorder.Append(context.WithoutCancel(ctx), nacre.Record{Kind: nacre.KindMemory, Source: "core", Outcome: "no brief", Reason: err.Error()})
		return ""
	}
	m.Warm() // a brain takes longer to begin than this
	return told
}

// RoleFiles writes a brain's read-only files and binds each where it belongs.
func RoleFiles(s *basis.Basis, files []brain.File) ([]nacre.Mount, error) {
	dir := filepath.Join(s.Dir(), registry.RoleDir)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return RoleMounts(dir, files)
}

// RoleMounts writes a brain's read-only files into dir and binds each where it belongs.
func RoleMounts(dir string, files []brain.File) ([]nacre.Mount, error) {
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
