package atom_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nacre-dev/nacre/internal/atom"
)

// shipped are the atoms of S-04.
var shipped = []string{
	"output::ledger-row-required", "output::report-format", "output::severity-grade", "policy::no-git-ops",
	"quality::cargo-check-green", "quality::constructor-pattern", "quality::go-check-green", "quality::no-warnings",
	"quality::node-check-green", "quality::python-check-green", "quality::tests-green",
	"safety::no-dep-bump", "safety::no-mass-delete", "scope::files-denylist", "scope::files-whitelist", "scope::no-rule-edits",
	"tools::bash-allowlist", "tools::deny-tools",
}

// S-03, S-04: all atoms ship, each with a text of at most 200 words and at
// least one layer that is not text.
func TestShippedAtoms(t *testing.T) {
	list, err := atom.Library{}.All()
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, a := range list {
		have = append(have, string(a.ID))
		if words := len(strings.Fields(a.Text)); words == 0 || words > atom.MaxWords {
			t.Errorf("%s: %d words", a.ID, words)
		}
		if !a.BuiltIn || !a.HasGate() && a.OS.IsZero() && a.Verify.Handler == "" {
			t.Errorf("%s holds nothing but its text", a.ID)
		}
		if !strings.Contains(a.Text, "MUST") {
			t.Errorf("%s: its text does not lead with a rule", a.ID)
		}
	}
	if !slices.Equal(have, shipped) {
		t.Errorf("have %v, want %v", have, shipped)
	}
}

// S-04: the seed's retired names are the new ones.
func TestRetiredNames(t *testing.T) {
	for old, want := range map[string]atom.ID{"tools::read-only": "tools::deny-tools", "tools::cargo-only-bash": "tools::bash-allowlist"} {
		if a, err := (atom.Library{}).Find(old); err != nil || a.ID != want {
			t.Errorf("%s: %v, %v", old, a.ID, err)
		}
	}
}

