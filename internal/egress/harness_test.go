package egress_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/egress"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is a recorder in memory.
type ledger struct {
	mu      sync.Mutex
	records []nacre.Record
	changed chan struct{}
	fail    bool
}

func newLedger() *ledger { return &ledger{changed: make(chan struct{})} }

func (l *ledger) Append(_ context.Context, r nacre.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return errors.New("disk full")
	}
	l.records = append(l.records, r)
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

func (l *ledger) Commit(ctx context.Context, r nacre.Record) error { return l.Append(ctx, r) }

// find returns the records with an outcome.
func (l *ledger) find(outcome string) []nacre.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []nacre.Record
	for _, r := range l.records {
		if r.Outcome == outcome {
			found = append(found, r)
		}
	}
	return found
}

// await waits until n records have the outcome.
func (l *ledger) await(t testing.TB, outcome string, n int) []nacre.Record {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if found := l.find(outcome); len(found) >= n {
			return found
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no %d records %q: have %+v", n, outcome, l.find(outcome))
		}
	}
}

type detail struct {
	Host, Method, Rule, Address, Path string
	Port                              uint16
	Pinned                            bool
	Sent                              int64 `json:"bytes_sent"`
	Received                          int64 `json:"bytes_received"`
}

func detailOf(t testing.TB, r nacre.Record) detail {
	t.Helper()
	var d detail
	if err := json.Unmarshal(r.Detail, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// start serves a proxy on a unix socket until the test ends, and returns the socket.
func start(t testing.TB, opts egress.Options) (*egress.Proxy, string) {
	t.Helper()
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Record == nil {
		opts.Record = newLedger()
	}
	p, err := egress.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "egress") //nolint:usetesting // the path of a socket has at most 107 bytes, and t.TempDir names the test
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	return p, socket
}

func dial(t testing.TB, socket string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

const sinkAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: x\r\n\r\nworld"

// sink is an upstream that counts connections, keeps what it got, and answers like a web server.
type sink struct {
	addr netip.AddrPort
	mu   sync.Mutex
	got  []*strings.Builder
}

func newSink(t testing.TB) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{addr: l.Addr().(*net.TCPAddr).AddrPort()}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := &strings.Builder{}
			s.mu.Lock()
			s.got = append(s.got, b)
			s.mu.Unlock()
			conns.Go(func() { s.answer(c, b) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return s
}

func (s *sink) answer(c net.Conn, b *strings.Builder) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 4096)
	for answered := false; ; {
		n, err := c.Read(buf)
		s.mu.Lock()
		b.Write(buf[:n])
		whole := requestIsWhole(b.String())
		s.mu.Unlock()
		if err != nil {
			return
		}
		if !answered && whole {
			_, _ = io.WriteString(c, sinkAnswer)
			answered = true
		}
	}
}

// requestIsWhole tells whether nothing of a request is still to come, which whoever answers
// before would end.
func requestIsWhole(text string) bool {
	head, body, headIsWhole := strings.Cut(text, "\r\n\r\n")
	switch {
	case !headIsWhole:
		return !strings.Contains(text, " HTTP/1.") // a tunnel's bytes
	case strings.Contains(head+"\r\n", "\r\nTransfer-Encoding: "):
		return strings.HasSuffix(text, "\r\n0\r\n\r\n")
	}
	_, length, _ := strings.Cut(head+"\r\n", "\r\nContent-Length: ")
	length, _, _ = strings.Cut(length, "\r\n")
	n, _ := strconv.Atoi(length) // without one there is no body
	return len(body) >= n
}

func (s *sink) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

func (s *sink) text(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.got) {
		return ""
	}
	return s.got[i].String()
}

// resolver answers from a table and counts what it is asked.
type resolver struct {
	mu    sync.Mutex
	table map[string][]netip.Addr
	asked []string
}

func (r *resolver) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, host)
	if addrs, ok := r.table[host]; ok {
		return addrs, nil
	}
	return nil, errors.New("no such host")
}

func (r *resolver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func rule(host string, port uint16, protocol nacre.Protocol, pin netip.AddrPort) nacre.EgressRule {
	return nacre.EgressRule{Host: host, Port: port, Protocol: protocol, Pin: pin}
}

// hello writes a TLS client hello; change edits its extensions.
func hello(name string, change func(ext []byte) []byte) []byte {
	var ext []byte
	if name != "" {
		ext = extension(0, serverNames(name))
	}
	ext = append(ext, extension(43, []byte{2, 3, 4})...)
	if change != nil {
		ext = change(ext)
	}
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0)
	body = append(body, 0, 2, 0x13, 0x01)
	body = append(body, 1, 0)
	body = append(body, vector(ext)...)
	message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return record(message)
}

func serverNames(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(append(list, 0), vector([]byte(n))...)
	}
	return vector(list)
}

func extension(kind uint16, data []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, kind), vector(data)...)
}

func vector(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

func record(fragment []byte) []byte {
	return append([]byte{22, 3, 1}, vector(fragment)...)
}

// fragmented spreads a hello over records of n bytes.
func fragmented(whole []byte, n int) []byte {
	var out []byte
	for rest := whole[5:]; len(rest) > 0; rest = rest[min(n, len(rest)):] {
		out = append(out, record(rest[:min(n, len(rest))])...)
	}
	return out
}

// answer is what came back for a request.
type answer struct {
	code   int
	header http.Header
	close  bool
	body   string
}

func status(t testing.TB, conn net.Conn) answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, resp.Close, string(body)}
}
