package egress_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/egress"
)

// FuzzServerName: a hello that the proxy accepts for a host is one that the
// standard library's server, too, reads as for that host.
func FuzzServerName(f *testing.F) {
	for _, name := range []string{"allowed.test", "evil.test", "none", "ech", "early", "twonames", "twoextensions", "trailing", "fragmented", "ALLOWED.test"} {
		f.Add(corpusHello(name))
	}
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		raw, err := egress.ReadHello(bytes.NewReader(stream), "allowed.test")
		if err != nil {
			return
		}
		if !bytes.HasPrefix(stream, raw) {
			t.Fatal("what is sent on is not what came")
		}
		if name, ok := standardName(raw); ok && !strings.EqualFold(name, "allowed.test") {
			t.Fatalf("LET THROUGH: the server reads %q", name)
		}
	})
}

// standardName is the server name that crypto/tls reads in a hello; ok is false where it refuses the hello.
func standardName(raw []byte) (name string, ok bool) {
	stop := errors.New("seen")
	server := tls.Server(&readOnly{Reader: bytes.NewReader(raw)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, stop
	}})
	_ = server.Handshake()
	return name, ok
}

// readOnly is a connection that is only read.
type readOnly struct {
	net.Conn
	io.Reader
}

func (r *readOnly) Read(p []byte) (int, error)     { return r.Reader.Read(p) }
func (*readOnly) Write(p []byte) (int, error)      { return len(p), nil }
func (*readOnly) Close() error                     { return nil }
func (*readOnly) SetDeadline(time.Time) error      { return nil }
func (*readOnly) SetReadDeadline(time.Time) error  { return nil }
func (*readOnly) SetWriteDeadline(time.Time) error { return nil }

// FuzzRequest: whatever is sent, nothing is dialled but the listed host, with one Host header that names it.
func FuzzRequest(f *testing.F) {
	for _, c := range corpusSeeds(f) {
		f.Add([]byte(c))
	}
	up := newSink(f)
	log := newLedger()
	_, socket := start(f, egress.Options{Rules: corpusRules(up.addr), Record: log, Resolve: (&resolver{}).resolve, Dial: dialOnly(f, up.addr)})
	f.Fuzz(func(t *testing.T, request []byte) {
		before := up.connections()
		conn := dial(t, socket)
		_, _ = conn.Write(request)
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		for i := before; i < up.connections(); i++ {
			checkForwarded(t, up.text(i))
		}
	})
}

func checkForwarded(t *testing.T, text string) {
	t.Helper()
	head, _, whole := strings.Cut(text, "\r\n\r\n")
	if !whole || !strings.Contains(head, " HTTP/1.1\r\n") {
		return // a tunnel's bytes, or a request that was cut
	}
	lower := strings.ToLower(head)
	if n := strings.Count(lower, "\r\nhost:"); n != 1 || !strings.Contains(lower, "\r\nhost: plain.test") {
		t.Fatalf("LET THROUGH: %q", text)
	}
	if strings.Contains(lower, "\r\ncontent-length:") && strings.Contains(lower, "\r\ntransfer-encoding:") {
		t.Fatalf("LET THROUGH: two framings: %q", text)
	}
}
