// Package installation is what one installation of nacre is opened with: its
// folders, config, keys, policy and programs. It is data that the rooms
// above are handed; it starts no session and decides nothing.
package installation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/ledger"
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
	Err  error
}

func (e *NotReady) Error() string {
	text := e.What
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Next != "" {
		text += "\n       " + e.Next
	}
	return text
}

// Unwrap gives the cause.
func (e *NotReady) Unwrap() error { return e.Err }

// Writable says what to do about a state folder that cannot be written, and about an
// audit that nothing may be added to. Other errors, and none, stay as they are.
func (inst *Installation) Writable(err error) error {
	var at *fs.PathError
	if errors.Is(err, audit.ErrTampered) {
		return fmt.Errorf("%w\n       nacre audit verify says what does not hold; restore %s from a backup, or move it away: a new audit begins", err, inst.AuditRoot())
	}
	if !errors.As(err, &at) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return &NotReady{What: "nacre's state", Next: "make " + inst.Registry.Paths().State + " writable, with room on its disk", Err: err}
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

// Installation is an opened installation: its folders, keys, policy and programs.
type Installation struct {
	Options  Options
	Registry *registry.Registry
	Config   config.Config
	Keys     audit.Keys
	Policy   *policy.Policy
	Redact   *redact.Engine
	// Grants are the keys that sign grants, Revoked what was taken back of them.
	Grants  revocation.Keys
	Revoked *revocation.List
	// Elsewhere gives the second place of each chain: the store, where there is one.
	Elsewhere func(context.Context) (audit.Elsewhere, error)
	// Attend tells other machines that a session works here, and what it came to.
	Attend func(context.Context, nacre.SessionStatus) (over <-chan struct{}, end func(context.Context, nacre.SessionStatus) error, err error)
	// Calls counts those of all sessions of this process against their rates (K-35).
	Calls   *policy.Limiter
	Settled time.Duration // settledFor, but in tests
}

// Open reads the config and the keys, making them on first start. It starts nothing.
func Open(_ context.Context, o Options) (*Installation, error) {
	paths, err := registry.ResolvePaths(o.Getenv)
	if err != nil {
		return nil, &NotReady{What: "no place for nacre's state", Err: err}
	}
	r := &Installation{Options: o, Registry: registry.New(paths), Redact: redact.New(), Calls: new(policy.Limiter), Settled: settledFor}
	if err := CheckRights(paths.Config); err != nil {
		return nil, &config.Error{Err: err}
	}
	if r.Config, err = config.Load(paths.Config); err != nil {
		return nil, &config.Error{Err: err}
	}
	if shared := r.Config.Store; shared.URLEnv != "" {
		r.Registry = registry.NewOn(paths, shared.Installation, func() string { return o.Getenv(shared.URLEnv) })
	}
	r.Calls.Rates = r.Config.RatesOf
	if r.Policy, err = loadPolicy(paths.Config); err != nil {
		return nil, &config.Error{Err: err}
	}
	if r.Keys, err = audit.LoadKeys(paths.Keys()); err != nil {
		return nil, r.noKeys("the installation's keys", err)
	}
	if r.Grants, err = revocation.LoadKeys(paths.Keys()); err != nil {
		return nil, r.noKeys("the keys of grants", err)
	}
	if r.Revoked, err = revocation.Open(paths.Keys()); err != nil {
		return nil, r.noKeys("what was revoked", err)
	}
	return r, nil
}

// noKeys says why a file of the folder of keys cannot be used.
func (inst *Installation) noKeys(what string, err error) error {
	missing := &NotReady{What: what, Err: err}
	switch keys := inst.Registry.Paths().Keys(); {
	case errors.Is(err, fs.ErrPermission):
		missing.Next = "give " + keys + " and what is in it back to the one who runs nacre (chown, chmod u+rw)"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EROFS):
		missing.Next = "make " + keys + " writable, with room on its disk, or set XDG_STATE_HOME"
	}
	return missing
}

// CheckRights refuses an operator's folder to which every user of the machine may write, and such a file of
// the operator's word in it. Whoever changes one has programs started as this user, and anything allowed.
func CheckRights(dir string) error {
	if info, err := os.Stat(dir); errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
		return fmt.Errorf("%s: a file is in the place of a folder: move it away, or set XDG_CONFIG_HOME", dir)
	}
	open := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 && !mountedReadOnly(path)
	}
	paths := []string{dir}
	entries, _ := os.ReadDir(dir) // who reads a file of it says why it cannot be read
	for _, entry := range entries {
		if slices.Contains([]string{".toml", ".yaml", ".yml"}, filepath.Ext(entry.Name())) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	if at := slices.IndexFunc(paths, open); at >= 0 {
		return fmt.Errorf("%s: every user of this machine may write to it, and it says what agents may do: see what it holds, then chmod o-w %s", paths[at], paths[at])
	}
	return nil
}

