package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
)

const (
	// initThreads is the room that PID 1's own threads get beyond the agent's processes.
	initThreads = 32
	// removeTries and removePause: the kernel empties a group shortly after its last process.
	removeTries = 100
	removePause = 5 * time.Millisecond
	// maxAncestors looked at for a delegated group.
	maxAncestors = 8
)

// cgroups are the directories below which this process may make groups.
// Empty means that the machine cannot enforce the limit here.
type cgroups struct {
	version int
	memory  string
	pids    string
}

// cgroupFiles tells where control groups are; tests give their own.
type cgroupFiles struct{ mounts, self string }

func hostCgroups() cgroupFiles {
	return cgroupFiles{mounts: "/proc/self/mountinfo", self: "/proc/self/cgroup"}
}

// findCgroups looks for writable groups: version 1 where the controllers are
// there, else a delegated group of version 2.
func findCgroups(files cgroupFiles) cgroups {
	own := ownGroups(files.self)
	mounts := groupMounts(files.mounts)
	found := cgroups{version: 1}
	if mount, ok := mounts["memory"]; ok {
		found.memory = writable(filepath.Join(mount, own["memory"]), "memory.limit_in_bytes")
	}
	if mount, ok := mounts["pids"]; ok {
		found.pids = writable(filepath.Join(mount, own["pids"]), "cgroup.procs")
	}
	if found.memory != "" || found.pids != "" {
		return found
	}
	if mount, ok := mounts[""]; ok {
		return delegated(mount, own[""])
	}
	return cgroups{}
}

func writable(dir, file string) string {
	if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, file), unix.F_OK) != nil {
		return ""
	}
	return dir
}

// delegated walks up from the own group to one that hands both controllers to its children.
func delegated(mount, own string) cgroups {
	for range maxAncestors {
		dir := filepath.Join(mount, own)
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		controllers := strings.Fields(string(text))
		if err == nil && slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids") &&
			writable(dir, "cgroup.procs") != "" && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil {
			return cgroups{version: 2, memory: dir, pids: dir}
		}
		if own == "/" || own == "" {
			break
		}
		own = filepath.Dir(own)
	}
	return cgroups{}
}

// ownGroups maps each controller of version 1, and "" for version 2, to this process's group.
func ownGroups(file string) map[string]string {
	groups := map[string]string{}
	for _, line := range readLines(file) {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			groups[controller] = parts[2]
		}
	}
	return groups
}

// groupMounts maps each controller, and "" for version 2, to its mount point.
func groupMounts(file string) map[string]string {
	mounts := map[string]string{}
	for _, line := range readLines(file) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 || fields[3] != "/" {
			continue
		}
		switch kind[0] {
		case "cgroup2":
			mounts[""] = fields[4]
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				mounts[option] = fields[4]
			}
		}
	}
	return mounts
}

func readLines(file string) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var lines []string
	for s := bufio.NewScanner(io.LimitReader(f, 4<<20)); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// cgroup is the group, or the groups, of one sandbox. A nil one has none.
type cgroup struct {
	version int
	memory  string
	pids    string
}

// groupName is unique on the machine for the life of the process that made it.
func groupName(pid int) string { return "nacre-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(pid) }

// enter makes the groups of a sandbox and puts PID 1 in them.
func (c cgroups) enter(pid int, limits nacre.Limits) (*cgroup, error) {
	g := &cgroup{version: c.version}
	if c.memory != "" {
		g.memory = filepath.Join(c.memory, groupName(pid))
	}
	if c.pids != "" {
		g.pids = filepath.Join(c.pids, groupName(pid))
	}
	for _, dir := range g.dirs() {
		_ = unix.Rmdir(dir) // of a process that had these numbers before
		if err := os.Mkdir(dir, 0o755); err != nil {
			g.remove()
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	if err := g.limit(limits); err != nil {
		g.remove()
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	for _, dir := range g.dirs() {
		if err := writeFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			g.remove()
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	return g, nil
}

func (g *cgroup) limit(limits nacre.Limits) error {
	memory := strconv.FormatInt(limits.Memory, 10)
	if g.memory != "" && g.version == 1 {
		if err := writeFile(g.memory, "memory.limit_in_bytes", memory); err != nil {
			return err
		}
		_ = writeFile(g.memory, "memory.memsw.limit_in_bytes", memory) // only where swap is accounted
	}
	if g.memory != "" && g.version == 2 {
		if err := writeFile(g.memory, "memory.max", memory); err != nil {
			return err
		}
		_ = writeFile(g.memory, "memory.swap.max", "0") // only where swap is accounted
	}
	if g.pids != "" {
		return writeFile(g.pids, "pids.max", strconv.Itoa(limits.Processes+initThreads))
	}
	return nil
}

func writeFile(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
}

func (g *cgroup) limitsMemory() bool { return g != nil && g.memory != "" }

// dirs are the directories of the groups, each once.
func (g *cgroup) dirs() []string {
	if g == nil {
		return nil
	}
	var dirs []string
	for _, d := range []string{g.memory, g.pids} {
		if d != "" && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// killedForMemory reads the kernel's count of processes it killed.
func (g *cgroup) killedForMemory() bool {
	if !g.limitsMemory() {
		return false
	}
	name := "memory.oom_control"
	if g.version == 2 {
		name = "memory.events"
	}
	for _, line := range readLines(filepath.Join(g.memory, name)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok && count != "0" {
			return true
		}
	}
	return false
}

func (g *cgroup) remove() {
	for _, dir := range g.dirs() {
		removeGroup(dir)
	}
}

func removeGroup(dir string) {
	for range removeTries {
		err := unix.Rmdir(dir)
		if err == nil || !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(removePause)
	}
}
