package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/naming"
	"github.com/nacre-dev/nacre/internal/disk"
)

// store is where one chain's lines and its head are kept: a folder of segments, or rows of a database.
type store interface {
	// write appends whole lines, and begins a new segment where the last one has so many bytes.
	write(lines []byte, segmentBytes int64) error
	// sync makes durable what was written, syncNames that it is found again.
	sync() error
	syncNames() error
	// putHead puts a head in place of the last one, once it and what settle makes durable, which
	// may be nil, are both durable.
	putHead(line []byte, settle func() error) error
	// segmentNumber is the number of the segment that is written; 0 before the first.
	segmentNumber() int
	// enterIndex appends a record to the index that stands beside the chain.
	enterIndex(ctx context.Context, o Options, r nacre.Record, now time.Time) error
	close() error
}

// segmentFile is what a writer needs of a segment.
type segmentFile interface {
	io.WriteSeeker
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// segmented is a chain in a folder of its own.
type segmented struct {
	dir, chain string
	segment    int // number of the open one; 0 before the first
	size       int64
	file       segmentFile
	wrap       func(segmentFile) segmentFile
	indexed    *indexEnd // where this chain's own entry in the index ended it
}

// open goes on with a segment that is there.
func (s *segmented) open(segment int) error {
	f, err := os.OpenFile(filepath.Join(s.dir, naming.Segment(segment)), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.segment, s.size = s.wrapped(f), segment, info.Size()
	return nil
}

// moveAside keeps what a crash tore off in a file of its own, named by the record that comes next, and
// cuts it off the segment. It returns what is to be told of it. What is there was written before, so
// it is synced before anything is built on it, where it was not signed.
func (s *segmented) moveAside(next uint64, rest []byte, signed bool) (*torn, error) {
	path := filepath.Join(s.dir, naming.Torn(next))
	if len(rest) == 0 {
		return s.keptBefore(path, signed)
	}
	if err := disk.Replace(path, rest, nil); err != nil {
		return nil, err
	}
	if err := disk.SyncDir(s.dir); err != nil {
		return nil, err
	}
	s.size -= int64(len(rest))
	err := s.file.Truncate(s.size)
	if err == nil {
		_, err = s.file.Seek(s.size, io.SeekStart)
	}
	return &torn{len(rest), sha256.Sum256(rest)}, errors.Join(err, s.file.Sync())
}

// keptBefore is what an earlier repair moved aside, if it crashed before it could tell.
func (s *segmented) keptBefore(path string, signed bool) (told *torn, err error) {
	kept, err := disk.Read(path, MaxLine)
	if err == nil {
		told = &torn{len(kept), sha256.Sum256(kept)}
	} else if !isMissing(err) {
		return nil, err
	}
	if _, err = s.file.Seek(s.size, io.SeekStart); err == nil && !signed {
		err = s.file.Sync()
	}
	return told, err
}

// write appends whole lines and goes on in a new segment where the last one is full.
func (s *segmented) write(lines []byte, segmentBytes int64) error {
	if s.file == nil || s.size >= segmentBytes {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	n, err := s.file.Write(lines)
	s.size += int64(n)
	return err
}

// wrapped lets a test stand between the writer and its file.
func (s *segmented) wrapped(f *os.File) segmentFile {
	if s.wrap != nil {
		return s.wrap(f)
	}
	return f
}

func (s *segmented) rotate() error {
	if s.segment >= maxSegments {
		return fmt.Errorf("chain %s has %d segments, the most there can be", s.chain, s.segment)
	}
	if s.file != nil {
		if err := errors.Join(s.file.Sync(), s.file.Close()); err != nil {
			return err
		}
	}
	path := filepath.Join(s.dir, naming.Segment(s.segment+1))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	s.file, s.segment, s.size = s.wrapped(f), s.segment+1, 0
	if s.segment == 1 {
		return nil // a new chain counts once syncNames was called
	}
	return disk.SyncDir(s.dir)
}

func (s *segmented) segmentNumber() int { return s.segment }

func (s *segmented) putHead(line []byte, settle func() error) error {
	return disk.Replace(filepath.Join(s.dir, headFile), line, settle)
}

func (s *segmented) enterIndex(ctx context.Context, o Options, r nacre.Record, now time.Time) (err error) {
	s.indexed, err = register(ctx, o, s.indexed, now, r)
	return err
}

func (s *segmented) sync() error { return s.file.Sync() }

func (s *segmented) syncNames() error {
	return disk.AtOnce(func() error { return disk.SyncDir(s.dir) }, func() error { return disk.SyncDir(filepath.Dir(s.dir)) })
}

func (s *segmented) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
