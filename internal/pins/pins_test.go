package pins_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pins"
	"github.com/nacre-dev/nacre/kernel"
)

// workspace is a folder with a file, and a pinner for it.
func workspace(t *testing.T) (pinner kernel.Pinner, work, copies string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, copies = filepath.Join(base, "work"), filepath.Join(base, "pins")
	put(t, filepath.Join(work, "sub/a.txt"), "approved")
	put(t, filepath.Join(base, "outside.txt"), "a secret of the host's")
	return pins.New(work, copies), work, copies
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

const room = kernel.MaxFileBytes

// D-13: what was copied stays what it was, and nobody else can read it.
func TestACopyIsTheFileAsItWas(t *testing.T) {
	pinner, work, copies := workspace(t)
	pin, err := pinner.Pin(t.Context(), nacre.Principal{}, "sub/a.txt", room)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(work, "sub/a.txt"), "swapped")
	data, err := os.ReadFile(pin.Path)
	sum := sha256.Sum256([]byte("approved"))
	if err != nil || string(data) != "approved" || pin.Bytes != 8 || pin.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("have %q %+v %v", data, pin, err)
	}
	for path, want := range map[string]os.FileMode{pin.Path: 0o600, copies: os.ModeDir | 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: have %v %v", path, info, err)
		}
	}
	pinner.Unpin(pin)
	pinner.Unpin(pin)
	pinner.Unpin(nacre.FilePin{Path: filepath.Join(work, "sub/a.txt")})
	left, err := os.ReadDir(copies)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(work, "sub/a.txt")); err != nil {
		t.Errorf("what is no copy was removed: %v", err)
	}
}

// P-03: a file that was removed in a layer is no file, whatever the base has.
func TestWhatALayerRemovedIsNoFile(t *testing.T) {
	pinner, work, _ := workspace(t)
	base := t.TempDir()
	for _, dir := range []string{filepath.Join(work, nacre.LayerUpper), filepath.Join(base, "dir")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gone.txt", "dir/a.txt", "kept.txt"} {
		put(t, filepath.Join(base, name), "of the base")
	}
	for _, name := range []string{"gone.txt", "dir"} {
		if err := unix.Mknod(filepath.Join(work, nacre.LayerUpper, name), unix.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
	}
	pinner.(*pins.Pinner).Over(base)
	for _, name := range []string{"gone.txt", "dir", "dir/a.txt"} {
		_, err := pinner.Pin(t.Context(), nacre.Principal{}, name, room)
		if err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if _, err := pinner.Pin(t.Context(), nacre.Principal{}, "kept.txt", room); err != nil {
		t.Errorf("kept.txt: %v", err)
	}
}

// U-04: the git folder that an agent sees may not be the host's, of which nothing is handed over.
func TestNothingOfGitIsCopied(t *testing.T) {
	pinner, work, _ := workspace(t)
	for _, name := range []string{".git/config", "sub/.git/config", ".GIT/config", ".git"} {
		if err := os.MkdirAll(filepath.Join(work, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(work, name), "url = https://ann:secret@p.example/p.git")
		if pin, err := pinner.Pin(t.Context(), nacre.Principal{}, name, room); err == nil || !strings.Contains(err.Error(), "git's own folder") {
			t.Errorf("%s: have %+v, %v", name, pin, err)
		}
		if err := os.RemoveAll(filepath.Join(work, ".git")); err != nil {
			t.Fatal(err)
		}
	}
}

// D-13: whatever an agent puts in its folder, only regular files of it are read.
func TestOnlyRegularFilesOfTheWorkspaceAreCopied(t *testing.T) {
	pinner, work, copies := workspace(t)
	at := func(name string) string { return filepath.Join(work, name) }
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	put(t, at("huge"), "")
	if err := errors.Join(
		os.Symlink("sub/a.txt", at("link")), os.Symlink("sub", at("linked")), os.Symlink("../outside.txt", at("out")),
		os.Symlink("/proc/self/environ", at("environ")), os.Symlink("loop", at("loop")),
		unix.Mkfifo(at("fifo"), 0o600), os.Truncate(at("huge"), room+1),
	); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ file, want string }{
		"nothing":                     {"nothing", "no such file"},
		"a file as a folder":          {"sub/a.txt/x", "no such file"},
		"a link within":               {"link", "symbolic link"},
		"a linked folder":             {"linked/a.txt", "symbolic link"},
		"a link that leads out":       {"out", "symbolic link"},
		"a link to the host's own":    {"environ", "symbolic link"},
		"a link to itself":            {"loop", "symbolic link"},
		"a folder":                    {"sub", "no regular file"},
		"the folder itself":           {".", "no regular file"},
		"a folder with a slash":       {"sub/", "no regular file"},
		"a FIFO without a writer":     {"fifo", "no regular file"},
		"a socket":                    {"socket", "no regular file"},
		"a sparse file of too much":   {"huge", "room for"},
		"no name":                     {"", "1–4096 bytes"},
		"a zero byte":                 {"sub/a.txt\x00.png", "1–4096 bytes"},
		"a name that is too long":     {strings.Repeat("x/", 2049), "1–4096 bytes"},
		"a part that is too long":     {strings.Repeat("x", 300), "too long"},
		"an absolute name":            {at("sub/a.txt"), "without .."},
		"the host's own by its name":  {"/proc/self/environ", "without .."},
		"a way out":                   {"../outside.txt", "without .."},
		"a way out and in":            {"../work/sub/a.txt", "without .."},
		"a way up that ends within":   {"sub/../sub/a.txt", "without .."},
		"a name that only looks like": {"..sub", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pinner.Pin(t.Context(), nacre.Principal{}, test.file, room)
			var refusal *nacre.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, test.want) {
				t.Errorf("have %v", err)
			} else if strings.Contains(refusal.Message, work) && test.file[:1] != "/" {
				t.Errorf("it tells the host's path: %s", refusal.Message)
			}
		})
	}
	if left, _ := os.ReadDir(copies); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// D-13: a folder that is swapped for a link while it is read leads nowhere.
func TestAWorkspaceThatIsNoFolderCopiesNothing(t *testing.T) {
	_, work, copies := workspace(t)
	put(t, filepath.Join(filepath.Dir(work), "elsewhere/a.txt"), "a secret of the host's")
	if err := os.Symlink(filepath.Join(filepath.Dir(work), "elsewhere"), filepath.Join(filepath.Dir(work), "swapped")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(filepath.Dir(work), "swapped"), filepath.Join(work, "sub/a.txt"), filepath.Join(work, "nowhere"), ""} {
		if pin, err := pins.New(dir, copies).Pin(t.Context(), nacre.Principal{}, "a.txt", room); err == nil {
			t.Errorf("%s: have %+v", dir, pin)
		}
	}
}

// D-13: an agent that moves folders about gets the file, or a refusal; never
// what lies outside.
func TestFoldersThatMoveLeadNowhere(t *testing.T) {
	pinner, work, _ := workspace(t)
	put(t, filepath.Join(filepath.Dir(work), "elsewhere/a.txt"), "a secret of the host's")
	if err := os.Symlink("../elsewhere", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var moving sync.WaitGroup
	moving.Go(func() {
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(work, "sub"), unix.AT_FDCWD, filepath.Join(work, "link"), unix.RENAME_EXCHANGE)
		}
	})
	defer moving.Wait()
	defer stop()
	for range 500 {
		pin, err := pinner.Pin(t.Context(), nacre.Principal{}, "sub/a.txt", room)
		var refusal *nacre.Refusal
		switch {
		case err == nil:
			if data, _ := os.ReadFile(pin.Path); string(data) != "approved" {
				t.Fatalf("have %q", data)
			}
			pinner.Unpin(pin)
		case !errors.As(err, &refusal):
			t.Fatal(err)
		}
	}
}

