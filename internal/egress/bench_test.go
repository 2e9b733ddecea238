package egress_test

import (
	"bytes"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/egress"
)

// echo is an upstream that sends back what it gets.
func echo(b *testing.B) netip.AddrPort {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	b.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func tunnel(b *testing.B, socket string) net.Conn {
	b.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.WriteString(conn, "CONNECT raw.test:22 HTTP/1.1\r\n\r\n")
	answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(conn, answer); err != nil {
		b.Fatal(err)
	}
	return conn
}

func proxied(b *testing.B, to netip.AddrPort, record nacre.Recorder) string {
	b.Helper()
	_, socket := start(b, egress.Options{
		Rules: []nacre.EgressRule{rule("raw.test", 22, nacre.ProtocolTCP, to), rule("example.com", 443, nacre.ProtocolTLS, to)}, Record: record,
		Limits: egress.Limits{Total: math.MaxInt64, Bytes: math.MaxInt64},
	})
	return socket
}

// inMemory keeps as many records as a benchmark should not be slowed by.
func inMemory() nacre.Recorder { return audit.Memory(1000) }

// durable is the audit chain that sessions have, on this disk.
func durable(b *testing.B) nacre.Recorder {
	b.Helper()
	keys, err := audit.NewKeys(bytes.Repeat([]byte("s"), 32), bytes.Repeat([]byte("m"), 32))
	if err != nil {
		b.Fatal(err)
	}
	chain, err := audit.Open(b.Context(), audit.Options{Root: filepath.Join(b.TempDir(), "audit"), Chain: "a", Keys: keys, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = chain.Close(context.Background()) })
	return chain
}

// BenchmarkThroughput moves 1 MiB there and back on one connection.
func BenchmarkThroughput(b *testing.B) {
	const size = 1 << 20
	run := func(b *testing.B, conn net.Conn) {
		b.SetBytes(2 * size)
		out, in := make([]byte, size), make([]byte, size)
		for b.Loop() {
			go func() { _, _ = conn.Write(out) }()
			if _, err := io.ReadFull(conn, in); err != nil {
				b.Fatal(err)
			}
		}
		_ = conn.Close()
	}
	b.Run("floor", func(b *testing.B) { run(b, direct(b, echo(b))) })
	b.Run("ours", func(b *testing.B) { run(b, tunnel(b, proxied(b, echo(b), inMemory()))) })
}

// BenchmarkRoundTrip is one byte there and back on an open connection.
func BenchmarkRoundTrip(b *testing.B) {
	run := func(b *testing.B, conn net.Conn) {
		buf := []byte{1}
		for b.Loop() {
			_, _ = conn.Write(buf)
			if _, err := io.ReadFull(conn, buf); err != nil {
				b.Fatal(err)
			}
		}
		_ = conn.Close()
	}
	b.Run("floor", func(b *testing.B) { run(b, direct(b, echo(b))) })
	b.Run("ours", func(b *testing.B) { run(b, tunnel(b, proxied(b, echo(b), inMemory()))) })
}

// BenchmarkConnect, with the decision and a record that is durable before the dial, opens a connection, moves one byte there and back, and closes it.
func BenchmarkConnect(b *testing.B) {
	run := func(b *testing.B, open func() net.Conn) {
		buf := []byte{1}
		for b.Loop() {
			conn := open()
			_, _ = conn.Write(buf)
			if _, err := io.ReadFull(conn, buf); err != nil {
				b.Fatal(err)
			}
			_ = conn.Close()
		}
	}
	b.Run("floor", func(b *testing.B) {
		to := echo(b)
		run(b, func() net.Conn { return direct(b, to) })
	})
	b.Run("ours", func(b *testing.B) {
		socket := proxied(b, echo(b), durable(b))
		run(b, func() net.Conn { return tunnel(b, socket) })
	})
	b.Run("ours, records in memory", func(b *testing.B) {
		socket := proxied(b, echo(b), inMemory())
		run(b, func() net.Conn { return tunnel(b, socket) })
	})
}

// BenchmarkRequest is one https request on a connection of its own, as most tools make them.
func BenchmarkRequest(b *testing.B) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer srv.Close()
	run := func(b *testing.B, client *http.Client, url string) {
		client.Transport.(*http.Transport).DisableKeepAlives = true
		for b.Loop() {
			resp, err := client.Get(url)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	b.Run("floor", func(b *testing.B) {
		run(b, &http.Client{Transport: srv.Client().Transport.(*http.Transport).Clone()}, srv.URL)
	})
	b.Run("ours", func(b *testing.B) {
		run(b, throughProxy(proxied(b, pinOf(b, srv), durable(b)), srv), "https://example.com/")
	})
}

func direct(b *testing.B, to netip.AddrPort) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		b.Fatal(err)
	}
	return conn
}
