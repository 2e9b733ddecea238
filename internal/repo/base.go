package repo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/overlay"
	"github.com/nacre-dev/nacre/internal/registry"
)

// Limits of the bases that are kept.
const (
	// baseTries is how often a base is asked for that is damaged and in use.
	baseTries = 50
	// maxNear is in how many files a commit may differ from another whose base serves
	// it, and nearTried how many bases of a project are held against it.
	maxNear   = 1000
	nearTried = 4
	// past is how much older a base's files are made than its index. git takes a file that is as
	// old as the index for one that may have changed since.
	past = time.Minute
)

// ErrNoBase says that no base can be had, so that a whole copy has to serve.
var ErrNoBase = errors.New("no base can be had")

// What is in the folder of a base.
const (
	baseFiles = "files"
	baseGit   = "git"
)

// Base is a checkout of a commit that nobody writes to: the sessions of a project share it, each
// with a layer of its own over it. It is made of git's objects, each of which was held against its
// id when it was written. It is taken for whole as long as no inode of it has changed since, which
// only root could hide. A base is of one boot of the machine: what had not reached the disk when
// the power went is not missed.
type Base struct {
	// Files is the folder of its files, with an empty .git.
	Files string
	// Commit is what it was made of.
	Commit Commit

	dir  string
	lock *os.File
}

// Overlays are a project's bases, and the layers over them.
type Overlays struct{ *Project }

// OpenBase finds or makes a base for the project's own commit below dir, a folder of the host's
// own. It may be that of a commit that this one goes on from, if few files differ: work that lands
// then does not make the next work's base useless. It is the caller's until Release. A base that is
// damaged is made anew; where a session still works over it the error is ErrNoBase.
func (p Overlays) OpenBase(ctx context.Context, dir string) (*Base, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	boot, err := overlay.Boot()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoBase, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	name := filepath.Join(dir, p.baseName())
	if near, err := p.nearBase(ctx, name, boot); near != nil || err != nil {
		return near, err
	}
	place := name + string(p.Base)
	for tries := 0; tries < baseTries; tries++ {
		b, err := takeBase(ctx, place, p.Base, boot)
		if err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		if b != nil {
			overlay.Evict(dir, p.now(), registry.Discard)
			return b, nil
		}
		lock, err := overlay.Lock(place, unix.LOCK_EX)
		if err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		if lock == nil { // another makes it, or works over it
			if err := overlay.Pause(ctx); err != nil {
				return nil, err
			}
			continue
		}
		err = p.makeBase(ctx, place, boot)
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
	}
	return nil, fmt.Errorf("%w: the one in %s is damaged, and a session works over it", ErrNoBase, place)
}

// Release lets others remove the base.
func (b *Base) Release() error { return b.lock.Close() }

// Whole proves that no file of the base has changed since it was made.
func (b *Base) Whole(ctx context.Context) error {
	s, err := overlay.ReadSeal(b.dir)
	if err != nil {
		return err
	}
	now, err := overlay.Survey(ctx, b.Files)
	if err == nil && now.Digest != s.Digest {
		err = fmt.Errorf("base %s was changed after it was made: %w", b.Files, ErrUnsafe)
	}
	return err
}

// baseName begins the names of a project's bases. A commit's id says what its files
// are, but a prepared project could pass other trees for its own: no other project
// uses its bases.
func (p Overlays) baseName() string {
	sum := sha256.Sum256([]byte(p.place.commonDir + "\x00" + p.format))
	return hex.EncodeToString(sum[:8]) + "-"
}

// nearBase takes a base of the project's that is whole and differs in few files;
// its own commit's, where there is one; nil is none.
func (p Overlays) nearBase(ctx context.Context, name, boot string) (*Base, error) {
	seals, err := filepath.Glob(quoteGlob(name) + "*/" + overlay.SealName)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	used := map[string]time.Time{}
	for _, file := range seals {
		if info, err := os.Lstat(file); err == nil {
			used[file] = info.ModTime()
		}
		if strings.HasPrefix(file, name+string(p.Base)) {
			return nil, nil //nolint:nilnil // its own is to be taken
		}
	}
	slices.SortFunc(seals, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, file := range seals[:min(len(seals), nearTried)] {
		place := filepath.Dir(file)
		commit, err := ParseCommit(strings.TrimPrefix(place, name))
		if err != nil || !p.near(ctx, commit) {
			continue
		}
		b, err := takeBase(ctx, place, commit, boot)
		if err != nil || b != nil {
			return b, err
		}
	}
	return nil, nil //nolint:nilnil // none, as the comment says
}

// near tells whether the project's commit goes on from another, from which it differs
// in few files. A clone begins with its base's git folder: that of another branch, or
// of a commit that was amended since, has objects that are not the agent's (S-11).
func (p Overlays) near(ctx context.Context, other Commit) bool {
	if _, err := p.own(ctx, "merge-base", "--is-ancestor", string(other), string(p.Base)); err != nil {
		return false
	}
	d, err := p.deltaFrom(ctx, &Base{Commit: other}, Tree(p.Base))
	return err == nil && len(d.written)+len(d.hidden) <= maxNear
}

// takeBase takes a base that is whole; nil is none. It waits while one is made.
func takeBase(ctx context.Context, place string, commit Commit, boot string) (*Base, error) {
	lock, err := overlay.Lock(place, unix.LOCK_SH)
	for err == nil && lock == nil {
		if err = overlay.Pause(ctx); err == nil {
			lock, err = overlay.Lock(place, unix.LOCK_SH)
		}
	}
	if err != nil {
		return nil, err
	}
	b := &Base{Files: filepath.Join(place, baseFiles), Commit: commit, dir: place, lock: lock}
	s, err := overlay.ReadSeal(place)
	if err == nil && s.Of == string(commit) && s.Boot == boot {
		err = b.Whole(ctx)
	} else if err == nil {
		err = ErrUnsafe
	}
	if err == nil {
		now := time.Now()
		err = os.Chtimes(filepath.Join(place, overlay.SealName), now, now)
	}
	if err == nil {
		return b, nil
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return nil, errors.Join(ctxErr, lock.Close())
	}
	return nil, lock.Close()
}

// makeBase checks the commit out anew. Whoever finds it later looks for its seal.
func (p Overlays) makeBase(ctx context.Context, place, boot string) error {
	if err := registry.Discard(place); err != nil {
		return err
	}
	files := filepath.Join(place, baseFiles)
	for _, dir := range []string{place, files} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	// Its agents are others where nacre is root: it is seen as any project is.
	if err := os.Chmod(files, 0o755); err != nil {
		return err
	}
	gitDir, packed := filepath.Join(place, baseGit), make(chan error, 1)
	go func() { packed <- p.cloneGitDir(ctx, gitDir) }() // beside the files, which the disk is waited for
	if err := errors.Join(p.checkout(ctx, string(p.Base), files), <-packed); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(files, ".git"), 0o755); err != nil {
		return err
	}
	if err := overlay.Backdate(ctx, files, p.now().Add(-past)); err != nil {
		return err
	}
	if err := p.cloneIndex(ctx, gitDir, files); err != nil {
		return err
	}
	now, err := overlay.Survey(ctx, files)
	if err != nil {
		return err
	}
	return overlay.Seal{Of: string(p.Base), Boot: boot, Digest: now.Digest, Bytes: now.Bytes}.Write(place)
}
