package kernel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/firewall"
	"github.com/nacre-dev/nacre/internal/handle"
	"github.com/nacre-dev/nacre/internal/provenance"
	"github.com/nacre-dev/nacre/internal/reference"
	"github.com/nacre-dev/nacre/internal/token"
)

const (
	// MaxSessions is of how many sessions a kernel keeps the text and the rulings.
	// A further one makes those that were idle longest forget theirs: what they
	// have read counts as seen nowhere then, and a person is asked again.
	MaxSessions = 4096
	// MaxKnownSessions is of how many it knows whether they have read untrusted
	// text, and how much they were shown. A call of a further one is refused
	// until another is forgotten.
	MaxKnownSessions = 1 << 16
	// maxTaken is how much text of all sessions is kept, in bytes as it came, and
	// maxTakenOne of one: beyond it those that were idle longest forget theirs.
	maxTaken    = 512 << 20
	maxTakenOne = 8 << 20
)

// maxPending is how much shown text of a session waits to be looked through,
// in bytes.
const maxPending = 256 << 10

// session is what a kernel knows of one session beside its principal: what
// text came from whom, how much was shown, and what was ruled for a time.
type session struct {
	budget *firewall.Budget
	// showing is held while something is being shown; alone, where what is left
	// of the budget is not enough for many at once.
	showing   sync.RWMutex
	standings token.Standings
	// used orders sessions by their last use; light is set while nothing but the
	// rest of the budget and the taint is kept. Those of all sessions guards them.
	used  uint64
	light bool
	// all counts what all sessions have taken.
	all *atomic.Int64

	// mu guards what was shown and not looked through yet: only a call with
	// risky values has to wait for that.
	mu     sync.Mutex
	ledger *provenance.Ledger
	// words are what the session sees in the place of personal values (K-27).
	words *reference.Table
	// untrusted is set once text was read that an outsider may have written.
	untrusted bool
	// memories names the sources that are memory.
	memories map[string]bool
	pending  []heard
	waiting  int
	// taken is how much of its text is kept, in bytes.
	taken int
	// answer is whom the session may answer, by the operator's word.
	answer right
}

// heard is a result that was shown.
type heard struct {
	source            nacre.Source
	tool              nacre.ToolName
	arguments, result []byte
	// values say what the system makes; framed is set of a frame.
	values nacre.Values
	framed bool
}

// hear takes in what a call has shown. What is not trusted taints the session
// from the next call on (M-52). Its text is kept where somebody may ask for it.
func (s *session) hear(r *run, shown shown, keep bool) {
	source := nacre.Source{Provenance: nacre.SeenTrusted, Name: r.tool.resultOf}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shown.label != nacre.Trusted {
		source.Provenance, s.untrusted = nacre.SeenUntrusted, true
	}
	if shown.label == nacre.Untrusted {
		s.ledger.Taint(source.Name)
	}
	if c := r.tool.capability; c.Safety == nacre.Read && (!c.Intrinsic || c.Sensitivity == nacre.SensitiveMemory) {
		s.answer.read[c.Tool] = true
	}
	if !keep {
		return
	}
	if r.tool.capability.Sensitivity == nacre.SensitiveMemory {
		if s.memories == nil {
			s.memories = map[string]bool{}
		}
		s.memories[source.Name] = true
	}
	n := len(shown.encoded) + len(r.arguments)
	said := s.words.Clear(shown.encoded, json.Valid(shown.encoded)) // provenance is of values
	s.pending = append(s.pending, heard{source, r.tool.capability.Tool, r.arguments, said, r.tool.capability.Values, shown.framed})
	if s.waiting += n; s.waiting > maxPending {
		s.catchUp()
	}
	s.take(n)
}

// affords reports whether so many tokens are left, what is being shown settled.
func (s *session) affords(tokens int) bool {
	if s.budget.Remaining() >= tokens {
		return true
	}
	s.showing.Lock()
	defer s.showing.Unlock()
	return s.budget.Remaining() >= tokens
}

// reserve takes chars off the budget until settled is called. What others have
// reserved and will give back is no reason to show less: then it waits for them.
func (s *session) reserve(mode nacre.Mode, chars int) (r *firewall.Reservation, settled func(), err error) {
	s.showing.RLock()
	if r, err = s.budget.Reserve(mode, chars); err == nil && r.Mode == mode && r.Chars >= chars {
		return r, s.showing.RUnlock, nil
	}
	if err == nil {
		r.Settle(0)
	}
	s.showing.RUnlock()
	s.showing.Lock()
	r, err = s.budget.Reserve(mode, chars)
	return r, s.showing.Unlock, err
}

