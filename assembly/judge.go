package assembly

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/verify"
)

// Verification asks what a work tree is worth that no run of nacre made (S-07).
type Verification struct {
	// Agent is who worked there. It becomes the title of the session in which
	// commands run.
	Agent string
	// Project is the repository, Worktree the folder of the agent's files. Of the
	// latter the files are read and nothing else, whatever its git says.
	Project, Worktree string
	// Base is the commit that the work began from; empty means the project's HEAD.
	Base string
	// Separate and Merged say which passes are due; both come one after the other,
	// and the second only where the first held.
	Separate, Merged bool
	Atoms            []atom.Atom
	Task             atom.Parameters
	// Report is what the agent said last.
	Report []byte
	// Ledger says that the run has its row.
	Ledger bool
}

// Verdict is what the last pass said that was due.
type Verdict struct {
	// Pass is worktree or simulated-merge.
	Pass string `json:"pass"`
	verify.Report
}

// Verify judges a work tree and lands nothing. Commands run sealed, in a session
// that is opened where there is one to run.
func (r *Runtime) Verify(ctx context.Context, v Verification) (verdict Verdict, err error) {
	if err := os.MkdirAll(r.registry.Paths().State, 0o700); err != nil {
		return Verdict{}, &NotReady{What: "nacre's state", err: err}
	}
	dir, err := os.MkdirTemp(r.registry.Paths().State, "verify-")
	if err != nil {
		return Verdict{}, &NotReady{What: "nacre's state", err: err}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	j := &judgement{Verification: v, runtime: r, dir: dir}
	defer func() { err = errors.Join(err, j.close(ctx)) }()
	return j.judge(ctx)
}

// judgement is a verification under way.
type judgement struct {
	Verification
	runtime *Runtime
	dir     string
	project *repo.Project
	head    repo.Commit
	session *sealed
}

func (j *judgement) judge(ctx context.Context) (Verdict, error) {
	if err := j.open(ctx); err != nil {
		return Verdict{}, badConfig("%s: %w", j.Project, err)
	}
	clone, err := j.project.ExistingClone(j.Worktree)
	if err != nil {
		return Verdict{}, badConfig("%s: %w", j.Worktree, err)
	}
	tree, changes, err := clone.Snapshot(ctx)
	if errors.Is(err, repo.ErrTooBig) || errors.Is(err, repo.ErrUnsafe) {
		return j.refused("worktree", "the work cannot be taken", err), nil
	}
	if err != nil {
		return Verdict{}, err
	}
	subject := verify.Subject{Task: j.Task, Report: j.Report, Ledger: j.Ledger}
	for _, skipped := range changes.Skipped {
		subject.Left = append(subject.Left, skipped.Path)
	}
	verdict := Verdict{Pass: "worktree"}
	if j.Separate {
		verdict.Report, err = j.pass(ctx, subject, j.project.Base, tree)
		if err != nil || !verdict.Passed || !j.Merged {
			return verdict, err
		}
	}
	return j.merged(ctx, subject, tree)
}

// open finds where the project stands, and where the work began.
func (j *judgement) open(ctx context.Context) error {
	options := repo.Options{StateDir: filepath.Join(j.dir, "repo"), Now: j.runtime.options.Now}
	var err error
	if j.project, err = repo.Open(ctx, j.Project, options); err != nil {
		return err
	}
	j.head = j.project.Base
	if j.Base == "" {
		return nil
	}
	base, err := repo.ParseCommit(j.Base)
	if err != nil {
		return err
	}
	options.Base = base
	j.project, err = repo.Open(ctx, j.Project, options)
	return err
}

// merged is pass 2: the work on top of where the project is now (S-12).
func (j *judgement) merged(ctx context.Context, subject verify.Subject, tree repo.Tree) (Verdict, error) {
	verdict := Verdict{Pass: "simulated-merge"}
	merged, err := j.project.Merge(ctx, repo.MergeRequest{
		Tree: tree, Target: j.head, Message: "work to verify", Author: repo.Author{Name: "nacre agent", Email: "agent@nacre.invalid"},
	})
	var conflict *repo.ConflictError
	if errors.As(err, &conflict) {
		return j.refused(verdict.Pass, "the work does not merge", conflict), nil
	}
	if err != nil {
		return Verdict{}, err
	}
	subject.Merged = true
	verdict.Report, err = j.pass(ctx, subject, j.head, merged.Tree)
	return verdict, err
}

// pass judges one tree from two clean checkouts.
func (j *judgement) pass(ctx context.Context, s verify.Subject, on repo.Commit, tree repo.Tree) (verify.Report, error) {
	base, err := j.project.TreeOf(ctx, on)
	if err != nil {
		return verify.Report{}, err
	}
	changes, err := j.project.Changes(ctx, base, tree)
	if err != nil {
		return verify.Report{}, err
	}
	for _, c := range changes.Files {
		s.Changes = append(s.Changes, nacre.Change{Path: c.Path, Kind: string(c.Kind), Warning: c.Sensitive})
	}
	dir, err := os.MkdirTemp(j.dir, "pass-")
	if err != nil {
		return verify.Report{}, err
	}
	s.Base, s.Tree = filepath.Join(dir, "base"), filepath.Join(dir, "tree")
	if err := errors.Join(j.project.Checkout(ctx, base, s.Base), j.project.Checkout(ctx, tree, s.Tree)); err != nil {
		return verify.Report{}, err
	}
	return verify.Judge(ctx, s, j.Atoms, j.run)
}

// refused is a verdict on all atoms: there is no tree to hold them against.
func (j *judgement) refused(pass, reason string, err error) Verdict {
	verdict := Verdict{Pass: pass}
	verdict.Failed, verdict.Verdicts = []verify.Failure{}, []verify.Verdict{}
	for _, a := range j.Atoms {
		verdict.Failed = append(verdict.Failed, verify.Failure{Capability: a.ID, Reason: reason, Detail: err.Error()})
		verdict.Verdicts = append(verdict.Verdicts, verify.Verdict{Capability: a.ID, Strength: verify.Strong, Reason: reason, Detail: err.Error()})
	}
	return verdict
}

// run runs a verifier's command in the session for it.
func (j *judgement) run(ctx context.Context, c verify.Command) (verify.Output, error) {
	if j.session == nil {
		s, err := j.runtime.seal(ctx, request{
			id: registry.NewID(), group: DefaultGroup, kind: "verify", title: j.Agent, project: j.Project,
		})
		if err != nil {
			return verify.Output{}, err
		}
		j.session = s
	}
	return j.session.runner()(ctx, c)
}

func (j *judgement) close(ctx context.Context) error {
	if j.session == nil {
		return nil
	}
	return j.session.close(ctx, "verified", true)
}
