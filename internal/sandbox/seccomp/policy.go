//go:build linux

// Package seccomp promises a system call filter for agents: an allow-list,
// as a classic BPF program, tightened from the set that container engines
// allow by default (M-12). Foreign calling conventions (i386, x32) kill; calls
// that programs are known to do without answer ENOSYS, the forbidden ones
// EPERM. It does not install the filter: [Program] is data.
package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// x32Bit marks the x32 calling convention in a system call number. No other
// architecture has numbers that high.
const x32Bit = 0x40000000

// Bits of arguments that the rules look at.
const (
	setIDBits      = unix.S_ISUID | unix.S_ISGID
	tmpfileBit     = 0o20000000 // __O_TMPFILE; O_TMPFILE adds O_DIRECTORY
	namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	socketTypeMask   = 0xf
	tiocLinux        = 0x541c
	personalityQuery = 0xffffffff
	setDelegation    = 1024 + 16 // F_SETDELEG, a lease of a folder
	newListener      = 0x8       // SECCOMP_FILTER_FLAG_NEW_LISTENER
	signBit          = 1 << 31   // of a nice value: a better one than the usual
)

// Options of Program. The zero value is for a kernel that keeps PID 1 from
// every signal it does not handle, as Linux does.
type Options struct {
	// NoStop refuses SIGSTOP for every process: gVisor delivers it to PID 1 too,
	// which could then not see that its host is gone.
	NoStop bool
}

// Program returns the filter of this architecture, or an error where there is none.
func Program(o Options) ([]unix.SockFilter, error) {
	rules := append(checked(), checkedHere()...)
	calls := slicesOf(allowed(), allowedHere())
	if o.NoStop {
		stops := func(nr uint32) bool {
			return slices.ContainsFunc(unstopped(), func(r rule) bool { return r.number == nr })
		}
		rules = append(slices.DeleteFunc(rules, func(r rule) bool { return stops(r.number) }), unstopped()...)
		calls = slices.DeleteFunc(calls, stops)
	}
	for _, nr := range calls {
		rules = append(rules, rule{nr, []unix.SockFilter{ret(actionAllow)}})
	}
	for _, nr := range slicesOf(forbidden(), forbiddenHere()) {
		rules = append(rules, rule{nr, []unix.SockFilter{ret(actionErrno(unix.EPERM))}})
	}
	return assemble(auditArch, rules, actionErrno(unix.ENOSYS))
}

// unstopped are the calls that could stop a process, without the signal that
// does and that none can ignore.
func unstopped() []rule {
	return []rule{
		{unix.SYS_KILL, denyValue(1, uint32(unix.SIGSTOP))},
		{unix.SYS_TKILL, denyValue(1, uint32(unix.SIGSTOP))},
		{unix.SYS_TGKILL, denyValue(2, uint32(unix.SIGSTOP))},
		{unix.SYS_RT_SIGQUEUEINFO, denyValue(1, uint32(unix.SIGSTOP))},
		{unix.SYS_RT_TGSIGQUEUEINFO, denyValue(2, uint32(unix.SIGSTOP))},
		{unix.SYS_PIDFD_SEND_SIGNAL, denyValue(1, uint32(unix.SIGSTOP))},
		{unix.SYS_FCNTL, denyValue(1, unix.F_SETLEASE, setDelegation, unix.F_SETSIG)}, // which names the signal that input sends
	}
}

// denyValue allows the call unless the argument is one of the values.
func denyValue(arg int, values ...uint32) []unix.SockFilter {
	code := []unix.SockFilter{loadArg(arg)}
	for _, v := range values {
		code = append(code, unless(unix.BPF_JEQ, v, 1), ret(actionErrno(unix.EPERM)))
	}
	return append(code, ret(actionAllow))
}

func slicesOf(a, b []uint32) []uint32 { return append(append([]uint32(nil), a...), b...) }

// checked are the calls whose arguments decide.
func checked() []rule {
	return []rule{
		{unix.SYS_CLONE, denyBits(0, namespaceFlags)},
		{unix.SYS_SOCKET, socketRule()},
		{unix.SYS_SOCKETPAIR, socketRule()},
		{unix.SYS_IOCTL, ioctlRule()},
		{unix.SYS_PERSONALITY, onlyValues(0, unix.EPERM, 0, personalityQuery)},
		{unix.SYS_PRLIMIT64, onlyValues(0, unix.EPERM, 0)},
		{unix.SYS_FCHMOD, denyBits(1, setIDBits)},
		{unix.SYS_FCHMODAT, denyBits(2, setIDBits)},
		{unix.SYS_FCHMODAT2, denyBits(2, setIDBits)},
		{unix.SYS_OPENAT, openRule(2, 3)},
		{unix.SYS_MKNODAT, mknodRule(2)},
		{unix.SYS_FCNTL, denyValue(1, unix.F_SETLEASE, setDelegation)}, // whoever opens such a file of the project waits
		{unix.SYS_RENAMEAT2, denyBits(4, unix.RENAME_WHITEOUT)},        // which leaves a device node
		{unix.SYS_SETPRIORITY, denyBits(2, signBit)},
		{unix.SYS_SECCOMP, denyBits(1, newListener)}, // programs filter themselves; none answers another's calls
	}
}

