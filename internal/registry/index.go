package registry

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nacre-dev/nacre"
)

const (
	// indexFile names each session in a line with the moment at which it began. A session
	// adds its line when it begins; a file that is missing is made from the sessions.
	indexFile = "sessions.index"
	// visits is how many sessions a page reads for each that it may list: sessions that
	// were removed are read, and not listed.
	visits = 4
	// fewAdded is how many sessions are put into the order one by one.
	fewAdded = 64
)

// index is in which order sessions began. It is never the truth: it says which sessions to
// read, and they say what they are.
type index struct {
	mu sync.Mutex
	// file is what was read, up to read.
	file os.FileInfo
	read int64
	// order has the newest in front.
	order []indexed
}

// indexed is a session, and when it began in nanoseconds since 1970; 0 where nobody knows.
type indexed struct {
	id      nacre.SessionID
	started int64
}

// newestFirst is the order of a list; the names decide between those of one moment.
func newestFirst(a, b indexed) int {
	return cmp.Or(cmp.Compare(b.started, a.started), cmp.Compare(a.id, b.id))
}

func (p Paths) index() string { return filepath.Join(p.State, indexFile) }

// line is what the index has of a session.
func line(s Session) string {
	var started int64
	if !s.Started.IsZero() {
		started = s.Started.UnixNano()
	}
	return fmt.Sprintf("%d %s\n", started, s.ID)
}

// enter adds a session that begins to the index. Where that fails the session is found by
// its folder, when the index is opened the next time.
func (p Paths) enter(s Session) {
	file, err := os.OpenFile(p.index(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return // it is made when somebody asks for it
	}
	_, _ = file.WriteString(line(s))
	_ = file.Close()
}

// Page is a part of the sessions that are over, the newest first: at most so many, from a
// place in the list on. next is the place behind them, 0 at the end. It reads no more
// sessions than a page has room for, however many there are. One that cannot be read hides
// no other: the error names those of this part.
func (r *Registry) Page(from, most int) (page []Session, next int, err error) {
	r.index.mu.Lock()
	defer r.index.mu.Unlock()
	if err := r.index.refresh(r); err != nil {
		return nil, 0, err
	}
	var damaged []error
	at, end := max(from, 0), min(max(from, 0)+visits*most, len(r.index.order))
	for ; at < end && len(page) < most; at++ {
		s, err := r.Show(r.index.order[at].id)
		switch {
		case errors.Is(err, ErrUnknown) || err == nil && (s.State == nacre.SessionRemoved || s.Live()):
		case err != nil:
			damaged = append(damaged, err)
		default:
			page = append(page, s)
		}
	}
	if at < len(r.index.order) {
		next = at
	}
	return page, next, errors.Join(damaged...)
}

// Live are the sessions that a process holds, the newest first. It reads no session that is
// over: with an error, those that can be read.
func (r *Registry) Live() ([]Session, error) {
	ids, err := r.Unsettled()
	live, damaged := r.shown(ids, func(s Session) bool { return s.Live() })
	return live, errors.Join(err, damaged)
}

// shown reads those sessions of which somebody wants to know.
func (r *Registry) shown(ids []nacre.SessionID, wanted func(Session) bool) ([]Session, error) {
	var sessions []Session
	var damaged []error
	for _, id := range ids {
		s, err := r.Show(id)
		switch {
		case errors.Is(err, ErrUnknown):
		case err != nil:
			damaged = append(damaged, err)
		case wanted(s):
			sessions = append(sessions, s)
		}
	}
	slices.SortFunc(sessions, func(a, b Session) int { return b.Started.Compare(a.Started) })
	return sessions, errors.Join(damaged...)
}

// refresh reads what was added to the index since, or all of it where it is another one.
func (x *index) refresh(r *Registry) error {
	info, err := os.Stat(r.paths.index())
	switch {
	case err == nil && x.file != nil && os.SameFile(info, x.file) && info.Size() >= x.read:
		return x.add(r.paths.index(), info)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return x.open(r)
	}
	return err
}

// open reads the index, or begins one, and adds the sessions that are not in it.
func (x *index) open(r *Registry) error {
	x.file, x.read, x.order = nil, 0, nil
	path := r.paths.index()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // what could not be added is read all the same, the next time
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := x.add(path, info); err != nil {
		return err
	}
	missing, err := x.missing(r)
	if err != nil {
		return err
	}
	if x.read < info.Size() { // a line was cut
		missing = "\n" + missing
	}
	if _, err := file.WriteString(missing); err != nil {
		return err
	}
	return x.add(path, info)
}

// missing are the lines of sessions that have a folder and are not in the index.
func (x *index) missing(r *Registry) (string, error) {
	known := make(map[nacre.SessionID]bool, len(x.order))
	for _, one := range x.order {
		known[one.id] = true
	}
	ids, err := idsIn(r.paths.Sessions())
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, id := range ids {
		if known[id] {
			continue
		}
		s, err := readSession(r.paths.Session(id))
		if err != nil {
			s = Session{} // whoever reads its page is told
		}
		s.ID = id
		lines.WriteString(line(s))
	}
	return lines.String(), nil
}

// add reads the lines that were not read yet. The last one of a session counts; what is not a
// line is nobody's session.
func (x *index) add(path string, info os.FileInfo) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	if _, err := file.Seek(x.read, io.SeekStart); err != nil {
		return err
	}
	var added []indexed
	for lines := bufio.NewReader(file); ; {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			break // a line without its end is being written
		}
		x.read += int64(len(text))
		if one, ok := parse(text); ok {
			added = append(added, one)
		}
	}
	x.file = info
	x.put(added)
	return nil
}

func parse(line []byte) (indexed, bool) {
	moment, name, ok := strings.Cut(string(bytes.TrimSuffix(line, []byte("\n"))), " ")
	nanos, err := strconv.ParseInt(moment, 10, 64)
	id, idErr := nacre.ParseSessionID(name)
	return indexed{id, nanos}, ok && err == nil && idErr == nil
}

// put puts sessions where they belong.
func (x *index) put(added []indexed) {
	if len(added) == 0 {
		return
	}
	latest := make(map[nacre.SessionID]indexed, len(added))
	for _, one := range added {
		latest[one.id] = one
	}
	x.order = slices.DeleteFunc(x.order, func(one indexed) bool { _, again := latest[one.id]; return again })
	if len(latest) > fewAdded {
		x.order = slices.AppendSeq(x.order, maps.Values(latest))
		slices.SortFunc(x.order, newestFirst)
		return
	}
	for _, one := range latest {
		at, _ := slices.BinarySearchFunc(x.order, one, newestFirst)
		x.order = slices.Insert(x.order, at, one)
	}
}
