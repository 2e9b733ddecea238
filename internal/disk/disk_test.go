package disk_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// holder is the variable that makes this binary a process which holds a lock.
const holder = "NACRE_TEST_HOLDS"

func TestMain(m *testing.M) {
	if path := os.Getenv(holder); path != "" {
		if _, err := disk.TakeLock(context.Background(), path); err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString("held\n")
		testwait.Stay()
	}
	os.Exit(m.Run())
}

// Readers see one writer's text or another's, and never a part or a mixture.
func TestWritersDoNotMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	texts := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	if err := disk.Write(path, []byte(texts[0]), 0o640); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, text := range texts {
		writers.Go(func() {
			for range 20 {
				if err := disk.Write(path, []byte(text), 0o640); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		have, err := disk.Read(path, 1<<20)
		if err != nil || string(have) != texts[0] && string(have) != texts[1] {
			t.Fatalf("have %d bytes, %v", len(have), err)
		}
	}
	writers.Wait()
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("have %v %v", info.Mode(), err)
	}
	alone(t, path)
}

func TestTheFirstOneMakesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var makers sync.WaitGroup
	for _, text := range []string{"a", "b", "c", "d"} {
		makers.Go(func() {
			if err := disk.Create(path, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	makers.Wait()
	first, err := disk.Read(path, 1)
	if err != nil || len(first) != 1 {
		t.Fatalf("have %q %v", first, err)
	}
	if err := disk.Create(path, []byte("e"), 0o600); err != nil {
		t.Fatal(err)
	}
	if have, err := disk.Read(path, 1); err != nil || string(have) != string(first) {
		t.Errorf("have %q %v, want %q", have, err, first)
	}
	alone(t, path)
}

// What cannot be written leaves the old file, and nothing beside it.
func TestAFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := disk.Write(path, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if err := disk.Write(filepath.Join(dir, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("have %v", err)
	}
	alone(t, path)
}

func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("have %v %v, want %s alone", entries, err, filepath.Base(path))
	}
}

func TestOnlySmallRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("four"), 0o600), os.Symlink("file", at("link")),
		syscall.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if have, err := disk.Read(at("file"), 4); err != nil || string(have) != "four" {
		t.Errorf("have %q %v", have, err)
	}
	if _, err := disk.Read(at("file"), 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("too large: %v", err)
	}
	for _, name := range []string{"link", "pipe", ".", "none"} {
		if _, err := disk.Read(at(name), 4); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func TestALockIsHeldByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var alone sync.Mutex
	var takers sync.WaitGroup
	for range 8 {
		takers.Go(func() {
			for range 10 {
				lock, err := disk.TakeLock(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if !alone.TryLock() {
					t.Error("another one holds it too")
					return
				}
				alone.Unlock()
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	takers.Wait()
}

func TestALockEndsWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holder+"="+path)
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("have %q %v", line, err)
	}
	why := errors.New("there is no time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := disk.TakeLock(ctx, path); !errors.Is(err, disk.ErrLocked) || !errors.Is(err, why) {
		t.Errorf("while it is held: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	lock, err := disk.TakeLock(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// A program that is being started has, for a moment, every descriptor of the
// process that starts it.
func TestReleaseIsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := disk.TakeLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := syscall.Dup(disk.Descriptor(lock))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(copied) }()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	again, err := disk.TakeLock(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Release()
}

func TestALockIsNoLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.Symlink("elsewhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.TakeLock(t.Context(), path); err == nil {
		t.Error("taken through a link")
	}
}
