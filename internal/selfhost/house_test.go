package selfhost_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// patience is far beyond what any of these runs takes.
const patience = 2 * time.Minute

// house is an installation with a home of its own and a clone to work on.
type house struct {
	home, project string
	env           []string
}

// newHouse opens a house on the files of HEAD, in one commit, and never on what lies uncommitted
// beside it.
func newHouse(t *testing.T) *house {
	t.Helper()
	h := emptyHouse(t)
	template, err := snapshot()
	if err != nil {
		t.Fatal(err)
	}
	output(t, h.home, h.env, "git", "clone", "-q", template, h.project)
	return h
}

// newHouseWithHistory opens a house on HEAD and all that led to it, which takes longer.
func newHouseWithHistory(t *testing.T) *house {
	t.Helper()
	h := emptyHouse(t)
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	output(t, h.home, h.env, clone(here, h.project, "--no-hardlinks")...)
	// HEAD may be detached, as in CI: there must be a branch to land on.
	h.git(t, "checkout", "-q", "-B", "trunk")
	for branch := range strings.FieldsSeq(h.git(t, "for-each-ref", "--format=%(refname:short)", "refs/heads")) {
		if branch != "trunk" {
			h.git(t, "branch", "-q", "-D", branch)
		}
	}
	return h
}

// clone is the command that clones a repository, which may belong to another user, as in a container's checkout.
func clone(from, to string, flags ...string) []string {
	command := append([]string{"git", "-c", "safe.directory=*", "clone", "-q", "--no-tags", "-u", "git -c safe.directory=* upload-pack"}, flags...)
	return append(command, from, to)
}

func emptyHouse(t *testing.T) *house {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		testpeer.Missing(t, "git", "this is no git repository, so there is nothing to clone")
	}
	dir := t.TempDir()
	// what a session that was cut short leaves is shut: an ordinary user opens it first
	t.Cleanup(func() { _ = registry.Discard(dir) }) // what stays, TempDir tells of
	h := &house{home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project")}
	if err := os.Mkdir(h.home, 0o700); err != nil {
		t.Fatal(err)
	}
	h.env = environment(h.home)
	h.needSandbox(t)
	return h
}

func environment(home string) []string {
	return append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TERM=dumb"}, caches...)
}

// needSandbox ends the test where this machine forbids the native sandbox. The first who asks tries it.
func (h *house) needSandbox(t *testing.T) {
	t.Helper()
	trial.Do(func() {
		if r := h.run(t, "exec", "--", "true"); r.code == 125 || r.code == 3 {
			forbidden = r.stderr
		}
	})
	if forbidden != "" {
		testpeer.Missing(t, "sandbox", "the native sandbox cannot start here: "+forbidden)
	}
}

