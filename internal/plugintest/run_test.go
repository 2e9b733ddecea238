package plugintest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/plugintest"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// The test program is its own handler: a manifest's handler ["self", FAULT]
// starts it again with the fault in the environment.
const faultVariable = "NACRE_TEST_FAULT"

func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv(faultVariable); ok {
		(&handler{fault: fault, notes: map[string]string{}}).serve(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	if node := os.Getenv("NACRE_NODE"); node != "" { // one that runs TypeScript as it is
		_ = os.Setenv("PATH", filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH")) // only a malformed name fails
	}
	goleak.VerifyTestMain(m)
}

// launch starts a handler as it is, without a sandbox.
func launch(_ context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
	argv := spec.Argv
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "DATA=" + spec.DataDir}, spec.Env...)
	if argv[0] == "self" {
		self, err := os.Executable()
		if err != nil {
			return pluginhost.Process{}, err
		}
		env, argv = append(env, faultVariable+"="+argv[1]), []string{self}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = spec.Dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return started(cmd)
}

func started(cmd *exec.Cmd) (p pluginhost.Process, err error) {
	var pipes [3][2]*os.File
	for i := range pipes {
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			return p, err
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	err = cmd.Start()
	_, _, _ = pipes[0][0].Close(), pipes[1][1].Close(), pipes[2][1].Close()
	if err != nil {
		_, _, _ = pipes[0][1].Close(), pipes[1][0].Close(), pipes[2][0].Close()
		return p, err
	}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return pluginhost.Process{Stdin: pipes[0][1], Stdout: pipes[1][0], Stderr: pipes[2][0], Wait: cmd.Wait, Kill: kill}, nil
}

// handler is a good one, but for its fault.
type handler struct {
	fault   string
	mu      sync.Mutex
	out     io.Writer
	notes   map[string]string
	ticket  string
	waiting []string // answers that were held back
	held    []json.RawMessage
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Ticket   string
		Envelope struct {
			Topic, Group string
			Payload      json.RawMessage
		}
	} `json:"params"`
}

func (h *handler) serve(in io.Reader, out io.Writer) {
	h.out = out
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 8<<20)
	if h.fault == "short lines" {
		lines.Buffer(nil, 64<<10)
	}
	if h.fault == "banner" {
		h.say("handler 1.0 is ready")
	}
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			os.Exit(3)
		}
		h.handle(m)
	}
	if h.fault == "deaf to the end" {
		testwait.Stay()
	}
}

func (h *handler) say(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = fmt.Fprintln(h.out, line) // the host has gone
}

func (h *handler) answer(id json.RawMessage, part string) {
	h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, part))
	if h.fault == "answers twice" {
		h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, id, part))
	}
}

const internal = `"error":{"code":-32603,"message":"internal"}`

func (h *handler) handle(m message) {
	switch m.Method {
	case "initialize":
		switch h.fault {
		case "never ready":
			return
		case "ready with an error":
			h.answer(m.ID, `"error":{"code":-32000,"message":"x","data":{"code":"AUTH_ERROR","message":"no key","retriable":false}}`)
			return
		}
		h.ticket = m.Params.Ticket
		h.answer(m.ID, `"result":{}`)
	case "handleRequest":
		h.request(m)
	case "handleEvent":
		if h.fault == "ends at an event" {
			os.Exit(4)
		}
		if h.fault == "answers events" {
			h.say(`{"jsonrpc":"2.0","method":"got it"}`)
		}
	case "cancel":
		if h.fault == "ends at a cancel" {
			os.Exit(5)
		}
	case "shutdown":
		h.end(m)
	case "verify":
		if h.fault == "verifies with true" {
			h.answer(m.ID, `"result":true`)
			return
		}
		h.answer(m.ID, `"error":{"code":-32000,"message":"x","data":{"code":"AUTH_ERROR","message":"no key","retriable":false}}`)
	default:
		switch {
		case h.fault == "silent about methods":
		case h.fault == "knows every method":
			h.answer(m.ID, `"result":{}`)
		case h.fault == "ends at an unknown method":
			os.Exit(6)
		case m.ID != nil:
			h.answer(m.ID, `"error":{"code":-32601,"message":"unknown method"}`)
		}
	}
}

