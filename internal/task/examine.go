package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/repo"
	"github.com/nacre-dev/nacre/internal/verify"
)

// examination is of one tree, on the commit that it builds on.
type examination struct {
	*run
	project *repo.Project
	on      repo.Commit
	tree    string
	subject verify.Subject
}

// examine holds a tree against the order's atoms, and then runs every check on clean checkouts of
// it, each in a fresh sandbox. It makes sure that the checkout was that tree when the check began.
func (e *examination) examine(ctx context.Context) (verification, error) {
	var found verification
	var err error
	if found.Atoms, err = e.judge(ctx); err != nil || found.failed() != "" {
		return found, err
	}
	needs, err := e.dependencies(ctx)
	if err != nil {
		return found, err
	}
	for i, command := range e.spec.Checks {
		dir := filepath.Join(e.Session.Dir(), CheckPrefix+strconv.Itoa(i))
		if err := registry.Discard(dir); err != nil {
			return found, err
		}
		result, err := e.one(ctx, needs, dir, command)
		if err != nil {
			return found, err
		}
		found.Checks = append(found.Checks, result)
		if err := registry.Discard(dir); err != nil {
			return found, err
		}
		if !result.Passed() {
			break
		}
	}
	return found, nil
}

// one runs one check on a checkout of the tree.
func (e *examination) one(ctx context.Context, needs verify.Dependencies, dir, command string) (nacre.CheckResult, error) {
	code, err := e.ground.takeOut(ctx, e.project, needs, repo.Tree(e.tree), dir)
	if err != nil {
		return nacre.CheckResult{}, err
	}
	// What runs is the operator's own text; what is shown and kept of it holds no secret.
	shown := WithoutSecrets(command)
	e.Progress(nacre.Step{Kind: nacre.StepStage, Name: "check", Text: shown})
	result, err := e.check(ctx, needs, code, command)
	if err != nil {
		return nacre.CheckResult{}, err
	}
	result.Command = shown
	outcome := "failed"
	if result.Passed() {
		outcome = "passed"
	}
	digest := sha256.Sum256([]byte(shown))
	detail := map[string]any{
		"tree": e.tree, "command_digest": hex.EncodeToString(digest[:]), "exit_code": result.ExitCode,
		"timed_out": result.TimedOut, "strength": result.Strength, "milliseconds": result.Duration.Milliseconds(),
	}
	if err := e.record(ctx, nacre.Record{Kind: nacre.KindVerify, Outcome: outcome}, detail); err != nil {
		return nacre.CheckResult{}, err
	}
	e.Progress(nacre.Step{Kind: nacre.StepCheck, Check: &result})
	return result, nil
}

// judge holds a tree against the order's atoms, from two clean checkouts: the
// commit it builds on, and the tree itself (S-14).
func (e *examination) judge(ctx context.Context) ([]nacre.AtomResult, error) {
	order := e.spec.Order
	if order == nil {
		return nil, nil
	}
	base, err := e.project.TreeOf(ctx, e.on)
	if err != nil {
		return nil, err
	}
	changes, err := e.project.Changes(ctx, base, repo.Tree(e.tree))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(e.Session.Dir(), JudgeDir)
	if err := errors.Join(registry.Discard(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, err
	}
	s := e.subject
	s.Base, s.Tree, s.Scratch = filepath.Join(dir, "base"), filepath.Join(dir, "tree"), dir
	for path, what := range map[string]repo.Tree{s.Base: base, s.Tree: repo.Tree(e.tree)} {
		if err := e.project.Checkout(ctx, what, path); err != nil {
			return nil, err
		}
	}
	s.Changes, s.Task = changes.Listed(), order.Parameters
	e.Progress(nacre.Step{Kind: nacre.StepStage, Name: "verify", Text: fmt.Sprintf("%d atoms of the role %s", len(verify.Due(order.Atoms, s.Merged)), order.Role)})
	report, err := e.Judge(ctx, s, order.Atoms)
	if err != nil {
		return nil, err
	}
	if err := e.project.Matches(ctx, repo.Tree(e.tree), s.Tree); err != nil {
		return nil, fmt.Errorf("the tree changed while it was judged: %w", err)
	}
	results, err := e.tellVerdicts(ctx, report)
	return results, errors.Join(err, registry.Discard(dir))
}

// tellVerdicts records and shows what each atom's verifier said.
func (e *examination) tellVerdicts(ctx context.Context, report verify.Report) ([]nacre.AtomResult, error) {
	results := make([]nacre.AtomResult, 0, len(report.Verdicts))
	for _, v := range report.Verdicts {
		a := nacre.AtomResult{
			Capability: string(v.Capability), Passed: v.Passed, NotRun: v.NotRun, Strength: v.Strength,
			Reason: e.clean(v.Reason, excerptSize), Detail: e.clean(v.Detail, maxDetail),
		}
		outcome := "failed"
		if a.Passed {
			outcome = "passed"
		}
		detail := map[string]any{"tree": e.tree, "atom": a.Capability, "strength": a.Strength}
		err := e.record(ctx, nacre.Record{Kind: nacre.KindVerify, Outcome: outcome, Reason: a.Reason}, detail)
		if err != nil {
			return nil, err
		}
		e.Progress(nacre.Step{Kind: nacre.StepVerdict, Verdict: &a})
		results = append(results, a)
	}
	return results, nil
}

// maxDetail is how much of a verdict's detail is kept, in bytes.
const maxDetail = 4 << 10

// verification is what was found of one tree.
type verification struct {
	Checks []nacre.CheckResult `json:"checks"`
	Atoms  []nacre.AtomResult  `json:"atoms,omitempty"`
	// Conflict is why there was no tree to hold against anything.
	Conflict string `json:"conflict,omitempty"`
}

// failed says what did not hold, in a line.
func (v verification) failed() string {
	if v.Conflict != "" {
		return v.Conflict
	}
	if failed := failedCheck(v.Checks); failed != "" {
		return failed
	}
	var all []string
	for _, a := range v.Atoms {
		if !a.Passed {
			all = append(all, a.Capability+": "+a.Reason)
		}
	}
	return strings.Join(all, "; ")
}

// strength is that of the weakest verdict on what the work does; empty where
// nothing judged that (M-50).
func (v verification) strength() string {
	found := ""
	weaken := func(s string) {
		if s != verify.Strong {
			s = verify.Weak
		}
		if found != verify.Weak {
			found = s
		}
	}
	for _, c := range v.Checks {
		weaken(c.Strength)
	}
	for _, a := range v.Atoms {
		if strings.HasPrefix(a.Capability, "quality::") && a.Strength != "" {
			weaken(a.Strength)
		}
	}
	return found
}

func failedCheck(checks []nacre.CheckResult) string {
	for _, c := range checks {
		switch {
		case c.TimedOut:
			return fmt.Sprintf("check %q did not finish in time", c.Command)
		case !c.Passed():
			return fmt.Sprintf("check %q ended with %d", c.Command, c.ExitCode)
		}
	}
	return ""
}

// take keeps what was found of the tree that was verified last, and says what
// did not hold.
func take(result *nacre.RunResult, v verification) (failed string) {
	result.Checks, result.Atoms, result.Verified = v.Checks, v.Atoms, ""
	failed = v.failed()
	if result.Passed = failed == ""; result.Passed {
		result.Verified = v.strength()
	}
	return failed
}
