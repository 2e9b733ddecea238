package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/planted"
)

// ForgottenTitle is the title of a session whose texts were erased.
const ForgottenTitle = "(forgotten)"

// Session is all that is known of one session: its status, and what the next
// holder needs.
type Session struct {
	nacre.SessionStatus
	// Works counts the pieces of work that the session has begun, and Openings
	// how often it was opened.
	Works    int `json:"works"`
	Openings int `json:"openings"`
	// Work names the piece of work that is not finished, which is its durable
	// workflow. A session that is interrupted goes on with it.
	Work string `json:"work,omitempty"`
	// Chain is the audit chain that is being written. A session that was killed
	// leaves it, and whoever opens the session next seals it.
	Chain string `json:"chain,omitempty"`
	// Chains are all chains of the latest work, in order: one an opening.
	Chains []string `json:"chains,omitempty"`
	PID    int      `json:"pid"`
	// Began is when the latest opening began, and Before what stood at the top of its
	// project then, until somebody has looked what it planted there.
	Began  time.Time   `json:"began,omitzero"`
	Before planted.Top `json:"before,omitzero"`
	// Sockets is the folder of the sockets while the session is open.
	Sockets string `json:"sockets,omitempty"`
}

const (
	// adoptedFor is the longest wait for somebody who ends what a session left.
	adoptedFor = 5 * time.Second
	// startedFor is the longest wait for a program that a dead process was starting to run.
	startedFor = time.Second
	lockPoll   = 10 * time.Millisecond
)

// ErrHeld says that a live process holds the session.
var ErrHeld = errors.New("session is in use")

// ErrUnknown says that there is no such session.
var ErrUnknown = errors.New("no such session")

// Registry is the folder of sessions. Its zero value is not usable; use [New].
type Registry struct {
	paths Paths
	index index
	store *database.Store
}

// New returns the registry of an installation.
func New(paths Paths) *Registry { return &Registry{paths: paths} }

// NewOn returns the registry of an installation whose machines share a store. address is
// asked when somebody first needs the store.
func NewOn(paths Paths, installation string, address func() string) *Registry {
	return &Registry{paths: paths, store: database.NewStore(address, installation)}
}

// Store is the database that the machines of the installation share; nil where it has none.
func (r *Registry) Store() *database.Store { return r.store }

// Paths are the installation's folders.
func (r *Registry) Paths() Paths { return r.paths }

// What this room itself keeps in a session's folder.
const (
	sessionFile = "session.json"
	lockName    = "lock"
)

// IsOwnFile tells whether a name in a session's folder is of what this room keeps there.
func IsOwnFile(name string) bool { return name == sessionFile || name == lockName }

// runningFile stands in the folder of a session whose work runs.
const runningFile = "running"

// Held is a session that this process holds.
type Held struct {
	Session
	paths  Paths
	dir    string
	marker string
	lock   *os.File
}

// Take holds the session, making it if it is new. It fails with [ErrHeld]
// where another live process holds it. existed tells whether it was there.
func (r *Registry) Take(s Session) (held *Held, existed bool, err error) {
	dir := r.paths.Session(s.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, err
	}
	lock, err := r.lock(s.ID)
	if err != nil {
		return nil, false, err
	}
	held = &Held{Session: s, paths: r.paths, dir: dir, marker: r.marker(s.ID), lock: lock}
	earlier, err := readSession(dir)
	switch {
	case err == nil:
		existed = true
		held.Session = merge(earlier, s)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, errors.Join(err, lock.Close())
	}
	held.PID = os.Getpid()
	if err := errors.Join(held.rest(), mark(held.marker), held.begin(existed)); err != nil {
		return nil, existed, errors.Join(err, lock.Close())
	}
	if earlier.Started.IsZero() { // it is new, or its name was given free
		r.paths.enter(held.Session)
	}
	return held, existed, nil
}