func output(t *testing.T, dir string, env []string, argv ...string) string {
	t.Helper()
	out, err := run(dir, env, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (h *house) git(t *testing.T, args ...string) string {
	t.Helper()
	return output(t, h.project, h.env, append([]string{"git"}, args...)...)
}

// commit adds files to the project as its owner would.
func (h *house) commit(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(h.project, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h.git(t, "add", "--force", "--all")
	h.git(t, "-c", "user.name=owner", "-c", "user.email=owner@example.invalid", "commit", "-q", "--no-verify", "-m", "what the project brings")
}

// config writes the operator's config.toml.
func (h *house) config(t *testing.T, text string) {
	t.Helper()
	dir := filepath.Join(h.home, ".config", "nacre")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// said is what a command of nacre printed, and its exit code.
type said struct {
	stdout, stderr string
	code           int
}

func (h *house) command(t *testing.T, args ...string) (*exec.Cmd, func(error) said) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(built, "nacre"), args...)
	command.Dir, command.Env, command.WaitDelay = h.home, h.env, patience
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	return command, func(err error) said {
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("nacre %v: %v", args, err)
		}
		return said{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
	}
}

func (h *house) run(t *testing.T, args ...string) said {
	t.Helper()
	command, finished := h.command(t, args...)
	return finished(command.Run())
}

// report is the last event of `nacre run --json`.
type report struct {
	Session nacre.SessionID `json:"session"`
	nacre.RunResult
	Receipt string `json:"receipt"`
	Denied  int    `json:"denied"`
}

// report reads the events and checks that the report comes once and last.
func (s said) report(t *testing.T) report {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(s.stdout), "\n")
	var r report
	for i, line := range lines {
		var e struct {
			Event string          `json:"event"`
			Data  json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %d is no JSON: %v: %s\n%s", i+1, err, line, s.stderr)
		}
		if (e.Event == "report") != (i == len(lines)-1) {
			t.Fatalf("line %d of %d is the event %q (exit %d)\n%s\n%s", i+1, len(lines), e.Event, s.code, s.stdout, s.stderr)
		}
		if e.Event == "report" {
			if err := json.Unmarshal(e.Data, &r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

// records are the session's audit records of a kind, in order.
func (h *house) records(t *testing.T, session nacre.SessionID, kind nacre.Kind) []audit.Entry {
	t.Helper()
	shown := h.run(t, "audit", "show", string(session), "--json")
	if shown.code != 0 {
		t.Fatalf("audit show: %+v", shown)
	}
	var found []audit.Entry
	for line := range strings.Lines(shown.stdout) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("audit show: %v: %s", err, line)
		}
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// landed checks what every landing must be (S-11, S-12, M-59). It is one commit on the base, whose
// tree is the one that the checks outside held on. Files and index follow, and the receipt says the
// same and verifies.
func (h *house) landed(t *testing.T, s said, base string) report {
	t.Helper()
	r := s.report(t)
	if s.code != 0 || !r.Landed {
		t.Fatalf("exit %d, landed %t: %s\n%s\n%s", s.code, r.Landed, r.Reason, s.stdout, s.stderr)
	}
	tree := h.git(t, "rev-parse", "HEAD^{tree}")
	for what, pair := range map[string][2]string{
		"the report's commit":   {r.Commit, h.git(t, "rev-parse", "HEAD")},
		"the commit's parents":  {h.git(t, "log", "-1", "--format=%P"), base},
		"the report's base":     {r.Base, base},
		"the report's tree":     {r.Tree, tree},
		"the branch":            {h.git(t, "symbolic-ref", "--short", "HEAD"), r.Branch},
		"what git status says":  {h.git(t, "status", "--porcelain"), ""},
		"what the index says":   {h.git(t, "write-tree"), tree},
		"branches of this work": {h.git(t, "branch", "--format=%(refname:short)"), r.Branch},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: have %q, want %q", what, pair[0], pair[1])
		}
	}
	h.verified(t, r, tree)
	h.receipt(t, r)
	return r
}

// verified checks that the audit names the tree that landed, and no other.
func (h *house) verified(t *testing.T, r report, tree string) {
	t.Helper()
	records := h.records(t, r.Session, nacre.KindVerify)
	if len(records) != len(r.Checks)+len(r.Atoms) || len(records) == 0 {
		t.Errorf("have %d verify records for %d checks and %d atoms", len(records), len(r.Checks), len(r.Atoms))
	}
	for _, e := range records {
		var detail struct{ Tree string }
		if err := json.Unmarshal(e.Detail, &detail); err != nil || detail.Tree != tree || e.Outcome != "passed" {
			t.Errorf("verify record %s %s (%v), want the tree %s passed", e.Outcome, e.Detail, err, tree)
		}
	}
}

func (h *house) receipt(t *testing.T, r report) audit.Receipt {
	t.Helper()
	if v := h.run(t, "audit", "verify", "--receipt", r.Receipt); v.code != 0 {
		t.Errorf("the receipt does not verify: %+v", v)
	}
	receipt, err := audit.ReadReceipt(r.Receipt)
	if err != nil {
		t.Fatal(err)
	}
	if receipt.MergeCommit != r.Commit || receipt.BaseCommit != r.Base || receipt.Cost.MicroUSD != r.Cost {
		t.Errorf("the receipt says %+v, the report %+v", receipt, r)
	}
	return receipt
}

// untouched checks that the branch and its files are as they were.
func (h *house) untouched(t *testing.T, base string) {
	t.Helper()
	if head := h.git(t, "rev-parse", "HEAD"); head != base {
		t.Errorf("HEAD moved from %s to %s", base, head)
	}
	if status := h.git(t, "status", "--porcelain"); status != "" {
		t.Errorf("files changed: %s", status)
	}
}

// holds lists the files under dir whose bytes hold text.
func holds(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// running lists the processes of this machine whose command line holds text.
func running(t *testing.T, text string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range lines {
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(text)) {
			found = append(found, fmt.Sprintf("%s: %q", name, line))
		}
	}
	return found
}
