package lease

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	eventAcquired = "acquired"
	eventReleased = "released"
	eventOrphaned = "orphaned"
	// eventMinting says that a credential is about to be minted.
	eventMinting = "minting"
	// maxLedger is how large the ledger grows, in bytes, before a sweep keeps
	// only what is still held.
	maxLedger = 1 << 20
	// maxEntry is the longest line of the ledger, in bytes.
	maxEntry = 4 << 10
)

// entry is one line of the ledger. It never holds a value, or where one is.
type entry struct {
	Time       time.Time       `json:"time"`
	Event      string          `json:"event"`
	Lease      string          `json:"lease"`
	Session    nacre.SessionID `json:"session"`
	Group      nacre.Group     `json:"group"`
	Credential string          `json:"credential"`
	// Until is when what is minted has ended by itself; zero for what nobody minted.
	Until time.Time `json:"until,omitzero"`
}

func (e entry) held() Held {
	return Held{ID: e.Lease, Session: e.Session, Group: e.Group, Credential: e.Credential, Since: e.Time, Until: e.Until}
}

// ledger is a file of lines, which several processes write to under a lock.
type ledger struct{ path string }

// locked runs do with the ledger open and locked.
func (l ledger) locked(do func(*os.File) error) error {
	file, err := l.open()
	if err != nil {
		return err
	}
	if err = mend(file); err == nil {
		err = do(file)
	}
	return errors.Join(err, file.Close()) // which unlocks
}

// open opens and locks the file that is the ledger once it is locked: whoever had the lock may have put another
// one in its place.
func (l ledger) open() (*os.File, error) {
	for {
		file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		have, lost := file.Stat()
		if err = errors.Join(err, lost); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if now, err := os.Stat(l.path); err == nil && os.SameFile(have, now) {
			return file, nil
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
}

// mend cuts off the beginning of a line that a crash left.
func mend(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	from := max(0, info.Size()-maxEntry)
	tail := make([]byte, info.Size()-from)
	if _, err := file.ReadAt(tail, from); err != nil {
		return err
	}
	if whole := bytes.LastIndexByte(tail, '\n') + 1; whole < len(tail) {
		return file.Truncate(from + int64(whole))
	}
	return nil
}

// append writes one line, and returns when it is on disk.
func (l ledger) append(e entry) error {
	return l.locked(func(file *os.File) error { return write(file, []entry{e}) })
}

func write(file *os.File, entries []entry) error {
	text, err := linesOf(entries)
	if err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

func linesOf(entries []entry) ([]byte, error) {
	var lines bytes.Buffer
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		lines.Write(append(line, '\n'))
	}
	return lines.Bytes(), nil
}

// held gives the leases that are held; nothing where there is no ledger.
func (l ledger) held() (held []entry, err error) {
	if _, err := os.Stat(l.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err = l.locked(func(file *os.File) error {
		held, _, err = read(file)
		return err
	})
	return held, err
}

// sweep ends what sessions that are gone still hold, and shortens a long ledger. What was
// minted stays, and is given to be revoked.
func (l ledger) sweep(alive func(nacre.SessionID) bool, now time.Time) (orphans []Orphan, minted []entry, err error) {
	if info, err := os.Stat(l.path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil, nil
	}
	err = l.locked(func(file *os.File) error {
		held, size, err := read(file)
		if err != nil {
			return err
		}
		var ended, kept []entry
		for _, e := range held {
			if alive(e.Session) {
				kept = append(kept, e)
				continue
			}
			if !e.Until.IsZero() {
				kept, minted = append(kept, e), append(minted, e)
				continue
			}
			orphans = append(orphans, Orphan{Session: e.Session, Credential: e.Credential, Since: e.Time})
			e.Event, e.Time = eventOrphaned, now
			ended = append(ended, e)
		}
		if size > maxLedger {
			return l.rewrite(kept)
		}
		return write(file, ended)
	})
	return orphans, minted, err
}

// read gives the leases that are held, in their order. A line that cannot be
// read is an error: it may be a lease.
func read(file io.Reader) (held []entry, size int64, err error) {
	lines := bufio.NewReaderSize(file, maxEntry)
	for {
		line, err := lines.ReadSlice('\n')
		size += int64(len(line))
		if errors.Is(err, io.EOF) {
			return held, size, nil
		}
		var e entry
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("byte %d is no entry: move the file away to begin a new one", size-int64(len(line)))
		}
		if held, err = apply(held, e); err != nil {
			return nil, 0, err
		}
	}
}

func apply(held []entry, e entry) ([]entry, error) {
	switch e.Event {
	case eventAcquired, eventMinting:
		return append(held, e), nil
	case eventReleased, eventOrphaned:
		for i := range held {
			if held[i].Lease == e.Lease {
				return append(held[:i], held[i+1:]...), nil
			}
		}
		return held, nil
	}
	return nil, errors.New("an unknown event: another version of nacre wrote the ledger")
}

// rewrite leaves only what is held, in a new file: a crash leaves the one or the other, and forgets nothing
// that has to be revoked.
func (l ledger) rewrite(kept []entry) error {
	text, err := linesOf(kept)
	if err != nil {
		return err
	}
	return disk.Write(l.path, text, 0o600)
}
