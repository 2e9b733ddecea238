package watch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre/internal/plantings"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/tripwire"
)

// Result looks for decoys in what the agent made, when its process has
// ended and before anything is done with it.
func (w *Watch) Result(p *process.Process, dir string) {
	since, wait := time.Now().Add(-clockSlack), p.Await
	p.Await = sync.OnceValues(func() (int, error) {
		code, err := wait()
		if scanErr := w.scanResult(dir, since); scanErr != nil && w.session.Context().Err() == nil {
			w.session.Stop(fmt.Errorf("look for decoys in what the agent made: %w", scanErr))
		}
		return code, err
	})
}

// scanResult reads the files that changed since a time, which their time of
// change tells: a program inside can set none but that of its change. What the
// agent left unreadable, or deeper than anything lands, is passed over: it is
// refused when the result is taken.
func (w *Watch) scanResult(dir string, since time.Time) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no result
	}
	if err != nil {
		return unlessShut(err)
	}
	r := &resultScan{Watch: w, root: root, since: since, left: maxScanned}
	return errors.Join(r.folder(".", 0), root.Close())
}

// resultScan goes through what an agent made from folder to folder: the path of
// what it made may be longer than the system takes, and its names are no text.
type resultScan struct {
	*Watch
	root  *os.Root
	since time.Time
	// left is how many bytes are still read; below zero the scan is over.
	left int64
}

// scannedAtOnce is how many entries of a folder are read at once.
const scannedAtOnce = 1024

func (r *resultScan) folder(name string, depth int) error {
	if depth > repo.MaxDepth {
		return nil
	}
	dir, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return unlessShut(err)
	}
	for err == nil && r.left >= 0 && r.session.Context().Err() == nil {
		var entries []fs.DirEntry
		entries, err = dir.ReadDir(scannedAtOnce)
		for _, e := range entries {
			err = errors.Join(err, r.entry(path.Join(name, e.Name()), e, depth))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(unlessShut(err), dir.Close())
}

func (r *resultScan) entry(name string, e fs.DirEntry, depth int) error {
	if e.IsDir() {
		if name == ".git" {
			return nil // the host never reads it
		}
		return r.folder(name, depth+1)
	}
	r.Seen([]byte(e.Name()), tripwire.InMerge)
	info, err := r.root.Lstat(name)
	if err != nil || r.left < 0 || !info.Mode().IsRegular() || !plantings.ChangedSince(info, r.since) {
		return unlessShut(err)
	}
	if r.left -= info.Size(); r.left < 0 {
		r.raise([]tripwire.Alarm{{Wire: tripwire.Canary, Reaction: tripwire.Notify, What: "the result is too large to be looked through for decoys"}})
		return nil
	}
	return r.file(name)
}

// unlessShut takes what an agent left unreadable for no failure of ours.
func unlessShut(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil // what we cannot read does not land
	}
	return err
}

func (r *resultScan) file(name string) error {
	file, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return unlessShut(err)
	}
	defer func() { _ = file.Close() }() // it was read only
	stream, buffer := r.decoys.Stream(), make([]byte, 256<<10)
	for {
		n, err := file.Read(buffer)
		if decoy, found := stream.Next(buffer[:n]); found {
			r.raise(r.wires.Seen(decoy, tripwire.InMerge))
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
