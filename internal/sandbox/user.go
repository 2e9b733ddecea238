//go:build linux

package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// The host users that a sandbox started by root is mapped to.
const (
	preferredFirst = 1_000_000
	rangeSize      = 65_536
)

// userRange says which host users a sandbox consists of.
type userRange struct {
	// privileged is set where a range can be mapped: as root. An ordinary
	// user has one user, their own.
	privileged bool
	first      int
	size       int
}

// agent is the agent's user on the host.
func (u userRange) agent() int {
	if !u.privileged {
		return os.Geteuid()
	}
	return u.first + inside.AgentUID
}

// inner is the agent's user in the first namespace.
func (u userRange) inner() int {
	if !u.privileged {
		return 0
	}
	return inside.AgentUID
}

func (u userRange) mappings() (users, groups []syscall.SysProcIDMap) {
	if !u.privileged {
		return []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	both := []syscall.SysProcIDMap{{HostID: u.first, Size: u.size}}
	return both, both
}

// ownUserRange picks users that are nobody's. Never the host's user 0.
func ownUserRange() (userRange, error) {
	if os.Geteuid() != 0 {
		return userRange{}, nil
	}
	mapped, err := mappedRanges("/proc/self/uid_map")
	if err != nil {
		return userRange{}, fmt.Errorf("user range: %w", err)
	}
	return pickRange(mapped)
}

// idRange is a run of user ids that exist in this process's namespace.
type idRange struct{ first, size int }

func pickRange(mapped []idRange) (userRange, error) {
	best := userRange{privileged: true, size: rangeSize}
	for _, m := range mapped {
		end := m.first + m.size
		if m.first <= preferredFirst && end >= preferredFirst+rangeSize {
			best.first = preferredFirst
			return best, nil
		}
		if first := end - rangeSize; first >= m.first && first >= rangeSize {
			best.first = first
		}
	}
	if best.first == 0 {
		const head = "root has no %d spare user ids here to run a sandbox as (/proc/self/uid_map)"
		if setting, fix := forbids(); setting != "" { // an ordinary user would be refused next
			return userRange{}, fmt.Errorf(head+", and ordinary users may not make namespaces (%s): %s and run nacre as one of them, or %s", rangeSize, setting, fix, otherwise())
		}
		return userRange{}, fmt.Errorf(head+": run nacre as an ordinary user", rangeSize)
	}
	return best, nil
}

func mappedRanges(file string) ([]idRange, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var ranges []idRange
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var first, outside, size int
		if _, err := fmt.Sscan(lines.Text(), &first, &outside, &size); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		ranges = append(ranges, idRange{first, size})
	}
	return ranges, lines.Err()
}

// namespaceFlags are those of every sandbox.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// attributes of the process that becomes PID 1.
func (u userRange) attributes() *syscall.SysProcAttr {
	users, groups := u.mappings()
	return &syscall.SysProcAttr{
		Cloneflags:                 namespaceFlags,
		UidMappings:                users,
		GidMappings:                groups,
		GidMappingsEnableSetgroups: u.privileged,
		Credential:                 &syscall.Credential{NoSetGroups: !u.privileged},
		Setsid:                     true,
	}
}
