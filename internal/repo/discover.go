package repo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre/internal/repo/gitconfig"
)

// maxPointer is the longest file that only names a directory, in bytes.
const maxPointer = 8192

// place is where a project's parts are. All are absolute and resolved.
type place struct {
	// top is the directory of the files.
	top string
	// gitDir has HEAD and the index; commonDir has objects and refs. They
	// differ in a linked worktree.
	gitDir, commonDir string
	uid, gid          int
}

// discover finds the project that dir is in, as git would, without git.
func discover(dir string) (place, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return place{}, fmt.Errorf("project %s: %w", dir, err)
	}
	start, err = filepath.EvalSymlinks(start)
	if err != nil {
		return place{}, fmt.Errorf("project: %w", err)
	}
	info, err := os.Stat(start)
	if err != nil {
		return place{}, fmt.Errorf("project: %w", err)
	}
	if !info.IsDir() {
		return place{}, fmt.Errorf("project %s is not a directory", start)
	}
	for top := start; ; top = filepath.Dir(top) {
		found, err := placeAt(top)
		if err != nil || found.gitDir != "" {
			return found, err
		}
		if top == filepath.Dir(top) {
			return place{}, fmt.Errorf("%s: %w; run `git init` and commit once", start, ErrNotRepository)
		}
	}
}

// placeAt returns the project whose top is exactly here, or the zero place.
func placeAt(top string) (place, error) {
	dot := filepath.Join(top, ".git")
	info, err := os.Lstat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if isGitDir(top) {
			return place{}, fmt.Errorf("%s: %w; run in a clone of it", top, ErrBare)
		}
		return place{}, nil
	case err != nil:
		return place{}, fmt.Errorf("project: %w", err)
	}
	p := place{top: top, gitDir: dot}
	switch {
	case info.IsDir():
	case info.Mode().IsRegular():
		if p.gitDir, err = pointer(dot, "gitdir: "); err != nil {
			return place{}, err
		}
	default:
		return place{}, fmt.Errorf("%s is neither a directory nor a file: %w", dot, ErrUnsafe)
	}
	if err := p.resolve(); err != nil {
		return place{}, err
	}
	if !info.IsDir() || p.commonDir != p.gitDir {
		err = p.pointsBack(dot)
	} else {
		err = p.worksHere()
	}
	if err != nil {
		return place{}, err
	}
	return p, p.checkOwner()
}

func isGitDir(dir string) bool {
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	_, err := os.Lstat(filepath.Join(dir, "HEAD"))
	return err == nil
}

// resolve follows gitDir to the common directory and checks both.
func (p *place) resolve() (err error) {
	if p.gitDir, err = filepath.EvalSymlinks(p.gitDir); err != nil {
		return fmt.Errorf("git directory: %w", err)
	}
	p.commonDir = p.gitDir
	common := filepath.Join(p.gitDir, "commondir")
	if _, err := os.Lstat(common); err == nil {
		if p.commonDir, err = pointer(common, ""); err != nil {
			return err
		}
		if p.commonDir, err = filepath.EvalSymlinks(p.commonDir); err != nil {
			return fmt.Errorf("git directory: %w", err)
		}
	}
	if !isGitDir(p.commonDir) {
		return fmt.Errorf("%s is not a git directory: %w", p.commonDir, ErrNotRepository)
	}
	return nil
}

// pointer reads a file that names a path, relative to the file's directory.
func pointer(file, prefix string) (string, error) {
	data, err := readSmall(file, maxPointer)
	if err != nil {
		return "", err
	}
	text, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if !ok || text == "" || strings.ContainsAny(text, "\x00\n") {
		return "", fmt.Errorf("%s does not name a directory: %w", file, ErrNotRepository)
	}
	if !filepath.IsAbs(text) {
		text = filepath.Join(filepath.Dir(file), text)
	}
	return filepath.Clean(text), nil
}

// pointsBack refuses a .git that claims somebody else's repository. A worktree is known to the
// repository it shares, which names its .git file, and a submodule's git directory names its work
// tree.
func (p *place) pointsBack(dot string) error {
	if p.commonDir != p.gitDir {
		if filepath.Dir(p.gitDir) != filepath.Join(p.commonDir, "worktrees") {
			return fmt.Errorf("%s is no worktree of %s: %w; run in an ordinary clone", p.top, p.commonDir, ErrUnsafe)
		}
		back, err := pointer(filepath.Join(p.gitDir, "gitdir"), "")
		if err == nil {
			back, err = filepath.EvalSymlinks(back)
		}
		if err == nil && back == dot {
			return nil
		}
		return fmt.Errorf("%s does not know the worktree %s: %w; run `git worktree repair`", p.gitDir, p.top, ErrUnsafe)
	}
	tree, err := configuredWorkTree(p.gitDir)
	if err != nil {
		return err
	}
	if tree != p.top {
		return fmt.Errorf("%s does not know the work tree %s: %w; run in an ordinary clone", p.gitDir, p.top, ErrUnsafe)
	}
	return nil
}

// worksHere refuses a repository whose user's git works on the files of another
// folder: what lands here would be missing there.
func (p *place) worksHere() error {
	tree, err := configuredWorkTree(p.gitDir)
	if err == nil && tree != "" && tree != p.top {
		err = fmt.Errorf("%s: core.worktree says that its files are in %s: %w; run in an ordinary clone", p.top, tree, ErrUnsafe)
	}
	return err
}

// configuredWorkTree is what core.worktree of a git directory says, or "".
func configuredWorkTree(gitDir string) (string, error) {
	data, err := readSmall(filepath.Join(gitDir, "config"), 1<<20)
	return gitconfig.WorkTree(string(data), gitDir), err
}

// checkOwner does what git does: only root works on another's repository.
func (p *place) checkOwner() error {
	info, err := os.Stat(p.commonDir)
	if err != nil {
		return fmt.Errorf("git directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("git directory %s: its owner is not known", p.commonDir)
	}
	p.uid, p.gid = int(stat.Uid), int(stat.Gid)
	if me := os.Geteuid(); me != 0 && me != p.uid {
		return fmt.Errorf("%s: %w (uid %d); work in a clone of your own", p.top, ErrOwner, p.uid)
	}
	return nil
}

// inProgress names the operation that a worktree is in the middle of.
func (p place) inProgress() error {
	for _, sign := range []struct{ file, name string }{
		{"MERGE_HEAD", "merge"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"},
		{"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"sequencer", "cherry-pick"},
	} {
		if _, err := os.Lstat(filepath.Join(p.gitDir, sign.file)); err == nil {
			return fmt.Errorf("%w: finish or abort the %s first", ErrInProgress, sign.name)
		}
	}
	return nil
}

// readSmall reads a regular file of at most limit bytes, without following a link.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	data, err := readOpen(f, limit)
	return data, errors.Join(err, f.Close())
}

func readOpen(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: %w", f.Name(), ErrUnsafe)
	}
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if n > limit {
		return nil, fmt.Errorf("%s has more than %d bytes: %w", f.Name(), limit, ErrTooBig)
	}
	return b.Bytes(), nil
}
