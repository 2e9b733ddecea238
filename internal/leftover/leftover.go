// Package leftover is what sessions leave that are over: work that did not land, which a
// person sees, takes or throws away, and the folders of old sessions (U-22).
//
// Nothing that an agent wrote is trusted here. Its files are read as a run reads them, and reach
// the project by the code that lands a run. Files that programs of the host obey are held until a
// person says what becomes of them (M-67). Work that did not land is removed only where a person
// says so of that very session.
package leftover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/task"
)

// takenChain is an operator's chain for what a person did with work that did not land.
const takenChain = "taken-"

// Work is what a session left, as far as its agent's files hold it.
type Work struct {
	Session nacre.SessionID `json:"session"`
	Project string          `json:"project"`
	// Branch is what the agent worked from, at the commit Base.
	Branch string `json:"branch"`
	Base   string `json:"base"`
	// Outcome is what its session came to, and Resumable says that a run can go on with it.
	Outcome   string         `json:"outcome"`
	Resumable bool           `json:"resumable,omitempty"`
	Changes   []nacre.Change `json:"changes"`
	// Left are files that cannot land, each with the reason.
	Left []string `json:"left,omitempty"`
	// Diff is what changed, as the agent wrote it. Cut says that there is more.
	Diff string `json:"diff"`
	Cut  bool   `json:"cut,omitempty"`
}

// Look reads what a session left. It changes nothing but what a process that was killed
// left half-done: killed is told what such a session planted.
func Look(ctx context.Context, inst *installation.Installation, id nacre.SessionID, killed func(operator.Killed)) (w Work, err error) {
	held, err := hold(ctx, inst, id, killed)
	if err != nil {
		return Work{}, err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	left, err := open(ctx, inst, held, nil, inst.Options.Now)
	if err != nil {
		return Work{}, err
	}
	return workOf(ctx, held, left)
}

func workOf(ctx context.Context, held *registry.Held, left *task.Leftover) (Work, error) {
	w := Work{
		Session: held.ID, Project: held.Project, Branch: left.Branch, Base: left.Base, Outcome: held.Outcome,
		Resumable: isUnfinished(held), Changes: changesOf(left.Changes.Files),
	}
	for _, s := range left.Changes.Skipped {
		w.Left = append(w.Left, s.Path+": "+s.Reason)
	}
	text, cut, err := left.Diff(ctx)
	w.Diff, w.Cut = string(text), cut
	return w, err
}

// Digest names all of the work: another one where anything of it changes.
func (w Work) Digest() (string, error) {
	text, err := json.Marshal(w)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// ErrShown is for a decision on work that is not what the person was shown.
var ErrShown = errors.New("the work has changed since it was shown: look at it again")

// shown refuses where somebody decides on something else than what they were shown.
func shown(ctx context.Context, held *registry.Held, left *task.Leftover, digest string) error {
	if digest == "" {
		return nil
	}
	w, err := workOf(ctx, held, left)
	if err != nil {
		return err
	}
	now, err := w.Digest()
	if err == nil && now != digest {
		err = ErrShown
	}
	return err
}

// hold takes a session that is over, once all that it left running or half-done has ended.
func hold(ctx context.Context, inst *installation.Installation, id nacre.SessionID, killed func(operator.Killed)) (*registry.Held, error) {
	known, err := inst.Registry.Show(id)
	switch {
	case err != nil:
		return nil, err
	case known.State == nacre.SessionRemoved:
		return nil, errors.Join(config.Errorf("%w: %s was removed; nacre show %s tells what is kept of it", registry.ErrUnknown, id, id), sweepOne(inst, id))
	case known.Live():
		return nil, config.Errorf("session %s is %s: nacre sessions stop %s ends it first", id, known.State, id)
	}
	if err := operator.Settle(ctx, inst, id, killed); err != nil {
		return nil, err
	}
	return inst.Registry.Adopt(id)
}

// isUnfinished tells whether a run can go on with the session's work.
func isUnfinished(held *registry.Held) bool { return held.Kind == "run" && held.Work != "" }

// recorder writes a record about a session's work.
type recorder func(ctx context.Context, rec nacre.Record, detail map[string]any) error

// open reads the work of a session that the caller holds.
// Commits that are made of it are dated now.
func open(ctx context.Context, inst *installation.Installation, held *registry.Held, record recorder, now func() time.Time) (*task.Leftover, error) {
	switch {
	case held.Kind != "run" && held.Project == "":
		return nil, config.Errorf("session %s is of the kind %s and had no project: what it wrote went with its sandbox; nacre show %s tells what it did", held.ID, held.Kind, held.ID)
	case held.Kind != "run":
		return nil, config.Errorf("session %s is of the kind %s, which works in the project itself: git -C %s diff shows what changed there", held.ID, held.Kind, held.Project)
	}
	spec, err := specOf(inst, held)
	if err == nil && spec.Audited != nil {
		err = task.ErrNothingLeft
	}
	if err != nil {
		return nil, told(held, err)
	}
	left, err := task.OpenLeft(ctx, task.LeftBy{
		Session: held.ID, Work: held.LatestWork(), Dir: held.Dir(), Spec: spec, Unmarked: held.Began.IsZero() && held.State == nacre.SessionDone, Now: now, Record: record,
	})
	return left, told(held, err)
}

// told says of which session an error is.
func told(held *registry.Held, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, task.ErrNothingLeft):
		return config.Errorf("session %s: %w; its outcome is %q: nacre show %s", held.ID, err, held.Outcome, held.ID)
	case !installation.IsThere(held.Project):
		return config.Errorf("session %s: its project %s is gone: put it there again, and the same command works; what its agent made lies in %s", held.ID, held.Project, filepath.Join(held.Dir(), task.WorkDir))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		if place, found := repo.Find(held.Project); found == nil && place.Writable() != nil {
			return config.Errorf("session %s: %w: make it writable, and the same command works", held.ID, place.Writable())
		}
	}
	return fmt.Errorf("session %s: %w", held.ID, err)
}

