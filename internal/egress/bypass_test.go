package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// spellings are ways to write a host that must not be taken for it, nor for any other.
func spellings(host string) []string {
	var all []string
	for i := range host {
		for c := range 256 {
			b := byte(c)
			plain := 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.'
			if !plain && b != '\r' && b != '\n' {
				all = append(all, host[:i]+string([]byte{b})+host[i:])
			}
		}
		all = append(all, host[:i]+host[i+1:], host[:i]+string(host[i])+host[i:], host[:i]+fmt.Sprintf("%%%02x", host[i])+host[i+1:],
			host[:i]+string(rune(host[i])+0xfee0)+host[i+1:], host[:i]+"."+host[i:], host[:i]+"-"+host[i:], host[:i]+"x"+host[i+1:])
	}
	for _, around := range []string{
		"x%s", "%sx", "x.%s", "%s.x", "x-%s", "%s-x", ".%s", "%s.", "%s..", "*.%s", "@%s", "x@%s", "x:y@%s", "%s@x", "//%s", "http://%s", "[%s]", "%s\x00", "%s%%00",
		"%s%%20", " %s", "%s ", "%s,x", "%s;x", "%s#x", "%s?x", "%s/x", "%s\\x", "%s:443:443", "xn--%s", "%s.1", "%s.0x1",
	} {
		all = append(all, fmt.Sprintf(around, host))
	}
	return all
}

// M-21: one spelling a host. Whatever else is written is refused, and not resolved.
func TestEveryOtherSpellingIsRefused(t *testing.T) {
	up, log, names := newSink(t), newLedger(), &resolver{}
	_, socket := start(t, egress.Options{Rules: corpusRules(up.addr), Record: log, Resolve: names.resolve, Dial: dialOnly(t, up.addr)})
	tried := 0
	for _, spelling := range spellings("plain.test") {
		for _, request := range []string{
			"CONNECT " + strings.ReplaceAll(spelling, "plain", "allowed") + ":443 HTTP/1.1\r\n\r\n",
			"GET http://" + spelling + " HTTP/1.1\r\nHost: plain.test\r\n\r\n",
			"GET http://plain.test/ HTTP/1.1\r\nHost: " + spelling + "\r\n\r\n",
		} {
			if legitimate(spelling, request) {
				continue
			}
			tried++
			conn := dial(t, socket)
			_, _ = io.WriteString(conn, request)
			_, _ = conn.Write(hello("allowed.test", nil))
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
			if n := up.connections(); n != 0 {
				t.Fatalf("LET THROUGH: %q: %q", request, up.text(0))
			}
		}
	}
	if denied := len(log.find(nacre.OutcomeDenied)); denied != tried {
		t.Errorf("%d refusals of %d are recorded", denied, tried)
	}
	if names.count() != 0 {
		t.Errorf("resolved: %q", names.asked)
	}
	t.Logf("%d spellings refused", tried)
}

// legitimate spots the few spellings that mean the same: a path or query after
// the host of a URL, and white space around a header's value.
func legitimate(spelling, request string) bool {
	switch {
	case strings.HasPrefix(request, "CONNECT "):
		return false
	case strings.HasPrefix(request, "GET http://plain.test/ "):
		return strings.Trim(spelling, " \t") == "plain.test"
	}
	return spelling == "plain.test/x" || spelling == "plain.test?x"
}

// M-21: a hello with one byte changed passes only if a server reads the same name in it.
func TestAHelloWithAByteChangedNamesTheSameHost(t *testing.T) {
	passed := 0
	for _, whole := range [][]byte{hello("allowed.test", nil), corpusHello("go12"), corpusHello("goh2"), fragmented(hello("allowed.test", nil), 7)} {
		for i := range whole {
			for _, b := range []byte{0, 1, 0xff, whole[i] ^ 0x20, whole[i] + 1, whole[i] - 1} {
				changed := edit(whole, i, b)
				raw, err := egress.ReadHello(bytes.NewReader(changed), "allowed.test")
				if err != nil {
					continue
				}
				passed++
				if name, ok := standardName(raw); ok && !strings.EqualFold(name, "allowed.test") {
					t.Fatalf("LET THROUGH: byte %d as %#x: the server reads %q", i, b, name)
				}
			}
		}
	}
	if passed == 0 {
		t.Error("no hello passed")
	}
}

// embedded are the ways to carry an IPv4 address in an IPv6 one that lead to it.
func embedded(four netip.Addr) []netip.Addr {
	a := four.As4()
	v6 := func(at int, prefix ...byte) netip.Addr {
		var b [16]byte
		copy(b[:], prefix)
		copy(b[at:], a[:])
		return netip.AddrFrom16(b)
	}
	return []netip.Addr{
		v6(12), v6(12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), v6(12, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), // compatible, mapped, translated
		v6(12, 0, 0x64, 0xff, 0x9b), v6(12, 0, 0x64, 0xff, 0x9b, 0, 1), v6(2, 0x20, 0x02), v6(4, 0x20, 0x01), // NAT64, 6to4, Teredo
	}
}

