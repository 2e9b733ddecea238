package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre/audit/internal/naming"
	"github.com/nacre-dev/nacre/internal/disk"
)

// The files of a chain's folder, besides the segments 000001.jsonl and so on.
const (
	headFile = "head.json"
	lockFile = "lock"
)

// chainDir is the only place where a chain's name becomes a path.
func chainDir(root, chain string) (string, error) {
	if root == "" {
		return "", errors.New("audit root is not set")
	}
	if !naming.IsChain(chain) {
		return "", fmt.Errorf("chain %.90q: use 1–80 lower-case letters, digits, dots, dashes or _", chain)
	}
	return filepath.Join(root, chain), nil
}

// span is which segments stand in a chain's folder, and their bytes together.
// With none, last is 0.
type span struct {
	first, last int
	size        int64
}

// count of the segments.
func (s span) count() int {
	if s.last == 0 {
		return 0
	}
	return s.last - s.first + 1
}

// segments lists the segments in dir, which must be without a gap. Whether the
// first may be another than 1 is the caller's to know.
func segments(dir string) (span, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return span{}, err
	}
	var found span
	for _, entry := range entries { // sorted by name
		if !naming.IsSegment(entry.Name()) {
			continue
		}
		n, _ := strconv.Atoi(entry.Name()[:6]) // six digits
		if found.last == 0 {
			found.first = n
		} else if n != found.last+1 {
			return span{}, fmt.Errorf("%w: segment %s is missing", ErrTampered, naming.Segment(found.last+1))
		}
		info, err := entry.Info()
		if err != nil {
			return span{}, err
		}
		if !info.Mode().IsRegular() || n == 0 {
			return span{}, fmt.Errorf("%w: segment %s is not a regular file of the chain", ErrTampered, entry.Name())
		}
		found.last = n
		found.size += info.Size()
	}
	return found, nil
}

// takeLock waits until it holds the folder's lock, at most for wait.
func takeLock(ctx context.Context, dir string, wait time.Duration) (*disk.Lock, error) {
	return takeLockFile(ctx, filepath.Join(dir, lockFile), wait)
}

func takeLockFile(ctx context.Context, path string, wait time.Duration) (*disk.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	lock, err := disk.TakeLock(ctx, path)
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, filepath.Dir(path))
	}
	return lock, err
}

// hasWriter reports whether a process holds the folder's lock.
func hasWriter(dir string) bool { return disk.IsLocked(filepath.Join(dir, lockFile)) }

// scanLines calls fn for each whole line of a segment, without its newline,
// and returns the bytes after the last newline: what a crash tore off. The
// bytes given to fn are its own only until it returns.
func scanLines(dir string, segment int, fn func(n int, raw []byte) error) (torn []byte, err error) {
	f, err := disk.OpenRegular(filepath.Join(dir, naming.Segment(segment)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return scan(f, naming.Segment(segment), fn)
}

func scan(f io.Reader, name string, fn func(n int, raw []byte) error) (torn []byte, err error) {
	r := bufio.NewReaderSize(f, MaxLine)
	for n := 1; ; n++ {
		raw, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return bytes.Clone(raw), nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: segment %s line %d: more than %d bytes", ErrTampered, name, n, MaxLine)
		case err != nil:
			return nil, err
		}
		if err := fn(n, raw[:len(raw)-1]); err != nil {
			return nil, fmt.Errorf("segment %s line %d: %w", name, n, err)
		}
	}
}

// place follows the links from record to record.
type place struct {
	seq   uint64 // of the next record
	prev  Digest
	known bool // false until the first record, whose place is then believed
}

func (p *place) step(e Entry) error {
	switch {
	case p.known && e.Seq != p.seq:
		return fmt.Errorf("%w: record %d stands where %d belongs: records were inserted, deleted or reordered", ErrTampered, e.Seq, p.seq)
	case p.known && e.PrevHash != p.prev:
		return fmt.Errorf("%w: record %d does not link to the one before it", ErrTampered, e.Seq)
	}
	*p = place{seq: e.Seq + 1, prev: e.RecordHash, known: true}
	return nil
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