// D-13: copies that wait for an answer cannot fill the disk.
func TestCopiesAreBoundedForEachSession(t *testing.T) {
	pinner, work, copies := workspace(t)
	put(t, filepath.Join(work, "big"), "")
	if err := os.Truncate(filepath.Join(work, "big"), room); err != nil {
		t.Fatal(err)
	}
	var kept []nacre.FilePin
	for range pins.MaxPinned / room {
		pin, err := pinner.Pin(t.Context(), nacre.Principal{}, "big", room)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, pin)
	}
	_, err := pinner.Pin(t.Context(), nacre.Principal{}, "sub/a.txt", room)
	var refusal *nacre.Refusal
	if !errors.As(err, &refusal) || !refusal.Retriable || !strings.Contains(refusal.Message, "too many files") {
		t.Errorf("have %v", err)
	}
	pinner.Unpin(kept[0])
	if _, err := pinner.Pin(t.Context(), nacre.Principal{}, "sub/a.txt", room); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(copies); err != nil || len(left) != len(kept) {
		t.Errorf("have %d copies, %v", len(left), err)
	}
}

// D-13: a host that is root does not read for an agent what the owner of its
// project could not.
func TestRootReadsAsTheOwnerOfTheProject(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as somebody else")
	}
	pinner, work, _ := workspace(t)
	put(t, filepath.Join(work, "root.txt"), "of root's")
	put(t, filepath.Join(work, "group.txt"), "of root's group")
	put(t, filepath.Join(work, "hidden/all.txt"), "in a folder of root's")
	put(t, filepath.Join(work, "own.txt"), "of the owner's")
	const owner = 12345
	if err := errors.Join(os.Chown(work, owner, owner), os.Chown(filepath.Join(work, "own.txt"), owner, owner),
		os.Chmod(filepath.Join(work, "group.txt"), 0o640), os.Chmod(filepath.Join(work, "hidden/all.txt"), 0o644)); err != nil {
		t.Skip(err) // a namespace without such a user
	}
	for range 50 {
		if _, err := pinner.Pin(t.Context(), nacre.Principal{}, "own.txt", room); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"root.txt", "group.txt", "hidden/all.txt"} {
			_, err := pinner.Pin(t.Context(), nacre.Principal{}, name, room)
			var refusal *nacre.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "may not be read") {
				t.Fatalf("%s: have %v", name, err)
			}
		}
	}
	if _, err := os.ReadFile(filepath.Join(work, "root.txt")); err != nil {
		t.Errorf("the rights of a thread were not given back: %v", err)
	}
}
