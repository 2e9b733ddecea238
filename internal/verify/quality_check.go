package verify

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre/internal/atom"
)

// checkLimit is how long one compiler may take.
const checkLimit = 15 * time.Minute

// check is one command whose verdict is formed outside of the code under test:
// a compiler or a vetter reads that code and does not run it.
type check struct {
	tool string
	argv []string
	env  []string
	// weak says why the code under test has a part in the verdict after all.
	weak string
	// refused says why a person has to look; nothing is run then.
	refused string
	// reports says that what it prints on standard output are findings.
	reports bool
	// read turns what it printed into findings, where not all of that is one.
	read func(Output) []string
}

// checked makes a handler of one language's checks. They look at the work
// exactly as it would land: what compiles is that, and not a mixture.
func checked(language string, of func(t trees, p part, s Subject) ([]check, error)) handler {
	return func(ctx context.Context, s Subject, _ atom.Atom, run Runner) (Verdict, error) {
		t, err := readTrees(s)
		if err != nil {
			return Verdict{}, err
		}
		list, err := partsToCheck(t, language, s)
		if err != nil {
			return failed("there is nothing to check", err.Error()), nil
		}
		weak := ""
		for _, p := range list {
			var d Dependencies
			if p.language != node || t.base.has(path.Join(p.dir, "tsconfig.json")) { // nothing else of Node's reads them
				if t, d, err = t.withDependencies(ctx, s, p); err != nil {
					return Verdict{}, err
				}
			}
			if d.Broken != "" {
				return failed("dependencies could not be fetched", d.Broken), nil
			}
			checks, err := of(t, p, s)
			if err != nil {
				return Verdict{}, err
			}
			for _, c := range checks {
				v, err := c.judge(ctx, t, p, s.Scratch, run)
				if err != nil || !v.Passed {
					v.Detail = also(v.Detail, d.Absent)
					return v, err
				}
				if c.weak != "" {
					weak = c.weak
				}
			}
		}
		if weak != "" {
			return Verdict{Passed: true, Strength: Weak, Detail: weak}, nil
		}
		return passed(), nil
	}
}

// cargoOrOwn is the check of Cargo projects, which the roles that ship ask for since the seed does.
// A repository that has none, neither before nor after the work, is held to the checks of the
// languages that it is written in instead. One that is written in none has failed.
func cargoOrOwn(ctx context.Context, s Subject, a atom.Atom, run Runner) (Verdict, error) {
	checks := map[string]handler{
		rust: checked(rust, cargoChecks), golang: checked(golang, goChecks), node: checked(node, nodeChecks), python: checked(python, pythonChecks),
	}
	t, err := readTrees(s)
	if err != nil {
		return Verdict{}, err
	}
	isRust := func(p part) bool { return p.language == rust }
	if len(s.Task.CheckCrates) > 0 || s.Task.Language == rust || slices.ContainsFunc(append(manifests(t.base), manifests(t.work)...), isRust) {
		return checks[rust](ctx, s, a, run)
	}
	list, err := parts(t.base, s.Task.Language, s.Changes)
	if err != nil {
		return failed("there is nothing to check", err.Error()), nil
	}
	verdict, done := passed(), map[string]bool{}
	for _, p := range list {
		if done[p.language] {
			continue
		}
		done[p.language] = true
		v, err := checks[p.language](ctx, s, a, run)
		if err != nil || !v.Passed {
			return v, err
		}
		if v.Strength == Weak {
			verdict.Strength = Weak
		}
		verdict.Detail = strings.TrimPrefix(verdict.Detail+"; held to the check of "+p.language+", there is no Cargo project", "; ")
	}
	return verdict, nil
}

// partsToCheck are the base's projects of a language, and those that the work
// added. A project that the base has and the work has not is a finding.
func partsToCheck(t trees, language string, s Subject) ([]part, error) {
	list, err := parts(t.base, language, s.Changes)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		for name := range t.base.files {
			if manifestOf(path.Base(name)) == language && path.Dir(name) == p.dir && !t.work.has(name) {
				return nil, fmt.Errorf("%s is gone", name)
			}
		}
	}
	for _, p := range manifests(t.work) {
		if p.language == language && !containsPart(list, p) && (language == golang || !within(list, p)) {
			list = append(list, p)
		}
	}
	return list, nil
}

