//go:build linux

package inside

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is a stream that the runtime's poller waits for. It is none of package net, which
// links a program with C wherever Go is set to: PID 1 cannot have threads of C's (U-30).
type socket struct{ *os.File }

func newSocket(family int) (socket, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return socket{}, err
	}
	return socket{os.NewFile(uintptr(fd), "socket")}, nil
}

// dial connects to a socket of the host's: at once, or not at all.
func dial(path string) (socket, error) {
	s, err := newSocket(unix.AF_UNIX)
	if err != nil {
		return socket{}, err
	}
	if err := s.do(func(fd int) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) }); err != nil {
		return socket{}, errors.Join(fmt.Errorf("connect %s: %w", path, err), s.Close())
	}
	return s, nil
}

// listenAt opens a port of the loopback interface.
func listenAt(at netip.AddrPort) (socket, error) {
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()})
	if at.Addr().Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	s, err := newSocket(family)
	if err != nil {
		return socket{}, err
	}
	err = s.do(func(fd int) error {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if family == unix.AF_INET6 {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
				return err
			}
		}
		if err := unix.Bind(fd, address); err != nil {
			return err
		}
		return unix.Listen(fd, maxWaiting)
	})
	if err != nil {
		return socket{}, errors.Join(err, s.Close())
	}
	return s, nil
}

// listenPath opens a socket at a path.
func listenPath(name string) (socket, error) {
	s, err := newSocket(unix.AF_UNIX)
	if err != nil {
		return socket{}, err
	}
	err = s.do(func(fd int) error {
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			return err
		}
		return unix.Listen(fd, maxWaiting)
	})
	if err != nil {
		return socket{}, errors.Join(fmt.Errorf("%s: %w", name, err), s.Close())
	}
	return s, nil
}

// maxWaiting is how many connections wait to be accepted; the kernel has a limit of its own.
const maxWaiting = 4096

// accept waits for a connection.
func (s socket) accept() (socket, error) {
	conn := -1
	err := s.wait(syscall.RawConn.Read, func(fd int) (err error) {
		conn, _, err = unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return err
	})
	if err != nil {
		return socket{}, err
	}
	_ = unix.SetsockoptInt(conn, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // slower without, and no worse
	return socket{os.NewFile(uintptr(conn), "connection")}, nil
}

// closeWrite tells the other end that nothing more comes.
func (s socket) closeWrite() {
	_ = s.do(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) }) // it may be gone
}

// hand sends a byte with a descriptor.
func (s socket) hand(what byte, fd int) error {
	return s.wait(syscall.RawConn.Write, func(to int) error { return unix.Sendmsg(to, []byte{what}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL) })
}

func (s socket) do(f func(fd int) error) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// wait does what a socket may not be ready for, as often as it takes.
func (s socket) wait(when func(syscall.RawConn, func(fd uintptr) bool) error, try func(fd int) error) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = when(raw, func(fd uintptr) bool {
		for {
			failed = try(int(fd))
			if !errors.Is(failed, unix.EINTR) && !errors.Is(failed, unix.ECONNABORTED) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	return errors.Join(err, failed)
}

// maxSpliced is how much one splice moves, in bytes.
const maxSpliced = 1 << 20

// pump moves all that comes from one socket to another, without bringing it into this
// program's memory where the kernel can do so.
func pump(to, from socket) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return carry(to, from)
	}
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()    // nothing is in it, or the connection is lost
	_, _ = unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, maxSpliced) // a smaller one is only slower
	for began := false; ; began = true {
		var n int64
		err := from.wait(syscall.RawConn.Read, func(fd int) (err error) {
			n, err = unix.Splice(fd, nil, pipe[1], nil, maxSpliced, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			return err
		})
		if !began && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)) {
			return carry(to, from) // a kernel that cannot, such as gVisor's
		}
		if err != nil || n == 0 {
			return err
		}
		for n > 0 {
			var moved int64
			err := to.wait(syscall.RawConn.Write, func(fd int) (err error) {
				moved, err = unix.Splice(pipe[0], nil, fd, nil, int(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
				return err
			})
			if err != nil {
				return err
			}
			n -= moved
		}
	}
}

// carry moves it through this program.
func carry(to, from socket) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	return err
}
