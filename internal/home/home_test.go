package home_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/home"
)

// kinds are those of the tests: a folder and a log below one folder at the top.
func kinds() []home.Kind {
	return []home.Kind{{Path: ".agent/sessions"}, {Path: ".agent/history.jsonl", Log: true}}
}

func opened(t *testing.T, homes string) *home.Home {
	t.Helper()
	h, err := home.Open(homes, "main", "/project")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// begin gives the folder in which the session writes what lies at .agent.
func begin(t *testing.T, h *home.Home, start ...home.File) (*home.Session, []nacre.Mount, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	s, mounts, err := home.Begin(h, dir, start, kinds())
	if err != nil {
		t.Fatal(err)
	}
	return s, mounts, filepath.Join(dir, ".agent")
}

// U-03: only listed kinds last; all else is made anew.
func TestOnlyListedKindsLast(t *testing.T) {
	homes := t.TempDir()
	first, mounts, inside := begin(t, opened(t, homes), home.File{Path: ".agent/settings.json", Data: []byte("host")})
	if len(mounts) != 2 || mounts[0].Target != home.Inside+"/.agent" || mounts[1].Target != home.Inside+"/.agent/sessions" {
		t.Fatalf("mounts %+v", mounts)
	}
	kept := mounts[1].Source
	write(t, filepath.Join(kept, "talk.jsonl"), "said")
	for _, obeyed := range []string{"settings.json", ".mcp.json", "plugins/x", ".bashrc", "hooks/pre"} {
		write(t, filepath.Join(inside, obeyed), "agent")
	}
	write(t, filepath.Join(inside, "history.jsonl"), `{"a":1}`+"\nno json\n"+`{"b":2}`+"\n"+`{"cut":`)
	end(t, first)
	_, mounts, inside = begin(t, opened(t, homes), home.File{Path: ".agent/settings.json", Data: []byte("host")})
	if have := read(t, filepath.Join(mounts[1].Source, "talk.jsonl")); have != "said" {
		t.Errorf("the kept folder has %q", have)
	}
	if have := read(t, filepath.Join(inside, "history.jsonl")); have != `{"a":1}`+"\n"+`{"b":2}`+"\n" {
		t.Errorf("the log has %q", have)
	}
	if have := read(t, filepath.Join(inside, "settings.json")); have != "host" {
		t.Errorf("settings %q", have)
	}
	for _, gone := range []string{".mcp.json", "plugins", ".bashrc", "hooks"} {
		if _, err := os.Lstat(filepath.Join(inside, gone)); err == nil {
			t.Errorf("%s lasted", gone)
		}
	}
}

// U-03: what an agent puts in the place of a log is read through no link, waits for
// no pipe, and takes nothing away that was kept.
func TestALogInWhosePlaceSomethingElseLiesAddsNothing(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, `{"secret":1}`+"\n")
	for name, put := range map[string]func(log string) error{
		"a link out":   func(log string) error { return os.Symlink(secret, log) },
		"a pipe":       func(log string) error { return syscall.Mkfifo(log, 0o600) },
		"a folder":     func(log string) error { return os.Mkdir(log, 0o700) },
		"another log":  func(log string) error { return os.WriteFile(log, []byte(`{"forged":1}`+"\n"), 0o600) },
		"nothing":      func(string) error { return nil },
		"a great file": func(log string) error { return os.WriteFile(log, bytes.Repeat([]byte(`{"x":1}`+"\n"), 2<<20), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			homes := t.TempDir()
			s, _, inside := begin(t, opened(t, homes))
			write(t, filepath.Join(inside, "history.jsonl"), `{"kept":1}`+"\n")
			end(t, s)
			s, _, inside = begin(t, opened(t, homes))
			log := filepath.Join(inside, "history.jsonl")
			if err := os.Remove(log); err != nil {
				t.Fatal(err)
			}
			if err := put(log); err != nil {
				t.Fatal(err)
			}
			end(t, s)
			_, _, inside = begin(t, opened(t, homes))
			if have := read(t, filepath.Join(inside, "history.jsonl")); have != `{"kept":1}`+"\n" {
				t.Errorf("the log has %.100q", have)
			}
		})
	}
}

