//go:build linux

package probe

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func resources() []Probe {
	const class = "resources"
	return []Probe{
		{class, "res-forks", Always, forks},
		{class, "res-memory", Always, func(t Target) Finding { return anonymous(t, unix.MAP_PRIVATE) }},
		{class, "res-shared-memory", Always, func(t Target) Finding { return anonymous(t, unix.MAP_SHARED) }},
		{class, "res-memfd", Always, memfd},
		{class, "res-tmp", Always, func(t Target) Finding { return fill(t.Tmp, t.Space) }},
		{class, "res-shm", Always, func(t Target) Finding { return fill(t.Shm, t.Space) }},
		{class, "res-scratch", Always, func(t Target) Finding { return fill(t.Scratch, t.Space) }},
		{class, "res-inodes", Always, inodes},
		{class, "res-descriptors", WhereBuilt, descriptors},
		{class, "res-file-size", Always, fileSize},
		{class, "res-core", Always, func(Target) Finding {
			var now unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil || now.Max == 0 {
				return blocked("no core files")
			}
			return escaped("core files up to %d bytes", now.Max)
		}},
		{class, "res-project-disk", Always, func(t Target) Finding { return fill(t.Project, t.Space) }},
	}
}

// forks starts more children than allowed, which wait for their input.
func forks(t Target) Finding {
	r, w, err := os.Pipe()
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = r.Close() }()
	var children []*exec.Cmd
	defer func() {
		_ = w.Close()
		for _, c := range children {
			_ = c.Wait()
		}
	}()
	for range t.Processes + 8 {
		cmd := exec.Command("cat")
		cmd.Stdin = r
		if err := cmd.Start(); err != nil {
			return blocked("after %d: %v", len(children), err)
		}
		children = append(children, cmd)
	}
	return escaped("%d processes at once", len(children))
}

const page = 4096

// anonymous holds more memory than allowed, in 16 MiB pieces.
func anonymous(t Target, sharing int) Finding {
	const piece = 16 << 20
	for held := int64(0); held < t.Memory+2*piece; held += piece {
		memory, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|sharing)
		if err != nil {
			return blocked("after %d MiB: %v", held>>20, err)
		}
		for i := 0; i < piece; i += page {
			memory[i] = 1
		}
	}
	return escaped("more than %d MiB are held", t.Memory>>20)
}

func memfd(t Target) Finding {
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	if err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = unix.Close(fd) }()
	piece := make([]byte, 1<<20)
	for held := int64(0); held < t.Memory+32<<20; held += int64(len(piece)) {
		if _, err := unix.Write(fd, piece); err != nil {
			return blocked("after %d MiB: %v", held>>20, err)
		}
	}
	return escaped("more than %d MiB are held", t.Memory>>20)
}

// fill reserves more space than allowed, and frees it.
func fill(dir string, space int64) Finding {
	name := scratchName(dir)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return blocked("%v", err)
	}
	defer func() { _ = os.Remove(name) }()
	defer func() { _ = f.Close() }()
	return attempt(unix.Fallocate(int(f.Fd()), 0, 0, space+1<<20), "reserved "+strconv.FormatInt(space>>20, 10)+" MiB and more")
}

func inodes(t Target) Finding {
	var st unix.Statfs_t
	if err := unix.Statfs(t.Tmp, &st); err != nil {
		return untestable(err)
	}
	if st.Files > 0 && st.Files <= 200_000 {
		return blocked("at most %d files", st.Files)
	}
	return escaped("%d files", st.Files)
}

func descriptors(t Target) Finding {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return untestable(err)
	}
	if now.Max <= uint64(t.OpenFiles) {
		return blocked("at most %d", now.Max)
	}
	return escaped("up to %d", now.Max)
}

func fileSize(t Target) Finding {
	name := scratchName(t.Project)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return untestable(err)
	}
	defer func() { _ = os.Remove(name) }()
	defer func() { _ = f.Close() }()
	return attempt(f.Truncate(t.FileSize+1), "a file beyond the limit")
}

func secrets() []Probe {
	const class = "secrets"
	present := func(name, file string, control Control) Probe {
		return Probe{class, name, control, func(Target) Finding {
			text, err := os.ReadFile(file)
			if err != nil {
				return blocked("%v", err)
			}
			if len(bytes.TrimSpace(text)) == 0 {
				return blocked("%s is empty", file)
			}
			return escaped("%s has %d bytes", file, len(text))
		}}
	}
	return []Probe{
		{class, "sec-environment", Always, func(t Target) Finding {
			if strings.Contains(strings.Join(os.Environ(), "\n"), t.Marker) {
				return escaped("the host's environment was passed on")
			}
			return blocked("the environment is the posture's")
		}},
		{class, "sec-proc-environ", Always, func(t Target) Finding { return scanProc(t, "environ") }},
		{class, "sec-proc-cmdline", Always, func(t Target) Finding { return scanProc(t, "cmdline") }},
		{class, "sec-host-name", Always, func(t Target) Finding {
			if have, err := os.Hostname(); err != nil || have != t.HostName {
				return blocked("it is %s", have)
			}
			return escaped("the host is called %s", t.HostName)
		}},
		{class, "sec-boot-id", Always, func(t Target) Finding {
			text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
			if err != nil || strings.TrimSpace(string(text)) != t.Boot {
				return blocked("%v", err)
			}
			return escaped("the boot id was read")
		}},
		present("sec-machine-id", "/etc/machine-id", WhereBuilt),
		present("sec-shadow", "/etc/shadow", WhereBuilt),
		{class, "sec-kernel-cmdline", Always, kernelLine},
		present("sec-kallsyms", "/proc/kallsyms", WhereBuilt),
		present("sec-kernel-config", "/proc/config.gz", WhereBuilt),
		present("sec-modules", "/proc/modules", WhereBuilt),
		present("sec-partitions", "/proc/partitions", WhereBuilt),
		present("sec-interrupts", "/proc/interrupts", WhereBuilt),
		present("sec-keys", "/proc/key-users", WhereBuilt),
		present("sec-timers", "/proc/timer_list", AsRoot),
		present("sec-iomem", "/proc/iomem", WhereBuilt),
		present("sec-fstab", "/etc/fstab", WhereBuilt),
		{class, "sec-sys", Always, func(Target) Finding {
			entries, err := os.ReadDir("/sys")
			if err != nil || len(entries) == 0 {
				return blocked("%v", err)
			}
			return escaped("/sys has %d entries", len(entries))
		}},
		{class, "sec-kernel-log", AsRoot, func(Target) Finding {
			_, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
			return attempt(err, "the kernel's log can be read")
		}},
		{class, "sec-homes", Always, func(t Target) Finding {
			entries, err := os.ReadDir(filepath.Dir(t.Secret))
			if err != nil {
				return blocked("%v", err)
			}
			return escaped("%d entries next to the secret", len(entries))
		}},
	}
}

