package repo

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo/git"
)

// maxSideBranches bounds the search for a free nacre/<session> branch.
const maxSideBranches = 100

// Intent is what is about to move, told before it does.
type Intent struct {
	Session nacre.SessionID `json:"session"`
	// Ref is full, such as refs/heads/main.
	Ref string `json:"ref"`
	// Old is "" for a ref that is made.
	Old Commit `json:"old,omitempty"`
	New Commit `json:"new"`
	// Files tells that the user's files and index follow.
	Files bool `json:"files"`
}

// LandRequest asks for a branch to be moved to a verified commit.
type LandRequest struct {
	Session nacre.SessionID
	// Branch is the target, without refs/heads/; "" where HEAD was detached.
	Branch string
	// Expect is the commit of the branch that was merged onto and verified.
	Expect Commit
	// Commit is the verified one; Expect must be among its ancestors.
	Commit Commit
	// Live says that the files are the ones that the work was done in: they stay, and
	// the index of the branch that is checked out follows.
	Live bool
	// Intent records what is about to move; its error stops the landing.
	Intent func(context.Context, Intent) error
}

// Landed is a landing that is complete.
type Landed struct {
	Session nacre.SessionID `json:"session"`
	// Ref that moved, and where to.
	Ref    string `json:"ref"`
	Commit Commit `json:"commit"`
	// Files tells that the user's files and index were updated.
	Files bool `json:"files"`
	// Left are files that somebody changed meanwhile: they were not touched.
	Left []string `json:"left,omitempty"`
}

// landing moves verified work into a person's repository.
type landing struct {
	worktree
	journals journals
	now      func() time.Time
	// reached is told each step; tests end the process in it.
	reached func(step string)
}

// Land moves the branch to exactly the verified commit, if it is still where it was expected.
// Moving the ref is the commit point (S-12). Where the branch is checked out in this work tree, its
// clean files and index follow, under git's own lock. The user's hooks and filters do not run.
//
// Errors to act on: *MovedError (merge and verify again) and *StayedError. The latter comes where
// the work tree changed the same files or is busy, or the branch is checked out elsewhere. The
// commit is then complete on a branch of its own, which Landed names. Landing again what has landed
// is no error. After a crash, Recover completes it.
func (p *Project) Land(ctx context.Context, r LandRequest) (Landed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkLanding(ctx, r); err != nil {
		return Landed{}, err
	}
	if _, err := p.recover(ctx); err != nil {
		return Landed{}, err
	}
	if err := p.export(ctx, r.Commit, r.Expect); err != nil {
		return Landed{}, fmt.Errorf("land: %w", err)
	}
	if r.Branch == "" {
		return p.stay(ctx, r, string(r.Session), "HEAD is not on a branch")
	}
	have, err := p.readRef(ctx, "refs/heads/"+r.Branch)
	if err != nil {
		return Landed{}, err
	}
	done := Landed{Session: r.Session, Ref: "refs/heads/" + r.Branch, Commit: r.Commit}
	if have == r.Commit || have != r.Expect && p.Contains(ctx, have, r.Commit) {
		return done, nil
	}
	if have != r.Expect {
		return Landed{}, &MovedError{Branch: r.Branch, Want: r.Expect, Have: have}
	}
	here, elsewhere, err := p.checkedOut(ctx, r.Branch)
	if err == nil {
		err = p.refuseAlias(ctx, done.Ref)
	}
	switch {
	case err != nil:
		return Landed{}, err
	case elsewhere != "":
		return p.stay(ctx, r, string(r.Session), fmt.Sprintf("branch %s is checked out in %s", r.Branch, elsewhere))
	case here:
		return p.landHere(ctx, r)
	}
	return done, p.moveOnly(ctx, r, done.Ref, r.Expect)
}

