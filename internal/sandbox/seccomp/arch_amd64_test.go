package seccomp_test

import "golang.org/x/sys/unix"

const nativeArch = uint32(unix.AUDIT_ARCH_X86_64)

// nativeCases are the calls that only this architecture has.
func nativeCases() []answer {
	return []answer{
		{"open", unix.SYS_OPEN, [6]uint64{0, unix.O_RDWR, 0o4755}, allow},
		{"open to create", unix.SYS_OPEN, [6]uint64{0, unix.O_RDWR | unix.O_CREAT, 0o644}, allow},
		{"open to create set-uid", unix.SYS_OPEN, [6]uint64{0, unix.O_RDWR | unix.O_CREAT, 0o4644}, eperm},
		{"creat set-gid", unix.SYS_CREAT, [6]uint64{0, 0o2755}, eperm},
		{"chmod", unix.SYS_CHMOD, [6]uint64{0, 0o755}, allow},
		{"chmod set-uid", unix.SYS_CHMOD, [6]uint64{0, 0o4755}, eperm},
		{"mknod of a device", unix.SYS_MKNOD, [6]uint64{0, unix.S_IFCHR | 0o600}, eperm},
		{"mknod of a pipe", unix.SYS_MKNOD, [6]uint64{0, unix.S_IFIFO | 0o600}, allow},
		{"descriptor tables", unix.SYS_MODIFY_LDT, [6]uint64{}, eperm},
		{"ports", unix.SYS_IOPL, [6]uint64{3}, eperm},
		{"fork", unix.SYS_FORK, [6]uint64{}, allow},
	}
}
