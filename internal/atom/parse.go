package atom

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// file is capability.toml as it is written: the seed's keys, and ours for the
// operating system's layer and the lists of tools.
type file struct {
	Capability struct {
		Name        string `toml:"name"`
		Category    string `toml:"category"`
		Version     string `toml:"version"`
		Description string `toml:"description"`
		Rationale   string `toml:"rationale"`
	} `toml:"capability"`
	Restricts struct {
		ToolPatterns []string `toml:"tool-patterns"`
		ToolsDenied  []string `toml:"tools-denied"`
	} `toml:"restricts"`
	Parameterized struct {
		Accepts []string `toml:"accepts"`
	} `toml:"parameterized"`
	Tools struct {
		Allowed      []string `toml:"allowed"`
		BashPatterns []string `toml:"bash-patterns-allowed"`
	} `toml:"tools"`
	Text struct {
		Path string `toml:"path"`
	} `toml:"text"`
	Gate struct {
		RustModule string `toml:"rust-module"`
		Event      string `toml:"event"`
		Severity   string `toml:"severity"`
		BypassEnv  string `toml:"bypass-env"`
	} `toml:"gate"`
	OS struct {
		Writable     []string `toml:"writable"`
		ReadOnly     []string `toml:"read-only"`
		HidePrograms []string `toml:"hide-programs"`
		Unless       string   `toml:"unless"`
	} `toml:"os"`
	Verify struct {
		RustModule string `toml:"rust-module"`
		RunMode    string `toml:"run-mode"`
		When       string `toml:"when"`
	} `toml:"verify"`
	Lineage struct {
		ForkFrom string   `toml:"fork_from"`
		Parents  []string `toml:"parents"`
		Creator  string   `toml:"creator"`
		Created  string   `toml:"created"`
	} `toml:"lineage"`
}

// known are the keys of capability.toml. Spelling counts, case included.
var known = sync.OnceValue(func() Keys {
	return KeySet(`capability.name capability.category capability.version capability.description capability.rationale
	restricts.tool-patterns restricts.tools-denied parameterized.accepts tools.allowed tools.bash-patterns-allowed text.path
	gate.rust-module gate.event gate.severity gate.bypass-env os.writable os.read-only os.hide-programs os.unless
	verify.rust-module verify.run-mode verify.when lineage.fork_from lineage.parents lineage.creator lineage.created`)
})

// parse reads an atom that must bear a name.
func parse(id ID, source []byte) (Atom, string, error) {
	var f file
	meta, err := Decode(source, &f, known())
	if err != nil {
		return Atom{}, "", err
	}
	c := f.Capability
	switch {
	case c.Name != string(id):
		return Atom{}, "", fmt.Errorf("capability.name is %q, but the folder says %q", clip(c.Name), id)
	case c.Category != id.Category():
		return Atom{}, "", fmt.Errorf("capability.category is %q, not %q", clip(c.Category), id.Category())
	case c.Version == "" || c.Description == "":
		return Atom{}, "", errors.New("capability.version and capability.description are needed")
	}
	a := Atom{
		ID: id, Version: c.Version, Description: c.Description, Rationale: c.Rationale, Accepts: f.Parameterized.Accepts,
		Callable: Callable{Forbidden: f.Restricts.ToolPatterns, Denied: f.Restricts.ToolsDenied, Tools: f.Tools.Allowed, Commands: f.Tools.BashPatterns},
		Lineage:  Lineage(f.Lineage), source: source,
		OS: OS{Confined: meta.IsDefined("os", "writable"), Writable: f.OS.Writable, ReadOnly: f.OS.ReadOnly, HidePrograms: f.OS.HidePrograms, Unless: f.OS.Unless},
	}
	for _, read := range []func(file) error{a.readGate, a.readVerifier, a.readLists} {
		if err := read(f); err != nil {
			return Atom{}, "", err
		}
	}
	return a, f.Text.Path, nil
}

var (
	event  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^PreToolUse(?::[A-Za-z_*]+(?:\|[A-Za-z_*]+)*)?$`) })
	envVar = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`) })
)

func (a *Atom) readGate(f file) error {
	g := f.Gate
	handler, err := handlerOf("gates::", g.RustModule, gates)
	if err != nil {
		return fmt.Errorf("gate.rust-module: %w", err)
	}
	a.Gate = Gate{Handler: handler, Event: g.Event, BypassEnv: g.BypassEnv}
	if g.Event != "" && !event().MatchString(g.Event) {
		return fmt.Errorf("gate.event is %q: write PreToolUse, or PreToolUse:Bash, PreToolUse:Edit|Write", clip(g.Event))
	}
	if g.BypassEnv != "" && !envVar().MatchString(g.BypassEnv) {
		return fmt.Errorf("gate.bypass-env is %q: write a variable's name", clip(g.BypassEnv))
	}
	switch g.Severity {
	case "", "block":
	case "warn":
		a.Gate.Severity = Warn
	case "advisory":
		a.Gate.Severity = Advisory
	default:
		return fmt.Errorf("gate.severity is %q: write block, warn or advisory", clip(g.Severity))
	}
	return nil
}

