//go:build linux

package inside

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// maxForwarded connections at once through one port.
const maxForwarded = 256

type forwarder struct {
	listener socket
	path     string
}

type forwarders []forwarder

// listen opens the loopback ports, before anything hostile could take them.
func listen(forwards []Forward) (forwarders, error) {
	var open forwarders
	for _, f := range forwards {
		l, err := forwarded(netip.AddrFrom4([4]byte{127, 0, 0, 1}), f.Port)
		if err != nil {
			return nil, err
		}
		open = append(open, forwarder{l, f.Path})
		if !f.Both {
			continue
		}
		l, err = forwarded(netip.IPv6Loopback(), f.Port)
		if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
			continue // a kernel, or a container, without IPv6
		}
		if err != nil {
			return nil, err
		}
		open = append(open, forwarder{l, f.Path})
	}
	return open, nil
}

func forwarded(at netip.Addr, port uint16) (socket, error) {
	l, err := listenAt(netip.AddrPortFrom(at, port))
	if err != nil {
		return socket{}, fmt.Errorf("forward port %d: %w", port, err)
	}
	return l, nil
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
		conn, err := f.listener.accept()
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
func forward(conn socket, path string) {
	defer func() { _ = conn.Close() }()
	host, err := dial(path)
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

func copyHalf(to, from socket) {
	_ = pump(to, from) // an error ends this direction, as the end of the stream does
	to.closeWrite()
}
