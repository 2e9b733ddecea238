// Package selfhost_test lets nacre work on its own repository, by its face:
// the built binaries, a clone of HEAD, a brain inside and, for Claude Code, a
// scripted model on loopback. It imports nothing of what it drives.
package selfhost_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// built is where the binaries of this test lie.
var built string

func TestMain(m *testing.M) {
	code, err := buildAnd(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAnd(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "selfhost")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if built, err = filepath.EvalSymlinks(dir); err != nil {
		return 1, err
	}
	// What runs sealed fetches nothing: the modules that tests need come first.
	if out, err := exec.Command("go", "mod", "download").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go mod download: %w\n%s", err, out)
	}
	if err := build(built); err != nil {
		return 1, err
	}
	return run(), nil
}

// build does what `make build` does, elsewhere.
func build(dir string) error {
	plugin := filepath.Join(dir, "plugins", "reminders")
	if err := os.MkdirAll(filepath.Join(plugin, "skill"), 0o755); err != nil {
		return err
	}
	for out, packages := range map[string]string{dir + "/": "./cmd/...", filepath.Join(plugin, "handler"): "./plugins/reminders"} {
		command := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=selfhost", "-o", out, packages)
		command.Dir = root
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", packages, err, said)
		}
	}
	source := filepath.Join(root, "plugins", "reminders")
	skills, err := filepath.Glob(filepath.Join(source, "skill", "*.md"))
	if err != nil {
		return err
	}
	for _, path := range append(skills, filepath.Join(source, "manifest.json")) {
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(plugin, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// root is the module's folder, seen from this package.
const root = "../.."
