package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

const (
	hostName  = "nacre"
	hostEmail = "nacre@localhost"
	// maxMessage is the longest commit message, in bytes.
	maxMessage = 64 << 10
)

// Author is whose work a commit is. The committer is always nacre.
type Author struct{ Name, Email string }

func (a Author) check() error {
	for _, s := range []string{a.Name, a.Email} {
		if s == "" || strings.ContainsAny(s, "<>\n\x00") {
			return fmt.Errorf("author %.80q <%.80q>: want a name and an address", a.Name, a.Email)
		}
	}
	return nil
}

// MergeRequest asks for a commit of Tree on the base, merged onto Target.
type MergeRequest struct {
	Tree    Tree
	Target  Commit
	Message string
	Author  Author
}

// Merged is a commit that was not verified yet: verify Tree, then land Commit.
type Merged struct {
	Commit Commit
	Tree   Tree
	// Direct tells that the target was the base, so that Tree is the one asked for.
	Direct bool
}

// Merge commits the tree with the recorded base as its parent, and merges that
// three-way onto the target, in the host's own git directory: nothing of the
// user's moves. Merge drivers that attributes name are not used. Where both
// sides changed the same lines it returns *ConflictError.
//
// A base with uncommitted edits of the user's is no part of what comes out. The commit is what the
// tree changes of them, on top of the target alone (U-20).
func (p *Project) Merge(ctx context.Context, r MergeRequest) (Merged, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, badTree := ParseTree(string(r.Tree))
	_, badTarget := ParseCommit(string(r.Target))
	if err := errors.Join(badTree, badTarget, r.Author.check()); err != nil {
		return Merged{}, err
	}
	if r.Message == "" || len(r.Message) > maxMessage || strings.ContainsRune(r.Message, 0) {
		return Merged{}, fmt.Errorf("commit message of %d bytes: use 1–%d", len(r.Message), maxMessage)
	}
	work, err := p.commit(ctx, r, r.Tree, p.Base)
	if err != nil {
		return Merged{}, err
	}
	if r.Target == p.Base {
		return Merged{Commit: work, Tree: r.Tree, Direct: true}, nil
	}
	tree, parents, err := mergeOnto(ctx, p, r.Target, work)
	if err != nil {
		return Merged{}, err
	}
	if _, err := p.listTree(ctx, string(tree)); err != nil {
		return Merged{}, fmt.Errorf("merge: %w", err)
	}
	commit, err := p.commit(ctx, r, tree, parents...)
	return Merged{Commit: commit, Tree: tree}, err
}

func mergeOnto(ctx context.Context, p *Project, target, work Commit) (tree Tree, parents []Commit, err error) {
	if edited(ctx, p) {
		tree, err = p.mergeByHand(ctx, p.Base, target, work)
		return tree, []Commit{target}, err
	}
	tree, err = p.mergeTrees(ctx, target, work)
	return tree, []Commit{target, work}, err
}

func (p *Project) commit(ctx context.Context, r MergeRequest, tree Tree, parents ...Commit) (Commit, error) {
	at := p.now()
	c := git.Command{
		GitDir: p.vault.dir, Stdin: strings.NewReader(r.Message),
		Env:  append(identity("AUTHOR", r.Author.Name, r.Author.Email, at), identity("COMMITTER", hostName, hostEmail, at)...),
		Args: []string{"commit-tree", string(tree)},
	}
	for _, parent := range parents {
		c.Args = append(c.Args, "-p", string(parent))
	}
	id, err := p.git.Line(ctx, c)
	if err != nil {
		return "", fmt.Errorf("commit: %w", err)
	}
	return ParseCommit(id)
}

