// Package repo promises that an agent's files reach the user's project whole or not at all, and
// byte for byte as they were verified (S-11, S-12). The agent works in a private clone, and this
// program reads its files back, never git run on metadata that the agent could write. git serves
// only as an object store of the host's own and as a merge engine. Nothing that the project's own
// configuration, hooks, filters or attributes name is ever run.
//
// It does not decide: verification is between Snapshot and Land, and is the
// caller's. It does not sandbox, fetch, push, or touch submodules' contents. It
// writes files raw, so a project's clean and smudge filters (such as LFS) are
// not applied to what lands.
package repo

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre/internal/repo/git"
)

// Limits of what is read, written or kept.
const (
	// MaxEntries is how many files a tree or a work tree may have.
	MaxEntries = 1_000_000
	// MaxDepth is how deep directories may nest.
	MaxDepth = 256
	// MaxPath is the longest path inside a project, in bytes. It leaves room for
	// the folders of our own that a work tree is in: the system takes 4095 in all.
	MaxPath = 3072
	// MaxFile is the largest file that an agent may add or change, in bytes.
	MaxFile = 100 << 20
	// MaxChanged is the most that an agent may add or change in all, in bytes.
	MaxChanged = 1 << 30
	// MaxChanges is how many files an agent may add, change and delete.
	MaxChanges = 50_000
	// MaxListed is how many paths a listing names; the rest is counted.
	MaxListed = 1000
	// MaxTree is the largest tree that is checked out, in bytes.
	MaxTree = 16 << 30
	// MaxDiff is the longest text that Diff returns, in bytes.
	MaxDiff = 4 << 20
	// openTimeout bounds Open, which reads little.
	openTimeout = time.Minute
)

// What can be wrong with a project. Each error that wraps one says what to do.
var (
	ErrNotRepository = errors.New("not a git repository")
	ErrBare          = errors.New("a bare repository has no files")
	ErrUnborn        = errors.New("no commit yet")
	ErrInProgress    = errors.New("a git operation is in progress")
	ErrOwner         = errors.New("the repository belongs to another user")
	ErrTooBig        = git.ErrTooBig
	ErrUnsafe        = errors.New("unsafe name or file")
)

// Commit is the id of a commit object, in lower-case hex.
type Commit string

// Tree is the id of a tree object, in lower-case hex.
type Tree string

var objectForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`) })

// ParseCommit accepts a full object id: 40 or 64 hex digits.
func ParseCommit(s string) (Commit, error) {
	if !objectForm().MatchString(s) {
		return "", fmt.Errorf("commit %.80q: want a full object id", s)
	}
	return Commit(s), nil
}

// ParseTree accepts a full object id: 40 or 64 hex digits.
func ParseTree(s string) (Tree, error) {
	if !objectForm().MatchString(s) {
		return "", fmt.Errorf("tree %.80q: want a full object id", s)
	}
	return Tree(s), nil
}

// MovedError says that the target is no longer at the commit it was verified
// against: merge and verify again.
type MovedError struct {
	Branch     string
	Want, Have Commit
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("branch %s moved from %.12s to %.12s: merge and verify again", e.Branch, e.Want, e.Have)
}

// ConflictError lists the paths that the agent and the target both changed.
type ConflictError struct {
	Target Commit
	Paths  []string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflicts with %.12s in %s", e.Target, listed(e.Paths))
}

// StayedError says that a verified commit was kept on a branch of its own
// because the target could not take it, and how to take it by hand.
type StayedError struct {
	// Branch holds the commit, such as "nacre/s-1".
	Branch string
	Commit Commit
	// Reason is why the target could not take it.
	Reason string
}

func (e *StayedError) Error() string {
	return fmt.Sprintf("%s; the work is on branch %s: take it with `%s`", e.Reason, e.Branch, e.Command())
}

// Command takes the work, run in the project.
func (e *StayedError) Command() string { return "git merge " + e.Branch }

// listed joins a few paths for a message.
func listed(paths []string) string {
	const shown = 5
	quoted := make([]string, 0, shown)
	for _, p := range paths[:min(len(paths), shown)] {
		quoted = append(quoted, fmt.Sprintf("%q", p))
	}
	s := strings.Join(quoted, ", ")
	if more := len(paths) - shown; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
