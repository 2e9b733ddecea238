package repo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Clone is an agent's private copy of the project at the base commit.
type Clone struct {
	// Dir has the files, and a .git of the clone's own.
	Dir     string
	project *Project
}

// Clone makes the private clone in a directory that is empty or missing:
// objects copied, a git directory with a configuration of ours, one branch at
// the base commit with its history, and nothing else of the user's: no remotes,
// reflogs, stashes or other branches (S-11).
func (p *Project) Clone(ctx context.Context, dir string) (*Clone, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("clone directory %q is not an absolute path", dir)
	}
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	if err := p.checkout(ctx, string(p.Base), dir); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	if err := p.cloneGitDir(ctx, filepath.Join(dir, ".git")); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	if err := p.cloneIndex(ctx, dir); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	return &Clone{Dir: dir, project: p}, nil
}

// ExistingClone is the clone that an earlier process made in dir from the same
// base: a session that is carried on. Nothing of its .git is read.
func (p *Project) ExistingClone(dir string) (*Clone, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	if !info.IsDir() || !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("clone %s is not a directory: %w", dir, ErrUnsafe)
	}
	return &Clone{Dir: dir, project: p}, nil
}

func (p *Project) cloneGitDir(ctx context.Context, gitDir string) error {
	for _, sub := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(gitDir, sub), 0o755); err != nil {
			return err
		}
	}
	branch := p.Branch
	if branch == "" {
		branch = "nacre"
	}
	files := map[string]string{
		"HEAD":        "ref: refs/heads/" + branch + "\n",
		"config":      configText(p.format, false) + "[core]\n\thooksPath = /dev/null\n",
		"packed-refs": "# pack-refs with: peeled fully-peeled sorted \n" + string(p.Base) + " refs/heads/" + branch + "\n",
	}
	shallow, err := readOptional(filepath.Join(p.vault.dir, "shallow"), maxShallow)
	if err != nil {
		return err
	}
	if len(shallow) > 0 {
		files["shallow"] = string(shallow)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(gitDir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	_, err = p.git.run(ctx, command{
		gitDir: p.vault.dir, stdin: lines(string(p.Base)),
		args: []string{"pack-objects", "--revs", "-q", "--delta-base-offset", filepath.Join(gitDir, "objects", "pack", "pack")},
	})
	if err != nil {
		err = fmt.Errorf("%w; if objects are missing, fetch them (a partial clone needs `git fetch --refetch`)", err)
	}
	return err
}

// cloneIndex makes git inside the sandbox see an unchanged work tree. No agent
// has touched the clone yet, and its configuration is ours.
func (p *Project) cloneIndex(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"read-tree", string(p.Base)}, {"update-index", "-q", "--refresh"}} {
		c := command{gitDir: filepath.Join(dir, ".git"), workTree: dir, args: args}
		if _, err := p.git.run(ctx, c); err != nil && exitCode(err) != 1 {
			return err
		}
	}
	return nil
}
