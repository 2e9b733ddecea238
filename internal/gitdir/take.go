package gitdir

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/basis"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/large"
)

// Landing says what becomes of the commits that an agent made. The zero value keeps
// them on branches of their own.
type Landing struct {
	// Forward moves the user's branch to commits that follow it.
	Forward bool
	// Ask, where set, is asked before the user's branch moves, and returns who said yes:
	// empty for a no. What programs of the host obey lands with such a yes alone.
	Ask func(ctx context.Context, o Offer) (by string)
}

// Offer is what would land on the user's branch.
type Offer struct {
	Branch  string
	Commits int
	Changes []nacre.Change
	// Added and Removed are how many lines.
	Added, Removed int
}

// Taken is what became of the agent's git directory.
type Taken struct {
	Branches []Branch `json:"branches,omitempty"`
	// Differ are files that are not as the host's HEAD has them, once commits were taken
	// or the command checked something else out.
	Differ int `json:"files_differ,omitempty"`
	// Notes say what was not taken, and why.
	Notes []string `json:"notes,omitempty"`
}

// Branch is one branch with new commits.
type Branch struct {
	// Name is the agent's, such as fix/date; On the one that has them now.
	Name    string `json:"name"`
	On      string `json:"on"`
	Commits int    `json:"commits"`
	Commit  string `json:"commit"`
	// Here tells that it is the branch that the user has checked out.
	Here bool `json:"here,omitempty"`
	// Held are files that programs of the host obey, for which the user's branch was not
	// moved: at most the first twenty.
	Held []string `json:"held,omitempty"`
	// Stayed says why the user's branch was not moved, where it should have been.
	Stayed string `json:"stayed,omitempty"`
	// By is who said that it moves, where somebody was asked.
	By string `json:"by,omitempty"`
}

// Lines say it to a person.
func (t Taken) Lines() []string {
	var lines []string
	for _, b := range t.Branches {
		text := fmt.Sprintf("%d commits on %s", b.Commits, b.Name)
		if b.Commits == 1 {
			text = "1 commit on " + b.Name
		}
		switch {
		case b.On == b.Name:
			text += ": the branch was moved there"
		case b.Here: // its files are here already, and git would not merge over them
			text += fmt.Sprintf(", kept as %s: `git reset %s` moves %s there and leaves the files as they are", b.On, b.On, b.Name)
		default:
			text += ", kept as " + b.On
		}
		if b.Stayed != "" {
			text += " (" + b.Stayed + ")"
		}
		lines = append(lines, text)
	}
	if t.Differ > 0 {
		files := "1 of the files differs"
		if t.Differ > 1 {
			files = fmt.Sprintf("%d of the files differ", t.Differ)
		}
		lines = append(lines, files+" from your HEAD, which stays where it was: see git status")
	}
	return append(lines, t.Notes...)
}

// Take takes the commits that the session's command made, and those that a session
// left which ended without it. What is refused is told in a note, and kept aside once.
func (d *Dir) Take(ctx context.Context, s *basis.Basis, how Landing, l Limits) (Taken, error) {
	if d == nil {
		return Taken{}, nil
	}
	var taken Taken
	works, err := filepath.Glob(filepath.Join(d.room, "work-*"))
	if err != nil {
		return taken, err
	}
	again := false
	for _, work := range works {
		one := how
		if work == d.work && !d.changed() {
			d.going = make(chan error, 1)
			go func() { d.going <- registry.Discard(work) }()
			continue
		}
		if work != d.work {
			one = Landing{} // whoever wanted them moved is gone
		}
		if failed := d.takeFrom(ctx, s, work, one, l, &taken); failed != nil {
			if ctx.Err() != nil || s.Context().Err() != nil {
				again = true // the next session has another try
				continue
			}
			if shut := d.waits(failed); shut != nil { // and so it has where the operator can put it right
				taken.Notes = append(taken.Notes, fmt.Sprintf("the commits of session %s wait: %v; once that is put right, the next session in this project takes them",
					strings.TrimPrefix(filepath.Base(work), "work-"), shut))
				again = true
				continue
			}
			kept := filepath.Join(d.room, "refused")
			taken.Notes = append(taken.Notes, fmt.Sprintf("the commits of session %s were not taken: %v; until the next time they lie in %s",
				strings.TrimPrefix(filepath.Base(work), "work-"), failed, kept))
			err = errors.Join(err, registry.Discard(kept), os.Rename(work, kept), disarm(filepath.Join(kept, "git")))
			continue
		}
		err = errors.Join(err, registry.Discard(work))
	}
	if again { // a landing that is half-done is noted there
		return taken, err
	}
	return taken, errors.Join(err, registry.Discard(d.hosts()))
}

