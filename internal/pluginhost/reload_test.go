package pluginhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/plugin"
)

// categoryOf is the category of a problem, or what an error says.
func categoryOf(err error) string {
	var p *pluginhost.Problem
	if errors.As(err, &p) {
		return p.Category
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// do carries out one call by a driver that was kept.
func do(tools []nacre.Tool, name string) (string, error) {
	for _, tool := range tools {
		if string(tool.Capability.Tool) == name {
			result, err := tool.Driver.Do(context.Background(), nacre.Invocation{Tool: tool.Capability.Tool, Arguments: []byte("{}"), Principal: nacre.Principal{Group: "g"}})
			return string(result), err
		}
	}
	return "", fmt.Errorf("no tool %s", name)
}

// D-27: one plugin is replaced; its calls in flight end as they would have, and
// the others notice nothing.
func TestReload(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "p", `"handler":["self","sdk"]`, "slow")
	writePlugin(t, root, "q", `"handler":["self","raw"]`, "echo", "ticket", "hang")
	h := start(t, root, options(t))
	other, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		if have, err := h.call(context.Background(), "slow", `{}`); code(err) != "PLUGIN_UNAVAILABLE" && have != `"done"` {
			t.Errorf("in flight: have %s, %v", have, err)
		}
	})
	calls.Go(func() {
		if _, err := h.call(other, "hang", `{}`); !errors.Is(err, context.Canceled) {
			t.Errorf("of the other plugin: have %v", err)
		}
	})
	writePlugin(t, root, "p", `"handler":["self","raw"]`, "slow", "null")
	tools, err := h.Reload(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	if len(tools.Old) != 1 || len(tools.New) != 2 || tools.Old[0].Capability.ContentHash == tools.New[0].Capability.ContentHash {
		t.Errorf("have %v", tools)
	}
	if have, err := do(tools.New, "null"); err != nil || have != "null" {
		t.Errorf("the new tool: have %s, %v", have, err)
	}
	if _, err := do(tools.Old, "slow"); code(err) != "PLUGIN_UNAVAILABLE" {
		t.Errorf("the old tool: have %v", err)
	}
	cancel()
	calls.Wait()
	h.records.await(t, "plugin.reloaded", `"before"`)
	if rec := h.records.await(t, "plugin.stopped", `"p"`); rec.Outcome != "clean" {
		t.Errorf("the old one ended %s", rec.Outcome)
	}
	if _, ok := h.records.find("plugin.stopped", `"q"`); ok {
		t.Error("the other plugin was stopped")
	}
}

// D-27: what has not changed may be called by the tools that were there.
func TestReloadOfTheSameFolder(t *testing.T) {
	h := mode(t, "sdk", options(t), "echo")
	tools := h.Tools()
	var calls sync.WaitGroup
	stop := make(chan struct{})
	calls.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := do(tools, "echo"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3 {
		if _, err := h.Reload(t.Context(), "p"); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	calls.Wait()
}

// D-27: a new version that cannot be started leaves the old one at work.
func TestReloadOfWhatCannotStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, root string)
		want   string
	}{
		"a handler that ends":       {func(t *testing.T, root string) { writePlugin(t, root, "p", `"handler":["self","initcrash"]`, "echo") }, "INTERNAL_ERROR"},
		"a handler that refuses":    {func(t *testing.T, root string) { writePlugin(t, root, "p", `"handler":["self","initauth"]`, "echo") }, "AUTH_ERROR"},
		"a handler that hangs":      {func(t *testing.T, root string) { writePlugin(t, root, "p", `"handler":["self","inithang"]`, "echo") }, "INTERNAL_ERROR"},
		"a manifest that is broken": {func(t *testing.T, root string) { writeFile(t, root+"/p/manifest.json", `{"nope":1}`, 0o644) }, "CONFIG_ERROR"},
		"a tool of another plugin":  {func(t *testing.T, root string) { writePlugin(t, root, "p", `"handler":["self","sdk"]`, "null") }, "CONFIG_ERROR"},
		"what nobody agreed to": {func(t *testing.T, root string) {
			writeFile(t, root+"/p/manifest.json", `{"description":"d","version":"6.6.6","handler":["self","sdk"],"provides":{"tools":[]}}`, 0o644)
		}, "CONFIG_ERROR"},
		"a folder that is gone": {func(t *testing.T, root string) {
			if err := os.RemoveAll(root + "/p"); err != nil {
				t.Fatal(err)
			}
		}, "CONFIG_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writePlugin(t, root, "p", `"handler":["self","sdk"]`, "echo")
			writePlugin(t, root, "q", `"handler":["self","raw"]`, "null")
			o := options(t)
			o.Limits.Init = 2 * time.Second
			o.Admit = func(f pluginhost.Found) error {
				if f.Manifest.Version == "6.6.6" {
					return errors.New("nobody agreed to it")
				}
				return nil
			}
			h := start(t, root, o)
			c.change(t, root)
			if _, err := h.Reload(t.Context(), "p"); categoryOf(err) != c.want {
				t.Errorf("have %v, want %s", err, c.want)
			}
			if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
				t.Errorf("the old one: %v", err)
			}
			if health := h.Health(); len(health.Healthy) != 2 {
				t.Errorf("have %+v", health)
			}
			h.records.await(t, "plugin.reloaded", c.want)
		})
	}
}

