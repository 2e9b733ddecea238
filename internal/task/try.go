package task

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nacre-dev/nacre"
)

// tries is how often this opening lets the agent work. Where the work is left at a stage,
// a person looks at it first.
func (r *run) tries() int {
	if r.Until != "" {
		return 1
	}
	return max(r.spec.Tries, 1)
}

// work lets a run's agent work until what it returns holds by itself, or there is no further
// try. over says that nothing is to land, and the result why.
func (r *run) work(base baseline, result *nacre.RunResult) (over bool, err error) {
	var failed verification
	for try := 1; ; try++ {
		found, refused, err := r.attempt(base, try, failed, result)
		if err != nil {
			return false, err
		}
		if result.Reason = refused; refused != "" {
			return true, nil
		}
		if result.Reason = take(result, found); result.Reason == "" {
			return false, nil
		}
		if try >= r.tries() {
			return true, nil
		}
		failed = found
		r.before = append(r.before, *result)
		r.Progress(nacre.Step{Kind: nacre.StepStage, Name: "try", Text: fmt.Sprintf("%d of %d, since %s", try+1, r.tries(), result.Reason)})
	}
}

// attempt is one conversation and what is found of its work. Each has steps of its own, which
// an opening that goes on passes through.
func (r *run) attempt(base baseline, try int, failed verification, result *nacre.RunResult) (found verification, refused string, err error) {
	n := ""
	if try > 1 {
		n = "-" + strconv.Itoa(try)
	}
	talk, err := step(r.opening, "converse"+n, func(ctx context.Context) (conversation, error) {
		if c := r.carried(try); c != nil {
			r.untouched, r.talked = false, true
			return *c.Talk, nil
		}
		return r.converse(ctx, base, failed)
	})
	if err != nil {
		return found, "", err
	}
	result.Brain, result.Report = talk.Ended, talk.Report
	work, err := step(r.opening, "snapshot"+n, func(ctx context.Context) (worktree, error) {
		if c := r.carried(try); c != nil {
			return *c.Work, nil
		}
		return r.snapshot(ctx, base, talk)
	})
	if err != nil {
		return found, "", err
	}
	result.Tree, result.Changes, result.Left, r.skipped = work.Tree, work.Changes, work.Left, work.Skipped
	if err := r.pause("returned"+n, nacre.StageReturned, *result); err != nil {
		return found, "", err
	}
	if refused := r.refuse(result, talk, work); refused != "" {
		return found, refused, nil
	}
	found, err = step(r.opening, "verify"+n, func(ctx context.Context) (verification, error) {
		return r.verify(ctx, base, talk.Delegated, *result)
	})
	return found, "", err
}

// again is what an agent is told beside its task when its try before did not hold. kept
// says that its files are as that left them.
func again(failed verification, kept bool) string {
	why := failed.failed()
	if why == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\n---\nThis is another try: your work was checked outside, and it did not hold.\n")
	if kept {
		b.WriteString("Your work is in the project as you left it. Correct it.\n")
	} else {
		b.WriteString("Your work was lost when the run was interrupted: begin anew.\n")
	}
	_, _ = fmt.Fprintf(&b, "What failed: %s\n", why) // a builder takes everything
	for _, c := range failed.Checks {
		if !c.Passed() {
			_, _ = fmt.Fprintf(&b, "The last that it printed:\n%s\n", c.Tail)
		}
	}
	for _, a := range failed.Atoms {
		if !a.Passed && a.Detail != "" {
			_, _ = fmt.Fprintf(&b, "%s found:\n%s\n", a.Capability, a.Detail)
		}
	}
	return b.String()
}
