package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// underFilter is what this program is called to become another one under the filter of a container engine.
const underFilter = "under-filter"

// becomesFiltered refuses what Docker's default profile refuses whoever has no CAP_SYS_ADMIN: mounts and
// namespaces with EPERM, and clone3 as a call that there is not. Then it becomes the program of args.
func becomesFiltered(args []string) int {
	runtime.LockOSThread()
	const number, flags = 0, 16 // where the call's number and its first argument lie
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	refuse := answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	filter := []unix.SockFilter{load(number)}
	is := func(call uint32, then ...unix.SockFilter) {
		filter = append(append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(then)), K: call}), then...)
	}
	for _, call := range []uint32{
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT,
		unix.SYS_MOUNT_SETATTR, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	} {
		is(call, refuse)
	}
	is(unix.SYS_CLONE3, answer(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	is(unix.SYS_CLONE, load(flags), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: namespaces}, refuse)
	filter = append(filter, answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err == nil {
		err = syscall.Exec(args[0], args, os.Environ())
	}
	_, _ = fmt.Fprintln(os.Stderr, err) // nothing is left to tell it to
	return 1
}

// M-60: in a container with its engine's own filter, which makes no namespaces, nothing runs, whoever one is. One
// sentence says what is missing and where it is written what to do; doctor says the same, and goes on.
func TestUnderTheFilterOfAContainerEngine(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	check(t, err)
	i := install(t)
	filtered := func(args ...string) (string, int) {
		command := i.command(self)
		command.Args = append([]string{underFilter, filepath.Join(bin, "nacre")}, args...)
		out, err := command.CombinedOutput()
		return string(out), exitCode(err)
	}
	const says = "this machine does not let this user create the namespaces that the native sandbox needs: the engine of this container forbids it; run nacre outside of containers, or see docs/install.md, \"In a container\""
	said, code := filtered("exec", "-q", "--", "echo", "it ran")
	if code != 125 || strings.Count(said, "\n") != 1 {
		t.Errorf("exit %d", code)
	}
	has(t, said, says)
	said, code = filtered("doctor", "--no-turns")
	if code != 4 {
		t.Errorf("doctor: exit %d", code)
	}
	has(t, said, "✕ sandbox "+says, "git version")
	hasNo(t, said, "backend to a container engine") // which docs/install.md rules out inside of one
}
