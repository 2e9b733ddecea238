package pluginhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// The test program is its own handler: a manifest's handler ["self", MODE]
// starts it again with the mode in the environment.
const modeVariable = "NACRE_TEST_HANDLER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		if behaviour, ok := strings.CutPrefix(mode, "mcp-"); ok {
			serveMCP(behaviour)
			os.Exit(0)
		}
		behave(mode)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// launch starts a handler as it is, without a sandbox.
func launch(_ context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
	argv := spec.Argv
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, spec.Env...)
	for name, value := range spec.Secrets {
		env = append(env, name+"="+value.Reveal())
	}
	if argv[0] == "self" {
		self, err := os.Executable()
		if err != nil {
			return pluginhost.Process{}, err
		}
		env = append(env, modeVariable+"="+argv[1])
		argv = []string{self}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = spec.Dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return started(cmd)
}

func started(cmd *exec.Cmd) (pluginhost.Process, error) {
	var p pluginhost.Process
	inR, inW, err := os.Pipe()
	if err != nil {
		return p, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return p, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return p, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	err = cmd.Start()
	_, _, _ = inR.Close(), outW.Close(), errW.Close()
	if err != nil {
		_, _, _ = inW.Close(), outR.Close(), errR.Close()
		return p, err
	}
	kill := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return pluginhost.Process{Stdin: inW, Stdout: outR, Stderr: errR, Wait: cmd.Wait, Kill: kill}, nil
}

// records collects what the host records.
type records struct {
	mu  sync.Mutex
	all []nacre.Record
	new chan struct{}
}

func (r *records) Append(_ context.Context, rec nacre.Record) error {
	r.mu.Lock()
	r.all = append(r.all, rec)
	r.mu.Unlock()
	select {
	case r.new <- struct{}{}:
	default:
	}
	return nil
}

func (r *records) Commit(ctx context.Context, rec nacre.Record) error { return r.Append(ctx, rec) }

// await waits until a record on the topic holds the text.
func (r *records) await(t *testing.T, topic, text string) nacre.Record {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		if rec, ok := r.find(topic, text); ok {
			return rec
		}
		select {
		case <-r.new:
		case <-late:
			t.Fatalf("no record %s with %q in %v", topic, text, r.all)
		}
	}
}

// awaitCount waits for so many records on the topic.
func (r *records) awaitCount(t *testing.T, topic string, want int) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		have := 0
		r.mu.Lock()
		for _, rec := range r.all {
			if rec.Topic == topic {
				have++
			}
		}
		r.mu.Unlock()
		if have >= want {
			return
		}
		select {
		case <-r.new:
		case <-late:
			t.Fatalf("%d records %s, want %d", have, topic, want)
		}
	}
}

func (r *records) find(topic, text string) (nacre.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.all {
		if rec.Topic == topic && strings.Contains(string(rec.Detail), text) {
			return rec, true
		}
	}
	return nacre.Record{}, false
}

// writePlugin makes a plugin's folder with the tools named.
func writePlugin(t testing.TB, root, name, extra string, tools ...string) {
	t.Helper()
	var list []string
	for _, tool := range tools {
		list = append(list, fmt.Sprintf(`{"name":%q,"description":"d","arguments_schema":{"type":"object"}}`, tool))
	}
	if extra != "" {
		extra += ","
	}
	manifest := fmt.Sprintf(`{"description":"d","version":"1.0.0",%s"provides":{"tools":[%s]}}`, extra, strings.Join(list, ","))
	writeFile(t, filepath.Join(root, name, "manifest.json"), manifest, 0o644)
}

func writeFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// started is a host with what a test needs to look at it.
type running struct {
	*pluginhost.Host
	records *records
	root    string
}

// options are the least that a host starts with.
func options(t testing.TB) pluginhost.Options {
	return pluginhost.Options{
		Launch: launch, Recorder: &records{new: make(chan struct{}, 1)}, Now: time.Now, DataRoot: t.TempDir(), Version: "0.1.0",
		Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") },
		Limits: pluginhost.Limits{Backoff: time.Millisecond},
	}
}

