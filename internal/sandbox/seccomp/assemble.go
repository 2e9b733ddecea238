//go:build linux

package seccomp

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Only the low halves of arguments are looked
// at, and only where the kernel itself reads no more than 32 bits.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// maxInstructions is the kernel's limit on a program (BPF_MAXINSNS).
const maxInstructions = 4096

// what a filter answers.
const (
	actionAllow = unix.SECCOMP_RET_ALLOW
	actionKill  = unix.SECCOMP_RET_KILL_PROCESS
)

func actionErrno(e unix.Errno) uint32 {
	return unix.SECCOMP_RET_ERRNO | uint32(e)&unix.SECCOMP_RET_DATA
}

// A rule answers for one system call: code that ends in a return on every path.
type rule struct {
	number uint32
	code   []unix.SockFilter
}

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func ret(action uint32) unix.SockFilter { return stmt(unix.BPF_RET|unix.BPF_K, action) }

func loadArg(i int) unix.SockFilter {
	return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetArgs+8*uint32(i))
}

// unless skips the next n instructions when the comparison fails.
func unless(op uint16, k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jf: n}
}

// when skips the next n instructions when the comparison holds.
func when(op uint16, k uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: n}
}

// assemble builds the program: kill foreign architectures, then a binary
// search over the rules; what has no rule gets the fallback.
func assemble(arch uint32, rules []rule, fallback uint32) ([]unix.SockFilter, error) {
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.number, b.number) })
	for i := 1; i < len(rules); i++ {
		if rules[i].number == rules[i-1].number {
			return nil, fmt.Errorf("seccomp: two rules for system call %d", rules[i].number)
		}
	}
	program := []unix.SockFilter{
		stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetArch),
		when(unix.BPF_JEQ, arch, 1),
		ret(actionKill),
		stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetNumber),
		unless(unix.BPF_JGE, x32Bit, 1),
		ret(actionKill),
	}
	program = append(program, search(rules, fallback)...)
	if len(program) > maxInstructions {
		return nil, fmt.Errorf("seccomp: %d instructions, the kernel takes %d", len(program), maxInstructions)
	}
	return program, nil
}

// search emits a balanced tree. The jump over the left half is unconditional,
// because only that one has an offset wider than 8 bits.
func search(rules []rule, fallback uint32) []unix.SockFilter {
	switch len(rules) {
	case 0:
		return []unix.SockFilter{ret(fallback)}
	case 1:
		r := rules[0]
		code := []unix.SockFilter{when(unix.BPF_JEQ, r.number, 1), ret(fallback)}
		return append(code, r.code...)
	}
	mid := len(rules) / 2
	left := search(rules[:mid], fallback)
	code := []unix.SockFilter{
		unless(unix.BPF_JGE, rules[mid].number, 1),
		stmt(unix.BPF_JMP|unix.BPF_JA, uint32(len(left))),
	}
	return append(append(code, left...), search(rules[mid:], fallback)...)
}
