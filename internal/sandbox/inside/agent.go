package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/seccomp"
)

// Bits of PR_SET_SECUREBITS: no user is special, for good.
const secureBits = 0xef // NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, and the locks of all four

// defaultUmask of the agent.
const defaultUmask = 0o022

// execError is the answer of the agent's execve, as opposed to a step before it.
type execError struct{ err error }

func (e execError) Error() string { return e.err.Error() }
func (e execError) Unwrap() error { return e.err }

// runAgent waits for the order, gives up every power and becomes the agent.
// It returns only when it could not.
func runAgent() error {
	runtime.LockOSThread() // Landlock, seccomp and capabilities belong to this thread, which calls execve
	order := os.NewFile(orderFD, "order")
	failure := os.NewFile(failureFD, "failure")
	var agent Agent
	if err := json.NewDecoder(order).Decode(&agent); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	err := become(agent)
	report := Report{Error: err.Error()}
	var execErr execError
	if errors.As(err, &execErr) {
		report.Exec = true
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		report.Errno = int(errno)
	}
	return json.NewEncoder(failure).Encode(report)
}

// become applies every restriction in the order in which each still can be.
func become(agent Agent) error {
	filter, err := seccomp.Program(seccomp.Options{NoStop: agent.NoStop})
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"session keyring", agent.joinKeyring},
		{"limits", agent.Limits.apply},
		{"working directory", func() error { return unix.Chdir(agent.Dir) }},
		{"capabilities", agent.dropCapabilities},
		{"no new privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"landlock", func() error { return restrict(agent.Landlock, agent.Writable) }},
		{"descriptors", func() error { return unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	unix.Umask(defaultUmask)
	program, err := findProgram(agent)
	if err != nil {
		return execError{err}
	}
	if err := installFilter(filter); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return execError{fmt.Errorf("%s: %w", agent.Argv[0], syscall.Exec(program, agent.Argv, agent.Env))}
}

func (a Agent) joinKeyring() error {
	_, _, e := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0) // anonymous
	if e == unix.ENOSYS || a.Contained && e == unix.EPERM {                          // a kernel or an engine without keyrings
		return nil
	}
	if e != 0 {
		return e
	}
	return nil
}

func (l Limits) apply() error {
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
		if err := lower(v.resource, v.max); err != nil {
			return fmt.Errorf("resource %d: %w", v.resource, err)
		}
	}
	return nil
}

// lower sets both limits, never above the hard limit of the host.
func lower(resource int, limit uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	limit = min(limit, now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
}

func (a Agent) dropCapabilities() error {
	if a.Contained {
		return noCapabilities()
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EINVAL) { // a capability this kernel does not know
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureBits, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

// findProgram resolves argv[0] with the agent's own PATH, as the agent.
func findProgram(agent Agent) (string, error) {
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
		if filepath.IsAbs(candidate) && executable(candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s: not found in PATH: %w", name, unix.ENOENT)
}

func executable(file string) bool {
	var st unix.Stat_t
	return unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Access(file, unix.X_OK) == nil
}

func installFilter(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if e != 0 {
		return e
	}
	return nil
}
