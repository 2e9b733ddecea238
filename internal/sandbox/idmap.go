//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/spawn"
)

// errNoIDMap says that a file system cannot show its files as another user's.
var errNoIDMap = errors.New("its file system cannot be mapped to another user (idmapped mounts): " +
	"move it to ext4, xfs, btrfs or tmpfs, or run nacre as an ordinary user")

// idmaps keeps one user namespace for each owner of a source. The zero value is ready.
type idmaps struct {
	mu   sync.Mutex
	open map[owner]*os.File
}

// namespace returns a user namespace in which the owner's files are the agent's.
func (m *idmaps) namespace(n *Mapper, o owner) (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.open[o]; f != nil {
		return f, nil
	}
	f, err := n.holdNamespace(o)
	if err != nil {
		return nil, fmt.Errorf("user namespace for files of user %d: %w", o.uid, err)
	}
	if m.open == nil {
		m.open = map[owner]*os.File{}
	}
	m.open[o] = f
	return f, nil
}

func (m *idmaps) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.open {
		_ = f.Close() // read-only
	}
	m.open = nil
}

// holdNamespace makes a process in a fresh user namespace, takes the
// namespace's descriptor, which holds it from then on, and ends the process.
func (n *Mapper) holdNamespace(o owner) (*os.File, error) {
	var nothing spawn.Program
	holder, err := nothing.Start(spawn.Shared | unix.CLONE_NEWUSER)
	if err != nil {
		return nil, err
	}
	defer holder.End()
	if err := holder.Map(n.mapping(o.uid), n.mapping(o.gid), false); err != nil {
		return nil, err
	}
	return os.Open("/proc/" + strconv.Itoa(holder.Pid) + "/ns/user")
}

// mapping shows an id as the agent's. What a file server makes is nobody's
// until it has given it away.
func (n *Mapper) mapping(id int) []syscall.SysProcIDMap {
	list := []syscall.SysProcIDMap{{ContainerID: id, HostID: n.users.agent(), Size: 1}}
	if n.served {
		place := nobody
		if id == nobody {
			place = nobody - 1
		}
		list = append(list, syscall.SysProcIDMap{ContainerID: place, HostID: 0, Size: 1})
	}
	return list
}

// nobody owns nothing.
const nobody = 65534

// initCommand runs the sealed init binary in a mode.
func (n *Mapper) initCommand(args ...string) (*exec.Cmd, error) {
	init, err := n.init.file()
	if err != nil {
		return nil, fmt.Errorf("sandbox-init: %w", err)
	}
	return &exec.Cmd{
		Path:       "/proc/self/fd/3",
		Args:       append([]string{Init}, args...),
		Env:        initEnv(),
		ExtraFiles: []*os.File{init},
		Dir:        "/",
	}, nil
}

// initEnv spares the init binary looks at the groups it is in.
func initEnv() []string { return []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0"} }