// take is called with mu held.
func (s *session) take(n int) {
	n = min(n, maxTakenOne-s.taken)
	s.taken += n
	s.all.Add(int64(n))
}

// catchUp is called with mu held.
func (s *session) catchUp() {
	for _, h := range s.pending {
		s.ledger.ObserveUnvouched(h.source, h.arguments, h.result) // hear has tainted, where it does
		s.ledger.ObserveMinted(provenance.Result{
			Source: h.source, Tool: h.tool, Arguments: h.arguments, Result: h.result, Mints: h.values.Mints, Authors: h.values.Authors, Senders: h.values.Senders, Framed: h.framed,
		})
	}
	s.pending, s.waiting = nil, 0
}

// origins says where the risky values of a call were seen, all that was shown
// so far included.
func (s *session) origins(arguments []byte, declared provenance.Declared) []nacre.Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	return s.ledger.Judge(arguments, declared)
}

// textOf is the text that a person can vouch for.
func (s *session) textOf(arguments []byte, declared provenance.Declared) provenance.Text {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUp()
	return s.ledger.TextOf(arguments, declared)
}

// vouch takes in that a person hands authority to a text.
func (s *session) vouch(t provenance.Text) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Vouch(t)
}

// forgotten are origins as they would be if nothing had been recalled from memory;
// nil where they would be the same.
func (s *session) forgotten(origins []nacre.Origin) []nacre.Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	var other []nacre.Origin
	for i, o := range origins {
		if len(o.Sources) == 0 || slices.ContainsFunc(o.Sources, func(name string) bool { return !s.memories[name] }) {
			continue
		}
		if other == nil {
			other = slices.Clone(origins)
		}
		other[i] = nacre.Origin{Argument: o.Argument}
	}
	return other
}

// listened reports whether an outsider's text has tainted the session, and
// whether it has read any.
func (s *session) listened() (tainted, untrusted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Tainted(), s.untrusted
}

// lighten forgets what can be forgotten safely: a value that was seen nowhere
// is untrusted, and where no ruling stands a person is asked.
func (s *session) lighten() {
	s.standings.Forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	taints, tainted := s.ledger.TaintedBy(), s.ledger.Tainted()
	s.ledger, s.pending, s.waiting = provenance.New(), nil, 0
	s.words.Forget()
	s.all.Add(-int64(s.taken))
	s.taken = 0
	for _, name := range taints {
		s.ledger.Taint(name)
	}
	if tainted {
		s.ledger.Taint("")
	}
}

// over ends the session: what a call that still runs hears of it counts for nobody.
func (s *session) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken, s.all = 0, new(atomic.Int64)
}

// sessions is what a kernel knows of its sessions.
type sessions struct {
	// budget is how much of results each may see, in tokens.
	budget int
	// without are the grounds that count for none of them.
	without []nacre.Grounds
	// secret is what the words of each session are marked with.
	secret []byte

	mu   sync.Mutex
	kept map[nacre.SessionKey]*session
	// full counts those that are not light, uses all uses.
	full  int
	uses  uint64
	taken atomic.Int64
}

// errNoSession is of whoever does not say in which session they are: what they
// have read and what was ruled for them would be everybody's.
var errNoSession = errors.New("no session: a group and a session are both needed")

