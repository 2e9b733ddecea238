package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-60, M-63: a state folder that an earlier release wrote opens, holds and is worked on. It is of 2026-11-22,
// with a run that landed, one that did not, a session that called a tool, one that was killed, a memory, a
// schedule and a revocation. So does a copy of it: a backup of the folders is a backup of nacre.
func TestTheStateOfAnEarlierReleaseOpens(t *testing.T) {
	t.Parallel()
	i := install(t)
	home := filepath.Join(i.work, "home")
	unpackState(t, "state-2026-11-22.tar.gz", home)
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

// a store of an earlier release is brought forward whole, and the chains of its machine hold, which is
// not there any more. It is of 2026-11-29, copied by that release: a machine with a session, a schedule and a
// revocation.
func TestTheStoreOfAnEarlierReleaseOpens(t *testing.T) {
	t.Parallel()
	i := sharing(t, testpeer.Postgres(t))
	earlier, err := filepath.Abs("testdata/store-2026-11-29.copy")
	check(t, err)
	i.nacre("store", "restore", earlier).want(t, 0, "restored")
	i.nacre("store", "verify").want(t, 0, "it holds")
	i.nacre("schedule", "list").want(t, 0, "water the plants")
	i.nacre("audit", "verify").want(t, 0, "/before.1: ")
	i.nacre("audit", "show", "vm-f639728237df488c/before").want(t, 0, "session.open")
	i.nacre("exec", "-q", "--", "true").want(t, 125, "is not admitted")
}

// unpackState unpacks what an earlier release wrote.
func unpackState(t *testing.T, name, into string) {
	t.Helper()
	archive, err := filepath.Abs("testdata/" + name)
	check(t, err)
	check(t, os.MkdirAll(into, 0o700))
	if said, err := exec.Command(testpeer.Need(t, "tar"), "-xzf", archive, "-C", into, "--no-same-owner").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

// M-63: two runs of an earlier release that did not land, of one project. The first is seen, put on a branch,
// and is gone from the session. The second is thrown away. Which branch they were made from, that release did
// not keep, so that none is moved.
func TestTheWorkOfAnEarlierReleaseIsTaken(t *testing.T) {
	t.Parallel()
	i := install(t)
	unpackState(t, "unlanded-2026-11-22.tar.gz", i.work)
	check(t, os.RemoveAll(filepath.Join(i.work, "home")))
	check(t, os.Rename(filepath.Join(i.work, "h"), filepath.Join(i.work, "home")))
	for _, name := range []string{"seen", "kept"} { // the project lies elsewhere here
		for _, file := range []string{"session.json", "run.json", "repo-" + name + ".1/vault.git/objects/info/alternates"} {
			file = filepath.Join("home/.local/state/nacre/sessions", name, file)
			i.write(file, strings.ReplaceAll(i.read(file), "/srv/p", filepath.Join(i.work, "p")))
		}
	}
	i.nacre("sessions", "list").want(t, 0, "seen", "kept", "not landed")
	diff := i.nacre("sessions", "diff", "seen")
	diff.want(t, 0, "from a branch that is not known, at ", "modified a.txt", "added    two.txt", "+two")
	hasNo(t, diff.stdout, "sessions apply")
	i.nacre("sessions", "apply", "seen").want(t, 1, "nacre sessions branch seen puts it on a branch of its own")
	i.nacre("sessions", "branch", "seen").want(t, 0, "kept     nacre/seen")
	show, err := i.command("git", "-C", "p", "show", "nacre/seen:two.txt", "nacre/seen:a.txt", "main:a.txt").CombinedOutput()
	check(t, err)
	if string(show) != "two\na\nb\na\n" {
		t.Errorf("have %q", show)
	}
	i.nacre("sessions", "diff", "seen").want(t, 2, "no files of an agent are left to take")
	i.nacre("sessions", "discard", "kept").want(t, 0, "discarded kept")
	i.nacre("audit", "verify").want(t, 0, "taken-")
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
