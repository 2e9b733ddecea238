// Package survey finds out what a machine and a project bring along, agents, keys and
// checks, and proposes the operator's first config.toml from it (U-31). It starts nothing
// of the project's, and reads of it what a few files of its top folder say.
package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/internal/brain"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/configfile"
	"github.com/nacre-dev/nacre/internal/disk"
)

// maxFile is the longest file of a project that is read, in bytes.
const maxFile = 1 << 20

// Found is what a machine and a project bring along.
type Found struct {
	Agents    []Agent
	Languages []Language
	// Checks verify the project.
	Checks   []string
	Proposal Proposal
}

// Agent is one that nacre can drive here, or why it cannot.
type Agent struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// Text is its version and where its key comes from, or what is missing; Next helps then.
	Text string `json:"text"`
	Next string `json:"next,omitempty"`
}

// Agents are all but the one that only plays recordings.
func Agents(ctx context.Context, o brain.Options) []Agent {
	all := []Agent{}
	for _, b := range brain.All(o) {
		if b.Name() == brain.NewReplay().Name() {
			continue
		}
		status := b.Detect(ctx)
		a := Agent{Name: b.Name(), Ready: status.Ready(), Text: status.Why, Next: status.Next}
		if a.Ready {
			a.Text, a.Next = status.Version, ""
			if status.KeyFrom != "" {
				a.Text = strings.TrimSpace(a.Text + " · key from " + status.KeyFrom)
			}
		}
		all = append(all, a)
	}
	return all
}

// Language is one that a project is written in.
type Language struct {
	Name string `json:"name"`
	// File says so. Check is the command that people verify such a project with, empty where it has none. Bundle are the
	// hosts that its packages come from.
	File   string `json:"file"`
	Check  string `json:"check,omitempty"`
	Bundle string `json:"bundle"`
}

// Languages are those of the files at the top of a folder.
func Languages(project string) []Language {
	found := []Language{}
	for _, l := range []struct {
		name, bundle string
		files        []string // any of them says so
		check        func(file, text string) string
	}{
		{"Go", "go", []string{"go.mod"}, func(string, string) string { return "go test ./..." }},
		{"Node", "npm", []string{"package.json"}, npmCheck},
		{"Rust", "cargo", []string{"Cargo.toml"}, func(string, string) string { return "cargo test" }},
		{"Python", "pip", []string{"pytest.ini", "pyproject.toml", "setup.cfg", "setup.py", "requirements.txt"}, pytestCheck},
	} {
		language := Language{Name: l.name, Bundle: l.bundle}
		for _, file := range l.files {
			text, err := disk.Read(filepath.Join(project, file), maxFile)
			if err != nil || language.Check != "" {
				continue
			}
			if check := l.check(file, string(text)); check != "" || language.File == "" {
				language.File, language.Check = file, check
			}
		}
		if language.File != "" {
			found = append(found, language)
		}
	}
	return found
}

// pytestCheck is pytest, where a file of a Python project speaks of it: Python's own is of another name in each project.
func pytestCheck(file, text string) string {
	if file == "pytest.ini" || strings.Contains(text, "pytest") {
		return "python3 -m pytest"
	}
	return ""
}

// npmCheck is npm test, where there are tests: npm init writes a script that says there are none.
func npmCheck(_, text string) string {
	var file struct{ Scripts map[string]string }
	if err := json.Unmarshal([]byte(text), &file); err != nil || file.Scripts["test"] == "" || strings.Contains(file.Scripts["test"], "no test specified") {
		return ""
	}
	return "npm test"
}

// testTarget tells whether a Makefile says how it tests.
func testTarget(makefile string) bool {
	for line := range strings.Lines(makefile) {
		rest, is := strings.CutPrefix(line, "test")
		if rest = strings.TrimLeft(rest, " \t"); is && strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, ":=") {
			return true
		}
	}
	return false
}

// Checks are what verifies a project: make test where its Makefile has that, else the
// checks of its languages.
func Checks(project string, of []Language) []string {
	if text, err := disk.Read(filepath.Join(project, "Makefile"), maxFile); err == nil && testTarget(string(text)) {
		return []string{"make test"}
	}
	checks := []string{}
	for _, l := range of {
		if l.Check != "" {
			checks = append(checks, l.Check)
		}
	}
	return checks
}

