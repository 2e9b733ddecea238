package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/message"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/internal/zmtp"
)

// D-01: a peer of another user is sent away before a byte is read, on the record.
func TestAnotherUserIsRefused(t *testing.T) {
	s := serve(t, crew(), config{peers: []uint32{uint32(os.Getuid()) + 1}})
	if _, err := ipc.Dial(context.Background(), ipc.Socket(s.path)); err == nil {
		t.Fatal("have a connection, want none")
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if records := s.records.all(); len(records) != 1 || !strings.Contains(string(records[0].Detail), fmt.Sprintf("user %d", os.Getuid())) {
		t.Errorf("have %+v, want the refused user on the record", records)
	}
}

// D-03: 64 requests of a session are in flight, over all its connections. The 65th is refused, and
// every one of them is answered.
func TestInFlight(t *testing.T) {
	const limit = 64
	u := newUntil()
	s := serve(t, kernel{"until": u.call, "echo": echo}, config{})
	a, b := dial(t, s), dial(t, s)
	for i := range limit {
		if err := []*ipc.Client{a, b}[i%2].Send([]byte(request("until", fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
	}
	for range limit {
		<-u.began
	}
	for _, c := range []*ipc.Client{a, b} {
		_, refusal := ask(t, c, request("echo", "65th"))
		if refusal == nil || refusal.Code != nacre.CodeRateLimited || refusal.Stage != 4 || refusal.RetryAfter != 1 || !refusal.Retriable {
			t.Errorf("have %+v, want RATE_LIMITED", refusal)
		}
	}
	close(u.end)
	seen := map[nacre.Correlation]bool{}
	for i := range limit {
		e, refusal := receive(t, []*ipc.Client{a, b}[i%2])
		if refusal != nil || seen[e.Correlation] {
			t.Errorf("have %+v, %v", e, refusal)
		}
		seen[e.Correlation] = true
	}
	if len(seen) != limit {
		t.Errorf("have %d answers, want %d", len(seen), limit)
	}
	alive(t, s)
}

// A client at its limit may send the next request the moment it has an answer.
func TestAnAnswerFreesItsPlace(t *testing.T) {
	s := serve(t, crew(), config{limits: door.Limits{InFlight: 1}})
	c := dial(t, s)
	for i := range 2000 {
		if _, refusal := ask(t, c, request("echo", "same")); refusal != nil {
			t.Fatalf("request %d: have %v", i, refusal)
		}
	}
}

// D-04: a correlation in flight is refused to a second request of its session,
// and to no other session.
func TestCorrelations(t *testing.T) {
	u := newUntil()
	k := kernel{"until": u.call, "echo": echo}
	one, two := serve(t, k, config{session: "s-1"}), serve(t, k, config{session: "s-2"})
	a, b, other := dial(t, one), dial(t, one), dial(t, two)
	if err := a.Send([]byte(request("until", "same"))); err != nil {
		t.Fatal(err)
	}
	<-u.began
	for _, c := range []*ipc.Client{a, b} {
		if _, refusal := ask(t, c, request("echo", "same")); refusal == nil || refusal.Code != nacre.CodeValidationFailed || refusal.Field != "correlation" {
			t.Errorf("have %+v, want the correlation refused", refusal)
		}
	}
	if _, refusal := ask(t, other, request("echo", "same")); refusal != nil {
		t.Errorf("have %v, want another session untouched", refusal)
	}
	close(u.end)
	if e, refusal := receive(t, a); refusal != nil || e.Topic != "tool.invoke.until" {
		t.Errorf("have %+v, %v, want the first answered", e, refusal)
	}
	if _, refusal := ask(t, b, request("echo", "same")); refusal != nil {
		t.Errorf("have %v, want the correlation free again", refusal)
	}
}

// D-07: a client that goes away cancels what it waits for, and nothing else's.
func TestAClientThatGoesAwayCancelsItsCalls(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *ipc.Client){
		"closed":             func(_ *testing.T, c *ipc.Client) { _ = c.Close() },
		"ended by a context": giveUp,
	} {
		t.Run(name, func(t *testing.T) {
			u := newUntil()
			s := serve(t, kernel{"until": u.call, "echo": echo, "late": never(t)}, config{})
			going, staying := dial(t, s), dial(t, s)
			for i, c := range []*ipc.Client{going, staying} {
				if err := c.Send([]byte(request("until", fmt.Sprint(i)))); err != nil {
					t.Fatal(err)
				}
				<-u.began
			}
			leave(t, going)
			<-u.cancelled
			close(u.end)
			if _, refusal := receive(t, staying); refusal != nil {
				t.Errorf("have %v, want the other client answered", refusal)
			}
			if len(u.cancelled) != 0 {
				t.Error("another client's call was cancelled")
			}
			alive(t, s)
		})
	}
}

// never is a tool that a client calls whose own caller has gone before.
func never(t *testing.T) tool {
	return func(context.Context, nacre.Call) (json.RawMessage, error) {
		t.Error("a call was made for a caller that had gone")
		return nil, nil
	}
}

func giveUp(t *testing.T, c *ipc.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Call(ctx, ipc.NewRequest("late", "c", []byte("{}"))); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v, want it given up", err)
	}
	_ = c.Close() // as a process that ends does
}

// The end of the session answers what is in flight and lets nothing in.
func TestTheEndOfTheSession(t *testing.T) {
	u := newUntil()
	s := serve(t, kernel{"until": u.call}, config{})
	c, idle, silent := dial(t, s), dial(t, s), raw(t, s)
	if err := c.Send([]byte(request("until", "c"))); err != nil {
		t.Fatal(err)
	}
	<-u.began
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if _, refusal := receive(t, c); refusal == nil || refusal.Code != nacre.CodePluginUnavailable || !refusal.Retriable {
		t.Errorf("have %+v, want PLUGIN_UNAVAILABLE", refusal)
	}
	for _, c := range []*ipc.Client{c, idle} {
		if _, err := c.Receive(); err == nil {
			t.Error("have a connection that outlives the session")
		}
	}
	// What the client had said and nobody read makes a reset of the close.
	if _, err := io.Copy(io.Discard, silent); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("have %v, want a client without a handshake closed too", err)
	}
	if _, err := os.Stat(s.path); err == nil {
		t.Error("the socket is still there")
	}
}

// Whatever a client does instead of shaking hands ends in time, and stops nobody.
func TestBadHandshakes(t *testing.T) {
	greeting := zmtp.AppendGreeting(nil)
	kind := func(name string) []byte {
		return zmtp.AppendReady(bytes.Clone(greeting), zmtp.Property{Name: "Socket-Type", Value: name})
	}
	mechanism := func(name string) []byte {
		g := bytes.Clone(greeting)
		copy(g[12:32], name+strings.Repeat("\x00", 20))
		return zmtp.AppendCommand(g, "HELLO", []byte("\x05admin\x05admin"))
	}
	random := make([]byte, 4096)
	rand.New(rand.NewSource(1)).Read(random)
	for name, stream := range map[string][]byte{
		"nothing at all":         nil,
		"one byte and silence":   {0xff},
		"a greeting and silence": greeting,
		"half a READY":           kind("DEALER")[:70],
		"random bytes":           random,
		"HTTP":                   []byte("POST / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"JSON without ZeroMQ":    []byte(request("echo", "c")),
		"a publisher":            kind("PUB"),
		"no socket type":         zmtp.AppendReady(greeting),
		"a message before READY": zmtp.AppendMessage(greeting, []byte(request("echo", "c"))),
		"a READY of 4 GiB":       append(greeting, 6, 0, 0, 0, 1, 0, 0, 0, 0),
		"an ERROR":               zmtp.AppendCommand(bytes.Clone(greeting), zmtp.Error, []byte("\x00")),
		"ZMTP 1":                 append([]byte{0x08, 0x00}, "identity"...),
		"ZMTP 2":                 {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1, 5},
		"the PLAIN mechanism":    mechanism("PLAIN"),
		"the CURVE mechanism":    mechanism("CURVE"),
		"an identity of 64 KiB":  zmtp.AppendReady(bytes.Clone(greeting), zmtp.Property{Name: "Socket-Type", Value: "DEALER"}, zmtp.Property{Name: "Identity", Value: strings.Repeat("i", 64<<10)}),
		"two socket types":       zmtp.AppendReady(bytes.Clone(greeting), zmtp.Property{Name: "Socket-Type", Value: "DEALER"}, zmtp.Property{Name: "socket-type", Value: "SUB"}),
		"a PING before READY":    zmtp.AppendCommand(bytes.Clone(greeting), zmtp.Ping, []byte("\x00\x0a")),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, crew(), config{limits: door.Limits{Handshake: 100 * time.Millisecond}})
			nc := raw(t, s)
			_, _ = nc.Write(stream) // it may be refused before it took everything
			alive(t, s)             // while that one is silent
			if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("have %v, want the connection closed", err)
			}
		})
	}
}

