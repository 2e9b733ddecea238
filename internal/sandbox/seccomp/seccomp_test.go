package seccomp_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/seccomp"
)

// data is struct seccomp_data.
type data struct {
	number, arch uint32
	args         [6]uint64
}

func (d data) word(offset uint32) uint32 {
	switch {
	case offset == 0:
		return d.number
	case offset == 4:
		return d.arch
	case offset >= 16 && offset < 64:
		return uint32(d.args[(offset-16)/8] >> (8 * (offset % 8)))
	}
	return 0
}

// interpret runs a classic BPF program as the kernel does, and fails on what it would refuse.
func interpret(t *testing.T, program []unix.SockFilter, d data) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		i := program[pc]
		jump := func(holds bool) {
			if holds {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = d.word(i.K)
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= i.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(i.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= i.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(a&i.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %d has code %#x", pc, i.Code)
		}
	}
	t.Fatal("the program ended without an answer")
	return 0
}

const (
	allow  = unix.SECCOMP_RET_ALLOW
	kill   = unix.SECCOMP_RET_KILL_PROCESS
	errno  = unix.SECCOMP_RET_ERRNO
	eperm  = errno | uint32(unix.EPERM)
	enosys = errno | uint32(unix.ENOSYS)
	family = errno | uint32(unix.EAFNOSUPPORT)
	proto  = errno | uint32(unix.EPROTONOSUPPORT)
)

type answer struct {
	name   string
	number uint32
	args   [6]uint64
	want   uint32
}

func TestTheFilterAnswersEachCall(t *testing.T) { // M-12
	program, err := seccomp.Program(seccomp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	high := uint64(1) << 32
	for _, c := range append(nativeCases(), []answer{
		{"read", unix.SYS_READ, [6]uint64{}, allow},
		{"execve", unix.SYS_EXECVE, [6]uint64{}, allow},
		{"ptrace", unix.SYS_PTRACE, [6]uint64{}, eperm},
		{"mount", unix.SYS_MOUNT, [6]uint64{}, eperm},
		{"open_tree", unix.SYS_OPEN_TREE, [6]uint64{}, eperm},
		{"unshare", unix.SYS_UNSHARE, [6]uint64{}, eperm},
		{"setns", unix.SYS_SETNS, [6]uint64{}, eperm},
		{"bpf", unix.SYS_BPF, [6]uint64{}, eperm},
		{"keyctl", unix.SYS_KEYCTL, [6]uint64{}, eperm},
		{"clone3 falls back", unix.SYS_CLONE3, [6]uint64{}, enosys},
		{"openat2 falls back", unix.SYS_OPENAT2, [6]uint64{}, enosys},
		{"io_uring falls back", unix.SYS_IO_URING_SETUP, [6]uint64{}, enosys},
		{"a call of the future", 900, [6]uint64{}, enosys},
		{"the highest native number", 0x3fffffff, [6]uint64{}, enosys},
		{"x32", 0x40000000 | unix.SYS_READ, [6]uint64{}, kill},
		{"a negative number", 0xffffffff, [6]uint64{}, kill},
		{"clone of a thread", unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"fork", unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, allow},
		{"a new user namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm},
		{"a new network namespace", unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWNET}, eperm},
		{"a namespace behind high bits", unix.SYS_CLONE, [6]uint64{high | unix.CLONE_NEWNS}, eperm},
		{"a unix socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		{"a unix datagram pair", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, allow},
		{"a unix packet socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_NONBLOCK}, allow},
		{"a raw unix socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, proto},
		{"TCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"TCP by default", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, 0}, allow},
		{"UDP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
		{"raw IP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}, proto},
		{"ICMP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, proto},
		{"MPTCP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, proto},
		{"SCTP", unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, proto},
		{"netlink", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, family},
		{"packet", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET, unix.SOCK_RAW}, family},
		{"vsock", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, family},
		{"the kernel's crypto", unix.SYS_SOCKET, [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, family},
		{"vsock behind high bits", unix.SYS_SOCKET, [6]uint64{high | unix.AF_VSOCK, unix.SOCK_STREAM}, family},
		{"a window size", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGWINSZ}, allow},
		{"typing", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, eperm},
		{"typing behind high bits", unix.SYS_IOCTL, [6]uint64{0, high | unix.TIOCSTI}, eperm},
		{"pasting", unix.SYS_IOCTL, [6]uint64{0, 0x541c}, eperm},
		{"the console", unix.SYS_IOCTL, [6]uint64{0, unix.TIOCCONS}, eperm},
		{"fchmodat", unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o755}, allow},
		{"fchmodat set-uid", unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o4755}, eperm},
		{"fchmod set-gid", unix.SYS_FCHMOD, [6]uint64{0, 0o2755}, eperm},
		{"fchmodat2 set-uid", unix.SYS_FCHMODAT2, [6]uint64{0, 0, 0o4000}, eperm},
		{"sticky", unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o1777}, allow},
		{"open", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_RDONLY, 0o7777}, allow},
		{"create", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o644}, allow},
		{"create set-uid", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, eperm},
		{"create unnamed set-uid", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_TMPFILE | unix.O_WRONLY, 0o4755}, eperm},
		{"list a directory", unix.SYS_OPENAT, [6]uint64{0, 0, unix.O_DIRECTORY, 0o4755}, allow},
		{"a pipe", unix.SYS_MKNODAT, [6]uint64{0, 0, unix.S_IFIFO | 0o644}, allow},
		{"a plain node", unix.SYS_MKNODAT, [6]uint64{0, 0, 0o644}, allow},
		{"a device", unix.SYS_MKNODAT, [6]uint64{0, 0, unix.S_IFCHR | 0o666}, eperm},
		{"a disk", unix.SYS_MKNODAT, [6]uint64{0, 0, unix.S_IFBLK | 0o666}, eperm},
		{"a set-uid node", unix.SYS_MKNODAT, [6]uint64{0, 0, unix.S_IFREG | 0o4755}, eperm},
		{"the own personality", unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, allow},
		{"a lease, which makes whoever opens the file wait", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETLEASE, unix.F_WRLCK}, eperm},
		{"a lease of a folder", unix.SYS_FCNTL, [6]uint64{3, 1024 + 16}, eperm},
		{"a lock", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETLK}, allow},
		{"a rename", unix.SYS_RENAMEAT2, [6]uint64{0, 0, 0, 0, unix.RENAME_EXCHANGE}, allow},
		{"a rename that leaves a device", unix.SYS_RENAMEAT2, [6]uint64{0, 0, 0, 0, unix.RENAME_WHITEOUT | unix.RENAME_NOREPLACE}, eperm},
		{"a share of the machine's contexts", unix.SYS_IO_SETUP, [6]uint64{1}, enosys},
		{"a filter of its own", unix.SYS_SECCOMP, [6]uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC}, allow},
		{"a filter with a listener", unix.SYS_SECCOMP, [6]uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}, eperm},
		{"no address randomness", unix.SYS_PERSONALITY, [6]uint64{0x0040000}, eperm},
		{"a signal", unix.SYS_KILL, [6]uint64{7, uint64(unix.SIGSTOP)}, allow},
		{"a lower priority", unix.SYS_SETPRIORITY, [6]uint64{0, 0, 5}, allow},
		{"a better priority", unix.SYS_SETPRIORITY, [6]uint64{0, 0, 0xfffffffb}, eperm},
		{"a better priority, in full", unix.SYS_SETPRIORITY, [6]uint64{0, 0, 0xfffffffffffffffb}, eperm},
		{"the own limits", unix.SYS_PRLIMIT64, [6]uint64{0}, allow},
		{"PID 1's limits", unix.SYS_PRLIMIT64, [6]uint64{1}, eperm},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			have := interpret(t, program, data{number: c.number, arch: nativeArch, args: c.args})
			if have != c.want {
				t.Errorf("have %#x, want %#x", have, c.want)
			}
		})
	}
}

