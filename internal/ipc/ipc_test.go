package ipc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/internal/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run calls the program and returns what it printed, which must be one JSON
// object on one of the streams.
func run(t *testing.T, dial ipc.Dialer, stdin io.Reader, args ...string) (code int, printed map[string]any) {
	t.Helper()
	var out, failed bytes.Buffer
	code = ipc.Run(dial, args, ipc.Streams{In: stdin, Out: &out, Err: &failed})
	stream, other := out, failed
	if code != 0 {
		stream, other = failed, out
	}
	if other.Len() != 0 {
		t.Errorf("have %q on the other stream, want nothing", other.String())
	}
	if err := json.Unmarshal(stream.Bytes(), &printed); err != nil || !bytes.HasSuffix(stream.Bytes(), []byte("}\n")) {
		t.Fatalf("have %q, %v, want one JSON object and a line's end", stream.String(), err)
	}
	return code, printed
}

func noDoor(context.Context) (net.Conn, error) { return nil, errors.New("no door") }

// D-07: whatever is not a call is refused as usage before anything is sent.
func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"no arguments":              {},
		"a tool alone":              {"echo"},
		"three arguments":           {"echo", "{}", "{}"},
		"an empty tool":             {"", "{}"},
		"an unknown flag":           {"--group=admin", "echo", "{}"},
		"a flag without its value":  {"--mode"},
		"a value to --dry-run":      {"--dry-run=yes", "echo", "{}"},
		"--list with more":          {"--list", "echo", "{}"},
		"a dash alone":              {"-", "{}"},
		"arguments that are a list": {"echo", "[]"},
		"arguments that are null":   {"echo", "null"},
		"arguments of nothing":      {"echo", ""},
		"two values":                {"echo", "{} {}"},
		"another key":               {"echo", `{},"group":"admin"`},
		"half an object":            {"echo", `{"a":1`},
	} {
		t.Run(name, func(t *testing.T) {
			code, printed := run(t, noDoor, strings.NewReader(""), args...)
			if code != 2 || printed["code"] != "USAGE" || printed["retriable"] != false || printed["message"] == "" {
				t.Errorf("have exit %d and %v, want usage and exit 2", code, printed)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--dry-run", "--help", "x"}} {
		var out, failed strings.Builder
		if code := ipc.Run(noDoor, args, ipc.Streams{Out: &out, Err: &failed}); code != 0 || !strings.HasPrefix(out.String(), "usage: ipc") {
			t.Errorf("%v: have exit %d, %q, %q", args, code, out.String(), failed.String())
		}
	}
}

func TestTooMuchIsRefusedUnsent(t *testing.T) {
	big := `{"a":"` + strings.Repeat("x", wire.MaxMessage) + `"}`
	for name, args := range map[string][]string{"as an argument": {"echo", big}, "on stdin": {"echo", "-"}} {
		code, printed := run(t, noDoor, strings.NewReader(big), args...)
		if code != 1 || printed["code"] != "VALIDATION_FAILED" || printed["field"] != "arguments" {
			t.Errorf("%s: have exit %d and %v, want VALIDATION_FAILED", name, code, printed)
		}
	}
}

// door is the far end of one connection, as a script.
type door struct {
	t  *testing.T
	nc net.Conn
	r  *zmtp.Reader
}

// scripted returns a dialer whose nth connection is served by the nth script.
func scripted(t *testing.T, scripts ...func(*door)) ipc.Dialer {
	next := 0
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		script := scripts[min(next, len(scripts)-1)]
		next++
		go func() {
			defer func() { _ = far.Close() }()
			script(&door{t, far, zmtp.NewReader(far, wire.MaxMessage)})
		}()
		return near, nil
	}
}

func (d *door) shake() {
	hello := make(chan error, 1)
	go func() {
		_, err := d.nc.Write(zmtp.AppendReady(zmtp.AppendGreeting(nil), zmtp.Property{Name: "Socket-Type", Value: "ROUTER"}))
		hello <- err
	}()
	err := d.r.Greeting()
	if err == nil {
		_, err = d.r.Next()
	}
	if err = errors.Join(err, <-hello); err != nil {
		d.t.Errorf("handshake: %v", err)
	}
}

func (d *door) request() message.Request {
	item, err := d.r.Next()
	if err != nil {
		d.t.Errorf("request: %v", err)
		return message.Request{}
	}
	r, err := message.ParseRequest(item.Parts[1])
	if err != nil {
		d.t.Errorf("request: %v", err)
	}
	return r
}

func (d *door) send(kind, topic, correlation, payload string) {
	e := message.Envelope{ID: "i", Version: 1, Type: kind, Topic: topic, Source: "core", Correlation: "", Group: "g", Payload: json.RawMessage(payload)}
	body := strings.Replace(string(e.Append(nil)), `"correlation":null`, `"correlation":`+correlation, 1)
	_, _ = d.nc.Write(zmtp.AppendMessage(nil, nil, []byte(body))) // the client may be gone
}

// hold keeps the connection open until the client closes it.
func (d *door) hold() { _, _ = io.Copy(io.Discard, d.nc) }

func quoted(r message.Request) string { return `"` + string(r.Correlation) + `"` }

const success = `{"result":{"a":1},"error":null}`

func TestCallPrintsThePayload(t *testing.T) {
	dial := scripted(t, func(d *door) {
		d.shake()
		r := d.request()
		if r.Topic != "tool.invoke.echo" || string(r.Arguments) != `{"n":1.50}` || r.Hints.Justification != "I must" || r.Hints.Mode != "raw" || !r.Hints.DryRun {
			t.Errorf("have %+v, want what the command line says", r)
		}
		d.send(message.TypeResponse, r.Topic, quoted(r), success)
	})
	args := []string{"--justification", "I must", "--mode=raw", "--dry-run", "--", "tool.invoke.echo", "-"}
	code, printed := run(t, dial, strings.NewReader(" {\"n\":1.50}\n"), args...)
	if code != 0 || printed["error"] != nil || printed["result"] == nil {
		t.Errorf("have exit %d and %v, want the payload", code, printed)
	}
}

// A handler's failure is a failure: on stderr, with exit 1 (D-07).
func TestErrorsExitWithOne(t *testing.T) {
	dial := scripted(t, func(d *door) {
		d.shake()
		r := d.request()
		d.send(message.TypeResponse, r.Topic, quoted(r), `{"result":null,"error":{"code":"HANDLER_ERROR","message":"503","retriable":true}}`)
	})
	code, printed := run(t, dial, nil, "echo", "{}")
	if code != 1 || printed["code"] != "HANDLER_ERROR" || printed["retriable"] != true {
		t.Errorf("have exit %d and %v, want the error object alone", code, printed)
	}
}

func TestListCallsTheIntrinsic(t *testing.T) {
	dial := scripted(t, func(d *door) {
		d.shake()
		r := d.request()
		if r.Topic != "tool.invoke.list_tools" || string(r.Arguments) != "{}" {
			t.Errorf("have %+v, want list_tools", r)
		}
		d.send(message.TypeResponse, r.Topic, quoted(r), success)
	})
	if code, printed := run(t, dial, nil, "--list"); code != 0 {
		t.Errorf("have exit %d and %v", code, printed)
	}
}

// Answers to other calls are passed over; one without a correlation is ours.
func TestOnlyTheOwnAnswerCounts(t *testing.T) {
	dial := scripted(t, func(d *door) {
		d.shake()
		r := d.request()
		d.send(message.TypeResponse, r.Topic, `"another"`, `{"result":"wrong","error":null}`)
		d.send(message.TypeEvent, "some.event", quoted(r), `{}`)
		d.send(message.TypeResponse, "", `null`, `{"result":null,"error":{"code":"VALIDATION_FAILED","message":"m","retriable":false,"stage":1}}`)
	})
	if code, printed := run(t, dial, nil, "echo", "{}"); code != 1 || printed["stage"] != 1.0 {
		t.Errorf("have exit %d and %v, want the error of stage 1", code, printed)
	}
}

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for name, send := range map[string]func(d *door, r message.Request){
		"a payload that is not one": func(d *door, r message.Request) { d.send(message.TypeResponse, r.Topic, quoted(r), `{}`) },
		"bytes that are not JSON":   func(d *door, _ message.Request) { _, _ = d.nc.Write(zmtp.AppendMessage(nil, nil, []byte("x"))) },
		"one part alone":            func(d *door, _ message.Request) { _, _ = d.nc.Write(zmtp.AppendMessage(nil, []byte("{}"))) },
		"frames that are not ZMTP":  func(d *door, _ message.Request) { _, _ = d.nc.Write([]byte{0xff, 0xff}) },
	} {
		t.Run(name, func(t *testing.T) {
			dial := scripted(t, func(d *door) { d.shake(); send(d, d.request()); d.hold() })
			if code, printed := run(t, dial, nil, "echo", "{}"); code != 1 || printed["retriable"] != false || printed["code"] != "IPC_PROTOCOL" {
				t.Errorf("have exit %d and %v, want IPC_PROTOCOL", code, printed)
			}
		})
	}
}

