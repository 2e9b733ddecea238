//go:build linux

package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// QueueName is what the host's POSIX message queue is called.
func (t Target) QueueName() string { return "nacre-" + strconv.Itoa(t.ShmKey) }

// ipcProbes reach for the host's message queues and semaphores.
func ipcProbes() []Probe {
	const class = "processes"
	return []Probe{
		{class, "proc-host-semaphore", WhereBuilt, func(t Target) Finding {
			return attempt(call(unix.SYS_SEMGET, uintptr(t.ShmKey), 0, 0), "a semaphore of the host was found")
		}},
		{class, "proc-host-message", WhereBuilt, func(t Target) Finding {
			return attempt(call(unix.SYS_MSGGET, uintptr(t.ShmKey), 0), "a message queue of the host was found")
		}},
		{class, "proc-host-mqueue", WhereBuilt, func(t Target) Finding {
			name := append([]byte(t.QueueName()), 0)
			fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, pointer(&name[0]), unix.O_RDONLY, 0, 0, 0, 0)
			if e != 0 {
				return blocked("%v", e)
			}
			_ = unix.Close(int(fd))
			return escaped("a POSIX message queue of the host was opened")
		}},
	}
}

// initProbes reach for PID 1, or for the parent that holds a token.
func initProbes() []Probe {
	const class = "processes"
	link := func(name, file string) Probe {
		return Probe{class, name, Always, func(t Target) Finding {
			to, err := os.Readlink("/proc/" + strconv.Itoa(t.Init) + "/" + file)
			if err != nil {
				return blocked("%v", err)
			}
			return escaped("%s of the process is %s", file, to)
		}}
	}
	return []Probe{
		link("proc-init-cwd", "cwd"), link("proc-init-root", "root"), link("proc-init-namespace", "ns/net"),
		{class, "proc-init-descriptors", Always, func(t Target) Finding {
			names, err := os.ReadDir("/proc/" + strconv.Itoa(t.Init) + "/fd")
			if err != nil {
				return blocked("%v", err)
			}
			return escaped("%d descriptors of the process", len(names))
		}},
		{class, "proc-init-descriptor-open", Always, func(t Target) Finding {
			fd, err := unix.Open("/proc/"+strconv.Itoa(t.Init)+"/fd/0", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			return closing(fd, err, "a descriptor of the process was opened again")
		}},
		{class, "proc-init-stack", AsRoot, func(t Target) Finding { return readProc(t.Init, "stack") }},
		{class, "proc-init-system-call", WhereBuilt, func(t Target) Finding { return readProc(t.Init, "syscall") }},
		{class, "proc-init-auxv", Always, func(t Target) Finding { return readProc(t.Init, "auxv") }},
		{class, "proc-init-vm-write", WhereBuilt, func(t Target) Finding {
			buf := make([]byte, 8)
			local := []unix.Iovec{{Base: &buf[0], Len: 8}}
			_, err := unix.ProcessVMWritev(t.Init, local, []unix.RemoteIovec{{Base: 8, Len: 8}}, 0)
			if err == unix.EFAULT { // nothing is there, but it was permitted to write
				err = nil
			}
			return attempt(err, "the memory of the process was written")
		}},
		{class, "proc-init-priority", Always, func(t Target) Finding {
			now, err := unix.Getpriority(unix.PRIO_PROCESS, t.Init) // 20 less the nice value
			if err != nil {
				return blocked("%v", err)
			}
			return attempt(unix.Setpriority(unix.PRIO_PROCESS, t.Init, min(20-now+5, 19)), "the process was slowed down")
		}},
		{class, "proc-init-affinity", Always, func(t Target) Finding {
			var set unix.CPUSet
			if err := unix.SchedGetaffinity(0, &set); err != nil {
				return untestable(err)
			}
			return attempt(unix.SchedSetaffinity(t.Init, &set), "the process was moved")
		}},
		{class, "proc-init-oom", Always, func(t Target) Finding {
			fd, err := unix.Open("/proc/"+strconv.Itoa(t.Init)+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
			return closing(fd, err, "the kernel's choice of victims can be changed")
		}},
		{class, "proc-host-pidfd", WhereBuilt, func(t Target) Finding {
			fd, err := unix.PidfdOpen(t.HostPid, 0)
			if err == nil && t.Init == 1 && ends(fd) { // where PID 1 is the sandbox's, so are its numbers
				err = unix.ESRCH // a process of the sandbox's own had the number, and has ended
			}
			return closing(fd, err, "a host process was opened")
		}},
		{class, "proc-select-text", WhereBuilt, func(Target) Finding {
			request := byte(3) // TIOCL_PASTESEL
			return permitted(call(unix.SYS_IOCTL, 0, 0x541c, pointer(&request)), "text can be pasted into a console")
		}},
		{class, "proc-trace-me", WhereBuilt, func(Target) Finding {
			return permitted(call(unix.SYS_PTRACE, ^uintptr(0), 0), "ptrace is permitted")
		}},
	}
}

// ends waits until a process has ended, for as long as one of the probes' own may take.
func ends(pidfd int) bool {
	const patience = 10_000 // milliseconds
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, patience)
	return err == nil && n > 0
}

func readProc(pid int, file string) Finding {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
	if err != nil {
		return blocked("%v", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return blocked("%s is empty", file)
	}
	return escaped("%s of the process has %d bytes", file, len(text))
}

// mount is a line of the list of mounts.
type mount struct{ what, at, line string }

// mounted are the mounts that this process sees. A line has, third to fifth, the device, the
// folder of it that is mounted, and where.
func mounted() (all []mount, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 {
			all = append(all, mount{what: f[2] + " " + f[3], at: f[4], line: line})
		}
	}
	return all, err
}

// RootMount is what this process has mounted at its root: a device, and a folder of it.
func RootMount() (string, error) {
	mounts, err := mounted()
	for _, m := range slices.Backward(mounts) { // what was mounted last covers the rest
		if m.at == "/" {
			return m.what, nil
		}
	}
	return "", errors.Join(err, errors.New("no mount is at the root"))
}

// sharedSecrets are in other processes, and in what the host keeps for all users.
func sharedSecrets() []Probe {
	const class = "secrets"
	return []Probe{
		{class, "sec-parent-environ", Always, func(t Target) Finding {
			text, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/environ")
			if err != nil {
				return blocked("%v", err)
			}
			if t.Token != "" && bytes.Contains(text, []byte(t.Token)) {
				return escaped("the session's token was read from the parent's environment")
			}
			return blocked("the parent's environment has no token")
		}},
		{class, "sec-init-environ", Always, func(t Target) Finding {
			return findIn(t, "/proc/"+strconv.Itoa(t.Init)+"/environ")
		}},
		{class, "sec-all-users", WhereBuilt, func(t Target) Finding {
			text, err := os.ReadFile("/etc/passwd")
			if err != nil || bytes.Count(text, []byte("\n")) < 5 {
				return blocked("%v", err)
			}
			return escaped("/etc/passwd names the host's users")
		}},
		{class, "sec-host-mounts", Always, func(t Target) Finding {
			mounts, err := mounted()
			if err != nil {
				return blocked("%v", err)
			}
			for _, m := range mounts {
				if m.what == t.Root {
					return escaped("the host's root is mounted")
				}
				if strings.Contains(m.line, filepath.Dir(t.Secret)) {
					return escaped("a path of the host is in the list of mounts")
				}
			}
			return blocked("no mount shows the host")
		}},
		{class, "sec-processes", Always, func(Target) Finding {
			names, err := filepath.Glob("/proc/[0-9]*")
			if err != nil || len(names) < 8 {
				return blocked("%d processes are seen", len(names))
			}
			return escaped("%d processes are seen", len(names))
		}},
		{class, "sec-open-sockets", WhereBuilt, func(t Target) Finding {
			text, err := os.ReadFile("/proc/net/unix")
			if err != nil {
				return blocked("%v", err)
			}
			if bytes.Contains(text, []byte(t.Abstract)) {
				return escaped("the host's sockets are listed")
			}
			return blocked("only its own sockets are listed")
		}},
	}
}

// rareCalls are further system calls that no agent needs.
func rareCalls() []Probe {
	const class = "syscalls"
	bad := ^uintptr(4095)
	raw := func(name string, control Control, number uintptr, args ...uintptr) Probe {
		return Probe{class, name, control, func(Target) Finding { return permitted(call(number, args...), "the call is permitted") }}
	}
	return []Probe{
		raw("sys-io-uring-enter", WhereBuilt, unix.SYS_IO_URING_ENTER, bad, 0, 0, 0, 0, 0),
		raw("sys-io-uring-register", WhereBuilt, unix.SYS_IO_URING_REGISTER, bad, 0, 0, 0),
		raw("sys-kexec-file", WhereBuilt, unix.SYS_KEXEC_FILE_LOAD, bad, bad, 0, 0, 0xff),
		raw("sys-swapoff", AsRoot, unix.SYS_SWAPOFF, bad),
		raw("sys-settimeofday", AsRoot, unix.SYS_SETTIMEOFDAY, bad, 0),
		raw("sys-clock-adjtime", Always, unix.SYS_CLOCK_ADJTIME, 0, bad),
		raw("sys-migrate-pages", WhereBuilt, unix.SYS_MIGRATE_PAGES, 0, 0, 0, 0),
		raw("sys-mempolicy", WhereBuilt, unix.SYS_SET_MEMPOLICY, 99, 0, 0),
		raw("sys-move-mount", AsRoot, unix.SYS_MOVE_MOUNT, bad, bad, bad, bad, 0),
		raw("sys-fsmount", AsRoot, unix.SYS_FSMOUNT, bad, 0, 0),
		raw("sys-fspick", AsRoot, unix.SYS_FSPICK, bad, bad, 0),
		raw("sys-quotactl-fd", WhereBuilt, unix.SYS_QUOTACTL_FD, bad, 0x800003<<8, 0, 0),
		raw("sys-fanotify-mark", WhereBuilt, unix.SYS_FANOTIFY_MARK, bad, 1, 1, bad, bad),
		raw("sys-memfd-secret", WhereBuilt, unix.SYS_MEMFD_SECRET, 0x100),
		raw("sys-setns-bad", WhereBuilt, unix.SYS_SETNS, bad, 0),
		raw("sys-unshare-files", WhereBuilt, unix.SYS_UNSHARE, unix.CLONE_FILES),
		{class, "sys-mount-tree", WhereBuilt, func(Target) Finding {
			var request [24]byte
			return permitted(call(458, pointer(&request[0]), bad, 0, 0), "mounts can be listed")
		}},
		{class, "sys-seccomp-listener", AsRoot, func(Target) Finding {
			// A filter with a listener lets a parent answer its child's calls.
			filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
			program := unix.SockFprog{Len: 1, Filter: &filter[0]}
			fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
			if e != 0 {
				return blocked("%v", e)
			}
			_ = unix.Close(int(fd))
			return escaped("a listener for calls was made")
		}},
	}
}

// watches takes more than half of what the host's user may have of inotify's
// instances, and not all: others need them.
func watches(t Target) Finding {
	for n := range t.Watches/2 + 1 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return blocked("%v after %d", err, n)
		}
		defer func() { _ = unix.Close(fd) }()
	}
	return escaped("more than half of the user's %d inotify instances", t.Watches)
}

