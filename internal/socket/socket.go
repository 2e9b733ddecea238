// Package socket promises to connect to the very socket that it looked at, in a folder
// where somebody else can put anything. It also says whose process is at the other end of
// a connection, as the kernel knows it.
package socket

import "net"

// control does something with a connection's descriptor.
func control[T any](conn *net.UnixConn, do func(fd int) (T, error)) (result T, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return result, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { result, failed = do(int(fd)) }); err != nil {
		return result, err
	}
	return result, failed
}
