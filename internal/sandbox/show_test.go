package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

// asked is a sandbox whose agent does what it is told, a line each, and says END after it.
type asked struct {
	t      *testing.T
	p      sandbox.Process
	in     *os.File
	answer *bufio.Reader
}

func ask(t *testing.T, n *sandbox.Native) *asked {
	t.Helper()
	inRead, in := pipe(t)
	out, outWrite := pipe(t)
	c := shell(`while IFS= read -r line; do eval "$line" 2>&1; echo END; done`)
	c.Stdin, c.Stdout, c.Stderr = inRead, outWrite, outWrite
	p, err := n.Start(t.Context(), c)
	_, _ = inRead.Close(), outWrite.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return &asked{t, p, in, bufio.NewReader(out)}
}

func (a *asked) does(line string) string {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, line); err != nil {
		a.t.Fatal(err)
	}
	var all strings.Builder
	for {
		text, err := a.answer.ReadString('\n')
		if err != nil {
			a.t.Fatalf("%s: %v after %q", line, err, all.String())
		}
		if text == "END\n" {
			return all.String()
		}
		all.WriteString(text)
	}
}

func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lib")
	for name, mode := range map[string]os.FileMode{"a.txt": 0o600, "suid": 0o755} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "below"), 0o755), os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nid -u\n"), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "suid"), 0o4755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// M-42, M-12: a folder appears in a sandbox that runs, read-only, and goes away again. Nobody inside can make it
// writable, and another sandbox has nothing of it.
func TestAFolderIsShownInASandboxThatRuns(t *testing.T) {
	t.Parallel()
	n, dir := open(t), folder(t)
	f, err := n.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, other := ask(t, n), ask(t, n)
	if err := a.p.(sandbox.Shown).Show(f, "lib"); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"cat /folders/lib/a.txt":                                        "#!/bin/sh\nid -u\n",
		"echo x > /folders/lib/new":                                     "Read-only file system",
		"echo x > /folders/lib/a.txt":                                   "Read-only file system",
		"chmod 777 /folders/lib/a.txt":                                  "Read-only file system",
		"rm -r /folders/lib/below":                                      "Read-only file system",
		"mkdir /folders/mine":                                           "Read-only file system",
		"mv /folders /f":                                                "",
		"mount -o remount,rw /folders/lib":                              "",
		"umount /folders/lib; cat /folders/lib/a.txt":                   "id -u\n",
		"unshare -Urm mount -o remount,rw,bind /folders/lib":            "",
		"/folders/lib/suid":                                             "1000\n",
		"grep ' /folders/lib ' /proc/self/mountinfo":                    "ro,nosuid,nodev",
		"grep -c 'shared:\\|master:' /proc/self/mountinfo":              "0\n",
		"test -w /folders/lib && echo writable; echo x >/folders/lib/y": "Read-only file system",
	} {
		if have := a.does(line); !strings.Contains(have, want) || strings.Contains(have, "writable") {
			t.Errorf("%s: have %q, want %q", line, have, want)
		}
	}
	if have := other.does("ls -d /folders"); !strings.Contains(have, "No such file") {
		t.Errorf("another sandbox: have %q", have)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("it was written")
	}
	if err := a.p.(sandbox.Shown).Hide("lib"); err != nil {
		t.Fatal(err)
	}
	if have := a.does("ls -d /folders/lib"); !strings.Contains(have, "No such file") {
		t.Errorf("taken away: have %q", have)
	}
	if err := a.p.(sandbox.Shown).Show(f, "lib"); err != nil {
		t.Errorf("shown again: %v", err)
	}
	if err := a.p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := a.p.(sandbox.Shown).Show(f, "lib"); !errors.Is(err, sandbox.ErrOver) {
		t.Errorf("after its end: %v", err)
	}
}

