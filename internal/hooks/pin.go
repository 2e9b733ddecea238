package hooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
	"github.com/nacre-dev/nacre/internal/role"
)

// MaxPin is the largest pin, in bytes.
const MaxPin = guard.MaxSet

// Pin is what hooks decide by: a role and a task as they were when the hooks
// were installed. The files of both may change afterwards; the pin does not. It
// lies in a file that bears the digest of its own bytes.
type Pin struct {
	Role string `json:"role"`
	// Task is the file whose lists were pinned; empty means the default task,
	// in which nothing may be written.
	Task string `json:"task,omitempty"`
	// Project is the folder that paths are resolved against; empty means the
	// project that each call is made in.
	Project string `json:"project,omitempty"`
	// Bypass are the variables of the orchestrator's environment that lift gates.
	Bypass map[atom.ID]string `json:"bypass,omitempty"`
	Set    guard.Set          `json:"set"`
}

// NewPin pins a role with a task's parameters; nil means the default task.
func NewPin(project string, r role.Resolved, task *atom.Parameters) (Pin, error) {
	given := task
	if given == nil {
		given = &atom.Parameters{Role: r.Name, Whitelist: []string{}, Denylist: []string{"**"}}
	}
	if given.Role != "" && given.Role != r.Name {
		return Pin{}, fmt.Errorf("the task is for the role %q, not %q: give --role %s, or another task", given.Role, r.Name, given.Role)
	}
	p := Pin{Role: r.Name, Project: project, Bypass: map[atom.ID]string{}, Set: guard.SetOf(project, r, *given)}
	for _, g := range p.Set.Gates {
		if g.Missing != "" {
			return Pin{}, fmt.Errorf("%s: %s", g.Capability, g.Missing)
		}
		if g.BypassEnv != "" {
			p.Bypass[g.Capability] = g.BypassEnv
		}
	}
	return p, nil
}

// Guarded tells whether the agent is kept from writing the files that hold it.
func (p Pin) Guarded() bool {
	for _, file := range []string{".claude/settings.local.json", ".claude/settings.json", ".codex/hooks.json", ".codex/config.toml"} {
		if !slices.ContainsFunc(p.Set.Gates, func(g guard.Gate) bool { return keeps(g, file) }) {
			return false
		}
	}
	return true
}

func keeps(g guard.Gate, file string) bool {
	return g.Severity == atom.Block && slices.ContainsFunc(g.Rules, func(r gate.Rule) bool {
		switch r.Kind {
		case gate.NoRuleEdits, gate.FilesWhitelist, gate.FilesDenylist:
			return !r.Place(file, gate.World{Project: "/", Readlink: noLinks}).Allowed
		default:
			return false
		}
	})
}

func noLinks(string) (string, bool, error) { return "", false, nil }

// digested is the name of a pin's file.
var digested = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}\.json$`) })

// bytes is the pin as LoadPin reads it, and the name that its file bears.
func (p Pin) bytes() (data []byte, name string, err error) {
	if data, err = json.Marshal(p); err != nil {
		return nil, "", err
	}
	if len(data) > MaxPin {
		return nil, "", fmt.Errorf("the pinned role is over %d bytes", MaxPin)
	}
	return data, nameOf(data), nil
}

func nameOf(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:]) + ".json"
}

// LoadPin reads a pin. One that is not the bytes that were pinned is an error.
func LoadPin(path string) (Pin, error) {
	if path == "" || !filepath.IsAbs(path) || !digested().MatchString(filepath.Base(path)) {
		return Pin{}, errors.New("the hook names no pinned set: run nacre hooks install")
	}
	f, err := os.Open(path)
	if err != nil {
		return Pin{}, fmt.Errorf("the pinned set: %w: run nacre hooks install", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxPin+1))
	if err != nil {
		return Pin{}, fmt.Errorf("the pinned set: %w", err)
	}
	if nameOf(data) != filepath.Base(path) {
		return Pin{}, fmt.Errorf("the pinned set %s was changed: run nacre hooks install", path)
	}
	var p Pin
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return Pin{}, fmt.Errorf("the pinned set %s: %w", path, err)
	}
	if p.Role == "" || p.Set.Role != p.Role || p.Set.Project != p.Project || decoder.More() {
		return Pin{}, fmt.Errorf("the pinned set %s is not a whole one", path)
	}
	return p, nil
}
