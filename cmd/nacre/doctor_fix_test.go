package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/ledger"
)

// M-60: what a killed nacre left open is found, and repaired where a person says yes. What was tried before
// fails is tried again, and what was planted meanwhile is told.
func TestDoctorCompletesWhatAKilledRunLeft(t *testing.T) {
	t.Parallel()
	i := install(t)
	has(t, i.nacre("doctor", "--no-turns").stdout, "none was killed and left open")
	r := i.waits()
	_ = r.Process.Kill()
	finish(t, r)
	has(t, i.nacre("doctor", "--no-turns").stdout, "killed, and what was left is open: work", "nacre doctor --fix")
	i.nacre("audit", "verify").want(t, 1, "was killed")
	i.nacre("doctor", "--no-turns", "--fix").want(t, 2, "--fix asks at a terminal: add --yes")
	i.nacre("doctor", "--no-turns", "--yes").want(t, 2, "--yes answers the questions of --fix")

	screen, wait := i.terminal("doctor", "--no-turns", "--fix")
	screen.until("complete the landings, rows and records that sessions left which were killed? [y/N]")
	screen.typeIn("n\r")
	if out := wait(); strings.Contains(out.stdout, "repaired") {
		t.Errorf("refused, and have %s", out.stdout)
	}
	screen, wait = i.terminal("doctor", "--no-turns", "--fix")
	screen.until("[y/N]")
	screen.typeIn("y\r")
	screen.until("repaired: complete the landings")
	screen.until("none was killed and left open")
	wait()
	i.nacre("audit", "verify").want(t, 0)
	if have := i.rows(); len(have) != 1 || have[0] != ledger.Interrupted {
		t.Errorf("have %q", have)
	}
}

// M-60: old sessions that take too much room are found, and removed with --fix --yes; what
// did not land stays.
func TestDoctorMakesRoom(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("exec", "-q", "--session", "old", "--", "true").want(t, 0)
	has(t, i.nacre("doctor", "--no-turns").stdout, "old sessions take 0 MiB")
	big := i.state("sessions", "old", "left.bin")
	f, err := os.Create(big)
	if err == nil {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, 1<<30)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	has(t, i.nacre("doctor", "--no-turns").stdout, "old sessions take 0 MiB") // it is not old yet
	i.write("home/.config/nacre/config.toml", "[retention]\nolder = \"1s\"\n")
	eventually(t, "the session to be old", func() bool {
		return strings.Contains(i.nacre("doctor", "--no-turns").stdout, "1 old sessions take 1024 MiB")
	})
	r := i.nacre("doctor", "--no-turns", "--fix", "--yes", "--json")
	has(t, r.stdout, `"name":"room","status":"ok"`)
	has(t, r.stderr, "repaired: remove 1 old sessions")
	if _, err := os.Stat(big); !os.IsNotExist(err) {
		t.Errorf("%s: %v", filepath.Base(big), err)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-60, U-41: where no sandbox starts, that is what each command says, with what puts it right. No brain is
// blamed for it, and what is proved without a sandbox is proved.
func TestWhereNoSandboxStarts(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.env = append(i.env, "OPENAI_API_KEY=key-of-the-test") // a brain that is ready
	i.write("project/.envrc", "")
	for _, c := range []struct {
		command   []string
		code      int
		want, not string
	}{
		{[]string{"doctor"}, 4, "no sandbox starts, so no brain and no plugin was given a turn", "do not use this brain"},
		{[]string{"explain", "--project", "project"}, 3, "the native sandbox cannot start", "sealed by"},
		{[]string{"doctor", "--prove", "--project", "project"}, 3, "the native sandbox cannot start", "got through "},
		{[]string{"doctor", "--prove", "--project", "project", "--json"}, 3, `"probe":".envrc","outcome":"not tried","reason":"no sandbox starts here"`, `"outcome":"got through"`},
	} {
		// the user that one is, which root is not everywhere
		args := append([]string{"-c", "--keep-caps", "sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces || exit 77; exec "$0" "$@"`, filepath.Join(bin, "nacre")}, c.command...)
		out, err := i.command("unshare", args...).CombinedOutput()
		if exitCode(err) == 77 || errors.Is(err, exec.ErrNotFound) || bytes.Contains(out, []byte("unshare:")) {
			t.Skipf("no user namespaces here: %s", out)
		}
		if exitCode(err) != c.code {
			t.Errorf("%q ended with %v, want %d: %s", c.command, err, c.code, out)
		}
		has(t, string(out), c.want, "user.max_user_namespaces = 0", "sudo sysctl user.max_user_namespaces")
		hasNo(t, string(out), c.not)
	}
}