// mountedReadOnly tells of a place such as a container's volume, whose rights say nothing.
func mountedReadOnly(path string) bool {
	var on unix.Statfs_t
	return unix.Statfs(path, &on) == nil && on.Flags&readOnlyMount != 0
}

// policyFiles are where an operator's policy can be; there is one of them at most.
func policyFiles() []string { return []string{"policy.toml", "policy.yaml", "policy.yml"} }

// PolicyFile is the operator's policy in a folder, or empty where there is none.
func PolicyFile(dir string) (path string, err error) {
	for _, name := range policyFiles() {
		_, err := os.Stat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		case path != "":
			return "", fmt.Errorf("%s and %s are both there: keep one of them", path, filepath.Join(dir, name))
		}
		path = filepath.Join(dir, name)
	}
	return path, nil
}

// loadPolicy reads the operator's policy, or takes the shipped one.
func loadPolicy(dir string) (*policy.Policy, error) {
	path, err := PolicyFile(dir)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return policy.Shipped(), nil
	}
	data, err := config.ReadFile(path)
	if err != nil {
		return nil, err
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
func (inst *Installation) AuditRoot() string { return inst.Registry.Paths().Audit() }

// PublicKey verifies the installation's heads and receipts.
func (inst *Installation) PublicKey() []byte { return inst.Keys.Public() }

// ReceiptPath is where a session's receipt is.
func (inst *Installation) ReceiptPath(id nacre.SessionID) string {
	return inst.Registry.Paths().Receipt(id)
}

// Program finds a binary beside nacre. Where it is not, nacre acts as it by its name. Elsewhere than
// on Linux, what runs in sandboxes lies in a folder of its own, and nothing takes its place.
func (inst *Installation) Program(name string) string {
	path := filepath.Join(filepath.Dir(inst.Options.Executable), name)
	if runtime.GOOS != "linux" {
		return filepath.Join(filepath.Dir(inst.Options.Executable), "linux", name)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path
	}
	return inst.Options.Executable
}

// Principal is who a session's calls act for. Roles come from the config, the
// justification from the operator's task: nothing from inside.
func (inst *Installation) Principal(group nacre.Group, session nacre.SessionID, task string) nacre.Principal {
	roles := inst.Config.Groups[string(group)].Roles
	if len(roles) == 0 {
		roles = []string{"writer"}
	}
	return nacre.Principal{
		ID: PrincipalID(group, session), Group: group, Session: session, Roles: roles, Justification: task,
		Intent: inst.Config.Groups[string(group)].Intent, Scope: inst.Config.Groups[string(group)].Scope, Channel: "terminal",
	}
}

// Decide is what the policy says of a capability before anything is called.
func Decide(inst *Installation, p nacre.Principal, c nacre.Capability) nacre.Decision {
	return inst.Policy.Decide(policy.Request{Principal: p, Capability: c})
}

// PrincipalID lies under its group's: what revokes the group revokes them all.
func PrincipalID(group nacre.Group, session nacre.SessionID) string {
	return string(group) + "/" + string(session)
}

// KindLimit records that a sandbox went beyond a limit, and was ended for it.
const KindLimit nacre.Kind = "sandbox.limit"

// IsThere reports whether something lies at a path, a link that leads nowhere too.
func IsThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// settledFor is how long nothing may have changed before files are held to be the
// same by their times: those of a file system may be that coarse.
const settledFor = 2 * time.Second

// RandomHex is an identifier that nobody can guess: 128 bits.
func RandomHex() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(raw[:])
}

// SourceCore is who the core is in events and records.
const SourceCore = "core"

// AuditorRole judges finished work.
const AuditorRole = "auditor"

// Programs are nacre's own, as they are bound inside.
func Programs(inst *Installation) map[string]string {
	return map[string]string{"ipc": inst.Program("ipc"), "ipc-mcp": inst.Program("ipc-mcp"), "brain": inst.Program("brain")}
}

// machineID tells this machine from the others of a store.
func machineID(inst *Installation) (string, error) {
	name, err := registry.MachineName(inst.Registry.Paths(), inst.PublicKey())
	return registry.MachineID(name), err
}

func ledgerOf(ctx context.Context, inst *Installation) (*ledger.Ledger, error) {
	if store := inst.Registry.Store(); store != nil {
		id, err := machineID(inst)
		if err != nil {
			return nil, err
		}
		return ledger.OpenOn(ctx, store, id, inst.Options.Now)
	}
	return ledger.Open(ctx, filepath.Join(inst.Registry.Paths().State, ledger.FileName), inst.Options.Now)
}

// LedgerOf opens the installation's ledger: that of its store, where it has one.
func LedgerOf(ctx context.Context, inst *Installation) (*ledger.Ledger, error) {
	l, err := ledgerOf(ctx, inst)
	if err != nil {
		return nil, &NotReady{What: "the ledger", Err: err}
	}
	return l, nil
}
