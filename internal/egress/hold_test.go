package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// person is asked by a proxy, and answers when a test says so.
type person struct {
	proxy   *egress.Proxy
	mu      sync.Mutex
	asked   int
	decided chan struct{}
}

func (a *person) propose(egress.Denial) egress.Proposal {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return egress.Proposal{How: a.how, Decided: a.decided}
}

// how is what answers the question, once it is asked and until it is answered.
func (a *person) how() string {
	select {
	case <-a.decided:
		return ""
	default:
		return "nacre approvals approve 7d2q"
	}
}

func (a *person) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// allow lets the rule through for a minute, and then says that it is decided.
func (a *person) allow(t *testing.T, rule nacre.EgressRule) {
	t.Helper()
	if err := a.proxy.Grant(rule, time.Now().Add(time.Minute)); err != nil {
		t.Error(err)
	}
	close(a.decided)
}

// holding serves a proxy whose connections wait for a person.
func holding(t *testing.T, opts egress.Options) (*person, string) {
	t.Helper()
	a := &person{decided: make(chan struct{})}
	if opts.Asking.Propose = a.propose; opts.Asking.Hold == 0 {
		opts.Asking.Hold = time.Hour // a test ends it
	}
	var socket string
	a.proxy, socket = start(t, opts)
	return a, socket
}

// U-11: what nobody allowed yet waits for the person, with all that was sent meanwhile,
// and goes through once it is allowed.
func TestAHeldConnectionIsLetThrough(t *testing.T) {
	for name, c := range map[string]struct {
		request, first string
		then           string
		protocol       nacre.Protocol
	}{
		"a plain request":  {"GET http://a.example:8080/ HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", "HTTP/1.1 200 OK", "GET / HTTP/1.1\r\n", nacre.ProtocolHTTP},
		"an upload":        {"POST http://a.example:8080/ HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK", "\r\n\r\nhello", nacre.ProtocolHTTP},
		"a tunnel":         {"CONNECT a.example:8080 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 Connection established", "", nacre.ProtocolTCP},
		"a tunnel for TLS": {"CONNECT a.example:8080 HTTP/1.1\r\n\r\n" + string(hello("a.example", nil)), "HTTP/1.1 200 Connection established", string(hello("a.example", nil)), nacre.ProtocolTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink, log := newSink(t), newLedger()
			ada, socket := holding(t, egress.Options{Record: log})
			conn := dial(t, socket)
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			testwait.Until(t, "the question", func() bool { return ada.times() == 1 })
			if n := sink.connections(); n != 0 {
				t.Fatalf("%d connections before anybody said yes", n)
			}
			ada.allow(t, rule("a.example", 8080, c.protocol, sink.addr))
			first := make([]byte, len(c.first))
			if _, err := io.ReadFull(conn, first); err != nil || string(first) != c.first {
				t.Fatalf("have %q, %v", first, err)
			}
			testwait.Until(t, "what was sent", func() bool { return strings.Contains(sink.text(0), c.then) })
			if denied := log.find(nacre.OutcomeDenied); len(denied) != 0 {
				t.Errorf("it is recorded as denied: %+v", denied)
			}
		})
	}
}

// U-11: who is not allowed is refused with the reason: where nobody answers, where a
// person said no, and where as many wait as may.
func TestAHeldConnectionIsRefusedWithTheReason(t *testing.T) {
	for name, c := range map[string]struct {
		hold   time.Duration
		held   int
		decide func(*person)
		want   string
	}{
		"nobody answers":    {50 * time.Millisecond, 0, func(*person) {}, "nobody answered within 50ms"},
		"a person says no":  {time.Hour, 0, func(a *person) { close(a.decided) }, "it was not allowed"},
		"too many wait":     {time.Hour, 1, func(*person) {}, "1 connections wait for an answer already"},
		"nobody may answer": {-1, 0, func(*person) {}, "nacre approvals approve 7d2q"},
	} {
		for _, request := range []string{"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "CONNECT a.example:443 HTTP/1.1\r\n\r\n"} {
			t.Run(name+", "+request[:3], func(t *testing.T) {
				t.Parallel()
				log := newLedger()
				ada, socket := holding(t, egress.Options{Record: log, Asking: egress.Asking{Hold: c.hold}, Limits: egress.Limits{Held: c.held}})
				if c.held > 0 {
					_, _ = io.WriteString(dial(t, socket), request)
					testwait.Until(t, "the first", func() bool { return ada.times() == 1 })
				}
				conn := dial(t, socket)
				_, _ = io.WriteString(conn, request)
				testwait.Until(t, "the question", func() bool { return ada.times() >= 1 })
				c.decide(ada)
				have := status(t, conn)
				if have.code != 403 || have.header.Get("X-Nacre-Reason") != "not_listed" || !strings.Contains(have.body, c.want) {
					t.Errorf("have %d %q: %s", have.code, have.header, have.body)
				}
				if strings.Contains(have.body, "approve") == (name == "a person says no") {
					t.Errorf("how to approve it: %s", have.body)
				}
				log.await(t, nacre.OutcomeDenied, 1)
			})
		}
	}
}

