// Package watch looks for decoys, planted files and what an agent says that it does, in
// one session, and ends the session where a tripwire that contains is touched (M-58).
package watch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/session"
	"github.com/nacre-dev/nacre/internal/tripwire"
)

const (
	// decoysDir is the session's folder of decoys on the host.
	decoysDir = "decoys"
	// maxScanned is how many bytes of what an agent made are looked at for decoys.
	maxScanned = 1 << 30
	// clockSlack is how far a file's time of change may lie behind the clock.
	clockSlack = time.Second
	// recordLimit bounds the wait for the chain.
	recordLimit = 10 * time.Second
)

// kindTripwire records a tripwire that was touched, and what followed.
const kindTripwire nacre.Kind = "tripwire"

// Watch is what watches over one session. A nil one has seen nothing.
type Watch struct {
	session *session.Session
	inst    *installation.Installation
	warn    func(nacre.Step)
	wires   *tripwire.Watch
	decoys  *tripwire.Decoys
	// told says that a decoy stops nothing: somebody is told of it.
	told   bool
	mounts []nacre.Mount

	mu        sync.Mutex
	contained *Contained
	done      chan struct{} // closed when what contained is recorded
}

// Open makes the session's decoys, and lays them out to be mounted. warn is told of
// each tripwire that is touched, and what follows is what the config says.
func Open(inst *installation.Installation, s *session.Session, warn func(nacre.Step)) (*Watch, error) {
	reactions, err := inst.Config.Reactions()
	if err != nil {
		return nil, err
	}
	random := make([]byte, tripwire.DecoyRandom)
	_, _ = rand.Read(random) // never fails: crypto/rand ends the process instead
	decoys, err := tripwire.NewDecoys(random)
	if err != nil {
		return nil, err
	}
	w := &Watch{
		session: s, inst: inst, warn: warn, wires: tripwire.New(reactions), decoys: decoys,
		told: reactions[tripwire.Canary] != tripwire.Contain, done: make(chan struct{}),
	}
	dir := filepath.Join(s.Dir(), decoysDir)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	for i, f := range decoys.Files {
		host := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(host, f.Data, 0o444); err != nil {
			return nil, err
		}
		w.mounts = append(w.mounts, nacre.Mount{Source: host, Target: path.Join(posture.Home, f.Path)})
	}
	return w, nil
}

// Mounts show the decoys to the agent.
func (w *Watch) Mounts() []nacre.Mount { return w.mounts }

// Environment has those decoys that are variables.
func (w *Watch) Environment() []string { return w.decoys.Env }

// DecoyNames say where the decoys of every session lie.
func DecoyNames() []string {
	return []string{"~/.aws/credentials", "~/.git-credentials", "$DEPLOY_TOKEN"}
}

// raise does what the alarms ask for.
func (w *Watch) raise(alarms []tripwire.Alarm) {
	for _, a := range alarms {
		switch a.Reaction {
		case tripwire.Contain:
			w.contain(a)
		case tripwire.Notify:
			w.noteAlarm(a, "notified")
			w.warn(nacre.Step{Kind: nacre.StepResult, Name: "tripwire", Text: a.What, IsError: true})
		case tripwire.Block: // it was refused already
		}
	}
}

// noteAlarm records one. The recorder itself stops the session where it fails.
func (w *Watch) noteAlarm(a tripwire.Alarm, outcome string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.session.Context()), recordLimit)
	defer cancel()
	what, _ := w.inst.Redact.String(a.What)
	_ = w.session.Recorder.Commit(ctx, nacre.Record{Kind: kindTripwire, Source: "tripwire", Topic: string(a.Wire), Outcome: outcome, Reason: what})
}

// Seen looks for decoys in a text.
func (w *Watch) Seen(text []byte, where tripwire.Place) (found bool) {
	decoy, found := w.decoys.Find(text)
	if found {
		w.raise(w.wires.Seen(decoy, where))
	}
	return found
}

// SeenInModel looks for decoys in what goes to the model.
func (w *Watch) SeenInModel(body []byte) { w.Seen(body, tripwire.InModel) }

// Recorder hears of connections that the proxy refused, on their way to the chain.
func (w *Watch) Recorder(next nacre.Recorder) nacre.Recorder { return refusals{next, w} }

type refusals struct {
	nacre.Recorder
	watch *Watch
}

// Append implements nacre.Recorder.
func (r refusals) Append(ctx context.Context, rec nacre.Record) error {
	err := r.Recorder.Append(ctx, rec)
	if rec.Kind == nacre.KindEgress && rec.Outcome == nacre.OutcomeDenied {
		var to struct {
			Host string `json:"host"`
		}
		_ = json.Unmarshal(rec.Detail, &to) // a refusal of what could not be read has none
		w := r.watch
		w.raise(w.wires.Refused(w.inst.Options.Now(), to.Host))
		switch egress.Reason(rec.Reason) {
		case egress.ReasonPathNotLeased, egress.ReasonMethodNotLeased:
			w.raise(w.wires.Unleased(to.Host))
		default:
		}
	}
	return err
}

// ErrContained ends what a contained session was doing.
var ErrContained = errors.New("the session is contained")

// Inspect gives what looks for decoys in one stream out of the sandbox.
func (w *Watch) Inspect() func([]byte) error {
	stream := w.decoys.Stream()
	return func(piece []byte) error {
		if decoy, found := stream.Next(piece); found {
			w.raise(w.wires.Seen(decoy, tripwire.InEgress))
			if w.Containment() != nil {
				return ErrContained
			}
		}
		return nil
	}
}

// StopsNothing says that a decoy on its way out is told of, and goes on.
func (w *Watch) StopsNothing() bool { return w.told }

// Listener looks at what a sandbox sends before it goes anywhere.
func (w *Watch) Listener(l *net.UnixListener) net.Listener { return listener{l, w} }

type listener struct {
	*net.UnixListener
	watch *Watch
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return &watchedConn{UnixConn: conn, look: l.watch.Inspect()}, nil
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

// Brain hears what an agent says that it does.
func (w *Watch) Brain(b brain.Brain) brain.Brain { return watchedBrain{b, w} }

type watchedBrain struct {
	brain.Brain
	watch *Watch
}

// Converse implements brain.Brain.
func (b watchedBrain) Converse(ctx context.Context, p brain.Process, t brain.Turn, emit func(brain.Event)) error {
	sources := map[string]string{}
	return b.Brain.Converse(ctx, p, t, func(e brain.Event) {
		w := b.watch
		switch e.Kind {
		case brain.ToolCall:
			sources[e.ID] = tripwire.Source(e.Name, e.Input)
			w.raise(w.wires.Called(e.Name, e.Input))
		case brain.ToolResult:
			w.raise(w.wires.Read(sources[e.ID], e.Text))
			delete(sources, e.ID)
		default:
		}
		emit(e)
	})
}
