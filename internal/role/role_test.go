package role_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/role"
)

// project is a library with roles of its own, and one atom.
func project(roles map[string]string) role.Library {
	fsys := fstest.MapFS{
		"capabilities/team/no-svn/capability.toml": {Data: []byte("[capability]\nname = \"team::no-svn\"\ncategory = \"team\"\nversion = \"1\"\ndescription = \"x\"\n[restricts]\ntool-patterns = ['^svn( |$)']\n")},
		"capabilities/team/no-svn/text.md":         {Data: []byte("You MUST NOT run svn.\r\n")},
	}
	for name, text := range roles {
		fsys["roles/"+name+".toml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return role.Library{Project: fsys}
}

// made is the text of a role.
func made(name, rest string) string { return fmt.Sprintf("[role]\nname = %q\n%s", name, rest) }

func ids(list []atom.Atom) []string {
	names := make([]string, 0, len(list))
	for _, a := range list {
		names = append(names, string(a.ID))
	}
	return names
}

var (
	localAtoms = []string{
		"policy::no-git-ops", "scope::files-whitelist", "scope::files-denylist", "quality::constructor-pattern",
		"quality::cargo-check-green", "quality::tests-green", "safety::no-dep-bump", "output::report-format",
	}
	readAtoms = []string{"tools::deny-tools", "output::report-format", "output::severity-grade"}
)

// S-08, M-12: the roles that ship.
func TestShippedRoles(t *testing.T) {
	for _, want := range []struct {
		name, subagent, isolation, escalation string
		spawnable                             bool
		atoms, tools                          []string
	}{
		{"read-only", "critic", "none", role.AskViaReturn, true, readAtoms, []string{"Read", "Glob", "Grep", "WebFetch"}},
		{"explorer", "Explore", "none", role.AskViaReturn, true, append(slices.Clone(readAtoms), "tools::bash-allowlist"), []string{"Read", "Glob", "Grep", "WebFetch", "Bash"}},
		{"ipc-only", "critic", "none", role.AskViaReturn, true, readAtoms, []string{"Read", "Glob", "Grep", "Bash"}},
		{"edit-local", "code-implementer", "worktree", role.AskViaReturn, true, localAtoms, []string{"Read", "Write", "Edit", "Glob", "Grep", "Bash"}},
		{"edit-shared", "code-implementer", "worktree", role.NotifyOrchestrator, true, localAtoms, []string{"Read", "Write", "Edit", "Glob", "Grep", "Bash"}},
		{"git-ops", "NOT-SPAWNABLE", "none", role.FailFast, false, []string{}, nil},
		{"auditor", "critic", "none", role.NotifyOrchestrator, true, append(slices.Clone(readAtoms), "policy::no-git-ops", "output::ledger-row-required"), []string{"Read", "Glob", "Grep"}},
		{"merger", "NOT-SPAWNABLE", "none", role.FailFast, false, []string{"output::ledger-row-required"}, nil},
	} {
		r, err := role.Library{}.Resolve(want.name)
		if err != nil {
			t.Fatal(err)
		}
		if r.SubagentType != want.subagent || r.Isolation != want.isolation || r.Escalation != want.escalation || r.Spawnable != want.spawnable ||
			!slices.Equal(ids(r.Atoms), want.atoms) || !slices.Equal(r.Tools, want.tools) || len(r.Warnings) > 0 || !r.BuiltIn {
			t.Errorf("%s: have %+v", want.name, r)
		}
	}
	list, err := role.Library{}.All()
	if err != nil || len(list) != 8 {
		t.Errorf("%d roles, %v", len(list), err)
	}
}

// S-02, S-08: the seed's sample of a role loads as it is.
func TestSeedRoleLoads(t *testing.T) {
	const sample = `[role]
name = "edit-seed"
display-name = "code-implementer (local edit scope)"
description = "Write code + run cargo check/test + emit report. No git, no workspace touches."

[capabilities]
# Ordered list — text.md fragments concatenated in this order
required = [
    "policy::no-git-ops",
    "scope::files-whitelist",
    "scope::files-denylist",
    "quality::constructor-pattern",
    "quality::cargo-check-green",
    "quality::tests-green",
    "safety::no-dep-bump",
    "output::report-format",
]

[tools]
# Tool allowlist — anything not in this list is denied
allowed = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
# Bash further restricted by quality/tools atoms
bash-patterns-allowed = ['^cargo( |$)', '^mkdir( |$)', '^rm -rf /tmp/']

[escalation]
policy = "ask-via-return"        # ask-via-return | orchestrator-notify | fail-fast
`
	r, err := project(map[string]string{"edit-seed": sample}).Resolve("edit-seed")
	if err != nil || !slices.Equal(ids(r.Atoms), localAtoms) || len(r.Commands) != 1 || len(r.Commands[0]) != 3 || !r.Spawnable || r.BuiltIn {
		t.Errorf("%+v, %v", r, err)
	}
}

// S-08: what a role inherits, in which order, and what it can drop.
func TestResolve(t *testing.T) {
	const base = "[capabilities]\nrequired = [\"quality::tests-green\", \"safety::no-dep-bump\", \"safety::no-mass-delete\"]\nrelaxable = [\"safety::no-dep-bump\"]\n"
	for name, c := range map[string]struct {
		child string
		want  []string
		warn  string
	}{
		"the parent's come first":        {"required = [\"team::no-svn\"]", []string{"quality::tests-green", "safety::no-dep-bump", "safety::no-mass-delete", "team::no-svn"}, ""},
		"what is there is not put twice": {"required = [\"safety::no-dep-bump\", \"team::no-svn\", \"team::no-svn\"]", []string{"quality::tests-green", "safety::no-dep-bump", "safety::no-mass-delete", "team::no-svn"}, ""},
		"quality can be relaxed":         {"relaxes = [\"quality::tests-green\"]", []string{"safety::no-dep-bump", "safety::no-mass-delete"}, ""},
		"what is relaxable can":          {"relaxes = [\"safety::no-dep-bump\"]", []string{"quality::tests-green", "safety::no-mass-delete"}, ""},
		"relaxing what is not inherited": {"relaxes = [\"scope::no-rule-edits\"]", []string{"quality::tests-green", "safety::no-dep-bump", "safety::no-mass-delete"}, "does not inherit"},
		"a retired name is the new one":  {"required = [\"tools::read-only\"]", []string{"quality::tests-green", "safety::no-dep-bump", "safety::no-mass-delete", "tools::deny-tools"}, ""},
	} {
		l := project(map[string]string{"base": made("base", base), "child": made("child", "[capabilities]\nextends = \"base\"\n"+c.child+"\n")})
		r, err := l.Resolve("child")
		if err != nil || !slices.Equal(ids(r.Atoms), c.want) || !slices.Equal(r.Extends, []string{"base"}) {
			t.Errorf("%s: have %v, %v", name, ids(r.Atoms), err)
		}
		if warned := strings.Join(r.Warnings, "\n"); (warned != "") != (c.warn != "") || !strings.Contains(warned, c.warn) {
			t.Errorf("%s: warned %q", name, warned)
		}
	}
}

// S-08: what a role can say and what it cannot.
func TestBadRoles(t *testing.T) {
	base := made("base", "[capabilities]\nrequired = [\"policy::no-git-ops\", \"quality::tests-green\"]\n[tools]\nallowed = [\"Read\", \"Bash\"]\n")
	for name, c := range map[string]struct{ child, want string }{
		"policy is not to be relaxed":     {"[capabilities]\nextends = \"base\"\nrelaxes = [\"policy::no-git-ops\"]", "does not say that it is relaxable"},
		"safety is not either":            {"[capabilities]\nextends = \"edit-local\"\nrelaxes = [\"safety::no-dep-bump\"]", "cannot be relaxed"},
		"nor is scope":                    {"[capabilities]\nextends = \"edit-shared\"\nrelaxes = [\"scope::files-denylist\"]", "cannot be relaxed"},
		"relaxable is the owner's to say": {"[capabilities]\nextends = \"base\"\nrelaxable = [\"policy::no-git-ops\"]", "cannot be made relaxable"},
		"required and relaxed":            {"[capabilities]\nextends = \"base\"\nrequired = [\"quality::tests-green\"]\nrelaxes = [\"quality::tests-green\"]", "both required and relaxed"},
		"an unknown parent":               {"[capabilities]\nextends = \"none-such\"", `role "child" extends unknown role "none-such"`},
		"a parent that is a path":         {"[capabilities]\nextends = \"../base\"", "capabilities.extends"},
		"an empty parent":                 {"[capabilities]\nextends = \"\"", "leave it out"},
		"itself as parent":                {"[capabilities]\nextends = \"child\"", "cycle: child → child"},
		"an unknown atom":                 {"[capabilities]\nrequired = [\"policy::no-such\"]", "capabilities.required: unknown atom"},
		"an unknown atom to relax":        {"[capabilities]\nextends = \"base\"\nrelaxes = [\"policy::no-such\"]", "capabilities.relaxes: unknown atom"},
		"an atom that is no name":         {"[capabilities]\nrequired = [\"no-git-ops\"]", "no atom's name"},
		"an unknown key":                  {"[capabilities]\nrequires = []", `line 4: unknown key "capabilities.requires"; did you mean "capabilities.required"`},
		"spawnable under what is not":     {"spawnable = true\n[capabilities]\nextends = \"git-ops\"", "is not spawnable"},
		"no tool left":                    {"[capabilities]\nextends = \"base\"\n[tools]\nallowed = [\"Write\"]", "no tool is left"},
		"an empty list of tools":          {"[tools]\nallowed = []", "no tool is left"},
		"all tools denied":                {"[tools]\nallowed = [\"Read\"]\ndenied = [\"Read\"]", "no tool is left"},
		"a tool that is not its to give":  {"[capabilities]\nextends = \"base\"\n[tools]\nrelaxable = [\"Write\"]", "not for this role to give"},
		"a pattern that is none":          {"[tools]\nbash-patterns-allowed = ['^git(']", "pattern"},
		"an unknown escalation":           {"[escalation]\npolicy = \"panic\"", "escalation.policy"},
		"an unknown isolation":            {"isolation = \"vm\"", "role.isolation"},
		"a subagent type with a space":    {"claude-subagent-type = \"a b\"", "claude-subagent-type"},
		"null":                            {"claude-subagent-type = null", "TOML has no null"},
		"a name in two lines":             {"display-name = \"a\\nb\"", "one line"},
		"a list with an escape in it":     {"[tools]\nallowed = [\"Re\\u001bad\"]", "cannot be seen"},
		"half a file":                     {"[capabilities", ""},
		"more than a file may hold":       {strings.Repeat("#", atom.MaxFile), "bytes"},
		"a text where a list should be":   {"[capabilities]\nrequired = \"policy::no-git-ops\"", ""},
		"a spawnable that is a text":      {"spawnable = \"no\"", ""},
	} {
		_, err := project(map[string]string{"base": base, "child": made("child", c.child+"\n")}).Resolve("child")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		}
	}
	for name, l := range map[string]role.Library{
		"another name":            project(map[string]string{"child": made("other", "")}),
		"a built-in's name":       project(map[string]string{"child": "", "read-only": made("read-only", "")}),
		"a file that is no name":  project(map[string]string{"Child": made("Child", "")}),
		"a role that is a folder": {Project: fstest.MapFS{"roles/child.toml/x": {}}},
	} {
		if _, err := l.All(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := (role.Library{}).Resolve("../x"); err == nil {
		t.Error("a path is a role")
	}
	if _, err := (role.Library{}).Resolve("nobody"); !errors.Is(err, role.ErrUnknown) {
		t.Errorf("have %v", err)
	}
}

// S-08: consent to relax is given by each role to its own children only.
func TestRelaxableIsNotInherited(t *testing.T) {
	const owner = "[capabilities]\nrequired = [\"safety::no-dep-bump\"]\nrelaxable = [\"safety::no-dep-bump\"]\n"
	silent, saying := "[capabilities]\nextends = \"a\"\n", "[capabilities]\nextends = \"a\"\nrelaxable = [\"safety::no-dep-bump\"]\n"
	const child = "[capabilities]\nextends = \"b\"\nrelaxes = [\"safety::no-dep-bump\"]\n"
	for middle, want := range map[string]bool{silent: false, saying: true} {
		r, err := project(map[string]string{"a": made("a", owner), "b": made("b", middle), "c": made("c", child)}).Resolve("c")
		if (err == nil) != want || want && len(r.Atoms) != 0 {
			t.Errorf("%q: %v, %v", middle, ids(r.Atoms), err)
		}
	}
}

// S-08: a cycle is named, and depth has a limit.
func TestCyclesAndDepth(t *testing.T) {
	chain := map[string]string{"r0": made("r0", "")}
	for i := 1; i <= role.MaxDepth+1; i++ {
		name := fmt.Sprintf("r%d", i)
		chain[name] = made(name, fmt.Sprintf("[capabilities]\nextends = \"r%d\"\n", i-1))
	}
	if r, err := project(chain).Resolve(fmt.Sprintf("r%d", role.MaxDepth)); err != nil || len(r.Extends) != role.MaxDepth {
		t.Errorf("%v, %v", r.Extends, err)
	}
	if _, err := project(chain).Resolve(fmt.Sprintf("r%d", role.MaxDepth+1)); err == nil || !strings.Contains(err.Error(), "more than 16") {
		t.Errorf("have %v", err)
	}
	chain["r0"] = made("r0", "[capabilities]\nextends = \"r2\"\n")
	if _, err := project(chain).Resolve("r1"); err == nil || !strings.Contains(err.Error(), "cycle: r1 → r0 → r2 → r1") {
		t.Errorf("have %v", err)
	}
}

// S-08: what is not spawnable stays so in every role that extends it.
func TestNotSpawnable(t *testing.T) {
	l := project(map[string]string{
		"sly":   made("sly", "[capabilities]\nextends = \"git-ops\"\nrequired = [\"quality::tests-green\"]\n"),
		"slyer": made("slyer", "claude-subagent-type = \"x\"\n[capabilities]\nextends = \"sly\"\n"),
	})
	for _, name := range []string{"git-ops", "merger", "sly", "slyer"} {
		r, err := l.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.CheckSpawnable(); r.Spawnable || !errors.Is(err, role.ErrNotSpawnable) || !strings.Contains(err.Error(), "RULE 0.13") {
			t.Errorf("%s: %v", name, err)
		}
		task := atom.Task{Parameters: atom.Parameters{Role: name, AgentID: "a"}, Body: "x"}
		if _, err := role.Compose(r, task); !errors.Is(err, role.ErrNotSpawnable) {
			t.Errorf("%s: composed: %v", name, err)
		}
		if _, err := role.Prepare(r, task, "", ""); !errors.Is(err, role.ErrNotSpawnable) {
			t.Errorf("%s: prepared: %v", name, err)
		}
	}
	if err := (role.Resolved{}).CheckSpawnable(); err == nil {
		t.Error("the zero value is spawnable")
	}
}

// S-02: lists of tools and commands only become less on the way down.
func TestToolsNarrow(t *testing.T) {
	base := made("base", "[tools]\nallowed = [\"Read\", \"Bash\", \"Grep\"]\ndenied = [\"mcp__x\"]\nrelaxable = [\"WebFetch\"]\nbash-patterns-allowed = ['^cargo( |$)']\n")
	for name, c := range map[string]struct {
		child    string
		tools    []string
		commands int
		warn     bool
	}{
		"nothing said":               {"", []string{"Read", "Bash", "Grep"}, 1, false},
		"fewer":                      {"allowed = [\"Grep\", \"Read\"]\nbash-patterns-allowed = ['^cargo test( |$)']", []string{"Grep", "Read"}, 2, false},
		"more than the parent has":   {"allowed = [\"Read\", \"Write\"]", []string{"Read"}, 1, true},
		"what the parent lets it":    {"allowed = [\"Read\", \"WebFetch\"]", []string{"Read", "WebFetch"}, 1, false},
		"every tool":                 {"allowed = [\"*\"]", []string{"Read", "Bash", "Grep"}, 1, false},
		"no command":                 {"bash-patterns-allowed = []", []string{"Read", "Bash", "Grep"}, 2, false},
		"the same in another case":   {"allowed = [\"Read\", \"bash\"]", []string{"Read"}, 1, true},
		"what the parent lets, once": {"allowed = [\"Read\", \"Read\"]", []string{"Read"}, 1, false},
	} {
		l := project(map[string]string{"base": base, "child": made("child", "[capabilities]\nextends = \"base\"\n[tools]\ndenied = [\"mcp__y\"]\n"+c.child+"\n")})
		r, err := l.Resolve("child")
		warned := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "stays denied") })
		if err != nil || !slices.Equal(r.Tools, c.tools) || len(r.Commands) != c.commands || !slices.Equal(r.Denied, []string{"mcp__x", "mcp__y"}) || warned != c.warn {
			t.Errorf("%s: %v %v %v %v, %v", name, r.Tools, r.Commands, r.Denied, r.Warnings, err)
		}
	}
}

// M-69: a sub-agent's role holds it at least as much as its parent's.
func TestARoleIsWithinAnother(t *testing.T) {
	l := project(map[string]string{
		"held":   made("held", "[capabilities]\nextends = \"edit-local\"\nrequired = [\"team::no-svn\"]\n"),
		"open":   made("open", ""),
		"listed": made("listed", "[tools]\nallowed = [\"Read\"]\n"),
	})
	for _, c := range []struct {
		name, above string
		within      bool
	}{
		{"edit-local", "edit-local", true}, {"held", "edit-local", true}, {"held", "open", true}, {"read-only", "explorer", false},
		{"edit-local", "held", false}, {"open", "held", false}, {"edit-local", "read-only", false}, {"open", "listed", false}, {"listed", "open", true},
	} {
		own, err := l.Resolve(c.name)
		if err != nil {
			t.Fatal(err)
		}
		above, err := l.Resolve(c.above)
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Within(above); (err == nil) != c.within {
			t.Errorf("%s within %s: %v", c.name, c.above, err)
		}
	}
}
