//go:build linux

package inside

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/handout"
)

// network hands the host sockets of this network over a socket that the host made.
// The host alone says where each is connected to: nothing that the agent can reach
// takes part (U-06).
type network struct {
	host   socket
	tables map[byte]*os.File
}

// openNetwork opens the kernel's tables while PID 1 still has its powers. A nil
// network hands out nothing.
func openNetwork(fd int) (*network, error) {
	if fd == 0 {
		return nil, nil
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	n := &network{host: socket{os.NewFile(uintptr(fd), "network")}, tables: map[byte]*os.File{}}
	for what, name := range map[byte]string{handout.TableIPv4: "tcp", handout.TableIPv6: "tcp6"} {
		table, err := os.Open("/proc/self/net/" + name)
		if errors.Is(err, os.ErrNotExist) && what == handout.TableIPv6 {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		n.tables[what] = table
	}
	return n, nil
}

// serve answers the host until PID 1 exits.
func (n *network) serve() {
	if n == nil {
		return
	}
	go func() {
		ask := make([]byte, 1)
		for {
			if _, err := n.host.Read(ask); err != nil {
				return // the host asks no more
			}
			if err := n.answer(ask[0]); err != nil {
				_, _ = n.host.Write([]byte{0}) // the host sees that no descriptor came
			}
		}
	}()
}

func (n *network) answer(what byte) error {
	if table := n.tables[what]; table != nil {
		return n.hand(what, int(table.Fd()))
	}
	family := unix.AF_INET
	switch what {
	case handout.SocketIPv4:
	case handout.SocketIPv6:
		family = unix.AF_INET6
	default:
		return fmt.Errorf("request %d is unknown", what)
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // the host has its own copy
	return n.hand(what, fd)
}

func (n *network) hand(what byte, fd int) error {
	return n.host.hand(what, fd)
}