// U-11, M-21: a yes lets through what was asked for, and what was checked is what is
// dialled: a name that leads inside stays refused.
func TestAHeldConnectionIsCheckedAsAnyOther(t *testing.T) {
	ada, socket := holding(t, egress.Options{
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		},
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			t.Error("it dialled")
			return nil, net.ErrClosed
		},
	})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "CONNECT a.example:443 HTTP/1.1\r\n\r\n")
	testwait.Until(t, "the question", func() bool { return ada.times() == 1 })
	ada.allow(t, rule("a.example", 443, nacre.ProtocolTLS, netip.AddrPort{}))
	if have := status(t, conn); have.header.Get("X-Nacre-Reason") != string(egress.ReasonAddress) {
		t.Errorf("have %+v", have)
	}
}

// U-11: a client that did not wait gets nothing sent for it: it may have asked again.
func TestWhatAGoneClientAskedForIsNotDone(t *testing.T) {
	sink, log := newSink(t), newLedger()
	ada, socket := holding(t, egress.Options{Record: log})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "POST http://a.example/pay HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello")
	testwait.Until(t, "the question", func() bool { return ada.times() == 1 })
	_ = conn.Close()
	log.await(t, nacre.OutcomeDenied, 1)
	ada.allow(t, rule("a.example", 80, nacre.ProtocolHTTP, sink.addr))
	if code, _ := get(t, socket, "http://a.example/again"); code != 200 {
		t.Fatalf("the next request: %d", code)
	}
	if text := sink.text(0) + sink.text(1); strings.Contains(text, "/pay") {
		t.Errorf("it was sent: %s", text)
	}
}

// U-11: the session's end, and the end of what it was granted, end what is held.
func TestHeldConnectionsEnd(t *testing.T) {
	t.Run("with the session", func(t *testing.T) {
		t.Parallel()
		dir, err := net.Listen("unix", "@"+fmt.Sprintf("nacre-held-%d", time.Now().UnixNano()))
		if err != nil {
			t.Fatal(err)
		}
		ada := &person{decided: make(chan struct{})}
		p, err := egress.New(egress.Options{Record: newLedger(), Now: time.Now, Asking: egress.Asking{Propose: ada.propose, Hold: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- p.Serve(ctx, dir) }()
		conn := dial(t, dir.Addr().String())
		_, _ = io.WriteString(conn, "CONNECT a.example:443 HTTP/1.1\r\n\r\n")
		testwait.Until(t, "the question", func() bool { return ada.times() == 1 })
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if text, _ := io.ReadAll(conn); strings.Contains(string(text), "200") {
			t.Errorf("have %s", text)
		}
	})
	t.Run("with its grants", func(t *testing.T) {
		t.Parallel()
		var revoked atomic.Bool
		ada, socket := holding(t, egress.Options{Revoked: egress.Revocation{All: revoked.Load}})
		conn := dial(t, socket)
		_, _ = io.WriteString(conn, "CONNECT a.example:443 HTTP/1.1\r\n\r\n")
		testwait.Until(t, "the question", func() bool { return ada.times() == 1 })
		revoked.Store(true)
		if have := status(t, conn); have.code != 403 || have.header.Get("X-Nacre-Reason") != string(egress.ReasonRevoked) {
			t.Errorf("have %+v", have)
		}
	})
}

// U-11: of many connections to one host as many wait as may, one answer lets those
// through, and the others are refused.
func TestABurstWaitsForOneAnswer(t *testing.T) {
	sink := newSink(t)
	ada, socket := holding(t, egress.Options{Limits: egress.Limits{Connections: 100, Held: 20}})
	codes := make(chan int, 100)
	for range 60 {
		go func() {
			conn, err := net.Dial("unix", socket)
			if err != nil {
				codes <- 0
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
			text, _ := io.ReadAll(conn)
			code := 0
			_, _ = fmt.Sscanf(string(text), "HTTP/1.1 %d", &code)
			codes <- code
		}()
	}
	count := map[int]int{}
	for range 40 { // those that cannot wait
		count[<-codes]++
	}
	ada.allow(t, rule("a.example", 80, nacre.ProtocolHTTP, sink.addr))
	for range 20 {
		count[<-codes]++
	}
	if count[403] != 40 || count[200] != 20 {
		t.Errorf("have %v", count)
	}
}
