package main_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-41, M-60: the machine, the configuration and the project that the person has are attacked from
// outside, whole, and hold. Every escape has a control that got through, or says why it has none.
func TestTheMachineIsProved(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[egress]\nallow = [\"api.example.com\", \"plain.example.net:8080/http\"]\n")
	project := filepath.Join(i.work, "project")
	i.write("project/.envrc", "")
	i.write("project/.vscode/tasks.json", "{}")
	out, ended := i.command(filepath.Join(bin, "nacre"), "doctor", "--prove", "--json", "--project", project).Output() // which takes a busy machine minutes
	var rows []assembly.ProofRow
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatalf("%v: %v", ended, err)
	}
	tried := map[string]int{}
	for _, row := range rows {
		tried[row.Class]++
		if !row.Outcome.Holds() || row.Outcome == "blocked" && !strings.HasPrefix(row.Control, "escaped: ") {
			t.Errorf("%+v", row)
		}
	}
	if ended != nil {
		t.Error(ended)
	}
	for class, least := range map[string]int{
		"fs": 25, "late": 40, "net": 25, "proxy": 30, "secrets": 20, "syscalls": 40, "project": 2, "egress rules": 2, "fail open": 8,
	} {
		if tried[class] < least {
			t.Errorf("%s: %d were tried, want %d", class, tried[class], least)
		}
	}
	for _, name := range []string{".envrc", ".vscode"} {
		if info, err := os.Stat(filepath.Join(project, name)); err != nil || info.Size() == 0 && info.IsDir() {
			t.Errorf("the project itself was touched: %v", err)
		}
	}
}

// U-41: something of this machine may run what an agent tried to leave, whatever the sandbox did. The
// table has a row that says so, the last line counts it, and the exit code is 4.
func TestAnAttackThatGetsThroughIsSaid(t *testing.T) {
	t.Parallel()
	git := testpeer.Need(t, "git")
	i := install(t)
	i.write("tools/git", "#!/bin/sh\ncase \"$*\" in 'checkout -q -b other') : >\"$HOME/../canary\" ;; esac\nexec "+git+" \"$@\"\n")
	check(t, os.Chmod(filepath.Join(i.work, "tools/git"), 0o755)) //nolint:gosec // a program
	i.env = append(i.env, "PATH="+filepath.Join(i.work, "tools")+":"+os.Getenv("PATH"))
	i.write("project/a.txt", "")
	out, err := i.command(filepath.Join(bin, "nacre"), "doctor", "--prove", "--project", filepath.Join(i.work, "project")).Output() // which takes a busy machine minutes
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 4 {
		t.Fatalf("%v\n%s", err, out)
	}
	has(t, string(out), " 1 got through, 0 unproven\n")
	if row := regexp.MustCompile(`(?m)^late +late-git-hook-checkout .*$`).FindString(string(out)); !strings.Contains(row, " got through ") || !strings.Contains(row, "the host ran it") {
		t.Errorf("have %q", row)
	}
}

func TestWhatCannotBeProved(t *testing.T) { // U-41
	t.Parallel()
	i := install(t)
	i.nacre("doctor", "--project", ".").want(t, 2, "--project names the project of --prove")
	i.config("[egress]\nallow = [\"*.example.com\"]\n")
	i.nacre("doctor", "--prove").want(t, 2, "wildcards are refused")
	i.config("[sandbox]\nbackend = \"docker\"\nimage = \"sha256:" + strings.Repeat("0", 64) + "\"\nsocket = \"" + i.work + "/none.sock\"\n")
	r := i.nacre("doctor", "--prove")
	r.want(t, 3, "sandbox cannot start")
	has(t, r.stdout, " not tried: no sandbox starts here\n", "egress that cannot be recorded     blocked", "a policy.toml that was cut off     not tried", " 0 unproven\n")
}
