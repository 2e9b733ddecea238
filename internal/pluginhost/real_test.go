package pluginhost_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// install copies a plugin's folder as it is in the repository.
func install(t testing.TB, from, root, name string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, ".go") {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		to := filepath.Join(root, name, rel)
		return errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func installReminders(t testing.TB, root string) {
	t.Helper()
	install(t, "../../plugins/reminders", root, "reminders")
	testpeer.Copy(t, testpeer.Program(t, "plugins/reminders/handler"), filepath.Join(root, "reminders", "handler"))
}

// D-20: the seed's reminders, with its manifest unchanged; the one that ships
// says more of each tool, and where reminders may be kept.
func TestReminders(t *testing.T) {
	root := t.TempDir()
	installReminders(t, root)
	seed, err := os.ReadFile("../../plugin/testdata/reminders.json")
	if err != nil {
		t.Fatal(err)
	}
	if have, want := withoutClasses(t, []byte(read(t, root+"/reminders/manifest.json"))), withoutClasses(t, seed); !reflect.DeepEqual(have, want) {
		t.Errorf("the shipped manifest is\n%v\nwant\n%v", have, want)
	}
	if err := os.WriteFile(root+"/reminders/manifest.json", seed, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	h := start(t, root, o)
	for _, c := range []struct{ tool, args, want string }{
		{"create_reminder", `{"title":"Buy milk","due":"2026-02-17T17:00:00Z","list":"Personal"}`, `{"reminder_id":"R-1","status":"created"}`},
		{"create_reminder", `{"title":"Call","list":"Work"}`, `{"reminder_id":"R-2","status":"created"}`},
		{"list_reminders", `{"list":"Personal","include_completed":false}`, `"title":"Buy milk","due":"2026-02-17T17:00:00Z"`},
		{"complete_reminder", `{"reminder_id":"R-1"}`, `"status":"completed"`},
		{"list_reminders", `{"list":"Personal","include_completed":false}`, `"reminders":[]`},
		{"list_reminders", `{"list":"Personal","include_completed":true}`, `"completed":true`},
		{"delete_reminder", `{"reminder_id":"R-1"}`, `"status":"deleted"`},
		{"create_reminder", `{"title":"Again"}`, `"R-3"`},
	} {
		if have, err := h.call(t.Context(), c.tool, c.args); err != nil || !strings.Contains(have, c.want) {
			t.Errorf("%s %s: have %s, %v, want %s", c.tool, c.args, have, err, c.want)
		}
	}
	var r *nacre.Refusal
	if _, err := h.call(t.Context(), "complete_reminder", `{"reminder_id":"R-1"}`); !errors.As(err, &r) || r.Original != "NOT_FOUND" || r.Message != `Reminder "R-1" does not exist` {
		t.Errorf("have %v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := start(t, root, o)
	if have, err := again.call(t.Context(), "list_reminders", `{"list":"Work"}`); err != nil || !strings.Contains(have, "Call") {
		t.Errorf("after a restart: have %s, %v", have, err)
	}
}

// withoutClasses is a manifest without what may be said of its tools, and of where they reach.
func withoutClasses(t *testing.T, manifest []byte) any {
	t.Helper()
	var m struct {
		Provides struct{ Tools []map[string]any }
		Rest     map[string]any
	}
	if err := errors.Join(json.Unmarshal(manifest, &m), json.Unmarshal(manifest, &m.Rest)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"provides", "version", "hosts", "verify", "install", "config_schema"} {
		delete(m.Rest, key)
	}
	for _, tool := range m.Provides.Tools {
		for _, key := range []string{"safety_class", "returns", "sinks", "text", "mints"} {
			delete(tool, key)
		}
	}
	return m
}

// Two sessions of one group run two handlers over one file.
func TestRemindersOfTwoSessions(t *testing.T) {
	root := t.TempDir()
	installReminders(t, root)
	o := options(t)
	hosts := []running{start(t, root, o), start(t, root, o)}
	var all sync.WaitGroup
	for _, h := range hosts {
		for range 10 {
			all.Go(func() {
				if _, err := h.call(t.Context(), "create_reminder", `{"title":"x","list":"L"}`); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	have, err := hosts[0].call(t.Context(), "list_reminders", `{"list":"L"}`)
	if n := strings.Count(have, `"reminder_id"`); err != nil || n != 20 || !strings.Contains(have, `"R-20"`) {
		t.Errorf("have %d reminders, %v", n, err)
	}
}

// A handler in Python, with the standard library alone (D-22).
func TestPythonExample(t *testing.T) {
	testpeer.Need(t, "python3")
	root := t.TempDir()
	install(t, "../../examples/plugins/notes-python", root, "notes-python")
	h := start(t, root, options(t))
	for _, c := range []struct{ tool, args, want string }{
		{"note_add", `{"text":"naïve \u2028 line"}`, `"note": 1`},
		{"note_add", `{"text":"second"}`, `"note": 2`},
		{"note_list", `{"contains":"sec"}`, `{"notes": ["second"]}`},
		{"note_list", `{}`, `na\u00efve \u2028 line`},
	} {
		if have, err := h.call(t.Context(), c.tool, c.args); err != nil || !strings.Contains(have, c.want) {
			t.Errorf("%s %s: have %s, %v, want %s", c.tool, c.args, have, err, c.want)
		}
	}
	if _, err := h.call(t.Context(), "note_add", `{}`); code(err) != "PLUGIN_ERROR" {
		t.Errorf("a bug in the handler: have %v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	h.records.await(t, "plugin.stopped", "notes-python")
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
