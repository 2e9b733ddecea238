package task

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo"
)

// Audited is the work of another session that an auditor judges (S-08).
type Audited struct {
	// Session and Work are the session's and its work's names, Agent and DNA the
	// run's in the ledger.
	Session nacre.SessionID `json:"session"`
	Work    string          `json:"work"`
	Agent   string          `json:"agent"`
	Role    string          `json:"role"`
	DNA     string          `json:"dna"`
	// State is the folder of the host's own that holds the work's commits.
	State string `json:"state"`
	// Commit is what would land, and Tree its files.
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
	// Task is what was asked, as it was pinned, and Result what came of it.
	Task   string          `json:"task"`
	Result nacre.RunResult `json:"result"`
}

// StateOf is the folder that holds the commits of a session's work. dir is the
// session's own.
func StateOf(dir, work string) string { return stateDir(dir, work) }

// EvidenceDir is the folder, in its session's, of what an auditor reads beside
// the work itself.
const EvidenceDir = "evidence"

// What is in it.
const (
	evidenceTask    = "task.toml"
	evidenceReport  = "report.md"
	evidenceResult  = "result.json"
	evidenceChanges = "changes.diff"
	evidenceBase    = "base"
)

// cloneAudited makes the auditor's copy of the work, and the evidence beside it.
func (r *run) cloneAudited(ctx context.Context) (baseline, error) {
	a := r.spec.Audited
	project, err := r.project(ctx, a.Commit)
	if err != nil {
		return baseline{}, err
	}
	if err := r.fresh(ctx, project); err != nil {
		return baseline{}, err
	}
	return baseline{a.Commit, project.Branch}, r.writeEvidence(ctx, project)
}

// writeEvidence says what was asked, what the agent and the verifiers said, and
// what the work changes of which files.
func (r *run) writeEvidence(ctx context.Context, project *repo.Project) error {
	a, dir := r.spec.Audited, filepath.Join(r.Session.Dir(), EvidenceDir)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil { //nolint:gosec // the agent reads it under another user id
		return err
	}
	target, err := project.Parent(ctx, repo.Commit(a.Commit))
	if err != nil {
		return err
	}
	before, err := project.TreeOf(ctx, target)
	if err != nil {
		return err
	}
	changes, cut, err := project.Diff(ctx, before, repo.Tree(a.Tree))
	if err != nil {
		return err
	}
	if cut {
		changes = append(changes, "\nThe rest is left out: compare the files themselves.\n"...)
	}
	said := a.Result
	said.Report = ""
	result, err := json.MarshalIndent(said, "", "  ")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		evidenceTask: []byte(a.Task), evidenceReport: []byte(a.Result.Report), evidenceResult: result, evidenceChanges: changes,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return project.Checkout(ctx, before, filepath.Join(dir, evidenceBase))
}
