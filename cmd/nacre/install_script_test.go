package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// F-129: the installer of a release writes below its prefix what the checksums name, and the
// program that it wrote runs. It refuses anything else before it writes, and removes only what it
// wrote.
func TestTheInstallerOfARelease(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "tar")
	i := install(t)
	program, err := os.ReadFile(filepath.Join(bin, "nacre"))
	check(t, err)
	name := "nacre_1.2.0_linux_" + runtime.GOARCH
	packed := tarball(t, map[string]string{name + "/lib/nacre/nacre": string(program), name + "/lib/nacre/ipc": "#!/bin/sh\n"}, name+"/bin/nacre", "../lib/nacre/nacre")
	release, prefix := filepath.Join(i.work, "release"), filepath.Join(i.work, "home", ".local")
	i.write("release/"+name+".tar.gz", string(packed))
	sums := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(packed), name)
	script := func(code int, says string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "sh", append([]string{"../../tools/release/install.sh"}, args...)...)
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(i.work, "home"), "TMPDIR=" + t.TempDir()}
		said, _ := command.CombinedOutput()
		if have := command.ProcessState.ExitCode(); have != code || !strings.Contains(string(said), says) {
			t.Fatalf("exit %d, want %d and %q: %s", have, code, says, said)
		}
	}
	written := func() []string {
		found, _ := filepath.Glob(prefix + "/*/*")
		return found
	}

	script(1, "say which version", "--from", release)
	i.write("release/checksums.txt", strings.Repeat("0", 64)+"  "+name+".tar.gz\n")
	script(1, "nothing is installed", "--from", release, "--version", "1.2.0")
	i.write("release/checksums.txt", strings.ReplaceAll(sums, "nacre_1", "other_1"))
	script(1, "checksums.txt does not name", "--from", release, "--version", "1.2.0")
	script(1, "is not encrypted", "--from", "http://127.0.0.1:1/", "--version", "1.2.0")
	i.write("release/checksums.txt", sums)
	script(0, "would write "+prefix+"/bin/nacre", "--from", release, "--version", "v1.2.0", "--dry-run")
	if found := written(); len(found) > 0 {
		t.Fatalf("what was refused, or only shown, was written: %q", found)
	}

	i.write("home/.local/bin/mine", "mine")
	for range 2 { // also over itself
		script(0, "Next: nacre setup, in the folder of a project", "--from", release, "--version", "1.2.0")
	}
	said, err := exec.CommandContext(t.Context(), filepath.Join(prefix, "bin/nacre"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "nacre ") {
		t.Errorf("what was installed does not run: %v, %s", err, said)
	}
	// U-30: what cannot be written whole, as on a full disk, leaves what was installed as it was.
	later := strings.ReplaceAll(name, "1.2.0", "1.3.0")
	packed = tarball(t, map[string]string{later + "/lib/nacre/nacre": "later", later + "/share/doc": "x"}, later+"/bin/nacre", "../lib/nacre/nacre")
	i.write("release/"+later+".tar.gz", string(packed))
	i.write("release/checksums.txt", fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(packed), later))
	i.write("home/.local/share", "a file in the way")
	script(1, "share/doc cannot be written: nothing is installed", "--from", release, "--version", "1.3.0")
	check(t, exec.CommandContext(t.Context(), filepath.Join(prefix, "bin/nacre"), "version").Run())
	if left, _ := filepath.Glob(prefix + "/*/*.new"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	check(t, os.Remove(filepath.Join(prefix, "share")))
	script(0, "nacre is removed", "--uninstall")
	if found := written(); len(found) != 1 || filepath.Base(found[0]) != "mine" {
		t.Errorf("left: %q", found)
	}
	script(1, "nothing of nacre is installed", "--uninstall")
}

// tarball packs programs, and one link.
func tarball(t *testing.T, files map[string]string, link, to string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for name, text := range files {
		check(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(text))
		check(t, err)
	}
	check(t, w.WriteHeader(&tar.Header{Name: link, Linkname: to, Typeflag: tar.TypeSymlink}))
	check(t, w.Close())
	check(t, packed.Close())
	return out.Bytes()
}
