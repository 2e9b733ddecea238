package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nacre-dev/nacre"
)

// WorkDir holds the work of a session's agent, in the session's folder, until it lands.
const WorkDir = "work"

// markedAll says that every session which holds work has its marker. It is no session's name.
const markedAll = ".all"

// HoldsWork tells whether a session's folder holds files of an agent that did not land.
func HoldsWork(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, WorkDir))
	return err == nil
}

// unlanded holds a file for each session that held work when it was settled. What counts is
// the session's folder.
func (p Paths) unlanded() string { return filepath.Join(p.State, "unlanded") }

// Unlanded are the sessions that hold work of an agent which did not land, the newest first.
// It reads no others, but for the first time: with an error, those that can be read.
func (r *Registry) Unlanded() ([]Session, error) {
	if err := r.markAll(); err != nil {
		return nil, err
	}
	marked, err := idsIn(r.paths.unlanded())
	ids, openErr := r.Unsettled()
	ids = append(ids, marked...)
	slices.Sort(ids)
	left, damaged := r.shown(slices.Compact(ids), func(s Session) bool { return HoldsWork(r.paths.Session(s.ID)) })
	return left, errors.Join(err, openErr, damaged)
}

// markAll marks the sessions that were settled before there were markers.
func (r *Registry) markAll() error {
	all := filepath.Join(r.paths.unlanded(), markedAll)
	if _, err := os.Lstat(all); err == nil {
		return nil
	}
	ids, err := idsIn(r.paths.Sessions())
	for _, id := range ids {
		if HoldsWork(r.paths.Session(id)) {
			err = errors.Join(err, mark(filepath.Join(r.paths.unlanded(), string(id))))
		}
	}
	return errors.Join(err, mark(all))
}

// noteWork marks a session that holds work, and takes the mark from one that does not.
func (h *Held) noteWork() error {
	marker := filepath.Join(h.paths.unlanded(), string(h.ID))
	if HoldsWork(h.dir) {
		return mark(marker)
	}
	return unmark(marker)
}

func mark(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o600)
}

func unmark(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// idsIn are the sessions that the entries of a folder name. A folder that is missing names none.
func idsIn(dir string) ([]nacre.SessionID, error) {
	folder, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := folder.Readdirnames(-1)
	var ids []nacre.SessionID
	for _, name := range names {
		if id, err := nacre.ParseSessionID(name); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, errors.Join(err, folder.Close())
}