// hostError is what the host's repository did not do: the commits may well be right.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

// waits says why the host's repository could not take what failed to be taken. It cannot be
// written, its disk is full, it is gone, or another program has locked it. It is nil where the
// commits themselves are what is wrong.
func (d *Dir) waits(failed error) error {
	for _, why := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(failed, why) {
			return fmt.Errorf("%s cannot be written (%w)", d.place.CommonDir, why)
		}
	}
	if shut := d.place.Writable(); shut != nil {
		return shut
	}
	var host hostError
	if !errors.As(failed, &host) {
		return nil
	}
	why, _, _ := strings.Cut(host.Error(), "\n") // git says more
	return errors.New(strings.TrimSuffix(why, "."))
}

// disarm takes out of a git directory what git obeys there: a person may look into it.
func disarm(dir string) error {
	var errs []error
	for _, name := range []string{"config", "config.worktree", "commondir", "hooks", "info", "modules", "worktrees"} {
		errs = append(errs, registry.Discard(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// hosts is the host's own git directory over the same repository.
func (d *Dir) hosts() string { return filepath.Join(d.room, "host") }

// changed tells, without reading what the agent wrote, whether there can be commits or
// another HEAD. Names of objects and tags are looked at, and when HEAD was replaced.
func (d *Dir) changed() bool {
	if now, err := markOf(filepath.Join(d.git(), "HEAD")); err != nil || now != d.made {
		return true
	}
	entries, err := os.ReadDir(filepath.Join(d.git(), "objects"))
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "info" }) {
		return true
	}
	entries, err = os.ReadDir(filepath.Join(d.git(), tagPrefix))
	return err != nil || len(entries) > 0
}

// takeFrom takes what one session's git directory has.
func (d *Dir) takeFrom(ctx context.Context, s *basis.Basis, work string, how Landing, l Limits, taken *Taken) error {
	text, err := disk.Read(filepath.Join(work, "session.json"), maxRef)
	if errors.Is(err, os.ErrNotExist) {
		return nil // its session never began
	}
	var m meta
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return err
	}
	text, err = os.ReadFile(filepath.Join(work, "known")) // the host's own
	if err != nil {
		return err
	}
	known := knownIDs(text)
	old := map[repo.Commit]bool{}
	for _, id := range known {
		old[repo.Commit(id)] = true
	}
	tips, file, err := pack(ctx, s, d.place, work, old, l)
	if err != nil {
		return err
	}
	known = known[:min(len(known), maxKnown)]
	fresh, notes, err := sift(tips, l)
	taken.Notes = append(taken.Notes, notes...)
	if err != nil {
		return err
	}
	project, err := repo.Open(ctx, d.place.Top, repo.Options{StateDir: d.hosts(), Base: m.Base, Now: s.Inst.Options.Now})
	if err == nil {
		_, err = project.Recover(ctx)
	}
	if err != nil {
		return hostError{err}
	}
	if len(fresh) > 0 {
		err = d.land(ctx, s, landing{project: project, meta: m, how: how, fresh: fresh, known: known, file: file, git: filepath.Join(work, "git"), below: d.below, limits: l}, taken)
	}
	dirty, failed := project.Dirty(ctx)
	if failed == nil {
		taken.Differ = d.differing(ctx, dirty)
	}
	return errors.Join(err, failed)
}

// sift keeps the tips that have a branch's name. What no other branch has of one whose name is not
// taken comes under a name that no branch has.
func sift(tips []tip, l Limits) (fresh []tip, notes []string, err error) {
	stashes, named, tags, odd := 0, map[repo.Commit]string{}, []tip(nil), []tip(nil)
	for _, t := range tips {
		name, isBranch := strings.CutPrefix(t.name, "refs/heads/")
		switch {
		case t.name == "HEAD":
			if named[t.id] != "" {
				continue
			}
			name = "detached"
		case strings.HasPrefix(t.name, tagPrefix):
			tags = append(tags, t)
			continue
		case t.name == "refs/stash":
			stashes++
			name = fmt.Sprintf("stash-%d", stashes)
		case !isBranch:
			notes = append(notes, fmt.Sprintf("%.80q was not taken: it is not a branch", name))
			continue
		case len(name) > l.Name || !isBranchName(name):
			odd = append(odd, tip{t.id, name})
			continue
		}
		named[t.id] = name
		if fresh = append(fresh, tip{t.id, name}); len(fresh) > l.Refs {
			return nil, notes, fmt.Errorf("more than %d branches are new", l.Refs)
		}
	}
	for _, t := range odd {
		if named[t.id] == "" {
			named[t.id] = unused(tips, "odd")
			tips = append(tips, tip{t.id, "refs/heads/" + named[t.id]})
			fresh = append(fresh, tip{t.id, named[t.id]})
		}
		notes = append(notes, fmt.Sprintf("the branch %.80q comes as %s: nacre takes the letters a to z, digits and %s in a name", t.name, named[t.id], nameMarks))
	}
	if len(fresh) > l.Refs {
		return nil, notes, fmt.Errorf("more than %d branches are new", l.Refs)
	}
	return fresh, append(notes, tagNotes(tags)...), nil
}

// unused is a name that none of these branches has.
func unused(tips []tip, kind string) string {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s-%d", kind, n)
		if !slices.ContainsFunc(tips, func(t tip) bool { return t.name == "refs/heads/"+name }) {
			return name
		}
	}
}

