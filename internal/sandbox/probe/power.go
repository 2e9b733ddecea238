//go:build linux

package probe

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func namespaces() []Probe {
	const class = "namespaces"
	flags := map[string]int{
		"mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
	}
	probes := []Probe{
		{class, "ns-clone-user", WhereBuilt, cloneUser},
		{class, "ns-clone3-user", WhereBuilt, clone3User},
		{class, "ns-unshare-user", WhereBuilt, func(Target) Finding { return apartUnshare("user") }},
		{class, "ns-setns-own", AsRoot, func(Target) Finding { return joinNamespace("/proc/self/ns/uts") }},
		{class, "ns-setns-init", WhereBuilt, func(t Target) Finding { return joinNamespace("/proc/" + strconv.Itoa(t.Init) + "/ns/uts") }},
	}
	for _, name := range []string{"mount", "net", "pid", "ipc", "uts", "cgroup", "time"} {
		probes = append(probes, Probe{class, "ns-unshare-" + name, AsRoot, func(Target) Finding {
			return attempt(unix.Unshare(flags[name]), "a new "+name+" namespace")
		}})
	}
	return probes
}

// cloneUser starts a program in a namespace in which it is root.
func cloneUser(Target) Finding {
	cmd := exec.Command("/proc/self/exe", "none")
	cmd.Args[0] = Name
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	if err := cmd.Start(); err != nil {
		return blocked("%v", err)
	}
	_ = cmd.Wait() // it has nothing to do
	return escaped("a new user namespace")
}

// apartUnshare needs a process with one thread, which a Go program is not.
func apartUnshare(kind string) Finding {
	path, err := exec.LookPath("unshare")
	if err != nil {
		return untestable(err)
	}
	out, err := exec.Command(path, "--"+kind, "true").CombinedOutput()
	if err != nil {
		return blocked("%v: %s", err, bytes.TrimSpace(out))
	}
	return escaped("unshare --%s", kind)
}

// clone3User calls clone3, whose flags a filter cannot see, with arguments
// that a kernel which let it through refuses as invalid.
func clone3User(Target) Finding {
	args := make([]byte, 88)
	*(*uint64)(unsafe.Pointer(&args[0])) = unix.CLONE_NEWUSER | unix.CLONE_FS // a pair that clone refuses
	return permitted(call(unix.SYS_CLONE3, pointer(&args[0]), uintptr(len(args))), "clone3 is permitted")
}

func joinNamespace(name string) Finding {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = unix.Close(fd) }()
	return attempt(unix.Setns(fd, unix.CLONE_NEWUTS), "joined "+name)
}

func privileges() []Probe {
	const class = "privileges"
	status := func(name, field, harmless string) Probe {
		return Probe{class, name, Always, func(Target) Finding {
			have := statusField(field)
			if strings.Trim(have, harmless) == "" && have != "" {
				return blocked("%s is %s", field, have)
			}
			return escaped("%s is %s", field, have)
		}}
	}
	bounding := status("priv-bounding-set", "CapBnd", "0")
	effective := status("priv-effective", "CapEff", "0")
	effective.Control = AsRoot
	return []Probe{
		effective, bounding,
		status("priv-no-new-privs", "NoNewPrivs", "1"),
		status("priv-seccomp", "Seccomp", "2"),
		{class, "priv-setuid-root", AsRoot, func(Target) Finding { return attempt(unix.Setresuid(0, 0, 0), "became user 0") }},
		{class, "priv-setgroups", AsRoot, func(Target) Finding { return attempt(unix.Setgroups([]int{0}), "joined group 0") }},
		{class, "priv-raise-limit", WhereBuilt, raiseLimit},
		{class, "priv-nice", AsRoot, func(Target) Finding {
			return attempt(unix.Setpriority(unix.PRIO_PROCESS, 0, -5), "raised its own priority")
		}},
		{class, "priv-core-pattern", AsRoot, writable("/proc/sys/kernel/core_pattern")},
		{class, "priv-modprobe-path", WhereBuilt, writable("/proc/sys/kernel/modprobe")},
		{class, "priv-kernel-setting", AsRoot, writable("/proc/sys/kernel/domainname")},
		{class, "priv-sysrq", WhereBuilt, writable("/proc/sysrq-trigger")},
		{class, "priv-uid-map", WhereBuilt, writable("/proc/self/uid_map")},
		{class, "priv-cgroup", AsRoot, writable("/sys/fs/cgroup/memory/cgroup.procs")},
		{class, "priv-disk", WhereBuilt, writable("/dev/vda")},
		{class, "priv-kmsg", AsRoot, writable("/dev/kmsg")},
		{class, "priv-mem", WhereBuilt, writable("/dev/mem")},
	}
}

func statusField(name string) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// writable opens for writing and writes nothing.
func writable(name string) func(Target) Finding {
	return func(Target) Finding {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		return closing(fd, err, name+" can be written")
	}
}

