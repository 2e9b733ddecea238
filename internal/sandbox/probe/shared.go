//go:build linux

package probe

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// InFlight is how many descriptors the host keeps on their way between processes
// while the probes run: more than the probes may have open.
func (t Target) InFlight() int { return t.OpenFiles + 64 }

// sharedLocks are those of files that the host has open, too.
func sharedLocks() []Probe { return []Probe{{"fs", "fs-lock", Always, lockTool}} }

// sharedCounts are what the kernel keeps once for all processes of a user.
func sharedCounts() []Probe {
	return []Probe{{"processes", "proc-host-in-flight", WhereBuilt, inFlight}}
}

// lockTool asks for a lock on the probes' own program, of which the host has one. Where the answer
// is that it is locked, a lock of the agent's would keep the host waiting.
func lockTool(Target) Finding {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = program.Close() }()
	err = unix.Flock(int(program.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return escaped("the host's lock is seen")
	}
	return blocked("the locks are the sandbox's own: %v", err)
}

// inFlight sends one descriptor with the limit of the sandbox. Where that is refused, what the host
// has on its way counts, and what the agent has would keep the host's programs from sending any.
func inFlight(t Target) Finding {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return untestable(err)
	}
	now.Cur = min(now.Max, uint64(t.OpenFiles))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return untestable(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return untestable(err)
	}
	defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
	err = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(pair[1]), nil, 0)
	if errors.Is(err, unix.ETOOMANYREFS) {
		return escaped("what the host sends counts for the agent, and the other way round")
	}
	return blocked("it counts for itself: %v", err)
}

// newerCalls are system calls, sockets and settings that kernels got since, or that few look at.
func newerCalls() []Probe {
	bad := ^uintptr(4095)
	raw := func(name string, number uintptr, args ...uintptr) Probe {
		return Probe{"syscalls", name, WhereBuilt, func(Target) Finding { return permitted(call(number, args...), "the call is permitted") }}
	}
	return []Probe{
		raw("sys-mount-status", 457, bad, bad, 0, 0),
		raw("sys-security-module-get", 459, 99, bad, bad, 0),
		raw("sys-security-module-set", 460, 99, bad, 0, 0),
		raw("sys-security-module-list", 461, bad, bad, 0),
		raw("sys-open-tree-attributes", 467, bad, bad, 0, bad, 24),
		raw("sys-file-attributes-get", 468, bad, bad, bad, 24, 0),
		raw("sys-file-attributes-set", 469, bad, bad, bad, 24, 0),
		raw("sys-shadow-stack", 453, 0, 4096, 0),
		raw("sys-handle-name", unix.SYS_NAME_TO_HANDLE_AT, bad, bad, bad, bad, 0),
		raw("sys-lookup-cookie", unix.SYS_LOOKUP_DCOOKIE, 0, bad, 1),
		{"syscalls", "sys-setns-process", WhereBuilt, func(t Target) Finding {
			fd, err := unix.PidfdOpen(t.Init, 0)
			if err != nil {
				return blocked("%v", err)
			}
			defer func() { _ = unix.Close(fd) }()
			return permitted(unix.Setns(fd, unix.CLONE_NEWUTS|unix.CLONE_NEWIPC), "the namespaces of a process can be joined")
		}},
	}
}

// newerSettings are files by which a kernel runs programs, or holds less.
func newerSettings() []Probe {
	const class = "privileges"
	return []Probe{
		{class, "priv-namespace-limit", AsRoot, writable("/proc/sys/user/max_user_namespaces")},
		{class, "priv-dump-mode", AsRoot, writable("/proc/sys/fs/suid_dumpable")},
		{class, "priv-link-protection", AsRoot, writable("/proc/sys/fs/protected_symlinks")},
		{class, "priv-address-randomness", AsRoot, writable("/proc/sys/kernel/randomize_va_space")},
		{class, "priv-panic", AsRoot, writable("/proc/sys/kernel/panic")},
		{class, "priv-uevent-helper", WhereBuilt, writable("/sys/kernel/uevent_helper")},
		{class, "priv-release-agent", WhereBuilt, writable("/sys/fs/cgroup/memory/release_agent")},
		{class, "priv-misc-formats", WhereBuilt, writable("/proc/sys/fs/binfmt_misc/register")},
		{class, "priv-virtual-machine", WhereBuilt, writable("/dev/kvm")},
		{class, "priv-loop-device", WhereBuilt, writable("/dev/loop-control")},
		{class, "priv-mapper", WhereBuilt, writable("/dev/mapper/control")},
		{class, "priv-user-devices", WhereBuilt, writable("/dev/uinput")},
		{class, "priv-vsock-host", WhereBuilt, writable("/dev/vhost-vsock")},
	}
}

// newerSockets are further families of netlink.
func newerSockets() []Probe {
	const class = "net"
	return []Probe{
		{class, "net-netlink-sockets", Always, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG)},
		{class, "net-netlink-ipsec", WhereBuilt, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM)},
		{class, "net-netlink-processes", WhereBuilt, socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_CONNECTOR)},
		{class, "net-netlink-crypto", WhereBuilt, socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_CRYPTO)},
		{class, "net-vsock-datagram", WhereBuilt, socket(unix.AF_VSOCK, unix.SOCK_DGRAM, 0)},
	}
}
