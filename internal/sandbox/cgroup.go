//go:build linux

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	// cpuPeriod and cpuMinQuota are the kernel's, in microseconds.
	cpuPeriod   = 100_000
	cpuMinQuota = 1_000
	// cpuShares and cpuWeight are half of what any other group has in each version.
	cpuShares = 512
	cpuWeight = 50
	// sweepAfter is how old a group is before it can be told from one that a process
	// in another PID namespace is just making.
	sweepAfter = time.Minute
	// maxAncestors looked at for a delegated group.
	maxAncestors = 8
)

// cgroups are the directories below which this process may make groups.
// Empty means that the machine cannot enforce the limit here.
type cgroups struct {
	version int
	memory  string
	pids    string
	cpu     string
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
	if mount, ok := mounts["cpu"]; ok {
		found.cpu = writable(filepath.Join(mount, own["cpu"]), "cpu.shares")
	}
	if found.memory != "" || found.pids != "" {
		return found
	}
	if mount, ok := mounts[""]; ok {
		if unified := delegated(mount, own[""]); unified.version != 0 {
			return unified
		}
	}
	if found.cpu != "" {
		return found
	}
	return cgroups{}
}

func writable(dir, file string) string {
	if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, file), unix.F_OK) != nil {
		return ""
	}
	return dir
}

// delegated walks up from the own group to one that hands memory and pids to its
// children, and cpu where it does.
func delegated(mount, own string) cgroups {
	for range maxAncestors {
		dir := filepath.Join(mount, own)
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		controllers := strings.Fields(string(text))
		if err == nil && slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids") &&
			writable(dir, "cgroup.procs") != "" && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil {
			found := cgroups{version: 2, memory: dir, pids: dir}
			if slices.Contains(controllers, "cpu") {
				found.cpu = dir
			}
			return found
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
	cpu     string
}

// make makes the groups of a sandbox. They limit nothing yet.
func (c cgroups) make() (*cgroup, error) {
	name := "nacre-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatUint(uint64(rand.Uint32()), 10)
	g := &cgroup{version: c.version}
	if c.memory != "" {
		g.memory = filepath.Join(c.memory, name)
	}
	if c.pids != "" {
		g.pids = filepath.Join(c.pids, name)
	}
	if c.cpu != "" {
		g.cpu = filepath.Join(c.cpu, name)
	}
	for i, dir := range g.dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			for _, made := range g.dirs()[:i] {
				removeGroup(made)
			}
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	return g, nil
}

// sweep removes groups of processes that were killed before they noted them.
func (c cgroups) sweep() {
	parents := []string{c.memory, c.pids, c.cpu}
	slices.Sort(parents)
	for _, parent := range slices.Compact(parents) {
		entries, err := os.ReadDir(parent) // of a controller that is not there: none
		if err != nil {
			continue
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && abandoned(e.Name()) && time.Since(info.ModTime()) > sweepAfter {
				_ = unix.Rmdir(filepath.Join(parent, e.Name())) // refused where a process is in it
			}
		}
	}
}

// abandoned reports whether a group has the name of one whose maker is gone.
func abandoned(name string) bool {
	if !groupForm().MatchString(name) {
		return false
	}
	maker, err := strconv.Atoi(strings.Split(name, "-")[1])
	return err == nil && errors.Is(unix.Kill(maker, 0), unix.ESRCH)
}

// joins opens where a process without threads joins the groups by itself, which it does at once.
// Whoever moves another waits until all of the machine's forks have gone by, for some milliseconds.
// Version 2 has no such place, and gives none.
func (g *cgroup) joins() (files []*os.File, err error) {
	if g.version != 1 {
		return nil, nil
	}
	for _, dir := range g.dirs() {
		f, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
		if err != nil {
			closeFiles(files)
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// enter moves a process to the groups.
func (g *cgroup) enter(pid int) error {
	for _, dir := range g.dirs() {
		if err := writeFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return nil
}

// limit sets what the groups hold. A nil one holds nothing.
func (g *cgroup) limit(limits nacre.Limits) error {
	if g == nil {
		return nil
	}
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
		if err := writeFile(g.pids, "pids.max", strconv.Itoa(limits.Processes+initThreads)); err != nil {
			return err
		}
	}
	if g.cpu != "" {
		return g.limitCPU(limits.CPU)
	}
	return nil
}

// limitCPU sets the most cores that the group may use at once, and the share it
// gets where others want the cores too. A kernel without bandwidth control has no
// file for the former, and where a parent has less the kernel refuses more.
func (g *cgroup) limitCPU(milli int) error {
	quota := max(int64(milli)*cpuPeriod/1000, cpuMinQuota)
	if g.version == 2 {
		_ = writeFile(g.cpu, "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod))
		return writeFile(g.cpu, "cpu.weight", strconv.Itoa(cpuWeight))
	}
	if writeFile(g.cpu, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)) == nil {
		_ = writeFile(g.cpu, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
	}
	return writeFile(g.cpu, "cpu.shares", strconv.Itoa(cpuShares))
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
	for _, d := range []string{g.memory, g.pids, g.cpu} {
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
