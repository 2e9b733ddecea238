package kernel

import (
	"fmt"
	"sync"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/handle"
	"github.com/nacre-dev/nacre/internal/provenance"
)

// MaxSessions is how many sessions a kernel keeps state of. A call of a further
// one is refused until another is forgotten.
const MaxSessions = 4096

// maxPending is how much shown text of a session waits to be looked through,
// in bytes.
const maxPending = 256 << 10

// session is what a kernel knows of one session beside its principal: what
// text came from whom, how much was shown, and what was ruled for a time.
type session struct {
	budget    *firewall.Budget
	standings standings

	// mu guards what was shown and not looked through yet: only a call with
	// risky values has to wait for that.
	mu     sync.Mutex
	ledger *provenance.Ledger
	// untrusted is set once text was read that an outsider may have written.
	untrusted bool
	pending   []heard
	waiting   int
}

// heard is a result that was shown.
type heard struct {
	source            nacre.Source
	arguments, result []byte
}

// hear takes in what a call has shown. What is not trusted taints the session
// from the next call on (M-52). Its text is kept where somebody may ask for it.
func (s *session) hear(r *run, shown shown, keep bool) {
	source := nacre.Source{Provenance: nacre.SeenTrusted, Name: "result of " + string(r.tool.capability.ID)}
	if shown.label == nacre.Untrusted {
		source.Provenance = nacre.SeenUntrusted
		s.ledger.Taint(source.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untrusted = s.untrusted || shown.label == nacre.Untrusted
	if !keep {
		return
	}
	s.pending = append(s.pending, heard{source, r.arguments, shown.encoded})
	if s.waiting += len(shown.encoded) + len(r.arguments); s.waiting > maxPending {
		s.catchUp()
	}
}

// catchUp is called with mu held.
func (s *session) catchUp() {
	for _, h := range s.pending {
		s.ledger.ObserveResult(h.source, h.arguments, h.result)
	}
	s.pending, s.waiting = nil, 0
}

// origins says where the risky values of a call were seen, all that was shown
// so far included.
func (s *session) origins(arguments []byte, sinks []string) []nacre.Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	return s.ledger.Origins(arguments, sinks)
}

type sessions struct {
	mu   sync.Mutex
	kept map[nacre.SessionID]*session
}

// session returns the state of a session, new where there was none.
func (k *Kernel) session(id nacre.SessionID) (*session, error) {
	k.sessions.mu.Lock()
	defer k.sessions.mu.Unlock()
	if s := k.sessions.kept[id]; s != nil {
		return s, nil
	}
	if len(k.sessions.kept) >= MaxSessions {
		return nil, fmt.Errorf("kernel: %d sessions are kept already: forget some", MaxSessions)
	}
	if k.sessions.kept == nil {
		k.sessions.kept = make(map[nacre.SessionID]*session)
	}
	s := &session{ledger: provenance.New(), budget: firewall.NewBudget(k.outputBudget)}
	k.sessions.kept[id] = s
	return s, nil
}

// readUntrusted reports whether the session has read what an outsider may have written.
func (s *session) readUntrusted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untrusted
}

// Observe tells the kernel what text has entered a session, and from whom: the
// operator's task, a page that was fetched, a message that came in. The host
// calls it; content never labels itself (K-26). Untrusted text taints the
// session (M-52).
func (k *Kernel) Observe(id nacre.SessionID, source nacre.Source, text string) error {
	return k.observe(id, source.Provenance.Label(), func(l *provenance.Ledger) { l.Observe(source, []byte(text)) })
}

// ObserveModelRequest tells the kernel what a brain sends to its model: the
// results of its own tools, which read the project, are there and nowhere
// else. project is the provenance of what it read; it taints values, not the
// whole session.
func (k *Kernel) ObserveModelRequest(id nacre.SessionID, body []byte, project nacre.Provenance) error {
	return k.observe(id, project.Label(), func(l *provenance.Ledger) { l.ObserveModelRequest(body, project) })
}

func (k *Kernel) observe(id nacre.SessionID, label nacre.Label, take func(*provenance.Ledger)) error {
	s, err := k.session(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untrusted = s.untrusted || label == nacre.Untrusted
	take(s.ledger)
	return nil
}

// Taint marks a session as one that has read what an outsider wrote to it: from
// now on policy sees it as tainted (M-52).
func (k *Kernel) Taint(id nacre.SessionID, by string) error {
	return k.observe(id, nacre.Untrusted, func(l *provenance.Ledger) { l.Taint(by) })
}

// Forget drops all that is kept of a session: its text, its rulings, its
// budget and its handles.
func (k *Kernel) Forget(id nacre.SessionID) {
	k.sessions.mu.Lock()
	delete(k.sessions.kept, id)
	k.sessions.mu.Unlock()
	k.handles.Drop(func(e handle.Entry) bool { return e.Session == id })
}
