package receipt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/registry"
)

// hostsOwn is the kind of a session in which the host checks the work of another: it is
// no work of its own.
const hostsOwn = "verify"

// killedWhy is what the row of a session says whose process did not get to its end.
const killedWhy = "the nacre that ran it was killed"

// EnterRows gives each run and visit its row in the ledger that has none, from the chains
// that it left, and ends the rows of those that have ended (U-25). Nothing is written while
// a session begins or works: its chains are there whatever happens to its process. A task
// enters itself. The errors name the chains that cannot be read, and hide no other.
// unfinished gives the sessions of messages and ticks that a nacre serve goes on with.
func EnterRows(ctx context.Context, inst *installation.Installation, unfinished func(context.Context, *installation.Installation) (map[nacre.SessionID]bool, error)) error {
	// What is not among them was over before it is looked at below.
	going, err := unfinished(ctx, inst)
	if err != nil {
		return err
	}
	return enterRows(ctx, inst, "", going)
}

// EnterRow is EnterRows of one session, of no message.
func EnterRow(ctx context.Context, inst *installation.Installation, session nacre.SessionID) error {
	return enterRows(ctx, inst, session, nil)
}

// enterRows enters the rows of a session, or of all.
func enterRows(ctx context.Context, inst *installation.Installation, only nacre.SessionID, going map[nacre.SessionID]bool) (err error) {
	l, err := installation.LedgerOf(ctx, inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	known, err := ledger.Anchored(ctx, l)
	if err != nil {
		return err
	}
	works, err := worksOf(inst, known, only)
	errs := []error{err}
	for _, w := range works {
		w.goesOn = going[w.session]
		if err := w.enter(ctx, inst, l, known); err != nil {
			errs = append(errs, fmt.Errorf("the ledger's row of session %s: %w", w.session, err))
		}
	}
	return errors.Join(errs...)
}

// Worked names a piece of a session's work, by those who did it.
type Worked struct {
	Session nacre.SessionID
	Work    string
	// Chains are those of its openings, the first in front. Words are what was asked, whole.
	Chains []string
	Words  string
}

// maxWords is how much of what was asked a row holds, in bytes.
const maxWords = 32 << 10

// EnterWork gives the work of a session that is still open its row, where it has none, and returns it.
func EnterWork(ctx context.Context, inst *installation.Installation, l *ledger.Ledger, of Worked) (ledger.Run, error) {
	opened, chains, err := firstBegun(inst, of)
	if err != nil {
		return ledger.Run{}, err
	}
	w := &work{session: of.Session, name: of.Work, opened: opened, chains: chains}
	name := w.dna()
	row, err := l.Show(ctx, name)
	if errors.Is(err, ledger.ErrNotFound) {
		words := strings.ToValidUTF8(of.Words[:min(len(of.Words), maxWords)], "")
		if err = l.Begin(ctx, w.start(name, words)); err == nil || errors.Is(err, ledger.ErrTaken) { // entered meanwhile
			row, err = l.Show(ctx, name)
		}
	}
	return row.Run, err
}

// Names tells whether a row of the ledger is that of a work which is no task. A row of work whose records
// were pruned is none's.
func Names(inst *installation.Installation, row ledger.Run, of Worked) bool {
	opened, chains, err := firstBegun(inst, of)
	w := &work{session: of.Session, name: of.Work, opened: opened, chains: chains}
	return err == nil && w.dna() == row.DNA
}

// firstBegun is the first opening that has begun, and its chain with those after it. nacre may have been
// killed before an opening's first record, and a row stands on a record.
func firstBegun(inst *installation.Installation, of Worked) (opening, []string, error) {
	for i, chain := range of.Chains {
		if opened, err := openingOf(inst, chain); err != nil || opened.Kind != "" {
			return opened, of.Chains[i:], err
		}
	}
	return opening{}, nil, fmt.Errorf("no opening of session %s has begun", of.Session)
}

// work is one piece of a session's work: the chains of its openings.
type work struct {
	session nacre.SessionID
	name    string
	opened  opening
	chains  []string
	// forgotten says that the session's texts were erased: its row holds none.
	forgotten bool
	// project is what it worked on, where its session is still known.
	project string
	// goesOn says that a nacre serve carries it on that was interrupted: it is of a message or a tick.
	goesOn bool
}

// opening is what the record says that an opening of a session begins with.
type opening struct {
	Kind, Brain, Role, Work string
	// Parent is the row of the run whose agent asked for this one.
	Parent string

	anchor ledger.Anchor
	at     time.Time
}

// chainName is a session's chain: the session and which of its openings.
type chainName struct {
	text    string
	session nacre.SessionID
	opening int
}

func parseChain(name string) (chainName, bool) {
	session, number, found := strings.Cut(name, ".")
	n, err := strconv.Atoi(number)
	if !found || err != nil || n < 1 || strconv.Itoa(n) != number {
		return chainName{}, false
	}
	id, err := nacre.ParseSessionID(session)
	return chainName{name, id, n}, err == nil
}

// worksOf groups the chains of sessions by the work that they are of, the oldest first.
// Those whose work has ended in the ledger are not read again. Where a session is named, they
// are its own.
func worksOf(inst *installation.Installation, known map[string]ledger.Run, only nacre.SessionID) ([]*work, error) {
	entries, err := os.ReadDir(inst.AuditRoot())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []chainName
	for _, entry := range entries {
		name, isSession := parseChain(entry.Name())
		if isSession && (only == "" || only == name.session) && !ended(known[name.text]) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b chainName) int {
		if a.session != b.session {
			return strings.Compare(string(a.session), string(b.session))
		}
		return a.opening - b.opening
	})
	var works []*work
	var errs []error
	over := overBySession(known)
	for _, name := range names {
		opened, err := openingOf(inst, name.text)
		switch {
		case err != nil:
			errs = append(errs, err)
		case opened.Kind == "" || opened.Kind == hostsOwn: // it has not begun, or is nobody's
		case isOver(over[string(name.session)], name, opened): // an opening that no change of the row stands on
		default:
			works = join(works, name, opened)
		}
	}
	slices.SortStableFunc(works, func(a, b *work) int { return a.opened.at.Compare(b.opened.at) })
	return works, errors.Join(errs...)
}

