package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// unseen waits until what is typed is not shown.
func (s *terminal) unseen() {
	s.t.Helper()
	eventually(s.t, "the echo to be off", func() bool {
		mode, err := unix.IoctlGetTermios(int(s.master.Fd()), unix.TCGETS)
		return err == nil && mode.Lflag&unix.ECHO == 0
	})
}

// U-31: on a terminal nacre setup asks whether to write the config that it shows.
func TestSetupAsksBeforeItWrites(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("go.mod", "module x\n")
	file := filepath.Join(i.work, "home/.config/nacre/config.toml")
	for _, answer := range []string{"\r", "n\r", "yes\r"} {
		screen, wait := i.terminal("setup")
		screen.until("write it? [y/N]")
		if isThere(file) {
			t.Fatal("it is written before the answer")
		}
		screen.typeIn(answer)
		have := wait()
		said := strings.Join(strings.Fields(have.stdout), " ") // a long path breaks its line
		if written := strings.Contains(said, "config.toml is written"); written != (answer == "yes\r") || written != isThere(file) || have.code != 0 {
			t.Errorf("%q: exit %d\n%s", answer, have.code, have.stdout)
		}
	}
	has(t, fileText(file), `checks = ["go test ./..."]`)
}

// D-29: on a terminal nacre setup asks for one credential after the other, shows
// where to get it and not what is typed, and leaves out what nobody knows yet.
func TestSetupAsksOnATerminal(t *testing.T) {
	t.Parallel()
	i := reaching(t, `"install": {"credentials": [{"key": "token", "description": "A token", "required": true, "obtain_url": "https://example.com/tokens", "format_hint": "tok_…"},
		{"key": "spare", "description": "Another"}]},`, "")
	screen, wait := i.terminal("setup")
	for _, answer := range []struct{ shown, typed string }{
		{"plugin far", "\r"}, {"https://example.com/tokens", reachSecret + "\r"}, {"Another (optional)", "\r"},
	} {
		screen.until(answer.shown)
		screen.until("value: ")
		screen.unseen()
		screen.typeIn(answer.typed)
	}
	have := wait()
	has(t, have.stdout, "looks like", "still missing", "kept in", "config.toml names the files now", "far", "token: nobody gave it")
	hasNo(t, have.stdout, reachSecret, "quiet")
	if have.code != 3 {
		t.Errorf("exit %d, want 3: far has none", have.code)
	}
	if kept := fileText(filepath.Join(i.work, "home/.config/nacre/credentials/near/token")); kept != reachSecret {
		t.Errorf("have %d bytes", len(kept))
	}
	if config := fileText(filepath.Join(i.work, "home/.config/nacre/config.toml")); !strings.Contains(config, "near/token") || strings.Contains(config, "far/token") {
		t.Errorf("have %s", config)
	}
}
