package main_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite" // to write a newer version into a file
)

// D-34, D-40: a file of schedules that cannot be used is named, with what to do, by every command
// and by nacre serve. Nothing of it is changed or lost.
func TestSchedulesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(path string) error
		want  string
	}{
		"of a newer nacre": {func(path string) error {
			db, err := sql.Open("sqlite", "file:"+path)
			if err == nil {
				_, err = db.Exec(`PRAGMA user_version = 99`)
			}
			if err == nil {
				err = db.Close()
			}
			return err
		}, "written by a newer nacre: upgrade to use it"},
		"empty":               {func(path string) error { return os.Truncate(path, 0) }, "damaged"},
		"cut off":             {func(path string) error { return os.Truncate(path, 5000) }, "damaged: restore the file from a backup, or move it away"},
		"another program's":   {func(path string) error { return os.WriteFile(path, []byte("no database at all, but a note\n"), 0o600) }, "damaged"},
		"a folder":            {func(path string) error { _ = os.Remove(path); return os.Mkdir(path, 0o700) }, "schedules.sqlite"},
		"a link to elsewhere": {func(path string) error { _ = os.Remove(path); return os.Symlink("/nowhere/else", path) }, "schedules.sqlite"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.nacre("schedule", "add", "--every", "1h", "--prompt", "kept").want(t, 0)
			path := i.state("schedules.sqlite")
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(path); err != nil {
				t.Fatal(err)
			}
			spoilt := fileText(path)
			for _, args := range [][]string{{"schedule", "list"}, {"schedule", "add", "--every", "1h", "--prompt", "lost"}, {"serve"}} {
				i.nacre(args...).want(t, 3, path, c.want)
			}
			if fileText(path) != spoilt {
				t.Error("the file was changed")
			}
			_ = os.RemoveAll(path) // what spoilt it goes
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			i.nacre("schedule", "list").want(t, 0, "kept")
		})
	}
}

// D-34: in a folder that cannot be written it says so, and what to do; what was there
// is there.
func TestSchedulesInAReadOnlyFolder(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("schedule", "add", "--every", "1h", "--prompt", "kept").want(t, 0)
	way := `chmod 0400 schedules.sqlite && chmod 0500 . && { "$@"; code=$?; chmod 0700 .; chmod 0600 schedules.sqlite; exit $code; }`
	if os.Geteuid() == 0 { // whom no mode stops
		way = `mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$@"`
	}
	nacre := func(args ...string) result {
		argv := append([]string{"-c", "cd " + i.state() + " && " + way, "sh", filepath.Join(bin, "nacre")}, args...)
		command := i.command("sh", argv...)
		if os.Geteuid() == 0 {
			command = i.command("unshare", append([]string{"-m", "sh"}, argv...)...)
		}
		out, err := command.CombinedOutput()
		return result{exitCode(err), string(out), ""}
	}
	have := nacre("schedule", "add", "--every", "1h", "--prompt", "one more")
	if strings.Contains(have.stdout, "mount:") || strings.Contains(have.stdout, "unshare:") {
		t.Skipf("no mounts here: %s", have.stdout)
	}
	have.want(t, 3, i.state())
	if !strings.Contains(have.stdout, "read-only") && !strings.Contains(have.stdout, "permission denied") && !strings.Contains(have.stdout, "cannot be written") {
		t.Errorf("it does not say why: %s", have.stdout)
	}
	if have := nacre("serve"); have.code != 3 {
		t.Errorf("serve: %+v", have)
	}
	have = i.nacre("schedule", "list")
	have.want(t, 0, "kept")
	hasNo(t, have.stdout, "one more")
}

// D-34: on a full disk it says so; with room again it goes on where it was.
func TestSchedulesOnAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	i := install(t)
	if err := os.MkdirAll(i.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", i.state(), "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(i.state(), syscall.MNT_DETACH) }) // the folder goes with the test
	i.nacre("schedule", "add", "--every", "1h", "--prompt", "kept").want(t, 0)
	filler := i.state("filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	add := []string{"schedule", "add", "--every", "1h", "--prompt", "one more"}
	have := i.nacre(add...)
	have.want(t, 3, i.state())
	if !strings.Contains(have.stderr, "no space left") && !strings.Contains(have.stderr, "the disk is full") {
		t.Errorf("it does not say why: %s", have.stderr)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	i.nacre(add...).want(t, 0)
	i.nacre("schedule", "list").want(t, 0, "kept", "one more")
}
