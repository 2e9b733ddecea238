package guard_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/guard"
)

func find(t *testing.T, name string) atom.Atom {
	t.Helper()
	a, err := atom.Library{}.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func call(t *testing.T, tool, input string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": json.RawMessage(input)})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, set guard.Set) string {
	t.Helper()
	data, err := set.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "gates.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// S-02, S-05 to S-07: a set that went through its file decides on every call,
// and says which atom refuses.
func TestASetHoldsEveryCall(t *testing.T) {
	t.Parallel()
	task := &atom.Parameters{Whitelist: []string{"src/**"}, Denylist: []string{"src/keys/**"}}
	set := guard.Set{
		Role: "edit-local", Project: t.TempDir(), Allowed: []string{"Bash", "Edit", "Write", "Read"}, Refused: []string{"Read"},
		Gates: []guard.Gate{
			guard.Of(find(t, "policy::no-git-ops"), task), guard.Of(find(t, "scope::files-whitelist"), task),
			guard.Of(find(t, "scope::files-denylist"), task),
		},
	}
	path := write(t, set)
	for name, c := range map[string]struct{ tool, input, want string }{
		"what may be done":           {"Edit", `{"file_path":"src/a.go","old_string":"a","new_string":"b"}`, ""},
		"a file outside":             {"Write", `{"file_path":"go.mod","content":"x"}`, "scope::files-whitelist"},
		"a file that is denied":      {"Write", `{"file_path":"src/keys/id","content":"x"}`, "scope::files-denylist"},
		"git":                        {"Bash", `{"command":"git push"}`, "policy::no-git-ops"},
		"a tool the role has not":    {"WebFetch", `{"url":"https://a.example"}`, "the role edit-local may use Bash, Edit, Write, Read"},
		"a tool the role may not":    {"Read", `{"file_path":"src/a.go"}`, "may not use Read"},
		"what no shell could parse":  {"Bash", `{"command":"echo 'x"}`, "nacre gate: "},
		"an input that is no object": {"Bash", `"ls"`, "nacre gate: "},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := guard.Hook(t.Context(), path, "", bytes.NewReader(call(t, c.tool, c.input)), &out, &errs)
			switch {
			case c.want == "" && (code != 0 || out.String() != "{\"continue\":true}\n"):
				t.Fatalf("have %d %q %q", code, out.String(), errs.String())
			case c.want != "" && (code != guard.ExitDenied || out.Len() != 0 || !strings.HasPrefix(errs.String(), guard.Prefix) || !strings.Contains(errs.String(), c.want)):
				t.Fatalf("have %d %q %q, want %q", code, out.String(), errs.String(), c.want)
			}
		})
	}
}

// S-07: whatever is missing or malformed refuses.
func TestEveryDoubtRefuses(t *testing.T) {
	t.Parallel()
	good := write(t, guard.Set{Project: t.TempDir()})
	damaged := filepath.Join(t.TempDir(), "damaged")
	for name, text := range map[string]string{"damaged": `{"role":`, "other": `{"project":"/p","frob":1}`, "empty": `{}`, "two": `{"project":"/p"} {}`} {
		if err := os.WriteFile(damaged+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fine := string(call(t, "Bash", `{"command":"ls"}`))
	for name, c := range map[string]struct{ path, stdin string }{
		"no set": {damaged + "none", fine}, "half a set": {damaged + "damaged", fine}, "a set with more": {damaged + "other", fine},
		"an empty set": {damaged + "empty", fine}, "two sets": {damaged + "two", fine},
		"no hook": {good, ""}, "half a hook": {good, fine[:20]}, "another event": {good, strings.Replace(fine, "PreToolUse", "PostToolUse", 1)},
		"no tool": {good, `{"hook_event_name":"PreToolUse","tool_input":{}}`}, "a tool twice": {good, strings.Replace(fine, `{`, `{"tool_name":"Read",`, 1)},
		"too much": {good, strings.Repeat(" ", gate.MaxHook+1)},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := guard.Hook(t.Context(), c.path, "", strings.NewReader(c.stdin), &out, &errs); code != guard.ExitDenied || out.Len() != 0 || errs.Len() == 0 {
				t.Fatalf("have %d %q %q", code, out.String(), errs.String())
			}
		})
	}
	if v := (guard.Set{}).Decide(gate.Call{}); v.Refusal == "" {
		t.Error("a set that is none lets a call through")
	}
}

// S-06: a whitelist that the task does not give refuses, whatever the severity.
func TestAGateWithoutItsListRefuses(t *testing.T) {
	t.Parallel()
	hook, err := gate.ParseHook(call(t, "Write", `{"file_path":"a","content":""}`))
	if err != nil {
		t.Fatal(err)
	}
	one := find(t, "scope::files-whitelist")
	one.Gate.Severity = atom.Advisory
	for name, task := range map[string]*atom.Parameters{"no task": nil, "no list": {}} {
		if f := guard.Of(one, task).Check(hook, guard.World(t.TempDir(), "")); !f.Denied() || f.Reason == "" {
			t.Errorf("%s: have %+v", name, f)
		}
	}
}
