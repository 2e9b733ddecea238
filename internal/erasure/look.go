package erasure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/ledger"
)

const (
	// maxLook is how much of one file is looked through, in bytes. Agents make files
	// that are larger.
	maxLook = 1 << 30
	// maxNamed is how many files below one folder are named; of more, the folder is.
	maxNamed = 100
)

// files goes through all files for the words.
func (l *look) files(ctx context.Context) error {
	if len(l.words.windows) == 0 {
		return nil
	}
	goes := l.goes()
	return filepath.WalkDir(l.state(), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // it went meanwhile
		case slices.Contains(goes, path) && entry.IsDir():
			return fs.SkipDir
		case slices.Contains(goes, path):
			return nil
		case err != nil:
			l.add(MemoryRemain{What: "folder that cannot be looked through", Where: path, Next: "look through it as who may"})
			return nil //nolint:nilerr // it is told in the list
		case entry.Type().IsRegular():
			l.file(path)
		}
		return nil
	})
}

// goes are the files and folders that the erasure takes, or takes words out of.
func (l *look) goes() []string {
	if l.o.Erased {
		return nil
	}
	paths := l.runtime.Registry.Paths()
	databases, list := []string{paths.Memory(l.t.group)}, []string(nil)
	if l.runtime.Registry.Store() != nil {
		databases = nil // the file was not brought to the store, and stays
	}
	for _, path := range append(databases, paths.Engine(), filepath.Join(paths.State, ledger.FileName), audit.CatalogPath(l.runtime.AuditRoot())) {
		list = append(list, path, path+"-wal", path+"-shm")
	}
	for _, c := range l.t.Conversations {
		list = append(list, c.dir)
	}
	for _, id := range l.t.Checkpoints {
		list = append(list, leavings(l.runtime, id)...)
	}
	return list
}

// file looks through one file, and names where it is if it holds the words.
func (l *look) file(path string) {
	holds, err := l.holds(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !holds:
	case err != nil:
		l.add(MemoryRemain{What: "file that cannot be looked through", Where: path, Next: "look through it as who may, and remove it if it tells of it"})
	default:
		m := l.placeOf(path)
		l.add(m)
		l.found(m.Where)
	}
}

// holds looks through a regular file, and waits for no other kind.
func (l *look) holds(path string) (holds bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	limited := &io.LimitedReader{R: f, N: maxLook}
	holds, err = l.words.in(limited)
	if err == nil && !holds && limited.N == 0 {
		err = errors.New("it is too big")
	}
	return holds, err
}

// placeOf says what it is that holds the words, and what removes it.
func (l *look) placeOf(path string) MemoryRemain {
	for dir := path; len(dir) > len(l.state()); dir = filepath.Dir(dir) {
		if at, known := l.at[dir]; known && !l.list[at].loose {
			return l.list[at]
		}
	}
	short, _ := filepath.Rel(l.state(), path) // it is below
	parts := strings.Split(short, string(filepath.Separator))
	catalog := filepath.Base(audit.CatalogPath(l.runtime.AuditRoot()))
	m := MemoryRemain{What: "file", Where: path, Next: "remove it while no nacre runs"}
	switch first := parts[0]; {
	case first == filepath.Base(l.runtime.AuditRoot()) && len(parts) > 2:
		return l.chain(parts[1], "")
	case strings.HasPrefix(first, catalog):
		m.What, m.Next = "search index of the audit", "rm "+quotedPath(path)+"*; it is built anew from the chains"
	case first == "memory" && len(parts) == 2:
		group, _, _ := strings.Cut(parts[1], ".")
		m.What, m.Next = "memory of group "+group, "nacre memory forget --group "+group+" --match TEXT"
		if l.runtime.Registry.Store() != nil {
			m.What, m.Next = "memory of group "+group+" that is not in the store", "nacre store migrate; then "+l.o.Again
		}
	case strings.HasPrefix(first, ledger.FileName):
		m.What, m.Next = "ledger, in the row of another session", "nacre ledger list; nacre memory forget --session SESSION"
	case first == "sessions" && len(parts) > 2:
		m.What, m.Session = "file of a session", nacre.SessionID(parts[1])
		m.Next = "rm -r " + quotedPath(filepath.Join(l.state(), first, parts[1])) + ", once it is over"
	case first == "receipts":
		m.What, m.Next = "receipt", "rm "+quotedPath(path)
	case first == "groups" && len(parts) > 4 && parts[2] == "conversations":
		m.What, m.Where = "conversation of others", filepath.Join(l.state(), first, parts[1], parts[2], parts[3])
		m.Next = "rm -r " + quotedPath(m.Where) + "; it begins anew"
	case len(parts) > 2 && l.crowded(filepath.Join(l.state(), first, parts[1])):
		m.What, m.Where = fmt.Sprintf("folder with more than %d files that hold it", maxNamed), filepath.Join(l.state(), first, parts[1])
	}
	return m
}

// crowded counts the files that are named below a folder.
func (l *look) crowded(dir string) bool {
	l.named[dir]++
	return l.named[dir] > maxNamed
}
