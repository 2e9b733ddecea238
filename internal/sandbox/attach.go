package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// mapping says whether a bind shows the files of its owner as the agent's.
// It matters for root only: an ordinary user's files are the agent's anyway.
type mapping uint8

const (
	mapRequired mapping = iota
	mapWhere            // where the file system can
	mapNever
)

// attach adds a bind to the plan. Root prepares the mount here, because the
// sandbox may not be able to reach the source; an ordinary user cannot, so
// PID 1 opens the path again and compares.
func (n *Native) attach(p *plan, s *source, step inside.Mount, how mapping) error {
	if !n.users.privileged {
		step.Source, step.Dev, step.Ino = s.path, uint64(s.stat.Dev), s.stat.Ino
		p.Mounts = append(p.Mounts, step)
		return nil
	}
	tree, err := n.cloneTree(s, step, how)
	if err != nil {
		return err
	}
	step.FD = inside.FirstTree + len(p.trees)
	p.trees = append(p.trees, tree)
	p.Mounts = append(p.Mounts, step)
	return nil
}

func (n *Native) cloneTree(s *source, step inside.Mount, how mapping) (*os.File, error) {
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
