package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// landHere lands on the branch that this work tree has checked out.
func (p *landing) landHere(ctx context.Context, r LandRequest) (Landed, error) {
	j := journal{
		Intent: Intent{Session: r.Session, Ref: "refs/heads/" + r.Branch, Old: r.Expect, New: r.Commit, Files: true},
		Token:  token(), Live: r.Live,
	}
	if err := p.journals.write(j); err != nil {
		return Landed{}, err
	}
	p.reached("journal")
	move, reason, err := p.readyHere(ctx, j)
	if err == nil && reason == "" {
		defer move.index.remove()
		if err = r.Intent(ctx, j.Intent); err != nil {
			err = fmt.Errorf("land: record the intent: %w", err)
		}
	}
	if err == nil && reason == "" {
		p.reached("intent")
		err = p.swap(ctx, j.Intent)
	}
	if err != nil || reason != "" {
		// The ref has not moved: recovery takes back the lock and the journal.
		_, undone := p.recover(context.WithoutCancel(ctx))
		if err = errors.Join(err, undone); err != nil {
			return Landed{}, err
		}
		return p.stay(ctx, r, string(r.Session), reason)
	}
	p.reached("swapped")
	// Past the commit point nothing stops half-way but a crash.
	left, err := p.follow(context.WithoutCancel(ctx), j, move)
	if err != nil {
		return Landed{}, fmt.Errorf("land: the commit is on %s, its files are not all there yet: %w", r.Branch, err)
	}
	return Landed{Session: r.Session, Ref: j.Ref, Commit: j.New, Files: true, Left: left}, nil
}

// move is what is to happen to files and index, worked out beforehand.
type move struct {
	index *indexCopy
	ops   []op
}

// op takes one path from one entry to another; the zero entry is absence.
type op struct {
	path     string
	from, to entry
}

func (o op) deletes() bool { return o.to.mode == "" }

// readyHere takes the lock, checks that nothing of the user's would be lost,
// and makes the new index. A reason says why the work tree cannot follow.
func (p *landing) readyHere(ctx context.Context, j journal) (m *move, reason string, err error) {
	if err := p.place.inProgress(); err != nil {
		return nil, err.Error(), nil //nolint:nilerr // the error is the reason
	}
	locked, err := p.lockIndex(j.Token)
	if err != nil {
		return nil, "", err
	}
	if !locked {
		return nil, "another git command holds " + indexLock, nil
	}
	p.reached("locked")
	if have, err := p.readRef(ctx, j.Ref); err != nil || have != j.Old {
		// Whoever held the lock before may have moved the branch.
		return nil, "", errors.Join(err, &MovedError{Branch: strings.TrimPrefix(j.Ref, "refs/heads/"), Want: j.Old, Have: have})
	}
	index, err := p.copyIndex(ctx)
	if err != nil {
		return nil, "", err
	}
	m = &move{index: index}
	if j.Index, err = index.identity(); err == nil {
		err = p.journals.write(j)
	}
	if err == nil {
		reason, err = p.readyIndex(ctx, j, m)
	}
	if err != nil || reason != "" {
		index.remove()
		return nil, reason, err
	}
	return m, "", nil
}

func (p *landing) readyIndex(ctx context.Context, j journal, m *move) (reason string, err error) {
	if j.Live {
		if err := p.mergeIndex(ctx, j, m.index); git.ExitCode(err) > 0 {
			return "the index has changes of its own", nil
		} else if err != nil {
			return "", err
		}
		return "", nil
	}
	changed, _, err := p.compare(ctx, m.index, j.Old, "no")
	if err != nil {
		return "", err
	}
	if m.ops, err = p.opsBetween(ctx, j.Old, j.New); err != nil {
		return "", err
	}
	if both := touched(m.ops, changed); len(both) > 0 {
		return "the work tree has changes of its own in " + listed(both), nil
	}
	hidden, err := p.hidden(ctx, m)
	if err != nil {
		return "", err
	}
	if len(hidden) > 0 {
		return "git was told not to look at " + listed(hidden), nil
	}
	l, err := p.openLander(j)
	if err != nil {
		return "", err
	}
	blocked, err := l.blocked(m.ops)
	if err = errors.Join(err, l.root.Close()); err != nil {
		return "", err
	}
	if len(blocked) > 0 {
		return "untracked files are in the way: " + listed(blocked), nil
	}
	return "", p.mergeIndex(ctx, j, m.index)
}

// touched are the changed paths that a landing changes, or changes something below or above.
func touched(ops []op, changed []string) []string {
	at, around := map[string]bool{}, map[string]bool{}
	for _, o := range ops {
		at[o.path] = true
		for _, parent := range parents(o.path) {
			around[parent] = true
		}
	}
	var both []string
	for _, name := range changed {
		name = strings.TrimSuffix(name, "/")
		if at[name] || around[name] || slices.ContainsFunc(parents(name), func(parent string) bool { return at[parent] }) {
			both = append(both, name)
		}
	}
	return both
}