// After a good handshake: what is not ZeroMQ, does not end or stands still
// ends that connection, with nothing kept of it.
func TestBadStreams(t *testing.T) {
	long := func(n byte) []byte { return []byte{2, 0, 0, 0, 0, 0, n, 0, 0} }
	for name, stream := range map[string][]byte{
		"reserved flags":              {0xf8, 1, 2},
		"a length of 2^63":            {2, 0x80, 0, 0, 0, 0, 0, 0, 0},
		"a length of 2^62":            {2, 0x40, 0, 0, 0, 0, 0, 0, 0},
		"a message that stands still": append(long(1), "half"...),
		"too much that stands still":  append(long(200), "half"...),
		"an endless message":          bytes.Repeat([]byte{1, 0}, 100_000),
		"a malformed PING":            zmtp.AppendCommand(nil, zmtp.Ping, nil),
		"a command inside a message":  {1, 0, 4, 2, 1, 'X'},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, crew(), config{limits: door.Limits{Message: 100 * time.Millisecond}})
			nc := shaken(t, s)
			_, _ = nc.Write(stream) // it may be closed before it took everything
			if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("have %v, want the connection closed", err)
			}
			alive(t, s)
			if len(s.records.all()) != 1 {
				t.Errorf("have %+v, want one record", s.records.all())
			}
		})
	}
}

