package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// dialOnly dials the sink, whatever public address was checked, and fails the test for any other.
func dialOnly(t testing.TB, sink netip.AddrPort) func(context.Context, netip.AddrPort) (net.Conn, error) {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if to != sink && to.Addr() != netip.MustParseAddr("93.184.216.34") && to.Addr() != netip.MustParseAddr("2606:2800:220:1::1") {
			t.Errorf("LET THROUGH: dialled %s", to)
			return nil, errors.New("not the sink")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", sink.String())
	}
}

func TestNoRulesNoEgress(t *testing.T) {
	names := &resolver{}
	_, socket := start(t, egress.Options{Resolve: names.resolve})
	for _, request := range []string{
		"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
		"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
	} {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, request)
		if have := status(t, conn); have.code != 403 {
			t.Errorf("%q: have %+v", request, have)
		}
	}
	if names.count() != 0 {
		t.Errorf("unlisted hosts were resolved: %v", names.asked)
	}
}

// M-23: a denial says what was denied and how to ask.
func TestADenialSaysHowToAsk(t *testing.T) {
	p, socket := start(t, egress.Options{Rules: []nacre.EgressRule{rule("plain.test", 80, nacre.ProtocolHTTP, netip.AddrPort{})}})
	tests := map[string][]string{
		"CONNECT files.example.org:8443 HTTP/1.1\r\n\r\n":             {"files.example.org:8443", "not_listed", "--egress files.example.org:8443\n", "nacre exec"},
		"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n":         {"a.test:80", "--egress a.test:80/http\n"},
		"CONNECT plain.test:80 HTTP/1.1\r\n\r\n":                      {"protocol_not_listed", "--egress plain.test:80/tcp\n"},
		"CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n":                       {"this request", "ip_literal", "name a host"},
		"GET http://a.test/\x1b[31m HTTP/1.1\r\nHost: a.test\r\n\r\n": {"malformed_request"},
	}
	for request, want := range tests {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, request)
		body := status(t, conn).body
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%q: want %q in %q", request, text, body)
			}
		}
	}
	denied := p.Denials()
	if len(denied) != 3 || denied[0].Count != 1 {
		t.Errorf("denials: have %+v", denied)
	}
}

func TestRulesThatAreNotPlainAreRefused(t *testing.T) {
	bad := []nacre.EgressRule{
		{}, {Host: "a.test"}, {Port: 443}, {Host: "A.test", Port: 443}, {Host: "127.0.0.1", Port: 443}, {Host: "::1", Port: 443},
		{Host: "*", Port: 443}, {Host: "*.test", Port: 443}, {Host: "*.*.a.test", Port: 443}, {Host: "a.*.test", Port: 443},
		{Host: "a.test.", Port: 443}, {Host: "bücher.test", Port: 443}, {Host: "a.test", Port: 443, Protocol: 9},
		{Host: "a.test", Port: 443, Pin: netip.AddrPortFrom(netip.Addr{}, 80)}, {Host: "a.test", Port: 443, Pin: netip.AddrPortFrom(netip.MustParseAddr("1.2.3.4"), 0)},
		{Host: "a.test:443", Port: 443}, {Host: "a b.test", Port: 443},
		{Host: "*.co.uk", Port: 443}, {Host: "*.com.au", Port: 443}, {Host: "*.kawasaki.jp", Port: 443},
	}
	for _, r := range bad {
		if _, err := egress.New(egress.Options{Rules: []nacre.EgressRule{r}, Record: newLedger(), Now: time.Now}); err == nil {
			t.Errorf("rule %+v was accepted", r)
		}
	}
	if _, err := egress.New(egress.Options{Now: time.Now}); err == nil {
		t.Error("no recorder, and yet a proxy")
	}
}

func TestNoRecordNoEgress(t *testing.T) {
	up, log := newSink(t), newLedger()
	log.fail = true
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log})
	for _, c := range []corpusCase{
		{hello: "allowed.test", request: "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n"},
		{hello: "-", request: "CONNECT raw.test:22 HTTP/1.1\r\n\r\nx"},
		{hello: "-", request: "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n"},
	} {
		sendCase(t, dial(t, socket), c)
	}
	if n := up.connections(); n != 0 {
		t.Errorf("LET THROUGH: %d connections without a record", n)
	}
}

