//go:build linux

package inside

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// deviceNames are all of the host's devices that exist inside.
func deviceNames() []string { return []string{"null", "zero", "full", "random", "urandom", "tty"} }

// procNames are the entries of /proc, besides processes, that stay visible.
// Programs fail without them: node and bun read cpuinfo, meminfo and stat, ps needs
// uptime and version. What the list does not name is covered.
func procNames() map[string]bool {
	return map[string]bool{
		"self": true, "thread-self": true, "mounts": true, "net": true,
		"cpuinfo": true, "meminfo": true, "stat": true, "uptime": true, "loadavg": true,
		"version": true, "filesystems": true, "sys": true,
	}
}

// sysFiles stand in for the few kernel settings that programs read.
func sysFiles() map[string]string {
	return map[string]string{
		"kernel/pid_max":       "32768\n",
		"kernel/ngroups_max":   "65536\n",
		"kernel/cap_last_cap":  strconv.Itoa(unix.CAP_LAST_CAP) + "\n",
		"kernel/hostname":      HostName + "\n",
		"net/core/somaxconn":   "4096\n",
		"vm/overcommit_memory": "0\n",
		"vm/max_map_count":     "65530\n",
		"fs/pipe-max-size":     "1048576\n",
		"fs/file-max":          "1048576\n",
	}
}

// at is a path of the new root while it is under construction.
func (r *root) at(name string) string { return r.where + name }

func (r *root) makeScaffold() error {
	if err := os.MkdirAll(r.at(scaffold+"/dir"), 0o555); err != nil {
		return err
	}
	if err := os.WriteFile(r.at(scaffold+"/file"), nil, 0o444); err != nil {
		return err
	}
	return writeAll(r.at(scaffold+"/sys"), sysFiles())
}

func (r *root) makeEtc() error {
	if err := writeAll(r.at("/etc"), EtcFiles(AgentUID, AgentUID)); err != nil {
		return err
	}
	return os.Symlink("/proc/self/mounts", r.at("/etc/mtab"))
}

func writeAll(dir string, files map[string]string) error {
	for name, text := range files {
		full := dir + "/" + name
		if err := os.MkdirAll(full[:len(full)-len(lastElement(name))], 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, []byte(text), 0o444); err != nil {
			return err
		}
	}
	return nil
}

func lastElement(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}

// openDevices clones the host's device nodes, which is the one kind of mount
// that must not have nodev.
func openDevices() (map[string]int, error) {
	open := map[string]int{}
	for _, name := range deviceNames() {
		tree, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", name, err)
		}
		if err := setAttributes(tree, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return nil, fmt.Errorf("device %s: %w", name, err)
		}
		open[name] = tree
	}
	return open, nil
}

func (r *root) makeDev(devices map[string]int) error {
	for name, tree := range devices {
		if err := r.attachTree(Mount{Target: "/dev/" + name}, tree); err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
	}
	links := map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	}
	for name, text := range links {
		if err := os.Symlink(text, r.at("/dev/"+name)); err != nil {
			return err
		}
	}
	return nil
}

// makeTerminals gives the sandbox pseudo terminals of its own.
func (r *root) makeTerminals() error {
	fd, err := newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, [][2]string{
		{"ptmxmode", "0666"}, {"mode", "0620"},
	})
	if err != nil {
		return err
	}
	if err := r.attachTree(Mount{Target: "/dev/pts", Dir: true}, fd); err != nil {
		return err
	}
	return os.Symlink("pts/ptmx", r.at("/dev/ptmx"))
}

// makeProc mounts a /proc of the new process namespace that shows the agent
// its own processes only, and covers whatever is not in procNames.
func (r *root) makeProc() error {
	const attributes = baseAttributes | unix.MOUNT_ATTR_NOEXEC
	fd, err := newMount("proc", attributes, [][2]string{{"hidepid", "ptraceable"}})
	if err != nil {
		return err
	}
	target, err := r.target("/proc", true)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	if err := moveTo(fd, target); err != nil {
		return err
	}
	r.proc = fd
	return r.coverProc()
}

func (r *root) coverProc() error {
	entries, err := os.ReadDir(r.at("/proc"))
	if err != nil {
		return err
	}
	keep := procNames()
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil || keep[e.Name()] {
			continue
		}
		if err := r.coverEntry(e.Name()); err != nil {
			return fmt.Errorf("cover /proc/%s: %w", e.Name(), err)
		}
	}
	sys, err := unix.Openat(r.proc, "sys", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(sys) }()
	return r.bindOwn(scaffold+"/sys", sys)
}

func (r *root) coverEntry(name string) error {
	fd, err := unix.Openat(r.proc, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return r.cover(fd)
}
