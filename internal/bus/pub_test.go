package bus_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/zmtp"
	"github.com/nacre-dev/nacre/plugin"
)

// D-32: subscriptions as messages of ZMTP 3.0 and as commands of 3.1, and their end.
func TestOutsidersSubscribe(t *testing.T) {
	for _, minor := range []byte{0, 1} {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) {
			w := open(t)
			path, _ := w.servePub(t, bus.Limits{})
			c := subscriber(t, path, minor, "task.", "ci.do")
			w.publish(t, "agent.started", "core", `{}`)
			w.publish(t, "task.created", "core", `{"key":"hunter2"}`)
			topic, envelope := c.next()
			want := `{"id":"e-2","version":1,"type":"event","topic":"task.created","source":"core","correlation":null,` +
				`"timestamp":"2026-02-17T10:30:00.000Z","group":"main","payload":{"key":"[secret]"}}`
			if topic != "task.created" || envelope != want {
				t.Errorf("have %s %s, want %s", topic, envelope, want)
			}
			w.publish(t, "ci.done", "ci", `{}`) // a prefix of ZeroMQ's is bytes
			if topic, _ := c.next(); topic != "ci.done" {
				t.Errorf("have %s", topic)
			}
			c.send(zmtp.AppendSubscription(nil, zmtp.Version{Major: 3, Minor: minor}, "task.", false))
			c.settle()
			w.publish(t, "task.created", "core", `{}`)
			w.publish(t, "ci.done", "ci", `{"n":2}`)
			if topic, _ := c.next(); topic != "ci.done" {
				t.Errorf("have %s after the end of a subscription", topic)
			}
		})
	}
}

// A prefix that is asked for twice is ended once, as libzmq has it.
func TestASubscriptionIsHeldOnce(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{})
	c := subscriber(t, path, 1, "ci", "ci", "task")
	c.send(zmtp.AppendSubscription(nil, zmtp.Version{Major: 3, Minor: 1}, "ci", false))
	c.settle()
	w.publish(t, "ci.done", "ci", `{}`)
	w.publish(t, "task.created", "core", `{}`)
	if topic, _ := c.next(); topic != "task.created" {
		t.Errorf("have %s", topic)
	}
}

// Many subscriptions match as few do.
func TestManySubscriptions(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{})
	c := subscriber(t, path, 1, "task.cr")
	for i := range bus.MaxSubscriptions - 1 {
		c.send(zmtp.AppendSubscription(nil, zmtp.Version{Major: 3, Minor: 1}, fmt.Sprintf("x%d", i), true))
	}
	c.settle()
	w.publish(t, "agent.started", "core", `{}`)
	w.publish(t, "task.created", "core", `{}`)
	if topic, _ := c.next(); topic != "task.created" {
		t.Errorf("have %s", topic)
	}
	c.send(zmtp.AppendSubscription(nil, zmtp.Version{Major: 3, Minor: 1}, "one too many", true))
	c.gone()
	w.drop(t, bus.DropProtocol)
}

// A peer that takes nothing loses its own events, and nobody else's.
func TestASlowPeerHurtsNobodyElse(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{HighWater: 1 << 20, Write: time.Hour, Drain: time.Millisecond})
	subscriber(t, path, 1, "")
	quick := subscriber(t, path, 0, "")
	payload := `{"n":"` + strings.Repeat("x", 100<<10) + `"}`
	for i := range 64 {
		topic := fmt.Sprintf("ci.n%d", i)
		w.publish(t, topic, "ci", payload)
		if have, _ := quick.next(); have != topic {
			t.Fatalf("have %s, want %s", have, topic)
		}
	}
	if d := w.drop(t, bus.DropQueue); d.Who != "outsiders" || d.Group != "main" {
		t.Errorf("have %+v", d)
	}
}

// In the end it loses its connection.
func TestAPeerThatTakesNothingIsCut(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{Write: time.Millisecond})
	slow := subscriber(t, path, 1, "")
	payload := `{"n":"` + strings.Repeat("x", 100<<10) + `"}`
	for range 30 {
		w.publish(t, "ci.done", "ci", payload)
	}
	w.drop(t, bus.DropSlow)
	slow.gone()
}

// Peers that greet and say no more take nobody's place, and are cut in the end.
func TestAHandshakeThatHangsHurtsNobody(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{Peers: 1, Handshake: time.Second})
	for _, half := range [][]byte{nil, greeting(1)[:5], greeting(1), append(greeting(1), ready("SUB")[:4]...)} {
		dial(t, path).send(half)
	}
	c := subscriber(t, path, 1, "")
	w.publish(t, "ci.done", "ci", `{}`)
	if topic, _ := c.next(); topic != "ci.done" {
		t.Errorf("have %s", topic)
	}
	w.drop(t, bus.DropSlow)
}

