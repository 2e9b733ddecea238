package task

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/repo"
)

// handover takes an agent's files to a branch of the project. It serves whoever lands them: a run
// that verified them, or a person who takes what did not land.
type handover struct {
	project *repo.Project
	branch  string
	session nacre.SessionID
	message string
	author  repo.Author
	record  func(ctx context.Context, rec nacre.Record, detail map[string]any) error
}

// authorOf is who the commits of a brain are by.
func authorOf(brain string) repo.Author {
	if brain == "" {
		brain = "agent"
	}
	return repo.Author{Name: "nacre agent", Email: brain + "@nacre.invalid"}
}

// merge makes the commit of a tree on top of the branch as it is now.
func (h handover) merge(ctx context.Context, tree repo.Tree) (mergedTree, error) {
	target, err := h.project.Head(ctx, h.branch)
	if err != nil {
		return mergedTree{}, err
	}
	merged, err := h.project.Merge(ctx, repo.MergeRequest{Tree: tree, Target: target, Message: h.message, Author: h.author})
	var conflict *repo.ConflictError
	if errors.As(err, &conflict) {
		return mergedTree{Target: string(target), Conflict: conflict.Error()}, nil
	}
	if err != nil {
		return mergedTree{}, err
	}
	return mergedTree{Target: string(target), Commit: string(merged.Commit), Tree: string(merged.Tree)}, nil
}

// land moves the branch to exactly the commit, and says in a word what became of it.
func (h handover) land(ctx context.Context, merged mergedTree) (result landing, outcome string, err error) {
	what := map[string]any{"branch": h.branch, "from": merged.Target, "to": merged.Commit, "tree": merged.Tree}
	_, err = h.project.Land(ctx, repo.LandRequest{
		Session: h.session, Branch: h.branch, Expect: repo.Commit(merged.Target), Commit: repo.Commit(merged.Commit), Intent: h.intent(what),
	})
	var moved *repo.MovedError
	var stayed *repo.StayedError
	outcome, result = "landed", landing{Landed: true}
	switch {
	case errors.As(err, &moved):
		outcome, result = "target moved", landing{Moved: true}
	case errors.As(err, &stayed):
		outcome, result = "stayed on "+stayed.Branch, landing{Reason: stayed.Error(), Next: stayed.Command()}
	case err != nil:
		return landing{}, "", err
	}
	return result, outcome, h.record(ctx, nacre.Record{Kind: nacre.KindMergeDone, Outcome: outcome}, what)
}

// intent records what is about to move.
func (h handover) intent(what map[string]any) func(context.Context, repo.Intent) error {
	return func(ctx context.Context, i repo.Intent) error {
		what["ref"] = i.Ref
		return h.record(ctx, nacre.Record{Kind: nacre.KindMergeIntent}, what)
	}
}

// keep puts the commit of a tree on a branch of its own, which nobody has checked out.
func (h handover) keep(ctx context.Context, tree repo.Tree) (branch string, commit repo.Commit, err error) {
	base := h.project.Base
	made, err := h.project.Merge(ctx, repo.MergeRequest{Tree: tree, Target: base, Message: h.message, Author: h.author})
	if err != nil {
		return "", "", err
	}
	what := map[string]any{"from": string(base), "to": string(made.Commit), "tree": string(tree)}
	branch, err = repo.Keep(ctx, h.project, repo.LandRequest{
		Session: h.session, Expect: base, Commit: made.Commit, Intent: h.intent(what),
	}, string(h.session))
	if err != nil {
		return "", "", err
	}
	return branch, made.Commit, h.record(ctx, nacre.Record{Kind: nacre.KindMergeDone, Outcome: "kept on " + branch}, what)
}

// message is a commit's: the task as the operator wrote it, without the secrets in it, since
// commits are pushed.
func (s Spec) message(id nacre.SessionID, work string) string {
	subject, _, _ := strings.Cut(strings.TrimSpace(WithoutSecrets(s.Words())), "\n")
	if subject == "" {
		subject = "work of session " + string(id)
	}
	if runes := []rune(subject); len(runes) > 72 {
		subject = string(runes[:71]) + "…"
	}
	return fmt.Sprintf("%s\n\nNacre-Session: %s\n", subject, work)
}
