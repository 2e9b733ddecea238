package pluginhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/testwait"
	"github.com/nacre-dev/nacre/plugin"
)

const withCredential = `"install":{"credentials":[{"key":"API_KEY","description":"d"}]},`

// D-26: services answer for the request's own scope, and credentials are those of the manifest.
func TestServices(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "p", withCredential+`"handler":["self","sdk"]`, "services")
	o := options(t)
	scope := func(s pluginhost.Scope) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`"%s/%s/%s/%s"`, s.Plugin, s.Group, s.Session, s.Correlation))
	}
	var published string
	o.Services = pluginhost.Services{
		AuditLog: func(_ context.Context, s pluginhost.Scope, f plugin.AuditFilter) (json.RawMessage, error) {
			return json.RawMessage(fmt.Sprintf(`{"scope":%s,"last":%d}`, scope(s), f.LastN)), nil
		},
		ToolCatalog: func(context.Context, pluginhost.Scope) (json.RawMessage, error) {
			return nil, errors.New("sql: connection to db.internal refused")
		},
		SessionInfo: func(_ context.Context, s pluginhost.Scope) (json.RawMessage, error) { return scope(s), nil },
		Credential: func(_ context.Context, name nacre.PluginName, key string) (nacre.Secret, error) {
			return nacre.NewSecret(string(name) + ":" + key), nil
		},
		Publish: func(_ context.Context, s pluginhost.Scope, topic string, payload json.RawMessage) error {
			published = topic + string(payload) + string(scope(s))
			return nil
		},
	}
	h := start(t, root, o)
	raw, err := h.call(t.Context(), "services", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	var have map[string]string
	if err := json.Unmarshal([]byte(raw), &have); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"audit": `{"scope":"p/family/s-1/c-1","last":3}`, "session": `"p/family/s-1/c-1"`, "credential": "p:API_KEY", "publish": "",
		"tools": "getToolCatalog: the host could not answer", "other": "readCredential: the manifest does not list this credential",
	} {
		if have[name] != want {
			t.Errorf("%s: have %s, want %s", name, have[name], want)
		}
	}
	if published != `p.note.added{"n":1}"p/family/s-1/c-1"` {
		t.Errorf("published %s", published)
	}
	if have := read(t, filepath.Join(o.DataRoot, "p", "credential")); have != "p:API_KEY" {
		t.Errorf("at initialize: have %s", have)
	}
}

// D-26: a ticket is good for its own plugin and its own request.
func TestBorrowedTickets(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "p", `"handler":["self","raw"]`, "ticket", "borrow")
	o := options(t)
	o.Services.SessionInfo = func(context.Context, pluginhost.Scope) (json.RawMessage, error) {
		t.Error("served for a ticket that is not the request's")
		return json.RawMessage("1"), nil
	}
	o.Services.AuditLog = func(context.Context, pluginhost.Scope, plugin.AuditFilter) (json.RawMessage, error) {
		t.Error("served with a group among the filters")
		return json.RawMessage("1"), nil
	}
	h := start(t, root, o)
	first, err := h.call(t.Context(), "ticket", `{}`)
	if err != nil || len(first) < 22 {
		t.Fatalf("have ticket %s, %v", first, err)
	}
	second, err := h.call(t.Context(), "ticket", `{}`)
	if err != nil || first == second {
		t.Errorf("have tickets %s and %s, %v", first, second, err)
	}
	if _, err := h.call(t.Context(), "borrow", `{}`); err != nil {
		t.Error(err)
	}
	h.records.await(t, "plugin.fault", "callback that was refused")
}

// A panic in a handler made with the SDK tells the agent nothing, and costs one call.
func TestPanicInHandler(t *testing.T) {
	h := mode(t, "sdk", options(t), "panics", "echo", "missing")
	for _, tool := range []string{"panics", "missing"} {
		if _, err := h.call(t.Context(), tool, `{}`); code(err) != "PLUGIN_ERROR" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: have %v", tool, err)
		}
	}
	if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
		t.Error(err)
	}
}