func (h *handler) end(m message) {
	switch h.fault {
	case "deaf to shutdown":
		return
	case "leaves a process":
		_ = exec.Command("sleep", "60").Start()
	case "leaves a file":
		_ = os.WriteFile("/tmp/left.txt", nil, 0o600)
	}
	h.answer(m.ID, `"result":null`)
	if h.fault != "deaf to the end" {
		os.Exit(0)
	}
}

func (h *handler) request(m message) {
	tool := strings.TrimPrefix(m.Params.Envelope.Topic, "tool.invoke.")
	group := m.Params.Envelope.Group
	if h.fault == "one pot" {
		group = ""
	}
	var payload struct{ Arguments struct{ Text string } }
	if json.Unmarshal(m.Params.Envelope.Payload, &payload) != nil {
		h.answer(m.ID, internal)
		return
	}
	if h.misbehave(m) {
		return
	}
	switch tool {
	case "add":
		h.notes[group] = payload.Arguments.Text
		h.answer(m.ID, `"result":{"status":"added"}`)
	case "list", "count", "secret":
		result, _ := json.Marshal(map[string]string{tool: h.notes[group]}) // strings always are JSON
		if tool == "secret" && h.fault == "tells a credential" {
			result = []byte(`"made-up-credential-token"`)
		}
		h.reply(m.ID, `"result":`+string(result))
	case "destroy":
		h.say("it was called")
		h.answer(m.ID, `"result":null`)
	default:
		if h.fault == "has every tool" {
			h.answer(m.ID, `"result":{}`)
			return
		}
		h.answer(m.ID, internal)
	}
}

// reply mixes answers up where that is the fault: of two that are waited for,
// each gets the other's.
func (h *handler) reply(id json.RawMessage, part string) {
	if h.fault != "mixes answers" {
		h.answer(id, part)
		return
	}
	h.mu.Lock()
	h.held, h.waiting = append(h.held, id), append(h.waiting, part)
	if len(h.held) == 2 {
		a, b := h.held, h.waiting
		h.held, h.waiting = nil, nil
		h.mu.Unlock()
		h.answer(a[0], b[1])
		h.answer(a[1], b[0])
		return
	}
	h.mu.Unlock()
	time.AfterFunc(100*time.Millisecond, func() {
		h.mu.Lock()
		a, b := h.held, h.waiting
		h.held, h.waiting = nil, nil
		h.mu.Unlock()
		for i := range a {
			h.answer(a[i], b[i])
		}
	})
}

// misbehave reports whether that was all.
func (h *handler) misbehave(m message) bool {
	switch h.fault {
	case "prints":
		h.say("got a request")
	case "answers strangers":
		h.say(`{"jsonrpc":"2.0","id":777,"result":1}`)
	case "an old ticket":
		h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"getSessionInfo","params":{"ticket":%q}}`, h.ticket))
	case "crashes":
		os.Exit(7)
	case "fails":
		h.answer(m.ID, internal)
		return true
	case "says nothing":
		return true
	case "too large":
		h.answer(m.ID, `"result":"`+strings.Repeat("x", 2<<20)+`"`)
		return true
	case "not JSON":
		h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":NaN}`, m.ID))
		return true
	}
	return false
}

const text = `{"type":"object","additionalProperties":false,"required":["text"],"properties":{"text":{"type":"string"}}}`

func manifestOf(fault string) string {
	none := `{"type":"object","additionalProperties":false}`
	tool := func(name, more, schema string) string {
		return fmt.Sprintf(`{"name":%q,"description":"d",%s"arguments_schema":%s}`, name, more, schema)
	}
	return fmt.Sprintf(`{"description":"d","version":"1.0.0","verify":true,"subscribes":["message.inbound"],"handler":["self",%q],
		"install":{"credentials":[{"key":"token"}]},"provides":{"tools":[%s,%s,%s,%s,%s]}}`, fault,
		tool("add", "", text), tool("list", `"safety_class":"READ",`, none), tool("count", `"safety_class":"READ",`, none),
		tool("secret", `"safety_class":"READ",`, none), tool("destroy", `"safety_class":"DESTRUCTIVE",`, none))
}