func (o *objects) mergeTrees(ctx context.Context, target, work Commit) (Tree, error) {
	if !o.git.MergesTrees() {
		base, err := o.ownLine(ctx, "merge-base", string(target), string(work))
		if err != nil {
			return "", fmt.Errorf("merge: the target has no history in common with the base: %w", err)
		}
		return o.mergeByHand(ctx, Commit(base), target, work)
	}
	out, err := o.own(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", string(target), string(work))
	switch git.ExitCode(err) {
	case 1:
		return "", conflict(target, git.Zeros(out))
	case -1:
		if err != nil {
			return "", fmt.Errorf("merge: %w", err)
		}
	default:
		return "", fmt.Errorf("merge: %w", err)
	}
	records := git.Zeros(out)
	if len(records) == 0 {
		return "", fmt.Errorf("merge: %w", errDamaged)
	}
	return ParseTree(strings.TrimSpace(records[0]))
}

// conflict reads the paths after the tree's id.
func conflict(target Commit, records []string) error {
	paths := make([]string, 0, len(records))
	for _, name := range records[min(1, len(records)):] {
		if name != "" {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return &ConflictError{Target: target, Paths: slices.Compact(paths)}
}

// mergeByHand is a three-way merge for a base that is named, and for git before 2.38:
// without renames, so it conflicts where a newer git would not.
func (o *objects) mergeByHand(ctx context.Context, base, target, work Commit) (Tree, error) {
	dir, err := os.MkdirTemp(o.vault.scratch(), "merge-")
	if err != nil {
		return "", fmt.Errorf("merge: %w", err)
	}
	tree, err := o.mergeIn(ctx, dir, base, target, work)
	return tree, errors.Join(err, os.RemoveAll(dir))
}

func (o *objects) mergeIn(ctx context.Context, dir string, base, target, work Commit) (Tree, error) {
	in := func(args ...string) git.Command {
		return git.Command{GitDir: o.vault.dir, WorkTree: dir, Index: filepath.Join(dir, ".git-index"), Args: args}
	}
	if _, err := o.git.Run(ctx, in("read-tree", "-i", "-m", "--aggressive", string(base), string(target), string(work))); err != nil {
		return "", fmt.Errorf("merge: %w", err)
	}
	out, err := o.git.Run(ctx, in("ls-files", "-u", "-z"))
	if err != nil {
		return "", fmt.Errorf("merge: %w", err)
	}
	if err := o.mergeFiles(ctx, dir, target, git.Zeros(out), in); err != nil {
		return "", err
	}
	id, err := o.git.Line(ctx, in("write-tree"))
	if err != nil {
		return "", fmt.Errorf("merge: %w", err)
	}
	return ParseTree(id)
}

// mergeFiles resolves each unmerged path whose three sides are plain files.
func (o *objects) mergeFiles(ctx context.Context, dir string, target Commit, records []string, in func(...string) git.Command) error {
	sides := make(map[string]*[3]entry)
	for _, record := range records {
		head, name, _ := strings.Cut(record, "\t")
		fields := strings.Fields(head)
		if len(fields) != 3 || len(fields[2]) != 1 || fields[2] < "1" || fields[2] > "3" {
			return fmt.Errorf("merge: %w", errDamaged)
		}
		if sides[name] == nil {
			sides[name] = new([3]entry)
		}
		sides[name][fields[2][0]-'1'] = entry{mode: fields[0], id: fields[1]}
	}
	var conflicts []string
	var resolved bytes.Buffer
	for name, three := range sides {
		merged, clean, err := o.mergeFile(ctx, dir, *three)
		if err != nil {
			return fmt.Errorf("merge %q: %w", name, err)
		}
		if !clean {
			conflicts = append(conflicts, name)
		}
		fmt.Fprintf(&resolved, "%s %s\t%s\x00", merged.mode, merged.id, name)
	}
	if len(conflicts) > 0 {
		slices.Sort(conflicts)
		return &ConflictError{Target: target, Paths: conflicts}
	}
	c := in("update-index", "-z", "--index-info")
	c.Stdin = &resolved
	if _, err := o.git.Run(ctx, c); err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	return nil
}

// mergeFile merges one file's base, target and work side.
func (o *objects) mergeFile(ctx context.Context, dir string, three [3]entry) (merged entry, clean bool, err error) {
	args := []string{"merge-file", "-p"}
	// The order of merge-file is ours, base, theirs.
	for i, side := range []entry{three[1], three[0], three[2]} {
		if side.mode != modeFile && side.mode != modeExec {
			return entry{}, false, nil
		}
		data, err := o.own(ctx, "cat-file", "blob", side.id)
		if err != nil {
			return entry{}, false, err
		}
		name := filepath.Join(dir, fmt.Sprintf("side-%d", i))
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return entry{}, false, err
		}
		args = append(args, name)
	}
	text, err := o.own(ctx, args...)
	if code := git.ExitCode(err); code > 0 {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, err
	}
	id, err := o.git.Line(ctx, git.Command{
		GitDir: o.vault.dir, Stdin: bytes.NewReader(text), Args: []string{"hash-object", "-w", "--stdin", "--no-filters"},
	})
	return entry{mode: mergedMode(three), id: id}, true, err
}

// mergedMode takes the side that changed the mode.
func mergedMode(three [3]entry) string {
	if three[1].mode != three[0].mode {
		return three[1].mode
	}
	return three[2].mode
}
