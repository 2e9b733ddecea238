package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/nacre-dev/nacre/assembly"
)

const taskRole = `[role]
name = "fixer"
display-name = "fixer"
description = "Works in one folder."
[capabilities]
required = ["policy::no-git-ops", "scope::files-whitelist", "safety::no-dep-bump"]
[tools]
allowed = ["Read", "Write", "Edit", "Bash"]
`

// tasks makes n tasks of the role fixer over pkg/x and the file shared.txt.
func (i *installation) tasks(n int) []string {
	i.t.Helper()
	var files []string
	for k := range n {
		files = append(files, i.write(fmt.Sprintf("task%d.toml", k), fmt.Sprintf(`[task]
role = "fixer"
agent-id = "agent-%d"
[scope]
files-whitelist = ["pkg/x/**", "shared.txt"]
[body]
text = "Task %d"
`, k, k)))
	}
	return files
}

// reports are the outcomes that a run of several tasks printed as JSON.
func reports(t *testing.T, r result) []assembly.Report {
	t.Helper()
	for line := range strings.SplitSeq(r.stdout, "\n") {
		var e struct {
			Event string `json:"event"`
			Data  []struct {
				Report assembly.Report `json:"report"`
				Error  string          `json:"error"`
			} `json:"data"`
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Event != "report" {
			continue
		}
		var list []assembly.Report
		for _, d := range e.Data {
			if d.Error != "" {
				t.Fatalf("a task ended with %s", d.Error)
			}
			list = append(list, d.Report)
		}
		return list
	}
	t.Fatalf("no report in\n%s%s", r.stdout, r.stderr)
	return nil
}

// docs/substrate.md tells of the script that TestScript/task_run plays: the
// role and the task on that page are the ones that hold.
func TestTheSubstratesPageIsWhatHolds(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/substrate.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := txtar.ParseFile("testdata/script/task_run.txtar")
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text string) string {
		var kept []string
		for line := range strings.SplitSeq(text, "\n") {
			if line != "" && !strings.HasPrefix(line, "#") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "\n")
	}
	for _, f := range script.Files {
		if f.Name != "fix.toml" && f.Name != "p/.nacre/roles/fixer.toml" {
			continue
		}
		found := false
		for i, block := range strings.Split(string(page), "```") {
			text, isTOML := strings.CutPrefix(block, "toml\n")
			found = found || i%2 == 1 && isTOML && lines(text) == lines(string(f.Data))
		}
		if !found {
			t.Errorf("the page has no %s as the script has it", f.Name)
		}
	}
}

// S-19: twenty tasks side by side each land whole or not at all, also where
// they are in each other's way.
func TestTwentyTasksSideBySideLandOrReport(t *testing.T) {
	t.Parallel()
	i := install(t)
	// Each agent makes two files of its own; every second also changes a line
	// that the others of its kind change too.
	i.write("p/pkg/x/work.sh", `id=$(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' \n')
echo "$id" > pkg/x/a-$id; echo "$id" > pkg/x/b-$id
case $id in [0-7]*) echo "$id" > shared.txt;; esac
`)
	i.write("p/shared.txt", "nobody's\n")
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"sh pkg/x/work.sh"}}`+"\n")
	files := i.tasks(20)
	have := i.nacre(append([]string{"task", "run", "--json", "--jobs", "6", "--project", "p", "--recording", rec, "--check", "true"}, files...)...)
	landed := 0
	for _, r := range reports(t, have) {
		own := 0
		for _, c := range r.Changes {
			if strings.HasPrefix(c.Path, "pkg/x/") {
				own++
				if _, err := os.Stat(filepath.Join(i.work, "p", c.Path)); (err == nil) != r.Landed {
					t.Errorf("%s: landed %v, and %s: %v", r.Agent, r.Landed, c.Path, err)
				}
			}
		}
		switch {
		case own != 2:
			t.Errorf("%s made %d files", r.Agent, own)
		case r.Landed:
			landed++
		case !strings.Contains(r.Reason, "conflict"):
			t.Errorf("%s: %s", r.Agent, r.Reason)
		}
	}
	if commits := strings.Count(i.git("log", "--first-parent", "--format=%s"), "Task "); commits != landed || landed == 0 {
		t.Errorf("%d commits of %d that landed", commits, landed)
	}
	if status := i.git("status", "--porcelain"); status != "" {
		t.Errorf("have %q", status)
	}
	if want := 0; landed == len(files) && have.code != want || landed < len(files) && have.code != 1 {
		t.Errorf("exit %d with %d of %d landed", have.code, landed, len(files))
	}
	i.nacre("audit", "verify").want(t, 0)
	i.nacre("ledger", "list", "--json").want(t, 0, "agent-19")
}

// S-12, S-15: a task that was killed goes on where it was: it lands once, and its
// row in the ledger moves forward once.
func TestAKilledTaskGoesOn(t *testing.T) {
	t.Parallel()
	for _, at := range []string{`"outcome":"running"`, `"kind":"brain.event"`, `"kind":"verify"`, `"kind":"merge.intent"`, `"kind":"merge.done"`, `"outcome":"done"`} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			rec := i.fixable()
			r := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "sleep 0.2")
			eventually(t, at, func() bool { return strings.Contains(i.records("work"), at) || r.ProcessState != nil })
			_ = r.Process.Kill() // it may have ended
			_ = r.Wait()
			if _, resumable := i.status(); resumable {
				i.nacre("task", "run", "--session", "work").want(t, 0, "merged")
			}
			if log := i.git("log", "--format=%s"); strings.Count(log, "Task 0") != 1 {
				t.Errorf("have commits %q", log)
			}
			row := i.nacre("ledger", "show", "agent-0", "--json")
			row.want(t, 0, `"status":"merged"`)
			onceEach(t, row.stdout)
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// F-132 (M-01): run --role holds a task in words by a role, and -v shows what tools were
// called with and gave.
func TestARunInARoleNeedsNoFile(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("p/.nacre/roles/fixer.toml", strings.Replace(taskRole, `"scope::files-whitelist", `, "", 1))
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "role")
	call := func(command string) {
		i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"`+command+`"}}`+"\n")
	}
	run := func(more ...string) result {
		return i.nacre(append([]string{"run", "--brain", "replay", "--recording", "rec.jsonl", "--project", "p"}, more...)...)
	}
	call(`git log`)
	run("Look", "--role", "fixer").want(t, 1, "policy::no-git-ops")
	call(`seq 2 >new.txt\necho row-$((20+3))`)
	have := run("Count", "--role", "fixer", "--check", "grep -q 2 new.txt", "--session", "count", "-v")
	have.want(t, 0, "merged", "echo row-$((20+3))\n", " row-23\n")
	if quiet := run("Count", "--check", "grep -q 2 new.txt"); strings.Contains(quiet.stdout, "row-23") {
		t.Errorf("without -v it shows results:\n%s", quiet.stdout)
	}
	i.nacre("ledger", "list").want(t, 0, "fixer", "merged")
	run("Count", "--role", "nobody").want(t, 2, `unknown role "nobody"`)
	run("--role", "fixer").want(t, 2, "say what is to be done")
}
