package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// M-12: what no project may be is refused before anything runs, by whatever
// name it is called.
func TestFoldersThatAreNoProjectAreRefused(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/a", "a\n")
	i.write("sockets/x", "")
	listener, err := net.Listen("unix", filepath.Join(i.work, "sockets", "docker.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	for name, to := range map[string]string{"root": "/", "home": i.work + "/home", "etc": "/etc", "proc": "/proc/self/root", "state": i.state()} {
		if err := os.Symlink(to, filepath.Join(i.work, "to-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{
		"/", "/proc", "/proc/self/root", "/dev", "/etc", "/run", "home", "home/", "p/../home", "to-root", "to-home", "to-etc", "to-proc", "nothing", "p/a",
	} {
		r := i.nacre("exec", "--project", dir, "--", "sh", "-c", "echo it ran")
		if r.code != 125 && r.code != 2 || !strings.Contains(r.stderr, "nacre:") || strings.Contains(r.stdout, "it ran") {
			t.Errorf("%s: have %d, %q %q", dir, r.code, r.stdout, r.stderr)
		}
	}
	// A folder with a socket in it is one; the socket leads nowhere.
	r := i.nacre("exec", "-q", "--project", "sockets", "--", "python3", "-c", "import socket; socket.socket(socket.AF_UNIX).connect('docker.sock'); print('it answered')")
	if strings.Contains(r.stdout, "it answered") {
		t.Errorf("a socket of the host was reached: %+v", r)
	}
}

// M-12, M-13: a project full of links, sockets, pipes, devices and names that no
// terminal should see changes nothing for the host, and the command runs.
func TestAHostileProjectIsOnlyAProject(t *testing.T) {
	t.Parallel()
	i := install(t)
	secret := i.write("secret", "the secret of the host\n")
	i.write("p/a.txt", "a\n")
	i.hostile(t, secret)
	r := i.nacre("exec", "--session", "hostile", "--time", "60s", "--project", "p", "--", "sh", "-c", `
		cat out out2 loop up/secret .env .envrc .git/config .vscode/settings.json proc/environ 2>/dev/null
		for f in null disk; do test -e $f && head -c 1 <$f 2>/dev/null && echo opened $f; done
		ls -R . >/dev/null; echo x >out; echo x >up/made; mkdir -p .git/hooks; echo it went on`)
	r.want(t, 0)
	for _, never := range []string{"the secret of the host", "opened", "\x1b]0;owned"} {
		if strings.Contains(r.stdout+r.stderr, never) {
			t.Errorf("have %q in %q %q", never, r.stdout, r.stderr)
		}
	}
	if have, err := os.ReadFile(secret); err != nil || string(have) != "the secret of the host\n" {
		t.Errorf("the host's file: %q, %v", have, err)
	}
	if _, err := os.Lstat(filepath.Join(i.work, "made")); err == nil {
		t.Error("a file was made beside the project")
	}
	i.nacre("explain", "--project", "p").want(t, 0)
	// What nacre has to cover must be where it says.
	if err := os.Symlink(i.work, filepath.Join(i.work, "p", ".vscode")); err != nil {
		t.Fatal(err)
	}
	r = i.nacre("exec", "--project", "p", "--", "sh", "-c", "echo it ran")
	if r.want(t, 125, "symbolic link"); r.stdout != "" {
		t.Errorf("it ran: %q", r.stdout)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-13: a link to something else in the project, as people have for several agents, makes no
// refusal. What it leads to is read-only, and a link that is replaced is told.
func TestALinkInTheProjectProtectsWhatItLeadsTo(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.agents/settings.json", "{}\n")
	check(t, os.Symlink(".agents", filepath.Join(i.work, "p", ".claude")))
	time.Sleep(50 * time.Millisecond) // what is as new as the session may have been written in it
	r := i.nacre("exec", "--project", "p", "--", "sh", "-c", "echo x >.claude/settings.json || echo x >.agents/settings.json || echo held")
	if r.want(t, 0); r.stdout != "held\n" || strings.Contains(r.stderr, "look") {
		t.Errorf("have %q, %q", r.stdout, r.stderr)
	}
	i.nacre("exec", "--project", "p", "--", "sh", "-c", "rm .claude && mkdir .claude && echo x >.claude/settings.json").want(t, 0, ".claude/settings.json is new or changed")
	check(t, os.RemoveAll(filepath.Join(i.work, "p", ".claude")))
	check(t, os.Symlink(".agents", filepath.Join(i.work, "p", "link")))
	for _, to := range []string{".", "..", "nowhere", "/etc", "link", "link/settings.json"} {
		check(t, os.Symlink(to, filepath.Join(i.work, "p", ".claude")))
		i.nacre("exec", "--project", "p", "--", "true").want(t, 125, "symbolic link")
		check(t, os.Remove(filepath.Join(i.work, "p", ".claude")))
	}
}

// hostile fills the project.
func (i *installation) hostile(t *testing.T, secret string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(i.work, "p", name) }
	for name, to := range map[string]string{
		"out": secret, "out2": "../secret", "loop": "loop", "up": "..", "proc": "/proc/1", ".env": secret,
	} {
		if err := os.Symlink(to, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(in(".git"), []byte("gitdir: "+i.work+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"\x1b]0;owned\a", "a\nb", "--help", "-rf", strings.Repeat("n", 255), "\xff\xfe"} {
		if err := os.WriteFile(in(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(in("Makefile"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", in("host.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if os.Geteuid() == 0 { // an ordinary user cannot make these
		for name, device := range map[string]uint64{"null": unix.Mkdev(1, 3), "disk": unix.Mkdev(254, 0)} {
			if err := unix.Mknod(in(name), unix.S_IFCHR|0o666, int(device)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// M-12, M-16: a command that will not end, or takes all there is, ends with its
// time, and nothing of it stays.
func TestACommandThatWillNotEndIsEnded(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/a", "a\n")
	for name, c := range map[string]struct {
		script string
		code   int
	}{
		"it ignores signals":       {"trap '' TERM INT HUP QUIT; while :; do sleep 300MARK; done", 124},
		"it stops itself":          {"sleep 300MARK & kill -STOP $$", 124},
		"it forks without end":     {"f() { sleep 300MARK & f | f & }; f 2>/dev/null; sleep 300MARK", 124},
		"it closes its pipes":      {"exec <&- >&- 2>&-; sleep 300MARK", 124},
		"it leaves a child behind": {"(trap '' HUP; sleep 300MARK &); exit 3", 3},
		"it takes all memory":      {"tail -c 20G /dev/zero; sleep 300MARK", 124},
		"it makes files for ever":  {"cd /tmp; n=0; while :; do n=$((n+1)); echo $n >f$n || sleep 300MARK; done 2>/dev/null", 124},
	} {
		mark := marker()
		began := time.Now()
		r := i.nacre("exec", "--session", "stays", "--time", "4s", "--project", "p", "--", "sh", "-c", strings.ReplaceAll(c.script, "MARK", mark))
		if r.code != c.code {
			t.Errorf("%s: exit %d, want %d: %.300s", name, r.code, c.code, r.stderr)
		}
		if left := processes(t, "300"+mark); len(left) > 0 {
			t.Errorf("%s: processes %v are still there after %s", name, left, time.Since(began))
		}
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-05: what a command prints of itself in nacre's own lines is made harmless;
// its streams are its own.
func TestNamesInNacresOwnLinesCannotDriveATerminal(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/a", "a\n")
	r := i.nacre("exec", "--project", "p", "--", "sh", "-c", `mkdir -p sub/.git/hooks; printf 'x' >"$(printf 'sub/.git/hooks/\033]0;owned\007')"; printf x >"$(printf 'Make\033[2Jfile.mk')"; printf 'all:\n' >Makefile`)
	r.want(t, 0)
	if strings.ContainsAny(r.stderr, "\x1b\a") {
		t.Errorf("a control character in %q", r.stderr)
	}
	if !strings.Contains(r.stderr, "Makefile") {
		t.Errorf("what was planted is not named: %q", r.stderr)
	}
}