// The end of the socket ends the wait at once, and the request is not sent again.
func TestEndOfSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		dial := scripted(t, func(d *door) { d.shake(); d.request(); calls++ })
		start := time.Now()
		code, printed := run(t, dial, nil, "echo", "{}")
		if code != 1 || printed["code"] != "IPC_TIMEOUT" || printed["retriable"] != false || calls != 1 {
			t.Errorf("have exit %d, %v after %d requests, want IPC_TIMEOUT after one", code, printed, calls)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("have %v waited, want none", waited)
		}
	})
}

// Without word of a person, 35 s are all (D-07).
func TestTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := scripted(t, func(d *door) { d.shake(); d.request(); d.hold() })
		start := time.Now()
		code, printed := run(t, dial, nil, "echo", "{}")
		if code != 1 || printed["code"] != "IPC_TIMEOUT" {
			t.Errorf("have exit %d and %v, want IPC_TIMEOUT", code, printed)
		}
		if waited := time.Since(start); waited != 35*time.Second {
			t.Errorf("have %v waited, want 35 s", waited)
		}
	})
}

// Told that a person is asked, it waits for the question and 35 s more.
func TestPendingQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		payload string
		want    time.Duration
	}{
		"five minutes":            {`{"expires":"2026-02-17T10:30:00Z","seconds":300}`, 335 * time.Second},
		"longer than it believes": {`{"seconds":99999999}`, 24*time.Hour + 35*time.Second},
		"longer than there is":    {`{"seconds":99999999999999999999999}`, 24*time.Hour + 35*time.Second},
		"a fraction":              {`{"seconds":1.5}`, 35 * time.Second},
		"a negative time":         {`{"seconds":-5}`, 35 * time.Second},
		"no time":                 {`{}`, 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial := scripted(t, func(d *door) {
					d.shake()
					r := d.request()
					d.send(message.TypeEvent, message.TopicPending, quoted(r), test.payload)
					d.hold()
				})
				start := time.Now()
				code, _ := run(t, dial, nil, "echo", "{}")
				if waited := time.Since(start); code != 1 || waited != test.want {
					t.Errorf("have exit %d after %v, want %v", code, waited, test.want)
				}
			})
		})
	}
}

func TestAnswerAfterAPersonWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := scripted(t, func(d *door) {
			d.shake()
			r := d.request()
			d.send(message.TypeEvent, message.TopicPending, quoted(r), `{"seconds":300}`)
			time.Sleep(290 * time.Second)
			d.send(message.TypeResponse, r.Topic, quoted(r), success)
		})
		if code, printed := run(t, dial, nil, "echo", "{}"); code != 0 {
			t.Errorf("have exit %d and %v, want the answer", code, printed)
		}
	})
}

// Connecting is tried again, since nothing was sent; the request is sent once.
func TestConnectingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		dead := func(*door) {}
		dial := scripted(t, dead, dead, func(d *door) {
			d.shake()
			r := d.request()
			requests++
			d.send(message.TypeResponse, r.Topic, quoted(r), success)
		})
		if code, printed := run(t, dial, nil, "echo", "{}"); code != 0 || requests != 1 {
			t.Errorf("have exit %d, %v and %d requests, want one answered", code, printed, requests)
		}
	})
}

func TestNoDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := scripted(t, func(d *door) { d.hold() })
		for name, dial := range map[string]ipc.Dialer{"none": noDoor, "silent": silent} {
			start := time.Now()
			code, printed := run(t, dial, nil, "echo", "{}")
			if code != 1 || printed["code"] != "IPC_TIMEOUT" || printed["retriable"] != true {
				t.Errorf("%s: have exit %d and %v, want IPC_TIMEOUT, to be tried again", name, code, printed)
			}
			if waited := time.Since(start); waited > 25*time.Second {
				t.Errorf("%s: have %v waited, want under 25 s", name, waited)
			}
		}
	})
}

// F-72: what is said of a door that closes the connection names no path of the host.
func TestNoPathOfTheHostIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "door.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_ = nc.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	answer := ipc.Ask(ctx, ipc.Socket(path), ipc.NewRequest("echo", "c", []byte("{}")), nil)
	if answer.Failure == nil || bytes.Contains(answer.Failure, []byte("door.sock")) {
		t.Errorf("have %s", answer.Failure)
	}
	_ = ln.Close()
	<-served
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatCannotBeWritten(t *testing.T) {
	dial := scripted(t, func(d *door) {
		d.shake()
		r := d.request()
		d.send(message.TypeResponse, r.Topic, quoted(r), success)
	})
	var failed strings.Builder
	code := ipc.Run(dial, []string{"echo", "{}"}, ipc.Streams{Out: full{}, Err: &failed})
	if code != 1 || !strings.Contains(failed.String(), "IPC_OUTPUT") {
		t.Errorf("have exit %d and %q, want IPC_OUTPUT", code, failed.String())
	}
}