// M-16: what could stop PID 1 of a kernel that lets it be stopped.
func TestNothingIsStoppedWherePID1CouldBe(t *testing.T) {
	program, err := seccomp.Program(seccomp.Options{NoStop: true})
	if err != nil {
		t.Fatal(err)
	}
	stop, term := uint64(unix.SIGSTOP), uint64(unix.SIGTERM)
	for _, c := range []answer{
		{"kill", unix.SYS_KILL, [6]uint64{7, stop}, eperm},
		{"kill behind high bits", unix.SYS_KILL, [6]uint64{7, 1<<32 | stop}, eperm},
		{"tkill", unix.SYS_TKILL, [6]uint64{7, stop}, eperm},
		{"tgkill", unix.SYS_TGKILL, [6]uint64{1, 7, stop}, eperm},
		{"rt_sigqueueinfo", unix.SYS_RT_SIGQUEUEINFO, [6]uint64{1, stop}, eperm},
		{"rt_tgsigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO, [6]uint64{1, 7, stop}, eperm},
		{"pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, [6]uint64{3, stop}, eperm},
		{"a signal by input", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETSIG, stop}, eperm},
		{"another signal", unix.SYS_KILL, [6]uint64{stop, term}, allow},
		{"another signal to a thread", unix.SYS_TGKILL, [6]uint64{stop, stop, term}, allow},
		{"a lease", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETLEASE}, eperm},
		{"a flag of a descriptor", unix.SYS_FCNTL, [6]uint64{3, unix.F_SETFL, 0}, allow},
		{"what others cannot do either", unix.SYS_PTRACE, [6]uint64{}, eperm},
		{"what others can do too", unix.SYS_READ, [6]uint64{}, allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			if have := interpret(t, program, data{number: c.number, arch: nativeArch, args: c.args}); have != c.want {
				t.Errorf("have %#x, want %#x", have, c.want)
			}
		})
	}
}

