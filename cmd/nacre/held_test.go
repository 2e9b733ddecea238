package main_test

import (
	"strings"
	"testing"
)

// F-07, M-67: what programs of the host obey does not land unseen. All waits for a person unless
// the person said otherwise; the rest is verified anew without it before it lands.
func TestWhatTheHostObeysWaitsForAPerson(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	rec := i.writes(map[string]string{"greeting.txt": "hello world\n", ".envrc": "touch owned\n", ".github/workflows/ci.yml": "on: push\n"})
	work := func(session string, more ...string) result {
		return i.nacre(append([]string{"run", "greet", "--recording", rec, "--project", "p", "--session", session}, more...)...)
	}
	before := i.git("rev-parse", "HEAD")
	asked := work("waits", "--check", "grep -q world greeting.txt")
	asked.want(t, 1, "it waits for a person to look at", ".envrc", "so it is with 1 more", "nacre sessions diff waits", "+touch owned", "+on: push")
	hasNo(t, asked.stdout, "+hello world") // which nothing obeys
	i.nacre("approvals", "waiting").want(t, 0, "landing", "waits", "nacre sessions diff waits")
	if i.git("rev-parse", "HEAD") != before || i.git("status", "--porcelain") != "" {
		t.Fatal("it landed")
	}
	i.nacre("sessions", "diff", "waits").want(t, 0, "touch owned")
	work("needs", "--held", "leave-out", "--check", "test -e .envrc").want(t, 1, "not merged")
	work("rest", "--held", "leave-out", "--check", "grep -q world greeting.txt").want(t, 0, "merged", ".envrc: a person has to look at it first")
	if files := i.git("ls-tree", "-r", "--name-only", "HEAD"); strings.Contains(files, ".envrc") || strings.Contains(files, ".github") || i.git("show", "HEAD:greeting.txt") != "hello world" {
		t.Errorf("have %s", files)
	}
	i.nacre("sessions", "apply", "rest").want(t, 1, ".envrc")
	i.config("[operators.bob]\nidentities = [\"terminal:4242\"]\n") // M-41: nobody else decides then
	i.nacre("sessions", "apply", "rest", "--held", "take").want(t, 1, "no [operators.NAME] has terminal:")
	i.config("")
	i.nacre("sessions", "apply", "rest", "--held", "take").want(t, 0)
	if i.git("show", "HEAD:.envrc") != "touch owned" {
		t.Error("what was held is lost")
	}
	i.config("[landing]\nheld = \"take\"\n")
	work("never").want(t, 2, "[landing] held")
	i.config("[landing]\nheld = \"leave-out\"\n")
	work("other", "--held", "everything").want(t, 2, "--held")
}

// M-67: so it is with a task of the substrate, although its own list lets it change the file. Its
// row says so, and then what a person did with the work.
func TestWhatTheHostObeysOfATaskWaitsForAPerson(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "x\n")
	i.project()
	before := i.git("rev-parse", "HEAD")
	rec := i.recording("echo y > pkg/x/x.txt; mkdir pkg/x/.husky; echo x > pkg/x/.husky/pre-commit")
	i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "true").
		want(t, 1, "it waits for a person to look at", "pkg/x/.husky/pre-commit", "nacre sessions diff work")
	if i.git("rev-parse", "HEAD") != before || i.git("status", "--porcelain") != "" {
		t.Fatal("it landed")
	}
	i.nacre("ledger", "list").want(t, 0, "done")
	i.nacre("sessions", "apply", "work", "--held", "take").want(t, 0, "applied")
	i.nacre("ledger", "list").want(t, 0, "merged")
	i.spent(t, "work")
}
