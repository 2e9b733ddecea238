package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// company is a proxy as companies have them, with its address.
type company struct {
	*testpeer.Proxy
	address string
	roots   *x509.CertPool
}

func newCompany(t *testing.T, network, at string, to netip.AddrPort, want string, secured bool) *company {
	t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		t.Skip(err) // a machine without IPv6
	}
	c := &company{Proxy: &testpeer.Proxy{To: to.String(), Want: want}, address: l.Addr().String()}
	server := httptest.NewUnstartedServer(c)
	_ = server.Listener.Close()
	server.Listener, server.Config.ErrorLog = l, log.New(io.Discard, "", 0)
	if secured {
		server.StartTLS()
		c.roots = x509.NewCertPool()
		c.roots.AddCert(server.Certificate())
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return c
}

func (c *company) upstream(t *testing.T, change func(*egress.UpstreamOptions)) *egress.Upstream {
	t.Helper()
	scheme := "http://"
	if c.roots != nil {
		scheme = "https://"
	}
	o := egress.UpstreamOptions{Tunnels: scheme + c.address, Plain: scheme + c.address, Roots: c.roots}
	if change != nil {
		change(&o)
	}
	u, err := egress.NewUpstream(o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// neverDirect fails a test where a host is looked up or dialled without the proxy.
func neverDirect(t *testing.T, o egress.Options) egress.Options {
	o.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		t.Errorf("%s was looked up", host)
		return nil, net.ErrClosed
	}
	o.Dial = func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		t.Errorf("%s was dialled", to)
		return nil, net.ErrClosed
	}
	return o
}

// U-07: through a company's proxy hosts are reached by their names, and by no other way. The proxy
// has a password or none, is in the clear, over TLS of a private authority, or over IPv6.
func TestHostsAreReachedThroughTheProxyOfACompany(t *testing.T) {
	secret := func(context.Context) (nacre.Secret, error) { return nacre.NewSecret("p4ss word"), nil }
	for name, c := range map[string]struct {
		network, at, want string
		secured           bool
		change            func(*egress.UpstreamOptions)
	}{
		"open":            {"tcp4", "127.0.0.1:0", "", false, nil},
		"with a password": {"tcp4", "127.0.0.1:0", "ada:p4ss word", false, func(o *egress.UpstreamOptions) { o.User, o.Password = "ada", secret }},
		"password in URL": {"tcp4", "127.0.0.1:0", "ada:p4ss", false, func(o *egress.UpstreamOptions) {
			o.Tunnels = strings.Replace(o.Tunnels, "//", "//ada:p4ss@", 1)
			o.Plain = o.Tunnels
		}},
		"private authority": {"tcp4", "127.0.0.1:0", "", true, nil},
		"IPv6":              {"tcp6", "[::1]:0", "", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink, records := newSink(t), newLedger()
			proxy := newCompany(t, c.network, c.at, sink.addr, c.want, c.secured)
			_, socket := start(t, neverDirect(t, egress.Options{
				Rules:  []nacre.EgressRule{rule("page.example", 80, nacre.ProtocolHTTP, netip.AddrPort{}), rule("db.example", 5432, nacre.ProtocolTCP, netip.AddrPort{}), rule("page.example", 443, nacre.ProtocolTLS, netip.AddrPort{})},
				Record: records, Upstream: proxy.upstream(t, c.change),
			}))
			if code, text := get(t, socket, "http://page.example/a?b"); code != 200 {
				t.Errorf("plain: %d %s", code, text)
			}
			for _, request := range []string{"CONNECT db.example:5432 HTTP/1.1\r\n\r\nhello", "CONNECT page.example:443 HTTP/1.1\r\n\r\n" + string(hello("page.example", nil))} {
				conn := dial(t, socket)
				_, _ = io.WriteString(conn, request)
				r := bufio.NewReader(conn)
				answer, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
				if err != nil || answer.StatusCode != 200 {
					t.Fatalf("have %+v, %v", answer, err)
				}
				_ = answer.Body.Close()
				text := make([]byte, len("HTTP/1.1 200"))
				if _, err := io.ReadFull(r, text); err != nil || string(text) != "HTTP/1.1 200" {
					t.Errorf("through the tunnel: %q, %v", text, err)
				}
				_ = conn.Close()
			}
			for _, part := range []string{"GET http://page.example/a?b", "CONNECT db.example:5432", "CONNECT page.example:443"} {
				if !strings.Contains(proxy.Log(), part) {
					t.Errorf("the proxy was not asked %q: %s", part, proxy.Log())
				}
			}
			for _, r := range records.await(t, egress.OutcomeClosed, 3) {
				if d := detailOf(t, r); d.Address != proxy.address || strings.Contains(string(r.Detail), "p4ss") {
					t.Errorf("have %s", r.Detail)
				}
			}
		})
	}
}

