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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"
)

// The files of a chain's folder, besides the segments 000001.jsonl and so on.
const (
	headFile = "head.json"
	lockFile = "lock"
)

// maxName is the longest name of a chain, in bytes.
const maxName = 80

var tornForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^torn-[0-9]{1,16}(\.tmp)?$`) })

// isChainName says that a name is 1–80 of [a-z0-9._-], beginning with a letter or digit.
func isChainName(name string) bool {
	if name == "" || len(name) > maxName || strings.ContainsRune("._-", rune(name[0])) {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// isSegmentName says that a name is six digits and .jsonl.
func isSegmentName(name string) bool {
	number, ok := strings.CutSuffix(name, ".jsonl")
	return ok && len(number) == 6 && strings.Trim(number, "0123456789") == ""
}

// chainDir is the only place where a chain's name becomes a path.
func chainDir(root, chain string) (string, error) {
	if root == "" {
		return "", errors.New("audit root is not set")
	}
	if !isChainName(chain) {
		return "", fmt.Errorf("chain %.90q: use 1–80 lower-case letters, digits, dots, dashes or _", chain)
	}
	return filepath.Join(root, chain), nil
}

func segmentName(n int) string { return fmt.Sprintf("%06d.jsonl", n) }

// tornName is where a torn line is kept that stood at a record's place.
func tornName(seq uint64) string { return "torn-" + strconv.FormatUint(seq, 10) }

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
		if !isSegmentName(entry.Name()) {
			continue
		}
		n, _ := strconv.Atoi(entry.Name()[:6]) // six digits
		if found.last == 0 {
			found.first = n
		} else if n != found.last+1 {
			return span{}, fmt.Errorf("%w: segment %s is missing", ErrTampered, segmentName(found.last+1))
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
	f, err := disk.OpenRegular(filepath.Join(dir, segmentName(segment)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return scan(f, segmentName(segment), fn)
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
