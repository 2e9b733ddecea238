package main_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// M-63: the commands of docs/runbook.md, in their order, contain, look into and undo what an
// agent did, and nothing of it is left.
func TestTheRunbookIsPlayed(t *testing.T) {
	t.Parallel()
	i := install(t)
	mark := marker()
	i.project()
	i.config("[groups.main]\ntools = [\"memory_*\"]\n")
	play := func(args ...string) result {
		r := &running{Cmd: i.command(filepath.Join(bin, "nacre"), args...)}
		r.Dir = filepath.Join(i.work, "p")
		r.Stdin, r.Stdout, r.Stderr = strings.NewReader("value-of-the-hub\n"), &r.stdout, &r.stderr
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		return finish(t, r)
	}
	play("credentials", "add", "hub", "--store", "file", "--host", "api.hub.example", "--path", "/", "--standing-secret").want(t, 0)
	rec := i.recording("echo harm > greeting.txt", `ipc memory_store '{"type":"fact","content":"quokkas sign every release"}'`, "sleep 100"+mark)
	r := i.begin("run", "tidy up", "--recording", rec, "--project", "p", "--session", "bad", "--check", "true")
	eventually(t, "the harm", func() bool { return len(processes(t, "sleep\x00100"+mark)) > 0 || r.ProcessState != nil })

	var played []string
	for line := range strings.Lines(page(t, "docs/runbook.md")) {
		command, is := strings.CutPrefix(line, "    nacre ")
		if !is {
			continue
		}
		args := strings.Fields(strings.NewReplacer("SESSION", "bad", "NAME", "hub").Replace(command))
		played = append(played, strings.Join(args, " "))
		have := play(args...)
		if have.code != 0 {
			t.Errorf("nacre %s: exit %d\n%s%s", strings.Join(args, " "), have.code, have.stdout, have.stderr)
		}
		switch {
		case args[0] == "ps":
			has(t, have.stdout, "bad")
		case args[0] == "sessions" && args[1] == "stop":
			finish(t, r)
			gone(t, mark)
		case args[0] == "audit" && args[1] == "show" && len(args) == 3:
			has(t, have.stdout, "owner stops the session (terminal:")
		case args[0] == "sessions" && args[1] == "diff":
			has(t, have.stdout, "+harm")
		case args[0] == "memory" && args[len(args)-1] == "--dry-run":
			has(t, have.stdout, "quokkas sign every release")
		}
	}
	if len(played) < 20 {
		t.Errorf("%d commands were played: %q", len(played), played)
	}
	hasNo(t, i.nacre("memory", "list").stdout, "quokkas")
	if have := fileText(i.work + "/p/greeting.txt"); have != "hello\n" {
		t.Errorf("have %q", have)
	}
	if isThere(i.state("sessions/bad/work")) {
		t.Error("what the agent changed is there still")
	}
	i.nacre("audit", "verify", "--bundle", filepath.Join(i.work, "p/bad.bundle")).want(t, 0)
}