// denyBits allows the call unless the argument has one of the bits.
func denyBits(arg int, bits uint32) []unix.SockFilter {
	return []unix.SockFilter{
		loadArg(arg),
		unless(unix.BPF_JSET, bits, 1),
		ret(actionErrno(unix.EPERM)),
		ret(actionAllow),
	}
}

// onlyValues allows the call only with one of the values in the argument.
func onlyValues(arg int, e unix.Errno, values ...uint32) []unix.SockFilter {
	code := []unix.SockFilter{loadArg(arg)}
	for _, v := range values {
		code = append(code, unless(unix.BPF_JEQ, v, 1), ret(actionAllow))
	}
	return append(code, ret(actionErrno(e)))
}

// openRule refuses to create a file with set-id bits: chmod is not the only way to one.
func openRule(flags, mode int) []unix.SockFilter {
	return []unix.SockFilter{
		loadArg(flags),
		when(unix.BPF_JSET, unix.O_CREAT|tmpfileBit, 1),
		ret(actionAllow),
		loadArg(mode),
		unless(unix.BPF_JSET, setIDBits, 1),
		ret(actionErrno(unix.EPERM)),
		ret(actionAllow),
	}
}

// mknodRule allows plain files, pipes and sockets without set-id bits.
func mknodRule(mode int) []unix.SockFilter {
	code := []unix.SockFilter{
		loadArg(mode),
		unless(unix.BPF_JSET, setIDBits, 1),
		ret(actionErrno(unix.EPERM)),
		stmt(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, unix.S_IFMT),
	}
	for _, kind := range []uint32{0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK} {
		code = append(code, unless(unix.BPF_JEQ, kind, 1), ret(actionAllow))
	}
	return append(code, ret(actionErrno(unix.EPERM)))
}

// socketRule allows streams, datagrams and packets of AF_UNIX, and TCP and UDP.
func socketRule() []unix.SockFilter {
	var code []unix.SockFilter
	code = append(code, loadArg(0))
	code = append(code,
		when(unix.BPF_JEQ, unix.AF_UNIX, 4),
		when(unix.BPF_JEQ, unix.AF_INET, 2),
		when(unix.BPF_JEQ, unix.AF_INET6, 1),
		ret(actionErrno(unix.EAFNOSUPPORT)),
		stmt(unix.BPF_JMP|unix.BPF_JA, 6), // to the protocol of an internet socket
	)
	unixType := []unix.SockFilter{
		loadArg(1),
		stmt(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, socketTypeMask),
		when(unix.BPF_JEQ, unix.SOCK_STREAM, 2),
		when(unix.BPF_JEQ, unix.SOCK_DGRAM, 1),
		unless(unix.BPF_JEQ, unix.SOCK_SEQPACKET, 8),
		ret(actionAllow),
	}
	internet := []unix.SockFilter{
		loadArg(2),
		when(unix.BPF_JEQ, 0, 2),
		when(unix.BPF_JEQ, unix.IPPROTO_TCP, 1),
		unless(unix.BPF_JEQ, unix.IPPROTO_UDP, 5),
		loadArg(1),
		stmt(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, socketTypeMask),
		when(unix.BPF_JEQ, unix.SOCK_STREAM, 1),
		unless(unix.BPF_JEQ, unix.SOCK_DGRAM, 1),
		ret(actionAllow),
		ret(actionErrno(unix.EPROTONOSUPPORT)),
	}
	return append(append(code, unixType...), internet...)
}

// ioctlRule refuses what types into, or reconfigures, a terminal behind a person's back.
func ioctlRule() []unix.SockFilter {
	code := []unix.SockFilter{loadArg(1)}
	for _, request := range []uint32{unix.TIOCSTI, tiocLinux, unix.TIOCCONS, unix.TIOCSETD} {
		code = append(code, unless(unix.BPF_JEQ, request, 1), ret(actionErrno(unix.EPERM)))
	}
	return append(code, ret(actionAllow))
}
