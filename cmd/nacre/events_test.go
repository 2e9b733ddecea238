package main_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/bus"
	"github.com/nacre-dev/nacre/internal/registry"
)

// daemon is the bus of a nacre serve, with the socket that others find it by.
type daemon struct {
	*bus.Bus
	path string
	end  func()
}

func (i *installation) daemon(name string) *daemon {
	i.t.Helper()
	paths, err := registry.ResolvePaths(func(key string) string {
		at := slices.IndexFunc(i.env, func(entry string) bool { return strings.HasPrefix(entry, key+"=") })
		if at < 0 {
			return ""
		}
		return strings.TrimPrefix(i.env[at], key+"=")
	})
	if err != nil {
		i.t.Fatal(err)
	}
	var ids atomic.Int64
	b, err := bus.New(bus.Deps{
		Now: time.Now, NewID: func() string { return strconv.FormatInt(ids.Add(1), 10) },
		Redact:  func(document []byte) ([]byte, []string) { return document, nil },
		Dropped: func(bus.Drop) {},
	})
	if err != nil {
		i.t.Fatal(err)
	}
	path := paths.EventsSocket(name)
	ln, err := bus.Listen(context.Background(), netip.AddrPort{}, path)
	if err != nil {
		i.t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := b.ServePub(context.Background(), ln, bus.Limits{}); err != nil {
			i.t.Error(err)
		}
	})
	d := &daemon{Bus: b, path: path, end: func() { b.Close(); served.Wait() }}
	i.t.Cleanup(d.end)
	return d
}

func (d *daemon) publish(t *testing.T, topic, source, payload string) {
	t.Helper()
	if _, err := d.Publish(t.Context(), bus.Event{Topic: topic, Source: source, Group: "main", Payload: []byte(payload)}); err != nil {
		t.Error(err)
	}
}

// while does something again and again until the command has ended: when a
// subscriber has joined is its own affair.
func while(t *testing.T, r *running, do func()) result {
	t.Helper()
	done := make(chan struct{})
	var doing sync.WaitGroup
	doing.Go(func() {
		for {
			do()
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	have := finish(t, r)
	close(done)
	doing.Wait()
	return have
}

// D-32: events of a running nacre serve, for people.
func TestEventsTailShowsALineAnEvent(t *testing.T) {
	i := install(t)
	d := i.daemon("one")
	have := while(t, i.begin("events", "tail", "--topic", "message", "--count", "1"), func() {
		d.publish(t, "message.inbound", "local",
			`{"channel":"local","sender":"ada","content_type":"text","body":"at\nfive \u001b[31m\u202ered`+strings.Repeat("x", 200)+`"}`)
	})
	have.want(t, 0, "message.inbound", "main", "local ada: at five \\x1b[31m\\u202ered", "…")
	if lines := strings.Count(have.stdout, "\n"); lines != 1 || len(have.stdout) > 250 {
		t.Errorf("have %q", have.stdout)
	}
}

// D-32: and for scripts, of the topics that were asked for only.
func TestEventsTailPrintsJSON(t *testing.T) {
	i := install(t)
	d := i.daemon("one")
	have := while(t, i.begin("events", "tail", "--json", "--topic", "task.triggered", "--topic", "ci.", "--count", "2"), func() {
		d.publish(t, "task.created", "core", `{"n":0}`)
		d.publish(t, "cix.done", "cix", `{"n":0}`)
		d.publish(t, "ci.done", "ci", `{"n":1}`)
	})
	have.want(t, 0, `"version":1,"type":"event","topic":"ci.done","source":"ci","correlation":null,`, `"group":"main","payload":{"n":1}}`)
	if strings.Count(have.stdout, "\n") != 2 || strings.Contains(have.stdout, `"n":0`) {
		t.Errorf("have %s", have.stdout)
	}
}

// Two daemons are shown as one, a dead one's socket is passed over.
func TestEventsTailShowsEveryDaemon(t *testing.T) {
	i := install(t)
	one, two := i.daemon("one"), i.daemon("two")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(filepath.Dir(one.path), "events-dead.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close() // dead
	r := i.watch("events", "tail")
	one.until(t, r, " one.n ", "one.n", "one")
	two.until(t, r, " two.n ", "two.n", "two")
	if err := r.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	finish(t, r.running).want(t, 130)
}

// Without a count a time-out is an end like any other.
func TestEventsTailEndsInTime(t *testing.T) {
	i := install(t)
	i.daemon("one")
	i.nacre("events", "tail", "--timeout", "100ms").want(t, 0)
	i.nacre("events", "tail", "--topic", "task", "--count", "1", "--timeout", "100ms").want(t, 124, "0 of 1 events came in 100ms")
}

// The end of all daemons is the end, and too few events are a failure.
func TestEventsTailEndsWithItsDaemons(t *testing.T) {
	for code, args := range map[int][]string{0: {"events", "tail"}, 1: {"events", "tail", "--count", "1000000"}} {
		i := install(t)
		d := i.daemon("one")
		r := i.watch(args...)
		d.until(t, r, " ci.done ", "ci.done", "ci")
		d.end()
		have := finish(t, r.running)
		if have.want(t, code); code == 1 {
			have.want(t, 1, "nacre serve ended after")
		}
	}
}

// watched is a command whose output is looked at while it runs.
type watched struct {
	*running
	mu sync.Mutex
}

// Write is its standard output.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stdout.Write(p)
}

func (w *watched) shows(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(w.stdout.String(), text)
}

func (i *installation) watch(args ...string) *watched {
	i.t.Helper()
	w := &watched{running: &running{Cmd: i.command(filepath.Join(bin, "nacre"), args...)}}
	w.Stdout, w.Stderr = w, &w.stderr
	if err := w.Start(); err != nil {
		i.t.Fatal(err)
	}
	return w
}

// until publishes an event again and again until the command shows the text.
func (d *daemon) until(t *testing.T, w *watched, text, topic, source string) {
	t.Helper()
	late := time.After(time.Minute)
	for !w.shows(text) {
		d.publish(t, topic, source, `{}`)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatalf("%q was not shown", text)
		}
	}
}
