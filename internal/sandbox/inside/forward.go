package inside

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

const (
	// maxForwarded connections at once through one port.
	maxForwarded = 256
	// dialTimeout of the host's socket.
	dialTimeout = 10 * time.Second
)

type forwarder struct {
	listener net.Listener
	path     string
}

type forwarders []forwarder

// listen opens the loopback ports, before anything hostile could take them.
func listen(forwards []Forward) (forwarders, error) {
	var open forwarders
	for _, f := range forwards {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), f.Port)
		l, err := net.Listen("tcp4", at.String())
		if err != nil {
			return nil, fmt.Errorf("forward port %d: %w", f.Port, err)
		}
		open = append(open, forwarder{l, f.Path})
	}
	return open, nil
}

// serve forwards until PID 1 exits.
func (fs forwarders) serve() {
	for _, f := range fs {
		go f.serve()
	}
}

func (f forwarder) serve() {
	places := make(chan struct{}, maxForwarded)
	for {
		places <- struct{}{}
		conn, err := f.listener.Accept()
		if err != nil {
			<-places
			time.Sleep(10 * time.Millisecond) // out of descriptors: others will end
			continue
		}
		go func() {
			defer func() { <-places }()
			forward(conn, f.path)
		}()
	}
}

// forward copies both ways and closes each direction when its source ends.
func forward(conn net.Conn, path string) {
	defer func() { _ = conn.Close() }()
	host, err := net.DialTimeout("unix", path, dialTimeout)
	if err != nil {
		return
	}
	defer func() { _ = host.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyHalf(host, conn)
	}()
	copyHalf(conn, host)
	<-done
}

func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from) // an error ends this direction, as the end of the stream does
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