// Adopt holds a session whose process is gone, as it is, so that what it left
// can be ended. It fails with [ErrHeld] where a live process holds it.
func (r *Registry) Adopt(id nacre.SessionID) (*Held, error) {
	dir := r.paths.Session(id)
	lock, err := r.lock(id)
	if err != nil {
		return nil, err
	}
	s, err := readSession(dir)
	if errors.Is(err, fs.ErrNotExist) {
		s.ID, err = id, nil // it was killed before it wrote anything
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Held{Session: s, paths: r.paths, dir: dir, marker: r.marker(id), lock: lock}, nil
}

// Unsettled lists the sessions that may have left something: those that are
// held now, and those whose process did not get to its end.
func (r *Registry) Unsettled() ([]nacre.SessionID, error) {
	return idsIn(r.paths.unsettled())
}

func (r *Registry) marker(id nacre.SessionID) string {
	return filepath.Join(r.paths.unsettled(), string(id))
}

// lock takes the lock of a session. Somebody may hold it for a moment only: who ends what
// a dead process left, or a program that this process was starting when it died, until
// that runs. That is waited for.
func (r *Registry) lock(id nacre.SessionID) (*os.File, error) {
	path := filepath.Join(r.paths.Session(id), lockName)
	for until := time.Now().Add(adoptedFor); ; time.Sleep(lockPoll) {
		lock, err := lockFile(path)
		if err == nil || !isTaken(err) || isAlive(r.holder(id)) || time.Now().After(until) {
			return lock, r.held(id, err)
		}
	}
}

// held says who holds the session, where that is what err means.
func (r *Registry) held(id nacre.SessionID, err error) error {
	if !isTaken(err) {
		return err
	}
	return fmt.Errorf("%w: %s is held by process %d; nacre sessions stop %s ends it", ErrHeld, id, r.holder(id), id)
}

func isTaken(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) }

