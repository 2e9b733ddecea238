package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/fetch"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/order"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/seal"
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
	// Atoms are the names of those that are held against it, and Task the text
	// of the task's file.
	Atoms []string
	Task  []byte
	// Report is what the agent said last.
	Report []byte
	// Ledger says that the run has its row.
	Ledger bool
}

// Verdict is what the last pass said that was due.
type Verdict struct {
	// Pass is worktree or simulated-merge.
	Pass   string `json:"pass"`
	Passed bool   `json:"passed"`
	// Failed are the verdicts that did not hold, with what they found.
	Failed   []AtomFailure      `json:"failed"`
	Verdicts []nacre.AtomResult `json:"verdicts"`
}

// AtomFailure is one atom that did not hold (S-14).
type AtomFailure struct {
	Capability string `json:"capability"`
	Reason     string `json:"reason"`
	Detail     string `json:"detail,omitempty"`
}

// failuresOf are the verdicts that did not hold; nil where there is no verdict.
func failuresOf(verdicts []nacre.AtomResult) []AtomFailure {
	if len(verdicts) == 0 {
		return nil
	}
	failed := []AtomFailure{}
	for _, v := range verdicts {
		if !v.Passed && !v.NotRun {
			failed = append(failed, AtomFailure{v.Capability, v.Reason, v.Detail})
		}
	}
	return failed
}

// take is a report of the verifiers as it goes out.
func (v *Verdict) take(r verify.Report) {
	v.Passed, v.Failed, v.Verdicts = r.Passed, []AtomFailure{}, []nacre.AtomResult{}
	for _, f := range r.Failed {
		v.Failed = append(v.Failed, AtomFailure{string(f.Capability), f.Reason, f.Detail})
	}
	for _, one := range r.Verdicts {
		v.Verdicts = append(v.Verdicts, nacre.AtomResult{
			Capability: string(one.Capability), Passed: one.Passed, NotRun: one.NotRun, Strength: one.Strength, Reason: one.Reason, Detail: one.Detail,
		})
	}
}