// maxTagsNamed is how many new tags are named.
const maxTagsNamed = 10

// tagNotes say what tags there are inside: none is taken, since whoever pushes all of theirs
// would publish it.
func tagNotes(tags []tip) (notes []string) {
	for _, t := range tags[:min(len(tags), maxTagsNamed)] {
		name, leads, _ := strings.Cut(strings.TrimPrefix(t.name, tagPrefix), " ")
		switch {
		case !isBranchName(name):
			notes = append(notes, fmt.Sprintf("the tag %.80q was not taken: nacre takes the letters a to z, digits and %s in a name", name, nameMarks))
		case !isID(leads):
			notes = append(notes, fmt.Sprintf("the tag %.80s was not taken: it leads to no commit", name))
		default:
			notes = append(notes, fmt.Sprintf("the tag %.80[1]s was not taken: `git tag %.80[1]s %.12[2]s` makes it", name, leads))
		}
	}
	if len(tags) > maxTagsNamed {
		notes = append(notes, fmt.Sprintf("more than %d tags are new, and were not taken", maxTagsNamed))
	}
	return notes
}

// nameMarks may be in a branch's name beside letters and digits.
const nameMarks = "-_./+#="

// isBranchName takes fewer names than git: what a terminal or a shell could take for
// something else is none.
func isBranchName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.Contains(name, "..") && strings.IndexFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(nameMarks, c)
	}) < 0
}

// landing is what is taken into a project.
type landing struct {
	project *repo.Project
	meta    meta
	how     Landing
	fresh   []tip
	known   []string
	file    string
	git     string // the agent's git directory
	below   string // the folder that the session had, where that was not all
	limits  Limits
}