// M-23: bytes are counted both ways.
func TestBytesAreCounted(t *testing.T) {
	up, log := newSink(t), newLedger()
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "CONNECT raw.test:22 HTTP/1.1\r\n\r\n")
	r := bufio.NewReader(conn)
	_, _ = r.ReadString('\n')
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(conn, "twelve bytes")
	_, _ = r.ReadByte()
	_ = conn.CloseWrite()
	_, _ = io.Copy(io.Discard, r)
	closed := log.await(t, egress.OutcomeClosed, 1)[0]
	allowed := log.find(nacre.OutcomeAllowed)[0]
	d := detailOf(t, closed)
	if d.Sent != 12 || d.Received != int64(len(sinkAnswer)) || d.Host != "raw.test" || d.Port != 22 || !d.Pinned || d.Rule != "raw.test:22/tcp" {
		t.Errorf("have %+v", d)
	}
	if closed.Correlation != allowed.Correlation || closed.Reason != string(egress.ReasonDone) {
		t.Errorf("have %+v and %+v", allowed, closed)
	}
}

func TestOneRequestAConnectionAndNoHopByHopHeaders(t *testing.T) {
	up, log := newSink(t), newLedger()
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "GET http://Plain.test/a?b HTTP/1.1\r\nHost: PLAIN.test\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\n"+
		"Connection: keep-alive, X-Gone, Host\r\nX-Gone: 1\r\nUpgrade: websocket\r\nTE: trailers\r\nX-Kept: yes\r\n\r\n"+
		"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	have := status(t, conn)
	if have.code != 200 || have.body != "world" || !have.close || have.header.Get("Keep-Alive") != "" {
		t.Errorf("have %+v", have)
	}
	log.await(t, egress.OutcomeClosed, 1)
	want := "GET /a?b HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\nx-kept: yes\r\n\r\n"
	if have := up.text(0); have != want || up.connections() != 1 {
		t.Errorf("upstream got %q, want %q", have, want)
	}
}

func TestAChunkedBodyIsFramedAnew(t *testing.T) {
	up, log := newSink(t), newLedger()
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "POST http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: CHUNKED\r\n\r\n3\r\nhel\r\n0002\r\nlo\r\n0\r\n\r\n")
	if have := status(t, conn); have.code != 200 {
		t.Errorf("have %+v", have)
	}
	log.await(t, egress.OutcomeClosed, 1)
	if have := up.text(0); !strings.HasSuffix(have, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n") {
		t.Errorf("upstream got %q", have)
	}
}

func limits(change func(*egress.Limits)) egress.Limits {
	var l egress.Limits
	change(&l)
	return l
}