func containsPart(list []part, p part) bool {
	for _, one := range list {
		if one == p {
			return true
		}
	}
	return false
}

func (c check) judge(ctx context.Context, t trees, p part, scratch string, run Runner) (Verdict, error) {
	if c.refused != "" {
		return failed("a person has to land this", c.refused), nil
	}
	if lacking, err := lacks(ctx, scratch, run, c.tool); lacking != "" || err != nil {
		return failed(c.tool+" is not there", lacking), err
	}
	out, err := inCopy(ctx, scratch, t.work.layout(), run, Command{Argv: at(p.dir, c.env, c.argv), Limit: checkLimit})
	if err != nil {
		return Verdict{}, err
	}
	v := c.verdict(p, out)
	if c.weak != "" {
		v.Strength = Weak
	}
	return v, nil
}

func (c check) verdict(p part, out Output) Verdict {
	name := strings.Join(c.argv[:min(len(c.argv), 2)], " ") + " in " + p.dir
	switch {
	case out.TimedOut:
		return failed(name+" did not end", fmt.Sprintf("its limit is %s", checkLimit))
	case out.Cut:
		return failed(name+" printed too much", fmt.Sprintf("more than %d bytes, and they are not whole", MaxOutput))
	case out.ExitCode != 0:
		said := ending(out.Stderr)
		if said == "" {
			said = ending(out.Stdout)
		}
		return failed(fmt.Sprintf("%s ended with %d", name, out.ExitCode), said)
	case c.read != nil:
		return verdict(name+" has findings", c.read(out))
	case c.reports && ending(out.Stdout) != "":
		return failed(name+" has findings", ending(out.Stdout))
	}
	return passed()
}

// goChecks build and vet a module. Neither runs any of its code: Go hands a C compiler
// only those flags of a source that load nothing.
func goChecks(t trees, p part, _ Subject) ([]check, error) {
	env := goSettings(t.work, p)
	return []check{
		{tool: "go", argv: []string{"go", "build", "./..."}, env: env},
		{tool: "go", argv: []string{"go", "vet", "./..."}, env: env},
	}, nil
}

// cargoChecks type-check a workspace. Build scripts and procedural macros of
// its own run while they do, so that with one of those the verdict is weak.
func cargoChecks(t trees, p part, s Subject) ([]check, error) {
	c := check{tool: "cargo", argv: []string{"cargo", "check", "--offline", "--all-targets"}, env: cargoSettings(), weak: compileTimeCode(t.work, p)}
	if len(s.Task.CheckCrates) == 0 {
		c.argv = append(c.argv, "--workspace")
	}
	for _, crate := range s.Task.CheckCrates {
		c.argv = append(c.argv, "--package", crate)
	}
	var err error
	c.refused, err = changedSettings(t, p)
	return []check{c}, err
}

// changedSettings names the file of the work that says how cargo itself runs:
// it could put another program in the compiler's place.
func changedSettings(t trees, p part) (string, error) {
	for _, c := range []checkout{t.base, t.work} {
		for _, name := range c.names() {
			if classOf(rust, name) != settings && !below(name, "vendor") {
				continue
			}
			equal, err := same(t.base, t.work, name)
			if err != nil {
				return "", err
			}
			if !equal {
				return fmt.Sprintf("%s was changed: it may say how cargo in %s runs, or run while it does", name, p.dir), nil
			}
		}
	}
	return "", nil
}

// compileTimeCode says which code of the project runs while it is compiled.
func compileTimeCode(c checkout, p part) string {
	for _, name := range c.names() {
		if !inside(p.dir, name) || borrowed(name) {
			continue
		}
		if path.Base(name) == "build.rs" {
			return name + " runs while the project is compiled"
		}
		if path.Base(name) != "Cargo.toml" {
			continue
		}
		data, err := c.read(name)
		if text := string(data); err != nil || strings.Contains(text, "proc-macro") || strings.Contains(text, "proc_macro") || strings.Contains(text, "build") {
			return name + " may name code that runs while the project is compiled"
		}
	}
	return ""
}
