package assembly

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/tripwire"
)

const (
	// decoysDir is the session's folder of decoys on the host.
	decoysDir = "decoys"
	// maxScanned is how many bytes of what an agent made are looked at for decoys.
	maxScanned = 1 << 30
	// clockSlack is how far a file's time of change may lie behind the clock.
	clockSlack = time.Second
)

// kindTripwire records a tripwire that was touched, and what followed.
const kindTripwire nacre.Kind = "tripwire"

// trips are a session's tripwires (M-58).
type trips struct {
	watch  *tripwire.Watch
	decoys *tripwire.Decoys
	// told says that a decoy stops nothing: somebody is told of it.
	told   bool
	mounts []nacre.Mount

	mu        sync.Mutex
	contained *Contained
	done      chan struct{} // closed when what contained is recorded
}

// reactions are the operator's word over the default.
func (c Config) reactions() (tripwire.Reactions, error) {
	all := tripwire.Default()
	for name, text := range c.Tripwires {
		if _, known := all[tripwire.Wire(name)]; !known {
			return nil, fmt.Errorf("[tripwires] %s: no such tripwire: one of %v", name, tripwire.Wires())
		}
		var r tripwire.Reaction
		if err := r.UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("[tripwires] %s: %w", name, err)
		}
		all[tripwire.Wire(name)] = r
	}
	return all, nil
}

// setTrips makes the session's decoys, and lays them out to be mounted.
func (s *sealed) setTrips() error {
	reactions, err := s.runtime.config.reactions()
	if err != nil {
		return &ConfigError{err}
	}
	random := make([]byte, tripwire.DecoyRandom)
	_, _ = rand.Read(random) // never fails: crypto/rand ends the process instead
	decoys, err := tripwire.NewDecoys(random)
	if err != nil {
		return err
	}
	t := &trips{watch: tripwire.New(reactions), decoys: decoys, told: reactions[tripwire.Canary] != tripwire.Contain, done: make(chan struct{})}
	dir := filepath.Join(s.Dir(), decoysDir)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	for i, f := range decoys.Files {
		host := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(host, f.Data, 0o444); err != nil {
			return err
		}
		t.mounts = append(t.mounts, nacre.Mount{Source: host, Target: path.Join(posture.Home, f.Path)})
	}
	s.trips = t
	return nil
}

// decoyNames say where the decoys of every session lie.
func decoyNames() []string {
	return []string{"~/.aws/credentials", "~/.git-credentials", "$DEPLOY_TOKEN"}
}

// raise does what the alarms ask for.
func (s *sealed) raise(alarms []tripwire.Alarm) {
	for _, a := range alarms {
		switch a.Reaction {
		case tripwire.Contain:
			s.contain(a)
		case tripwire.Notify:
			s.noteAlarm(a, "notified")
			s.warn(nacre.Step{Kind: nacre.StepResult, Name: "tripwire", Text: a.What, IsError: true})
		case tripwire.Block: // it was refused already
		}
	}
}

// noteAlarm records one. The recorder itself stops the session where it fails.
func (s *sealed) noteAlarm(a tripwire.Alarm, outcome string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), grantLimit)
	defer cancel()
	what, _ := s.runtime.redact.String(a.What)
	_ = s.Recorder.Commit(ctx, nacre.Record{Kind: kindTripwire, Source: "tripwire", Topic: string(a.Wire), Outcome: outcome, Reason: what})
}

// seen looks for decoys in a text.
func (s *sealed) seen(text []byte, where tripwire.Place) (found bool) {
	decoy, found := s.trips.decoys.Find(text)
	if found {
		s.raise(s.trips.watch.Seen(decoy, where))
	}
	return found
}

// refusals hears of connections that the proxy refused.
type refusals struct {
	nacre.Recorder
	session *sealed
}

// Append implements nacre.Recorder.
func (r refusals) Append(ctx context.Context, rec nacre.Record) error {
	err := r.Recorder.Append(ctx, rec)
	if rec.Kind == nacre.KindEgress && rec.Outcome == nacre.OutcomeDenied {
		var to struct {
			Host string `json:"host"`
		}
		_ = json.Unmarshal(rec.Detail, &to) // a refusal of what could not be read has none
		watch := r.session.trips.watch
		r.session.raise(watch.Refused(r.session.runtime.options.Now(), to.Host))
		switch egress.Reason(rec.Reason) {
		case egress.ReasonPathNotLeased, egress.ReasonMethodNotLeased:
			r.session.raise(watch.Unleased(to.Host))
		default:
		}
	}
	return err
}

// errContained ends what a contained session was doing.
var errContained = errors.New("the session is contained")

// inspect gives what looks for decoys in one stream out of the sandbox.
func (s *sealed) inspect() func([]byte) error {
	stream := s.trips.decoys.Stream()
	return func(piece []byte) error {
		if decoy, found := stream.Next(piece); found {
			s.raise(s.trips.watch.Seen(decoy, tripwire.InEgress))
			if s.containment() != nil {
				return errContained
			}
		}
		return nil
	}
}