// M-21: limits on header size, time to first byte, idle, connections and bytes.
func TestLimits(t *testing.T) {
	silent := func(_ context.Context, _ netip.AddrPort) (net.Conn, error) {
		a, b := net.Pipe()
		t.Cleanup(func() { _ = b.Close() })
		go func() { _, _ = io.Copy(io.Discard, b) }()
		return a, nil
	}
	const brief = 50 * time.Millisecond
	tests := map[string]struct {
		limits  egress.Limits
		dial    func(context.Context, netip.AddrPort) (net.Conn, error)
		send    string
		hello   string
		outcome string
		reason  egress.Reason
	}{
		"a large head": {limits(func(l *egress.Limits) { l.Header = 200 }), nil, "GET http://plain.test/ HTTP/1.1\r\nX: " + strings.Repeat("x", 300) + "\r\n",
			"-", nacre.OutcomeDenied, egress.ReasonTooLarge},
		"a head without an end": {egress.Limits{}, nil, "GET http://plain.test/" + strings.Repeat("x", 20_000),
			"-", nacre.OutcomeDenied, egress.ReasonTooLarge},
		"too many headers": {egress.Limits{}, nil, "GET http://plain.test/ HTTP/1.1\r\n" + strings.Repeat("x:\r\n", 200) + "\r\n",
			"-", nacre.OutcomeDenied, egress.ReasonTooLarge},
		"a head that comes slowly": {limits(func(l *egress.Limits) { l.Request = brief }), nil, "GET http://plain", "-", nacre.OutcomeDenied, egress.ReasonTimeout},
		"no head at all":           {limits(func(l *egress.Limits) { l.Request = brief }), nil, "", "-", nacre.OutcomeDenied, egress.ReasonTimeout},
		"no hello": {limits(func(l *egress.Limits) { l.Request = brief }), nil, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n",
			"-", nacre.OutcomeDenied, egress.ReasonTimeout},
		"a hello that comes slowly": {limits(func(l *egress.Limits) { l.Request = brief }), nil, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n\x16\x03\x01",
			"-", nacre.OutcomeDenied, egress.ReasonTimeout},
		"an upstream that says nothing": {limits(func(l *egress.Limits) { l.FirstByte = brief }), silent, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n",
			"allowed.test", egress.OutcomeClosed, egress.ReasonTimeout},
		"an upstream that answers nothing": {limits(func(l *egress.Limits) { l.FirstByte = brief }), silent, "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
			"-", egress.OutcomeClosed, egress.ReasonUpstream},
		"silence on both sides": {limits(func(l *egress.Limits) { l.Idle = brief }), silent, "CONNECT raw.test:22 HTTP/1.1\r\n\r\nx",
			"-", egress.OutcomeClosed, egress.ReasonIdle},
		"more bytes than the session has": {limits(func(l *egress.Limits) { l.Bytes = 10 }), silent, "CONNECT raw.test:22 HTTP/1.1\r\n\r\n" + strings.Repeat("x", 20),
			"-", egress.OutcomeClosed, egress.ReasonBytes},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log := newLedger()
			_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Record: log, Dial: test.dial, Limits: test.limits})
			conn := dial(t, socket)
			_, _ = io.WriteString(conn, test.send)
			if test.hello != "-" {
				_, _ = conn.Write(corpusHello(test.hello))
			}
			if have := log.await(t, test.outcome, 1)[0]; have.Reason != string(test.reason) {
				t.Errorf("have %q, want %q", have.Reason, test.reason)
			}
			_, _ = io.Copy(io.Discard, conn) // ends: the proxy closes
		})
	}
}

func TestBytesHoldForTheWholeSession(t *testing.T) {
	up, log := newSink(t), newLedger()
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log, Limits: egress.Limits{Bytes: 100}})
	for range 3 {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}
	if have := log.await(t, nacre.OutcomeDenied, 1)[0]; have.Reason != string(egress.ReasonBytes) {
		t.Errorf("have %+v", have)
	}
}

// A client that dribbles its head holds a slot for no longer than its limit,
// and others are served meanwhile.
func TestSlowClientsDoNotBlockOthers(t *testing.T) {
	up, log := newSink(t), newLedger()
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log, Limits: egress.Limits{Connections: 200}})
	for range 150 {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "GET http://pl")
	}
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	if have := status(t, conn); have.code != 200 {
		t.Errorf("have %+v", have)
	}
}

func TestTooManyConnectionsAreRefusedAndThenServed(t *testing.T) {
	up, log := newSink(t), newLedger()
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log, Limits: egress.Limits{Connections: 1}})
	held := dial(t, socket)
	_, _ = io.WriteString(held, "CONNECT raw.test:22 HTTP/1.1\r\n\r\n")
	if _, err := bufio.NewReader(held).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	second := dial(t, socket)
	if have := status(t, second); have.code != 503 || !strings.Contains(have.body, string(egress.ReasonBusy)) {
		t.Errorf("have %+v", have)
	}
	_ = held.Close()
	log.await(t, egress.OutcomeClosed, 1)
}