// U-03: two sessions at once both keep what they added.
func TestTwoSessionsAddToOneLog(t *testing.T) {
	homes := t.TempDir()
	one, _, inOne := begin(t, opened(t, homes))
	two, _, inTwo := begin(t, opened(t, homes))
	write(t, filepath.Join(inOne, "history.jsonl"), `{"one":1}`+"\n")
	write(t, filepath.Join(inTwo, "history.jsonl"), `{"two":2}`+"\n")
	end(t, one)
	end(t, two)
	_, _, inside := begin(t, opened(t, homes))
	if have := read(t, filepath.Join(inside, "history.jsonl")); have != `{"one":1}`+"\n"+`{"two":2}`+"\n" {
		t.Errorf("the log has %q", have)
	}
}

// U-03: folders that their owner may not change, such as those of Go's modules, do not
// keep a home from its end. Root may change them all the same.
func TestAHomeEndsWithFoldersThatMayNotBeChanged(t *testing.T) {
	s, _, inside := begin(t, opened(t, t.TempDir()))
	write(t, filepath.Join(inside, "module", "file"), "x")
	if err := os.Chmod(filepath.Join(inside, "module"), 0o500); err != nil {
		t.Fatal(err)
	}
	end(t, s)
	if _, err := os.Lstat(inside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// U-03: a choice is a word and nothing else, and holds in all projects of a group.
func TestAChoiceIsAWord(t *testing.T) {
	homes := t.TempDir()
	for _, value := range []string{"dark", "$(curl x)", "", strings.Repeat("a", 33), "Dark", "a\nb", "dark-daltonized"} {
		if err := opened(t, homes).Choose(t.Context(), "theme", value); err != nil {
			t.Fatal(err)
		}
	}
	other, err := home.Open(homes, "main", "/other")
	if err != nil {
		t.Fatal(err)
	}
	if choices, err := other.Choices(); err != nil || choices["theme"] != "dark-daltonized" {
		t.Errorf("choices %v, %v", choices, err)
	}
}

// U-03: homes are listed with their size, and removed.
func TestHomesAreListedAndRemoved(t *testing.T) {
	homes := filepath.Join(t.TempDir(), "ho*es")
	_, mounts, _ := begin(t, opened(t, homes))
	write(t, filepath.Join(mounts[1].Source, "talk"), "12345")
	list, err := home.List(t.Context(), homes)
	if err != nil || len(list) != 1 || list[0].Project != "/project" || list[0].Group != "main" || list[0].Bytes < 5 {
		t.Fatalf("list %+v, %v", list, err)
	}
	if err := home.Remove(list[0]); err != nil {
		t.Fatal(err)
	}
	if list, err := home.List(t.Context(), homes); err != nil || len(list) != 0 {
		t.Errorf("list %+v, %v", list, err)
	}
}

// A kind or a first file that leaves the home is refused.
func TestAKindOutsideOfTheHomeIsRefused(t *testing.T) {
	for _, path := range []string{"", ".", "..", "../x", "/etc", "a/../b", "a//b", "a/"} {
		if _, _, err := home.Begin(nil, filepath.Join(t.TempDir(), "home"), nil, []home.Kind{{Path: path}}); err == nil {
			t.Errorf("kind %q was taken", path)
		}
		if _, _, err := home.Begin(nil, filepath.Join(t.TempDir(), "home"), []home.File{{Path: path}}, nil); err == nil {
			t.Errorf("file %q was taken", path)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func end(t *testing.T, s *home.Session) {
	t.Helper()
	if err := s.End(t.Context()); err != nil {
		t.Fatal(err)
	}
}