// D-27: a plugin that failed is mended without a new start.
func TestReloadMends(t *testing.T) {
	h := mode(t, "initauth", options(t), "echo")
	if err := h.Verify(t.Context(), "p"); categoryOf(err) != "AUTH_ERROR" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("have %v", err)
	}
	writePlugin(t, h.root, "p", `"handler":["self","sdk"]`, "echo")
	tools, err := h.Reload(t.Context(), "p")
	if err != nil || len(tools.Old) != 0 || len(tools.New) != 1 {
		t.Fatalf("have %v, %v", tools, err)
	}
	if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
		t.Error(err)
	}
	if _, err := h.Reload(t.Context(), "q"); err == nil || !strings.Contains(err.Error(), "plugin q was not there") {
		t.Errorf("an unknown plugin: have %v", err)
	}
}

func TestReloadAndClose(t *testing.T) {
	h := mode(t, "stubborn", options(t), "echo")
	if _, err := h.Reload(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(ctx); err == nil {
		t.Error("ended by force, and not told")
	}
	if _, err := h.Reload(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), "closing") {
		t.Errorf("after the end: have %v", err)
	}
}

// D-27: the socket of a plugin that listens belongs to the one that was started last.
func TestReloadOfAListener(t *testing.T) {
	root := t.TempDir()
	const listener = `"handler":["self","channel"],"listen":true`
	manifest := func(version string) {
		writeFile(t, filepath.Join(root, "p", "manifest.json"), fmt.Sprintf(`{"description":"d","version":%q,%s,"provides":{"channels":["post"],"tools":[
			{"name":"receive","description":"d","arguments_schema":{}}]}}`, version, listener), 0o644)
	}
	manifest("1.0.0")
	o := options(t)
	o.DataRoot, o.Channels = shortDir(t), true
	o.Services.Publish = func(context.Context, pluginhost.Scope, string, json.RawMessage) error { return nil }
	writeFile(t, filepath.Join(o.DataRoot, "p", plugin.ListenSocket), "left by another", 0o600)
	h := start(t, root, o)
	answers := func(when string) {
		t.Helper()
		c, err := net.Dial("unix", filepath.Join(o.DataRoot, "p", plugin.ListenSocket))
		if err != nil {
			t.Fatalf("%s: %v %v", when, err, h.Health())
		}
		_ = c.Close()
	}
	answers("at the start")
	for i := range 2 {
		manifest(fmt.Sprintf("1.%d.0", i+1))
		if _, err := h.Reload(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(root, "p", "manifest.json"), `{}`, 0o644)
	if _, err := h.Reload(t.Context(), "p"); err == nil { // waits until the one before has gone
		t.Error("accepted")
	}
	answers("after two reloads and one that failed")
}

// F-63's kin: a host that serves no channel, such as that of a session beside nacre
// serve, leaves alone the socket at which the channel's own process listens.
func TestTheSocketOfAChannelIsLeftToItsProcess(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "p", "manifest.json"), `{"description":"d","version":"1.0.0","handler":["self","sdk"],"listen":true,
		"provides":{"channels":["post"],"tools":[{"name":"hello","description":"d","arguments_schema":{}}]}}`, 0o644)
	o := options(t)
	socket := filepath.Join(o.DataRoot, "p", plugin.ListenSocket)
	writeFile(t, socket, "of nacre serve", 0o600)
	h := start(t, root, o)
	if have := h.Health(); len(have.Healthy) != 1 {
		t.Fatalf("have %v", have)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(socket); err != nil || string(text) != "of nacre serve" {
		t.Errorf("have %q, %v", text, err)
	}
}

