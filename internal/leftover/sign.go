package leftover

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/repo/sign"
)

// signDir holds, in a session's folder, what is made while commits are signed.
const signDir = "sign"

// Signing is what a person wants signed: the commits that a session left on a branch.
type Signing struct {
	Session nacre.SessionID
	// Branch is the agent's, where the session left several; empty means nacre/SESSION.
	Branch string
	Who    string
	// Ask shows what would be signed with which key, and says whether it is.
	Ask    func(ctx context.Context, o Offered) (bool, error)
	Killed func(operator.Killed)
}

// Offered is what would be signed.
type Offered struct {
	Branch string
	// Key is the person's, in words, and Commits a line each, the oldest first.
	Key     string
	Commits []string
}

// Signed is what became of it.
type Signed struct {
	Session nacre.SessionID `json:"session"`
	Branch  string          `json:"branch"`
	// Commits is how many were signed, and Commit the last of them.
	Commits int    `json:"commits"`
	Commit  string `json:"commit"`
}

var errUnsigned = errors.New("nothing was signed")

// Sign makes signed copies of the commits that a session left on a branch of its own, and
// moves that branch to them, once a person said so (U-04).
func Sign(ctx context.Context, inst *installation.Installation, w Signing) (signed Signed, err error) {
	held, err := hold(ctx, inst, w.Session, w.Killed)
	if err != nil {
		return Signed{}, err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	settings, err := repo.Settings(ctx, held.Project, false)
	if err != nil {
		return Signed{}, fmt.Errorf("session %s: %w", held.ID, err)
	}
	key, err := sign.KeyOf(settings)
	if err != nil {
		return Signed{}, config.Errorf("session %s: %w: %w", held.ID, errUnsigned, err)
	}
	state := filepath.Join(held.Dir(), signDir)
	if err := registry.Discard(state); err != nil { // of one that was killed
		return Signed{}, err
	}
	defer func() { err = errors.Join(err, registry.Discard(state)) }()
	project, err := repo.Open(ctx, held.Project, repo.Options{StateDir: state, Now: inst.Options.Now})
	if err != nil {
		return Signed{}, fmt.Errorf("session %s: %w", held.ID, err)
	}
	record, closed, err := recording(ctx, inst, held, Taking{Who: w.Who})
	if err != nil {
		return Signed{}, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	signed = Signed{Session: held.ID, Branch: "nacre/" + string(held.ID)}
	if w.Branch != "" {
		signed.Branch += "/" + w.Branch
	}
	detail := map[string]any{"branch": signed.Branch, "key": key.Key, "format": key.Format}
	err = repo.Replace(ctx, project, repo.LandRequest{
		Session: held.ID, Branch: signed.Branch,
		Intent: func(ctx context.Context, i repo.Intent) error {
			detail["ref"], detail["from"], detail["to"] = i.Ref, i.Old, i.New
			return record(ctx, nacre.Record{Kind: nacre.KindMergeIntent}, detail)
		},
	}, sign.Most, func(m repo.Making, apart []repo.Commit) (repo.Commit, error) {
		if err := w.agreed(ctx, m, key, signed.Branch, apart); err != nil {
			return "", err
		}
		last, err := sign.Copies(ctx, m, key, apart, inst.Options.Getenv)
		signed.Commits, signed.Commit = len(apart), string(last)
		return last, err
	})
	if err != nil {
		return Signed{}, fmt.Errorf("session %s: %w", held.ID, err)
	}
	return signed, record(ctx, nacre.Record{Kind: nacre.KindMergeDone, Outcome: "signed"}, detail)
}

// agreed asks the person; an error is a no.
func (w Signing) agreed(ctx context.Context, m repo.Making, key sign.Key, branch string, apart []repo.Commit) error {
	if len(apart) == 0 {
		return fmt.Errorf("%w: other branches have all commits of %s", errUnsigned, branch)
	}
	commits, err := sign.Summary(ctx, m, apart)
	if err != nil {
		return err
	}
	yes, err := w.Ask(ctx, Offered{Branch: branch, Key: key.String(), Commits: commits})
	if err == nil && !yes {
		err = errUnsigned
	}
	return err
}