// session returns the state of a session, new where there was none.
func (s *sessions) session(id nacre.SessionKey) (*session, error) {
	if !id.Complete() {
		return nil, errNoSession
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.kept[id]
	switch {
	case one == nil && len(s.kept) >= MaxKnownSessions:
		return nil, fmt.Errorf("kernel: %d sessions are known already: forget those that are over", MaxKnownSessions)
	case one == nil:
		if s.kept == nil {
			s.kept = make(map[nacre.SessionKey]*session)
		}
		one = &session{ledger: provenance.New(), budget: firewall.NewBudget(s.budget), light: true, all: &s.taken, answer: right{read: map[nacre.ToolName]bool{}}}
		one.words = reference.New(reference.Tag(s.secret, string(id)))
		one.standings.Salt = token.Sum("nacre.ruling.salt.1", string(s.secret))
		s.kept[id] = one
	}
	s.use(one)
	return one, nil
}

// use makes a session the last one used, and room for it.
func (s *sessions) use(one *session) {
	s.uses++
	one.used = s.uses
	if one.light {
		one.light = false
		s.full++
	}
	if s.full > MaxSessions || s.taken.Load() > maxTaken {
		s.shed()
	}
}

// shed lightens a quarter of the sessions, those that were idle longest.
func (s *sessions) shed() {
	idle := make([]*session, 0, s.full)
	for _, one := range s.kept {
		if !one.light {
			idle = append(idle, one)
		}
	}
	slices.SortFunc(idle, func(a, b *session) int { return cmp.Compare(a.used, b.used) })
	for _, one := range idle[:len(idle)/4] {
		one.light = true
		s.full--
		one.lighten()
	}
}

// Observe tells the kernel what text has entered a session, and from whom: the
// operator's task, a page that was fetched, a message that came in. The host
// calls it; content never labels itself (K-26). Untrusted text taints the
// session (M-52). An error means that nothing was taken in: the group or the
// session is missing, or too many sessions are known.
func (k *sessions) Observe(id nacre.SessionKey, source nacre.Source, text string) error {
	return k.observe(id, source.Provenance.Label(), len(text), func(l *provenance.Ledger) { l.Observe(source, []byte(text)) })
}

// ObserveModelRequest tells the kernel what a brain sends to its model: the
// results of its own tools, which read the project, are there and nowhere
// else. project is the provenance of what it read; it taints values, not the
// whole session. A request without such results counts as well: what a
// repository says to agents stands in it as if the user had said it.
func (k *sessions) ObserveModelRequest(id nacre.SessionKey, body []byte, project nacre.Provenance) error {
	return k.observe(id, project.Label(), len(body), func(l *provenance.Ledger) { l.ObserveModelRequest(body, project) })
}

func (k *sessions) observe(id nacre.SessionKey, label nacre.Label, size int, take func(*provenance.Ledger)) error {
	s, err := k.session(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untrusted = s.untrusted || label == nacre.Untrusted
	take(s.ledger)
	s.take(size)
	return nil
}

// Introduce tells the kernel who the operator of a session is: their own name,
// address, account. Each counts as the operator's word, and says nothing of what
// they want: an attacker may know it too (K-29). Errors are those of Observe.
func (k *sessions) Introduce(id nacre.SessionKey, profile ...string) error {
	return k.observe(id, nacre.Trusted, 0, func(l *provenance.Ledger) { l.Introduce(profile) })
}

// Taint marks a session as one that has read what an outsider wrote to it: from
// now on policy sees it as tainted (M-52).
func (k *sessions) Taint(id nacre.SessionKey, by string) error {
	return k.observe(id, nacre.Untrusted, 0, func(l *provenance.Ledger) { l.Taint(by) })
}

// Resume tells the kernel what a session had been told before its process was killed and it went on
// in this one. told is the label of what was least to be trusted. by names that, for a person. What
// the session read then is not known any more, and counts as seen nowhere. What persons had ruled
// on is not asked again (M-55). Errors are those of Observe, and of a ruling that is not as a
// record has it: then none counts.
func (k *sessions) Resume(id nacre.SessionKey, told nacre.Label, by string, rulings ...nacre.Ruled) error {
	s, err := k.session(id)
	if err == nil {
		err = s.standings.Restore(rulings)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untrusted = s.untrusted || told != nacre.Trusted
	if told == nacre.Untrusted {
		s.ledger.Taint(by)
	}
	return nil
}

// Tainted reports whether an outsider's words have entered a session (M-52). Of a session that is
// not known, or not named, it reports true.
func (k *sessions) Tainted(id nacre.SessionKey) bool {
	s, err := k.session(id)
	if err != nil {
		return true // what is not known has not been vouched for
	}
	tainted, _ := s.listened()
	return tainted
}

// Forget drops all that is kept of a session: its text, its rulings, its
// budget, its handles, and that it was tainted. The host calls it when a session
// is over, and never uses its name again.
func (k *Kernel) Forget(id nacre.SessionKey) {
	k.drop(id)
	k.handles.Drop(func(e handle.Entry) bool { return e.Session == id })
}

// drop waits for nobody who is busy with the session while it holds up others.
func (s *sessions) drop(id nacre.SessionKey) {
	if one := s.remove(id); one != nil {
		one.lighten()
		one.over()
	}
}

func (s *sessions) remove(id nacre.SessionKey) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.kept[id]
	if one != nil && !one.light {
		s.full--
	}
	delete(s.kept, id)
	return one
}