// sharedResources are shared by everyone on the machine.
func sharedResources() []Probe {
	const class = "resources"
	return []Probe{
		{class, "res-sysv-memory", WhereBuilt, func(t Target) Finding {
			id, err := unix.SysvShmGet(unix.IPC_PRIVATE, int(t.Space), unix.IPC_CREAT|0o600)
			if err != nil {
				return blocked("%v", err)
			}
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			return escaped("a shared segment of %d MiB", t.Space>>20)
		}},
		{class, "res-many-files", Always, manyFiles},
		{class, "res-inotify", WhereBuilt, watches},
		{class, "res-aio", WhereBuilt, func(Target) Finding {
			var id [8]byte
			err := call(unix.SYS_IO_SETUP, 1, pointer(&id[0]))
			if err == nil {
				_ = call(unix.SYS_IO_DESTROY, uintptr(binary.NativeEndian.Uint64(id[:])))
			}
			return attempt(err, "a share of the machine's contexts for asynchronous input and output")
		}},
		{class, "res-project-inodes", Always, func(t Target) Finding {
			var st unix.Statfs_t
			if err := unix.Statfs(t.Project, &st); err != nil {
				return untestable(err)
			}
			if st.Files > 0 && st.Files <= maxFiles {
				return blocked("at most %d files", st.Files)
			}
			return escaped("%d files", st.Files)
		}},
		{class, "res-lock-memory", WhereBuilt, func(t Target) Finding {
			memory, err := unix.Mmap(-1, 0, int(t.Memory)+32<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err != nil {
				return blocked("%v", err)
			}
			err = unix.Mlock(memory)
			_ = unix.Munmap(memory)
			return attempt(err, "more memory than allowed was locked")
		}},
	}
}

// maxFiles is how many a tmpfs may hold.
const maxFiles = 200_000

// manyFiles makes more files than a sandbox's tmpfs may hold, without
// contents, as names of one.
func manyFiles(t Target) Finding {
	dir, err := os.MkdirTemp(t.Shm, "probe")
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for i := range maxFiles + 1 {
		fd, err := unix.Open(dir+"/"+strconv.Itoa(i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return blocked("after %d: %v", i, err)
		}
		_ = unix.Close(fd)
	}
	return escaped("%d files", maxFiles+1)
}

// rareProtocols are protocols that no tool needs.
func rareProtocols() []Probe {
	const class = "net"
	return []Probe{
		{class, "net-netlink-netfilter", Always, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{class, "net-netlink-generic", Always, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC)},
		{class, "net-packet-datagram", AsRoot, socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)},
		{class, "net-raw-tcp", AsRoot, socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)},
		{class, "net-udp-lite", WhereBuilt, socket(unix.AF_INET, unix.SOCK_DGRAM, 136)},
		{class, "net-ping", WhereBuilt, socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)},
		{class, "net-sctp", WhereBuilt, socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)},
		{class, "net-key", WhereBuilt, socket(unix.AF_KEY, unix.SOCK_RAW, 2)},
		{class, "net-can", WhereBuilt, socket(unix.AF_CAN, unix.SOCK_RAW, 1)},
		{class, "net-rds", WhereBuilt, socket(unix.AF_RDS, unix.SOCK_SEQPACKET, 0)},
		{class, "net-smc", WhereBuilt, socket(unix.AF_SMC, unix.SOCK_STREAM, 0)},
		{class, "net-host-ipv6-loopback", WhereBuilt, func(t Target) Finding { return dial("tcp", t.TCP6) }},
		{class, "net-resolver", WhereBuilt, func(Target) Finding {
			text, err := os.ReadFile("/etc/resolv.conf")
			if err != nil || !bytes.Contains(text, []byte("nameserver")) {
				return blocked("no resolver is named: %v", err)
			}
			return escaped("a resolver is named")
		}},
	}
}