// start starts the plugins in root; the test's end closes the host.
func start(t testing.TB, root string, o pluginhost.Options) running {
	t.Helper()
	found, err := pluginhost.Discover(root)
	if err != nil {
		t.Fatal(err)
	}
	h, err := pluginhost.Start(t.Context(), found, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	rec, _ := o.Recorder.(*records)
	return running{h, rec, root}
}

// mode starts one plugin "p" whose handler behaves as the mode says, with the tools.
func mode(t *testing.T, mode string, o pluginhost.Options, tools ...string) running {
	t.Helper()
	root := t.TempDir()
	writePlugin(t, root, "p", fmt.Sprintf(`"handler":["self",%q]`, mode), tools...)
	return start(t, root, o)
}

func (r running) call(ctx context.Context, tool, args string) (string, error) {
	for _, t := range r.Tools() {
		if string(t.Capability.Tool) == tool {
			result, err := t.Driver.Do(ctx, nacre.Invocation{
				ID: "id", Tool: t.Capability.Tool, Capability: t.Capability.ID, Arguments: json.RawMessage(args), Correlation: "c-1",
				Principal: nacre.Principal{Group: "family", Session: "s-1"}, Time: time.Unix(1, 0).UTC(),
			})
			return string(result), err
		}
	}
	return "", fmt.Errorf("no tool %s", tool)
}

// code is the code that the kernel makes of an error: "PLUGIN_ERROR" for plain errors and "" for none.
func code(err error) string {
	var r *nacre.Refusal
	var u interface{ Unavailable() bool }
	switch {
	case err == nil:
		return ""
	case errors.As(err, &u) && u.Unavailable():
		return "PLUGIN_UNAVAILABLE"
	case errors.As(err, &r):
		return string(r.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	}
	return "PLUGIN_ERROR"
}

func TestCall(t *testing.T) {
	h := mode(t, "sdk", options(t), "echo")
	have, err := h.call(t.Context(), "echo", `{"a":[1,"ü"]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"arguments":{"a":[1,"ü"]},"correlation":"c-1","group":"family","source":"s-1","topic":"tool.invoke.echo","type":"request","version":1}`
	if have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	if id := h.Tools()[0].Capability.ID; id != "p.echo" {
		t.Errorf("capability: have %s", id)
	}
	if h.Tools()[0].Capability.ContentHash == "" {
		t.Error("the capability carries no content hash")
	}
}

func TestParallelCalls(t *testing.T) {
	h := mode(t, "sdk", options(t), "echo")
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			arg := fmt.Sprintf(`{"n":%d}`, i)
			if have, err := h.call(context.Background(), "echo", arg); err != nil || !strings.Contains(have, arg) {
				t.Errorf("call %d: have %s, %v", i, have, err)
			}
		})
	}
	all.Wait()
}

// D-14: what a handler said of a call that failed is in the log, without secrets,
// and only there.
func TestWhatAHandlerSaidOfAFailureIsRecorded(t *testing.T) {
	h := mode(t, "raw", options(t), "plain")
	if _, err := h.call(t.Context(), "plain", `{}`); code(err) != "PLUGIN_ERROR" {
		t.Errorf("have %v", err)
	}
	rec := h.records.await(t, "plugin.error", "/etc/secret")
	for _, part := range []string{`"tool":"plain"`, `"plugin":"p"`, `"error":"the handler's error 1: `, `"correlation":`} {
		if !strings.Contains(string(rec.Detail), part) {
			t.Errorf("have no %s in %s", part, rec.Detail)
		}
	}
	if strings.Contains(string(rec.Detail), "hunter2") {
		t.Errorf("the record holds a secret: %s", rec.Detail)
	}
}

