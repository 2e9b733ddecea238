//go:build linux

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// Support tries what this machine can do. It takes some milliseconds.
func Support(o Options) Report {
	r := Report{Root: os.Geteuid() == 0, Landlock: inside.LandlockVersion(), Cgroup: "none"}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		r.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	groups := findCgroups(hostCgroups())
	if groups.version != 0 {
		r.Cgroup = fmt.Sprintf("v%d", groups.version)
	}
	o.WithoutLandlock = true
	n, err := Open(o)
	if err == nil {
		defer func() { _ = n.Close() }()
		err = n.Check()
	}
	if err != nil {
		r.Problem = err.Error()
	} else {
		r.UserNamespaces = true
		r.IDMap = n.canMap(o.StateDir)
	}
	r.NotEnforced = r.notEnforced(groups)
	return r
}

// Holds names in a line what holds a sandbox that n starts.
func (n *Native) Holds() string {
	group := "none"
	if n.cgroups.version != 0 {
		group = fmt.Sprintf("v%d", n.cgroups.version)
	}
	return fmt.Sprintf("namespaces, landlock %d, seccomp, cgroup %s", n.landlock, group)
}

// NotEnforced lists in words what this machine does not enforce for a
// sandbox that n starts.
func (n *Native) NotEnforced() []string {
	return Report{Root: n.users.privileged, Landlock: n.landlock, IDMap: true}.notEnforced(n.cgroups)
}

func (r Report) notEnforced(groups cgroups) []string {
	var missing []string
	if r.Landlock == 0 {
		missing = append(missing, "landlock: the kernel has none; the mounts alone keep files apart")
	}
	if groups.memory == "" {
		missing = append(missing, "memory: no writable memory control group; each process is limited, their sum and shared memory are not")
	}
	if groups.pids == "" {
		missing = append(missing, "processes: no writable pids control group; the limit holds per sandbox by RLIMIT_NPROC")
	}
	if r.Root && !r.IDMap {
		missing = append(missing, "project: its file system cannot be mapped to another user, so binds are refused")
	}
	if !r.Root && hasGroups() {
		missing = append(missing, "groups: this user's supplementary groups cannot be given up without privilege; they count for what is bound")
	}
	if groups.cpu == "" {
		missing = append(missing, "cpu: no writable cpu control group; no share is set")
	}
	if !r.Root {
		missing = append(missing, SharedInit, sharedUser)
	}
	return append(missing, SharedEnviron, SharedLocks, diskWatched)
}

func hasGroups() bool {
	groups, err := os.Getgroups()
	return err == nil && len(groups) > 1
}

// canMap tries an idmapped mount.
func (n *Native) canMap(dir string) bool {
	if !n.users.privileged {
		return true
	}
	s, err := openSource(dir)
	if err != nil {
		s, err = openSource("/tmp")
	}
	if err != nil {
		return false
	}
	defer s.close()
	tree, err := n.cloneTree(s, inside.Mount{ReadOnly: true}, mapRequired)
	if err != nil {
		return false
	}
	_ = tree.Close()
	return true
}

// Check runs the steps that kernels and administrators forbid, in throwaway namespaces, and says
// which setting forbids them. It takes some milliseconds.
func (n *Native) Check() error {
	cmd, err := n.initCommand(inside.ModeCheck)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = n.users.attributes()
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return explain(errors.New(strings.TrimSpace(printable(complaint.String()))))
	}
	if err != nil {
		return explain(err)
	}
	return nil
}

// explain names the setting that forbids user namespaces, where it is known.
func explain(err error) error {
	if strings.Contains(err.Error(), inside.LinkedWithC) {
		return fmt.Errorf("this nacre was built with cgo, and what it starts a sandbox with cannot be: build it with CGO_ENABLED=0, "+
			"or put the program sandbox-init beside it, as go install .../cmd/... does: %w", err)
	}
	const head = "this machine does not let this user create the namespaces that the native sandbox needs"
	if setting, fix := forbids(); setting != "" {
		return fmt.Errorf("%s: %s; either %s, or %s: %w", head, setting, fix, otherwise(), err)
	}
	if _, missing := os.Stat("/proc/self/ns/user"); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("%s: its kernel has none (CONFIG_USER_NS); start another kernel, or %s: %w", head, otherwise(), err)
	}
	if inContainer() {
		return fmt.Errorf("%s: the engine of this container forbids it; %s: %w", head, otherwise(), err)
	}
	return fmt.Errorf("%s: a security module or a filter of system calls may forbid it; let it allow them, or %s: %w", head, otherwise(), err)
}

// otherwise is what to do where the native sandbox cannot start. In a container no engine's containers can take its
// place: the engine would bind the machine's files.
func otherwise() string {
	if inContainer() {
		return "run nacre outside of containers, or see docs/install.md, \"In a container\""
	}
	return "use another backend (docs/backends.md)"
}

// inContainer tells whether an engine says that this is a container of its own.
func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}

// forbids is the setting that keeps ordinary users from making namespaces, where one is
// known, and the command that puts it right.
func forbids() (setting, fix string) {
	for _, s := range []struct{ file, bad, setting, fix string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0",
			"kernel.unprivileged_userns_clone = 0", "sudo sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/user/max_user_namespaces", "0",
			"user.max_user_namespaces = 0", "sudo sysctl user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"kernel.apparmor_restrict_unprivileged_userns = 1", "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		text, readErr := os.ReadFile(s.file)
		if readErr == nil && strings.TrimSpace(string(text)) == s.bad {
			return s.setting, s.fix
		}
	}
	return "", ""
}

// Report says what the native sandbox can enforce on this machine.
type Report struct {
	// Kernel release, such as "6.1.0-18-amd64".
	Kernel string `json:"kernel"`
	// Root says that sandboxes run as users that nobody else is.
	Root bool `json:"root"`
	// Landlock is the version of the kernel's interface, zero for none.
	Landlock int `json:"landlock"`
	// UserNamespaces that a sandbox needs can be made.
	UserNamespaces bool `json:"user_namespaces"`
	// IDMap says that root's files can be shown as the agent's, tried in the
	// state directory or /tmp. An ordinary user needs none.
	IDMap bool `json:"idmap"`
	// Cgroup is "v1", "v2" or "none".
	Cgroup string `json:"cgroup"`
	// Problem says why sandboxes cannot start here; empty when they can.
	Problem string `json:"problem,omitempty"`
	// NotEnforced lists in words what a posture may ask for and does not get.
	NotEnforced []string `json:"not_enforced"`
}
