package prove

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/nacre-dev/nacre"
)

// marker is what the decoys hold.
const marker = "nacre-probe-secret-f3a9"

// The hosts that the proxy lets through. No name of them exists.
const (
	allowedHost = "allowed.example"
	plainHost   = "plain.example"
	privateHost = "private.example"
)

// recorder keeps nothing, or cannot.
type recorder struct{ fails error }

// Append is [nacre.Recorder]'s.
func (r recorder) Append(context.Context, nacre.Record) error { return r.fails }

// Commit is [nacre.Recorder]'s.
func (r recorder) Commit(context.Context, nacre.Record) error { return r.fails }

// lingerTime is how long a decoy of a host reads on after it answered.
const lingerTime = 100 * time.Millisecond

// repeat answers whatever comes with the marker and what came.
func repeat(c net.Conn) {
	defer func() { _ = c.Close() }()
	buf := make([]byte, 32<<10)
	n, err := c.Read(buf)
	if err != nil {
		return
	}
	body := append([]byte(marker+"\n"), buf[:n]...)
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, c)
}

// toDecoy connects to the decoy, whatever the address: nothing leaves the machine.
func toDecoy(context.Context, netip.AddrPort) (net.Conn, error) {
	here, there := net.Pipe()
	go repeat(there)
	return here, nil
}

// resolve knows two addresses: one that is the machine's own, and one that is not.
func resolve(_ context.Context, host string) ([]netip.Addr, error) {
	if host == privateHost {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
}
