package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/internal/zmtp"
)

// command is the program ipc against a door, as a process.
func command(program string, s served, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = []string{ipc.PathVariable + "=" + s.path}
	return cmd
}

// D-07: ipc is one static file of at most 4 MiB.
func TestProgramIsStaticAndSmall(t *testing.T) {
	isStatic(t, testpeer.Program(t, "ipc"), 4<<20)
}

// D-07: what goes in by stdin and out by a pipe arrives whole, up to the limit.
func TestProgramThroughPipes(t *testing.T) {
	s := serve(t, crew(), config{})
	program := testpeer.Program(t, "ipc")
	piece := `"` + strings.Repeat("x", 90<<10) + `"`
	arguments := `{"a":[` + strings.Repeat(piece+",", 10) + piece + `]}`
	echoed := command(program, s, "--justification", "pipes", "echo", "-")
	echoed.Stdin = iotest.HalfReader(strings.NewReader(arguments))
	if out, err := echoed.Output(); err != nil || string(out) != `{"result":`+arguments+`,"error":null}`+"\n" {
		t.Errorf("have %d bytes, %v, want what was sent", len(out), err)
	}
	whole := command(program, s, "tool.invoke.whole", "{}")
	pipe, err := whole.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Start(); err != nil {
		t.Fatal(err)
	}
	have, err := io.ReadAll(struct{ io.Reader }{iotest.OneByteReader(io.LimitReader(pipe, 1000))})
	rest, err2 := io.ReadAll(pipe)
	if want := wire.MaxMessage + len(`{"result":,"error":null}`+"\n"); err != nil || err2 != nil || len(have)+len(rest) != want {
		t.Errorf("have %d bytes, %v, %v, want %d", len(have)+len(rest), err, err2, want)
	}
	if err := whole.Wait(); err != nil {
		t.Error(err)
	}
}

// D-07: every failure is one object on stderr and an exit code, a handler's too.
func TestProgramErrors(t *testing.T) {
	s := serve(t, crew(), config{})
	program := testpeer.Program(t, "ipc")
	gone := served{path: s.path + "-not"}
	for _, test := range []struct {
		name string
		cmd  *exec.Cmd
		exit int
		code string
	}{
		{"a handler's error", command(program, s, "refused", "{}"), 1, "HANDLER_ERROR"},
		{"an unknown tool", command(program, s, "missing", "{}"), 1, "UNKNOWN_TOOL"},
		{"a topic that is not a tool's", command(program, s, "message.inbound", "{}"), 1, "UNKNOWN_TOOL"},
		{"a duplicate key", command(program, s, "echo", `{"a":1,"A":2}`), 1, "VALIDATION_FAILED"},
		{"bad UTF-8", command(program, s, "echo", "{\"a\":\"\xff\"}"), 1, "VALIDATION_FAILED"},
		{"arguments that are not JSON", command(program, s, "echo", "{'a':1}"), 2, "USAGE"},
		{"no door", command(program, gone, "echo", "{}"), 1, "IPC_TIMEOUT"},
		{"a rate", command(program, s, "limited", "{}"), 1, "RATE_LIMITED"},
		{"a panic", command(program, s, "panics", "{}"), 1, "PLUGIN_ERROR"},
		{"a result over the limit", command(program, s, "large", "{}"), 1, "HANDLER_ERROR"},
		{"a door that hangs up", command(program, hangsUp(t), "echo", "{}"), 1, "IPC_TIMEOUT"},
		{"a door that talks nonsense", command(program, nonsense(t), "echo", "{}"), 1, "IPC_TIMEOUT"},
		{"no arguments", command(program, s), 2, "USAGE"},
		{"an unknown flag", command(program, s, "--retry", "echo", "{}"), 2, "USAGE"},
		{"three arguments", command(program, s, "echo", "{}", "{}"), 2, "USAGE"},
		{"nothing on standard input", command(program, s, "echo", "-"), 2, "USAGE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, failed bytes.Buffer
			test.cmd.Stdout, test.cmd.Stderr = &out, &failed
			_ = test.cmd.Run() // its exit code is judged below
			var object struct{ Code string }
			if err := json.Unmarshal(failed.Bytes(), &object); err != nil {
				t.Fatalf("have %q, want one object", failed.String())
			}
			if have := test.cmd.ProcessState.ExitCode(); have != test.exit || object.Code != test.code || out.Len() != 0 {
				t.Errorf("have exit %d, %s, %q, want exit %d, %s", have, failed.String(), out.String(), test.exit, test.code)
			}
		})
	}
}