// shortDir is a directory whose path leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ph") //nolint:usetesting // a socket's path has 108 bytes, and a test's folder may have more
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// D-27: skills are read again without a new process, and code that changed is not.
func TestReloadSkills(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "p", `"handler":["self","raw"]`, "echo", "die")
	writePlugin(t, root, "q", `"handler":["self","sdk"]`, "slow")
	h := start(t, root, options(t))
	writeFile(t, filepath.Join(root, "p", "skill", "p.md"), "new words", 0o644)
	writeFile(t, filepath.Join(root, "q", "skill", "q.md"), "new words", 0o644)
	writeFile(t, filepath.Join(root, "q", "code.py"), "new code", 0o644)
	skills, err := h.ReloadSkills()
	if err == nil || !strings.Contains(err.Error(), "plugin q: skill: the rest") {
		t.Errorf("have %v", err)
	}
	for _, s := range skills {
		if has := strings.Contains(s.Files[0].Text, "new words"); has != (s.Name == "p") {
			t.Errorf("%s: have %s", s.Name, s.Files[0].Text)
		}
	}
	_, _ = h.call(t.Context(), "die", `{}`)
	h.records.await(t, "plugin.restarted", `"p"`) // the skill is no code
}

const channelManifest = `{"description":"d","version":"1.0.0","handler":["self",%q],"verify":true,
	"install":{"credentials":[{"key":"API_KEY"}]},"provides":{"channels":["post","letter"],"tools":[
	{"name":"receive","description":"d","arguments_schema":{}},{"name":"publish","description":"d","arguments_schema":{}},
	{"name":"credential","description":"d","arguments_schema":{}},{"name":"lifelong","description":"d","arguments_schema":{}},
	{"name":"answered","description":"d","arguments_schema":{}}]}}`

// channel starts a plugin that serves the channels post and letter.
func channel(t *testing.T, mode string, o pluginhost.Options) running {
	t.Helper()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "p", "manifest.json"), fmt.Sprintf(channelManifest, mode), 0o644)
	return start(t, root, o)
}

// D-29: a plugin tells whether it can work, by its category alone.
func TestVerify(t *testing.T) {
	for value, want := range map[string]string{
		"right": "", "AUTH_ERROR": "AUTH_ERROR", "NETWORK_ERROR": "NETWORK_ERROR", "CONFIG_ERROR": "CONFIG_ERROR", "OTHER": "INTERNAL_ERROR",
	} {
		o := options(t)
		o.DataRoot = shortDir(t)
		o.Services.Credential = func(context.Context, nacre.PluginName, string) (nacre.Secret, error) {
			return nacre.NewSecret(value), nil
		}
		h := channel(t, "channel", o)
		err := h.Verify(t.Context(), "p")
		if have := categoryOf(err); have != want {
			t.Errorf("%s: have %v, want %q", value, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("not redacted: %v", err)
		}
	}
}

func TestVerifyOfBadHandlers(t *testing.T) {
	h := channel(t, "raw", options(t))
	for _, way := range []string{"a code of its own", "no JSON", "no answer", "a crash", "no process"} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if err := h.Verify(ctx, "p"); categoryOf(err) != "INTERNAL_ERROR" {
			t.Errorf("%s: have %v", way, err)
		}
		cancel()
	}
	if err := mode(t, "sdk", options(t), "echo").Verify(t.Context(), "p"); !errors.Is(err, pluginhost.ErrNoVerify) {
		t.Errorf("a manifest without the key: have %v", err)
	}
	if err := h.Verify(t.Context(), "q"); err == nil {
		t.Error("a plugin that is nowhere: verified")
	}
}

// D-30: three late answers in a row make a plugin degraded, one in time mends it.
func TestDegraded(t *testing.T) {
	h := mode(t, "raw", options(t), "hang", "echo")
	for i := range 3 {
		if d := h.Health().Degraded; len(d) != 0 {
			t.Errorf("after %d: have %v", i, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _ = h.call(ctx, "hang", `{}`)
		cancel()
	}
	if d := h.Health().Degraded; len(d) != 1 || d[0] != "p" {
		t.Errorf("have %v", d)
	}
	if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
		t.Fatal(err)
	}
	if d := h.Health().Degraded; len(d) != 0 {
		t.Errorf("have %v", d)
	}
}
