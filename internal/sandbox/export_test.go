package sandbox

import (
	"context"
	"errors"

	"github.com/nacre-dev/nacre"
)

// Groups shows which directories findCgroups would make groups in.
func Groups(mounts, self string) (version int, memory, pids string) {
	c := findCgroups(cgroupFiles{mounts: mounts, self: self})
	return c.version, c.memory, c.pids
}

// EnterGroup makes, fills and reads a group of version 2 below dir.
func EnterGroup(dir string, pid int, limits nacre.Limits) (group string, err error) {
	g, err := cgroups{version: 2, memory: dir, pids: dir}.make()
	if err != nil {
		return "", err
	}
	return g.memory, errors.Join(g.enter(pid), g.limit(limits))
}

// SweepGroups removes what killed processes left below dir.
func SweepGroups(dir string) { cgroups{version: 1, memory: dir, pids: dir}.sweep() }

// GroupKilled reads a group's count of processes killed for memory.
func GroupKilled(version int, dir string) bool {
	return (&cgroup{version: version, memory: dir}).killedForMemory()
}

// PickRange picks the host users of a sandbox from a uid_map file.
func PickRange(uidMap string) (first int, err error) {
	mapped, err := mappedRanges(uidMap)
	if err != nil {
		return 0, err
	}
	u, err := pickRange(mapped)
	return u.first, err
}

// CPUGroup shows where findCgroups would make groups for the CPU.
func CPUGroup(mounts, self string) (version int, dir string) {
	c := findCgroups(cgroupFiles{mounts: mounts, self: self})
	return c.version, c.cpu
}

// EnterCPUGroup makes and fills a group for the CPU alone, below dir.
func EnterCPUGroup(version int, dir string, pid, milli int) (group string, err error) {
	g, err := cgroups{version: version, cpu: dir}.make()
	if err != nil {
		return "", err
	}
	return g.cpu, errors.Join(g.enter(pid), g.limit(nacre.Limits{CPU: milli}))
}

// Resolve is a path without links, with what was learnt about others before it.
func Resolve(names ...string) []string {
	known := folders{}
	var all []string
	for _, name := range names {
		all = append(all, known.resolve(name))
	}
	return all
}

// DiskLooks is what the first look takes for added, of what is done after the
// beginning and before it.
func DiskLooks(ctx context.Context, mounts []nacre.Mount, do func()) int64 {
	d := NewDiskWatch(mounts, 0)
	do()
	u := d.look(ctx)
	return u.bytes - d.beginning(u).bytes
}
