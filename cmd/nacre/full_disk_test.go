package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// onSmallDisk runs a script as root, whose $1 is the folder of the state, to mount a small disk at, $2 nacre,
// and $3 a folder of its own. It gives what the script said.
func (i *installation) onSmallDisk(script string) string {
	i.t.Helper()
	if os.Geteuid() != 0 {
		i.t.Skip("only root mounts a small disk")
	}
	state, own := filepath.Join(i.work, "home/.local/state"), filepath.Join(i.work, "p")
	check(i.t, errors.Join(os.MkdirAll(state, 0o700), os.MkdirAll(own, 0o700)))
	command := i.command(testpeer.Need(i.t, "unshare"), "-m", "sh", i.write("script", script), state, filepath.Join(bin, "nacre"), own)
	said, err := command.CombinedOutput()
	if err != nil {
		i.t.Fatalf("%v\n%s", err, said)
	}
	return string(said)
}

// M-60: where the disk of nacre's state is full, nothing begins, and what is at work does nothing more, since
// it could not be recorded. Each says so. With room again all goes on, and the chains verify.
func TestAStateOnAFullDisk(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[groups.main]\ntools = [\"create_reminder\", \"list_reminders\"]\n")
	said := i.onSmallDisk(`set -u
mount -t tmpfs -o size=8m none "$1"
mkfifo -m 600 "$3/pipe"
say() { echo "== $*"; }
mkdir -p "$1/config/nacre" "$1/go"; echo 'module m' >"$1/go/go.mod"; echo '# mine' >"$1/config/nacre/config.toml"
fill() { dd if=/dev/zero of="$1/fill" bs=4k 2>/dev/null; }
cd "$3"
say at work; "$2" exec -q --session one -- sh -c 'ipc create_reminder "{\"title\":\"first\",\"list\":\"Work\"}"; echo begun >&2; head -c 1 >/dev/null; for n in $(seq 40); do ipc create_reminder "{\"title\":\"more\",\"list\":\"Work\"}"; done' 2>"$3/said" <"$3/pipe" & one=$!
exec 3>"$3/pipe"
while ! grep -q begun "$3/said" && kill -0 $one; do sleep 0.05; done
fill "$1"; echo >&3; wait $one; echo "exit $?"; cat "$3/said"
say begins; "$2" exec -q -- echo never; echo "exit $?"
say installs; XDG_STATE_HOME="$1/another" "$2" exec -q -- echo never; echo "exit $?"
say lists; "$2" sessions list
say serves; "$2" serve; echo "exit $?"
say sets up; (cd "$1/go"; XDG_CONFIG_HOME="$1/config" "$2" setup --yes); echo "exit $?"; cat "$1/config/nacre/config.toml"
say verifies; "$2" doctor | grep disk
rm "$1/fill"
say with room; "$2" exec -q -- ipc list_reminders '{"list":"Work"}'; echo "exit $?"
"$2" audit verify; echo "exit $?"
`)
	parts := map[string]string{}
	for _, part := range strings.Split(said, "== ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		parts[name] = text
	}
	has(t, parts["at work"], "R-1", "exit 3", "no space left on device", "with room on its disk")
	hasNo(t, parts["at work"], "R-41")          // the last page of a file may have room for some
	has(t, parts["begins"], "exit 125", "disk") // it is full, or wants room on it: whatever met that first
	hasNo(t, parts["begins"], "never\n")
	has(t, parts["installs"], "exit 125")
	has(t, parts["serves"], "exit 3")
	for _, part := range []string{"installs", "serves"} {
		if !strings.Contains(parts[part], "make room") { // a database says so, where it is met first
			has(t, parts[part], "with room on its disk")
		}
	}
	has(t, parts["sets up"], "config.toml stays as it is: ", "no space left on device", "exit 1\n# mine\n") // U-31
	has(t, parts["verifies"], "make room")
	has(t, parts["with room"], "first", "closed", "exit 0")
	hasNo(t, parts["with room"], "exit 1")
	for part, text := range map[string]string{"at work": "no space left on device", "lists": "the disk is full"} {
		if n := strings.Count(parts[part], text); n > 1 {
			t.Errorf("it is said %d times:\n%s", n, parts[part])
		}
	}
}

// U-14: what could not be written is not taken for written: neither what a sealed command prints nor
// what nacre lists ends as if all was well.
func TestOutputOnAFullDiskIsNotLostInSilence(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("exec", "-q", "--", "true").want(t, 0)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check(t, err)
	defer func() { check(t, full.Close()) }()
	for _, args := range [][]string{{"exec", "-q", "--", "echo", "hello"}, {"sessions", "list"}, {"sessions", "list", "--json"}, {"exec", "--help"}} {
		var said strings.Builder
		command := i.command(bin+"/nacre", args...)
		command.Stdout, command.Stderr = full, &said
		code := exitCode(command.Run())
		if has(t, said.String(), "no space left on device"); code != 1 {
			t.Errorf("%q: exit %d, want 1", args, code)
		}
	}
}

// U-14: a command whose caller closed streams of its own reads nothing there, and prints to nobody.
func TestStreamsThatAreClosedAreNone(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/a", "a\n")
	command := i.command("sh", "-c", `"$0" exec -q --project p -- sh -c 'read -r x; echo "read-$?" >said; echo lost; echo lost >&2; exit 7' <&- >&- 2>&-`, bin+"/nacre")
	if code := exitCode(command.Run()); code != 7 || i.read("p/said") != "read-1\n" {
		t.Errorf("exit %d, want 7; inside it was %q", code, i.read("p/said"))
	}
}