// specOf is what a session was asked to do, as far as that was not forgotten, with the
// paths that are nacre's own now.
func specOf(inst *installation.Installation, held *registry.Held) (task.Spec, error) {
	brain, _, _ := strings.Cut(held.Brain, " ")
	spec := task.Spec{Task: held.Title, Project: held.Project, Brain: brain}
	data, err := os.ReadFile(filepath.Join(held.Dir(), registry.SpecFile))
	if err == nil {
		err = json.Unmarshal(data, &spec)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return spec, err
	}
	own, err := installation.OwnBelow(inst, spec.Project)
	spec.Own = append(spec.Own, own...)
	return spec, err
}

func changesOf(files []repo.Change) []nacre.Change {
	list := make([]nacre.Change, 0, len(files))
	for _, c := range files {
		list = append(list, nacre.Change{Path: c.Path, Kind: string(c.Kind), Warning: c.Sensitive, Held: c.Held})
	}
	return list
}

// Held is what becomes of files that programs of the host obey. Its zero value takes
// nothing of work that has such files.
type Held string

// What a person may say of them.
const (
	HeldTake     Held = "take"
	HeldLeaveOut Held = "leave-out"
)

// ParseHeld reads what a person says; "" is the zero value.
func ParseHeld(text string) (Held, error) {
	switch h := Held(text); h {
	case "", HeldTake, HeldLeaveOut:
		return h, nil
	}
	return "", config.Errorf("--held %.20q: write %s or %s", text, HeldTake, HeldLeaveOut)
}

// HeldError names the files for which work waits.
type HeldError struct {
	Session nacre.SessionID
	Files   []nacre.Change
}

// maxHeldNamed is how many files an error names; nacre sessions diff names all.
const maxHeldNamed = 20

func (e *HeldError) Error() string {
	lines := []string{"programs of this machine obey files of this work, so that nothing of it was taken:"}
	for _, c := range e.Files[:min(len(e.Files), maxHeldNamed)] {
		lines = append(lines, fmt.Sprintf("%q: %s", c.Path, c.Warning))
	}
	if more := len(e.Files) - maxHeldNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(append(lines,
		fmt.Sprintf("nacre sessions diff %s shows them; then add --held take, or --held leave-out for the rest alone", e.Session)), "\n")
}

// Taking is what a person does with work that did not land.
type Taking struct {
	Session nacre.SessionID
	// Apart puts it on a branch of its own, and not on the one that it was made from.
	Apart bool
	Held  Held
	Who   string
	// Shown is the [Work.Digest] of what the person was shown; empty where that is not known.
	Shown string
	// Killed is told what the session planted where its process was killed.
	Killed func(operator.Killed)
}

// Taken is what became of it.
type Taken struct {
	Session nacre.SessionID `json:"session"`
	Branch  string          `json:"branch"`
	// Commit is empty where the branch had all of it already.
	Commit string `json:"commit,omitempty"`
	// Stayed says why it is on a branch of its own and not where it should have landed,
	// and Next the command that takes it.
	Stayed string `json:"stayed,omitempty"`
	Next   string `json:"next,omitempty"`
	// HeldBack are files that were not taken. They are still in the session.
	HeldBack []nacre.Change `json:"held_back,omitempty"`
}

