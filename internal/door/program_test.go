package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/wire"
)

const ipcPackage = "github.com/nacre-dev/nacre/cmd/ipc"

// command is the program ipc against a door, as a process.
func command(program string, s served, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = []string{ipc.PathVariable + "=" + s.path}
	return cmd
}

// D-07: ipc is one static file of at most 4 MiB.
func TestProgramIsStaticAndSmall(t *testing.T) {
	isStatic(t, build(t, ipcPackage), 4<<20)
}

// D-07: what goes in by stdin and out by a pipe arrives whole, up to the limit.
func TestProgramThroughPipes(t *testing.T) {
	s := serve(t, crew(), config{})
	program := build(t, ipcPackage)
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
	program := build(t, ipcPackage)
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

// A process that is killed while a person is asked withdraws its question.
func TestKilledProgramCancelsItsQuestion(t *testing.T) {
	u := newUntil()
	k := kernel{"ask": func(ctx context.Context, call nacre.Call) (json.RawMessage, error) {
		call.OnAsk(time.Unix(1<<40, 0))
		return u.call(ctx, call)
	}, "echo": echo}
	s := serve(t, k, config{})
	asking := command(build(t, ipcPackage), s, "ask", "{}")
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
	waiting := command(build(t, ipcPackage), s, "until", "{}")
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