func (a *Atom) readVerifier(f file) error {
	v := f.Verify
	handler, err := handlerOf("verifies::", v.RustModule, verifiers)
	if err != nil {
		return fmt.Errorf("verify.rust-module: %w", err)
	}
	a.Verify = Verifier{Handler: handler, RunMode: v.RunMode, When: v.When}
	if handler == "" {
		return nil
	}
	switch v.RunMode {
	case "worktree", "simulated-merge", "both":
	case "":
		a.Verify.RunMode = "both" // the stricter
	default:
		return fmt.Errorf("verify.run-mode is %q: write worktree, simulated-merge or both", clip(v.RunMode))
	}
	switch v.When {
	case "on-return", "per-tool-call":
	case "":
		a.Verify.When = "on-return"
	default:
		return fmt.Errorf("verify.when is %q: write on-return or per-tool-call", clip(v.When))
	}
	return nil
}

// readLists holds patterns and references against what they may be.
func (a *Atom) readLists(f file) error {
	for _, list := range [][]string{a.Accepts, a.Forbidden, a.Denied, a.Tools, a.Commands, a.OS.Writable, a.OS.ReadOnly, a.OS.HidePrograms, a.Lineage.Parents} {
		if err := CheckList(list); err != nil {
			return err
		}
	}
	for _, pattern := range append(append([]string(nil), a.Forbidden...), a.Commands...) {
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("the pattern %q: %w", clip(pattern), err)
		}
	}
	for _, entry := range append(append([]string(nil), a.OS.Writable...), a.OS.ReadOnly...) {
		if name, ok := strings.CutPrefix(entry, "$"); ok && name != "files-whitelist" && name != "files-denylist" {
			return fmt.Errorf("os names the list %q, which no task has", clip(entry))
		}
	}
	if f.OS.Unless != "" && f.OS.Unless != "allow-dep-bump" {
		return fmt.Errorf("os.unless is %q, which no task has", clip(f.OS.Unless))
	}
	if a.Gate.Handler == "bash-allowlist" && len(a.Commands) == 0 {
		return errors.New("tools.bash-patterns-allowed is needed: this gate allows nothing else")
	}
	return nil
}

// handlerOf maps a module's name, as the seed writes it, to the handler here.
func handlerOf(prefix, module string, handlers map[string]string) (string, error) {
	if module == "" {
		return "", nil
	}
	name, ok := strings.CutPrefix(module, prefix)
	handler := handlers[name]
	if !ok || handler == "" {
		return "", fmt.Errorf("there is no %q: keep the parent's, or leave it empty to use patterns only", clip(module))
	}
	return handler, nil
}

// gates are the built-in gates by the names of the seed's modules.
var gates = map[string]string{
	"policy_no_git_ops":     "no-git-ops",
	"scope_files_whitelist": "files-whitelist",
	"scope_files_denylist":  "files-denylist",
	"scope_no_rule_edits":   "no-rule-edits",
	"safety_no_dep_bump":    "no-dep-bump",
	"safety_no_mass_delete": "no-mass-delete",
	"tools_read_only":       "deny-tools",
	"tools_deny_tools":      "deny-tools",
	"tools_cargo_only_bash": "bash-allowlist",
	"tools_bash_allowlist":  "bash-allowlist",
}

// verifiers are the verifiers that atoms may name.
var verifiers = map[string]string{
	"policy_no_git_ops":           "no-git-ops",
	"scope_files_whitelist":       "files-whitelist",
	"scope_files_denylist":        "files-denylist",
	"scope_no_rule_edits":         "no-rule-edits",
	"safety_no_dep_bump":          "no-dep-bump",
	"safety_no_mass_delete":       "no-mass-delete",
	"tools_deny_tools":            "deny-tools",
	"tools_read_only":             "deny-tools",
	"quality_constructor_pattern": "constructor-pattern",
	"quality_cargo_check_green":   "cargo-check-green",
	"quality_go_check_green":      "go-check-green",
	"quality_node_check_green":    "node-check-green",
	"quality_python_check_green":  "python-check-green",
	"quality_tests_green":         "tests-green",
	"quality_no_warnings":         "no-warnings",
	"output_report_format":        "report-format",
	"output_severity_grade":       "severity-grade",
	"output_ledger_row_required":  "ledger-row-required",
}
