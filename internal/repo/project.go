package repo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/repo/borrowed"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Options of a project. StateDir is required.
type Options struct {
	// StateDir belongs to one session: the host's own git directory and the
	// journal of a landing live in it. It is made with mode 0700, and is one
	// process's at a time: the one that holds the session's lock.
	StateDir string
	// Base, where set, is the recorded base commit of a session that is carried
	// on; empty takes what HEAD is now.
	Base Commit
	// Reading, where set, is the StateDir of another session whose commits can be
	// read as well. Nothing is written there.
	Reading string
	// Git is the program; empty looks for "git" in PATH.
	Git string
	// Now is the clock for commits; nil means time.Now.
	Now func() time.Time
}

// Dirty is what a project's work tree has beyond its HEAD. Each list names at
// most MaxListed paths.
type Dirty struct {
	// Tracked differ from HEAD, staged or not.
	Tracked []string
	// Untracked are neither tracked nor ignored; directories end with "/".
	Untracked []string
	// More counts the paths that are not named.
	More int
}

// Clean reports whether nothing tracked differs.
func (d Dirty) Clean() bool { return len(d.Tracked) == 0 }

// Project is a person's repository. Its methods may be called one at a time or
// together; they take turns.
type Project struct {
	// Top is the directory of the files, resolved.
	Top string
	// Branch is what HEAD is on, without refs/heads/; empty where it is detached.
	Branch string
	// Base is the commit that the session works from.
	Base Commit

	mu sync.Mutex
	*landing
}

// objects are the host's own git directory, with everything that can be read through it.
type objects struct {
	vault  vault
	git    *git.Program
	format string
}

// host is the repository as it is the person's: refs, index and object store. Of its files
// nothing is read, and git runs there only for refs.
type host struct {
	place   place
	program *git.Program
}

// worktree is the person's files and index, held against objects.
type worktree struct {
	*objects
	*host
}