// shaken is a connection after its handshake.
func shaken(t testing.TB, s served) io.ReadWriteCloser {
	t.Helper()
	nc := raw(t, s)
	if _, err := nc.Write(zmtp.AppendReady(zmtp.AppendGreeting(nil), zmtp.Property{Name: "Socket-Type", Value: "DEALER"}, zmtp.Property{Name: "Identity", Value: "admin"})); err != nil {
		t.Fatal(err)
	}
	welcome := zmtp.AppendReady(zmtp.AppendGreeting(nil), zmtp.Property{Name: "Socket-Type", Value: "ROUTER"})
	if _, err := io.ReadFull(nc, welcome); err != nil {
		t.Fatal(err)
	}
	return nc
}

func TestPing(t *testing.T) {
	nc := shaken(t, serve(t, crew(), config{}))
	var stream []byte
	for range 1000 { // none of these concerns a ROUTER, in any number
		for _, name := range []string{"SUBSCRIBE", "CANCEL", "JOIN", zmtp.Pong, zmtp.Error, zmtp.Ready, "X"} {
			stream = zmtp.AppendCommand(stream, name, []byte("x"))
		}
	}
	if _, err := nc.Write(zmtp.AppendCommand(stream, zmtp.Ping, []byte("\x00\x0actx"))); err != nil {
		t.Fatal(err)
	}
	want := zmtp.AppendCommand(nil, zmtp.Pong, []byte("ctx"))
	have := make([]byte, len(want))
	if _, err := io.ReadFull(nc, have); err != nil || !bytes.Equal(have, want) {
		t.Errorf("have %q, %v, want %q", have, err, want)
	}
}

// Frames of another form are refused in the form they came in.
func TestForms(t *testing.T) {
	nc := shaken(t, serve(t, crew(), config{}))
	r := zmtp.NewReader(nc, message.MaxEnvelope)
	good := []byte(request("echo", "c"))
	tests := []struct {
		name      string
		parts     [][]byte
		delimited bool
		refused   bool
	}{
		{"JSON alone", [][]byte{good}, false, false},
		{"JSON behind an empty part", [][]byte{nil, good}, true, false},
		{"an empty part alone", [][]byte{nil}, false, true},
		{"two empty parts", [][]byte{nil, nil}, true, true},
		{"a routing id and JSON", [][]byte{[]byte("admin"), good}, false, true},
		{"three parts", [][]byte{nil, nil, good}, true, true},
		{"too many parts", make([][]byte, 20), true, true},
		{"too many bytes behind an empty part", [][]byte{nil, make([]byte, wire.MaxMessage+1)}, true, true},
		{"too many bytes alone", [][]byte{make([]byte, wire.MaxMessage+1)}, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := nc.Write(zmtp.AppendMessage(nil, test.parts...)); err != nil {
				t.Fatal(err)
			}
			item, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if delimited := len(item.Parts) == 2 && len(item.Parts[0]) == 0; delimited != test.delimited || !delimited && len(item.Parts) != 1 {
				t.Errorf("have %d parts, want the form of the request", len(item.Parts))
			}
			e, err := message.ParseEnvelope(item.Parts[len(item.Parts)-1])
			if err != nil {
				t.Fatal(err)
			}
			if refusal := refusalOf(t, e); (refusal != nil) != test.refused {
				t.Errorf("have %v", refusal)
			}
		})
	}
}