// stub is a socket whose every connection the script serves, and then ends.
func stub(t *testing.T, script func(nc net.Conn)) served {
	t.Helper()
	ln, path := listen(t)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			script(nc)
			_ = nc.Close() // the end of the script
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return served{path: path}
}

// hangsUp shakes hands, takes the request, and ends the connection.
func hangsUp(t *testing.T) served {
	return stub(t, func(nc net.Conn) {
		_, _ = nc.Write(zmtp.AppendReady(zmtp.AppendGreeting(nil), zmtp.Property{Name: "Socket-Type", Value: "ROUTER"}))
		r := zmtp.NewReader(nc, wire.MaxMessage)
		_ = r.Greeting()
		_, _ = r.Next()
		_, _ = r.Next()
	})
}

func nonsense(t *testing.T) served {
	return stub(t, func(nc net.Conn) { _, _ = io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\n\r\n") })
}

// D-07: what needs no call, and the list, which is one.
func TestProgramHelpAndList(t *testing.T) {
	s := serve(t, listing(), config{})
	program := testpeer.Program(t, "ipc")
	for _, flag := range []string{"--help", "-h"} {
		if out, err := command(program, served{path: "/nowhere"}, flag).Output(); err != nil || !strings.HasPrefix(string(out), "usage: ipc") {
			t.Errorf("%s: have %s, %v", flag, out, err)
		}
	}
	var listed struct {
		Result struct{ Tools []struct{ Name string } }
	}
	out, err := command(program, s, "--list").Output()
	if err != nil || json.Unmarshal(out, &listed) != nil || len(listed.Result.Tools) != 2 {
		t.Errorf("have %s, %v, want the tools", out, err)
	}
}

// D-07: connecting is tried again, since nothing was sent.
func TestProgramWaitsForADoorThatComesLate(t *testing.T) {
	s := serve(t, crew(), config{})
	late := s.path + "-late"
	waiting := command(testpeer.Program(t, "ipc"), served{path: late}, "echo", "{}")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.path, late); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Wait(); err != nil {
		t.Errorf("have %v, want the call answered", err)
	}
}

// D-03: parallel processes from one sandbox, each its own answer.
func TestParallelPrograms(t *testing.T) {
	s := serve(t, crew(), config{})
	program := testpeer.Program(t, "ipc")
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			out, err := command(program, s, "echo", fmt.Sprintf(`{"i":%d}`, i)).Output()
			if want := fmt.Sprintf("{\"result\":{\"i\":%d},\"error\":null}\n", i); err != nil || string(out) != want {
				t.Errorf("have %s, %v, want %s", out, err, want)
			}
		})
	}
	all.Wait()
}

// A process that is killed while a person is asked withdraws its question.
func TestKilledProgramCancelsItsQuestion(t *testing.T) {
	u := newUntil()
	k := kernel{"ask": func(ctx context.Context, call nacre.Call) (json.RawMessage, error) {
		call.OnAsk(time.Unix(1<<40, 0))
		return u.call(ctx, call)
	}, "echo": echo}
	s := serve(t, k, config{})
	asking := command(testpeer.Program(t, "ipc"), s, "ask", "{}")
	if err := asking.Start(); err != nil {
		t.Fatal(err)
	}
	<-u.began
	if err := asking.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-u.cancelled
	_ = asking.Wait() // killed
	alive(t, s)
}

// The end of the session ends a waiting ipc at once, with an answer.
func TestProgramIsToldThatTheSessionEnds(t *testing.T) {
	u := newUntil()
	s := serve(t, kernel{"until": u.call}, config{limits: door.Limits{}})
	waiting := command(testpeer.Program(t, "ipc"), s, "until", "{}")
	var failed bytes.Buffer
	waiting.Stderr = &failed
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	<-u.began
	if err := s.close(); err != nil {
		t.Error(err)
	}
	err := waiting.Wait()
	if want := "exit status 1"; fmt.Sprint(err) != want || !strings.Contains(failed.String(), "PLUGIN_UNAVAILABLE") {
		t.Errorf("have %v and %s, want %s and PLUGIN_UNAVAILABLE", err, failed.String(), want)
	}
}
