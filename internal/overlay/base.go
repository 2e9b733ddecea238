package overlay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/disk"
)

// Limits of the bases that are kept.
const (
	// maxBases of all projects are kept beside those in use.
	maxBases = 8
	// maxBaseAge is how long a base is kept that no session uses.
	maxBaseAge = 14 * 24 * time.Hour
	// maxBaseBytes is how much the bases that no session uses may take in all.
	maxBaseBytes = 32 << 30
	// poll is how often a base is asked for that another process makes.
	poll = 20 * time.Millisecond
)

// SealName is the name of a base's seal in its folder, and lockEnd the end of the
// name of its lock beside it.
const (
	SealName = "seal.json"
	lockEnd  = ".lock"
)

// Seal is written last, once a base is whole.
type Seal struct {
	// Of is the commit, and Boot that of the machine at which it was made.
	Of   string `json:"commit"`
	Boot string `json:"boot"`
	// Digest and Bytes are what a survey gave.
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

// Write seals a base.
func (s Seal) Write(place string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return disk.Write(filepath.Join(place, SealName), data, 0o600)
}

// ReadSeal reads the seal of a base.
func ReadSeal(place string) (s Seal, err error) {
	data, err := os.ReadFile(filepath.Join(place, SealName))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && (s.Digest == "" || s.Boot == "") {
		err = fmt.Errorf("seal of %s: %w", place, ErrForeign)
	}
	return s, err
}

// Lock takes a base's lock at once; nil means that others hold it.
func Lock(place string, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(place+lockEnd, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, f.Close()
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Lstat(f.Name()); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		if err := f.Close(); err != nil { // it was removed meanwhile
			return nil, err
		}
	}
}

// Pause waits a moment for another process.
func Pause(ctx context.Context) error {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Boot tells the boots of the machine apart.
func Boot() (string, error) {
	id, err := disk.Boot()
	if err == nil && id != "" {
		return id, nil
	}
	return "", errors.Join(errors.New("the kernel does not say which boot this is"), err)
}

// Evict removes bases that no session uses: what is too old, and of the rest
// those that were used longest ago, until few enough are left. What fails is
// tried again with the next base.
func Evict(dir string, now time.Time, discard func(dir string) error) {
	type kept struct {
		place string
		used  time.Time
		bytes int64
	}
	var all []kept
	locks, _ := filepath.Glob(filepath.Join(globbed(dir), "*"+lockEnd)) // the pattern is ours
	for _, lock := range locks {
		k := kept{place: strings.TrimSuffix(lock, lockEnd)}
		if info, err := os.Lstat(filepath.Join(k.place, SealName)); err == nil {
			k.used = info.ModTime()
		}
		if s, err := ReadSeal(k.place); err == nil {
			k.bytes = s.Bytes
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.place, b.place)) })
	var total int64
	for i, k := range all {
		if total += k.bytes; i >= maxBases || total > maxBaseBytes || now.Sub(k.used) > maxBaseAge {
			_ = removeBase(k.place, discard)
		}
	}
}

// removeBase removes a base, if nobody makes it or works over it.
func removeBase(place string, discard func(dir string) error) error {
	lock, err := Lock(place, unix.LOCK_EX)
	if err != nil || lock == nil {
		return err
	}
	err = discard(place)
	if err == nil {
		err = os.Remove(lock.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, lock.Close())
}

// globbed is a folder as a pattern that is only itself.
func globbed(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
