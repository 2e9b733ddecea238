// Package handout is what the host and a sandbox's PID 1 both call the things of its network
// that PID 1 hands out (U-06).
package handout

// What the host asks PID 1 for, a byte each: a socket of the sandbox's network, or
// the kernel's table of them.
const (
	SocketIPv4 byte = '4'
	SocketIPv6 byte = '6'
	TableIPv4  byte = 't'
	TableIPv6  byte = 'T'
)
