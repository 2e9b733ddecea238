package hooks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/gate"
	"github.com/nacre-dev/nacre/internal/hooks"
	"github.com/nacre-dev/nacre/internal/role"
)

// site is a home, a machine's settings and a project of a test's own.
type site struct {
	home             hooks.Home
	project, program string
}

func newSite(t *testing.T) site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := site{
		home:    hooks.Home{Claude: filepath.Join(dir, "claude"), Codex: filepath.Join(dir, "codex"), Etc: filepath.Join(dir, "etc"), State: filepath.Join(dir, "state")},
		project: filepath.Join(dir, "project"), program: filepath.Join(dir, "nacre"),
	}
	put(t, s.program, "x", 0o755)
	if err := os.MkdirAll(filepath.Join(s.project, "pkg/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func pinned(t *testing.T, project, name string, task *atom.Parameters) hooks.Pin {
	t.Helper()
	r, err := role.Library{}.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := hooks.NewPin(project, r, task)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s site) install(name string, replace bool, places ...hooks.Place) func(*testing.T) error {
	return func(t *testing.T) error {
		t.Helper()
		plan, err := s.home.PlanInstall(hooks.Order{Pin: pinned(t, s.project, name, nil), Program: s.program, Places: places, Replace: replace})
		if err != nil {
			return err
		}
		return plan.Apply()
	}
}

// S-17: what the file says otherwise is there afterwards byte for byte, and a
// removal gives back what was there.
func TestSettingsAreKeptAroundTheHook(t *testing.T) {
	for name, text := range map[string]string{
		"other keys in their order": "{\n\t\"z\": 1,\n\t\"a\": {\"b\": [1,2]},\n\t\"model\": \"x\"\n}\n",
		"other hooks":               `{"hooks":{"Stop":[{"hooks":[]}],"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"mine \"q\" \\"}]}]}}`,
		"odd spaces":                " \r\n{ \"a\" :1 ,\"b\":2 }\n\n",
		"odd keys":                  `{"a\"b\\":1,"é ":{"hooks":7}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			place := s.home.Place(hooks.Claude, hooks.User, "")
			put(t, place.File, text, 0o640)
			for range 2 { // the second time changes nothing
				if err := s.install("read-only", false, place)(t); err != nil {
					t.Fatal(err)
				}
			}
			after := read(t, place.File)
			if !json.Valid([]byte(after)) || strings.Count(after, " hook --set ") != 1 {
				t.Fatalf("have %s", after)
			}
			if info, err := os.Stat(place.File); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the mode is %v", info.Mode())
			}
			if read(t, place.File+".before-nacre") != text {
				t.Error("the file as it was is not kept")
			}
			plan, err := s.home.PlanRemove([]hooks.Place{place})
			if err == nil {
				err = plan.Apply()
			}
			if have := read(t, place.File); err != nil || have != text {
				t.Errorf("have %q, want %q (%v)", have, text, err)
			}
		})
	}
}

func TestSettingsThatAreNotUnderstoodStayUntouched(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":              "{",
		"a list":                "[]",
		"two objects":           "{}{}",
		"comments":              "// mine\n{}",
		"hooks is a list":       `{"hooks":[]}`,
		"hooks twice":           `{"hooks":{},"hooks":{"PreToolUse":[]}}`,
		"PreToolUse is no list": `{"hooks":{"PreToolUse":{}}}`,
		"PreToolUse is null":    `{"hooks":{"PreToolUse":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			claude, codex := s.home.Place(hooks.Claude, hooks.User, ""), s.home.Place(hooks.Codex, hooks.User, "")
			put(t, codex.File, text, 0o600)
			if err := s.install("read-only", false, claude, codex)(t); err == nil {
				t.Error("it was changed")
			}
			if read(t, codex.File) != text {
				t.Error("it was changed in spite of the error")
			}
			if _, err := os.Stat(claude.File); err == nil {
				t.Error("the other agent's file was written: half an installation")
			}
		})
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	s := newSite(t)
	place := s.home.Place(hooks.Claude, hooks.Project, s.project)
	target := filepath.Join(s.project, "target.json")
	put(t, target, "{}", 0o600)
	if err := errors.Join(os.MkdirAll(filepath.Dir(place.File), 0o755), os.Symlink(target, place.File)); err != nil {
		t.Fatal(err)
	}
	if err := s.install("read-only", false, place)(t); err == nil || read(t, target) != "{}" {
		t.Errorf("settings were written through a link: %v", err)
	}
}

func TestAnotherRoleIsReplacedOnlyWhenSaid(t *testing.T) {
	s := newSite(t)
	place := s.home.Place(hooks.Codex, hooks.Project, s.project)
	if err := s.install("read-only", false, place)(t); err != nil {
		t.Fatal(err)
	}
	if err := s.install("explorer", false, place)(t); !errors.Is(err, hooks.ErrOtherRole) {
		t.Errorf("have %v", err)
	}
	if err := s.install("explorer", true, place)(t); err != nil {
		t.Fatal(err)
	}
	found, err := s.home.Status([]hooks.Place{place})
	if err != nil || len(found) != 1 || found[0].Role != "explorer" || len(found[0].Problems) != 0 {
		t.Errorf("have %+v %v", found, err)
	}
}

func TestCodexsRequirementsAreKeptAroundTheHook(t *testing.T) {
	s := newSite(t)
	place := s.home.Place(hooks.Codex, hooks.Managed, "")
	plan := func(text string) (hooks.Plan, error) {
		put(t, place.File, text, 0o644)
		// an ordinary program may be changed by its user, and holds no machine
		return s.home.PlanInstall(hooks.Order{Pin: pinned(t, "", "read-only", nil), Program: "/bin/sh", Places: []hooks.Place{place}})
	}
	for _, text := range []string{"", "allowed_sandbox_modes = [\"read-only\"]\n\n[features]\nhooks = true"} {
		p, err := plan(text)
		if err == nil {
			err = p.Apply()
		}
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.home.Status([]hooks.Place{place})
		if err != nil || len(found) != 1 || len(found[0].Problems) != 0 || found[0].Role != "read-only" {
			t.Fatalf("have %+v %v", found, err)
		}
		if p, err = s.home.PlanRemove([]hooks.Place{place}); err == nil {
			err = p.Apply()
		}
		if err != nil {
			t.Fatal(err)
		}
		if text != "" && strings.TrimSpace(read(t, place.File)) != text {
			t.Errorf("have %q, want %q", read(t, place.File), text)
		}
	}
	for _, text := range []string{"a = ", "[[hooks.Stop]]\n", "allow_managed_hooks_only = false\n", "[features]\nhooks = false\n", "[features]\nx = true\n", "# nacre hooks: begin\n"} {
		if _, err := plan(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestAManagedHookNeedsAProgramThatOnlyRootChanges(t *testing.T) {
	s := newSite(t)
	if err := os.Chmod(s.program, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := s.install("read-only", false, s.home.Place(hooks.Claude, hooks.Managed, ""))(t); err == nil {
		t.Error("a program that everybody writes holds the machine")
	}
}

// hook asks a pin about a call.
func (s site) hook(t *testing.T, p hooks.Pin) (hooks.Hook, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	place := s.home.Place(hooks.Claude, hooks.User, "")
	plan, err := s.home.PlanInstall(hooks.Order{Pin: p, Program: s.program, Places: []hooks.Place{place}, Replace: true})
	if err == nil {
		err = plan.Apply()
	}
	if err != nil {
		t.Fatal(err)
	}
	pins, err := filepath.Glob(filepath.Join(s.home.State, "hooks", "*.json"))
	if err != nil || len(pins) != 1 {
		t.Fatalf("have %v %v", pins, err)
	}
	var stdout, stderr bytes.Buffer
	return hooks.Hook{
		Pin: pins[0], Stdout: &stdout, Stderr: &stderr, Log: s.home.LogFile(), Now: time.Now, Deadline: time.Minute,
		Getenv: func(string) string { return "" }, Bypassed: func(string, gate.World) bool { return false },
	}, &stdout, &stderr
}

func call(dir, tool, input string) string {
	return fmt.Sprintf(`{"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s,"cwd":%q}`, tool, input, dir)
}

// S-17: everything that is not a call which the pin allows is refused with a reason.
func TestTheHookFailsClosed(t *testing.T) {
	s := newSite(t)
	task := &atom.Parameters{Role: "edit-local", Whitelist: []string{"pkg/x/**"}, Denylist: []string{}}
	p := pinned(t, s.project, "edit-local", task)
	for _, one := range []struct {
		name, stdin, reason string
		allowed             bool
	}{
		{name: "an allowed call", stdin: call(s.project, "Bash", `{"command":"mkdir pkg/x/y"}`), allowed: true},
		{name: "a write in the task's files", stdin: call(s.project, "Write", `{"file_path":"pkg/x/y","content":""}`), allowed: true},
		{name: "a write elsewhere", stdin: call(s.project, "Write", `{"file_path":"pkg/y","content":""}`), reason: "scope::files-whitelist"},
		{name: "git", stdin: call(s.project, "Bash", `{"command":"git push"}`), reason: "policy::no-git-ops"},
		{name: "a tool that is not listed", stdin: call(s.project, "WebFetch", `{}`), reason: "may use"},
		{name: "nothing", reason: "no hook JSON"},
		{name: "half a JSON", stdin: call(s.project, "Bash", `{"command":"ls"}`)[:40], reason: "the hook's JSON"},
		{name: "two", stdin: strings.Repeat(call(s.project, "Bash", `{"command":"ls"}`), 2), reason: "the hook's JSON"},
		{name: "a tool twice", stdin: `{"tool_name":"Read",` + call(s.project, "Bash", `{"command":"ls"}`)[1:], reason: "the hook's JSON"},
		{name: "another event", stdin: strings.Replace(call(s.project, "Bash", `{"command":"ls"}`), "PreToolUse", "PostToolUse", 1), reason: "PreToolUse"},
		{name: "a tool that lies", stdin: call(s.project, "Read", `{"command":"rm -rf /"}`), reason: "another tool"},
		{name: "no folder", stdin: call("", "Bash", `{"command":"ls"}`), reason: "cwd"},
		{name: "a relative folder", stdin: call(".", "Bash", `{"command":"ls"}`), reason: "cwd"},
		{name: "a folder that is not there", stdin: call(s.project+"/gone", "Bash", `{"command":"ls"}`), reason: "cwd"},
		{name: "too much", stdin: strings.Repeat(" ", gate.MaxHook+1), reason: "too big"},
	} {
		t.Run(one.name, func(t *testing.T) {
			h, stdout, stderr := s.hook(t, p)
			h.Stdin = strings.NewReader(one.stdin)
			code := h.Answer()
			if one.allowed {
				if code != 0 || !json.Valid(stdout.Bytes()) || stderr.Len() > 0 {
					t.Errorf("exit %d, %q, %q", code, stdout, stderr)
				}
				return
			}
			if code != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), one.reason) || stderr.Len() < 10 {
				t.Errorf("exit %d, %q, %q", code, stdout, stderr)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { panic("as planned") }
func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestTheHookFailsClosedWhereItBreaks(t *testing.T) {
	s := newSite(t)
	p := pinned(t, s.project, "read-only", nil)
	good := call(s.project, "Read", `{"file_path":"a"}`)
	for name, break_ := range map[string]func(*hooks.Hook){
		"the set is gone":       func(h *hooks.Hook) { h.Pin = filepath.Join(filepath.Dir(h.Pin), strings.Repeat("0", 64)+".json") },
		"no set is named":       func(h *hooks.Hook) { h.Pin = "" },
		"the set was changed":   func(h *hooks.Hook) { put(t, h.Pin, "{}", 0o600) },
		"a gate panics":         func(h *hooks.Hook) { h.Stdin = failing{} },
		"nobody takes the word": func(h *hooks.Hook) { h.Stdout = failing{} },
		"standard input hangs": func(h *hooks.Hook) {
			r, w := io.Pipe()
			t.Cleanup(func() { _ = w.Close() })
			h.Stdin, h.Deadline = r, time.Millisecond
		},
		"the set hangs": func(h *hooks.Hook) {
			if err := errors.Join(os.Remove(h.Pin), unix.Mkfifo(h.Pin, 0o600)); err != nil {
				t.Fatal(err)
			}
			pin := h.Pin
			t.Cleanup(func() {
				if f, err := os.OpenFile(pin, os.O_RDWR|unix.O_NONBLOCK, 0); err == nil { // lets the reader go on
					_ = f.Close()
				}
				_ = os.Remove(pin)
			})
			h.Deadline = time.Millisecond
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, stdout, stderr := s.hook(t, p)
			h.Stdin = strings.NewReader(good)
			break_(&h)
			if code := h.Answer(); code != 2 || stdout.Len() > 0 || stderr.Len() == 0 {
				t.Errorf("exit %d, %q, %q", code, stdout, stderr)
			}
			_ = os.Remove(h.Pin) // the next one pins anew
		})
	}
}

func TestWithoutATaskNothingMayBeWritten(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"edit-local", "read-only"} {
		h, _, stderr := s.hook(t, pinned(t, s.project, name, nil))
		h.Stdin = strings.NewReader(call(s.project, "Write", `{"file_path":"pkg/x/y","content":""}`))
		if code := h.Answer(); code != 2 {
			t.Errorf("%s: exit %d, %q", name, code, stderr)
		}
		_ = os.Remove(h.Pin)
	}
}

// S-02: only the orchestrator's own word lifts a gate, and only its own.
func TestABypassLiftsItsOwnGateOnly(t *testing.T) {
	s := newSite(t)
	p := pinned(t, s.project, "edit-local", &atom.Parameters{Whitelist: []string{"**"}, Denylist: []string{}})
	if len(p.Bypass) == 0 {
		t.Skip("the role has no gate with a bypass")
	}
	asked := []string{}
	h, _, _ := s.hook(t, p)
	h.Bypassed = func(variable string, _ gate.World) bool { asked = append(asked, variable); return true }
	h.Stdin = strings.NewReader(call(s.project, "WebFetch", `{}`))
	if code := h.Answer(); code != 2 || len(asked) == 0 {
		t.Errorf("exit %d, asked %v: the list of tools was lifted", code, asked)
	}
}

func TestTheLogIsBoundedAndHoldsNoSecrets(t *testing.T) {
	s := newSite(t)
	h, _, _ := s.hook(t, pinned(t, s.project, "read-only", nil))
	secret := "ghp_" + strings.Repeat("a1B2", 9)
	h.Stdin = strings.NewReader(call(s.project, "Bash", fmt.Sprintf(`{"command":"git push https://u:%s@example.invalid/x %s"}`, secret, strings.Repeat("x", 1<<16))))
	if code := h.Answer(); code != 2 {
		t.Fatal("it was allowed")
	}
	refused, err := hooks.Refusals(s.home.LogFile(), 5)
	if err != nil || len(refused) != 1 || refused[0].Tool != "Bash" || refused[0].Role != "read-only" || len(refused[0].Reason) > 1<<11 {
		t.Fatalf("have %+v %v", refused, err)
	}
	if strings.Contains(read(t, s.home.LogFile()), secret) {
		t.Error("the log holds a secret")
	}
	put(t, s.home.LogFile(), strings.Repeat("x", 1<<20+1)+"\n", 0o600)
	h.Stdin = strings.NewReader("{")
	h.Answer()
	if info, err := os.Stat(s.home.LogFile()); err != nil || info.Size() > 1<<12 {
		t.Errorf("the log did not begin anew: %v", err)
	}
}

func TestStatusSaysWhatKeepsAHookFromBeingRun(t *testing.T) {
	for name, one := range map[string]struct {
		break_ func(t *testing.T, s site, p hooks.Place)
		agent  string
	}{
		"the program is gone": {func(t *testing.T, s site, _ hooks.Place) { t.Helper(); _ = os.Remove(s.program) }, hooks.Claude},
		"the set is gone": {func(t *testing.T, s site, _ hooks.Place) {
			t.Helper()
			pins, _ := filepath.Glob(filepath.Join(s.home.State, "hooks", "*.json"))
			_ = os.Remove(pins[0])
		}, hooks.Claude},
		"disableAllHooks in the project": {func(t *testing.T, s site, p hooks.Place) {
			t.Helper()
			put(t, filepath.Join(filepath.Dir(p.File), "settings.json"), `{"disableAllHooks":true}`, 0o600)
		}, hooks.Claude},
		"managed hooks only": {func(t *testing.T, s site, _ hooks.Place) {
			t.Helper()
			put(t, s.home.Place(hooks.Claude, hooks.Managed, "").File, `{"allowManagedHooksOnly":true}`, 0o600)
		}, hooks.Claude},
		"codex's feature is off": {func(t *testing.T, s site, _ hooks.Place) {
			t.Helper()
			put(t, filepath.Join(s.home.Codex, "config.toml"), "[features]\nhooks = false\n", 0o600)
		}, hooks.Codex},
		"codex's managed hooks only": {func(t *testing.T, s site, _ hooks.Place) {
			t.Helper()
			put(t, s.home.Place(hooks.Codex, hooks.Managed, "").File, "allow_managed_hooks_only = true\n", 0o600)
		}, hooks.Codex},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			place := s.home.Place(one.agent, hooks.Project, s.project)
			if err := s.install("read-only", false, place)(t); err != nil {
				t.Fatal(err)
			}
			one.break_(t, s, place)
			found, err := s.home.Status(s.home.Places(s.project))
			if err != nil || len(found) != 1 || len(found[0].Problems) == 0 {
				t.Errorf("have %+v %v", found, err)
			}
		})
	}
}

func TestOddPathsAreQuotedOrRefused(t *testing.T) {
	s := newSite(t)
	for name, taken := range map[string]bool{"a b": true, "a$(x)": true, "a;b": true, "it's": false, `a\b`: false, "a\nb": false} {
		s.program = filepath.Join(filepath.Dir(s.project), name)
		put(t, s.program, "x", 0o755)
		place := s.home.Place(hooks.Claude, hooks.User, "")
		err := s.install("read-only", true, place)(t)
		if (err == nil) != taken {
			t.Errorf("%q: %v", name, err)
		}
		if found, err := s.home.Status([]hooks.Place{place}); taken && (err != nil || len(found) != 1 || !slices.Equal(found[0].Problems, []string{})) {
			t.Errorf("%q: %+v %v", name, found, err)
		}
	}
}