// S-01: names.
func TestParseID(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, name := range []string{"a::b", "a-1::b-2", long + "::" + long} {
		if _, err := atom.ParseID(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	for _, name := range []string{"", "a", "a:b", "::b", "a::", "A::b", "a::B", "1a::b", "-a::b", "a::b::c", "../a::b", "a/b::c", "a::b/..", "a::b\n", "a::é", "a ::b", long + "a::b"} {
		if _, err := atom.ParseID(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// seedSample is the seed's own sample, comments and all.
const seedSample = `[capability]
name = "policy::no-git-ops-x"     # <category>::<slug> namespace
category = "policy"             # policy | scope | quality | safety | output | tools
version = "1.0"
description = "RULE 0.13 — orchestrator owns git, agent writes files only"
rationale = "See ~/.claude/rules/orchestrator-branch-first.md"

[restricts]
tool-patterns = [                # matched against tool_input.command
  '^git( |$)',
  '^gh (repo|api /repos)',
]
tools-denied = []                # e.g. ["Edit", "Write"] for read-only

[parameterized]
accepts = []                     # e.g. ["files-whitelist"] for scope/* caps

[text]
path = "text.md"                 # relative to capability dir

[gate]
rust-module = "gates::policy_no_git_ops"
event = "PreToolUse:Bash"
severity = "block"
bypass-env = "ORCHESTRATOR_META"

[verify]
rust-module = "verifies::policy_no_git_ops"
run-mode = "simulated-merge"
when = "on-return"
`

func project(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys["capabilities/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func find(source, text string) (atom.Atom, error) {
	return atom.Library{Project: project(map[string]string{
		"policy/no-git-ops-x/capability.toml": source, "policy/no-git-ops-x/text.md": text,
	})}.Find("policy::no-git-ops-x")
}

// S-02: the seed's sample loads, and its module is the built-in gate.
func TestSeedSampleLoads(t *testing.T) {
	a, err := find(seedSample, "You MUST NOT.\n")
	if err != nil {
		t.Fatal(err)
	}
	if a.Gate.Handler != "no-git-ops" || a.Verify.RunMode != "simulated-merge" || a.Gate.BypassEnv != "ORCHESTRATOR_META" || len(a.Forbidden) != 2 || a.BuiltIn {
		t.Errorf("%+v", a)
	}
}

// S-01 to S-03: what is not exactly an atom is an error that says why.
func TestBadAtomsAreErrors(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(seedSample, old, new, 1) }
	for name, c := range map[string]struct{ source, text, want string }{
		"an unknown key":             {seedSample + "extra = 1\n", "x", "unknown key"},
		"an unknown table":           {seedSample + "[more]\n", "x", "unknown key"},
		"a key in another case":      {swap("version =", "Version ="), "x", "unknown key"},
		"another name":               {swap("no-git-ops-x", "other"), "x", "folder says"},
		"another category":           {swap(`category = "policy"`, `category = "scope"`), "x", "category"},
		"no version":                 {swap(`version = "1.0"`, ""), "x", "version"},
		"an unknown gate":            {swap("gates::policy_no_git_ops", "gates::other"), "x", "there is no"},
		"a verifier for a gate":      {swap("gates::policy_no_git_ops", "verifies::policy_no_git_ops"), "x", "there is no"},
		"an unknown verifier":        {swap("verifies::policy_no_git_ops", "verifies::x"), "x", "there is no"},
		"an unknown severity":        {swap(`"block"`, `"loud"`), "x", "severity"},
		"an unknown run mode":        {swap(`"simulated-merge"`, `"never"`), "x", "run-mode"},
		"an event after the call":    {swap("PreToolUse:Bash", "PostToolUse"), "x", "event"},
		"a bypass that is no name":   {swap("ORCHESTRATOR_META", "a b"), "x", "bypass-env"},
		"a pattern that is none":     {swap("'^git( |$)'", "'^git('"), "x", "pattern"},
		"an empty pattern":           {swap("'^git( |$)'", "''"), "x", "empty"},
		"a text outside":             {swap(`"text.md" `, `"../text.md" `), "x", "text.path"},
		"a text that is not there":   {swap(`"text.md" `, `"other.md" `), "x", "other.md"},
		"an empty text":              {seedSample, " \n", "empty"},
		"a text of 201 words":        {seedSample, strings.Repeat("word ", 201), "201 words"},
		"a text with an escape":      {seedSample, "x\x1b[2J", "cannot be seen"},
		"a text with a hidden word":  {seedSample, "x\u200by", "cannot be seen"},
		"a text that is not UTF-8":   {seedSample, "\xff", "UTF-8"},
		"a list nobody gives":        {seedSample + "[os]\nwritable = [\"$all\"]\n", "x", "no task has"},
		"a layer that is not there":  {seedSample + "[network]\nallow = []\n", "x", "unknown key"},
		"half a file":                {seedSample[:200], "x", ""},
		"more than it may hold":      {seedSample + strings.Repeat("#", atom.MaxFile), "x", "bytes"},
		"an allow-list of nothing":   {swap("gates::policy_no_git_ops", "gates::tools_bash_allowlist"), "x", "bash-patterns-allowed"},
		"a number where text should": {swap(`version = "1.0"`, "version = 1"), "x", ""},
	} {
		if _, err := find(c.source, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: have %v, want %q", name, err, c.want)
		}
	}
	if _, err := find(seedSample, strings.Repeat("word ", 200)); err != nil {
		t.Errorf("200 words: %v", err)
	}
}

// S-01: a project adds atoms and does not replace any.
func TestProjectDoesNotReplace(t *testing.T) {
	l := atom.Library{Project: project(map[string]string{"policy/no-git-ops/text.md": "anything goes"})}
	if _, err := l.Find("policy::no-git-ops"); err == nil || !strings.Contains(err.Error(), "built-in") {
		t.Errorf("have %v", err)
	}
	if _, err := l.All(); err == nil {
		t.Error("listed as if nothing were")
	}
}

// S-07: a fork is its source under a new name, with its lineage and its text.
func TestFork(t *testing.T) {
	a, err := find(seedSample+"\n[lineage]\nfork_from = \"a::b\"\nparents = [\"a::b\"]\ncreator = \"x\"\ncreated = \"2026-01-01T00:00:00Z\"\n", "You MUST NOT.\r\n")
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Fork("team::lax", `a"b\c`, time.Date(2026, 5, 1, 12, 0, 0, 0, time.FixedZone("x", 3600)))
	if err != nil {
		t.Fatal(err)
	}
	if string(f.Text) != "You MUST NOT.\r\n" || f.Dir != "capabilities/team/lax" || f.Rewritten != 2 {
		t.Errorf("%q %q %d", f.Text, f.Dir, f.Rewritten)
	}
	forked, err := atom.Library{Project: project(map[string]string{"team/lax/capability.toml": string(f.TOML), "team/lax/text.md": string(f.Text)})}.Find("team::lax")
	if err != nil {
		t.Fatal(err)
	}
	if l := forked.Lineage; l.ForkFrom != "policy::no-git-ops-x" || !slices.Equal(l.Parents, []string{"policy::no-git-ops-x"}) || l.Creator != `a"b\c` || l.Created != "2026-05-01T11:00:00Z" {
		t.Errorf("%+v", l)
	}
	if forked.Gate.Handler != "no-git-ops" || !strings.Contains(string(f.TOML), "# relative to capability dir") {
		t.Error("the gate or the comments are lost")
	}
	for _, name := range []string{"", "Lax", "../x", "policy::no-git-ops-x", "tools::read-only"} {
		if _, err := a.Fork(name, "x", time.Time{}); err == nil {
			t.Errorf("forked as %q", name)
		}
	}
	if f, err := a.Fork("team::lax", "", time.Time{}); err != nil || !strings.Contains(string(f.TOML), `creator = "unknown"`) {
		t.Errorf("%v", err)
	}
}

// The parameters of a task: strict, and a list that is missing is not an empty one.
func TestParameters(t *testing.T) {
	p, err := atom.ParseParameters([]byte("[task]\nrole = \"edit-local\"\n[scope]\nfiles-whitelist = []\n[verification]\nallow-dep-bump = true\n"))
	if err != nil || !p.Has("files-whitelist") || p.Has("files-denylist") || len(p.Whitelist) != 0 || !p.AllowDepBump {
		t.Errorf("%+v, %v", p, err)
	}
	for name, source := range map[string]string{
		"nothing": "", "null": "[task]\nparent-agent = null\n", "a typo": "[scope]\nfiles-whitlist = []\n", "a list that is text": "[scope]\nfiles-whitelist = \"a\"\n",
		"half": "[scope", "twice": "[scope]\nfiles-whitelist = []\nfiles-whitelist = []\n", "below zero": "[scope]\nmax-deletes = -1\n",
	} {
		if _, err := atom.ParseParameters([]byte(source)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzAtom(f *testing.F) {
	f.Add(seedSample, "You MUST NOT.")
	f.Fuzz(func(t *testing.T, source, text string) {
		a, err := find(source, text)
		if err != nil {
			return
		}
		if _, err := a.Fork("team::x", "y", time.Time{}); err != nil && strings.Contains(err.Error(), "panic") {
			t.Error(err)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	for b.Loop() {
		if _, err := (atom.Library{}).Find("policy::no-git-ops"); err != nil {
			b.Fatal(err)
		}
	}
}