// land checks the pack in the host's own git directory and moves what is to move.
func (d *Dir) land(ctx context.Context, s *basis.Basis, l landing, taken *Taken) error {
	if err := l.take(ctx); err != nil {
		return fmt.Errorf("git refuses the pack: %w", err)
	}
	if err := large.Take(ctx, l.git, d.place.CommonDir, l.limits.Pack); err != nil {
		return err
	}
	for _, t := range l.fresh {
		n, err := repo.CountNew(ctx, l.project, t.id, l.known)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		b := Branch{Name: t.name, Commit: string(t.id), Commits: n, Here: t.name == l.meta.Branch}
		if err := l.branch(ctx, s, t, &b); err != nil {
			return err
		}
		taken.Branches = append(taken.Branches, b)
		if d.signs && strings.HasPrefix(b.On, "nacre/") {
			taken.Notes = append(taken.Notes, "your git signs commits, and these are not signed: `nacre sessions sign "+strings.Replace(strings.TrimPrefix(b.On, "nacre/"), "/", " --branch ", 1)+"` asks, and signs them")
		}
	}
	return nil
}

// take takes the pack. A small one can stand for the work of days.
func (l landing) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.limits.Time)
	defer cancel()
	file, err := os.Open(l.file)
	if err != nil {
		return err
	}
	return errors.Join(repo.Take(ctx, l.project, bufio.NewReader(file), l.limits.Pack), file.Close())
}

// branch lands one tip: on the user's own branch where that was asked for, else on
// nacre/SESSION, or nacre/SESSION/BRANCH where there are several.
func (l landing) branch(ctx context.Context, s *basis.Basis, t tip, b *Branch) error {
	r := repo.LandRequest{
		Session: l.meta.Session, Branch: t.name, Expect: l.meta.Base, Commit: t.id, Live: true,
		Intent: func(ctx context.Context, i repo.Intent) error {
			return record(ctx, s, nacre.Record{Kind: nacre.KindMergeIntent}, movement{Ref: i.Ref, From: l.meta.Base, To: i.New})
		},
	}
	b.On = t.name
	if l.landed(ctx, t) {
		if l.said(s, t) {
			return nil
		}
		return l.done(ctx, s, t, b)
	}
	moves, err := l.moves(ctx, t, b)
	if err != nil {
		return err
	}
	if moves {
		_, err = l.project.Land(ctx, r)
	}
	var stayed *repo.StayedError
	var moved *repo.MovedError
	switch {
	case moves && err == nil:
	case errors.As(err, &stayed):
		b.On, b.Stayed = stayed.Branch, stayed.Reason
	case !moves, errors.As(err, &moved), errors.Is(err, repo.ErrNotForward):
		if moves {
			b.Stayed = err.Error()
		}
		side := string(l.meta.Session)
		if len(l.fresh) > 1 {
			side += "/" + t.name
		}
		if b.On, err = repo.Keep(ctx, l.project, r, side); err != nil {
			return hostError{err}
		}
	default:
		return hostError{err}
	}
	return l.done(ctx, s, t, b)
}

// landed tells whether the user's branch has the tip already: it was moved there by a nacre
// that was killed before it could say so (F-105).
func (l landing) landed(ctx context.Context, t tip) bool {
	head, err := l.project.Head(ctx, t.name)
	return err == nil && l.project.Contains(ctx, head, t.id) // one that is not there has nothing
}

// said tells whether its session's records have the end of a move already: it was killed after it said so, before it
// forgot the commits. What cannot be read is said once more.
func (l landing) said(s *basis.Basis, t tip) (said bool) {
	earlier, err := s.Inst.Registry.Show(l.meta.Session)
	if err != nil {
		return false
	}
	err = installation.EachRecord(s.Inst, earlier.Chains, func(r nacre.Record) error {
		var move movement
		if r.Kind == nacre.KindMergeDone && json.Unmarshal(r.Detail, &move) == nil {
			said = said || move.To == t.id
		}
		return nil
	})
	return said && err == nil
}

// done records where the tip is now.
func (l landing) done(ctx context.Context, s *basis.Basis, t tip, b *Branch) error {
	outcome := "landed"
	if b.On != b.Name {
		outcome = "kept on " + b.On
	}
	return record(ctx, s, nacre.Record{Kind: nacre.KindMergeDone, Outcome: outcome}, movement{Branch: b, Ref: "refs/heads/" + b.On, From: l.meta.Base, To: t.id})
}