// M-21: no address that leads inside is dialled, however it is written, and one among many refuses all.
func TestNoAddressInsideIsDialled(t *testing.T) {
	public := netip.MustParseAddr("93.184.216.34")
	var inside []netip.Addr
	for _, block := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0", "127.255.255.255", "169.254.0.0",
		"169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255",
		"224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255", "168.63.129.16", "100.100.100.200",
	} {
		four := netip.MustParseAddr(block)
		inside = append(append(inside, four), embedded(four)...)
	}
	inside = append(inside, embedded(public)...) // even of a public one: who translates is not known
	for _, six := range []string{"::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::", "fdff:ffff::1", "ff00::1", "ff02::1", "100::1", "1fff::1", "4000::1", "5f00::1", "8000::1", "2001:db8::1", "3fff::1", "2606:2800:220:1::1%lo"} {
		inside = append(inside, netip.MustParseAddr(six))
	}
	var answer []netip.Addr
	log := newLedger()
	var dialled []netip.AddrPort
	_, socket := start(t, egress.Options{
		Rules: []nacre.EgressRule{rule("a.test", 80, nacre.ProtocolHTTP, netip.AddrPort{})}, Record: log,
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return answer, nil },
		Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
			dialled = append(dialled, to)
			return nil, errors.New("refused")
		},
	})
	get := func() answerText {
		conn := dial(t, socket)
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
		have := status(t, conn)
		return answerText{have.code, have.body}
	}
	for _, a := range inside {
		for _, answer = range [][]netip.Addr{{a}, {public, a}, {a, public}, {public, public, public, public, public, a}} {
			if have := get(); have.code != 403 || len(dialled) != 0 || strings.Contains(have.body, a.String()) {
				t.Fatalf("LET THROUGH: %v: %+v, dialled %v", answer, have, dialled)
			}
		}
	}
	denied := log.find(nacre.OutcomeDenied)
	if last := detailOf(t, denied[len(denied)-1]); last.Address != inside[len(inside)-1].String() {
		t.Errorf("the record does not say which address was refused: %+v", last)
	}
	answer = []netip.Addr{public, netip.MustParseAddr("2606:2800:220:1::1")}
	if have := get(); have.code != 502 || len(dialled) != 2 {
		t.Errorf("public addresses: %+v, dialled %v", have, dialled)
	}
}

type answerText struct {
	code int
	body string
}

// M-21: a name that changes its mind is resolved once a connection, and what was checked is what is dialled.
func TestARebindingNameIsDialledWhereItWasChecked(t *testing.T) {
	up, log := newSink(t), newLedger()
	public, inside := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1")
	var mu sync.Mutex
	asked := 0
	_, socket := start(t, egress.Options{
		Rules: []nacre.EgressRule{rule("rebind.test", 80, nacre.ProtocolHTTP, netip.AddrPort{})}, Record: log, Dial: dialOnly(t, up.addr),
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return []netip.Addr{[]netip.Addr{inside, public}[asked%2]}, nil
		},
	})
	codes := map[int]int{}
	for range 10 {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "GET http://rebind.test/ HTTP/1.1\r\nHost: rebind.test\r\n\r\n")
		codes[status(t, conn).code]++
	}
	if asked != 10 || codes[200] != 5 || codes[403] != 5 {
		t.Errorf("resolved %d times, %v", asked, codes)
	}
}

// serving is a dialer whose upstream is a function over one end of a socket.
func serving(t *testing.T, serve func(net.Conn)) func(context.Context, netip.AddrPort) (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
		all.Go(func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			serve(c)
			_ = c.Close()
		})
		var d net.Dialer
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}
}

// serverHello begins a server's first flight; retry asks for a second hello.
func serverHello(retry bool) []byte {
	random := bytes.Repeat([]byte{9}, 32)
	if retry {
		random = []byte("\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c")
	}
	body := append(append([]byte{3, 3}, random...), 0, 0x13, 1, 0)
	return record(append([]byte{2, 0, 0, byte(len(body))}, body...))
}