// D-25: initialize gets the operator's configuration with defaults, checked.
func TestConfig(t *testing.T) {
	const schema = `"config_schema":{"type":"object","properties":{"a":{"type":"string","default":"x"},"n":{"type":"integer","default":null}}}`
	for name, c := range map[string]struct{ extra, config, want string }{
		"defaults":                    {schema, ``, `{"a":"x"}`},
		"set":                         {schema, `{"n":3,"a":"y"}`, `{"a":"y","n":3}`},
		"of the wrong type":           {schema, `{"n":"3"}`, ``},
		"without a schema":            {``, `{"n":3}`, ``},
		"twice":                       {schema, `{"n":3,"n":4}`, ``},
		"a schema that reads a file":  {`"config_schema":{"$ref":"file:///etc/passwd"}`, `{}`, ``},
		"a schema that does not hold": {`"config_schema":{"type":"object","properties":{"a":{"pattern":"("}}}`, `{}`, ``},
		"a schema of nothing":         {`"config_schema":{"properties":{"a":{"type":"nothing"}}}`, `{}`, ``},
		"a schema from elsewhere":     {`"config_schema":{"properties":{"a":{"$ref":"https://example.com/s"}}}`, `{}`, ``},
		"a draft that nobody knows":   {`"config_schema":{"$schema":"https://example.com/draft"}`, `{}`, ``},
		"a format":                    {`"config_schema":{"properties":{"a":{"format":"ipv4"}}}`, `{"a":"1.2.3"}`, ``},
		"a number too large by one":   {`"config_schema":{"properties":{"n":{"maximum":9007199254740992}}}`, `{"n":9007199254740993}`, ``},
		"open, as a config may be":    {`"config_schema":{}`, `{"n":9007199254740993}`, `{"n":9007199254740993}`},
		"draft 4":                     {`"config_schema":{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"minimum":1,"exclusiveMinimum":true}}}`, `{"n":1}`, ``},
		"draft 4, malformed":          {`"config_schema":{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"minimum":1,"exclusiveMinimum":1}}}`, `{"n":2}`, ``},
		"draft 6":                     {`"config_schema":{"$schema":"http://json-schema.org/draft-06/schema#","properties":{"n":{"exclusiveMinimum":1}}}`, `{"n":1}`, ``},
		"draft 7":                     {`"config_schema":{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"if":{"minimum":2},"then":{"maximum":3}}},"properties":{"n":{"$ref":"#/definitions/n"}},"dependencies":{"n":["a"]}}`, `{"n":4,"a":"x"}`, ``},
		"draft 7, satisfied":          {`"config_schema":{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"if":{"minimum":2},"then":{"maximum":3}}},"properties":{"n":{"$ref":"#/definitions/n"}},"dependencies":{"n":["a"]}}`, `{"n":3,"a":"x"}`, `{"a":"x","n":3}`},
		"draft 7, a dependency":       {`"config_schema":{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"n":["a"]}}`, `{"n":4}`, ``},
		"draft 2019-09":               {`"config_schema":{"$schema":"https://json-schema.org/draft/2019-09/schema","allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`, `{"n":4}`, ``},
		"draft 2019-09, malformed":    {`"config_schema":{"$schema":"https://json-schema.org/draft/2019-09/schema","dependentRequired":{"a":"b"}}`, `{}`, ``},
		"draft 2020-12":               {`"config_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","dependentRequired":{"n":["a"]}}`, `{"n":4}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			extra := `"handler":["self","sdk"]`
			if c.extra != "" {
				extra += "," + c.extra
			}
			writePlugin(t, root, "p", extra, "echo")
			o := options(t)
			o.Config = map[nacre.PluginName]json.RawMessage{"p": json.RawMessage(c.config)}
			h := start(t, root, o)
			if c.want == "" {
				if f := h.Health().Failed; len(f) != 1 || f[0].Category != "CONFIG_ERROR" {
					t.Errorf("have %v", f)
				}
				return
			}
			if have := read(t, filepath.Join(o.DataRoot, "p", "config")); have != c.want {
				t.Errorf("have %s, want %s", have, c.want)
			}
		})
	}
}

// D-11: a tool that the kernel would not take costs its plugin, not the run.
func TestCheck(t *testing.T) {
	o := options(t)
	o.Check = func(c nacre.Capability) error {
		if c.ID != "p.echo" {
			t.Errorf("asked for %s", c.ID)
		}
		return errors.New("the schema is open")
	}
	if h := mode(t, "sdk", o, "echo"); len(h.Tools()) != 0 || h.Health().Failed[0].Category != "CONFIG_ERROR" {
		t.Errorf("have %+v", h.Health())
	}
}

// D-24: calls in flight are answered, new ones refused, and the end is clean.
func TestClose(t *testing.T) {
	h := mode(t, "sdk", options(t), "slow")
	began := make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		close(began)
		if have, err := h.call(context.Background(), "slow", `{}`); err != nil && code(err) != "PLUGIN_UNAVAILABLE" || err == nil && have != `"done"` {
			t.Errorf("in flight: have %s, %v", have, err)
		}
	})
	<-began
	tools := h.Tools()
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	calls.Wait()
	if _, err := tools[0].Driver.Do(t.Context(), nacre.Invocation{Arguments: []byte("{}")}); code(err) != "PLUGIN_UNAVAILABLE" {
		t.Errorf("after close: have %v", err)
	}
	if rec := h.records.await(t, "plugin.stopped", ""); rec.Outcome != "clean" {
		t.Errorf("have %s", rec.Outcome)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Errorf("a second close: %v", err)
	}
}

// D-24: a handler that will not end is ended; one that fails to start is not asked.
func TestCloseForced(t *testing.T) {
	o := options(t)
	o.Limits.Shutdown = 50 * time.Millisecond
	o.Limits.Drain = 50 * time.Millisecond
	h := mode(t, "stubborn", o, "hang")
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = h.call(context.Background(), "hang", `{}`) })
	if err := h.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "plugin p") {
		t.Errorf("have %v", err)
	}
	calls.Wait()
	if rec := h.records.await(t, "plugin.stopped", ""); rec.Outcome != "forced" {
		t.Errorf("have %s", rec.Outcome)
	}
}

// D-24: the other ends of a shutdown, each recorded for what it was.
func TestCloseOfHandlersThatEndBadly(t *testing.T) {
	for ends, outcome := range map[string]string{"shutdowncrash": "error", "shutdownlater": "forced"} {
		o := options(t)
		o.Limits.Shutdown = 500 * time.Millisecond
		if ends == "shutdowncrash" {
			o.Limits.Shutdown = 20 * time.Second
		}
		h := mode(t, ends, o, "echo")
		if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(t.Context()); err == nil {
			t.Errorf("%s: nothing is told", ends)
		}
		if rec := h.records.await(t, "plugin.stopped", ""); rec.Outcome != outcome {
			t.Errorf("%s: have %s, want %s", ends, rec.Outcome, outcome)
		}
	}
}

// D-21: a handler that crashes again and again is started again each time, a little
// later, and others notice nothing.
func TestACrashLoop(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "p", `"handler":["self","raw"]`, "die")
	writePlugin(t, root, "other", `"handler":["self","raw"]`, "echo")
	h := start(t, root, options(t))
	for crashes := range 5 {
		h.records.awaitCount(t, "plugin.restarted", crashes)
		if _, err := h.call(t.Context(), "die", `{}`); code(err) != "PLUGIN_ERROR" {
			t.Errorf("have %v", err)
		}
		if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
			t.Errorf("the other one: %v", err)
		}
	}
	if f := h.Health().Failed; len(f) > 0 {
		t.Errorf("given up: %v", f)
	}
}

// F-78: a plugin that waits to be started again is said to, and not to be healthy alone.
func TestAPluginThatRestartsIsNotCalledReady(t *testing.T) {
	o := options(t)
	o.Limits.Backoff, o.Limits.BackoffMax = time.Hour, time.Hour
	h := mode(t, "raw", o, "die")
	if r := h.Health().Restarting; len(r) != 0 {
		t.Errorf("have %v", r)
	}
	if _, err := h.call(t.Context(), "die", `{}`); code(err) != "PLUGIN_ERROR" {
		t.Errorf("have %v", err)
	}
	testwait.Until(t, "a plugin that restarts", func() bool { return slices.Equal(h.Health().Restarting, []nacre.PluginName{"p"}) })
}

// What was approved is what runs: a folder that is gone is not started again.
func TestAFolderThatIsGone(t *testing.T) {
	h := mode(t, "raw", options(t), "die", "echo")
	if err := os.RemoveAll(filepath.Join(h.root, "p")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
		t.Errorf("the process that runs: %v", err)
	}
	_, _ = h.call(t.Context(), "die", `{}`)
	h.records.await(t, "plugin.failed", "no such file")
	if f := h.Health().Failed; len(f) != 1 || f[0].Category != "CONFIG_ERROR" {
		t.Errorf("have %v", f)
	}
}

func TestCloseWithoutTime(t *testing.T) {
	h := mode(t, "stubborn", options(t), "hang")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(ctx); err == nil {
		t.Error("an end by force that is not told")
	}
}

func TestStartInterrupted(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "p", `"handler":["self","inithang"]`, "x")
	found, err := pluginhost.Discover(root)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := pluginhost.Start(ctx, found, options(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("have %v", err)
	}
}

// What was approved is what runs: changed code is not restarted.
func TestChangedCodeIsNotRestarted(t *testing.T) {
	h := mode(t, "raw", options(t), "die")
	writeFile(t, filepath.Join(h.root, "p", "new.txt"), "x", 0o644)
	_, _ = h.call(t.Context(), "die", `{}`)
	h.records.await(t, "plugin.failed", "has changed")
	if f := h.Health().Failed; len(f) != 1 || f[0].Category != "CONFIG_ERROR" {
		t.Errorf("have %v", f)
	}
	if _, err := h.call(t.Context(), "die", `{}`); err == nil {
		t.Error("answered")
	}
}

// D-20: the user's plugin covers the built-in one, and names are sorted.
func TestDiscover(t *testing.T) {
	user, builtin := t.TempDir(), t.TempDir()
	writePlugin(t, user, "b", `"handler":["user"]`, "t")
	writePlugin(t, builtin, "b", `"handler":["builtin"]`, "t")
	writePlugin(t, builtin, "a", `"handler":["x"]`)
	writePlugin(t, builtin, ".hidden", `"handler":["x"]`)
	writeFile(t, filepath.Join(builtin, "README"), "x", 0o644)
	writeFile(t, filepath.Join(builtin, "c", "manifest.json"), `{"description":"d","version":"1.0.0"}`, 0o644)
	writeFile(t, filepath.Join(builtin, "c", "handler"), "x", 0o644)
	writePlugin(t, builtin, "d", `"handler":["x"]`)
	if err := os.Symlink("/etc/passwd", filepath.Join(builtin, "d", "data")); err != nil {
		t.Fatal(err)
	}
	found, err := pluginhost.Discover(filepath.Join(user, "missing"), user, builtin)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, f := range found {
		line := fmt.Sprintf("%s %v", f.Name, f.Argv)
		if f.Err != nil {
			line = fmt.Sprintf("%s %v", f.Name, strings.ReplaceAll(f.Err.Error(), builtin, ""))
		}
		have = append(have, line)
	}
	want := "a [x]|b [user]|c /c/handler is not an executable file: chmod +x it|d /d/data is a link or a special file: put the file itself there"
	if strings.Join(have, "|") != want {
		t.Errorf("have %s\nwant %s", strings.Join(have, "|"), want)
	}
}

// D-13: the hash is over names, contents and executable bits.
func TestContentHash(t *testing.T) {
	hash := func(change func(dir string)) string {
		root := t.TempDir()
		writePlugin(t, root, "p", `"handler":["x"]`)
		writeFile(t, filepath.Join(root, "p", "lib", "a.py"), "1", 0o644)
		change(filepath.Join(root, "p"))
		found, err := pluginhost.Discover(root)
		if err != nil || found[0].Err != nil {
			t.Fatal(err, found[0].Err)
		}
		return found[0].Hash
	}
	seen := map[string]string{}
	for name, change := range map[string]func(dir string){
		"unchanged":  func(string) {},
		"contents":   func(d string) { writeFile(t, d+"/lib/a.py", "2", 0o644) },
		"a new file": func(d string) { writeFile(t, d+"/lib/b.py", "1", 0o644) },
		"a new name": func(d string) { _ = os.Rename(d+"/lib/a.py", d+"/lib/c.py") },
		"executable": func(d string) { _ = os.Chmod(d+"/lib/a.py", 0o755) },
	} {
		h := hash(change)
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
	if _, ok := seen[hash(func(string) {})]; !ok {
		t.Error("the hash depends on the place")
	}
}

// D-31: an author's skill in the agentskills.io layout, one generated where there is none.
func TestSkills(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "my_notes", `"handler":["self","sdk"]`, "echo")
	writeFile(t, filepath.Join(root, "my_notes", "skill", "my_notes.md"), "---\nname: evil\nallowed-tools: Bash\n---\n# Notes\n", 0o644)
	writeFile(t, filepath.Join(root, "my_notes", "skill", "extra.md"), "more", 0o644)
	writeFile(t, filepath.Join(root, "gen", "manifest.json"), `{"description":"It's \"quoted\"\nand long","version":"1.0.0","handler":["self","sdk"],"provides":{"tools":[{
		"name":"send","description":"Send it","risk_level":"high","arguments_schema":{"type":"object","required":["to"],"properties":{"to":{"type":"string","description":"who"},"n":{"type":"integer","default":2}}}}]}}`, 0o644)
	h := start(t, root, options(t))
	have := map[string]string{}
	for _, s := range h.Skills() {
		for _, f := range s.Files {
			have[s.Name+"/"+f.Name] = f.Text
		}
	}
	for path, want := range map[string]string{
		"my-notes/SKILL.md": "---\nname: my-notes\ndescription: \"d\"\n---\n\n# Notes\n",
		"my-notes/extra.md": "more",
		"gen/SKILL.md": `---
name: gen
description: "It's \"quoted\" and long"
---

# gen

Call these tools with the ` + "`ipc`" + ` binary. The result comes on standard output;
an error comes as JSON on standard error with exit code 1.

## send

Send it

    ipc tool.invoke.send '{"to":"..."}'

- ` + "`n`" + ` (integer), default 2
- ` + "`to`" + ` (string), required: who
A person is asked before every call.
`,
	} {
		if have[path] != want {
			t.Errorf("%s: have\n%s\nwant\n%s", path, have[path], want)
		}
	}
	if text := pluginhost.GenerateSkill("nacre_tools", []nacre.Capability{{Tool: "list_tools", Description: "List", Schema: []byte(`{}`)}}); !strings.HasPrefix(text, "---\nname: nacre-tools\n") || !strings.Contains(text, "ipc tool.invoke.list_tools '{}'") {
		t.Errorf("have %s", text)
	}
}

func everybody(nacre.PluginName) bool { return true }

// D-21: events reach those that subscribe to a prefix; what is missed is recorded.
func TestDeliver(t *testing.T) {
	root := t.TempDir()
	writePlugin(t, root, "p", `"handler":["self","sdk"],"subscribes":["message.inbound","task."]`, "echo")
	writePlugin(t, root, "down", `"handler":["self","initcrash"],"subscribes":["message"]`, "x")
	h := start(t, root, options(t))
	h.Deliver(t.Context(), plugin.Envelope{Type: "event", Topic: "message.inbound", Group: "g", Payload: []byte("{}")}, everybody)
	h.Deliver(t.Context(), plugin.Envelope{Type: "event", Topic: "message.inbounder", Group: "g", Payload: []byte("{}")}, everybody)
	h.Deliver(t.Context(), plugin.Envelope{Type: "event", Topic: "message.inbound", Group: "other", Payload: []byte("{}")}, func(nacre.PluginName) bool { return false })
	if _, err := h.call(t.Context(), "echo", `{}`); err != nil {
		t.Error(err)
	}
	rec := h.records.await(t, "plugin.event_dropped", "message.inbound")
	if !strings.Contains(string(rec.Detail), `"down"`) {
		t.Errorf("have %s", rec.Detail)
	}
}

func TestRequiredOptions(t *testing.T) {
	if _, err := pluginhost.Start(t.Context(), nil, pluginhost.Options{}); err == nil {
		t.Error("a host without a recorder: accepted")
	}
}
