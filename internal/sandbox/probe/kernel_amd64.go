//go:build linux

package probe

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// machineCalls are those of this architecture.
func machineCalls() []Probe {
	const class = "syscalls"
	bad := ^uintptr(4095)
	return []Probe{
		{class, "sys-x32", WhereBuilt, func(Target) Finding {
			return permitted(call(0x40000000|unix.SYS_GETPID), "x32 calls are let through")
		}},
		{class, "sys-int80", WhereBuilt, int80},
		{class, "sys-modify-ldt", WhereBuilt, func(Target) Finding {
			return permitted(call(unix.SYS_MODIFY_LDT, 0, bad, 8), "descriptor tables can be changed")
		}},
		{class, "sys-iopl", WhereBuilt, func(Target) Finding { return permitted(call(unix.SYS_IOPL, 9), "input and output ports") }},
		{class, "sys-ioperm", WhereBuilt, func(Target) Finding {
			return permitted(call(unix.SYS_IOPERM, 0x80, 1, 1), "input and output ports")
		}},
	}
}

// exitCode is what the program below ends with, if i386 calls are let through.
const exitCode = 42

// int80 runs a program that ends by an i386 system call.
func int80(t Target) Finding {
	name := scratchName(t.Tmp)
	if err := os.WriteFile(name, int80Program(), 0o755); err != nil {
		return untestable(err)
	}
	defer func() { _ = os.Remove(name) }()
	ran, err := runs(name, exitCode)
	if ran {
		return escaped("an i386 call ended the program")
	}
	return blocked("%v", err)
}

// int80Program is a minimal ELF: mov eax, 1; mov ebx, 42; int 0x80.
func int80Program() []byte {
	code := []byte{0xb8, 1, 0, 0, 0, 0xbb, exitCode, 0, 0, 0, 0xcd, 0x80, 0xf4}
	const base, headers = 0x400000, 64 + 56
	le := binary.LittleEndian
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	elf = le.AppendUint16(elf, 2)            // executable
	elf = le.AppendUint16(elf, 62)           // x86-64
	elf = le.AppendUint32(elf, 1)            // version
	elf = le.AppendUint64(elf, base+headers) // entry
	elf = le.AppendUint64(elf, 64)           // program headers
	elf = le.AppendUint64(elf, 0)            // no sections
	elf = le.AppendUint32(elf, 0)            // flags
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(elf, 1) // load
	elf = le.AppendUint32(elf, 5) // read and execute
	size := uint64(headers + len(code))
	for _, v := range []uint64{0, base, base, size, size, 4096} {
		elf = le.AppendUint64(elf, v)
	}
	return append(elf, code...)
}