// What follows the first hello is looked at for as long as a server may take a
// second one, and not longer: encrypted bytes look like anything.
func TestTheGuardOfTheHello(t *testing.T) {
	ccs, warning := []byte{20, 3, 3, 0, 1, 1}, []byte{21, 3, 3, 0, 2, 1, 112}
	finished := append([]byte{22, 3, 3, 0, 40, 1}, bytes.Repeat([]byte{0xee}, 39)...)
	tests := map[string]struct {
		server, then []byte
		want         egress.Reason
	}{
		"a session is resumed, and its first encrypted byte looks like a hello": {serverHello(false), append(ccs[:6:6], finished...), egress.ReasonDone},
		"the same after a warning of the server":                                {append(warning[:7:7], serverHello(false)...), append(ccs[:6:6], finished...), egress.ReasonDone},
		"the server asks again, and the name is the same":                       {serverHello(true), append(ccs[:6:6], hello("allowed.test", nil)...), egress.ReasonDone},
		"the server asks again, and the name is another":                        {serverHello(true), append(ccs[:6:6], hello("evil.test", nil)...), egress.ReasonSNIMismatch},
		"the same after a warning":                                              {serverHello(true), append(warning[:7:7], hello("evil.test", nil)...), egress.ReasonSNIMismatch},
		"the same after many changes of cipher":                                 {serverHello(true), append(bytes.Repeat(ccs, 50), hello("evil.test", nil)...), egress.ReasonSNIMismatch},
		"the same after the server's warning":                                   {append(warning[:7:7], serverHello(true)...), hello("evil.test", nil), egress.ReasonSNIMismatch},
		"the server's request comes in small records":                           {fragmented(serverHello(true), 1), hello("evil.test", nil), egress.ReasonSNIMismatch},
		"an old hello":     {serverHello(true), edit(hello("evil.test", nil), 9, 4), egress.ReasonNotTLS},
		"a heartbeat":      {serverHello(true), append([]byte{24, 3, 3, 0, 3, 1, 0, 0}, hello("evil.test", nil)...), egress.ReasonNotTLS},
		"a hello of SSL 2": {serverHello(true), append([]byte{0x80, 46, 1, 3, 1}, make([]byte, 43)...), egress.ReasonNotTLS},
		"a silent server":  {nil, append(ccs[:6:6], hello("evil.test", nil)...), egress.ReasonSNIMismatch},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			log := newLedger()
			var got bytes.Buffer
			first := hello("allowed.test", nil)
			served := make(chan struct{})
			dialer := serving(t, func(c net.Conn) {
				defer close(served)
				_, _ = io.CopyN(&got, c, int64(len(first)))
				_, _ = c.Write(test.server)
				_, _ = io.Copy(&got, c)
			})
			_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Record: log, Dial: dialer})
			conn := dial(t, socket)
			_, _ = io.WriteString(conn, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")
			_, _ = conn.Write(first)
			_, _ = io.CopyN(io.Discard, conn, int64(len("HTTP/1.1 200 Connection established\r\n\r\n")+len(test.server)))
			_, _ = conn.Write(test.then)
			_ = conn.CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			<-served
			if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(test.want) {
				t.Errorf("have %q, want %q", have.Reason, test.want)
			}
			if test.want == egress.ReasonDone && got.String() != string(first)+string(test.then) {
				t.Error("the upstream got something else than was sent")
			}
			if bytes.Contains(got.Bytes(), []byte("evil.test")) {
				t.Error("LET THROUGH: a hello for another host")
			}
		})
	}
}

// Sessions are resumed as often as a client likes. Chacha's records begin with
// encrypted bytes: one in 256 looks like a hello.
func TestResumedSessionsWork(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer srv.Close()
	_, socket := start(t, egress.Options{Rules: []nacre.EgressRule{rule("example.com", 443, nacre.ProtocolTLS, pinOf(t, srv))}, Limits: egress.Limits{Total: 10_000}})
	client := throughProxy(socket, srv)
	transport := client.Transport.(*http.Transport)
	transport.DisableKeepAlives, transport.ForceAttemptHTTP2 = true, false
	transport.TLSClientConfig.MaxVersion, transport.TLSClientConfig.ClientSessionCache = tls.VersionTLS12, tls.NewLRUClientSessionCache(1)
	transport.TLSClientConfig.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}
	resumed := 0
	for range 600 {
		resp, err := client.Get("https://example.com/")
		if err != nil {
			t.Fatal(err)
		}
		if resp.TLS.DidResume {
			resumed++
		}
		_ = resp.Body.Close()
	}
	if resumed < 500 {
		t.Errorf("only %d sessions were resumed", resumed)
	}
}

