package testpeer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"testing"
)

// built names the folder that `make fixtures` filled, so that no package links
// the same programs again. Without it each test builds what it needs.
const built = "NACRE_BUILT"

// Built returns the folder of the binaries, laid out as `make build` lays them
// out, with the programs that only tests need below test/; "" where none was
// made for this run.
func Built() string { return os.Getenv(built) }

// Main runs the tests of a package that needs all of the binaries: those of
// this run, or others that it makes and removes again.
func Main(run func() int) int {
	if Built() != "" {
		return run()
	}
	code, err := withFixtures(run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func withFixtures(run func() int) (code int, err error) {
	root, err := moduleRoot()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "nacre-bin-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 1, err
	}
	if said, err := exec.Command("make", "-C", root, "fixtures", "BIN="+dir).CombinedOutput(); err != nil {
		return 1, fmt.Errorf("make fixtures: %w: %s", err, said)
	}
	if err := os.Setenv(built, dir); err != nil {
		return 1, err
	}
	return run(), nil
}

// WriteProgram writes a program that is started afterwards. Nothing is started meanwhile by
// this process: it would hold the file open for writing, and the program's own start would
// fail as busy.
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o755) //nolint:gosec // it is run
}

// moduleRoot is the first folder upwards that holds a go.mod and is not test data.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no folder above this one holds a go.mod")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

const module = "github.com/nacre-dev/nacre/"

// Program returns the path of a binary as it ships, static and stripped: of a
// command by its name, "sandbox-init", or of a plugin, "plugins/reminders/handler".
func Program(t testing.TB, name string) string {
	t.Helper()
	source := path.Join("cmd", name)
	if path.Base(name) == "handler" {
		source = path.Dir(name)
	}
	return program(t, name, source)
}

// Fixture returns the path of a program that only tests need, by the folder of
// its source below the module: "cmd/nacre/testdata/plugins/reach".
func Fixture(t testing.TB, source string) string {
	t.Helper()
	return program(t, path.Join("test", path.Base(source)), source)
}

func program(t testing.TB, name, source string) string {
	t.Helper()
	if Built() != "" {
		file := filepath.Join(Built(), name)
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%s is set, but `make fixtures` did not fill it: %v", built, err)
		}
		return file
	}
	file := filepath.Join(t.TempDir(), path.Base(name))
	build := exec.CommandContext(t.Context(), Need(t, "go"), "build", "-ldflags", "-s -w", "-o", file, module+source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", source, err, said)
	}
	return file
}

// Copy puts a program where a test wants it, for what may not be shared.
func Copy(t testing.TB, program, to string) {
	t.Helper()
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o755) //nolint:gosec // a program
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Size is how much of something a test makes. The small amount shows the rule. The large one shows
// that it holds where it hurts, under NACRE_SIZE=full (make ci-full).
func Size(small, large int) int {
	if os.Getenv("NACRE_SIZE") == "full" {
		return large
	}
	return small
}