// A client that did not ask for events gets exactly one answer.
func TestNoEventsForPlainClients(t *testing.T) {
	k := kernel{"ask": func(_ context.Context, call nacre.Call) (json.RawMessage, error) {
		call.OnAsk(time.Unix(1<<40, 0))
		return call.Arguments, nil
	}}
	nc := shaken(t, serve(t, k, config{}))
	if _, err := nc.Write(zmtp.AppendMessage(nil, []byte(request("ask", "c")))); err != nil {
		t.Fatal(err)
	}
	item, err := zmtp.NewReader(nc, message.MaxEnvelope).Next()
	if err != nil || !strings.Contains(string(item.Parts[0]), `"type":"response"`) {
		t.Errorf("have %s, %v, want the response and nothing before it", item.Parts, err)
	}
}

// A client that sends one PING after the other and reads no PONG is given up.
func TestPingFlood(t *testing.T) {
	s := serve(t, crew(), config{limits: door.Limits{Write: 100 * time.Millisecond}})
	nc := shaken(t, s)
	flood := bytes.Repeat(zmtp.AppendCommand(nil, zmtp.Ping, []byte("\x00\x0a0123456789abcdef")), 1000)
	var err error
	for err == nil {
		_, err = nc.Write(flood)
	}
	if isTimeout(err) {
		t.Errorf("have %v, want the connection closed", err)
	}
	alive(t, s)
}

// D-03: a client that takes no answers stops nobody else's, and is given up.
func TestSlowClient(t *testing.T) {
	records := &recorder{appended: make(chan nacre.Record, 100)}
	s := serve(t, crew(), config{limits: door.Limits{Write: 100 * time.Millisecond}, records: records})
	slow := shaken(t, s)
	for i := range 20 { // far more than a socket's buffers take
		if _, err := slow.Write(zmtp.AppendMessage(nil, []byte(request("whole", fmt.Sprint(i))))); err != nil {
			t.Fatal(err)
		}
	}
	alive(t, s)
	if given := <-records.appended; !strings.Contains(string(given.Detail), "in time") {
		t.Errorf("have %s, want the client given up", given.Detail)
	}
	if _, err := io.Copy(io.Discard, slow); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("have %v, want the connection closed", err)
	}
	alive(t, s)
}

// A client that takes no answers keeps no place of the session's from others.
func TestSlowClientKeepsNoPlaces(t *testing.T) {
	u := newUntil()
	k := crew()
	k["until"] = u.call
	began := make(chan struct{})
	k["whole"] = func(ctx context.Context, call nacre.Call) (json.RawMessage, error) {
		began <- struct{}{}
		return crew()["whole"](ctx, call)
	}
	s := serve(t, k, config{limits: door.Limits{InFlight: 2, Write: time.Hour}})
	slow, quick, holder := shaken(t, s), dial(t, s), dial(t, s)
	if err := holder.Send([]byte(request("until", "holder"))); err != nil { // one place of two
		t.Fatal(err)
	}
	<-u.began
	for i := range 3 { // of which the first fills the socket's buffers, and the others wait
		if _, err := slow.Write(zmtp.AppendMessage(nil, []byte(request("whole", fmt.Sprint("slow-", i))))); err != nil {
			t.Fatal(err)
		}
		<-began
		for { // until its place is free again
			_, refusal := ask(t, quick, request("echo", "quick"))
			if refusal == nil {
				break
			}
			if refusal.Code != nacre.CodeRateLimited {
				t.Fatal(refusal)
			}
		}
	}
	close(u.end)
	_ = slow.Close() // the point is made
}

// A client that stops sending is gone, as far as the door can tell.
func TestHalfClosedClient(t *testing.T) {
	u := newUntil()
	s := serve(t, kernel{"until": u.call, "echo": echo}, config{})
	nc := raw(t, s)
	if _, err := nc.Write(zmtp.AppendMessage(zmtp.AppendReady(zmtp.AppendGreeting(nil), zmtp.Property{Name: "Socket-Type", Value: "DEALER"}), []byte(request("until", "c")))); err != nil {
		t.Fatal(err)
	}
	<-u.began
	if err := nc.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-u.cancelled
	if _, err := io.Copy(io.Discard, nc); err != nil {
		t.Errorf("have %v, want the connection closed", err)
	}
	alive(t, s)
}
