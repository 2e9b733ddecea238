// Package gitdir gives a sealed command a git directory of its own over the user's live files
// (U-04), and takes the commits that it made there. The host's git directory is never writable
// inside, and its objects are borrowed, read-only. What else git needs (HEAD, refs, index,
// configuration) is made anew by the host for each session.
//
// Of the agent's git directory the host reads nothing but the names of its objects. A sealed
// process packs what is new, and the pack goes through package repo, as does whatever moves in the
// user's repository.
package gitdir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/borrowed"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

const (
	// inside is where the git directory is where .git is a file, objectsInside where
	// the host's objects are.
	inside        = "/var/lib/nacre/git"
	objectsInside = "/var/lib/nacre/objects"
	// largeInside is where git LFS looks for the host's files: beside borrowed objects.
	largeInside = "/var/lib/nacre/lfs/objects"
	// maxIndex is the largest index that is copied, in bytes.
	maxIndex = 1 << 30
	// maxSmall is the largest other file that is copied, in bytes.
	maxSmall = 16 << 20
)

// What keeps a project from having a git directory of the agent's own.
var (
	errUnborn = errors.New("the repository has no commit yet")
	errLinked = errors.New("a part of its git directory is a link to elsewhere")
	errTable  = errors.New("the repository keeps its refs in another way than files")
	// ErrBusy is another session that writes in the same files.
	ErrBusy = errors.New("another session has git in these files")
)

// Dir is the git directory of one session over one work tree. The zero Dir is none.
type Dir struct {
	place repo.Place
	// below is the project's folder below the top; empty where it is the top.
	below string
	// room is what is kept of the work tree, work what of this session.
	room, work string
	lock       *disk.Lock
	session    meta
	made       mark
	// filters are those of the user's git, and of the repository's own: their names.
	filters filters
	// signs says that the user's git signs commits, which none of the session's are.
	signs bool
	// going tells that what nothing was done in is gone. It goes while the session ends; nil where it stays.
	going chan error
}

// Refusal says to a person what git can do inside a project where [Open] failed.
func Refusal(project string, err error) string {
	own := isFolder(filepath.Join(project, ".git")) || GitFolder(project) != ""
	if !own || errors.Is(err, borrowed.ErrBorrowed) { // it is not there inside, or its commits are not
		return "git does not work: " + err.Error()
	}
	return "git can only be read: " + err.Error()
}

// meta is what the host knew when a session began; it finds it again after a crash.
type meta struct {
	Session nacre.SessionID `json:"session"`
	Top     string          `json:"top"`
	Base    repo.Commit     `json:"base"`
	// Branch is what HEAD was on, without refs/heads/; empty where it was detached.
	Branch string `json:"branch,omitempty"`
}

// mark tells whether a file was replaced, without reading it.
type mark struct{ inode, seconds, nanoseconds int64 }

// Open makes a git directory for a session that works on the files of project. Where
// project is no repository it returns nil. state is nacre's own folder.
func Open(ctx context.Context, project, state string, id nacre.SessionID) (*Dir, error) {
	place, err := repo.Find(project)
	if errors.Is(err, repo.ErrNotRepository) || errors.Is(err, repo.ErrBare) {
		return nil, nil //nolint:nilnil // none, as the comment says
	}
	if err == nil {
		err = fits(place)
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{place: place}
	if project != place.Top {
		if d.below, err = filepath.Rel(place.Top, project); err != nil {
			return nil, err
		}
	}
	digest := sha256.Sum256([]byte(place.Top + "\x00" + place.GitDir + "\x00" + d.below))
	d.room = filepath.Join(state, "git", hex.EncodeToString(digest[:16]))
	if err := os.MkdirAll(d.room, 0o700); err != nil {
		return nil, err
	}
	once, cancel := context.WithCancel(ctx)
	cancel()
	if d.lock, err = disk.TakeLock(once, filepath.Join(d.room, "lock")); err != nil {
		if errors.Is(err, disk.ErrLocked) {
			err = ErrBusy
		}
		return nil, err
	}
	if err := d.fill(ctx, id); err != nil {
		return nil, errors.Join(err, registry.Discard(d.work), d.Close()) // no session takes half a one for another's
	}
	return d, nil
}

// fits refuses repositories over which no git directory can be laid.
func fits(place repo.Place) error {
	if _, err := os.Lstat(filepath.Join(place.CommonDir, "reftable")); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errTable, err)
	}
	for _, dir := range []string{place.CommonDir, place.GitDir} {
		for _, name := range []string{"objects", "refs", "info", "logs", "modules"} {
			if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return errLinked
			}
		}
	}
	return borrowed.Check(place.CommonDir)
}

// fill makes the git directory and what the host remembers of it.
func (d *Dir) fill(ctx context.Context, id nacre.SessionID) error {
	if err := d.fillFiles(id); err != nil {
		return err
	}
	settings, err := readSettings(ctx, d.place.Top, filepath.Join(filepath.Dir(d.room), "program"))
	if err != nil {
		return err
	}
	d.filters, d.signs = filtersOf(settings), signs(settings)
	if err := writeFiles(d.git(), map[string]string{"config": configText(settings, d.below != "")}); err != nil {
		return err
	}
	if err := d.narrow(ctx); err != nil {
		return err
	}
	d.made, err = markOf(filepath.Join(d.git(), "HEAD"))
	return err
}

// readSettings reads those that git has for a work tree. A file remembers which git has answered before.
func readSettings(ctx context.Context, top, file string) ([]repo.Setting, error) {
	mark, err := git.Mark()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	known := err == nil && string(text) == mark
	settings, err := repo.Settings(ctx, top, known)
	if err == nil && !known {
		err = disk.Write(file, []byte(mark), 0o600)
	}
	return settings, err
}

