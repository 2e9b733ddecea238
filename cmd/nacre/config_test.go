package main_test

import (
	"os"
	"path/filepath"
	"testing"
)

// M-61, U-32: a config is checked as each start of nacre does, with the line of what means nothing and
// the nearest key. A file that was named is there.
func TestAConfigIsChecked(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("config", "check").want(t, 0, "config.toml: the defaults hold")
	i.config("ask_seconds = 10\n[egress]\nalow = [\"a.example.com\"]\n")
	i.nacre("config", "check").want(t, 2, "line 3: unknown key \"egress.alow\"; did you mean \"allow\"?")
	i.config("[egress]\nallow = [\"*.example.com\"]\n")
	i.nacre("config", "check", "--json").want(t, 2, `"ok":false`, "wildcards are refused")
	i.nacre("config", "check", "nowhere.toml").want(t, 2, "nowhere.toml")
	i.nacre("config", "check", i.write("other.toml", "ask_seconds = 10\n")).want(t, 0, "other.toml can be used")
	i.config("[brain]\nmodl = \"x\"\n[brain.acp]\ncomand = [\"x\"]\n")
	i.nacre("config", "check").want(t, 2, "config.toml: line 2: unknown key \"brain.modl\"", "[brain] may have the keys acp, name")
	i.config("[brain.acp]\ncomand = [\"x\"]\n")
	i.nacre("config", "check").want(t, 2, "config.toml: line 2: unknown key \"brain.acp.comand\"; did you mean \"command\"?")
	for wrong, says := range map[string]string{
		"checks = \"go test\"\n":                 `config.toml: line 1: checks is a text, and has to be a list, such as ["a"]`,
		"[model]\nbudget_usd = 1\n":              `config.toml: line 2: model.budget_usd is a number, and has to be a text, such as "a"`,
		"[children]\nallow = \"yes\"\n":          `config.toml: line 2: children.allow is a text, and has to be true or false`,
		"ask_seconds = [1]\n":                    `config.toml: line 1: ask_seconds is a list, and has to be a whole number`,
		"budget_usd_week = \"1\"\nchecks = []\n": `config.toml: line 1: unknown key "budget_usd_week"; config.toml may have`,
		"propose = false\n":                      `config.toml: line 1: unknown key "propose"; did you mean "egress.propose"?`,
	} {
		i.config(wrong)
		i.nacre("config", "check").want(t, 2, says)
	}
	i.config("brain = \"nonesuch\"\n")
	i.nacre("config", "check").want(t, 2, "brain: unknown brain \"nonesuch\": one of claude, codex")
	i.nacre("sessions", "list").want(t, 2, "unknown brain")
	i.nacre("config", "check", i.write("named.toml", "brain = \"claud\"\n")).want(t, 2, "unknown brain \"claud\"")
	i.nacre("config", "check", i.write("utf16.toml", "\xff\xfeask_seconds = 10\n")).want(t, 2, "utf16.toml: it is not UTF-8 text")
	i.config("")
	learned := i.write("home/.config/nacre/learned.toml", "[[learned]]\nid = \"x\"\n")
	i.nacre("config", "check").want(t, 2, "learned.toml")
	if err := os.Remove(learned); err != nil {
		t.Fatal(err)
	}
	for file, reader := range map[string][]string{
		"learned.toml": {"config", "check"}, "powers.toml": {"power", "list"}, "operators.toml": {"operators", "list"}, "policy.toml": {"exec", "--", "true"},
	} {
		path := i.write("home/.config/nacre/"+file, "\xff\xfe# a file of another system\n")
		has(t, i.nacre(reader...).stderr, file+": it is not UTF-8 text: save it as UTF-8")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// M-61: what looks like a config and is none is told of, and refused where the config lies.
func TestASecondConfigIsToldOf(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.yaml", "ask_seconds: 10\n")
	i.nacre("config", "check").want(t, 2, "config.yaml: nacre reads config.toml alone")
	i.nacre("sessions", "list").want(t, 2, "config.yaml: nacre reads config.toml alone")
	if err := os.Remove(filepath.Join(i.work, "home/.config/nacre/config.yaml")); err != nil {
		t.Fatal(err)
	}
	i.write("nacre.toml", "ask_seconds = 10\n")
	i.write("home/.nacre.toml", "ask_seconds = 10\n")
	i.nacre("config", "check").want(t, 0, "not read", "/nacre.toml: nothing that it says holds", ".nacre.toml")
	i.nacre("doctor", "--no-turns").want(t, 0, "/nacre.toml is not read")
}

// M-61: what has no end, or is far too long, is no config and no policy, and fills no memory.
func TestAFileWithoutAnEndIsRefused(t *testing.T) {
	t.Parallel()
	i := install(t)
	const over = " is not a file of at most 16777216 bytes"
	policy := i.write("home/.config/nacre/policy.toml", "")
	if err := os.Truncate(policy, 1<<30); err != nil {
		t.Fatal(err)
	}
	i.nacre("exec", "--", "true").want(t, 125, policy+over)
	config := filepath.Join(filepath.Dir(policy), "config.toml")
	if err := os.Symlink("/dev/zero", config); err != nil {
		t.Fatal(err)
	}
	i.nacre("config", "check").want(t, 2, config+over)
}

// M-61: a command or a flag that there is not is refused with the one that was meant, and a command for
// which something is missing says so.
func TestWhatWasMeantOnACommandLine(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("sesions").want(t, 2, `unknown command "sesions"; did you mean sessions? See nacre --help`)
	i.nacre("audit", "verfy").want(t, 2, `unknown command "verfy"; did you mean verify? See nacre audit --help`)
	i.nacre("kubernetes").want(t, 2, `unknown command "kubernetes"; see nacre --help`)
	i.nacre("ps", "now").want(t, 2, `unknown argument "now"; see nacre ps --help`)
	i.nacre("ledger", "list", "--jsn").want(t, 2, "unknown flag: --jsn; did you mean --json? See nacre ledger list --help")
	i.nacre("exec", "--projct", ".", "--", "true").want(t, 125, "unknown flag: --projct; did you mean --project? See nacre exec --help")
	i.nacre("store", "verify").want(t, 3, "this installation has no [store]", "docs/scale.md says how several machines share one")
	i.nacre("exec", "-z", "--", "true").want(t, 125, "unknown shorthand flag: 'z' in -z; see nacre exec --help")
}