// overBySession are the rows that have their ends.
func overBySession(known map[string]ledger.Run) map[string][]ledger.Run {
	over := map[string][]ledger.Run{}
	for _, r := range known {
		if ended(r) {
			over[r.Session] = append(over[r.Session], r)
		}
	}
	return over
}

// isOver tells whether a chain is of a work whose row has its end, although no change of the row stands
// on the chain. Such a chain was opened between the row's beginning and its end.
func isOver(rows []ledger.Run, name chainName, opened opening) bool {
	return slices.ContainsFunc(rows, func(r ledger.Run) bool {
		began, err := time.Parse(time.RFC3339, r.Started)
		end, endErr := time.Parse(time.RFC3339, r.Finished) // cut to a millisecond, as the beginning
		return err == nil && endErr == nil && r.ID == RowOf(workOf(name, opened)) && !opened.at.Before(began) && opened.at.Before(end.Add(time.Millisecond))
	})
}

// RowOf is what the row of a work is called that is no task: a session may have a name that no
// folder can have everywhere.
func RowOf(work string) string {
	if atom.CheckAgentID(work) != nil {
		return "session-" + work
	}
	return work
}

// workOf names the work that a chain is of; records named it not always.
func workOf(name chainName, opened opening) string {
	if opened.Work == "" {
		return name.text
	}
	return opened.Work
}

// join adds a chain to the work that it is of, which is the latest or a new one.
func join(works []*work, name chainName, opened opening) []*work {
	of := workOf(name, opened)
	if len(works) > 0 {
		if last := works[len(works)-1]; last.session == name.session && last.name == of {
			last.chains = append(last.chains, name.text)
			return works
		}
	}
	return append(works, &work{session: name.session, name: of, opened: opened, chains: []string{name.text}})
}

func ended(r ledger.Run) bool {
	return r.DNA != "" && r.Status != ledger.Running && r.Status != ledger.Interrupted
}

// errEnough ends the reading of a chain.
var errEnough = errors.New("enough was read")

// openingOf reads what a session's chain begins with; the zero value where the session has
// not got so far.
func openingOf(inst *installation.Installation, chain string) (o opening, err error) {
	err = audit.Read(inst.AuditRoot(), chain, func(e audit.Entry) error {
		if e.Kind != nacre.KindSessionOpen {
			return nil
		}
		if err := json.Unmarshal(e.Detail, &o); err != nil {
			return fmt.Errorf("record %d, %s: %w", e.Seq, e.Kind, err)
		}
		o.anchor, o.at = anchorOf(chain, e), e.Time
		return errEnough
	})
	if errors.Is(err, errEnough) || err != nil && !errors.Is(err, audit.ErrTampered) {
		err = nil // a chain that is being made has no record yet
	}
	return o, err
}

