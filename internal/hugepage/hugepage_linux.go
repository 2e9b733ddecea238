// Package hugepage lets the first part of a program's heap lie in huge pages: a program that imports
// it has them from its start (P-01).
//
// A command of nacre touches some 1,500 pages of its heap for the first time and ends. Each of them is
// a fault. Under a hypervisor that keeps page tables of its own a fault takes 25 µs, and huge pages take
// a tenth off a command. Most distributions lend them to whoever asks. Where the kernel has none, or
// lends none, all is as before.
package hugepage

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// beginning is the part of the heap that lies in huge pages, in bytes: what a command touches.
	beginning = 8 << 20
	// chunk is what Go's heap grows by, in bytes, and what it is aligned to.
	chunk = 4 << 20
	// hugePage is the size of one where other pages have 4 KiB, in bytes.
	hugePage = 2 << 20
)

// It has to run before the packages that allocate, and does: Go initializes those first that need
// no others.
func init() { borrow() } //nolint:gochecknoinits // main begins when some 600 pages have been touched

// borrow lets the heap grow at once, asks for huge pages below it, and gives the room back to Go. The
// collector has next to nothing to look at yet. If the kernel refuses, the program runs without them.
func borrow() {
	room := make([]byte, beginning)
	heap := uintptr(unsafe.Pointer(unsafe.SliceData(room))) &^ (chunk - 1)
	_, _, refused := unix.Syscall(unix.SYS_MADVISE, heap, beginning, unix.MADV_HUGEPAGE)
	if refused == 0 {
		// What the runtime has touched already is moved into one.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, heap, hugePage, unix.MADV_COLLAPSE)
	}
	runtime.KeepAlive(room)
	runtime.GC()
}
