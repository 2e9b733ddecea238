package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func get(t *testing.T, socket, url string) (int, string) {
	t.Helper()
	conn := dial(t, socket)
	host := strings.TrimPrefix(url, "http://")
	host, _, _ = strings.Cut(host, "/")
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", url, host); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Status + "\n" + string(body)
}

// M-23: what was approved is let through, that and nothing else, until its time is over.
func TestAGrantLetsOneRuleThroughUntilItEnds(t *testing.T) {
	sink, now := newSink(t), newClock()
	p, socket := start(t, egress.Options{Now: now.now})
	if code, _ := get(t, socket, "http://a.example/"); code != 403 {
		t.Fatalf("before the grant: %d", code)
	}
	granted := rule("a.example", 80, nacre.ProtocolHTTP, sink.addr)
	if err := p.Grant(granted, now.now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]int{
		"http://a.example/": 200, "http://a.example:81/": 403, "http://b.a.example/": 403, "http://example/": 403,
	} {
		if have, text := get(t, socket, url); have != want {
			t.Errorf("%s: have %d, want %d: %s", url, have, want, text)
		}
	}
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "CONNECT a.example:80 HTTP/1.1\r\n\r\n")
	if answer := status(t, conn); answer.code != 403 {
		t.Errorf("a tunnel under a rule for plain HTTP: %d", answer.code)
	}
	now.pass(time.Minute)
	if code, _ := get(t, socket, "http://a.example/"); code != 403 {
		t.Errorf("after its end: %d", code)
	}
}

// M-23: a connection ends with its grant where the clock went on without the machine, as it does
// while one sleeps.
func TestConnectionsEndWithTheirGrantAfterASleep(t *testing.T) {
	t.Parallel()
	sink, log, now := newSink(t), newLedger(), newClock()
	p, socket := start(t, egress.Options{Record: log, Now: now.now})
	if err := p.Grant(rule("a.example", 5432, nacre.ProtocolTCP, sink.addr), now.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "CONNECT a.example:5432 HTTP/1.1\r\n\r\n")
	if answer := status(t, conn); answer.code != 200 {
		t.Fatalf("have %d", answer.code)
	}
	now.pass(2 * time.Hour)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection gave a byte")
	}
	if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(egress.ReasonGrantEnded) {
		t.Errorf("it ended for %q", have.Reason)
	}
}

// M-23: connections that were opened under a grant end with it.
func TestConnectionsEndWithTheirGrant(t *testing.T) {
	sink, log := newSink(t), newLedger()
	p, socket := start(t, egress.Options{Record: log})
	if err := p.Grant(rule("a.example", 5432, nacre.ProtocolTCP, sink.addr), time.Now().Add(300*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "CONNECT a.example:5432 HTTP/1.1\r\n\r\n")
	if answer := status(t, conn); answer.code != 200 {
		t.Fatalf("have %d", answer.code)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection gave a byte")
	}
	if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(egress.ReasonGrantEnded) {
		t.Errorf("it ended for %q", have.Reason)
	}
}

// F-18: once what a session was granted is revoked, nothing is let out, and what is
// open ends.
func TestRevocationEndsEgress(t *testing.T) {
	sink, log := newSink(t), newLedger()
	var revoked atomic.Bool
	_, socket := start(t, egress.Options{Record: log, Revoked: egress.Revocation{All: revoked.Load}, Rules: []nacre.EgressRule{
		rule("a.example", 5432, nacre.ProtocolTCP, sink.addr), rule("a.example", 80, nacre.ProtocolHTTP, sink.addr),
	}})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "CONNECT a.example:5432 HTTP/1.1\r\n\r\n")
	opened := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(conn, opened); err != nil || !strings.Contains(string(opened), " 200 ") {
		t.Fatalf("have %s, %v", opened, err)
	}
	revoked.Store(true)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection gave a byte")
	}
	if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(egress.ReasonRevoked) {
		t.Errorf("it ended for %q", have.Reason)
	}
	if code, text := get(t, socket, "http://a.example/"); code != 403 || !strings.Contains(text, "revoked") {
		t.Errorf("after it: %d %s", code, text)
	}
	again := dial(t, socket)
	_, _ = io.WriteString(again, "CONNECT a.example:5432 HTTP/1.1\r\n\r\n")
	if answer := status(t, again); answer.code != 403 {
		t.Errorf("a connection after it: %d", answer.code)
	}
}

// F-18: what the host has ended on its side, and the client keeps open, ends as well.
func TestRevocationEndsWhatTheClientAloneKeepsOpen(t *testing.T) {
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hosts.Close() })
	go func() {
		if host, err := hosts.Accept(); err == nil {
			_, _ = io.WriteString(host, "world")
			_ = host.Close()
		}
	}()
	log := newLedger()
	var revoked atomic.Bool
	address := netip.MustParseAddrPort(hosts.Addr().String())
	_, socket := start(t, egress.Options{Record: log, Revoked: egress.Revocation{All: revoked.Load}, Rules: []nacre.EgressRule{rule("a.example", address.Port(), nacre.ProtocolTCP, address)}})
	conn := dial(t, socket)
	_, _ = fmt.Fprintf(conn, "CONNECT a.example:%d HTTP/1.1\r\n\r\n", address.Port())
	if said, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(said), "world") {
		t.Fatalf("have %s, %v", said, err)
	}
	revoked.Store(true)
	if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(egress.ReasonRevoked) {
		t.Errorf("it ended for %q", have.Reason)
	}
}