// Proposal is what config.toml would say that it does not say yet.
type Proposal struct {
	// Lines are put before all that is there.
	Lines string
	dir   string
	want  config.Config
	fresh bool
}

// Path is the file.
func (p Proposal) Path() string { return filepath.Join(p.dir, config.FileName) }

// Verifies are the checks that the config says already.
func (p Proposal) Verifies() []string {
	if p.fresh {
		return nil
	}
	return p.want.Checks
}

// Propose is what a folder's config would say: that such checks verify a run, those found where none is named, and that
// sessions may reach such bundles of hosts. What it says already stays, and nothing else is said in its place. Lines are
// empty where nothing is left to say.
func Propose(dir string, have config.Config, checks, allow []string, found Found) (Proposal, error) {
	_, err := os.Lstat(filepath.Join(dir, config.FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Proposal{}, err
	}
	p := Proposal{dir: dir, want: have, fresh: err != nil}
	if !p.fresh {
		return p.added(checks, allow, found)
	}
	if len(checks) == 0 {
		checks = found.Checks
	}
	bundles := []string{}
	for _, l := range found.Languages {
		bundles = append(bundles, "bundle:"+l.Bundle)
	}
	p.Lines = first(checks, allow, bundles)
	return p, nil
}

// added is what is put before a config that is there.
func (p Proposal) added(checks, allow []string, found Found) (Proposal, error) {
	have := p.want
	for _, bundle := range prefixed(allow) {
		if !slices.Contains(have.Egress.Allow, bundle) {
			return Proposal{}, config.Errorf("%s is there already: write %q into allow under [egress] in it", p.Path(), bundle)
		}
	}
	if len(have.Checks) > 0 {
		if len(checks) > 0 && !slices.Equal(checks, have.Checks) {
			return Proposal{}, config.Errorf("%s has checks already, %s: change them in it", p.Path(), list(have.Checks))
		}
		return p, nil
	}
	if len(checks) == 0 {
		checks = found.Checks
	}
	if len(checks) > 0 {
		p.want.Checks = checks
		p.Lines = checksLines(checks) + "\n"
	}
	return p, nil
}

func checksLines(checks []string) string {
	return "# What verifies a run where its command line names no check.\nchecks = " + list(checks) + "\n"
}

// first is a whole config.
func first(checks, allow, bundles []string) string {
	var b strings.Builder
	b.WriteString("# nacre's configuration. docs/config.md has every key, nacre config schema a schema for editors.\n\n")
	if len(checks) > 0 {
		b.WriteString(checksLines(checks))
	} else {
		b.WriteString("# What verifies a run where its command line names no check.\n# checks = [\"make test\"]\n")
	}
	b.WriteString("\n# brain = \"claude\"             # where none is named: the first agent that is ready\n")
	b.WriteString("\n[egress]\n# What sessions may reach, as HOST:PORT or as a bundle (nacre egress bundles). All else is asked.\n")
	switch {
	case len(allow) > 0:
		b.WriteString("allow = " + list(prefixed(allow)) + "\n")
	case len(bundles) > 0:
		b.WriteString("# allow = " + list(bundles) + "\n")
	default:
		b.WriteString("# allow = [\"bundle:go\"]\n")
	}
	b.WriteString("\n[model]\n# What one run may spend; it is reserved before each call.\n# budget_usd = \"2.00\"\n")
	return b.String()
}

func prefixed(bundles []string) []string {
	all := slices.Clone(bundles)
	for i, name := range all {
		all[i] = "bundle:" + strings.TrimPrefix(name, "bundle:")
	}
	return all
}

func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = configfile.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Write writes what was proposed, where the file is still as it was then.
func (p Proposal) Write() error {
	path := p.Path()
	if !p.fresh {
		changed, err := configfile.Change(p.dir, p.want, func(text string) string { return p.Lines + text })
		if err == nil && !changed {
			err = fmt.Errorf("%s is not one that nacre can change: write the lines above into it", path)
		}
		return err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(p.Lines)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		if _, err = config.Load(p.dir); err != nil {
			err = &config.Error{Err: err} // such as a bundle that there is not
		}
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
