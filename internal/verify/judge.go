package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/atom"
)

// simulatedMerge is the run mode of a verifier for the merged tree alone.
const simulatedMerge = "simulated-merge"

// Judge holds a tree against every atom that declares a verifier (S-12 to S-14). Those that only
// read are all run, so that their failures are reported together. Those that run commands come
// after them, and only where none of them failed. The mode worktree means both passes;
// simulated-merge alone waits for Subject.Merged. An error says that the host failed: the report
// that comes with it has not passed.
func Judge(ctx context.Context, s Subject, atoms []atom.Atom, run Runner) (Report, error) {
	report := Report{Failed: []Failure{}, Verdicts: []Verdict{}}
	var err error
	if s.delta, err = compare(ctx, s.Base, s.Tree); err != nil {
		return report, err
	}
	due := Due(atoms, s.Merged)
	if lie := s.delta.contradicts(s.Changes); lie != "" {
		for _, a := range due {
			report.add(a.ID, failed("the list of changes is not what the trees say", lie))
		}
		return report, nil
	}
	for _, runs := range []bool{false, true} {
		held := len(report.Failed) == 0
		for _, a := range due {
			v, known := verifiers()[a.Verify.Handler]
			if v.runs != runs {
				continue
			}
			verdict, err := s.one(ctx, a, verifierOf(v, known, runs && !held), run)
			if err != nil {
				return report, fmt.Errorf("%s: %w", a.ID, err)
			}
			report.add(a.ID, verdict)
		}
	}
	report.Passed = len(report.Failed) == 0
	return report, nil
}

// Due are the atoms that are judged in a pass, each once: those with a verifier,
// and in pass 1 not those that wait for the merged tree.
func Due(atoms []atom.Atom, merged bool) []atom.Atom {
	var due []atom.Atom
	for _, a := range atoms {
		known := slices.ContainsFunc(due, func(b atom.Atom) bool { return a.ID == b.ID })
		if a.Verify.Handler != "" && !known && (merged || a.Verify.RunMode != simulatedMerge) {
			due = append(due, a)
		}
	}
	return due
}

// verifierOf is what judges in a verifier's place where it cannot.
func verifierOf(v verifier, known, skip bool) handler {
	switch {
	case !known:
		return func(_ context.Context, _ Subject, a atom.Atom, _ Runner) (Verdict, error) {
			return failed("there is no such verifier", a.Verify.Handler), nil
		}
	case skip:
		return func(context.Context, Subject, atom.Atom, Runner) (Verdict, error) {
			return Verdict{NotRun: true, Reason: "not run: the files failed already"}, nil
		}
	case v.runs:
		return func(ctx context.Context, s Subject, a atom.Atom, run Runner) (Verdict, error) {
			if run == nil {
				return Verdict{}, errors.New("there is no sandbox to run commands in")
			}
			return v.judge(ctx, s, a, run)
		}
	default:
		return v.judge
	}
}

// one forms one verdict.
func (s Subject) one(ctx context.Context, a atom.Atom, judge handler, run Runner) (Verdict, error) {
	if err := ctx.Err(); err != nil {
		return Verdict{}, err
	}
	v, err := judge(ctx, s, a, run)
	if err != nil {
		return Verdict{}, err
	}
	if v.Strength == "" && !v.NotRun {
		v.Strength = Weak
	}
	if !v.Passed && v.Reason == "" {
		v.Reason = "the verifier gave no verdict"
	}
	return v, nil
}

func (r *Report) add(id atom.ID, v Verdict) {
	v.Capability = id
	r.Verdicts = append(r.Verdicts, v)
	if !v.Passed && !v.NotRun {
		r.Failed = append(r.Failed, Failure{id, v.Reason, v.Detail})
	}
}

// contradicts says how a list of changes differs from what the trees say; ""
// where it does not.
func (d delta) contradicts(told []nacre.Change) string {
	listed := make(map[string]string, len(told))
	for _, c := range told {
		if _, twice := listed[c.Path]; twice {
			return fmt.Sprintf("%q is listed twice", c.Path)
		}
		listed[c.Path] = c.Kind
	}
	for _, c := range d.changes {
		kind, ok := listed[c.path]
		if !ok {
			return fmt.Sprintf("%q was %s, and is not listed", c.path, c.kind)
		}
		if kind != c.kind {
			return fmt.Sprintf("%q was %s, and is listed as %q", c.path, c.kind, kind)
		}
		delete(listed, c.path)
	}
	for path := range listed {
		return fmt.Sprintf("%q is listed, and no file there differs", path)
	}
	return ""
}

// maxNamed is how many findings a detail names; the rest is counted.
const maxNamed = 20

// summary is a detail of one finding a line.
func summary(findings []string) string {
	if len(findings) > maxNamed {
		findings = append(slices.Clone(findings[:maxNamed]), fmt.Sprintf("and %d more", len(findings)-maxNamed))
	}
	return strings.Join(findings, "\n")
}

// verdict is good where there are no findings.
func verdict(reason string, findings []string) Verdict {
	if len(findings) == 0 {
		return passed()
	}
	return failed(reason, summary(findings))
}