// mergeIndex takes the copied index from the old commit to the new one,
// keeping what is known of files that stay.
func (w *worktree) mergeIndex(ctx context.Context, j journal, index *indexCopy) error {
	_, err := w.git.Run(ctx, index.command(w.place.top, "read-tree", "-i", "-m", string(j.Old), string(j.New)))
	if err != nil {
		return fmt.Errorf("new index: %w", err)
	}
	return nil
}

func (w *worktree) opsBetween(ctx context.Context, from, to Commit) ([]op, error) {
	ops, err := w.differences(ctx, string(from), string(to))
	slices.SortFunc(ops, func(a, b op) int { return strings.Compare(a.path, b.path) })
	return ops, err
}

// hidden are the paths to be changed that the index marks as sparse or assumed
// unchanged: git did not compare them.
func (w *worktree) hidden(ctx context.Context, m *move) ([]string, error) {
	out, err := w.git.Run(ctx, m.index.command(w.place.top, "ls-files", "-v", "-z"))
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	marked := make(map[string]bool)
	for _, record := range git.Zeros(out) {
		if tag, name, ok := strings.Cut(record, " "); ok && tag != "H" {
			marked[name] = true
		}
	}
	var names []string
	for _, o := range m.ops {
		if marked[o.path] {
			names = append(names, o.path)
		}
	}
	return names, nil
}

// follow brings files and index to where the ref is, and ends the landing.
func (p *landing) follow(ctx context.Context, j journal, m *move) ([]string, error) {
	l, err := p.openLander(j)
	if err != nil {
		return nil, err
	}
	left, err := l.apply(ctx, m.ops)
	if err = errors.Join(err, l.leave(), l.root.Close()); err != nil {
		return nil, err
	}
	p.reached("files")
	_, err = p.git.Run(ctx, m.index.command(p.place.top, "update-index", "-q", "--refresh"))
	if err != nil && git.ExitCode(err) != 1 { // 1: a file that was left differs
		return nil, fmt.Errorf("new index: %w", err)
	}
	if err := p.installIndex(m.index, j.Token); err != nil {
		return nil, err
	}
	p.reached("index")
	if err := p.unlockIndex(j.Token); err != nil {
		return nil, err
	}
	p.reached("unlocked")
	if err := disk.SyncFileSystem(p.place.top); err != nil {
		return nil, err
	}
	return left, p.journals.forget()
}

// completeHere does what a crash kept follow from doing.
func (p *landing) completeHere(ctx context.Context, j journal) ([]string, error) {
	locked, err := p.lockIndex(j.Token)
	if err != nil {
		return nil, err
	}
	if !locked {
		return nil, fmt.Errorf("%w: remove %s if no git command is running", ErrInProgress, indexLock)
	}
	index, err := p.copyIndex(ctx)
	if err != nil {
		return nil, err
	}
	defer index.remove()
	var ops []op
	if !j.Live {
		if ops, err = p.opsBetween(ctx, j.Old, j.New); err != nil {
			return nil, err
		}
	}
	now, err := index.identity()
	if err != nil {
		return nil, err
	}
	if now == j.Index {
		if err := p.mergeIndex(ctx, j, index); err != nil {
			return nil, err
		}
		return p.follow(ctx, j, &move{index: index, ops: ops})
	}
	if installed, err := p.installed(ctx, j, index); err != nil || installed {
		return nil, errors.Join(err, p.unlockIndex(j.Token), p.journals.forget())
	}
	// Somebody worked on the index meanwhile: it is theirs, and so are the files.
	var left []string
	for _, o := range ops {
		left = append(left, o.path)
	}
	return left, errors.Join(p.unlockIndex(j.Token), p.journals.forget())
}

// installed tells whether all that a landing changes is in the index as its new commit has it.
func (w *worktree) installed(ctx context.Context, j journal, index *indexCopy) (bool, error) {
	ops, err := w.opsBetween(ctx, j.Old, j.New)
	if err != nil {
		return false, err
	}
	out, err := w.git.Run(ctx, index.command(w.place.top, "ls-files", "-s", "-z"))
	if err != nil {
		return false, fmt.Errorf("read index: %w", err)
	}
	have := map[string]entry{}
	for _, record := range git.Zeros(out) {
		head, name, _ := strings.Cut(record, "\t")
		if fields := strings.Fields(head); len(fields) == 3 {
			have[name] = entry{mode: fields[0], id: fields[1]}
		}
	}
	return !slices.ContainsFunc(ops, func(o op) bool { return have[o.path] != o.to }), nil
}

// deletions are the paths that a landing deletes.
func deletions(ops []op) map[string]bool {
	set := make(map[string]bool)
	for _, o := range ops {
		if o.deletes() {
			set[o.path] = true
		}
	}
	return set
}