// raiseLimit sets the hard limit to one more than it is; with an unlimited
// one it lowers it first, in this process alone.
func raiseLimit(Target) Finding {
	low := unix.Rlimit{Cur: 100, Max: 100}
	if err := unix.Setrlimit(unix.RLIMIT_SIGPENDING, &low); err != nil {
		return untestable(err)
	}
	err := unix.Setrlimit(unix.RLIMIT_SIGPENDING, &unix.Rlimit{Cur: 101, Max: 101})
	return attempt(err, "raised a hard limit")
}

func processes() []Probe {
	const class = "processes"
	initFile := func(name, file string) Probe {
		return Probe{class, name, Always, func(t Target) Finding {
			fd, err := unix.Open("/proc/"+strconv.Itoa(t.Init)+"/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return blocked("%v", err)
			}
			defer func() { _ = unix.Close(fd) }()
			buf := make([]byte, 16)
			if file == "mem" {
				return escaped("the memory of process %d is open", t.Init)
			}
			n, err := unix.Read(fd, buf)
			if err == nil && n == 0 {
				return blocked("nothing to read")
			}
			return attempt(err, "read "+file+" of the process")
		}}
	}
	return []Probe{
		{class, "proc-host-visible", Always, hostVisible},
		{class, "proc-host-signal", Always, func(t Target) Finding { return attempt(unix.Kill(t.HostPid, 0), "a host process can be signalled") }},
		initFile("proc-init-environ", "environ"),
		initFile("proc-init-mem", "mem"),
		initFile("proc-init-maps", "maps"),
		{class, "proc-init-exe", Always, func(t Target) Finding {
			fd, err := unix.Open("/proc/"+strconv.Itoa(t.Init)+"/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			return closing(fd, err, "the launcher's binary is open")
		}},
		{class, "proc-init-ptrace", WhereBuilt, func(t Target) Finding {
			return attempt(unix.PtraceSeize(t.Init), "traced")
		}},
		{class, "proc-init-vm-read", WhereBuilt, readInit},
		{class, "proc-init-getfd", WhereBuilt, takeDescriptor},
		{class, "proc-init-limits", Always, func(t Target) Finding {
			var now unix.Rlimit
			return attempt(unix.Prlimit(t.Init, unix.RLIMIT_NOFILE, nil, &now), "limits of the process can be set")
		}},
		{class, "proc-kcmp", WhereBuilt, func(t Target) Finding {
			return permitted(call(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid()), 0, 0, 0), "kcmp")
		}},
		{class, "proc-typing", WhereBuilt, typing},
		{class, "proc-host-shm", Always, hostShm},
		{class, "proc-init-signals", Always, signalInit},
	}
}

func hostVisible(t Target) Finding {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(t.HostPid) + "/cmdline")
	if err != nil {
		return blocked("%v", err)
	}
	if strings.Contains(string(text), t.Marker) {
		return escaped("the argument list of a host process was read")
	}
	return blocked("the number is another process")
}

func readInit(t Target) Finding {
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: 0x400000, Len: 8}}
	_, err := unix.ProcessVMReadv(t.Init, local, remote, 0)
	if err == unix.EFAULT { // nothing is there, but it was permitted to look
		err = nil
	}
	return attempt(err, "the memory of the process was read")
}

func takeDescriptor(t Target) Finding {
	fd, err := unix.PidfdOpen(t.Init, 0)
	if err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = unix.Close(fd) }()
	got, err := unix.PidfdGetfd(fd, 0, 0)
	return closing(got, err, "a descriptor was taken")
}

// typing puts a key into a terminal's input, as if a person had typed it.
func typing(Target) Finding {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = 0 // the filter refuses the request on every file
	} else {
		defer func() { _ = unix.Close(fd) }()
	}
	key := byte('x')
	return permitted(call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, pointer(&key)), "a key was typed")
}

func hostShm(t Target) Finding {
	id, err := unix.SysvShmGet(t.ShmKey, 0, 0)
	if err != nil {
		return blocked("%v", err)
	}
	memory, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = unix.SysvShmDetach(memory) }()
	return escaped("a segment of the host was attached")
}

// signalInit sends every signal. Inside, the sandbox's end is the finding.
func signalInit(t Target) Finding {
	for signal := 1; signal <= 64; signal++ {
		_ = unix.Kill(t.Init, unix.Signal(signal)) // the outcome is seen below
	}
	for range 100 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(t.Init) + "/stat")
		if err == nil && bytes.Contains(stat, []byte(") Z ")) {
			return escaped("process %d died of it", t.Init)
		}
		if err != nil && t.Init != 1 {
			return escaped("process %d is gone", t.Init)
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 2_000_000}, nil)
	}
	return blocked("it lives")
}
