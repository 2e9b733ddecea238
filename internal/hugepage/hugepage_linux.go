// Package hugepage lets the first part of a program's heap lie in huge pages: a program that imports
// it has them from its start (P-01).
//
// A command of nacre touches some 1,500 pages of its heap for the first time and ends. Each of them is
// a fault. Under a hypervisor that keeps page tables of its own a fault takes 25 µs, and all of them a
// fifth of what a command takes to begin. Most distributions lend huge pages to whoever asks for
// them. Where the kernel has none, or lends none, all is as before.
package hugepage

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// begun is how much of the heap is asked for, in bytes: what a command touches.
	begun = 8 << 20
	// chunk is what Go's heap grows by, in bytes, and what it is aligned to.
	chunk = 4 << 20
	// size is that of a huge page where pages have 4 KiB, in bytes.
	size = 2 << 20
)

// It has to run before the packages that allocate, and does: Go initializes those first that need
// no others.
func init() { lend() } //nolint:gochecknoinits // main begins when a quarter of it has been touched

// lend lets the heap grow at once, asks for huge pages below it, and gives the room back to Go. The
// collector has next to nothing to look at here. What the kernel refuses is only an advice.
func lend() {
	room := make([]byte, begun)
	heap := uintptr(unsafe.Pointer(unsafe.SliceData(room))) &^ (chunk - 1)
	_, _, refused := unix.Syscall(unix.SYS_MADVISE, heap, begun, unix.MADV_HUGEPAGE)
	if refused == 0 {
		// What the runtime has touched already is moved into one.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, heap, size, unix.MADV_COLLAPSE)
	}
	runtime.KeepAlive(room)
	runtime.GC()
}