// D-06, D-14, D-21: what each kind of answer becomes.
func TestAnswers(t *testing.T) {
	h := mode(t, "raw", options(t), "toolerror", "untyped", "plain", "reserved", "nan", "big", "bigidlast", "huge", "badutf8", "deep", "nothing", "both", "twice", "prints", "null", "stderr")
	for tool, want := range map[string]string{
		"toolerror": "HANDLER_ERROR", "reserved": "HANDLER_ERROR", "untyped": "PLUGIN_ERROR", "plain": "PLUGIN_ERROR",
		"nan": "PLUGIN_ERROR", "badutf8": "PLUGIN_ERROR", "deep": "PLUGIN_ERROR", "nothing": "PLUGIN_ERROR", "both": "PLUGIN_ERROR",
		"big": "HANDLER_ERROR", "bigidlast": "HANDLER_ERROR", "huge": "HANDLER_ERROR",
		"twice": "", "prints": "", "null": "", "stderr": "",
	} {
		t.Run(tool, func(t *testing.T) {
			_, err := h.call(t.Context(), tool, `{}`)
			if have := code(err); have != want {
				t.Errorf("have %q (%v), want %q", have, err, want)
			}
		})
	}
	var r *nacre.Refusal
	if _, err := h.call(t.Context(), "toolerror", `{}`); !errors.As(err, &r) || r.Original != "NOT_FOUND" || r.Message != "no such thing" || !r.Retriable {
		t.Errorf("ToolError: have %+v", r)
	}
	if _, err := h.call(t.Context(), "huge", `{}`); !errors.As(err, &r) || r.Message != "Response exceeded maximum size" {
		t.Errorf("too large: have %+v", r)
	}
	h.records.await(t, "plugin.fault", "nobody waits")
	h.records.await(t, "plugin.fault", "no message")
}

// D-14: the handler is told that nobody waits, and its late answer is dropped and recorded.
func TestLateAnswer(t *testing.T) {
	h := mode(t, "raw", options(t), "late", "cancelled", "echo")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.call(ctx, "late", `{}`); code(err) != "deadline" {
		t.Fatalf("have %v", err)
	}
	h.records.await(t, "plugin.fault", "nobody waits")
	if have, err := h.call(t.Context(), "cancelled", `{}`); err != nil || have != `1` {
		t.Errorf("cancel notifications seen by the handler: have %s, %v, want 1", have, err)
	}
}

// D-21: a crash answers calls in flight at once, and the handler comes back.
func TestCrash(t *testing.T) {
	for _, tool := range []string{"die", "kill", "closeout"} {
		t.Run(tool, func(t *testing.T) {
			h := mode(t, "raw", options(t), tool, "echo", "hang")
			var hung sync.WaitGroup
			hung.Go(func() {
				_, err := h.call(context.Background(), "hang", `{}`)
				late := err != nil && strings.Contains(err.Error(), "is not running") // it began after the crash
				if code(err) != "PLUGIN_ERROR" && !late {
					t.Errorf("call in flight: have %v", err)
				}
			})
			if _, err := h.call(t.Context(), tool, `{}`); code(err) != "PLUGIN_ERROR" {
				t.Errorf("have %v", err)
			}
			rec := h.records.await(t, "plugin.crashed", "")
			if strings.Contains(string(rec.Detail), "hunter2") {
				t.Errorf("the record holds a secret: %s", rec.Detail)
			}
			h.records.await(t, "plugin.restarted", "")
			if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
				t.Errorf("after the restart: %v", err)
			}
			_, _ = h.call(t.Context(), tool, `{}`) // ends the hung one where it went to the new process
			hung.Wait()
		})
	}
}

// A handler that no longer reads is ended and started again.
func TestClosedInput(t *testing.T) {
	h := mode(t, "raw", options(t), "closein", "echo")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.call(ctx, "closein", `{}`); code(err) != "deadline" {
		t.Errorf("have %v", err)
	}
	h.records.await(t, "plugin.restarted", "")
	if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
		t.Error(err)
	}
}

