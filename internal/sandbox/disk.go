package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
)

const (
	// freeEvery is how often the file system is asked what is free.
	freeEvery = 100 * time.Millisecond
	// lookEvery is the shortest time between two looks at a tree, and lookShare
	// how many times longer than a look the time between two is, so that looking
	// costs at most a hundredth of a core.
	lookEvery = 500 * time.Millisecond
	// lookRest is the longest rest after a look that was short.
	lookRest  = 5 * time.Second
	lookShare = 100
	// hasteShare of the limit, gone from the file system, is looked at sooner.
	hasteShare = 4
	// hasteRest is how many times longer than a look the rest after it is at least.
	hasteRest = 10
	// maxLooked is how many files one look counts, maxLookDepth how deep it goes.
	maxLooked    = 2_000_000
	maxLookDepth = 500
	// freeFloor is what has to stay free on the file system, in bytes, and
	// freeShare the part of it that is enough where it is small.
	freeFloor = 1 << 30
	freeShare = 20
)

// WatchDisk looks at what is bound writable until ctx ends, and returns why the
// sandbox has to end, or "" (M-12). It watches and does not hold: what is added
// between two looks is there. What others add to the same folders counts too;
// what was deleted and is still open shows in what the file system has free.
// It calls counted once what is there at the beginning is known.
func WatchDisk(ctx context.Context, mounts []nacre.Mount, limit int64, counted func()) string {
	var d diskWatch
	for _, m := range mounts {
		if m.Kind == nacre.BindReadWrite {
			d.trees = append(d.trees, &tree{path: m.Source})
		}
	}
	if len(d.trees) == 0 {
		counted()
		return ""
	}
	d.limit = limit
	return d.run(ctx, counted)
}

type diskWatch struct {
	limit   int64
	trees   []*tree
	before  usage
	blind   bool // a look did not see all, so that what is free has to tell
	next    time.Time
	soonest time.Time // in haste
}

// tree is one folder and the room on its file system.
type tree struct {
	path          string
	floor         int64
	first, atLook int64 // bytes free at the start, and at the last look
}

func (d *diskWatch) run(ctx context.Context, counted func()) string {
	for _, t := range d.trees {
		t.begin()
	}
	d.before = d.look(ctx)
	d.blind = d.before.cut
	counted()
	tick := time.NewTicker(freeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
		why, haste := d.room()
		if why != "" && ctx.Err() == nil {
			return why
		}
		now := time.Now()
		if now.Before(d.soonest) || !haste && now.Before(d.next) {
			continue
		}
		u := d.look(ctx)
		if ctx.Err() != nil {
			return ""
		}
		d.blind = u.cut || u.closed > d.before.closed
		if !u.cut && u.bytes-d.before.bytes > d.limit {
			return fmt.Sprintf("it added more than %s to what it may write", Bytes(d.limit))
		}
	}
}

// room asks the file systems: why the sandbox has to end, or whether so much is
// gone that the trees are worth a look.
func (d *diskWatch) room() (why string, haste bool) {
	for _, t := range d.trees {
		free, ok := t.free()
		switch {
		case !ok:
		case free < t.floor:
			return fmt.Sprintf("the file system of %s has less than %s free", t.path, Bytes(t.floor)), false
		case d.blind && t.first-free > d.limit:
			return fmt.Sprintf("the file system of %s lost more than %s, and what it may write cannot be counted", t.path, Bytes(d.limit)), false
		case t.atLook-free > d.limit/hasteShare:
			haste = true
		}
	}
	return "", haste
}

// look counts all trees, and says when to look again.
func (d *diskWatch) look(ctx context.Context) usage {
	started := time.Now()
	u := usage{seen: map[inode]bool{}}
	for _, t := range d.trees {
		if free, ok := t.free(); ok {
			t.atLook = free
		}
		u.add(ctx, t.path)
	}
	u.seen = nil
	took := time.Since(started)
	rest := min(lookShare*took, max(lookRest, 10*took)) // a machine that was busy is not a tree that is big
	d.next, d.soonest = time.Now().Add(max(lookEvery, rest)), time.Now().Add(hasteRest*took)
	return u
}

// begin takes the floor: where less than twice as much is free now, half of what is.
func (t *tree) begin() {
	var s unix.Statfs_t
	if unix.Statfs(t.path, &s) != nil {
		return
	}
	t.first = int64(s.Bavail) * int64(s.Bsize)
	t.atLook = t.first
	t.floor = min(freeFloor, int64(s.Blocks)*int64(s.Bsize)/freeShare, t.first/2)
}

func (t *tree) free() (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(t.path, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}

type inode struct{ device, number uint64 }

// usage is what files take on disk. Those with several names count once.
type usage struct {
	bytes  int64
	files  int
	closed int  // folders that could not be looked into
	cut    bool // there was more than is looked at
	seen   map[inode]bool
}

func (u *usage) add(ctx context.Context, path string) {
	var s unix.Stat_t
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return // it is gone
	}
	root := os.NewFile(uintptr(fd), filepath.Base(path))
	defer func() { _ = root.Close() }() // read-only
	if unix.Fstat(fd, &s) != nil {
		return
	}
	u.count(&s)
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		u.folder(ctx, root, s.Dev, maxLookDepth)
	}
}

// folder counts what is in it. It follows no link and leaves no file system.
func (u *usage) folder(ctx context.Context, dir *os.File, device uint64, depth int) {
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if u.files >= maxLooked || depth == 0 || ctx.Err() != nil {
				u.cut = true
				return
			}
			u.entry(ctx, dir, name, device, depth)
		}
		if err != nil {
			return
		}
	}
}

func (u *usage) entry(ctx context.Context, dir *os.File, name string, device uint64, depth int) {
	var s unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil || s.Dev != device {
		return
	}
	u.count(&s)
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			u.closed++
		}
		return
	}
	child := os.NewFile(uintptr(fd), name)
	u.folder(ctx, child, device, depth-1)
	_ = child.Close() // read-only
}

func (u *usage) count(s *unix.Stat_t) {
	u.files++
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		id := inode{uint64(s.Dev), s.Ino}
		if u.seen[id] {
			return
		}
		u.seen[id] = true
	}
	u.bytes += s.Blocks * 512
}

// Bytes writes a size for people, such as "256 MiB".
func Bytes(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	size, i := float64(n), 0
	for ; size >= 1024 && i < len(units)-1; i++ {
		size /= 1024
	}
	return fmt.Sprintf("%.4g %s", size, units[i])
}
