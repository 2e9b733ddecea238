package repo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Making is a git directory of the host's own, in which commits are made.
type Making struct {
	Git *git.Program
	Dir string
	Now time.Time
}

// Replace moves a branch of a session's to a commit with the same files. made makes that commit of
// those that no branch but the session's has, parents first: at most so many.
func Replace(ctx context.Context, p *Project, r LandRequest, most int, made func(m Making, apart []Commit) (Commit, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ref, side := "refs/heads/"+r.Branch, "nacre/"+string(r.Session)
	old, err := p.readRef(ctx, ref)
	if err = errors.Join(err, checkBranch(r.Branch), p.plainGitDir(r.Branch)); err == nil && old == "" {
		err = fmt.Errorf("there is no branch %s", r.Branch)
	}
	if err != nil {
		return err
	}
	out, err := p.git.Run(ctx, p.theirs("rev-list", "--reverse", "--topo-order", string(old),
		"--not", "HEAD", "--exclude="+side, "--exclude="+side+"/*", "--branches", "--remotes", "--tags"))
	if err != nil {
		return err
	}
	var apart []Commit
	for id := range strings.FieldsSeq(string(out)) {
		if apart = append(apart, Commit(id)); len(apart) > most {
			return fmt.Errorf("%s has more than %d commits of its own: %w", r.Branch, most, ErrTooBig)
		}
	}
	if r.Commit, err = made(Making{p.git, p.vault.dir, p.now()}, apart); err != nil || r.Commit == "" {
		return err
	}
	if _, err = p.own(ctx, "diff-tree", "--quiet", string(old), string(r.Commit)); err != nil {
		return fmt.Errorf("%s would have other files: %w", r.Branch, err)
	}
	if err = p.export(ctx, r.Commit, old); err == nil {
		err = p.moveOnly(ctx, r, ref, old)
	}
	return err
}