// Take puts the files of a session where a person wants them, and ends its work: what was
// taken whole is removed from the session.
func Take(ctx context.Context, inst *installation.Installation, t Taking) (taken Taken, err error) {
	held, err := hold(ctx, inst, t.Session, t.Killed)
	if err != nil {
		return Taken{}, err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	record, closed, err := recording(ctx, inst, held, t)
	if err != nil {
		return Taken{}, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	now := inst.Options.Now
	if t.Apart { // the same commit again, where a process was killed that had made it
		now = func() time.Time { return held.Started }
	}
	left, err := open(ctx, inst, held, record, now)
	if err != nil {
		return Taken{}, err
	}
	if err := shown(ctx, held, left, t.Shown); err != nil {
		return Taken{}, err
	}
	taken.Session = t.Session
	if len(left.Changes.Files) == 0 {
		return Taken{}, told(held, task.ErrNothingLeft)
	}
	if !t.Apart {
		if taken.HeldBack, err = heldBack(left, t); err != nil {
			return Taken{}, err
		}
	}
	if err := held.Begins(); err != nil { // until it is settled, whoever looks completes it
		return Taken{}, err
	}
	outcome, err := move(ctx, left, t, &taken)
	if err != nil {
		return Taken{}, errors.Join(told(held, err), settled(held))
	}
	c := conclusion{outcome: outcome, who: t.Who, whole: len(taken.HeldBack) == 0}
	if !t.Apart && taken.Stayed == "" {
		c.row = ledger.Merged
	}
	return taken, c.say(ctx, inst, held)
}

// move puts the files where they are wanted, and says what the session came to.
func move(ctx context.Context, left *task.Leftover, t Taking, taken *Taken) (outcome string, err error) {
	var to task.Taken
	if t.Apart {
		to, err = left.Keep(ctx)
		outcome = "kept on " + to.Branch
	} else {
		to, err = left.Land(ctx, pathsOf(taken.HeldBack))
		outcome = "applied"
	}
	taken.Branch, taken.Commit, taken.Stayed, taken.Next = to.Branch, to.Commit, to.Stayed, to.Next
	if to.Stayed != "" {
		outcome = "kept on a branch of its own"
	}
	return outcome, err
}

// settled says that nothing is half-done, unless a landing is: the next one who looks
// completes it.
func settled(held *registry.Held) error {
	journal := filepath.Join(task.StateOf(held.Dir(), held.LatestWork()), repo.JournalFile)
	if _, err := os.Lstat(journal); err == nil {
		return nil
	}
	return held.Settled()
}

// heldBack are the files that stay in the session; an error where a person has to say
// first what becomes of them.
func heldBack(left *task.Leftover, t Taking) ([]nacre.Change, error) {
	sensitive := changesOf(left.Changes.Held())
	switch {
	case len(sensitive) == 0 || t.Held == HeldTake:
		return nil, nil
	case t.Held != HeldLeaveOut:
		return nil, &HeldError{Session: t.Session, Files: sensitive}
	case len(sensitive) == len(left.Changes.Files):
		return nil, config.Errorf("session %s: all files of this work are held, so that nothing is left to take", t.Session)
	}
	return sensitive, nil
}

func pathsOf(changes []nacre.Change) []string {
	paths := make([]string, 0, len(changes))
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths
}

// conclusion is what a session's work comes to, by a person.
type conclusion struct {
	outcome, who string
	// row is what its rows in the ledger come to; "" leaves them.
	row ledger.Status
	// whole says that nothing is lost where its files go.
	whole bool
}

// say ends a session's work. Its files go last: as long as they are there, the same command
// does again what it was killed before.
func (c conclusion) say(ctx context.Context, inst *installation.Installation, held *registry.Held) error {
	why := c.outcome + " by " + c.who
	if err := operator.EndWork(ctx, inst, held, c.outcome, why); err != nil {
		return err
	}
	if c.row != "" {
		if err := settleRows(ctx, inst, held, c.row, why); err != nil {
			return err
		}
	}
	if c.whole {
		if err := task.DiscardLeft(held.Dir()); err != nil {
			return err
		}
	}
	return held.Settled()
}

// Discard throws away what a session left, and ends its work for good.
func Discard(ctx context.Context, inst *installation.Installation, t Taking) (err error) {
	held, err := hold(ctx, inst, t.Session, t.Killed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	if !task.IsLeft(held.Dir()) && !isUnfinished(held) {
		return told(held, task.ErrNothingLeft)
	}
	if t.Shown != "" {
		left, err := open(ctx, inst, held, nil, inst.Options.Now)
		if err == nil {
			err = shown(ctx, held, left, t.Shown)
		}
		if err != nil {
			return err
		}
	}
	record, closed, err := recording(ctx, inst, held, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	if err := record(ctx, nacre.Record{Kind: nacre.KindOutcome, Outcome: "discarded"}, map[string]any{}); err != nil {
		return err
	}
	return conclusion{outcome: "discarded", who: t.Who, row: ledger.Rejected, whole: true}.say(ctx, inst, held)
}

// recording opens a chain of the operator's own for what is done with a session's work.
func recording(ctx context.Context, inst *installation.Installation, held *registry.Held, t Taking) (recorder, func() error, error) {
	chain, closed, err := operator.Chain(ctx, inst, takenChain)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, rec nacre.Record, detail map[string]any) error {
		detail["by"] = t.Who
		if t.Shown != "" {
			detail["shown"] = t.Shown
		}
		raw, err := json.Marshal(detail)
		if err != nil {
			return err
		}
		rec.Time, rec.Session, rec.Group, rec.Source, rec.Detail = inst.Options.Now(), held.ID, held.Group, "operator", raw
		return chain.Commit(ctx, rec)
	}, closed, nil
}
