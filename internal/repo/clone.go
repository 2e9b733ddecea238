package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Clone is an agent's private copy of the project at the base commit.
type Clone struct {
	// Dir has the files, and a .git of the clone's own. Of a layer it has what the agent wrote over
	// the base, and the .git.
	Dir     string
	project *Project
	// over, where set, is the commit over whose base the clone is a layer.
	over Commit
}

// Clone makes the private clone in a directory that is empty or missing (S-11). It copies objects,
// and makes a git directory with a configuration of ours and one branch at the base commit with its
// history. Nothing else of the user's is there: no remotes, reflogs, stashes or other branches.
func (p *Project) Clone(ctx context.Context, dir string) (*Clone, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("clone directory %q is not an absolute path", dir)
	}
	if err := disk.Empty(dir); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return ignoreMissing(os.Remove(dir + overEnd)) }, // of an earlier one there
		func() error { return p.checkout(ctx, string(p.Base), dir) },
		func() error { return p.cloneGitDir(ctx, filepath.Join(dir, ".git")) },
		func() error { return p.cloneIndex(ctx, filepath.Join(dir, ".git"), dir) },
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("clone: %w", err)
		}
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
	over, err := overOf(dir)
	return &Clone{Dir: dir, project: p, over: over}, err
}

func (p *Project) cloneGitDir(ctx context.Context, gitDir string) error {
	for _, sub := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(gitDir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := writeRefs(p, gitDir); err != nil {
		return err
	}
	files := map[string]string{"config": configText(p.format, false) + cloneConfig}
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
	return packTo(ctx, p, gitDir, string(p.Base))
}

// packTo gives a clone's git folder the objects that revisions name.
func packTo(ctx context.Context, p *Project, gitDir string, revisions ...string) error {
	_, err := p.git.Run(ctx, git.Command{
		GitDir: p.vault.dir, Stdin: lines(revisions...),
		Args: []string{"pack-objects", "--revs", "-q", "--delta-base-offset", filepath.Join(gitDir, "objects", "pack", "pack")},
	})
	if err != nil {
		err = fmt.Errorf("%w; if objects are missing, fetch them (a partial clone needs `git fetch --refetch`)", err)
	}
	return err
}

// cloneConfig goes with every clone. Inside, files are another user's, and other inodes, than they
// were when the index was made. git would otherwise read all of them again each time that it is
// asked what changed.
const cloneConfig = "[core]\n\thooksPath = /dev/null\n\tcheckStat = minimal\n\ttrustctime = false\n"

// writeRefs gives a clone its one branch.
func writeRefs(p *Project, gitDir string) error {
	branch := p.Branch
	if branch == "" {
		branch = "nacre"
	}
	head := os.WriteFile(filepath.Join(gitDir, "HEAD"), []byte("ref: refs/heads/"+branch+"\n"), 0o644)
	refs := "# pack-refs with: peeled fully-peeled sorted \n" + string(p.Base) + " refs/heads/" + branch + "\n"
	return errors.Join(head, os.WriteFile(filepath.Join(gitDir, "packed-refs"), []byte(refs), 0o644))
}

// cloneIndex makes git inside the sandbox see an unchanged work tree. No agent
// has touched the clone yet, and its configuration is ours.
func (p *Project) cloneIndex(ctx context.Context, gitDir, dir string) error {
	for _, args := range [][]string{{"read-tree", string(p.Base)}, {"update-index", "-q", "--refresh"}} {
		c := git.Command{GitDir: gitDir, WorkTree: dir, Args: args}
		if _, err := p.git.Run(ctx, c); err != nil && git.ExitCode(err) != 1 {
			return err
		}
	}
	return nil
}