// An upstream that answers before it has the whole request, and takes no more of it, is heard.
func TestAnEarlyAnswerReachesTheClient(t *testing.T) {
	const refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull"
	dialer := serving(t, func(c net.Conn) {
		_, _ = io.CopyN(io.Discard, c, 1000)
		_, _ = io.WriteString(c, refusal)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.CopyN(io.Discard, c, 1<<20)
	})
	log := newLedger()
	_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Record: log, Dial: dialer})
	for range 20 {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "PUT http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 100000000\r\n\r\n")
		sent := make(chan struct{})
		go func() { defer close(sent); _, _ = conn.Write(make([]byte, 8<<20)) }()
		if have := status(t, conn); have.code != 413 || have.body != "full" {
			t.Fatalf("have %+v", have)
		}
		_ = conn.Close()
		<-sent
	}
	for _, r := range log.await(t, egress.OutcomeClosed, 20) {
		if r.Reason != string(egress.ReasonDone) {
			t.Errorf("have %q", r.Reason)
		}
	}
}

// A client that is still sending hears that the upstream talks nonsense.
func TestNonsenseDuringAnUploadIsSaidSo(t *testing.T) {
	dialer := serving(t, func(c net.Conn) {
		_, _ = io.CopyN(io.Discard, c, 1000)
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.CopyN(io.Discard, c, 1<<20)
	})
	_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Dial: dialer})
	for range 20 {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "PUT http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 100000000\r\n\r\n")
		sent := make(chan struct{})
		go func() { defer close(sent); _, _ = conn.Write(make([]byte, 8<<20)) }()
		if have := status(t, conn); have.code != 502 {
			t.Fatalf("have %+v", have)
		}
		_ = conn.Close()
		<-sent
	}
}

// A body that goes wrong later on ends the request, and the record says why.
func TestABodyThatGoesWrongOnItsWay(t *testing.T) {
	for name, test := range map[string]struct {
		then   string
		limits egress.Limits
		want   egress.Reason
		code   int
	}{
		"a malformed chunk":           {"XX\r\n", egress.Limits{}, egress.ReasonMalformed, 400},
		"the client goes":             {"", egress.Limits{}, egress.ReasonReset, 403},
		"the client falls silent":     {"wait", egress.Limits{Idle: 50 * time.Millisecond}, egress.ReasonIdle, 408},
		"the session's bytes run out": {"400\r\n" + strings.Repeat("x", 1024), egress.Limits{Bytes: 1000}, egress.ReasonBytes, 403},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			served := make(chan struct{})
			dialer := serving(t, func(c net.Conn) { defer close(served); _, _ = io.Copy(&got, c) })
			log := newLedger()
			_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Record: log, Dial: dialer, Limits: test.limits})
			conn := dial(t, socket)
			_, _ = io.WriteString(conn, "POST http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
			log.await(t, nacre.OutcomeAllowed, 1)
			if test.then != "wait" {
				_, _ = io.WriteString(conn, test.then)
				_ = conn.CloseWrite()
			}
			if have := status(t, conn); have.code != test.code {
				t.Errorf("have %+v", have)
			}
			<-served
			if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(test.want) {
				t.Errorf("have %q, want %q", have.Reason, test.want)
			}
			if strings.HasSuffix(got.String(), "0\r\n\r\n") {
				t.Errorf("LET THROUGH: a request that was cut looks whole: %q", got.String())
			}
		})
	}
}

// A chunked body need not be whole before its beginning leaves.
func TestAChunkedBodyIsSentAsItComes(t *testing.T) {
	arrived := make(chan string, 1)
	dialer := serving(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		first := make([]byte, 5)
		_, _ = io.ReadFull(request.Body, first)
		arrived <- string(first)
		rest, _ := io.ReadAll(request.Body)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(rest), rest)
	})
	_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Dial: dialer})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "POST http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
	select {
	case have := <-arrived:
		if have != "first" {
			t.Errorf("have %q", have)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the beginning waits for the end")
	}
	_, _ = io.WriteString(conn, "4\r\nlast\r\n0\r\n\r\n")
	if have := status(t, conn); have.body != "last" {
		t.Errorf("have %+v", have)
	}
}

// M-23: the closing record names the address that was reached, not the first that was tried.
func TestTheRecordNamesTheAddressThatWasReached(t *testing.T) {
	up, log := newSink(t), newLedger()
	second := netip.MustParseAddr("2606:2800:220:1::1")
	_, socket := start(t, egress.Options{
		Rules: corpusRules(up.addr), Record: log, Resolve: (&resolver{table: addressTable()}).resolve,
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.Addr() != second {
				return nil, errors.New("unreachable")
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", up.addr.String())
		},
	})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "GET http://public.test/ HTTP/1.1\r\nHost: public.test\r\n\r\n")
	if have := status(t, conn); have.code != 200 {
		t.Errorf("have %+v", have)
	}
	if d := detailOf(t, log.await(t, egress.OutcomeClosed, 1)[0]); d.Address != netip.AddrPortFrom(second, 80).String() {
		t.Errorf("have %+v", d)
	}
}