// watchedListener looks at what a sandbox sends before it goes anywhere.
type watchedListener struct {
	*net.UnixListener
	session *sealed
}

// Accept implements net.Listener.
func (l watchedListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return &watchedConn{UnixConn: conn, look: l.session.inspect()}, nil
}

// watchedConn is one connection to the proxy. It is read by one goroutine at a time.
type watchedConn struct {
	*net.UnixConn
	look func([]byte) error
	// reads counts to the second read; sealed says that what comes is encrypted.
	reads  int
	tunnel bool
	sealed bool
}

// Read gives nothing of a piece in which a decoy was found.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.UnixConn.Read(p)
	if n == 0 || c.sealed {
		return n, err
	}
	if err := c.look(p[:n]); err != nil {
		return 0, err
	}
	const handshake = 0x16
	switch c.reads++; c.reads {
	case 1:
		c.tunnel = n > 8 && string(p[:8]) == "CONNECT "
	case 2:
		c.sealed = c.tunnel && p[0] == handshake // a hello; nobody can read what follows it
	}
	return n, err
}

// watchedKernel looks at the arguments of calls.
type watchedKernel struct{ session *sealed }

// Has implements door.Kernel.
func (k watchedKernel) Has(tool nacre.ToolName) bool {
	return k.session.openCalls() == nil && k.session.kernel.Has(tool)
}

// Source implements door.Kernel.
func (k watchedKernel) Source(tool nacre.ToolName) string {
	if k.session.openCalls() != nil {
		return ""
	}
	return k.session.kernel.Source(tool)
}

// Call implements door.Kernel.
func (k watchedKernel) Call(ctx context.Context, call nacre.Call) (nacre.Outcome, error) {
	if k.session.seen(call.Arguments, tripwire.InCall) && k.session.containment() != nil {
		return nacre.Outcome{}, errContained
	}
	if err := k.session.openCalls(); err != nil {
		return nacre.Outcome{}, err
	}
	return k.session.kernel.Call(ctx, call)
}

// watchedBrain hears what an agent says that it does.
type watchedBrain struct {
	brain.Brain
	session *sealed
}

// Converse implements brain.Brain.
func (b watchedBrain) Converse(ctx context.Context, p brain.Process, t brain.Turn, emit func(brain.Event)) error {
	names := map[string]string{}
	return b.Brain.Converse(ctx, p, t, func(e brain.Event) {
		watch := b.session.trips.watch
		switch e.Kind {
		case brain.ToolCall:
			names[e.ID] = e.Name
			b.session.raise(watch.Called(e.Name, e.Input))
		case brain.ToolResult:
			b.session.raise(watch.Read(names[e.ID], e.Text))
			delete(names, e.ID)
		default:
		}
		emit(e)
	})
}

// watchResult looks for decoys in what the agent made, when its process has
// ended and before anything is done with it.
func (s *sealed) watchResult(p *process, dir string) {
	since, wait := time.Now().Add(-clockSlack), p.wait
	p.wait = sync.OnceValues(func() (int, error) {
		code, err := wait()
		if scanErr := s.scanResult(dir, since); scanErr != nil && s.Context().Err() == nil {
			s.Stop(fmt.Errorf("look for decoys in what the agent made: %w", scanErr))
		}
		return code, err
	})
}

// scanResult reads the files that changed since a time, which their time of
// change tells: a program inside can set none but that of its change. What the
// agent left unreadable, or deeper than anything lands, is passed over: it is
// refused when the result is taken.
func (s *sealed) scanResult(dir string, since time.Time) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no result
	}
	if err != nil {
		return unlessShut(err)
	}
	r := &resultScan{sealed: s, root: root, since: since, left: maxScanned}
	return errors.Join(r.folder(".", 0), root.Close())
}

// resultScan goes through what an agent made from folder to folder: the path of
// what it made may be longer than the system takes, and its names are no text.
type resultScan struct {
	*sealed
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
	for err == nil && r.left >= 0 && r.Context().Err() == nil {
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
	r.seen([]byte(e.Name()), tripwire.InMerge)
	info, err := r.root.Lstat(name)
	if err != nil || r.left < 0 || !info.Mode().IsRegular() || !changedSince(info, r.since) {
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

func changedSince(info fs.FileInfo, since time.Time) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || !time.Unix(stat.Ctim.Unix()).Before(since)
}

func (r *resultScan) file(name string) error {
	file, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return unlessShut(err)
	}
	defer func() { _ = file.Close() }() // it was read only
	stream, buffer := r.trips.decoys.Stream(), make([]byte, 256<<10)
	for {
		n, err := file.Read(buffer)
		if decoy, found := stream.Next(buffer[:n]); found {
			r.raise(r.trips.watch.Seen(decoy, tripwire.InMerge))
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

// planted records what a command left in the project that the host would obey.
func (s *sealed) planted(names []string) {
	for _, name := range names {
		switch name {
		case ".claude", ".codex", ".cursor", ".mcp.json", ".nacre", ".git":
			for _, a := range s.trips.watch.Planted(name) {
				s.noteAlarm(a, "notified")
			}
		}
	}
}