// A crash takes what the handler started with it, and does not wait for it.
func TestForkedDaemon(t *testing.T) {
	h := mode(t, "raw", options(t), "daemon")
	if _, err := h.call(t.Context(), "daemon", `{}`); code(err) != "PLUGIN_ERROR" {
		t.Errorf("have %v", err)
	}
	h.records.await(t, "plugin.restarted", "")
}

// A handler that only talks is ended, and its callers are answered.
func TestFloods(t *testing.T) {
	for _, tool := range []string{"flood", "floodanswers", "floodcallbacks", "floodlong", "deaf"} {
		t.Run(tool, func(t *testing.T) {
			o := options(t)
			o.Limits.Request = 20 * time.Second
			h := mode(t, "raw", o, tool)
			if tool == "deaf" {
				o.Limits.Request = 100 * time.Millisecond
				h = mode(t, "raw", o, tool)
			}
			if _, err := h.call(t.Context(), tool, `{}`); err == nil {
				t.Error("answered")
			}
			if tool == "deaf" {
				big := `{"a":"` + strings.Repeat("x", 90<<10) + `"}`
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					_, err := h.call(ctx, tool, big)
					cancel()
					if err == nil {
						t.Fatal("answered")
					}
				}
				return
			}
			h.records.await(t, "plugin.crashed", "")
			if n := len(h.records.all); n > 60 {
				t.Errorf("%d records of one flood", n)
			}
		})
	}
}

// D-23: a plugin that fails to start is left out, with a category and no detail.
func TestStartFailures(t *testing.T) {
	root := t.TempDir()
	for name, mode := range map[string]string{"auth": "initauth", "crash": "initcrash", "hang": "inithang", "odd": "initodd", "garbage": "initgarbage"} {
		writePlugin(t, root, name, fmt.Sprintf(`"handler":["self",%q]`, mode), name+"_tool")
	}
	writePlugin(t, root, "good", `"handler":["self","sdk"]`, "echo")
	writePlugin(t, root, "nohandler", "", "nohandler_tool")
	writePlugin(t, root, "noprogram", `"handler":["./missing"]`, "noprogram_tool")
	writePlugin(t, root, "future", `"handler":["self","sdk"],"app_compat":">=9"`, "future_tool")
	writePlugin(t, root, "config", `"handler":["self","sdk"],"config_schema":{"type":"object","required":["key"]}`, "config_tool")
	writePlugin(t, root, "Bad Name", `"handler":["self","sdk"]`, "bad_tool")
	writeFile(t, filepath.Join(root, "broken", "manifest.json"), `{"nope":1}`, 0o644)
	o := options(t)
	o.Limits.Init = 2 * time.Second
	h := start(t, root, o)
	have := map[string]string{}
	for _, f := range h.Health().Failed {
		have[string(f.Name)] = f.Category
	}
	want := map[string]string{
		"auth": "AUTH_ERROR", "crash": "INTERNAL_ERROR", "hang": "INTERNAL_ERROR", "odd": "INTERNAL_ERROR", "garbage": "INTERNAL_ERROR",
		"nohandler": "CONFIG_ERROR", "noprogram": "CONFIG_ERROR", "future": "CONFIG_ERROR", "config": "CONFIG_ERROR",
		"Bad?Name": "CONFIG_ERROR", "broken": "CONFIG_ERROR",
	}
	for name, category := range want {
		if have[name] != category {
			t.Errorf("%s: have %q, want %q", name, have[name], category)
		}
	}
	if len(have) != len(want) || len(h.Health().Healthy) != 1 || len(h.Tools()) != 1 || len(h.Skills()) != 1 {
		t.Errorf("have %v, healthy %v, %d tools, %d skills", have, h.Health().Healthy, len(h.Tools()), len(h.Skills()))
	}
	rec := h.records.await(t, "plugin.failed", `"auth"`)
	if rec.Kind != nacre.KindPlugin || rec.Reason != "AUTH_ERROR" || !strings.Contains(string(rec.Detail), "CRITICAL") || strings.Contains(string(rec.Detail), "hunter2") {
		t.Errorf("record: have %+v %s", rec, rec.Detail)
	}
	h.records.await(t, "plugin.failed", `\"nope\"`)
	if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
		t.Errorf("the others go on: %v", err)
	}
}

