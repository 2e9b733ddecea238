package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-60, M-63: a state folder that an earlier release wrote (of 2026-11-22: a run that landed, one
// that did not, a session that called a tool, one that was killed, a memory, a schedule and a
// revocation) opens, holds and is worked on. So does a copy of it: a backup of the folders is a
// backup of nacre.
func TestTheStateOfAnEarlierReleaseOpens(t *testing.T) {
	t.Parallel()
	i := install(t)
	archive, err := filepath.Abs("testdata/state-2026-11-22.tar.gz")
	check(t, err)
	home := filepath.Join(i.work, "home")
	check(t, os.MkdirAll(home, 0o700))
	if said, err := exec.Command(testpeer.Need(t, "tar"), "-xzf", archive, "-C", home, "--no-same-owner").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	i.worksOn(t)

	// What docs/runbook.md says of backups, on another machine: another home.
	packed := filepath.Join(i.work, "nacre-backup.tar.gz")
	if said, err := i.command("tar", "-czf", packed, "-C", home, ".config/nacre", ".local/state/nacre").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	other := install(t)
	check(t, os.MkdirAll(filepath.Join(other.work, "home"), 0o700))
	if said, err := other.command("tar", "-xzf", packed, "-C", filepath.Join(other.work, "home")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	other.worksOn(t)
}

// worksOn looks at all that the earlier release left, and works on with it.
func (i *installation) worksOn(t *testing.T) {
	t.Helper()
	i.nacre("config", "check").want(t, 0)
	i.nacre("sessions", "list").want(t, 0, "landed", "stays", "called", "killed", "interrupted")
	i.nacre("exec", "-q", "--", "true").want(t, 0) // which seals what was killed
	i.nacre("audit", "verify").want(t, 0, "landed.1: 16 records, closed", "killed.1", "closed")
	i.nacre("audit", "verify", "--receipt", i.state("receipts/landed.receipt")).want(t, 0, "holds")
	i.nacre("show", "landed").want(t, 0, "add one", "verdict  landed")
	i.nacre("audit", "show", "called").want(t, 0, "The agent calls memory_store", "refused.example")
	i.nacre("memory", "list").want(t, 0, "quokkas sign every release", "called")
	i.nacre("schedule", "list").want(t, 0, "every 15m")
	i.nacre("ledger", "list").want(t, 0, "stays.1", "landed.1")
	i.nacre("learn", "called").want(t, 0, "refused.example:80")
	i.nacre("grants", "rotate-key").want(t, 0, "signing")
	i.nacre("doctor", "--no-turns").want(t, 0, "audit", "memory 1 groups")
	has(t, i.read("home/.local/state/nacre/keys/revocations.jsonl"), "gone")
	i.nacre("exec", "-q", "--session", "gone", "--", "ipc", "memory_search", `{"query":"quokkas"}`).want(t, 1) // still revoked
	i.nacre("exec", "-q", "--", "ipc", "memory_search", `{"query":"quokkas"}`).want(t, 0, "quokkas sign every release")
}
