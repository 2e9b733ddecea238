package verify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/registry"
)

// testLimit is how long one run of a project's tests may take.
const testLimit = 20 * time.Minute

// tester runs one language's tests and reads their report.
type tester struct {
	// tool is the program without which there is no verdict.
	tool string
	// adapt makes those tests the base's that lie in source files. It returns
	// what a person has to look at; "" means nothing.
	adapt func(t trees, p part, l layout) (string, error)
	// plant adds tests of the host's own that must be seen to fail.
	plant func(t trees, p part, l layout, nonce string) []canary
	// command is how all tests of a layout are run, and the variables it needs.
	command func(t trees, p part, l layout, nonce string) (argv, env []string, err error)
	parse   func(out Output, nonce string) *results
}

func testerOf(language string) tester {
	switch language {
	case golang:
		return tester{"go", nothingInside, plantGo, goTest, parseGo}
	case rust:
		return tester{"cargo", spliceRust, plantRust, cargoTest, parseRust}
	case node:
		return tester{"node", nothingInside, plantNode, nodeTest, parseNode}
	default:
		return tester{"python3", nothingInside, plantPython, pythonTest, parseEvents}
	}
}

func nothingInside(trees, part, layout) (string, error) { return "", nil }

// testsGreen holds the work against every test that the base runs (S-13). The tests run four times.
// First the base's run on the base, which says by name what is required. Then the base's run on the
// work with tests of the host's own that must be seen to fail. Then the base's run on the work, of
// which the exit status counts. Where the work changed tests, all of it runs as it would land:
// those of the base must still be there and none may fail. The report is formed in the process of
// the code under test, so that the verdict is weak whatever it says.
func testsGreen(ctx context.Context, s Subject, _ atom.Atom, run Runner) (Verdict, error) {
	t, err := readTrees(s)
	if err != nil {
		return Verdict{}, err
	}
	list, err := parts(t.base, s.Task.Language, s.Changes)
	if err != nil {
		return weakly("the language is not known", err.Error()), nil
	}
	green, note := 0, ""
	for _, p := range list {
		t, d, err := t.withDependencies(ctx, s, p)
		if err != nil {
			return Verdict{}, err
		}
		if d.Broken != "" {
			return weakly("dependencies could not be fetched", d.Broken), nil
		}
		j := testRun{t: t, p: p, tester: testerOf(p.language), scratch: s.Scratch, run: run, crates: s.Task.TestCrates}
		found, err := j.judge(ctx, s.Task.AllowDepBump)
		if err != nil {
			return Verdict{}, err
		}
		if len(found.against) > 0 {
			return weakly(fmt.Sprintf("the %s tests in %s are not green", p.language, p.dir), also(detail(found.against), d.Absent)), nil
		}
		green, note = green+found.green, also(note+found.note, d.Absent)
	}
	if green == 0 {
		return weakly("the base has no test that passes", "tests that the work adds vouch for nothing"), nil
	}
	if green < s.Task.TestCount {
		return weakly(fmt.Sprintf("%d tests passed, and test-count-min is %d", green, s.Task.TestCount), "tests that the work adds do not count"), nil
	}
	return Verdict{Passed: true, Strength: Weak, Detail: fmt.Sprintf("%d tests of the base passed%s", green, note)}, nil
}

// also adds what else there is to know, if there is.
func also(text, more string) string {
	if more == "" {
		return text
	}
	return text + "\n" + more
}

// weakly is a failed verdict that the code under test had a part in.
func weakly(reason, detail string) Verdict {
	return Verdict{Strength: Weak, Reason: reason, Detail: detail}
}

// testRun is one project's tests under judgement.
type testRun struct {
	t       trees
	p       part
	tester  tester
	scratch string
	run     Runner
	crates  []string
}

// finding is what speaks against the work, and what it passed.
type finding struct {
	against []string
	green   int
	note    string
}

func against(list ...string) finding { return finding{against: list} }