func (p *landing) checkLanding(ctx context.Context, r LandRequest) error {
	_, badSession := nacre.ParseSessionID(string(r.Session))
	_, badExpect := ParseCommit(string(r.Expect))
	_, badCommit := ParseCommit(string(r.Commit))
	if err := errors.Join(badSession, badExpect, badCommit); err != nil {
		return err
	}
	if r.Intent == nil {
		return errors.New("land: nothing records the intent")
	}
	if r.Branch != "" {
		if err := checkBranch(r.Branch); err != nil {
			return err
		}
	}
	if _, err := p.own(ctx, "merge-base", "--is-ancestor", string(r.Expect), string(r.Commit)); err != nil {
		return fmt.Errorf("land: commit %.12s does not follow %.12s: %w: %w", r.Commit, r.Expect, ErrNotForward, err)
	}
	return p.plainGitDir(r.Branch)
}

// Contains reports whether a branch that went on holds what had landed there.
func (o *objects) Contains(ctx context.Context, head, landed Commit) bool {
	if head == "" {
		return false
	}
	_, err := o.own(ctx, "merge-base", "--is-ancestor", string(landed), string(head))
	return err == nil
}

// refuseAlias refuses a branch that only stands for another one.
func (h *host) refuseAlias(ctx context.Context, ref string) error {
	target, err := h.program.Line(ctx, h.theirs("symbolic-ref", "-q", ref))
	switch {
	case err == nil:
		return fmt.Errorf("branch %s stands for %s: name that one", ref, target)
	case git.ExitCode(err) == 1:
		return nil
	}
	return fmt.Errorf("%s: %w", ref, err)
}

// moveOnly moves a ref that no work tree here follows.
func (p *landing) moveOnly(ctx context.Context, r LandRequest, ref string, old Commit) error {
	if old == r.Commit {
		return nil
	}
	j := journal{Intent: Intent{Session: r.Session, Ref: ref, Old: old, New: r.Commit}}
	if err := p.announce(ctx, r, j); err != nil {
		return err
	}
	if err := p.swap(ctx, j.Intent); err != nil {
		return errors.Join(err, p.journals.forget())
	}
	p.reached("swapped")
	return p.journals.forget()
}

// announce writes the journal, then the caller's record: from here on a crash
// is completed or found undone by Recover.
func (p *landing) announce(ctx context.Context, r LandRequest, j journal) error {
	if err := p.journals.write(j); err != nil {
		return err
	}
	p.reached("journal")
	if err := r.Intent(ctx, j.Intent); err != nil {
		return errors.Join(fmt.Errorf("land: record the intent: %w", err), p.journals.forget())
	}
	p.reached("intent")
	return nil
}

// swap is the compare-and-swap. Its failure says where the ref is instead. Once
// begun it is not broken off: git takes milliseconds for it, and would leave
// its locks behind.
func (p *landing) swap(ctx context.Context, i Intent) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("move %s: %w", i.Ref, err)
	}
	ctx = context.WithoutCancel(ctx)
	old := cmp.Or(string(i.Old), strings.Repeat("0", len(i.New)))
	c := p.theirs("update-ref", "--no-deref", "-m", "nacre: session "+string(i.Session), i.Ref, string(i.New), old)
	c.Env = identity("COMMITTER", hostName, hostEmail, p.now())
	_, err := p.git.Run(ctx, c)
	if err == nil {
		return nil
	}
	// An error may come after the ref moved, such as a deadline's.
	have, readErr := p.readRef(ctx, i.Ref)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case have == i.New:
		return nil
	case have != i.Old:
		return &MovedError{Branch: strings.TrimPrefix(i.Ref, "refs/heads/"), Want: i.Old, Have: have}
	}
	return fmt.Errorf("move %s: %w", i.Ref, err)
}