func TestForeignArchitecturesAreKilled(t *testing.T) {
	program, err := seccomp.Program(seccomp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, 0, 0xffffffff} {
		for _, number := range []uint32{0, 1, 11, unix.SYS_READ} {
			if have := interpret(t, program, data{number: number, arch: arch}); have != kill {
				t.Errorf("arch %#x call %d: have %#x", arch, number, have)
			}
		}
	}
}

// Every number gets an answer, the high half of no argument changes it to
// allow, and every jump lands inside the program.
func TestEveryNumberGetsAnAnswer(t *testing.T) {
	program, err := seccomp.Program(seccomp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for number := range uint32(1024) {
		d := data{number: number, arch: nativeArch}
		have := interpret(t, program, d)
		switch have {
		case allow, eperm, enosys, family, proto:
		default:
			t.Errorf("call %d: have %#x", number, have)
		}
	}
	for i, in := range program {
		furthest := i + 1 + int(max(in.Jt, in.Jf))
		if in.Code == unix.BPF_JMP|unix.BPF_JA {
			furthest = i + 1 + int(in.K)
		}
		if in.Code&7 == unix.BPF_JMP && furthest >= len(program) {
			t.Errorf("instruction %d jumps to %d of %d", i, furthest, len(program))
		}
	}
	t.Logf("%d instructions", len(program))
}

func FuzzTheFilter(f *testing.F) {
	program, err := seccomp.Program(seccomp.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), nativeArch, uint64(0), uint64(0), uint64(0))
	f.Add(uint32(unix.SYS_CLONE), nativeArch, uint64(unix.CLONE_NEWUSER), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, number, arch uint32, a, b, c uint64) {
		have := interpret(t, program, data{number: number, arch: arch, args: [6]uint64{a, b, c, b, a, c}})
		if arch != nativeArch && have != kill {
			t.Errorf("arch %#x: %#x", arch, have)
		}
		if have == allow && number == unix.SYS_CLONE && uint32(a)&unix.CLONE_NEWUSER != 0 {
			t.Error("a user namespace")
		}
	})
}
