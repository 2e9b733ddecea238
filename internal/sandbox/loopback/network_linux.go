package loopback

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox/handout"
)

const (
	// askLimit is how long PID 1 may take to hand out a socket.
	askLimit = 5 * time.Second
	// connectLimit is how long a program inside may take to accept a connection: its
	// kernel does that for it, unless it lets many wait.
	connectLimit = 5 * time.Second
	// maxSockets of a sandbox are looked at for those that listen, which come first.
	maxSockets = 4096
)

// Network reaches what listens on the loopback of a sandbox's network. PID 1 hands
// out sockets of that network, and the host connects them: what runs inside neither
// sees that nor can ask for it (U-06). It may be used concurrently.
type Network struct {
	mu     sync.Mutex
	theirs *os.File // for PID 1, until a sandbox has it
	ours   *net.UnixConn
	tables map[byte]*os.File
}

// New makes one for a sandbox.Command. Whoever makes it closes it.
func New() (*Network, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "network"), os.NewFile(uintptr(pair[1]), "network")
	defer func() { _ = ours.Close() }() // the connection has its own copy
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("network: not a unix socket"), conn.Close(), theirs.Close())
	}
	return &Network{theirs: theirs, ours: unixConn, tables: map[byte]*os.File{}}, nil
}

// Close ends the asking. Connections that were made go on.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, table := range n.tables {
		_ = table.Close() // only read
	}
	if n.theirs != nil {
		_ = n.theirs.Close() // no sandbox had it
	}
	return n.ours.Close()
}

// HandOver gives away what one PID 1 answers on: when that ends, so does the asking.
// Whoever takes it sends it there, and closes it.
func (n *Network) HandOver() (*os.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	theirs := n.theirs
	if theirs == nil {
		return nil, errors.New("network: it is another sandbox's")
	}
	n.theirs = nil
	return theirs, nil
}

// ask gets one descriptor of the sandbox's network.
func (n *Network) ask(what byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked(what)
}

// asked is called with mu held: answers come in the order of what was asked.
func (n *Network) asked(what byte) (int, error) {
	if err := n.ours.SetDeadline(time.Now().Add(askLimit)); err != nil {
		return -1, err
	}
	if _, err := n.ours.Write([]byte{what}); err != nil {
		return -1, fmt.Errorf("sandbox: network: %w", err)
	}
	answer, room := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, size, _, _, err := n.ours.ReadMsgUnix(answer, room)
	if err != nil {
		return -1, fmt.Errorf("sandbox: network: %w", errors.Join(err, n.ours.Close())) // a late answer would be taken for the next
	}
	messages, err := unix.ParseSocketControlMessage(room[:size])
	if err != nil {
		return -1, err
	}
	if len(messages) != 1 {
		return -1, errors.New("sandbox: network: there is no such socket inside")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 || answer[0] != what {
		return -1, errors.Join(errors.New("sandbox: network: not what was asked for"), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

// Dial connects to a port on the loopback inside, by IPv4 and then by IPv6.
func (n *Network) Dial(port uint16) (*net.TCPConn, error) {
	conn, err := n.dial(handout.SocketIPv4, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		return conn, nil
	}
	loopback := netip.IPv6Loopback().As16()
	conn, err6 := n.dial(handout.SocketIPv6, &unix.SockaddrInet6{Port: int(port), Addr: loopback})
	if err6 != nil {
		return nil, fmt.Errorf("sandbox: port %d inside: %w", port, err)
	}
	return conn, nil
}

func (n *Network) dial(family byte, to unix.Sockaddr) (*net.TCPConn, error) {
	fd, err := n.ask(family)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "port")
	defer func() { _ = file.Close() }() // the connection has its own copy
	if err := connect(fd, to); err != nil {
		return nil, err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(errors.New("not a TCP socket"), conn.Close())
	}
	return tcp, nil
}

// connect connects a socket that does not block.
func connect(fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	if !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	end := time.Now().Add(connectLimit)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, max(0, int(time.Until(end).Milliseconds()))) //nolint:gosec // a descriptor
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return unix.ETIMEDOUT
		}
		failed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && failed != 0 {
			err = unix.Errno(failed)
		}
		return err
	}
}

// Listening are the ports on which something listens inside where the loopback
// reaches it, each once, in order.
func (n *Network) Listening() ([]uint16, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var ports []uint16
	for _, what := range []byte{handout.TableIPv4, handout.TableIPv6} {
		table, err := n.table(what)
		if err != nil && what == handout.TableIPv6 {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		if _, err := table.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		found, err := listening(io.LimitReader(table, maxSockets*256))
		if err != nil {
			return nil, err
		}
		ports = append(ports, found...)
	}
	slices.Sort(ports)
	return slices.Compact(ports), nil
}

// table is a table of the kernel, which PID 1 is asked for once.
func (n *Network) table(what byte) (*os.File, error) {
	if table := n.tables[what]; table != nil {
		return table, nil
	}
	fd, err := n.asked(what)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	n.tables[what] = os.NewFile(uintptr(fd), "sockets")
	return n.tables[what], nil
}

// listening reads a table of /proc/net/tcp: sockets that listen stand in front.
func listening(table io.Reader) (ports []uint16, err error) {
	const stateListen = "0A"
	lines := bufio.NewScanner(table)
	lines.Scan() // the names of the columns
	for n := 0; n < maxSockets && lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != stateListen {
			break
		}
		address, port, _ := strings.Cut(fields[1], ":")
		if number, err := strconv.ParseUint(port, 16, 16); err == nil && ofLoopback(address) {
			ports = append(ports, uint16(number))
		}
	}
	return ports, lines.Err()
}

// ofLoopback reports whether a connection to 127.0.0.1 or ::1 reaches an address as
// the kernel writes it: those two, and the unspecified ones.
func ofLoopback(address string) bool {
	switch address {
	case "00000000", "0100007F", strings.Repeat("0", 32), strings.Repeat("0", 24) + "01000000", "0000000000000000FFFF00000100007F":
		return true
	}
	return false
}
