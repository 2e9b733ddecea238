package main_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/budget"
	"github.com/nacre-dev/nacre/internal/door"
	"github.com/nacre-dev/nacre/internal/model"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxProgram is the largest that the program may be, in bytes.
const maxProgram = 8 << 20

// M-03: the native loop is a static binary of its own, and a small one.
func TestTheProgramIsStaticAndSmall(t *testing.T) {
	program := testpeer.Program(t, "brain")
	file, err := elf.Open(program)
	if err != nil {
		t.Skip("not an ELF system:", err)
	}
	defer func() { _ = file.Close() }() // read only
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("have a segment %v, want a static program", segment.Type)
		}
	}
	info, err := os.Stat(program)
	if err != nil || info.Size() > maxProgram {
		t.Errorf("have %d bytes, %v, want at most %d", info.Size(), err, maxProgram)
	}
	t.Logf("brain has %d bytes", info.Size())
}

// kernel has one tool besides the list of tools.
type kernel struct{ called chan nacre.Call }

func (kernel) Has(name nacre.ToolName) bool { return name == "list_tools" || name == "create_reminder" }

func (kernel) Source(nacre.ToolName) string { return "reminders" }

func (k kernel) Call(_ context.Context, call nacre.Call) (nacre.Outcome, error) {
	if call.Tool == "list_tools" {
		return nacre.Outcome{Result: json.RawMessage(
			`{"tools":[{"name":"create_reminder","description":"Remind","arguments_schema":{"type":"object","properties":{"text":{"type":"string"}}}}]}`)}, nil
	}
	k.called <- call
	return nacre.Outcome{Result: json.RawMessage(`{"id":"reminder-7"}`)}, nil
}

type recorder struct{}

func (recorder) Append(context.Context, nacre.Record) error { return nil }
func (recorder) Commit(context.Context, nacre.Record) error { return nil }

// openDoor serves a door for k at the path it returns.
func openDoor(t *testing.T, k kernel) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "brain") //nolint:usetesting // a unix socket's path holds 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	open := func(b []byte) ([]byte, []string) { return b, nil }
	go func() {
		ended <- door.Serve(ctx, listener, door.Session{
			ID: "s1", Group: "g", PeerUID: []uint32{uint32(os.Getuid())}, Principal: nacre.Principal{ID: "p", Group: "g", Session: "s1"},
		}, k, door.Deps{
			Recorder: recorder{}, Redact: open, Sanitize: open,
			Now: time.Now, NewID: func() string { return "id" },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir) // a temporary folder
	})
	return path
}

// openGateway serves the real gateway before a scripted model.
func openGateway(t *testing.T, upstream string) string {
	t.Helper()
	base, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	prices := budget.ListPrices()
	g, err := model.New(model.Options{
		Upstreams: []model.Upstream{
			{URL: base, Key: nacre.NewSecret("the-operators-key"), Dialects: []model.Dialect{model.Anthropic, model.Chat, model.Responses}, Prices: prices},
		},
		SessionToken: nacre.NewSecret("session-token"), Budget: 1_000_000_000, Prices: prices, Record: recorder{}, Session: "s1", Group: "g", Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

const script = `{"forbid": ["session-token"], "turns": [
	{"thinking": "hm", "text": "Looking.", "tools": [{"name": "shell", "input": {"command": "cat a.txt"}}, {"name": "create_reminder", "input": {"text":"<b> & c"}}],
	 "expect": {"tools": ["shell", "create_reminder"]}},
	{"tools": [{"name": "shell", "raw": "{\"command\": "}], "fault": {"status": 529, "times": 1, "retry_after": 1},
	 "expect": {"contains": ["words of the file", "reminder-7"], "error": false}},
	{"text": "It is done.", "expect": {"contains": ["not JSON"], "error": true}}]}`

// M-03, M-04, D-07: the program as it ships, before the real gateway and the
// real door.
func TestTheProgramWorksThroughTheGatewayAndTheDoor(t *testing.T) {
	program := testpeer.Program(t, "brain")
	for name, c := range map[string]struct {
		args     []string
		url, key string
	}{
		"Messages":         {[]string{brain.AnthropicName, "--model", "claude-opus-5-5"}, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"},
		"Chat Completions": {[]string{brain.OpenAIName, "--model", "gpt-5.4"}, "OPENAI_BASE_URL", "OPENAI_API_KEY"},
		"Responses":        {[]string{brain.OpenAIName, "--model", "gpt-5.4", "--responses"}, "OPENAI_BASE_URL", "OPENAI_API_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := scriptedmodel.Read(strings.NewReader(script))
			if err != nil {
				t.Fatal(err)
			}
			played := scriptedmodel.New(read)
			upstream := httptest.NewServer(played)
			t.Cleanup(upstream.Close)
			k := kernel{make(chan nacre.Call, 10)}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("words of the file"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, c.args...)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader("do it")
			cmd.Env = []string{
				c.url + "=" + openGateway(t, upstream.URL), c.key + "=session-token", "NACRE_DOOR=" + openDoor(t, k),
				"PATH=" + os.Getenv("PATH"), "HTTP_PROXY=http://127.0.0.1:1",
			}
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Errorf("%v: %s", err, &stderr)
			}
			for _, failure := range played.Failures() {
				t.Error("the model: " + failure)
			}
			for _, want := range []string{`{"kind":"done","text":"It is done."}`, `"kind":"retry"`, `"text":"{\"id\":\"reminder-7\"}"`} {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("have %s, want %s in it", &stdout, want)
				}
			}
			if call := <-k.called; string(call.Arguments) != `{"text":"<b> & c"}` {
				t.Errorf("the door was given %s", call.Arguments)
			}
		})
	}
}

// What the program runs is the same user's, and still has no way to its token.
func TestCommandsCannotReadTheTokenOfTheProgram(t *testing.T) {
	dir, err := os.MkdirTemp("", "brain") //nolint:usetesting // another user must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary folder
	program := filepath.Join(dir, "brain")
	data, err := os.ReadFile(testpeer.Program(t, "brain"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(program, data, 0o600), os.Chmod(program, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	read, err := scriptedmodel.Read(strings.NewReader(`{"forbid": ["session-token"], "turns": [
		{"tools": [{"name": "shell", "input": {"command": "echo tried; cat /proc/$PPID/environ; echo X > /proc/$PPID/fd/1"}}]},
		{"text": "It is done.", "expect": {"contains": ["tried", "environ", "exit code"], "error": true}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	played := scriptedmodel.New(read)
	upstream := httptest.NewServer(played)
	t.Cleanup(upstream.Close)
	cmd := exec.CommandContext(t.Context(), program, brain.AnthropicName, "--model", "claude-opus-5-5")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader("do it")
	cmd.Env = []string{
		"ANTHROPIC_BASE_URL=" + openGateway(t, upstream.URL), "ANTHROPIC_API_KEY=session-token", "NACRE_DOOR=" + openDoor(t, kernel{}),
		"PATH=" + os.Getenv("PATH"),
	}
	if os.Getuid() == 0 { // who may read everything proves nothing
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if out, err := cmd.Output(); err != nil || strings.Contains(string(out), "\nX\n") {
		t.Errorf("%v: %s", err, out)
	}
	for _, failure := range played.Failures() {
		t.Error("the model: " + failure)
	}
}
