package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/tree"
)

const (
	// freeEvery is how often the file system is asked what is free.
	freeEvery = 100 * time.Millisecond
	// lookEvery is the shortest time between two looks at a tree. lookShare is how many times
	// longer than a look the time between two is, so that looking costs at most a hundredth of a
	// core.
	lookEvery = 500 * time.Millisecond
	// lookRest is the longest rest after a look that was short.
	lookRest  = 5 * time.Second
	lookShare = 100
	// hasteShare of the limit, gone from the file system, is looked at sooner.
	hasteShare = 4
	// hasteRest is how many times longer than a look the rest after it is at least.
	hasteRest = 10
	// clockStep is how far a file system's clock may be behind ours.
	clockStep = 10 * time.Millisecond
	// maxLooked is how many files one look counts, maxLookDepth how deep it goes.
	maxLooked    = 2_000_000
	maxLookDepth = 500
	// freeFloor is what has to stay free on the file system, in bytes, and
	// freeShare the part of it that is enough where it is small.
	freeFloor = 1 << 30
	freeShare = 20
)

// DiskWatch looks at what is bound writable, or written over a base (M-12). It watches and does not
// hold: what is added between two looks is there. What others add to the same folders counts too.
// What was deleted and is still open shows in what the file system has free.
type DiskWatch struct {
	limit   int64
	trees   []*folder
	start   time.Time // from which on what is changed is the sandbox's
	before  *usage    // nil until it was counted
	blind   bool      // a look did not see all, so that what is free has to tell
	next    time.Time
	soonest time.Time // in haste
}

// NewDiskWatch asks what the file systems have free, which takes a moment however
// many files there are: a sandbox may begin as soon as it returns. What was there
// is told from what the sandbox added when a tree is counted first, by the time of
// change that the kernel sets. A command that ends soon is never counted (P-02).
func NewDiskWatch(mounts []nacre.Mount, limit int64) *DiskWatch {
	now := time.Now()
	d := &DiskWatch{limit: limit, start: now.Add(-clockStep), next: now.Add(lookEvery)}
	for _, m := range mounts {
		switch {
		case m.Kind == nacre.BindReadWrite:
			d.trees = append(d.trees, &folder{path: m.Source})
		case m.Kind == nacre.Overlay && m.Layer != "":
			d.trees = append(d.trees, &folder{path: m.Layer})
		}
	}
	for _, t := range d.trees {
		t.begin()
	}
	return d
}

// folder is one that is bound writable, and the room on its file system.
type folder struct {
	path          string
	device        uint64
	floor         int64
	first, atLook int64 // bytes free at the start, and at the last look
}

// Run looks until ctx ends, and returns why the sandbox has to end, or "".
func (d *DiskWatch) Run(ctx context.Context) string {
	if len(d.trees) == 0 {
		return ""
	}
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
		if d.before == nil {
			d.before = d.beginning(u)
		}
		d.blind = u.cut || u.closed > d.before.closed
		if !u.cut && u.bytes-d.before.bytes > d.limit {
			return fmt.Sprintf("it added more than %s to what it may write; what it wrote to the project is still there", Bytes(d.limit))
		}
	}
}

// beginning is what was there before the sandbox, of what is there at the first look. What was made
// since was not, and neither was what was changed since, of which no more can be new than the file
// systems lost. The rest was there and was written over.
func (d *DiskWatch) beginning(u usage) *usage {
	lost := map[uint64]int64{}
	for _, t := range d.trees {
		lost[t.device] = t.first - t.atLook
	}
	added := int64(0)
	for device, free := range lost {
		added += u.made[device] + max(0, min(u.changed[device], free-u.made[device]))
	}
	return &usage{bytes: u.bytes - added, closed: u.closed}
}

// room asks the file systems: why the sandbox has to end, or whether so much is
// gone that the trees are worth a look.
func (d *DiskWatch) room() (why string, haste bool) {
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
func (d *DiskWatch) look(ctx context.Context) usage {
	started := time.Now()
	u := usage{made: map[uint64]int64{}, changed: map[uint64]int64{}, seen: map[inode]bool{}}
	for _, t := range d.trees {
		if free, ok := t.free(); ok {
			t.atLook = free
		}
		u.add(ctx, t.path, d.start)
	}
	u.seen = nil
	took := time.Since(started)
	rest := min(lookShare*took, max(lookRest, 10*took)) // a machine that was busy is not a tree that is big
	d.next, d.soonest = time.Now().Add(max(lookEvery, rest)), time.Now().Add(hasteRest*took)
	return u
}

// begin takes the floor: where less than twice as much is free now, half of what is.
func (t *folder) begin() {
	var of unix.Stat_t
	if unix.Lstat(t.path, &of) == nil {
		t.device = uint64(of.Dev)
	}
	var s unix.Statfs_t
	if unix.Statfs(t.path, &s) != nil {
		return
	}
	t.first = int64(s.Bavail) * int64(s.Bsize)
	t.atLook = t.first
	t.floor = min(freeFloor, int64(s.Blocks)*int64(s.Bsize)/freeShare, t.first/2)
}

func (t *folder) free() (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(t.path, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}

type inode struct{ device, number uint64 }

// usage is what files take on disk. Those with several names count once.
type usage struct {
	bytes   int64
	made    map[uint64]int64 // since the beginning, by device
	changed map[uint64]int64 // since the beginning, and made before
	closed  int              // folders that could not be looked into
	cut     bool             // there was more than is looked at
	seen    map[inode]bool
}

// add counts a folder, or a file that is bound by itself. It follows no link and
// leaves no file system, and takes one thread: the sandbox has the others.
func (u *usage) add(ctx context.Context, path string, since time.Time) {
	options := tree.Options{Since: since, Entries: maxLooked, Depth: maxLookDepth, Workers: 1, Births: true, OneDevice: true}
	err := tree.Walk(ctx, path, options, u.folder)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOTDIR):
		if e, err := tree.Ask(path, since); err == nil {
			u.count(e)
		}
	case !errors.Is(err, unix.ENOENT): // or it is gone
		u.cut = true
	}
}

func (u *usage) folder(f tree.Folder) {
	if f.Path == "." {
		u.count(f.Self)
	}
	if f.Err != nil && !errors.Is(f.Err, unix.ENOTDIR) && !errors.Is(f.Err, unix.ELOOP) { // or it was replaced
		u.closed++
	}
	for _, e := range f.Entries {
		u.count(e)
	}
}

func (u *usage) count(e tree.Entry) {
	if e.Links > 1 && !e.Mode.IsDir() {
		id := inode{e.Device, e.Inode}
		if u.seen[id] {
			return
		}
		u.seen[id] = true
	}
	switch u.bytes += e.Bytes; {
	case e.Born:
		u.made[e.Device] += e.Bytes
	case e.New:
		u.changed[e.Device] += e.Bytes
	}
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
