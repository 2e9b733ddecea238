//go:build linux

package prove

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/sandbox/probe"
)

// templates makes below dir the two projects that each probe gets a copy of, one in git and one
// that is no repository yet. They are as a person has them, with some files that make the host run
// code.
func templates(ctx context.Context, dir string) (string, error) {
	top := filepath.Join(dir, "templates")
	for _, kind := range []string{"born", "unborn"} {
		for name, text := range map[string]string{
			"a.txt": "text\n", "Makefile": "all:\n\ttrue\n", "package.json": "{}\n", ".env": marker, "gradlew": "#!/bin/sh\n",
			".envrc": "", ".npmrc": "", ".gitattributes": "", ".vscode/settings.json": "{}\n", ".husky/pre-commit": "#!/bin/sh\n",
		} {
			if err := put(filepath.Join(top, kind, name), text); err != nil {
				return "", err
			}
		}
	}
	born := filepath.Join(top, "born")
	return top, errors.Join(
		repository(ctx, born), put(filepath.Join(born, ".git/hooks/pre-commit.sample"), ""), put(filepath.Join(born, ".git/info/exclude"), ""),
	)
}

// repository makes one of a folder. Where there is no git it is one without a commit: nothing
// there can be led to act on it either.
func repository(ctx context.Context, dir string) error {
	if _, err := exec.LookPath("git"); err != nil {
		meta := filepath.Join(dir, ".git")
		return errors.Join(
			put(filepath.Join(meta, "HEAD"), "ref: refs/heads/main\n"), put(filepath.Join(meta, "config"), "[core]\n\tbare = false\n"),
			os.MkdirAll(filepath.Join(meta, "objects"), 0o755), os.MkdirAll(filepath.Join(meta, "refs/heads"), 0o755),
		)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "base"}} {
		if err := git(ctx, dir, args...); err != nil {
			return err
		}
	}
	return nil
}

func put(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "user.name=u", "-c", "user.email=u@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}

// Fresh is the decoys with a throw-away project of their own, in git or not.
func (g *Ground) Fresh(unborn bool) (probe.Target, error) { return g.fresh(g.target, unborn) }

// fresh is the target with a project, a scratch folder and a canary that no other
// probe has.
func (g *Ground) fresh(t probe.Target, unborn bool) (probe.Target, error) {
	dir, err := os.MkdirTemp(g.dir, "p")
	if err != nil {
		return t, err
	}
	t.Project, t.Scratch, t.Canary = filepath.Join(dir, "project"), filepath.Join(dir, "scratch"), filepath.Join(dir, "canary")
	if err := os.Mkdir(t.Scratch, 0o755); err != nil {
		return t, err
	}
	template := filepath.Join(g.templates, "born")
	if unborn {
		template = filepath.Join(g.templates, "unborn")
	}
	return t, os.CopyFS(t.Project, os.DirFS(template))
}
