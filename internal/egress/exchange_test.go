package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
)

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

// A client that looks only between two writes has its answer however much lies
// between it and the proxy, and is not cut off while it comes to look.
func TestAnEarlyAnswerWaitsForASlowClient(t *testing.T) {
	dialer := serving(t, func(c net.Conn) {
		_, _ = io.CopyN(io.Discard, c, 1000)
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.CopyN(io.Discard, c, 1<<20)
	})
	_, socket := start(t, egress.Options{Rules: corpusRules(netip.MustParseAddrPort("127.0.0.1:1")), Dial: dialer})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "PUT http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 100000000\r\n\r\n")
	for range 8 {
		if _, err := conn.Write(make([]byte, 256<<10)); err != nil {
			t.Fatalf("cut off in the middle of an upload that was answered: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if have := status(t, conn); have.code != 413 || have.body != "full" {
		t.Fatalf("have %+v", have)
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

// A host with many addresses of one family is reached in the other, where that is the only way out.
func TestBothFamiliesAreTried(t *testing.T) {
	up, log := newSink(t), newLedger()
	var table []netip.Addr
	for i := range 12 {
		table = append(table, netip.AddrFrom4([4]byte{93, 184, 216, byte(i)}))
	}
	table = append(table, netip.MustParseAddr("2606:2800:220:1::1"))
	tried := 0
	_, socket := start(t, egress.Options{
		Rules: corpusRules(up.addr), Record: log, Resolve: func(context.Context, string) ([]netip.Addr, error) { return table, nil },
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if tried++; to.Addr().Is4() {
				return nil, errors.New("network is unreachable")
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", up.addr.String())
		},
	})
	conn := dial(t, socket)
	_, _ = io.WriteString(conn, "GET http://public.test/ HTTP/1.1\r\nHost: public.test\r\n\r\n")
	if have := status(t, conn); have.code != 200 || tried != 2 {
		t.Errorf("tried %d addresses: %+v", tried, have)
	}
}
