package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
)

// unlocked ends the name of a file that its process is about to lock. Nobody else
// touches it.
const unlocked = ".new"

// locks tell which processes of one machine serve. Each is alive as long as it holds the lock on a
// file of its own in a folder. The kernel drops that when the process dies, whatever the clocks
// say.
type locks struct {
	folder string
	// path and file are this process's.
	path string
	file *os.File
}

func (l *locks) join(context.Context) (string, error) {
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return "", err
	}
	l.sweep()
	id := strings.ToLower(rand.Text())
	path := filepath.Join(l.folder, id)
	file, err := os.OpenFile(path+unlocked, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = os.Rename(path+unlocked, path) // nobody sees it unlocked
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(path+unlocked), file.Close())
	}
	l.path, l.file = path, file
	return id, nil
}

func (l *locks) leave() error {
	if l.file == nil {
		return nil
	}
	return errors.Join(os.Remove(l.path), l.file.Close())
}

func (l *locks) any() (bool, error) {
	entries, err := os.ReadDir(l.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), unlocked) && l.alive(e.Name()) {
			return true, nil
		}
	}
	return false, err
}

// alive tells whether the process that a lock is of is there.
func (l *locks) alive(id string) bool {
	file, err := os.Open(filepath.Join(l.folder, filepath.Base(id)))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // what cannot be looked at is left alone
	}
	defer func() { _ = file.Close() }() // it was only looked at
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// sweep removes what dead processes left. What cannot be removed does no harm.
func (l *locks) sweep() {
	entries, _ := os.ReadDir(l.folder)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), unlocked) && !l.alive(e.Name()) {
			_ = os.Remove(filepath.Join(l.folder, e.Name()))
		}
	}
}

// refresh asks the calendar again when each schedule is due: the zone's rules may
// have changed since.
func (s *Store) refresh(ctx context.Context) error {
	return s.at.write(ctx, func(tx session) error {
		list, err := query(ctx, tx, `enabled`)
		if err != nil {
			return err
		}
		for _, task := range list {
			spec, err := task.spec()
			if err != nil {
				continue // it is paused when it is due
			}
			if due := moment(spec.Next(time.Unix(task.reckoning.handled, 0))); due != task.reckoning.due {
				if err := handledTo(ctx, tx, task.ID, task.reckoning.handled, due); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Ended tells what became of the session of a started tick whose process died: a state
// that [Store.Finish] takes, and the outcome. A session that did not come to its end has
// no state.
type Ended func(Tick) (State, string)

// Recover takes what dead processes held: what they had claimed is there for any process to claim.
// What they had started is finished where its session ended before they could say so, and
// interrupted otherwise. An interrupted tick waits to be carried on once where its schedule runs
// what it missed, and is over elsewhere. It gives all that was started.
func (s *Store) Recover(ctx context.Context, ended Ended) ([]Tick, error) {
	holders, err := s.holders(ctx)
	if err != nil {
		return nil, s.at.classified(err)
	}
	var left []Tick
	for _, id := range holders {
		if id == s.self || s.serving.alive(id) {
			continue
		}
		of, err := s.recoverFrom(ctx, id, ended)
		if err != nil {
			return nil, err
		}
		left = append(left, of...)
	}
	return left, nil
}

// recoverFrom takes what one dead process held.
func (s *Store) recoverFrom(ctx context.Context, id string, ended Ended) (left []Tick, err error) {
	const held = `state = 'started' AND holder = ?`
	started, err := ticks(ctx, s.at.reader(), held, id)
	if err != nil {
		return nil, s.at.classified(err)
	}
	over := map[nacre.SessionID]Tick{} // asked before the file is held for writing
	for _, t := range started {
		if state, outcome := ended(t); finishes(state) {
			over[t.Session] = Tick{State: state, Outcome: outcome}
		}
	}
	err = s.write(ctx, func(w writing) error {
		if left, err = ticks(ctx, w.session, held, id); err != nil {
			return err
		}
		for i, t := range left {
			if end, is := over[t.Session]; is {
				t.State, t.Outcome = end.State, cmp.Or(end.Outcome, t.Outcome)
				err = w.move(ctx, t, t.State, t.Outcome)
			} else {
				t, err = w.interrupt(ctx, t, "the process that ran it died")
			}
			if err != nil {
				return err
			}
			left[i] = t
		}
		_, err := w.ExecContext(ctx, `UPDATE ticks SET state = 'waiting', holder = '' WHERE state = 'claimed' AND holder = ?`, id)
		return err
	})
	return left, err
}

// holders are the processes that hold a tick.
func (s *Store) holders(ctx context.Context) (ids []string, err error) {
	rows, err := s.at.reader().QueryContext(ctx, `SELECT DISTINCT holder FROM ticks WHERE state IN ('claimed', 'started')`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