// movement is what the records of a landing hold.
type movement struct {
	*Branch
	Ref  string      `json:"ref"`
	From repo.Commit `json:"from"`
	To   repo.Commit `json:"to"`
}

// moves tells whether the user's own branch is to move. What programs of the host obey
// does not land unseen (M-67): where no person says so, the commits wait.
func (l landing) moves(ctx context.Context, t tip, b *Branch) (bool, error) {
	wanted := l.how.Forward || l.how.Ask != nil
	if t.name != l.meta.Branch || !wanted && l.below == "" {
		return false, nil
	}
	changes, err := l.project.Changes(ctx, repo.Tree(l.meta.Base), repo.Tree(t.id))
	if err != nil {
		return false, err
	}
	if l.below != "" {
		if others := outside(changes, l.below); len(others) > 0 { // whose files here are as they were
			b.Here, b.Stayed = false, fmt.Sprintf("it changes files outside of %.200q, such as %.200q", l.below, others[0].Path)
			return false, nil
		}
	}
	if !wanted {
		return false, nil
	}
	held := changes.Held()
	for _, c := range held[:min(len(held), maxHeldNamed)] {
		b.Held = append(b.Held, c.Path)
	}
	if l.how.Ask != nil && len(held) <= maxHeldNamed {
		added, removed := changes.Lines()
		b.By = l.how.Ask(ctx, Offer{Branch: t.name, Commits: b.Commits, Changes: changes.Listed(), Added: added, Removed: removed})
		return b.By != "", ctx.Err()
	}
	if len(held) > 0 {
		b.Stayed = fmt.Sprintf("%s was not moved: %s", t.name, heldText(held))
	}
	return len(held) == 0, nil
}

// maxHeldNamed is how many files are named that keep a branch from moving.
const maxHeldNamed = 20

// heldText names the first of the files, with the reason.
func heldText(held []repo.Change) string {
	text := fmt.Sprintf("%.200q changes, and a person has to look at it first: %s", held[0].Path, held[0].Sensitive)
	if more := len(held) - 1; more > 0 {
		text += fmt.Sprintf("; so it is with %d more", more)
	}
	return text
}

func record(ctx context.Context, s *basis.Basis, r nacre.Record, detail movement) (err error) {
	r.Source = "core"
	if r.Detail, err = json.Marshal(detail); err != nil {
		return err
	}
	return s.Recorder.Commit(ctx, r)
}

// Protects takes .git out of what is protected in the project: the agent's own is
// laid over it.
func (d *Dir) Protects(names []string) []string {
	if d == nil || d.below != "" {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == ".git" })
}

// Lay adds the git directory to what a session may reach.
func (d *Dir) Lay(in *posture.Input) {
	if d != nil && d.below == "" {
		in.Mounts = append(in.Mounts, d.Mounts()...)
	}
}

// maxAround is how much may be written around a project that is a folder of a repository,
// where git puts files of the others: they are in memory, in bytes.
const maxAround = 512 << 20

// Place lays the git directory around a project that is a folder of a repository: the top
// is where the project would be, and the project is below it.
func (d *Dir) Place(p nacre.Posture) nacre.Posture {
	if d == nil || d.below == "" {
		return p
	}
	first := slices.IndexFunc(p.Mounts, func(m nacre.Mount) bool { return m.Target == posture.Workspace })
	mounts := slices.Clone(p.Mounts)
	for i, m := range mounts {
		if rest, below := strings.CutPrefix(m.Target, posture.Workspace); below && (rest == "" || rest[0] == '/') {
			mounts[i].Target = posture.Workspace + "/" + d.below + rest
		}
	}
	p.Mounts = append(slices.Insert(mounts, max(first, 0), nacre.Mount{Kind: nacre.Tmpfs, Target: posture.Workspace, Size: maxAround}), d.Mounts()...)
	p.Dir = posture.Workspace + "/" + d.below
	p.Env = append(slices.Clip(p.Env), "GIT_DISCOVERY_ACROSS_FILESYSTEM=1") // the project is a mount in the work tree
	return p
}
