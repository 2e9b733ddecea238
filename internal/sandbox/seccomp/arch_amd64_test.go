package seccomp_test

import "golang.org/x/sys/unix"

const nativeArch = uint32(unix.AUDIT_ARCH_X86_64)
