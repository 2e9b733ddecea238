package repo_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo"
)

// overlayWay, set in the environment, says that clones are layers over bases, and
// that this process may mount.
const overlayWay = "NACRE_REPO_OVERLAY"

// cloned are the tests that have asked in which way clones are made.
var cloned sync.Map

// overBases tells whether clones are layers over bases. The test that asks is run in both ways.
func overBases(t testing.TB) bool {
	whole, _, _ := strings.Cut(t.Name(), "/")
	cloned.Store(whole, true)
	return os.Getenv(overlayWay) != ""
}

// againOverBases runs the tests once more for which it means something else, with clones that are layers over
// bases (issue 12): those that asked. They run in mounts of their own, and, where this is not root, as the root of them.
func againOverBases() int {
	for _, other := range []string{"test.fuzz", "test.bench", "test.list"} {
		if f := flag.Lookup(other); f != nil && f.Value.String() != "" {
			return 0
		}
	}
	var names []string
	cloned.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	f := flag.Lookup("test.run")
	whole := f == nil || f.Value.String() == ""
	if len(names) == 0 && whole {
		fmt.Fprintln(os.Stderr, "no test asked how clones are made, so nothing is tried over bases")
		return 1
	}
	if len(names) == 0 {
		return 0 // none of those that were chosen makes a clone
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	if whole {
		again.Args = slices.Insert(again.Args, 1, "-test.run=^("+strings.Join(names, "|")+")$")
	}
	again.Env = append(os.Environ(), overlayWay+"=1")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		again.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		// a layer that is volatile is made in a folder of the kernel's own, which nobody may enter
		again.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE}
	}
	err := again.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC) {
		fmt.Fprintln(os.Stderr, "skipped over bases: this machine forbids the namespaces:", err)
		return 0
	}
	if err == nil {
		err = again.Wait()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "over bases:", err)
		return 1
	}
	return 0
}

// bases is where the bases of a run are.
func (r *run) bases() string {
	if r.baseDir == "" {
		r.baseDir = filepath.Join(r.t.TempDir(), "bases")
	}
	return r.baseDir
}

func (r *run) overlays() repo.Overlays { return repo.Overlays{Project: r.project} }

func (r *run) base() *repo.Base {
	r.t.Helper()
	b, err := r.overlays().OpenBase(context.Background(), r.bases())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = b.Release() }) // it may have been
	return b
}

// cloneOver makes the clone as a layer over a base, and shows the agent both.
func (r *run) cloneOver(dir string) {
	r.t.Helper()
	b := r.base()
	clone, err := r.overlays().CloneOver(context.Background(), b, dir)
	if err != nil {
		r.t.Fatal(err)
	}
	r.clone, r.work = clone, merged(r.t, b, dir)
	if err := unix.Mount(filepath.Join(dir, ".git"), filepath.Join(r.work, ".git"), "", unix.MS_BIND, ""); err != nil {
		r.t.Fatal(err)
	}
}

// merged mounts a base with a layer over it, as the sandbox does.
func merged(t testing.TB, b *repo.Base, layer string) string {
	t.Helper()
	at := t.TempDir()
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fs) }()
	for _, o := range [][2]string{
		{"lowerdir", b.Files}, {"upperdir", filepath.Join(layer, nacre.LayerUpper)}, {"workdir", filepath.Join(layer, nacre.LayerWork)},
		{"metacopy", "off"}, {"index", "off"}, {"xino", "off"},
	} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			t.Fatalf("%s: %v", o[0], err)
		}
	}
	for _, name := range []string{"userxattr", "volatile"} {
		if err := unix.FsconfigSetFlag(fs, name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		for _, shut := range []string{"work", "work/incompat"} { // the kernel's own, which an ordinary user could not remove
			_ = os.Chmod(filepath.Join(layer, nacre.LayerWork, shut), 0o700)
		}
	})
	return at
}