func TestASandboxCannotFillTheLogWithConnections(t *testing.T) {
	log := newLedger()
	_, socket := start(t, egress.Options{Record: log, Limits: egress.Limits{Total: 3}})
	for range 10 {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "CONNECT a.test:443 HTTP/1.1\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}
	have := log.find(nacre.OutcomeDenied)
	if len(have) != 4 || have[3].Reason != string(egress.ReasonSpent) {
		t.Errorf("have %+v", have)
	}
}

func TestStoppingEndsEveryConnection(t *testing.T) {
	up, log := newSink(t), newLedger()
	p, err := egress.New(egress.Options{Rules: corpusRules(up.addr), Record: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l) }()
	for range 20 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "CONNECT raw.test:22 HTTP/1.1\r\n\r\n")
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	log.await(t, nacre.OutcomeAllowed, 20)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if have := log.find(egress.OutcomeClosed); len(have) != 20 {
		t.Errorf("%d of 20 connections are accounted for", len(have))
	}
}

// A server may ask for a second hello; it must name the same host.
func TestASecondHelloMustNameTheSameHost(t *testing.T) {
	ccs := []byte{20, 3, 3, 0, 1, 1}
	tests := map[string]struct {
		then []byte
		want egress.Reason
	}{
		"another host":                           {hello("evil.test", nil), egress.ReasonSNIMismatch},
		"another host after a change of cipher":  {append(ccs[:6:6], hello("evil.test", nil)...), egress.ReasonSNIMismatch},
		"another host, spread over records":      {fragmented(hello("evil.test", nil), 2), egress.ReasonSNIMismatch},
		"an encrypted one":                       {hello("allowed.test", func(e []byte) []byte { return append(e, extension(0xfe0d, nil)...) }), egress.ReasonECH},
		"an empty record first":                  {append([]byte{22, 3, 3, 0, 0}, hello("evil.test", nil)...), egress.ReasonNotTLS},
		"the same host":                          {hello("allowed.test", nil), egress.ReasonDone},
		"the same host after a change of cipher": {append(ccs[:6:6], hello("allowed.test", nil)...), egress.ReasonDone},
		"the handshake goes on":                  {[]byte{22, 3, 3, 0, 1, 16}, egress.ReasonDone},
		"data":                                   {[]byte{23, 3, 3, 0, 1, 9}, egress.ReasonDone},
		"an alert":                               {[]byte{21, 3, 3, 0, 2, 2, 40}, egress.ReasonDone},
		"nothing":                                {nil, egress.ReasonDone},
		"less than a record":                     {[]byte{22, 3}, egress.ReasonDone},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			up, log := newSink(t), newLedger()
			_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log})
			conn := dial(t, socket)
			_, _ = io.WriteString(conn, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")
			first := hello("allowed.test", nil)
			_, _ = conn.Write(append(first, test.then...))
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			have := log.await(t, egress.OutcomeClosed, 1)[0]
			if have.Reason != string(test.want) {
				t.Errorf("have %q, want %q", have.Reason, test.want)
			}
			if test.want == egress.ReasonDone && up.text(0) != string(first)+string(test.then) {
				t.Error("the upstream got something else than was sent")
			}
			if strings.Contains(up.text(0), "evil.test") {
				t.Error("LET THROUGH: a hello for another host")
			}
		})
	}
}

// throughProxy is a client of the proxy that trusts the server.
func throughProxy(socket string, srv *httptest.Server) *http.Client {
	transport := srv.Client().Transport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.test:3128"})
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &http.Client{Transport: transport}
}

func pinOf(t testing.TB, srv *httptest.Server) netip.AddrPort {
	t.Helper()
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddrPort(u.Host)
}