// taken is an address of this machine on which nothing listens, and nothing can: its
// port is bound.
func taken(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
}

// U-07: where the proxy does not let a host be reached, it is not reached, the client is
// told so, and nothing is tried without the proxy.
func TestNothingFallsBackToDirect(t *testing.T) {
	gone := taken(t)
	for name, c := range map[string]struct {
		want, host string
		secured    bool
		change     func(*egress.UpstreamOptions)
		says       string
	}{
		"it wants a password":   {"ada:x", "page.example", false, nil, "wants other credentials"},
		"it forbids the host":   {"", "forbidden.example", false, nil, "it answered 403"},
		"it is gone":            {"", "page.example", false, func(o *egress.UpstreamOptions) { o.Tunnels = "http://" + gone }, "could not be reached"},
		"nobody vouches for it": {"", "page.example", true, func(o *egress.UpstreamOptions) { o.Roots = x509.NewCertPool() }, "is not trusted"},
		"no password can be read": {"ada:x", "page.example", false, func(o *egress.UpstreamOptions) {
			o.User, o.Password = "ada", func(context.Context) (nacre.Secret, error) { return nacre.Secret{}, io.EOF }
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink, records := newSink(t), newLedger()
			proxy := newCompany(t, "tcp4", "127.0.0.1:0", sink.addr, c.want, c.secured)
			_, socket := start(t, neverDirect(t, egress.Options{
				Rules: []nacre.EgressRule{rule(c.host, 5432, nacre.ProtocolTCP, netip.AddrPort{})}, Record: records, Upstream: proxy.upstream(t, c.change),
			}))
			conn := dial(t, socket)
			_, _ = fmt.Fprintf(conn, "CONNECT %s:5432 HTTP/1.1\r\n\r\n", c.host)
			have := status(t, conn)
			if have.code != 502 || have.header.Get("X-Nacre-Reason") != string(egress.ReasonUpstreamProxy) || !strings.Contains(have.body, c.says) {
				t.Errorf("have %d %v: %s", have.code, have.header, have.body)
			}
			if n := sink.connections(); n != 0 {
				t.Errorf("%d connections", n)
			}
			if closed := records.await(t, egress.OutcomeClosed, 1)[0]; closed.Reason != string(egress.ReasonUpstreamProxy) {
				t.Errorf("it ended for %q", closed.Reason)
			}
		})
	}
}

// U-07: a host that is excepted is resolved, checked and dialled here, and a pinned one is
// dialled by its pin.
func TestWhatIsExceptedIsCheckedAndDialledHere(t *testing.T) {
	sink := newSink(t)
	proxy := newCompany(t, "tcp4", "127.0.0.1:0", sink.addr, "", false)
	asked := &resolver{table: map[string][]netip.Addr{"in.corp.example": {netip.MustParseAddr("10.1.2.3")}}}
	_, socket := start(t, egress.Options{
		Rules: []nacre.EgressRule{
			rule("in.corp.example", 80, nacre.ProtocolHTTP, netip.AddrPort{}), rule("pinned.example", 80, nacre.ProtocolHTTP, sink.addr),
		},
		Resolve: asked.resolve, Upstream: proxy.upstream(t, func(o *egress.UpstreamOptions) { o.Except = ".corp.example,10.0.0.0/8" }),
	})
	if code, text := get(t, socket, "http://in.corp.example/"); code != 403 || !strings.Contains(text, "address_refused") || asked.count() != 1 {
		t.Errorf("excepted: %d %s", code, text)
	}
	if code, _ := get(t, socket, "http://pinned.example/"); code != 200 {
		t.Errorf("pinned: %d", code)
	}
	if proxy.Log() != "" {
		t.Errorf("the proxy was asked %s", proxy.Log())
	}
}

// U-07: what nacre itself dials goes the same way, and a URL that is none is told without
// what it holds.
func TestTheHostsOwnTransportUsesTheProxy(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the model") }))
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	proxy := newCompany(t, "tcp4", "127.0.0.1:0", netip.MustParseAddrPort(secure.Listener.Addr().String()), "", false)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "example.com"}, DisableKeepAlives: true,
		DialContext: proxy.upstream(t, nil).Dial(func(_ context.Context, _, address string) (net.Conn, error) {
			t.Errorf("%s was dialled", address)
			return nil, net.ErrClosed
		}),
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.vendor.example/v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, _ := io.ReadAll(answer.Body); string(text) != "the model" || proxy.Log() != "CONNECT api.vendor.example:443" {
		t.Errorf("have %s through %s", text, proxy.Log())
	}
	for _, url := range []string{"socks5://ada:p4ss@proxy.example:1080", "http://", "http://ada:p4ss@proxy.example/path", "http://ada:p4ss@%zz"} {
		if _, err := egress.NewUpstream(egress.UpstreamOptions{Tunnels: url}); err == nil || strings.Contains(err.Error(), "p4ss") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