// VerifyWork judges a work tree and lands nothing. Commands run sealed, in a session
// that is opened where there is one to run.
func VerifyWork(ctx context.Context, inst *installation.Installation, v Verification) (verdict Verdict, err error) {
	if err := os.MkdirAll(inst.Registry.Paths().State, 0o700); err != nil {
		return Verdict{}, &installation.NotReady{What: "nacre's state", Err: err}
	}
	dir, err := os.MkdirTemp(inst.Registry.Paths().State, "verify-")
	if err != nil {
		return Verdict{}, &installation.NotReady{What: "nacre's state", Err: err}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	j := &judgement{Verification: v, runtime: inst, dir: dir}
	if j.parameters, err = atom.ParseParameters(v.Task); err != nil {
		return Verdict{}, config.Errorf("TASK_TOML: %w", err)
	}
	if j.atoms, err = v.due(); err != nil {
		return Verdict{}, &config.Error{Err: err}
	}
	defer func() { err = errors.Join(err, j.close(ctx)) }()
	return j.judge(ctx)
}

// due finds the atoms, of which each must have a verdict: one that says
// nothing would look like one that held.
func (v Verification) due() ([]atom.Atom, error) {
	library, done, err := order.Roles(v.Project)
	if err != nil {
		return nil, err
	}
	defer done()
	list := make([]atom.Atom, 0, len(v.Atoms))
	for _, name := range v.Atoms {
		one, err := library.Atoms().Find(name)
		if err != nil {
			return nil, err
		}
		if one.Verify.Handler == "" {
			return nil, fmt.Errorf("%s has no verifier: see nacre capability show %s", one.ID, one.ID)
		}
		if len(verify.Due([]atom.Atom{one}, v.Merged)) == 0 {
			return nil, fmt.Errorf("%s is verified on the merged tree: RUN_MODE is simulated-merge or both", one.ID)
		}
		list = append(list, one)
	}
	return list, nil
}

// judgement is a verification under way.
type judgement struct {
	Verification
	atoms      []atom.Atom
	parameters atom.Parameters
	runtime    *installation.Installation
	dir        string
	project    *repo.Project
	head       repo.Commit
	session    *seal.Session
}

func (j *judgement) judge(ctx context.Context) (Verdict, error) {
	if err := j.open(ctx); err != nil {
		return Verdict{}, config.Errorf("%s: %w", j.Project, err)
	}
	clone, err := j.project.ExistingClone(j.Worktree)
	if err != nil {
		return Verdict{}, config.Errorf("%s: %w", j.Worktree, err)
	}
	tree, changes, err := clone.Snapshot(ctx)
	if errors.Is(err, repo.ErrTooBig) || errors.Is(err, repo.ErrUnsafe) {
		return j.refused("worktree", "the work cannot be taken", err), nil
	}
	if err != nil {
		return Verdict{}, err
	}
	subject := verify.Subject{Task: j.parameters, Report: j.Report, Ledger: j.Ledger, Fetch: j.fetch}
	for _, skipped := range changes.Skipped {
		subject.Left = append(subject.Left, skipped.Path)
	}
	verdict := Verdict{Pass: "worktree"}
	if j.Separate {
		report, err := j.pass(ctx, subject, j.project.Base, tree)
		verdict.take(report)
		if err != nil || !verdict.Passed || !j.Merged {
			return verdict, err
		}
	}
	return j.merged(ctx, subject, tree)
}

// open finds where the project stands, and where the work began.
func (j *judgement) open(ctx context.Context) error {
	options := repo.Options{StateDir: filepath.Join(j.dir, "repo"), Now: j.runtime.Options.Now}
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
	report, err := j.pass(ctx, subject, j.head, merged.Tree)
	verdict.take(report)
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
		s.Changes = append(s.Changes, nacre.Change{Path: c.Path, Kind: string(c.Kind), Warning: c.Sensitive, Held: c.Held})
	}
	dir, err := os.MkdirTemp(j.dir, "pass-")
	if err != nil {
		return verify.Report{}, err
	}
	s.Base, s.Tree = filepath.Join(dir, "base"), filepath.Join(dir, "tree")
	if err := errors.Join(j.project.Checkout(ctx, base, s.Base), j.project.Checkout(ctx, tree, s.Tree)); err != nil {
		return verify.Report{}, err
	}
	return verify.Judge(ctx, s, j.atoms, j.run)
}

// refused is a verdict on all atoms: there is no tree to hold them against.
func (j *judgement) refused(pass, reason string, err error) Verdict {
	verdict := Verdict{Pass: pass}
	for _, a := range j.atoms {
		verdict.Failed = append(verdict.Failed, AtomFailure{string(a.ID), reason, err.Error()})
		verdict.Verdicts = append(verdict.Verdicts, nacre.AtomResult{Capability: string(a.ID), Strength: verify.Strong, Reason: reason, Detail: err.Error()})
	}
	return verdict
}

// run runs a verifier's command in the session for it.
func (j *judgement) run(ctx context.Context, c verify.Command) (verify.Output, error) {
	if err := j.seal(ctx); err != nil {
		return verify.Output{}, err
	}
	return apart(j.session).Run(ctx, c)
}

// fetch fetches dependencies in the session for it.
func (j *judgement) fetch(ctx context.Context, p verify.Packages) (verify.Fetched, error) {
	if err := j.seal(ctx); err != nil {
		return verify.Fetched{}, err
	}
	return fetch.Packages(ctx, j.session.Basis, p)
}

// seal opens the session in which commands run, where it is not open yet.
func (j *judgement) seal(ctx context.Context) error {
	if j.session != nil {
		return nil
	}
	s, err := seal.Open(ctx, j.runtime, seal.Request{
		ID: registry.NewID(), Group: installation.DefaultGroup, Kind: "verify", Title: j.Agent, Project: j.Project,
	})
	j.session = s
	return err
}

func (j *judgement) close(ctx context.Context) error {
	if j.session == nil {
		return nil
	}
	return j.session.Close(ctx, "verified", true)
}
