//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// Mapper shows files of the host as an agent's, where the agent is a user that
// nobody else is: when nacre runs as root. An ordinary user's agents are that
// user, and nothing needs to be shown as anyone else's.
type Mapper struct {
	init   *sealed // a copy of the init binary
	users  userRange
	idmaps idmaps
	ahead  sync.WaitGroup
	// served says that root reaches the files for the agent.
	served bool
}

// OpenMapper copies the init binary out of reach; empty means this program.
// served says that a file server, which is root, acts for the agent, as
// gVisor's does: it makes files as root and then gives them away.
func OpenMapper(init string, served bool) (*Mapper, error) {
	users, err := ownUserRange()
	if err != nil {
		return nil, err
	}
	m := &Mapper{users: users, served: served}
	if m.init, err = sealCopy(init); err != nil {
		return nil, fmt.Errorf("sandbox-init: %w", err)
	}
	if users.privileged { // nearly everything that root shows is root's
		m.ahead.Go(func() { _, _ = m.idmaps.namespace(m, owner{}) }) // who needs it tries again, and is told
	}
	return m, nil
}

// Close frees what OpenMapper took. Mounts that were made stay.
func (n *Mapper) Close() error {
	n.ahead.Wait()
	n.idmaps.close()
	return n.init.close()
}

// AgentIDs are the host user and group that agents run as, never root's.
func (n *Mapper) AgentIDs() (uid, gid int) {
	if n.users.privileged {
		return n.users.agent(), n.users.agent()
	}
	return os.Geteuid(), os.Getegid()
}

// Maps reports whether sources are shown through [Mapper.Mount] at all.
func (n *Mapper) Maps() bool { return n.users.privileged }

// Mount shows an opened source at an existing place of the host, with its
// owner as the agent's, without devices and set-user-id programs. The caller
// unmounts it.
func (n *Mapper) Mount(s *Source, readOnly, noExec bool, place string) error {
	tree, err := n.cloneTree(s, inside.Mount{ReadOnly: readOnly, NoExec: noExec}, s.mapping)
	if err != nil {
		return err
	}
	defer func() { _ = tree.Close() }() // the mount stays
	return unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func (n *Mapper) cloneTree(s *Source, step inside.Mount, how mapping) (*os.File, error) {
	attributes := inside.TreeAttributes(step.ReadOnly, step.NoExec)
	if how != mapNever {
		users, err := n.idmaps.namespace(n, s.owner())
		if err != nil {
			return nil, err
		}
		attributes.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attributes.Userns_fd = uint64(users.Fd())
	}
	tree, err := inside.CloneTree(int(s.file.Fd()), attributes)
	if err != nil && how == mapWhere {
		tree, err = inside.CloneTree(int(s.file.Fd()), inside.TreeAttributes(step.ReadOnly, step.NoExec))
	}
	if how == mapRequired && errors.Is(err, unix.EINVAL) {
		return nil, errNoIDMap
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), "tree"), nil
}
