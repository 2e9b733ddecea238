package git

import (
	"context"
	"strings"
)

// Head is what a repository's HEAD says.
type Head struct {
	// Format is how its objects are named, such as sha1.
	Format string
	// Ref is what HEAD is on, such as refs/heads/main; empty where it is detached.
	Ref string
	// Commit is what HEAD is at. It is empty where there is none yet.
	Commit string
	// Bare tells that no files belong to it, so that HEAD holds no branch.
	Bare bool
}

// Head reads the HEAD of at.GitDir, by one run of git where there is a commit.
func (g *Program) Head(ctx context.Context, at Command) (Head, error) {
	at.Args = []string{"rev-parse", "--show-object-format", "--is-bare-repository", "HEAD^{commit}", "--symbolic-full-name", "HEAD"}
	out, err := g.Run(ctx, at)
	if lines := strings.Split(string(out), "\n"); err == nil && len(lines) == 5 {
		return Head{Format: lines[0], Ref: strings.TrimPrefix(lines[3], "HEAD"), Commit: lines[2], Bare: lines[1] == "true"}, nil
	}
	return g.headByParts(ctx, at)
}

// headByParts is Head where there is no commit, where a branch is called HEAD, or where
// something is wrong: each part by a run of its own, which tells what.
func (g *Program) headByParts(ctx context.Context, at Command) (h Head, err error) {
	at.Args = []string{"rev-parse", "--show-object-format", "--is-bare-repository"}
	both, err := g.Line(ctx, at)
	if err != nil {
		return h, err
	}
	format, bare, _ := strings.Cut(both, "\n")
	h.Format, h.Bare = format, bare == "true"
	at.Args = []string{"symbolic-ref", "-q", "HEAD"}
	if h.Ref, err = g.Line(ctx, at); err != nil && ExitCode(err) != 1 {
		return h, err
	}
	at.Args = []string{"rev-parse", "-q", "--verify", "HEAD^{commit}"}
	h.Commit, err = g.Line(ctx, at)
	if ExitCode(err) > 0 {
		return h, nil
	}
	return h, err
}
