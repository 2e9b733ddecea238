package seccomp_test

import "golang.org/x/sys/unix"

const nativeArch = uint32(unix.AUDIT_ARCH_AARCH64)

// nativeCases are the calls that only this architecture has.
func nativeCases() []answer { return nil }