// Open finds the repository that dir is in and prepares to work on its HEAD.
// The errors it wraps: ErrNotRepository, ErrBare, ErrUnborn, ErrInProgress,
// ErrOwner, ErrUnsafe.
func Open(ctx context.Context, dir string, o Options) (*Project, error) {
	if !filepath.IsAbs(o.StateDir) {
		return nil, fmt.Errorf("state directory %q is not an absolute path", o.StateDir)
	}
	// A prepared project can make git wait: on a pipe for a configuration file.
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	g, err := git.Find(ctx, o.Git)
	if err != nil {
		return nil, err
	}
	found, err := discover(dir)
	if err != nil {
		return nil, err
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	p := &Project{Top: found.top, landing: &landing{
		worktree: worktree{&objects{git: g}, &host{place: found, program: g}},
		journals: journals{of: found, dir: o.StateDir}, now: now, reached: func(string) {},
	}}
	if err := errors.Join(borrowed.Check(found.commonDir), p.inspect(ctx, o.Base)); err != nil {
		return nil, err
	}
	p.vault = vault{dir: filepath.Join(o.StateDir, vaultName), state: o.StateDir}
	if o.Reading != "" {
		p.vault.reading = filepath.Join(o.Reading, vaultName, "objects")
	}
	if err := errors.Join(p.vault.emptyScratch(), p.vault.create(p.place, p.format)); err != nil {
		return nil, err
	}
	if _, err := p.own(ctx, "cat-file", "-e", string(p.Base)+"^{tree}"); err != nil {
		return nil, fmt.Errorf("commit %.12s cannot be read: %w; fetch what is missing (a partial clone needs `git fetch --refetch`)", p.Base, err)
	}
	return p, nil
}

// inspect reads the user's HEAD.
func (p *Project) inspect(ctx context.Context, base Commit) error {
	head, err := p.git.Head(ctx, p.theirs())
	if err != nil {
		return fmt.Errorf("%s: %w: %w", p.Top, ErrNotRepository, err)
	}
	p.format = head.Format
	if branch, is := strings.CutPrefix(head.Ref, "refs/heads/"); is {
		p.Branch = branch
	}
	if base != "" {
		p.Base, err = ParseCommit(string(base))
		return err
	}
	if head.Commit == "" {
		return fmt.Errorf("%s: %w; commit once, then run again", p.Top, ErrUnborn)
	}
	if err := p.place.inProgress(); err != nil {
		return fmt.Errorf("%s: %w", p.Top, err)
	}
	p.Base, err = ParseCommit(head.Commit)
	return err
}

// theirs is a command in the user's git directory: only for refs, since their
// configuration is read. It runs as the repository's owner.
func (h *host) theirs(args ...string) git.Command {
	c := git.Command{GitDir: h.place.gitDir, Args: args}
	if os.Geteuid() == 0 && h.place.uid != 0 {
		c.As = &syscall.Credential{Uid: uint32(h.place.uid), Gid: uint32(h.place.gid)}
	}
	return c
}

// own runs git in the host's own git directory.
func (o *objects) own(ctx context.Context, args ...string) ([]byte, error) {
	return o.git.Run(ctx, git.Command{GitDir: o.vault.dir, Args: args})
}

func (o *objects) ownLine(ctx context.Context, args ...string) (string, error) {
	return o.git.Line(ctx, git.Command{GitDir: o.vault.dir, Args: args})
}

// Head is the commit that a branch of the user's is at now.
func (p *Project) Head(ctx context.Context, branch string) (Commit, error) {
	if err := checkBranch(branch); err != nil {
		return "", err
	}
	c, err := p.readRef(ctx, "refs/heads/"+branch)
	if err == nil && c == "" {
		err = fmt.Errorf("branch %q does not exist: make it again, or let `nacre sessions branch SESSION` put the work on a branch of its own", branch)
	}
	return c, err
}

// readRef returns "" for a ref that does not exist.
func (h *host) readRef(ctx context.Context, ref string) (Commit, error) {
	out, err := h.program.Line(ctx, h.theirs("rev-parse", "-q", "--verify", ref+"^{commit}"))
	if git.ExitCode(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", ref, err)
	}
	return ParseCommit(out)
}

func checkBranch(branch string) error {
	if branch == "" || strings.HasPrefix(branch, "-") {
		return fmt.Errorf("branch %.80q: want a name", branch)
	}
	if !posture.IsRef("refs/heads/" + branch) {
		return fmt.Errorf("branch %.80q is not a name that git allows", branch)
	}
	return nil
}

// Dirty compares the user's files and index with HEAD, running no filter,
// hook or file system monitor of theirs.
func (p *Project) Dirty(ctx context.Context) (Dirty, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	head, err := p.readRef(ctx, "HEAD")
	if err != nil {
		return Dirty{}, err
	}
	index, err := p.copyIndex(ctx)
	if err != nil {
		return Dirty{}, err
	}
	defer index.remove()
	tracked, untracked, err := p.compare(ctx, index, head, "normal")
	d := Dirty{Tracked: tracked[:min(len(tracked), MaxListed)], Untracked: untracked[:min(len(untracked), MaxListed)]}
	d.More = len(tracked) + len(untracked) - len(d.Tracked) - len(d.Untracked)
	return d, err
}

// compare is git status with everything of ours but the files and the index.
func (w *worktree) compare(ctx context.Context, index *indexCopy, head Commit, which string) (tracked, untracked []string, err error) {
	if err := w.vault.setHead(head); err != nil {
		return nil, nil, err
	}
	out, err := w.git.Run(ctx, index.command(w.place.top, "status", "--porcelain=v1", "-z", "--no-renames",
		"--untracked-files="+which, "--ignore-submodules=all"))
	if err != nil {
		return nil, nil, fmt.Errorf("compare files with HEAD: %w", err)
	}
	for _, record := range git.Zeros(out) {
		switch {
		case len(record) < 4:
			return nil, nil, errors.New("compare files with HEAD: git's answer is damaged")
		case strings.HasPrefix(record, "??"):
			untracked = append(untracked, record[3:])
		default:
			tracked = append(tracked, record[3:])
		}
	}
	return tracked, untracked, nil
}
