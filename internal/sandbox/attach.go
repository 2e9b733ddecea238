//go:build linux

package sandbox

import (
	"github.com/nacre-dev/nacre/internal/sandbox/inside"
)

// attach adds a bind to the plan. Root prepares the mount here, because the sandbox may not be able
// to reach the source. An ordinary user cannot, so PID 1 opens the path again and compares.
func (n *Native) attach(p *plan, s *Source, step inside.Mount, how mapping) error {
	step, err := n.named(p, s, step, how)
	if err == nil {
		p.Mounts = append(p.Mounts, step)
	}
	return err
}

// named is a step with what PID 1 finds its source by.
func (n *Native) named(p *plan, s *Source, step inside.Mount, how mapping) (inside.Mount, error) {
	if !n.users.privileged {
		step.Source, step.Dev, step.Ino = s.path, uint64(s.stat.Dev), s.stat.Ino
		return step, nil
	}
	tree, err := n.cloneTree(s, step, how)
	if err != nil {
		return step, err
	}
	p.trees = append(p.trees, tree)
	step.FD = len(p.trees)
	return step, nil
}