func TestThereIsALimitOfPeers(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{Peers: 1})
	c := subscriber(t, path, 1, "")
	join(t, path, "SUB", 1).gone()
	w.drop(t, bus.DropPeers)
	for range 80 { // more connections than may greet at once
		dial(t, path)
	}
	w.drop(t, bus.DropPeers)
	w.publish(t, "ci.done", "ci", `{}`)
	if topic, _ := c.next(); topic != "ci.done" {
		t.Errorf("have %s", topic)
	}
}

// garbage is what no peer of either endpoint sends.
func garbage() map[string][]byte {
	joined := func(kind string, more ...byte) []byte { return append(append(greeting(1), ready(kind)...), more...) }
	property := append([]byte{0}, bytes.Repeat([]byte{'a'}, 9)...)
	return map[string][]byte{
		"HTTP":                         []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS":                          {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3},
		"zeros":                        make([]byte, 100),
		"ones":                         bytes.Repeat([]byte{0xff}, 100),
		"a greeting of version 2":      append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1}, make([]byte, 64)...),
		"another mechanism":            bytes.Replace(greeting(1), []byte("NULL"), []byte("PLAIN"), 1)[:64],
		"a message for a READY":        append(greeting(1), zmtp.AppendMessage(nil, []byte("x"))...),
		"another command":              append(greeting(1), zmtp.AppendCommand(nil, "HELLO", nil)...),
		"a malformed READY":            append(greeting(1), zmtp.AppendCommand(nil, zmtp.Ready, property)...),
		"no socket type":               append(greeting(1), zmtp.AppendCommand(nil, zmtp.Ready, nil)...),
		"a DEALER":                     joined("DEALER"),
		"a ROUTER":                     joined("ROUTER"),
		"a REQ":                        joined("REQ"),
		"reserved flags, after a PUB":  joined("PUB", 0x80, 0),
		"reserved flags, after a SUB":  joined("SUB", 0x80, 0),
		"2^64 bytes, after a PUB":      joined("PUB", binary.BigEndian.AppendUint64([]byte{2}, 1<<64-1)...),
		"2^64 bytes, after a SUB":      joined("SUB", binary.BigEndian.AppendUint64([]byte{2}, 1<<64-1)...),
		"a command of a megabyte, PUB": joined("PUB", binary.BigEndian.AppendUint64([]byte{6}, 1<<20)...),
		"a command of a megabyte, SUB": joined("SUB", binary.BigEndian.AppendUint64([]byte{6}, 1<<20)...),
		"a malformed PING, PUB":        joined("PUB", zmtp.AppendCommand(nil, zmtp.Ping, []byte{0})...),
		"a malformed PING, SUB":        joined("SUB", zmtp.AppendCommand(nil, zmtp.Ping, []byte{0})...),
		"parts without end":            joined("PUB", bytes.Repeat([]byte{1, 0}, 5000)...),
		"a subscription of a kilobyte": joined("SUB", zmtp.AppendMessage(nil, append([]byte{1}, make([]byte, 1<<10)...))...),
		"one as a command":             joined("SUB", zmtp.AppendCommand(nil, zmtp.Subscribe, make([]byte, 1<<10))...),
	}
}

// D-32: garbage ends its own connection, and nothing else.
func TestGarbageHurtsNobody(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{})
	from := w.servePublisher(t, ci(), bus.Limits{})
	events := w.all(t, 10, "")
	c, p := subscriber(t, path, 1, "ci"), join(t, from, "PUB", 1)
	for name, bad := range garbage() {
		for _, at := range []string{path, from} {
			g := dial(t, at)
			_, _ = g.Write(bad) // the host may have cut it before the last byte
			g.gone()
		}
		p.send(zmtp.AppendMessage(nil, []byte("ci.done"), []byte(`{}`)))
		if topic, _ := c.next(); topic != "ci.done" {
			t.Errorf("%s: have %s", name, topic)
		}
		<-events.Events()
	}
}

// What a SUB says that is no subscription means nothing.
func TestOtherMessagesAreIgnored(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{})
	c := join(t, path, "XSUB", 1)
	for _, m := range [][]byte{
		zmtp.AppendMessage(nil, nil), zmtp.AppendMessage(nil, []byte("\x02ci")), zmtp.AppendMessage(nil, []byte("\x01"), []byte("ci")),
		zmtp.AppendCommand(nil, "UNKNOWN", []byte("ci")), zmtp.AppendCommand(nil, zmtp.Pong, nil), zmtp.AppendMessage(nil, []byte("\x01task")),
	} {
		c.send(m)
	}
	c.settle()
	w.publish(t, "ci.done", "ci", `{}`)
	w.publish(t, "task.created", "core", `{}`)
	if topic, _ := c.next(); topic != "task.created" {
		t.Errorf("have %s", topic)
	}
}

// At the end subscribers get what waits for them, and then the end.
func TestTheEndDrains(t *testing.T) {
	for name, end := range map[string]func(w *world, stop func()){
		"of the bus":      func(w *world, _ func()) { w.Close() },
		"of the endpoint": func(_ *world, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			path, stop := w.servePub(t, bus.Limits{Drain: patience})
			c := subscriber(t, path, 1, "")
			dial(t, path) // one that hangs is not waited for
			payload := `{"n":"` + strings.Repeat("x", 100<<10) + `"}`
			for range 16 {
				w.publish(t, "ci.done", "ci", payload)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				end(w, stop)
			}()
			for range 16 {
				if topic, _ := c.next(); topic != "ci.done" {
					t.Errorf("have %s", topic)
				}
			}
			c.gone()
			<-ended
		})
	}
}