// M-42: who stands in a folder that is taken away, or that the host moves out of what is shown, gets no further from
// there. They reach neither what lies beside it on the host, nor where it was moved.
func TestNobodyLeavesAFolderByWhereTheyStand(t *testing.T) {
	t.Parallel()
	n, dir := open(t), folder(t)
	outside := filepath.Join(t.TempDir(), "deep", "er")
	const marker = "what-nobody-may-read"
	if err := errors.Join(os.MkdirAll(outside, 0o755), os.Mkdir(filepath.Join(dir, "moved"), 0o755),
		os.WriteFile(filepath.Join(filepath.Dir(dir), "secret"), []byte(marker), 0o600),
		os.WriteFile(filepath.Join(filepath.Dir(outside), "secret"), []byte(marker), 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := n.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	taken, moved := ask(t, n), ask(t, n)
	for _, a := range []*asked{taken, moved} {
		if err := a.p.(sandbox.Shown).Show(f, "lib"); err != nil {
			t.Fatal(err)
		}
	}
	taken.does("cd /folders/lib/below")
	moved.does("cd /folders/lib/moved")
	if err := taken.p.(sandbox.Shown).Hide("lib"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "moved"), filepath.Join(outside, "moved")); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*asked{"taken away": taken, "moved": moved} {
		for _, line := range []string{"cat ../secret ../../secret ../../../secret", "cd ..; cat secret ../secret; ls -a . .."} {
			if have := a.does(line); strings.Contains(have, marker) || strings.Contains(have, "secret\n") {
				t.Errorf("%s: %s: have %q", name, line, have)
			}
		}
	}
}

// M-42: what was asked for is what is shown, or nothing is.
func TestAFolderThatWasSwappedIsNotShown(t *testing.T) {
	t.Parallel()
	n := open(t)
	for name, swap := range map[string]func(t *testing.T, dir string) error{
		"removed": func(_ *testing.T, dir string) error { return os.RemoveAll(dir) },
		"another in its place": func(_ *testing.T, dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755))
		},
		"a link in its place": func(_ *testing.T, dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir))
		},
		"moved, with its parent": func(_ *testing.T, dir string) error { return os.Rename(filepath.Dir(dir), filepath.Dir(dir)+".old") },
		"a socket below": func(t *testing.T, dir string) error {
			return unix.Bind(socketOf(t), &unix.SockaddrUnix{Name: filepath.Join(dir, "s")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			f, err := n.OpenFolder(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			a := ask(t, n)
			if err := swap(t, dir); err != nil {
				t.Fatal(err)
			}
			if err := a.p.(sandbox.Shown).Show(f, "lib"); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("have %v", err)
			}
			if have := a.does("ls -d /folders"); !strings.Contains(have, "No such file") {
				t.Errorf("have %q", have)
			}
		})
	}
}

func socketOf(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// M-42: what no agent may be shown is refused before anybody is asked, by whatever name.
func TestPlacesThatNoAgentIsShown(t *testing.T) {
	t.Parallel()
	n, dir := open(t), folder(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"/", "/proc", "/proc/self", "/sys/kernel", "/dev", "/dev/shm", "/run", "/etc", "/etc/ssl", "/usr/bin", "/boot", "/root", "/home", "/var", "/var/spool", "/tmp/..", link,
		dir + "/../../../../../../../../etc", dir + "/a.txt", dir + "/none", "lib", "",
	} {
		if f, err := n.OpenFolder(name); err == nil {
			t.Errorf("%s is shown: %s", name, f.Path())
			f.Close()
		}
	}
	f, err := n.OpenFolder(dir + "/below/..")
	if err != nil || f.Path() != dir {
		t.Fatalf("have %v", err)
	}
	defer f.Close()
	for _, place := range []string{"", ".", "..", "a/b", "../etc", "a\nb", "\u202eb", strings.Repeat("a", 65)} {
		if err := ask(t, n).p.(sandbox.Shown).Show(f, place); err == nil {
			t.Errorf("the place %q was taken", place)
		}
	}
}

// M-42: what is mounted below a folder is not part of it.
func TestAFolderWithMountsBelowItIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounts on the host are root's")
	}
	n, dir := open(t), folder(t)
	f, err := n.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Mount("none", filepath.Join(dir, "below"), "tmpfs", 0, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "below"), unix.MNT_DETACH) })
	if _, err := n.OpenFolder(dir); err == nil || !strings.Contains(err.Error(), "is mounted below it") {
		t.Errorf("have %v", err)
	}
	if err := ask(t, n).p.(sandbox.Shown).Show(f, "lib"); err == nil || !strings.Contains(err.Error(), "is mounted below it") {
		t.Errorf("mounted since it was asked for: have %v", err)
	}
}
