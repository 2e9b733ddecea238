package door_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// More connections than the limit are closed at once; a place that is given up is free.
func TestConnections(t *testing.T) {
	s := serve(t, crew(), config{limits: door.Limits{Connections: 3}})
	clients := []*ipc.Client{dial(t, s), dial(t, s), dial(t, s)}
	if _, err := ipc.Dial(context.Background(), ipc.Socket(s.path)); err == nil {
		t.Fatal("have a fourth connection, want three")
	}
	for _, c := range clients {
		if _, refusal := ask(t, c, request("echo", "c")); refusal != nil {
			t.Error(refusal)
		}
	}
	_ = clients[0].Close() // the point
	var out, failed bytes.Buffer
	if code := ipc.Run(ipc.Socket(s.path), []string{"echo", "{}"}, ipc.Streams{Out: &out, Err: &failed}); code != 0 {
		t.Errorf("have exit %d and %s, want the place taken", code, failed.String())
	}
}

// F-75: a client waits for as long as the door says, which may be less than it would.
func TestADoorSaysHowLongToWait(t *testing.T) {
	u := newUntil()
	s := serve(t, kernel{"until": u.call}, config{answer: func() time.Duration { return time.Second }})
	var out, failed bytes.Buffer
	code := ipc.Run(ipc.Socket(s.path), []string{"until", "{}"}, ipc.Streams{Out: &out, Err: &failed})
	close(u.end)
	if code != 1 || !bytes.Contains(failed.Bytes(), []byte("no answer came in time")) {
		t.Errorf("have exit %d and %s", code, failed.String())
	}
}

// F-72: connections that say nothing keep nobody out, however many there are; those that
// shook hands before stay.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	s := serve(t, crew(), config{limits: door.Limits{Connections: 4, Handshake: time.Hour}})
	before := dial(t, s)
	for range 20 {
		nc, err := net.Dial("unix", s.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
	}
	for range 3 {
		var out, failed bytes.Buffer
		if code := ipc.Run(ipc.Socket(s.path), []string{"echo", "{}"}, ipc.Streams{Out: &out, Err: &failed}); code != 0 {
			t.Errorf("have exit %d and %s, want an answer", code, failed.String())
		}
	}
	if _, refusal := ask(t, before, request("echo", "c")); refusal != nil {
		t.Error(refusal)
	}
}

// Thousands of connections that say nothing cost no more than the limit, and
// free their places in time.
func TestThousandsOfConnections(t *testing.T) {
	const limit = 32
	s := serve(t, crew(), config{limits: door.Limits{Connections: limit, Handshake: 100 * time.Millisecond}})
	descriptorsBefore, before := descriptors(t), runtime.NumGoroutine()
	for range 20 {
		var crowd []net.Conn
		for range 150 {
			nc, err := net.Dial("unix", s.path)
			if err != nil {
				t.Fatal(err)
			}
			crowd = append(crowd, nc)
		}
		if have := runtime.NumGoroutine(); have > before+3*limit {
			t.Errorf("have %d goroutines, %d before", have, before)
		}
		for _, nc := range crowd {
			_ = nc.Close() // the point
		}
	}
	var out, failed bytes.Buffer
	if code := ipc.Run(ipc.Socket(s.path), []string{"echo", "{}"}, ipc.Streams{Out: &out, Err: &failed}); code != 0 {
		t.Errorf("have exit %d and %s, want a place for who comes later", code, failed.String())
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	testwait.Until(t, "descriptors to be closed", func() bool { return descriptors(t) <= descriptorsBefore })
	if have := len(s.records.all()); have > 200 {
		t.Errorf("have %d records of 3000 connections", have)
	}
}

// Parallel ipc calls from one session: nothing lost, each its own answer.
func TestParallelIPC(t *testing.T) {
	s := serve(t, crew(), config{})
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			var out, failed bytes.Buffer
			code := ipc.Run(ipc.Socket(s.path), []string{"echo", fmt.Sprintf(`{"i":%d}`, i)}, ipc.Streams{Out: &out, Err: &failed})
			if want := fmt.Sprintf("{\"result\":{\"i\":%d},\"error\":null}\n", i); code != 0 || out.String() != want {
				t.Errorf("have exit %d, %q, %q, want %q", code, out.String(), failed.String(), want)
			}
		})
	}
	all.Wait()
}

// Ten thousand messages, good and bad in any order, over connections that come
// and go: each is answered, and nothing is left open.
func TestTenThousandMessages(t *testing.T) {
	s := serve(t, crew(), config{})
	before := descriptors(t)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() { mixed(t, s, rand.New(rand.NewSource(int64(worker))), 1250) })
	}
	all.Wait()
	alive(t, s)
	if err := s.close(); err != nil {
		t.Error(err)
	}
	testwait.Until(t, "descriptors to be closed", func() bool { return descriptors(t) <= before })
}

func mixed(t *testing.T, s served, random *rand.Rand, n int) {
	var c *ipc.Client
	for i := range n {
		if c == nil {
			var err error
			if c, err = ipc.Dial(context.Background(), ipc.Socket(s.path)); err != nil {
				t.Error(err)
				return
			}
		}
		id := fmt.Sprintf("%d-%d", random.Int(), i)
		switch random.Intn(5) {
		case 0:
			garbage := make([]byte, random.Intn(300))
			random.Read(garbage)
			expect(t, c, string(garbage), "", true)
		case 1:
			good := request("echo", id)
			expect(t, c, good[:random.Intn(len(good)-1)], "", true)
		case 2:
			if random.Intn(10) == 0 {
				_ = c.Send([]byte(request("echo", id))) // and it does not wait
				_ = c.Close()                           // the point
				c = nil
			}
		default:
			expect(t, c, request("echo", id), id, false)
		}
	}
	if c != nil {
		_ = c.Close() // done
	}
}

func expect(t *testing.T, c *ipc.Client, message, correlation string, refused bool) {
	t.Helper()
	err := c.Send([]byte(message))
	if err != nil {
		t.Error(err)
		return
	}
	e, err := c.Receive()
	if err != nil {
		t.Error(err)
		return
	}
	if have := refusalOf(t, e); (have != nil) != refused || !refused && string(e.Correlation) != correlation {
		t.Errorf("%.60q: have %+v, %v", message, e, have)
	}
}

// descriptors counts the open ones of this process, where the system says.
func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log("descriptors are not counted here:", err)
		return 0
	}
	return len(entries)
}