func anchorOf(chain string, e audit.Entry) ledger.Anchor {
	return ledger.Anchor{Chain: chain, Seq: e.Seq, Hash: hex.EncodeToString(e.RecordHash[:])}
}

// enter writes the row of a work, or brings it forward.
func (w *work) enter(ctx context.Context, inst *installation.Installation, l *ledger.Ledger, known map[string]ledger.Run) error {
	name := w.dna()
	row, have := ledger.Run{}, false
	for _, chain := range w.chains {
		if row, have = known[chain]; have {
			break
		}
	}
	if have && row.DNA != name { // it is a task's, which says itself what becomes of it
		return nil
	}
	standing, title, err := w.standing(inst)
	if err != nil {
		return err
	}
	if !have {
		if w.opened.Role != "" && standing == ledger.Running { // a task that is about to enter itself
			return nil
		}
		if err := l.Begin(ctx, w.start(name, title)); errors.Is(err, ledger.ErrTaken) {
			return nil // somebody else has entered it meanwhile
		} else if err != nil {
			return err
		}
		row.Status = ledger.Running
	}
	if err := w.bring(ctx, inst, l, name, row.Status, standing); !errors.Is(err, ledger.ErrTransition) {
		return err
	}
	return nil // it moved meanwhile
}

// dna names the work: the same whenever it is asked for.
func (w *work) dna() string {
	var nonce [4]byte
	sum := sha256.Sum256([]byte(w.opened.anchor.Hash))
	copy(nonce[:], sum[:])
	return dna.Compose(atom.Task{Parameters: atom.Parameters{Role: w.opened.Kind}, Body: w.name}, nil, nonce).String()
}

// start is the row's beginning. The row bears the name of the work, which no task's agent
// that runs at the same time is kept from bearing: an agent's id has no such number.
func (w *work) start(name, title string) ledger.Start {
	asked := []byte(strings.TrimSuffix(w.opened.Kind+": "+title, ": "))
	if w.forgotten {
		asked = nil
	}
	return ledger.Start{
		ID: RowOf(w.name), Parent: w.opened.Parent, Role: w.opened.Kind, Session: string(w.session), Task: asked, SpecSHA: TaskDigest(string(asked)),
		DNA: name, Provider: w.opened.Brain, Anchor: w.opened.anchor, At: w.opened.at,
	}
}

// standing is where the work stands by what its session says, and the beginning of what
// was asked: Done means that it has ended, however.
func (w *work) standing(inst *installation.Installation) (ledger.Status, string, error) {
	s, err := inst.Registry.Show(w.session)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return ledger.Done, "", nil
	case err != nil:
		return "", "", err
	}
	w.forgotten, w.project = s.Title == registry.ForgottenTitle, s.Project
	switch {
	case s.LatestWork() != w.name && !slices.Contains(s.Chains, w.chains[0]):
		return ledger.Done, "", nil
	case s.Live():
		return ledger.Running, s.Title, nil
	case s.Resumable, s.Work != "" && w.goesOn:
		return ledger.Interrupted, s.Title, nil
	}
	return ledger.Done, s.Title, nil
}

// bring moves a row from where it is to where its work stands.
func (w *work) bring(ctx context.Context, inst *installation.Installation, l *ledger.Ledger, name string, from, to ledger.Status) error {
	if from == to {
		return nil
	}
	found, err := w.read(ctx, inst)
	if err != nil {
		return err
	}
	switch to {
	case ledger.Running:
		return l.Resume(ctx, name, found.last)
	case ledger.Interrupted:
		return l.Interrupt(ctx, name, found.why(), found.last)
	default:
	}
	end := ledger.End{
		Status: ledger.Failed, Summary: found.why(), CostMicroUSD: found.cost.MicroUSD, TokensIn: found.cost.InputTokens, TokensOut: found.cost.OutputTokens,
		Outcome: found.verdict(), Anchor: found.last, At: found.at,
	}
	if w.forgotten {
		end.Summary = ""
	}
	if found.held() {
		end.Status = ledger.Done
	}
	if err := l.Finish(ctx, name, end); err != nil || found.outcome != landed {
		return err
	}
	return l.Merge(ctx, name, ledger.Landing{Anchor: found.last})
}