// kernelLine counts the host's own alone: a kernel of the runtime's has another.
func kernelLine(t Target) Finding {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil || t.CommandLine == "" || string(text) != t.CommandLine {
		return blocked("it is not the host's: %v", err)
	}
	return escaped("the command line of the host's kernel was read")
}

func scanProc(t Target, file string) Finding {
	names, err := filepath.Glob("/proc/[0-9]*/" + file)
	if err != nil {
		return untestable(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && bytes.Contains(text, []byte(t.Marker)) {
			return escaped("the secret was read from %s", name)
		}
	}
	return blocked("%d processes do not show it", len(names))
}

func systemCalls() []Probe {
	const class = "syscalls"
	raw := func(name string, control Control, number uintptr, args ...uintptr) Probe {
		return Probe{class, name, control, func(Target) Finding { return permitted(call(number, args...), "the call is permitted") }}
	}
	bad := ^uintptr(4095) // an address that is nobody's
	return append([]Probe{
		raw("sys-bpf", AsRoot, unix.SYS_BPF, 0, bad, 8),
		raw("sys-io-uring", WhereBuilt, unix.SYS_IO_URING_SETUP, 1, bad),
		raw("sys-keyctl", WhereBuilt, unix.SYS_KEYCTL, 0, ^uintptr(2), 0),
		raw("sys-add-key", WhereBuilt, unix.SYS_ADD_KEY, bad, bad, 0, 0, 0),
		raw("sys-request-key", WhereBuilt, unix.SYS_REQUEST_KEY, bad, bad, 0, 0),
		raw("sys-perf", WhereBuilt, unix.SYS_PERF_EVENT_OPEN, bad, 0, 0, 0, 0),
		raw("sys-userfaultfd", AsRoot, unix.SYS_USERFAULTFD, 0x4000),
		raw("sys-init-module", WhereBuilt, unix.SYS_INIT_MODULE, bad, 0, bad),
		raw("sys-finit-module", WhereBuilt, unix.SYS_FINIT_MODULE, ^uintptr(0), bad, 0),
		raw("sys-delete-module", WhereBuilt, unix.SYS_DELETE_MODULE, bad, 0),
		raw("sys-kexec", WhereBuilt, unix.SYS_KEXEC_LOAD, 0, 999, 0, 0xff),
		raw("sys-reboot", AsRoot, unix.SYS_REBOOT, 0, 0, 0),
		raw("sys-swapon", WhereBuilt, unix.SYS_SWAPON, bad, 0),
		raw("sys-acct", WhereBuilt, unix.SYS_ACCT, bad),
		raw("sys-quotactl", WhereBuilt, unix.SYS_QUOTACTL, 0x800003<<8, bad, 0, 0),
		raw("sys-sethostname", AsRoot, unix.SYS_SETHOSTNAME, bad, 4),
		raw("sys-adjtimex", Always, unix.SYS_ADJTIMEX, bad),
		raw("sys-fanotify", AsRoot, unix.SYS_FANOTIFY_INIT, 0x40000000, 0),
		raw("sys-move-pages", WhereBuilt, unix.SYS_MOVE_PAGES, 0, 0, 0, 0, 0, 0x80),
		raw("sys-mbind", WhereBuilt, unix.SYS_MBIND, 0, 0, 99, 0, 0, 0),
		raw("sys-process-madvise", WhereBuilt, unix.SYS_PROCESS_MADVISE, ^uintptr(0), bad, 1, 0, 0),
		raw("sys-setdomainname", WhereBuilt, unix.SYS_SETDOMAINNAME, bad, 4),
		raw("sys-openat2", WhereBuilt, unix.SYS_OPENAT2, 0, bad, bad, 24),
		raw("sys-future", WhereBuilt, 470),
		{class, "sys-personality", Always, func(Target) Finding {
			return permitted(call(unix.SYS_PERSONALITY, 0x0040000), "address randomness can be turned off")
		}},
		{class, "sys-ptrace-self", Always, func(Target) Finding {
			return permitted(call(unix.SYS_PTRACE, unix.PTRACE_PEEKUSR, ^uintptr(0)>>1), "ptrace is permitted")
		}},
		{class, "sys-clock", AsRoot, setClock},
	}, machineCalls()...)
}

// setClock sets the real time to what it is.
func setClock(Target) Finding {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return untestable(err)
	}
	return attempt(call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now))), "the clock was set")
}

// runs reports whether a program ends with the exit code within a second.
func runs(name string, code int) (bool, error) {
	cmd := exec.Command(name)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	return cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == code, err
}
