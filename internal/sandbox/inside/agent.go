//go:build linux

package inside

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/seccomp"
	"github.com/nacre-dev/nacre/internal/sandbox/spawn"
)

// Bits of PR_SET_SECUREBITS: no user is special, for good.
const secureBits = 0xef // NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, and the locks of all four

// defaultUmask of the agent.
const defaultUmask = 0o022

// execError is the answer of the agent's execve, as opposed to a step before it.
type execError struct{ err error }

func (e execError) Error() string { return e.err.Error() }
func (e execError) Unwrap() error { return e.err }

// execution is the last call of the stage.
const execution = "exec"

// become adds every restriction in the order in which each still can be, and then
// the agent's program.
func (a Agent) become(p *spawn.Program, program string) error {
	filter, err := seccomp.Program(seccomp.Options{NoStop: a.NoStop})
	if err != nil {
		return err
	}
	ruleset, err := newRuleset(a.Landlock, a.Writable)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	a.joinKeyring(p)
	if err := a.Limits.apply(p); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	p.Do("working directory", unix.SYS_CHDIR, p.Text(a.Dir))
	if !a.Contained { // where an engine took them, and PID 1 has looked
		dropCapabilities(p)
	}
	p.Do("no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	if ruleset >= 0 {
		p.Do("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset))
	}
	p.Do("descriptors", unix.SYS_CLOSE_RANGE, 3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	p.Do("umask", unix.SYS_UMASK, defaultUmask)
	p.Signals()
	loaded := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	p.Do("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, p.Point(unsafe.Pointer(loaded)))
	p.Exec(execution, program, a.Argv, a.Env)
	return nil
}

// joinKeyring adds an anonymous session keyring, where the kernel or the engine
// has keyrings at all.
func (a Agent) joinKeyring(p *spawn.Program) {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if errors.Is(err, unix.ENOSYS) || a.Contained && errors.Is(err, unix.EPERM) {
		return
	}
	p.Do("session keyring", unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING)
}

// apply adds what lowers both limits, never above the hard limit of the host.
func (l Limits) apply(p *spawn.Program) error {
	values := []struct {
		resource int
		max      uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NPROC, l.Processes},
		{unix.RLIMIT_FSIZE, l.FileSize},
		{unix.RLIMIT_DATA, l.Data},
		{unix.RLIMIT_NOFILE, l.OpenFiles},
	}
	for _, v := range values {
		if v.max == 0 && v.resource != unix.RLIMIT_CORE {
			continue
		}
		now := new(unix.Rlimit)
		if err := unix.Prlimit(0, v.resource, nil, now); err != nil {
			return fmt.Errorf("resource %d: %w", v.resource, err)
		}
		now.Cur, now.Max = min(v.max, now.Max), min(v.max, now.Max)
		p.Do(fmt.Sprintf("limits: resource %d", v.resource), unix.SYS_PRLIMIT64, 0, uintptr(v.resource), p.Point(unsafe.Pointer(now)), 0)
	}
	return nil
}

// dropCapabilities adds what empties every set, the bounding set first.
func dropCapabilities(p *spawn.Program) {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			continue // a capability this kernel does not know
		}
		p.Do("capabilities", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
	}
	p.Do("capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	p.Do("capabilities", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureBits)
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	p.Do("capabilities", unix.SYS_CAPSET, p.Point(unsafe.Pointer(header)), p.Point(unsafe.Pointer(new([2]unix.CapUserData))))
}

// find resolves argv[0] with the agent's own PATH and, outside of an engine's
// container, with the rights that the agent will have: user is it in this namespace.
func (a Agent) find(user int) (program string, err error) {
	if a.Contained {
		program, err = findProgram(a, 0)
	} else if e := asUser(user, func() { program, err = findProgram(a, unix.AT_EACCESS) }); e != nil {
		return "", fmt.Errorf("look for the program: %w", e)
	}
	if err != nil {
		return "", execError{err}
	}
	return program, nil
}

// asUser does something on a thread that has the user's rights to files and no
// capability in effect meanwhile.
func asUser(user int, do func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all, none [2]unix.CapUserData
	if err := unix.Capget(&header, &all[0]); err != nil {
		return err
	}
	for i, set := range all {
		none[i] = unix.CapUserData{Permitted: set.Permitted, Inheritable: set.Inheritable}
	}
	gid, err := unix.SetfsgidRetGid(user)
	if err != nil {
		return err
	}
	uid, err := unix.SetfsuidRetUid(user)
	if err != nil {
		return err
	}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return err
	}
	do()
	if err := unix.Capset(&header, &all[0]); err != nil {
		return err
	}
	_, _ = unix.SetfsuidRetUid(uid)
	_, _ = unix.SetfsgidRetGid(gid)
	return unix.Capset(&header, &all[0]) // of which a change of user takes some
}

func findProgram(agent Agent, flags int) (string, error) {
	name := agent.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := ""
	for _, kv := range agent.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = value
		}
	}
	for dir := range strings.SplitSeq(search, ":") {
		candidate := filepath.Join(dir, name)
		if filepath.IsAbs(candidate) && executable(candidate, flags) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("it is in no folder of the sandbox's PATH, %s: %w", search, unix.ENOENT)
}

func executable(file string, flags int) bool {
	var st unix.Stat_t
	return unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, flags) == nil
}