func (j testRun) judge(ctx context.Context, dependencies bool) (finding, error) {
	if lacking, err := j.lacking(ctx); lacking != "" || err != nil {
		return against(lacking), err
	}
	if dependencies {
		if wrong, err := j.t.bumps(j.p); wrong != "" || err != nil {
			return against(wrong), err
		}
	}
	l, untouched, err := j.t.deciding(j.p, dependencies)
	if err != nil {
		return finding{}, err
	}
	before := len(l.items)
	if wrong, err := j.tester.adapt(j.t, j.p, l); wrong != "" || err != nil {
		return against(wrong), err
	}
	untouched = untouched && before == len(l.items) && !l.replaced(j.t.work)
	base, found, err := j.baseline(ctx)
	if err != nil || len(found.against) > 0 || len(base.tests) == 0 {
		return found, err
	}
	if found, err = j.planted(ctx, l, base); err != nil || len(found.against) > 0 {
		return found, err
	}
	if found, err = j.clean(ctx, l, base); err != nil || len(found.against) > 0 || untouched {
		return found, err
	}
	landed, err := j.landed(ctx, base)
	found.against, found.note = landed.against, landed.note
	return found, err
}

// lacking names the program that is not in the sandbox; "" means it is there.
func (j testRun) lacking(ctx context.Context) (string, error) {
	return lacks(ctx, j.scratch, j.run, j.tester.tool)
}

// baseline runs the base's tests on the base.
func (j testRun) baseline(ctx context.Context) (*results, finding, error) {
	r, _, found, err := j.attempt(ctx, j.t.base.layout(), "")
	if err != nil || len(found.against) > 0 {
		for i := range found.against {
			found.against[i] = "on the base: " + found.against[i]
		}
		return r, found, err
	}
	if r.count(green)+r.count(red) == 0 {
		r.tests = nil
	}
	return r, finding{}, nil
}

// planted runs the base's tests beside the host's own.
func (j testRun) planted(ctx context.Context, l layout, base *results) (finding, error) {
	nonce, err := newNonce()
	if err != nil {
		return finding{}, err
	}
	l = l.clone()
	canaries := j.tester.plant(j.t, j.p, l, nonce)
	r, out, found, err := j.attempt(ctx, l, nonce)
	if err != nil || len(found.against) > 0 {
		return found, err
	}
	own := r.without(nonce)
	list := own.missing(base)
	if len(list) == 0 {
		list = append(list, r.unseen(base, nonce, canaries)...)
	}
	if len(list) == 0 && out.ExitCode == 0 {
		list = append(list, "the runner's exit status is 0 although a test failed: its report is forged")
	}
	return withEnding(list, base, own, out), nil
}

// clean runs the base's tests on the work, and nothing else.
func (j testRun) clean(ctx context.Context, l layout, base *results) (finding, error) {
	r, out, found, err := j.attempt(ctx, l, "")
	if err != nil || len(found.against) > 0 {
		return found, err
	}
	list := r.missing(base)
	if len(list) == 0 && out.ExitCode != 0 {
		list = append(list, fmt.Sprintf("the runner's exit status is %d", out.ExitCode))
	}
	found = withEnding(list, base, r, out)
	for name, s := range base.tests {
		if s != skipped && r.tests[name] == green {
			found.green++
		}
	}
	return found, nil
}

// landed runs all tests as they would land. The base's must still be there under
// their names. The work's own vouch for nothing, and those that fail speak against
// it: a red suite never lands as a green one (F-94).
func (j testRun) landed(ctx context.Context, base *results) (finding, error) {
	r, out, found, err := j.attempt(ctx, j.t.work.layout(), "")
	if err != nil {
		return found, err
	}
	for i := range found.against {
		found.against[i] = "with the work's own tests: " + found.against[i]
	}
	if len(found.against) > 0 {
		return found, nil
	}
	list := r.missing(base)
	own := ownOf(r, base)
	for _, name := range own.names() {
		if own.tests[name] == red {
			list = append(list, name+" failed"+quote(r.said[name]))
		}
	}
	if len(list) == 0 && out.ExitCode != 0 {
		list = append(list, fmt.Sprintf("the runner's exit status is %d", out.ExitCode))
	}
	for i := range list {
		list[i] = "with the work's own tests, " + list[i]
	}
	found = withEnding(list, base, r, out)
	found.note = fmt.Sprintf("; %d of the work's own passed, which vouch for nothing", own.count(green))
	return found, nil
}

// ownOf are the tests that the base has not.
func ownOf(r, base *results) *results {
	own := newResults()
	for name, s := range r.tests {
		if _, known := base.tests[name]; !known {
			own.tests[name] = s
		}
	}
	return own
}

