package gitdir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nacre-dev/nacre/internal/gitdir"
)

// id is the id of a commit that nobody has.
func id(n int) string { return fmt.Sprintf("%040x", n) }

// gitDirectory is one with a HEAD on main.
func gitDirectory(t testing.TB, packed string) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "refs/heads"), 0o755),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600), replace(filepath.Join(dir, "packed-refs"), packed))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// replace writes a file as git does.
func replace(name, text string) error {
	if err := os.WriteFile(name+".lock", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".lock", name)
}

// U-04: a ref that git packs while it is read is never lost, and a folder that vanishes
// with it is no error.
func TestARefThatMovesWhileItIsReadIsNotLost(t *testing.T) {
	t.Parallel()
	packed := id(1) + " refs/heads/main\n"
	dir := gitDirectory(t, packed)
	var made atomic.Int64 // how many branches there are, in one place or the other
	done := make(chan error, 1)
	go func() {
		for n := range int64(200) {
			folder := filepath.Join(dir, "refs/heads", fmt.Sprint("a", n))
			loose := filepath.Join(folder, "b")
			err := errors.Join(os.Mkdir(folder, 0o755), replace(loose, id(2)+"\n"))
			made.Store(n + 1)
			packed += fmt.Sprintf("%s refs/heads/a%d/b\n", id(2), n)
			if err = errors.Join(err, replace(filepath.Join(dir, "packed-refs"), packed), os.Remove(loose), os.Remove(folder)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		last := made.Load()
		commit, have, err := gitdir.ReadRefs(dir)
		if err != nil || commit != id(1) || last > 0 && !strings.Contains(have, fmt.Sprintf(" refs/heads/a%d/b\n", last-1)) {
			t.Fatalf("of %d branches the last is not there: main is %q, %v", last, commit, err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// U-04: refs with odd names, refs that lead elsewhere and values that are no ids do not
// come into the agent's git directory, nor a line beside them.
func TestOnlyPlainRefsAreRead(t *testing.T) {
	t.Parallel()
	dir := gitDirectory(t, "# pack-refs with: peeled\n"+id(1)+" refs/heads/main\n"+id(3)+" refs/../../x\n"+id(3)+" HEAD\n^"+id(4)+"\nnothing refs/heads/none\n"+id(3)+" refs/heads/a b\n")
	outside := filepath.Join(t.TempDir(), "outside")
	err := errors.Join(
		os.WriteFile(outside, []byte(id(5)+"\n"), 0o600), os.Symlink(outside, filepath.Join(dir, "refs/heads/link")),
		os.WriteFile(filepath.Join(dir, "refs/heads/text"), []byte("no id\n"), 0o600), os.WriteFile(filepath.Join(dir, "refs/heads/new\nline"), []byte(id(6)+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "refs/heads/out"), []byte("ref: refs/../../../etc/passwd\n"), 0o600), os.WriteFile(filepath.Join(dir, "refs/heads/x.lock"), []byte(id(7)+"\n"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	_, packed, err := gitdir.ReadRefs(dir)
	if _, lines, _ := strings.Cut(packed, "\n"); err != nil || lines != id(1)+" refs/heads/main\n" {
		t.Errorf("have %q, %v", packed, err)
	}
}

func BenchmarkReadingRefs(b *testing.B) {
	var packed strings.Builder
	packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for n := range 100_000 {
		fmt.Fprintf(&packed, "%s refs/heads/b%06d\n", id(n+1), n)
	}
	packed.WriteString(id(7) + " refs/heads/main\n")
	dir := gitDirectory(b, packed.String())
	for b.Loop() {
		if commit, _, err := gitdir.ReadRefs(dir); err != nil || commit != id(7) {
			b.Fatal(commit, err)
		}
	}
}