// A listener that fails is an error, and keeps no peer.
func TestAListenerThatFailsEndsItsPeers(t *testing.T) {
	w := open(t)
	ln, path := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- w.ServePub(context.Background(), ln, bus.Limits{}) }()
	c := subscriber(t, path, 1, "")
	_ = ln.Close() // as if it had failed
	c.gone()
	if err := <-ended; err == nil {
		t.Error("have no error")
	}
}

// Neither does one that is in the middle of what it says.
func TestTheEndWaitsForNoSubscription(t *testing.T) {
	w := open(t)
	path, stop := w.servePub(t, bus.Limits{Message: time.Hour})
	c := subscriber(t, path, 1, "")
	c.send([]byte{0, 9, 1})
	stop()
}

// A peer that takes nothing does not keep the end waiting beyond its limit.
func TestTheEndWaitsForNobodyForLong(t *testing.T) {
	w := open(t)
	path, stop := w.servePub(t, bus.Limits{Drain: time.Millisecond, Write: time.Hour})
	subscriber(t, path, 1, "")
	for range 30 {
		w.publish(t, "ci.done", "ci", `{"n":"`+strings.Repeat("x", 100<<10)+`"}`)
	}
	stop()
}

// Follow is a SUB: it gets what whole parts of topics name.
func TestFollow(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{})
	nc, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan plugin.Envelope)
	ended := make(chan error, 1)
	go func() {
		ended <- bus.Follow(t.Context(), nc, []string{"ci", "task."}, func(e plugin.Envelope) error { seen <- e; return nil })
	}()
	first := w.until(t, seen, "ci.probe")
	if first.Topic != "ci.probe" || first.Source != "ci" || first.Group != "main" || string(first.Payload) != `{}` {
		t.Errorf("have %+v", first)
	}
	w.publish(t, "cix.y", "cix", `{}`)
	w.publish(t, "task.created", "core", `{}`)
	for e := range seen {
		if e.Topic == "task.created" {
			break
		}
		if e.Topic != "ci.probe" {
			t.Errorf("have %s", e.Topic)
		}
	}
	w.Close()
	if err := <-ended; err != nil {
		t.Errorf("have %v at the end of the bus", err)
	}
}

// until publishes a probe again and again until somebody who is about to
// subscribe has it.
func (w *world) until(t testing.TB, seen <-chan plugin.Envelope, topic string) plugin.Envelope {
	t.Helper()
	late := time.After(patience)
	for {
		source, _, _ := strings.Cut(topic, ".")
		w.publish(t, topic, source, `{}`)
		select {
		case e := <-seen:
			return e
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatal("nobody subscribed")
		}
	}
}

// An endpoint that is none of ours, or that lies, is told from one that ends.
func TestFollowRefusesWhatIsNoEvent(t *testing.T) {
	event := `{"id":"1","version":1,"type":"event","topic":"ci.done","source":"ci","correlation":null,"timestamp":"2026-02-17T10:30:00Z","group":"","payload":{}}`
	for name, frames := range map[string][]byte{
		"one frame":             zmtp.AppendMessage(nil, []byte("ci.done")),
		"no envelope":           zmtp.AppendMessage(nil, []byte("ci.done"), []byte(`{}`)),
		"another version":       zmtp.AppendMessage(nil, []byte("ci.done"), []byte(strings.Replace(event, `"version":1`, `"version":2`, 1))),
		"another topic":         zmtp.AppendMessage(nil, []byte("ci.other"), []byte(event)),
		"an answer":             zmtp.AppendMessage(nil, []byte("ci.done"), []byte(strings.Replace(event, `"event"`, `"response"`, 1))),
		"a command in a frame":  {5, 1, 0},
		"a message that is big": zmtp.AppendMessage(nil, []byte("ci.done"), make([]byte, 2<<20)),
	} {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = theirs.Close() }() // done
			_, _ = theirs.Write(append(greeting(1), ready("PUB")...))
			_, _ = theirs.Write(frames)
		}()
		go func() { _, _ = copyAll(theirs) }()
		err := bus.Follow(t.Context(), ours, []string{""}, func(plugin.Envelope) error { return errors.New("taken") })
		if err == nil || err.Error() == "taken" {
			t.Errorf("%s: have %v", name, err)
		}
	}
}

func copyAll(nc net.Conn) (n int64, err error) {
	b := make([]byte, 1<<10)
	for {
		m, err := nc.Read(b)
		if n += int64(m); err != nil {
			return n, err
		}
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	w := open(t)
	path, _ := w.servePub(t, bus.Limits{})
	nc, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bus.Follow(ctx, nc, []string{""}, func(plugin.Envelope) error { return nil }) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
}