func folder(t testing.TB, manifest string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "notes")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func options(t testing.TB, dir string) plugintest.Options {
	t.Helper()
	return plugintest.Options{
		Dir: dir, Launch: launch, Scratch: t.TempDir(), Version: "0.1.0", Now: time.Now, Patience: 700 * time.Millisecond,
		Limits: pluginhost.Limits{Init: 2 * time.Second, Request: time.Second, Shutdown: time.Second, Drain: time.Second, Backoff: time.Millisecond},
	}
}

// failures are the names of checks that failed, and what they said.
func failures(r plugintest.Report) (names []string, all string) {
	for _, c := range r.Checks {
		all += fmt.Sprintf("%s %s: %s (%s)\n", c.Status, c.Name, c.Text, c.Fix)
		if c.Status == plugintest.Failed {
			names = append(names, c.Name)
			if c.Fix == "" {
				names = append(names, c.Name+" without what to do")
			}
		}
	}
	return names, all
}

// D-22: a good plugin passes, and what it must not be called with is not called.
func TestGoodHandler(t *testing.T) {
	t.Parallel()
	o := options(t, folder(t, manifestOf("none")))
	o.Limits, o.Patience = pluginhost.Limits{}, 0 // what it does in its time may take some, on a busy machine
	report, err := plugintest.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	names, all := failures(report)
	if !report.Passed || len(names) > 0 {
		t.Errorf("failed: %v\n%s", names, all)
	}
	if !strings.Contains(all, "skipped tool destroy: not called") {
		t.Errorf("destroy was called:\n%s", all)
	}
	o.Dir, o.Scratch, o.All = folder(t, manifestOf("none")), t.TempDir(), true
	report, err = plugintest.Run(t.Context(), o)
	if names, all := failures(report); err != nil || strings.Join(names, ",") != "standard output" {
		t.Errorf("with all tools: failed %v, %v\n%s", names, err, all)
	}
}

// D-22: each rule that a handler breaks is found, by its name.
func TestEachFaultIsFound(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"banner": "standard output", "prints": "standard output", "answers events": "standard output",
		"answers twice": "one answer each", "answers strangers": "one answer each",
		"never ready": "start", "ready with an error": "start",
		"short lines": "long lines", "ends at an event": "events", "ends at a cancel": "cancel", "deaf to shutdown": "shutdown", "deaf to the end": "shutdown",
		"silent about methods": "unknown methods", "knows every method": "unknown methods", "ends at an unknown method": "unknown methods",
		"has every tool": "unknown tools", "one pot": "groups", "tells a credential": "rights", "an old ticket": "rights",
		"crashes": "stays up", "fails": "tool add", "says nothing": "tool add", "too large": "tool add", "not JSON": "tool add",
		"mixes answers": "parallel", "verifies with true": "verify",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			report, err := plugintest.Run(t.Context(), options(t, folder(t, manifestOf(fault))))
			names, all := failures(report)
			if err != nil || report.Passed || !strings.Contains(strings.Join(names, ","), want) {
				t.Errorf("failed %v, %v, want %s\n%s", names, err, want, all)
			}
			if strings.Contains(strings.Join(names, ","), "without what to do") {
				t.Errorf("%v\n%s", names, all)
			}
		})
	}
}

func TestRunRefusals(t *testing.T) {
	t.Parallel()
	if _, err := plugintest.Run(t.Context(), plugintest.Options{}); err == nil {
		t.Error("nothing given: accepted")
	}
	report, err := plugintest.Run(t.Context(), options(t, folder(t, "{")))
	if err != nil || report.Passed {
		t.Errorf("half a manifest: have %+v, %v", report, err)
	}
	o := options(t, folder(t, manifestOf("none")))
	o.Config = json.RawMessage(`{"a":1}`)
	report, err = plugintest.Run(t.Context(), o)
	if names, _ := failures(report); err != nil || strings.Join(names, ",") != "start" {
		t.Errorf("a config that nobody takes: have %v, %v", names, err)
	}
}