func TestGrantsThatAreNotPlainAreRefused(t *testing.T) {
	p, _ := start(t, egress.Options{})
	soon := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		rule  nacre.EgressRule
		until time.Time
	}{
		"a wildcard":        {rule("*.example.com", 443, nacre.ProtocolTLS, netip.AddrPort{}), soon},
		"an address":        {rule("10.0.0.1", 443, nacre.ProtocolTLS, netip.AddrPort{}), soon},
		"no port":           {rule("a.example", 0, nacre.ProtocolTLS, netip.AddrPort{}), soon},
		"upper case":        {rule("A.example", 443, nacre.ProtocolTLS, netip.AddrPort{}), soon},
		"a time that ended": {rule("a.example", 443, nacre.ProtocolTLS, netip.AddrPort{}), time.Now().Add(-time.Second)},
		"no time":           {rule("a.example", 443, nacre.ProtocolTLS, netip.AddrPort{}), time.Time{}},
	} {
		if err := p.Grant(c.rule, c.until); err == nil {
			t.Errorf("%s is granted", name)
		}
	}
	for i := range 65 {
		err := p.Grant(rule(fmt.Sprintf("h%d.example", i), 443, nacre.ProtocolTLS, netip.AddrPort{}), soon)
		if (err != nil) != (i == 64) {
			t.Errorf("grant %d: %v", i, err)
		}
	}
}

// M-23: a refusal that a rule would lift is proposed once it is decided, and the client is told how
// a person can approve it. No other refusal is proposed.
func TestARefusalTellsHowToApproveIt(t *testing.T) {
	var mu sync.Mutex
	var proposed []string
	_, socket := start(t, egress.Options{
		Rules: []nacre.EgressRule{rule("private.example", 80, nacre.ProtocolHTTP, netip.AddrPort{})},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			t.Error("it dialled")
			return nil, net.ErrClosed
		},
		Asking: egress.Asking{Propose: func(d egress.Denial) egress.Proposal {
			mu.Lock()
			defer mu.Unlock()
			proposed = append(proposed, d.Rule)
			return egress.Proposal{How: func() string { return "nacre approvals approve 7d2q" }}
		}},
	})
	_, text := get(t, socket, "http://a.example/")
	for _, part := range []string{"or nacre approvals approve 7d2q\n", "the operator answers: nacre approvals approve 7d2q"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
	for _, request := range []string{
		"CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n", "CONNECT [::1]:443 HTTP/1.1\r\n\r\n", "CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n",
		"GET http://private.example/ HTTP/1.1\r\nHost: private.example\r\n\r\n", "CONNECT a b HTTP/1.1\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
	} {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, request)
		if answer := status(t, conn); answer.code == 200 {
			t.Errorf("%q is let through", request)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(proposed) != 1 || proposed[0] != "a.example:80/http" {
		t.Errorf("proposed %q", proposed)
	}
}

// M-51: a rule that is taken back while the session goes on lets nothing more through, and what was
// opened under it ends. The others hold.
func TestARuleIsTakenBack(t *testing.T) {
	sink, log := newSink(t), newLedger()
	var revoked atomic.Bool
	_, socket := start(t, egress.Options{Record: log, Rules: []nacre.EgressRule{
		rule("a.example", 5432, nacre.ProtocolTCP, sink.addr), rule("b.example", 5432, nacre.ProtocolTCP, sink.addr),
	}, Revoked: egress.Revocation{Rule: func(r nacre.EgressRule) bool { return revoked.Load() && r.Host == "a.example" }}})
	connect := func(host string) net.Conn {
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "CONNECT "+host+":5432 HTTP/1.1\r\n\r\n")
		return conn
	}
	conn := connect("a.example")
	opened := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(conn, opened); err != nil || !strings.Contains(string(opened), " 200 ") {
		t.Fatalf("have %s, %v", opened, err)
	}
	revoked.Store(true)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection gave a byte")
	}
	if have := log.await(t, egress.OutcomeClosed, 1)[0]; have.Reason != string(egress.ReasonRevoked) {
		t.Errorf("it ended for %q", have.Reason)
	}
	if answer := status(t, connect("a.example")); answer.code != 403 || answer.header.Get("X-Nacre-Reason") != string(egress.ReasonNotListed) {
		t.Errorf("a connection after it: %d %v", answer.code, answer.header)
	}
	other := connect("b.example")
	if _, err := io.ReadFull(other, opened); err != nil || !strings.Contains(string(opened), " 200 ") {
		t.Errorf("another rule: %s, %v", opened, err)
	}
}