// D-23: no plugins at all is a host.
func TestZeroPlugins(t *testing.T) {
	h := start(t, filepath.Join(t.TempDir(), "missing"), options(t))
	have, err := json.Marshal(h.Health())
	if err != nil || string(have) != `{"healthy":[],"failed":[]}` {
		t.Errorf("have %s, %v", have, err)
	}
}

// D-25, F-63, F-65, F-66: what collides with another plugin, or takes what is nacre's own, is left out
// and says why. All else works.
func TestCollisions(t *testing.T) {
	const echo = `"handler":["self","sdk"]`
	for name, c := range map[string]struct {
		make func(t *testing.T, root string)
		// want is what is said of each plugin that is left out.
		want map[nacre.PluginName]string
	}{
		"two plugins with one tool": {func(t *testing.T, root string) {
			writePlugin(t, root, "one", echo, "same")
			writePlugin(t, root, "two", echo, "same", "other")
		}, map[nacre.PluginName]string{"one": "the tool same belongs to plugin two", "two": "the tool same belongs to plugin one"}},
		"three plugins, two tools": {func(t *testing.T, root string) {
			writePlugin(t, root, "one", echo, "a")
			writePlugin(t, root, "two", echo, "a", "b")
			writePlugin(t, root, "three", echo, "b")
		}, map[nacre.PluginName]string{"one": "plugin two", "two": "plugin one", "three": "plugin two"}},
		"a reserved name":            {func(t *testing.T, root string) { writePlugin(t, root, "one", echo, "expand_handle") }, map[nacre.PluginName]string{"one": "reserves"}},
		"a tool that exists already": {func(t *testing.T, root string) { writePlugin(t, root, "one", echo, "memory_store") }, map[nacre.PluginName]string{"one": "memory_store is nacre's own"}},
		"a plugin called core":       {func(t *testing.T, root string) { writePlugin(t, root, "core", echo, "x") }, map[nacre.PluginName]string{"core": "nacre's own"}},
		"a plugin called memory":     {func(t *testing.T, root string) { writePlugin(t, root, "memory", echo, "x") }, map[nacre.PluginName]string{"memory": "nacre's own"}},
		"one skill folder": {func(t *testing.T, root string) { writePlugin(t, root, "a-b", echo); writePlugin(t, root, "a_b", echo) },
			map[nacre.PluginName]string{"a-b": "plugin a_b", "a_b": "plugin a-b"}},
		"a memory brief": {func(t *testing.T, root string) {
			writeFile(t, filepath.Join(root, "one", "manifest.json"), `{"description":"d","version":"1.0.0","handler":["self","sdk"],"provides":{"hooks":["memory_brief"]}}`, 0o644)
		}, map[nacre.PluginName]string{"one": "memory is nacre's own"}},
		"a tool of one that is broken": {func(t *testing.T, root string) {
			writePlugin(t, root, "one", echo, "same")
			writePlugin(t, root, "two", echo, "same")
			writeFile(t, filepath.Join(root, "two", "manifest.json"), "{", 0o644)
		}, map[nacre.PluginName]string{"two": "not JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			c.make(t, root)
			writePlugin(t, root, "bystander", echo, "hello")
			o := options(t)
			o.Taken = map[nacre.ToolName]string{"memory_store": "nacre's own"}
			h := start(t, root, o)
			for who, text := range c.want {
				var problem *pluginhost.Problem
				if err := h.Problem(who); !errors.As(err, &problem) || problem.Category != plugin.CategoryConfig || !strings.Contains(err.Error(), text) {
					t.Errorf("%s: have %v, want %q in it", who, err, text)
				}
			}
			have := h.Health()
			if !slices.Contains(have.Healthy, "bystander") || len(have.Failed) != len(c.want) {
				t.Errorf("have %v, want %d left out", have, len(c.want))
			}
		})
	}
}