func isAlive(pid int) bool { return pid > 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// merge lets a session that goes on keep what it began with.
func merge(earlier, now Session) Session {
	now.Works, now.Work, now.Openings = earlier.Works, earlier.Work, earlier.Openings
	now.Chain, now.Chains, now.Sockets = earlier.Chain, earlier.Chains, earlier.Sockets
	if !earlier.Started.IsZero() {
		now.Started = earlier.Started
	}
	return now
}

// Update changes what is known of the session and writes it whole or not at all.
func (h *Held) Update(change func(*Session)) error {
	change(&h.Session)
	return h.save()
}

// Running says that the session's work runs now, to those who look. After a power cut
// it says nothing, and nothing runs.
func (h *Held) Running() error {
	h.State = nacre.SessionRunning // which the next Update writes
	return os.WriteFile(filepath.Join(h.dir, runningFile), nil, 0o600)
}

// rest takes back what an earlier holder said.
func (h *Held) rest() error {
	if err := os.Remove(filepath.Join(h.dir, runningFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Dir is the session's folder, for what belongs to it alone.
func (h *Held) Dir() string { return h.dir }

// LatestWork names the latest piece of work, finished or not; "" is none.
func (s Session) LatestWork() string {
	if s.Work != "" || s.Works == 0 {
		return s.Work
	}
	return WorkName(s.ID, s.Works)
}

// CarriedOn tells whether it is of a message or a tick. A nacre serve opens it again until that was
// dealt with, so it is one piece of work however often it was begun.
func (s Session) CarriedOn() bool { return s.Kind == "message" || s.Kind == "schedule" }

// WorkName names the nth piece of work of a session.
func WorkName(id nacre.SessionID, n int) string { return string(id) + "." + strconv.Itoa(n) }

// Begins says that what is about to be done with the session may leave something. It is
// taken back by Settled.
func (h *Held) Begins() error { return mark(h.marker) }

// Settled says that nothing is left to end or to complete.
func (h *Held) Settled() error {
	if err := h.noteWork(); err != nil { // while the session is found by its own marker
		return err
	}
	return unmark(h.marker)
}

// Release lets the session go. Closing alone would let it go only once every
// program that is just being started has closed what it inherited.
func (h *Held) Release() error {
	return errors.Join(freeLock(h.lock), h.lock.Close())
}

// begin says who holds the session. Of a new one nothing is lost with it in a
// power cut: whoever does something in it updates it first.
func (h *Held) begin(existed bool) error {
	if existed {
		return h.save()
	}
	return h.write(replaceFile)
}

func (h *Held) save() error {
	return h.write(func(path string, data []byte) error { return disk.Write(path, data, 0o600) })
}

func (h *Held) write(to func(path string, data []byte) error) error {
	data, err := json.MarshalIndent(h.Session, "", "  ")
	if err != nil {
		return err
	}
	return to(filepath.Join(h.dir, sessionFile), append(data, '\n'))
}

// replaceFile writes data whole for every reader, but not for a power cut, after
// which the file may be empty.
func replaceFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".write-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone after the rename
	_, err = file.Write(data)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// List returns all sessions that were not removed, the newest first. One that cannot be
// read hides no other: the error names each of them, and the others are listed all the same.
func (r *Registry) List() ([]Session, error) {
	return r.list(func(s Session) bool { return s.State != nacre.SessionRemoved })
}

// Removed returns the sessions that were removed.
func (r *Registry) Removed() ([]Session, error) {
	return r.list(func(s Session) bool { return s.State == nacre.SessionRemoved })
}

func (r *Registry) list(wanted func(Session) bool) ([]Session, error) {
	ids, err := idsIn(r.paths.Sessions())
	sessions, damaged := r.shown(ids, wanted)
	return sessions, errors.Join(err, damaged)
}

// Show returns one session. A session that says it runs and that nobody holds
// is interrupted.
func (r *Registry) Show(id nacre.SessionID) (Session, error) {
	s, err := readSession(r.paths.Session(id))
	if errors.Is(err, fs.ErrNotExist) {
		return Session{}, fmt.Errorf("%w: %s; nacre sessions list shows those there are", ErrUnknown, id)
	}
	if err != nil {
		return Session{}, err
	}
	if s.Live() && !r.isHeld(id, s.PID) {
		s.State = nacre.SessionInterrupted
	}
	s.Resumable = s.Kind == "run" && s.Work != "" && !s.Live() && s.Parent == "" // a sub-agent's work ends with it
	return s, nil
}

// isHeld tells whether somebody holds a session that says it lives. A program that its
// process was starting when it died has the lock for a moment, which is waited for.
func (r *Registry) isHeld(id nacre.SessionID, pid int) bool {
	path := filepath.Join(r.paths.Session(id), lockName)
	for until := time.Now().Add(startedFor); ; time.Sleep(lockPoll) {
		if !isLocked(path) {
			return false
		}
		if isAlive(pid) || time.Now().After(until) {
			return true
		}
	}
}

// isLocked asks for a lock without taking it, so that looking never gets in a
// holder's way.
func isLocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // opened for reading only
	query := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(file.Fd(), askLock, &query); err != nil {
		return true
	}
	return query.Type != unix.F_UNLCK
}

func (r *Registry) holder(id nacre.SessionID) int {
	s, err := readSession(r.paths.Session(id))
	if err != nil {
		return 0
	}
	return s.PID
}

func readSession(dir string) (Session, error) {
	data, err := os.ReadFile(filepath.Join(dir, sessionFile))
	if err == nil && len(data) == 0 { // the power was cut before anything was done in it
		err = &fs.PathError{Op: "read", Path: filepath.Join(dir, sessionFile), Err: fs.ErrNotExist}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Session{}, err
	}
	if err != nil {
		return Session{}, fmt.Errorf("%w; make it readable, or move the folder away", err)
	}
	var s Session
	if err := json.Unmarshal(data, &s); err != nil {
		return Session{}, fmt.Errorf("%s/session.json is damaged: %w; move the folder away", dir, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, runningFile)); err == nil && s.State == nacre.SessionOpen {
		s.State = nacre.SessionRunning
	}
	return s, nil
}

// lockFile opens a file and takes its lock, see [takeLock].
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := takeLock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
