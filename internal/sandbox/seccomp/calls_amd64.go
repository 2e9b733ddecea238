//go:build linux

package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

func allowedHere() []uint32 {
	return []uint32{
		unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE,
		unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_FORK, unix.SYS_FUTIMESAT, unix.SYS_GETDENTS, unix.SYS_GETPGRP,
		unix.SYS_GETRLIMIT, unix.SYS_INOTIFY_INIT, unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_MKDIR,
		unix.SYS_NEWFSTATAT, unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_RENAME,
		unix.SYS_RENAMEAT, unix.SYS_RMDIR, unix.SYS_SELECT, unix.SYS_SETRLIMIT, unix.SYS_SIGNALFD, unix.SYS_STAT,
		unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
	}
}

func forbiddenHere() []uint32 {
	return []uint32{
		unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_SYSFS, unix.SYS_USELIB, unix.SYS_USTAT,
	}
}

func checkedHere() []rule {
	return []rule{
		{unix.SYS_CHMOD, denyBits(1, setIDBits)},
		{unix.SYS_CREAT, denyBits(1, setIDBits)},
		{unix.SYS_OPEN, openRule(1, 2)},
		{unix.SYS_MKNOD, mknodRule(1)},
	}
}
