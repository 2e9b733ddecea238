// Package assembly is the composition root: it reads the operator's config,
// makes the parts and puts them together into sealed sessions. "What can this
// installation do?" is answered here, in straight code, without registration.
//
// An embedder who wants the whole of nacre starts with [Open]; one who wants the
// kernel alone imports package kernel.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/revocation"
	"github.com/nacre-dev/nacre/policy"
)

// DefaultGroup is whose sessions the command line opens unless told otherwise.
const DefaultGroup nacre.Group = "main"

// NotReady says that something which is needed is missing, and what to do (exit 3).
type NotReady struct {
	What string
	Next string
	err  error
}

func (e *NotReady) Error() string {
	text := e.What
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	if e.Next != "" {
		text += "\n       " + e.Next
	}
	return text
}

// Unwrap gives the cause.
func (e *NotReady) Unwrap() error { return e.err }

// writable says what to do about a state folder that cannot be written, and about an
// audit that nothing may be added to. Other errors, and none, stay as they are.
func (r *Runtime) writable(err error) error {
	var at *fs.PathError
	if errors.Is(err, audit.ErrTampered) {
		return fmt.Errorf("%w\n       nacre audit verify says what does not hold; restore %s from a backup, or move it away: a new audit begins", err, r.AuditRoot())
	}
	if !errors.As(err, &at) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return &NotReady{What: "nacre's state", Next: "make " + r.registry.Paths().State + " writable, with room on its disk", err: err}
}

// ConfigError says that the operator's config or a request cannot be acted on (exit 2).
type ConfigError struct{ err error }

func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *ConfigError) Unwrap() error { return e.err }

func badConfig(format string, values ...any) error {
	return &ConfigError{fmt.Errorf(format, values...)}
}

// Options are what an installation is opened with. All are required.
type Options struct {
	Getenv func(string) string
	// Executable is the nacre binary; ipc, brain, sandbox-init and the built-in
	// plugins lie beside it.
	Executable string
	Now        func() time.Time
	Version    string
}

// Runtime is an installation: its folders, keys, policy and programs.
type Runtime struct {
	options  Options
	registry *registry.Registry
	config   Config
	keys     audit.Keys
	policy   *policy.Policy
	redact   *redact.Engine
	// grants are the keys that sign grants, revoked what was taken back of them.
	grants  revocation.Keys
	revoked *revocation.List
	settled time.Duration // settledFor, but in tests
}

// Open reads the config and the keys, making them on first start. It starts nothing.
func Open(_ context.Context, o Options) (*Runtime, error) {
	paths, err := registry.ResolvePaths(o.Getenv)
	if err != nil {
		return nil, &NotReady{What: "no place for nacre's state", err: err}
	}
	r := &Runtime{options: o, registry: registry.New(paths), redact: redact.New(), settled: settledFor}
	if r.config, err = LoadConfig(paths.Config); err != nil {
		return nil, &ConfigError{err}
	}
	if r.policy, err = loadPolicy(paths.Config); err != nil {
		return nil, &ConfigError{err}
	}
	if r.keys, err = audit.LoadKeys(paths.Keys()); err != nil {
		return nil, r.noKeys("the installation's keys", err)
	}
	if r.grants, err = revocation.LoadKeys(paths.Keys()); err != nil {
		return nil, r.noKeys("the keys of grants", err)
	}
	if r.revoked, err = revocation.Open(paths.Keys()); err != nil {
		return nil, r.noKeys("what was revoked", err)
	}
	return r, nil
}

// noKeys says why a file of the folder of keys cannot be used.
func (r *Runtime) noKeys(what string, err error) error {
	missing := &NotReady{What: what, err: err}
	if errors.Is(err, fs.ErrPermission) {
		missing.Next = "give " + r.registry.Paths().Keys() + " and what is in it back to the one who runs nacre (chown, chmod u+rw)"
	}
	return missing
}

// policyFiles are where an operator's policy can be; there is one of them at most.
func policyFiles() []string { return []string{"policy.toml", "policy.yaml", "policy.yml"} }

// loadPolicy reads the operator's policy, or takes the shipped one.
func loadPolicy(dir string) (*policy.Policy, error) {
	var path string
	var data []byte
	for _, name := range policyFiles() {
		found, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case path != "":
			return nil, fmt.Errorf("%s and %s are both there: keep one of them", path, filepath.Join(dir, name))
		}
		path, data = filepath.Join(dir, name), found
	}
	if path == "" {
		return policy.Shipped(), nil
	}
	p, err := policy.Parse(path, data)
	if err != nil {
		return nil, err
	}
	if p.Default() == nacre.Allow {
		return nil, fmt.Errorf("%s: default = \"allow\" is refused here: write default = \"ask\" or \"deny\"", path)
	}
	return p, nil
}

// AuditRoot is the folder of the audit chains.
func (r *Runtime) AuditRoot() string { return r.registry.Paths().Audit() }

// PublicKey verifies the installation's heads and receipts.
func (r *Runtime) PublicKey() []byte { return r.keys.Public() }

// ReceiptPath is where a session's receipt is.
func (r *Runtime) ReceiptPath(id nacre.SessionID) string { return r.registry.Paths().Receipt(id) }

// program finds a binary beside nacre. Where it is not, nacre acts as it by its name.
func (r *Runtime) program(name string) string {
	path := filepath.Join(filepath.Dir(r.options.Executable), name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path
	}
	return r.options.Executable
}

// brains are what this installation can let an agent be.
func (r *Runtime) brains(named string) brain.Options {
	places, err := r.upstreams()
	if err != nil {
		places = nil // the run that needs one says why
	}
	if named == "" {
		named = r.config.Model.Name
	}
	return brain.Options{
		ClaudePath: r.options.Getenv("NACRE_CLAUDE"), Path: r.options.Getenv("PATH"), Model: named,
		KeyFrom: keyFor(places, model.Anthropic), OpenAIFrom: cmp.Or(keyFor(places, model.Chat), keyFor(places, model.Responses)),
		Responses: keyFor(places, model.Chat) == "", ResponsesFrom: keyFor(places, model.Responses),
		KeyHelp: cmp.Or(helpFor(places, model.Anthropic), r.config.Model.keyHelp()), OpenAIHelp: cmp.Or(helpFor(places, model.Chat), helpFor(places, model.Responses)),
		ResponsesHelp: helpFor(places, model.Responses),
		CodexPath:     r.options.Getenv("NACRE_CODEX"), ACP: r.config.Brain.ACP.agent(),
	}
}

// principal is who a session's calls act for. Roles come from the config, the
// justification from the operator's task: nothing from inside.
func (r *Runtime) principal(group nacre.Group, session nacre.SessionID, task string) nacre.Principal {
	roles := r.config.Groups[string(group)].Roles
	if len(roles) == 0 {
		roles = []string{"writer"}
	}
	return nacre.Principal{
		ID: principalID(group, session), Group: group, Session: session, Roles: roles, Justification: task,
		Intent: r.config.Groups[string(group)].Intent, Scope: r.config.Groups[string(group)].Scope, Channel: "terminal",
	}
}

// principalID lies under its group's: what revokes the group revokes them all.
func principalID(group nacre.Group, session nacre.SessionID) string {
	return string(group) + "/" + string(session)
}