// stay keeps the commit on a branch of its own: nacre/<session>, or the first
// free one after it, since earlier work of the session may still be there.
func (p *landing) stay(ctx context.Context, r LandRequest, side, reason string) (Landed, error) {
	for _, separator := range []string{"/", "-"} {
		for i := 1; i <= maxSideBranches; i++ {
			branch := "nacre" + separator + side
			if i > 1 {
				branch += fmt.Sprintf(".%d", i)
			}
			free, err := p.sideBranch(ctx, r, branch)
			if err != nil {
				return Landed{}, err
			}
			if free == sideTaken {
				continue
			}
			if free == sideBlocked {
				break
			}
			landed := Landed{Session: r.Session, Ref: "refs/heads/" + branch, Commit: r.Commit}
			return landed, &StayedError{Branch: branch, Commit: r.Commit, Reason: reason}
		}
	}
	return Landed{}, fmt.Errorf("%s, and there is no free branch nacre/%s: delete old ones", reason, side)
}

type sideResult int

const (
	sideTaken sideResult = iota
	// sideBlocked is a branch named like a directory of its name, such as "nacre".
	sideBlocked
	sideMade
)

func (p *landing) sideBranch(ctx context.Context, r LandRequest, branch string) (sideResult, error) {
	ref := "refs/heads/" + branch
	have, err := p.readRef(ctx, ref)
	switch {
	case err != nil:
		return sideTaken, err
	case have == r.Commit:
		return sideMade, nil
	case have != "":
		return sideTaken, nil
	}
	for _, parent := range parents(branch) {
		if above, err := p.readRef(ctx, "refs/heads/"+parent); err != nil || above != "" {
			return sideBlocked, err
		}
	}
	if below, err := p.program.Line(ctx, p.theirs("for-each-ref", "--count=1", ref+"/")); err != nil || below != "" {
		return sideTaken, err
	}
	if err := p.plainGitDir(branch); err != nil {
		return sideTaken, err
	}
	return sideMade, p.moveOnly(ctx, r, ref, "")
}

// HeldElsewhere says where else the project's branch is checked out; "" is nowhere.
func HeldElsewhere(ctx context.Context, p *Project) (string, error) {
	_, elsewhere, err := p.checkedOut(ctx, p.Branch)
	return elsewhere, err
}

// checkedOut says whether a branch is checked out in this work tree, and
// otherwise where else, or "".
func (h *host) checkedOut(ctx context.Context, branch string) (here bool, elsewhere string, err error) {
	dirs := []string{h.place.commonDir}
	linked, err := os.ReadDir(filepath.Join(h.place.commonDir, "worktrees"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, "", fmt.Errorf("worktrees: %w", err)
	}
	for _, e := range linked {
		dirs = append(dirs, filepath.Join(h.place.commonDir, "worktrees", e.Name()))
	}
	for _, dir := range dirs {
		holds, err := h.holds(ctx, dir, branch)
		if err != nil {
			return false, "", err
		}
		switch {
		case holds && dir == h.place.gitDir:
			here = true
		case holds && elsewhere == "":
			elsewhere = workTreeOf(dir)
		}
	}
	return here, elsewhere, nil
}

// holds reports whether a worktree's HEAD, or a rebase or bisection in it, is
// on the branch. A bare repository's HEAD holds nothing.
func (h *host) holds(ctx context.Context, gitDir, branch string) (bool, error) {
	c := h.theirs()
	c.GitDir = gitDir
	head, err := h.program.Head(ctx, c)
	if err != nil {
		return false, fmt.Errorf("worktree %s: %w", gitDir, err)
	}
	if head.Ref == "refs/heads/"+branch {
		return !head.Bare, nil
	}
	for _, name := range []string{"rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"} {
		text, err := readOptional(filepath.Join(gitDir, name), maxPointer)
		if err != nil {
			return false, fmt.Errorf("worktree %s: %w", gitDir, err)
		}
		if on := strings.TrimSpace(string(text)); on == "refs/heads/"+branch || on == branch {
			return true, nil
		}
	}
	return false, nil
}

// workTreeOf names a worktree for a message.
func workTreeOf(gitDir string) string {
	if back, err := pointer(filepath.Join(gitDir, "gitdir"), ""); err == nil {
		return filepath.Dir(back)
	}
	return filepath.Dir(gitDir)
}

// token is unguessable, and names this landing's files and lock.
func token() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
