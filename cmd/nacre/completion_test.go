package main_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// completions are what a shell is offered for the last word, which has no letter yet.
func (i *installation) completions(words ...string) []string {
	i.t.Helper()
	r := i.nacre(append(append([]string{"__complete"}, words...), "")...)
	r.want(i.t, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if last := lines[len(lines)-1]; last != ":36" && last != ":4" { // the directive: no files
		i.t.Errorf("%v ends with %q, want no files offered", words, last)
	}
	var offered []string
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		offered = append(offered, word)
	}
	return offered
}

// F-130: completion is a command like others, and offers the ids that a person
// would have to copy: of questions, sessions, plugins and schedules.
func TestCompletionOffersIDs(t *testing.T) {
	t.Parallel()
	i, r := asks(t, "")
	q := i.question()
	i.write("home/.local/share/nacre/plugins/near/manifest.json", `{"description": "d"}`)
	added := i.nacre("schedule", "add", "--every", "1h", "--prompt", "look", "--json")
	added.want(t, 0)
	_, rest, _ := strings.Cut(added.stdout, `"id":"`)
	schedule, _, _ := strings.Cut(rest, `"`)
	for line, want := range map[string]string{
		"approvals approve": q.ID, "approvals deny": q.ID,
		"sessions show": "asks", "sessions stop": "asks", "audit show": "asks", "audit verify": "asks", "audit show --session": "asks", "audit export --session": "asks",
		"plugin show": "near", "plugin reload": "near", "plugin setup": "near", "plugin update": "near", "plugin remove": "near",
		"schedule show": schedule, "schedule remove": schedule,
	} {
		if have := strings.Join(i.completions(strings.Fields(line)...), " "); have != want && !strings.Contains(" "+have+" ", " "+want+" ") {
			t.Errorf("%s: have %q, want %q", line, have, want)
		}
	}
	if have := i.completions("approvals", "approve", q.ID); len(have) > 0 {
		t.Errorf("a second id is offered: %q", have)
	}
	if have := i.completions("run", "--session"); len(have) > 0 {
		t.Errorf("sessions that cannot go on are offered: %q", have)
	}
	i.nacre("approvals", "deny", q.ID).want(t, 0)
	finish(t, r)
	if have := i.completions("approvals", "approve"); len(have) > 0 {
		t.Errorf("what was answered is offered: %q", have)
	}
}

// F-130: what cannot be read offers nothing, and says nothing into a command line.
func TestCompletionIsSilent(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.toml", "frobnicate = true\n")
	for _, line := range []string{"approvals approve", "sessions show", "plugin show", "schedule show"} {
		r := i.nacre(append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if have, _, _ := strings.Cut(r.stdout, "\n"); r.code != 0 || have != ":36" || strings.Contains(r.stderr, "frobnicate") {
			t.Errorf("%s: %d %q %q", line, r.code, r.stdout, r.stderr)
		}
	}
}

// F-130: the scripts are taken by the shells that they are for.
func TestCompletionScriptsAreTakenByTheirShells(t *testing.T) {
	t.Parallel()
	i := install(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := i.nacre("completion", shell)
		r.want(t, 0, "nacre", "__complete")
		program, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		script := i.write("completion."+shell, r.stdout)
		if out, err := exec.Command(program, "-n", filepath.Clean(script)).CombinedOutput(); err != nil && shell != "powershell" {
			t.Errorf("%s: %v %s", shell, err, out)
		}
	}
	i.nacre("completion").want(t, 2, "bash")
	i.nacre("completion", "tcsh").want(t, 2, "tcsh", "bash, zsh, fish or powershell")
	i.nacre("--help").want(t, 0, "\n  completion ")
	i.nacre("completion", "--help").want(t, 0, "source <(nacre completion bash)")
}