func (d *Dir) fillFiles(id nacre.SessionID) error {
	r, err := readRefs(d.place.GitDir, d.place.CommonDir)
	if err != nil {
		return err
	}
	if r.commit == "" {
		return errUnborn
	}
	d.work = filepath.Join(d.room, "work-"+string(id))
	if err := os.RemoveAll(d.work); err != nil {
		return err
	}
	folders := []string{"refs/heads", "refs/tags", "info"} // git makes the others once it writes there
	if isFolder(filepath.Join(d.place.GitDir, "modules")) {
		folders = append(folders, "modules")
	}
	for _, name := range folders {
		if err := os.MkdirAll(filepath.Join(d.git(), name), 0o700); err != nil {
			return err
		}
	}
	branch, isBranch := strings.CutPrefix(r.head, "ref: refs/heads/")
	if !isBranch {
		branch = ""
	}
	d.session = meta{Session: id, Top: d.place.Top, Base: repo.Commit(r.commit), Branch: branch}
	text, err := json.Marshal(d.session)
	if err != nil {
		return err
	}
	return errors.Join(r.write(d.git()), d.copyFiles(), writeFiles(d.work, map[string]string{
		"session.json": string(text), "gitfile": "gitdir: " + inside + "\n", "known": r.commit + "\n" + string(r.packed),
		"git/objects/info/alternates": objectsInside + "\n",
	}))
}

// copyFiles copies what the agent's git goes on from.
func (d *Dir) copyFiles() error {
	type file struct {
		dir, name string
		most      int64
	}
	files := []file{
		{d.place.GitDir, "index", maxIndex}, {d.place.CommonDir, "shallow", maxSmall},
		{d.place.CommonDir, "info/exclude", maxSmall}, {d.place.GitDir, "info/sparse-checkout", maxSmall},
		{d.place.CommonDir, "logs/refs/stash", maxSmall},
	}
	for _, name := range []string{"MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD"} { // what one commit ends
		files = append(files, file{d.place.GitDir, name, maxSmall})
	}
	entries, err := os.ReadDir(d.place.GitDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sharedindex.") {
			files = append(files, file{d.place.GitDir, e.Name(), maxIndex})
		}
	}
	for _, f := range files {
		if err := copyFile(f.dir, f.name, filepath.Join(d.git(), f.name), f.most); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Unfinished names what the user's git is in the middle of and git inside does not know; empty where that is nothing.
func (d *Dir) Unfinished() string {
	if d == nil {
		return ""
	}
	for _, sign := range []struct{ folder, name string }{{"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"sequencer", "cherry-pick or revert of several commits"}} {
		if isFolder(filepath.Join(d.place.GitDir, sign.folder)) {
			return sign.name
		}
	}
	return ""
}

// copyFile keeps the time of change: git compares with it. No link leads it out of the folder.
func copyFile(dir, name, to string, most int64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	in, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return fmt.Errorf("%s/%s is not a regular file, or has more than %d bytes", dir, name, most)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, most))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// narrow makes the work tree one that has the project's folder alone.
func (d *Dir) narrow(ctx context.Context) error {
	if d.below == "" {
		return nil
	}
	if err := narrow(ctx, d.git(), filepath.Join(d.place.CommonDir, "objects"), d.below); err != nil {
		return err
	}
	return writeFiles(d.git(), map[string]string{"info/sparse-checkout": sparsePattern(d.below)})
}

// git is the agent's: nothing in it is read by the host once the agent runs.
func (d *Dir) git() string { return filepath.Join(d.work, "git") }

// Mounts lay the git directory over the project's. They come after the project.
func (d *Dir) Mounts() []nacre.Mount {
	at := d.inside()
	var mounts []nacre.Mount
	if at == inside {
		mounts = append(mounts, nacre.Mount{Source: filepath.Join(d.work, "gitfile"), Target: posture.Workspace + "/.git"})
	}
	mounts = append(mounts, nacre.Mount{Kind: nacre.BindReadWrite, Source: d.git(), Target: at},
		nacre.Mount{Source: filepath.Join(d.place.CommonDir, "objects"), Target: objectsInside})
	if modules := filepath.Join(d.place.GitDir, "modules"); isFolder(modules) { // a linked worktree has its own
		mounts = append(mounts, nacre.Mount{Source: modules, Target: at + "/modules"})
	}
	if large := d.hostsLarge(); isFolder(filepath.Dir(large)) && isFolder(large) {
		mounts = append(mounts, nacre.Mount{Source: large, Target: largeInside})
	}
	return mounts
}

// inside is where the git directory is inside.
func (d *Dir) inside() string {
	if d.below == "" && !isFolder(filepath.Join(d.place.Top, ".git")) {
		return inside
	}
	return posture.Workspace + "/.git"
}

func isFolder(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

func markOf(name string) (mark, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return mark{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return mark{}, fmt.Errorf("%s: its inode is not known", name)
	}
	return mark{int64(stat.Ino), info.ModTime().Unix(), int64(info.ModTime().Nanosecond())}, nil //nolint:gosec // told apart, not counted with
}

// Close lets go of the work tree; what nobody took stays for the next session.
func (d *Dir) Close() error {
	if d == nil || d.lock == nil {
		return nil
	}
	var err error
	switch {
	case d.going != nil:
		err, d.going = <-d.going, nil
	case d.made != (mark{}) && isFolder(d.git()) && !d.changed():
		err = registry.Discard(d.work) // nothing was done there
	}
	return errors.Join(err, d.lock.Release())
}