func TestARealTLSClientWorks(t *testing.T) {
	big := bytes.Repeat([]byte("nacre "), 500_000)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	log := newLedger()
	_, socket := start(t, egress.Options{Rules: []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv))}, Record: log})
	client := throughProxy(socket, srv)
	defer client.CloseIdleConnections()
	resp, err := client.Post("https://example.com/", "text/plain", bytes.NewReader(big))
	if err != nil {
		t.Fatal(err)
	}
	have, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if !bytes.Equal(have, big) {
		t.Errorf("have %d bytes back, want %d", len(have), len(big))
	}
	if resp, err := client.Get("https://other.test/"); err == nil {
		_ = resp.Body.Close()
		t.Error("another host was reached")
	} else if !strings.Contains(err.Error(), "Denied by nacre") {
		t.Errorf("the client says only: %v", err)
	}
}

// A server that wants another key share makes a real client send a second hello.
func TestAHelloRetryWorks(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	srv.TLS = &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP521}}
	srv.StartTLS()
	defer srv.Close()
	_, socket := start(t, egress.Options{Rules: []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv))}})
	client := throughProxy(socket, srv)
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func TestAnUnreachableHostIsSaidSo(t *testing.T) {
	log := newLedger()
	refuse := func(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errors.New("connection refused") }
	_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Record: log, Dial: refuse})
	for _, request := range []string{
		"GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "CONNECT raw.test:22 HTTP/1.1\r\n\r\n",
	} {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, request)
		if have := status(t, conn); have.code != 502 || !strings.Contains(have.body, string(egress.ReasonDial)) {
			t.Errorf("have %+v", have)
		}
	}
	for _, r := range log.await(t, egress.OutcomeClosed, 2) {
		if r.Reason != string(egress.ReasonDial) {
			t.Errorf("have %+v", r)
		}
	}
}

func TestAnUpstreamThatTalksNonsenseIsRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"nonsense":             "SSH-2.0-x\r\n",
		"a change of protocol": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"only interim answers": strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20),
		"a head without end":   "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20),
	} {
		serve := func(context.Context, netip.AddrPort) (net.Conn, error) {
			a, b := net.Pipe()
			go func() {
				go func() { _, _ = io.Copy(io.Discard, b) }()
				_, _ = io.WriteString(b, answer)
				_ = b.Close()
			}()
			return a, nil
		}
		_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Dial: serve})
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n")
		if have := status(t, conn); have.code != 502 {
			t.Errorf("%s: have %+v", name, have)
		}
	}
}

// M-24: a real client, as tools use it.
func TestCurlWorks(t *testing.T) {
	curl := testpeer.Need(t, "curl")
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer plain.Close()
	secure := httptest.NewTLSServer(plain.Config.Handler)
	defer secure.Close()
	_, socket := start(t, egress.Options{Rules: []nacre.EgressRule{
		rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, secure)), rule("plain.test", 80, nacre.ProtocolHTTP, pinOf(t, plain)),
	}})
	proxy := forwarder(t, socket)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"tls":                  {[]string{"-k", "-d", "hello", "https://example.com/"}, "hello"},
		"plain":                {[]string{"-d", "hello", "http://plain.test/"}, "hello"},
		"chunked":              {[]string{"-H", "Transfer-Encoding: chunked", "-d", "hello", "http://plain.test/"}, "hello"},
		"a body that waits":    {[]string{"-H", "Expect: 100-continue", "-d", "hello", "http://plain.test/"}, "hello"},
		"a denial in its body": {[]string{"http://evil.test/"}, "--egress evil.test:80/http"},
		"another host":         {[]string{"-k", "-S", "https://evil.test/"}, "403"},
	} {
		out, _ := exec.CommandContext(t.Context(), curl, append([]string{"-q", "-s", "-m", "20", "-x", proxy}, test.args...)...).CombinedOutput()
		if !strings.Contains(string(out), test.want) {
			t.Errorf("%s: want %q, have %q", name, test.want, out)
		}
	}
}

// forwarder leads a loopback port to the socket, as the sandbox's does.
func forwarder(t testing.TB, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
			if err != nil {
				_ = in.Close()
				continue
			}
			all.Go(func() { _, _ = io.Copy(out, in); _ = out.CloseWrite() })
			all.Go(func() { _, _ = io.Copy(in, out); _ = in.Close(); _ = out.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return "http://" + l.Addr().String()
}
