package assembly_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// sharing is an installation with one plugin that has a channel, and the groups main and other.
func sharing(t *testing.T) *assembly.Runtime {
	t.Helper()
	dir := t.TempDir()
	runtime, err := os.MkdirTemp("", "na") //nolint:usetesting // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	plugin := filepath.Join(dir, "data/nacre/plugins/near")
	config := filepath.Join(dir, "config/nacre")
	if err := errors.Join(os.MkdirAll(plugin, 0o755), os.MkdirAll(config, 0o755)); err != nil {
		t.Fatal(err)
	}
	putPrograms(t, dir+"/bin")
	testpeer.Copy(t, testpeer.Fixture(t, "cmd/nacre/testdata/plugins/reach"), filepath.Join(plugin, "handler"))
	manifest := `{"description": "d", "version": "1.0.0", "provides": {"channels": ["near"], "tools": [{"name": "near_do", "description": "d",
		"returns": "trusted", "arguments_schema": {"type": "object", "additionalProperties": false, "properties": {
		"what": {"type": "string"}, "a": {"type": "string"}, "b": {"type": "string"}}}}]}}`
	if err := errors.Join(os.WriteFile(filepath.Join(plugin, "manifest.json"), []byte(manifest), 0o600),
		os.WriteFile(filepath.Join(config, "config.toml"), []byte("[groups.main]\ntools = [\"near_do\"]\n[groups.other]\ntools = [\"near_do\"]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir + "/state", "XDG_CONFIG_HOME": dir + "/config", "XDG_DATA_HOME": dir + "/data", "XDG_RUNTIME_DIR": runtime, "PATH": os.Getenv("PATH"),
	}
	rt, err := assembly.Open(t.Context(), assembly.Options{
		Getenv: func(k string) string { return env[k] }, Executable: dir + "/bin/nacre", Now: time.Now, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// D-21, D-26: sessions share one process of a channel, which outlives them, and
// each is answered for itself.
func TestSessionsShareThePluginsOfALongLivedProcess(t *testing.T) {
	rt := sharing(t)
	var told []string
	shared, err := rt.StartShared(t.Context(), func(group nacre.Group, topic string) { told = append(told, string(group)+" "+topic) })
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range []struct {
		id    nacre.SessionID
		group nacre.Group
		count string
	}{{"one", "main", "1"}, {"two", "other", "2"}, {"three", "main", "3"}} {
		err := shared.With(t.Context(), c.id, c.group, func(call func(nacre.ToolName, string) string) {
			if have := call("near_do", `{"what":"count"}`); have != `{"said":"`+c.count+`"}` {
				t.Errorf("%s: have %s, want a process that counted to %s", c.id, have, c.count)
			}
			if have := call("near_do", `{"what":"info"}`); !strings.Contains(have, `\"group\":\"`+string(c.group)+`\"`) {
				t.Errorf("%s: have %s", c.id, have)
			}
			call("near_do", `{"what":"publish","a":"near.done"}`)
			have := call("near_do", `{"what":"sessions"}`)
			if want := map[nacre.Group]string{"main": "[main/one", "other": "[other/two]"}[c.group]; !strings.Contains(have, want) {
				t.Errorf("%s: have %s, want %s", c.id, have, want)
			}
			if len(told) != n+1 || told[n] != string(c.group)+" near.done" {
				t.Errorf("have %q", told)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.Reload(t.Context(), "near"); err != nil {
		t.Error(err)
	}
	if err := shared.Reload(t.Context(), "far"); err == nil {
		t.Error("a plugin that is not shared was reloaded")
	}
	err = shared.With(t.Context(), "four", "main", func(call func(nacre.ToolName, string) string) {
		if have := call("near_do", `{"what":"count"}`); have != `{"said":"1"}` {
			t.Errorf("have %s after a reload", have)
		}
	})
	if err := errors.Join(err, shared.End(t.Context())); err != nil {
		t.Error(err)
	}
}
