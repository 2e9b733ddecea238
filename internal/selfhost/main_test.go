// Package selfhost_test lets nacre work on its own repository, by its face. It has the built
// binaries, a clone of HEAD, a brain inside and, for Claude Code, a scripted model on loopback. It
// imports nothing of what it drives.
package selfhost_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

var (
	// built is where the binaries of this test lie.
	built string
	// caches are the variables that name Go's caches.
	caches []string
	// snapshot is a repository with the files of HEAD in one commit, for houses to clone.
	snapshot func() (string, error)

	trial     sync.Once
	forbidden string // why the native sandbox does not start
)

func TestMain(m *testing.M) {
	os.Exit(testpeer.Main(func() int {
		dir, err := os.MkdirTemp("", "selfhost")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }() // the system's temporary folder is emptied anyway
			err = prepare(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		snapshot = sync.OnceValues(func() (string, error) { return squashed(filepath.Join(dir, "snapshot")) })
		built = testpeer.Built()
		return m.Run()
	}))
}

// prepare has Go fetch and compile what runs sealed will need: those fetch nothing, and what they
// compile is thrown away with them. Without paths in it, what is compiled here is found inside.
func prepare(home string) error {
	out, err := run(root, os.Environ(), "go", "env", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return err
	}
	modules, compiled, _ := strings.Cut(out, "\n")
	caches = []string{"GOMODCACHE=" + modules, "GOCACHE=" + compiled}
	if _, err = run(root, os.Environ(), "go", "mod", "download"); err != nil {
		return err
	}
	_, err = run(root, environment(home), "go", "test", "-c", "-trimpath", "-o", os.DevNull, "./policy")
	return err
}

// squashed makes a bare repository with the files of HEAD, and no more history than one commit.
func squashed(dir string) (string, error) {
	here, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	env := append(environment(filepath.Dir(dir)), "GIT_DIR="+dir,
		"GIT_AUTHOR_NAME=owner", "GIT_AUTHOR_EMAIL=owner@example.invalid", "GIT_COMMITTER_NAME=owner", "GIT_COMMITTER_EMAIL=owner@example.invalid")
	if _, err := run(root, environment(filepath.Dir(dir)), clone("file://"+here, dir, "--bare", "--depth=1")...); err != nil {
		return "", err
	}
	commit, err := run(root, env, "git", "commit-tree", "HEAD^{tree}", "-m", "all there is")
	if err != nil {
		return "", err
	}
	// the commit whose parents were left out is no longer anybody's
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "shallow")), os.RemoveAll(filepath.Join(dir, "refs", "heads")), os.RemoveAll(filepath.Join(dir, "packed-refs"))); err != nil {
		return "", err
	}
	for _, step := range [][]string{{"update-ref", "refs/heads/trunk", commit}, {"symbolic-ref", "HEAD", "refs/heads/trunk"}} {
		if _, err := run(root, env, append([]string{"git"}, step...)...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// run is what a program prints.
func run(dir string, env []string, argv ...string) (string, error) {
	command := exec.Command(argv[0], argv[1:]...)
	command.Dir, command.Env = dir, env
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(argv, " "), err, out, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// root is the module's folder, seen from this package.
const root = "../.."