// withEnding adds what else failed and what the runner said last: a test that
// is not there at all has a reason that no test's name tells.
func withEnding(list []string, base, r *results, out Output) finding {
	if len(list) == 0 || out.ExitCode == 0 {
		return finding{against: list}
	}
	if len(list) > maxNamed/2 {
		list = append(list[:maxNamed/2:maxNamed/2], fmt.Sprintf("and %d more", len(list)-maxNamed/2))
	}
	for _, name := range r.names() {
		if _, known := base.tests[name]; !known && r.tests[name] == red && len(list) < maxNamed-1 {
			list = append(list, name+" failed"+quote(r.said[name]))
		}
	}
	said := r.said[building] + ending(out.Stderr)
	if said == "" && len(r.tests) == 0 {
		said = ending(out.Stdout)
	}
	if said != "" {
		list = append(list, fmt.Sprintf("the runner ended with %d", out.ExitCode)+quote(said))
	}
	return finding{against: list}
}

// attempt runs the tests of one layout in a fresh copy. What no report may
// have, such as one that was cut off, speaks against it at once.
func (j testRun) attempt(ctx context.Context, l layout, nonce string) (*results, Output, finding, error) {
	mark := nonce
	if mark == "" {
		var err error
		if mark, err = newNonce(); err != nil {
			return nil, Output{}, finding{}, err
		}
	}
	l = l.clone()
	argv, env, err := j.tester.command(j.t, j.p, l, mark)
	if err != nil {
		return newResults(), Output{}, against(err.Error()), nil
	}
	if j.p.language == rust {
		for _, crate := range j.crates {
			argv = append(argv, "--package", crate)
		}
	}
	out, err := inCopy(ctx, j.scratch, l, j.run, Command{Argv: at(j.p.dir, env, argv), Limit: testLimit})
	if err != nil {
		return nil, out, finding{}, err
	}
	r := j.tester.parse(out, mark)
	switch {
	case out.TimedOut:
		return r, out, against(fmt.Sprintf("the tests did not end within %s", testLimit)), nil
	case out.Cut:
		return r, out, against(fmt.Sprintf("the tests printed more than %d bytes, and their report is not whole", MaxOutput)), nil
	case len(r.odd) > 0:
		return r, out, against(append([]string{"the report is not to be trusted"}, r.odd...)...), nil
	case len(r.tests) == 0 && out.ExitCode != 0:
		return r, out, withEnding([]string{"no test is reported"}, newResults(), r, out), nil
	}
	return r, out, finding{}, nil
}

// newNonce is a word that no code under test can know beforehand.
func newNonce() (string, error) {
	var raw [12]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(raw[:]), nil
}

// at is a command in a folder below the bound one, with variables that go
// before those of the surroundings whatever their order is. All are words of
// their own to a shell that reads a fixed line.
func at(dir string, env, argv []string) []string {
	line := append([]string{"/bin/sh", "-c", `cd -- "$1" && shift && exec env "$@"`, "sh", "./" + dir}, env...)
	return append(line, argv...)
}

// lacks asks the sandbox for a program, and says so where it is not there.
func lacks(ctx context.Context, scratch string, run Runner, tool string) (string, error) {
	probe := Command{Argv: []string{"/bin/sh", "-c", `command -v "$1" >/dev/null`, "sh", tool}, Limit: time.Minute}
	out, err := inCopy(ctx, scratch, layout{}, run, probe)
	if err != nil || out.ExitCode == 0 && !out.TimedOut {
		return "", err
	}
	return tool + " is not installed in the sandbox: nothing can be judged without it", nil
}

// inCopy runs a command over a fresh copy of a layout, which is gone after it.
func inCopy(ctx context.Context, scratch string, l layout, run Runner, c Command) (out Output, err error) {
	dir, err := os.MkdirTemp(scratch, "verify-")
	if err != nil {
		return Output{}, err
	}
	defer func() { err = errors.Join(err, registry.Discard(dir)) }()
	if err := l.write(dir); err != nil {
		return Output{}, err
	}
	if c.Modules, err = Prepare(dir, l.modules); err != nil {
		return Output{}, err
	}
	c.Dir = dir
	return run(ctx, c)
}
