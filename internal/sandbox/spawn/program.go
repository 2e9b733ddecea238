//go:build linux

// Package spawn promises a child process that makes a list of system calls, written down before it
// exists, and nothing else. It is in namespaces of its own, without a Go runtime and without the
// parent's memory being copied or touched. It does not decide what is on the list.
package spawn

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lastSignal is the highest real-time signal.
const lastSignal = 64

// call is one system call. clone, in assembly, knows its fields.
type call struct {
	number uintptr
	args   [5]uintptr
	least  int // what the answer has to be at least, or the child ends
	result int
	index  int
}

// Program is what a child does. The zero value does nothing. Whoever writes it
// down has checked what it names; it is good for one child.
type Program struct {
	calls []call
	names []string
	keep  []any // what the arguments point to: the child reads it
	files []int // the calls that place a descriptor by way of one above all others
	mask  *uint64
	err   error
}

// Do adds a call that has to succeed; what says so if it does not.
func (p *Program) Do(what string, number uintptr, args ...uintptr) { p.add(what, 0, number, args) }

// Try adds a call whose answer does not matter.
func (p *Program) Try(number uintptr, args ...uintptr) { p.add("", math.MinInt, number, args) }

// Await adds that the child waits for the parent's byte in a pipe, and ends with the pipe.
func (p *Program) Await(what string, pipe uintptr) {
	p.add(what, 1, unix.SYS_READ, []uintptr{pipe, p.Point(unsafe.Pointer(new(byte))), 1})
}

func (p *Program) add(what string, least int, number uintptr, args []uintptr) {
	c := call{number: number, least: least, index: len(p.calls)}
	copy(c.args[:], args)
	p.calls = append(p.calls, c)
	p.names = append(p.names, what)
}

// Point is an argument that points to memory, which is kept until the child has gone on.
func (p *Program) Point(to unsafe.Pointer) uintptr {
	p.keep = append(p.keep, to)
	return uintptr(to)
}

// Text is an argument that points to a string.
func (p *Program) Text(s string) uintptr {
	text, err := unix.BytePtrFromString(s)
	if err != nil {
		p.err = fmt.Errorf("%q: %w", s, err)
	}
	return p.Point(unsafe.Pointer(text))
}

// texts is an argument that points to a list of strings.
func (p *Program) texts(list []string) uintptr {
	pointers := make([]*byte, len(list)+1)
	for i, s := range list {
		text, err := unix.BytePtrFromString(s)
		if err != nil {
			p.err = fmt.Errorf("argument or variable %d: %w", i, err)
			return 0
		}
		pointers[i] = text
	}
	return p.Point(unsafe.Pointer(&pointers[0]))
}

// Files gives the child these files as its descriptors 0, 1, 2 and so on. All
// others close when it executes a program, where they are marked so.
func (p *Program) Files(files []uintptr) {
	for i, f := range files {
		p.files = append(p.files, len(p.calls), len(p.calls)+len(files))
		p.Do("descriptors", unix.SYS_DUP3, f, uintptr(i), unix.O_CLOEXEC)
	}
	for i := range files {
		p.Do("descriptors", unix.SYS_DUP3, uintptr(i), uintptr(i), 0)
	}
}

// raise puts the descriptors on their way above all that are used.
func (p *Program) raise(used ...uintptr) {
	above := slices.Max(used)
	for _, i := range p.files {
		above = max(above, p.calls[i].args[0])
	}
	for i := 0; i < len(p.files); i += 2 {
		up, down := &p.calls[p.files[i]], &p.calls[p.files[i+1]]
		up.args[1] += above + 1
		down.args[0] += above + 1
	}
}

// Signals lets signals reach the child from here on, as they reach a program that
// was just executed: those that the parent ignores are ignored.
func (p *Program) Signals() {
	p.mask = new(uint64)
	byDefault := new([4]uint64) // struct kernel_sigaction
	for signal := uintptr(1); signal <= lastSignal; signal++ {
		if s := unix.Signal(signal); s == unix.SIGKILL || s == unix.SIGSTOP || ignored(signal) {
			continue
		}
		p.Do("signals", unix.SYS_RT_SIGACTION, signal, p.Point(unsafe.Pointer(byDefault)), 0, 8)
	}
	p.Do("signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, p.Point(unsafe.Pointer(p.mask)), 0, 8)
}

func ignored(signal uintptr) bool {
	const sigIgn = 1
	var now [4]uint64
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
	return e == 0 && now[0] == sigIgn
}

// Exec ends the list: the child becomes the program.
func (p *Program) Exec(what, program string, argv, env []string) {
	p.Do(what, unix.SYS_EXECVE, p.Text(program), p.texts(argv), p.texts(env))
}
