package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is what the tests' redaction takes out.
const secret = "hunter2"

func redact(document []byte) ([]byte, []string) {
	if !bytes.Contains(document, []byte(secret)) {
		return document, nil
	}
	return bytes.ReplaceAll(document, []byte(secret), []byte("[redacted]")), []string{"result." + secret}
}

// tool is one tool of the kernel of the tests.
type tool func(ctx context.Context, call nacre.Call) (json.RawMessage, error)

// kernel is small but real: it carries out what it has.
type kernel map[nacre.ToolName]tool

func (k kernel) Has(name nacre.ToolName) bool { return k[name] != nil }

func (k kernel) Source(nacre.ToolName) string { return "reminders" }

func (k kernel) Call(ctx context.Context, call nacre.Call) (nacre.Outcome, error) {
	result, err := k[call.Tool](ctx, call)
	return nacre.Outcome{Result: result}, err
}

func echo(_ context.Context, call nacre.Call) (json.RawMessage, error) { return call.Arguments, nil }

// until is a tool that says when it began, and ends when told or cancelled.
type until struct{ began, end, cancelled chan struct{} }

func newUntil() until {
	return until{make(chan struct{}, 1000), make(chan struct{}), make(chan struct{}, 1000)}
}

func (u until) call(ctx context.Context, call nacre.Call) (json.RawMessage, error) {
	u.began <- struct{}{}
	select {
	case <-u.end:
		return call.Arguments, nil
	case <-ctx.Done():
		u.cancelled <- struct{}{}
		return nil, ctx.Err()
	}
}

// recorder keeps records in memory.
type recorder struct {
	mu      sync.Mutex
	records []nacre.Record
	err     error
	// appended, when set, is told of every record.
	appended chan nacre.Record
}

func (r *recorder) Append(_ context.Context, record nacre.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
	if r.appended != nil {
		r.appended <- record
	}
	return r.err
}

func (r *recorder) Commit(ctx context.Context, record nacre.Record) error {
	return r.Append(ctx, record)
}

func (r *recorder) all() []nacre.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]nacre.Record(nil), r.records...)
}

// served is one session's door, being served.
type served struct {
	path    string
	records *recorder
	// close ends it and returns what Serve returned.
	close func() error
}

// config is what a test changes of the ordinary.
type config struct {
	limits  door.Limits
	answer  func() time.Duration
	records *recorder
	session nacre.SessionID
	peers   []uint32
	redact  func([]byte) ([]byte, []string)
}

func serve(t testing.TB, k door.Kernel, c config) served {
	t.Helper()
	if c.records == nil {
		c.records = &recorder{}
	}
	if c.session == "" {
		c.session = "s-1"
	}
	if c.peers == nil {
		c.peers = []uint32{uint32(os.Getuid())}
	}
	if c.redact == nil {
		c.redact = redact
	}
	ln, path := listen(t)
	var ids atomic.Int64
	deps := door.Deps{
		Recorder: c.records, Redact: c.redact, Sanitize: c.redact, Limits: c.limits, Answer: c.answer,
		Now:   func() time.Time { return time.Date(2026, 2, 17, 10, 30, 0, 0, time.UTC) },
		NewID: func() string { return fmt.Sprintf("id-%d", ids.Add(1)) },
	}
	s := door.Session{ID: c.session, Group: "family-chat", PeerUID: c.peers, Principal: nacre.Principal{ID: "p", Group: "family-chat", Session: c.session}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- door.Serve(ctx, ln, s, k, deps) }()
	end := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := end(); err != nil && c.records.err == nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return served{path, c.records, end}
}

// listen makes a socket with a path short enough for one.
func listen(t testing.TB) (*net.UnixListener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "door") //nolint:usetesting // a unix socket's path holds 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary directory
	path := filepath.Join(dir, "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return ln, path
}

func dial(t testing.TB, s served) *ipc.Client {
	t.Helper()
	c, err := ipc.Dial(context.Background(), ipc.Socket(s.path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // may be closed already
	return c
}

// ask sends a message as it is and returns the answer with its error object, if it is one.
func ask(t testing.TB, c *ipc.Client, message string) (message.Envelope, *nacre.Refusal) {
	t.Helper()
	if err := c.Send([]byte(message)); err != nil {
		t.Fatal(err)
	}
	return receive(t, c)
}

func receive(t testing.TB, c *ipc.Client) (message.Envelope, *nacre.Refusal) {
	t.Helper()
	e, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return e, refusalOf(t, e)
}

func refusalOf(t testing.TB, e message.Envelope) *nacre.Refusal {
	t.Helper()
	if e.Type != message.TypeResponse {
		return nil
	}
	_, failure, err := message.Payload(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if failure == nil {
		return nil
	}
	var r nacre.Refusal
	d := json.NewDecoder(bytes.NewReader(failure))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// request is a good message for a tool.
func request(tool, correlation string) string {
	return fmt.Sprintf(`{"topic":"tool.invoke.%s","correlation":%q,"arguments":{"n":1}}`, tool, correlation)
}

// alive fails the test unless the session still answers a new client.
func alive(t testing.TB, s served) {
	t.Helper()
	if _, refusal := ask(t, dial(t, s), request("echo", "alive")); refusal != nil {
		t.Errorf("have %v, want an answer", refusal)
	}
}

// raw connects without a handshake, with a deadline that only a hanging door meets.
func raw(t testing.TB, s served) *net.UnixConn {
	t.Helper()
	nc, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() }) // may be closed already
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return nc.(*net.UnixConn)
}

var errHandler = &nacre.Refusal{Code: nacre.CodeHandlerError, Message: "503 with " + secret, Retriable: true, Original: "E503"}

// crew is a kernel with one tool of each behaviour.
func crew() kernel {
	return kernel{
		"echo":    echo,
		"refused": func(context.Context, nacre.Call) (json.RawMessage, error) { return nil, errHandler },
		"limited": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return nil, fmt.Errorf("deep: %w", &nacre.Refusal{Code: nacre.CodeRateLimited, Message: "slow", Retriable: true, Stage: 4, RetryAfter: 12})
		},
		"invented": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return nil, &nacre.Refusal{Code: "ROOT_GRANTED", Message: "internals"}
		},
		"broken": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return nil, errors.New("/etc/internal: secret path")
		},
		"panics":  func(context.Context, nacre.Call) (json.RawMessage, error) { panic("internals") },
		"nothing": func(context.Context, nacre.Call) (json.RawMessage, error) { return nil, nil },
		"notjson": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return json.RawMessage(`1,"error":{"code":"X"}`), nil
		},
		"large": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return json.RawMessage(`"` + strings.Repeat("x", wire.MaxMessage) + `"`), nil
		},
		"whole": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return json.RawMessage(`"` + strings.Repeat("x", wire.MaxMessage-2) + `"`), nil
		},
		"cases": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return json.RawMessage(`{"ETag":1, "etag":12345678901234567890.0}`), nil
		},
		"leaks": func(context.Context, nacre.Call) (json.RawMessage, error) {
			return json.RawMessage(`{"password":"hunter2"}`), nil
		},
	}
}
