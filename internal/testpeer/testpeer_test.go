package testpeer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// outcome is what became of a test that asked for a peer.
type outcome string

const (
	found   outcome = "found"
	skipped outcome = "skipped"
	failed  outcome = "failed"
)

// asker is a test that only notes how it ended.
type asker struct {
	testing.TB
	have outcome
}

func (a *asker) end(with outcome)      { a.have = with; panic(a) }
func (a *asker) Skip(...any)           { a.end(skipped) }
func (a *asker) Skipf(string, ...any)  { a.end(skipped) }
func (a *asker) Fatalf(string, ...any) { a.end(failed) }

func outcomeOf(t *testing.T, ask func(testing.TB)) (have outcome) {
	t.Helper()
	a := &asker{TB: t, have: found}
	defer func() {
		if ended := recover(); ended != nil && ended != any(a) {
			panic(ended)
		}
		have = a.have
	}()
	ask(a)
	return a.have
}

// F-142: what is here is asked what it can do, and is never a failure where it can do less. What is
// not here is one where everything is required.
func TestPeersAreAskedWhatTheyCanDo(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"cargo": "echo 'cargo 1.65.0 (4bc8f24d3 2022-10-20)'", "node": "echo v20.16.0; test \"$1\" != -e", "mute": "exit 0", "broken": "echo 9.9; exit 1",
		"left": "exit 0", "right": "exit 0",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("NACRE_UNAVAILABLE", "tmux wget")
	t.Setenv("NACRE_WITHOUT", "left postgres")
	atLeast := func(program, version string) func(testing.TB) {
		return func(tb testing.TB) { testpeer.AtLeast(tb, program, version) }
	}
	able := func(program string, trial ...string) func(testing.TB) {
		return func(tb testing.TB) { testpeer.Able(tb, program, trial...) }
	}
	need := func(program string) func(testing.TB) { return func(tb testing.TB) { testpeer.Need(tb, program) } }
	for name, c := range map[string]struct {
		ask       func(testing.TB)
		want, all outcome
	}{
		"a cargo that is as old as is wanted":    {atLeast("cargo", "1.65"), found, found},
		"a cargo that is too old":                {atLeast("cargo", "1.68"), skipped, skipped},
		"a number that is longer, not greater":   {atLeast("cargo", "1.7"), found, found},
		"a node whose version begins with a v":   {atLeast("node", "20.9"), found, found},
		"a program that does not say":            {atLeast("mute", "0"), skipped, skipped},
		"a program that fails to say":            {atLeast("broken", "1"), skipped, skipped},
		"a program that can do it":               {able("node", "--version"), found, found},
		"a program that cannot":                  {able("node", "-e", "x"), skipped, skipped},
		"a program that is left out":             {need("left"), skipped, skipped},
		"a program beside one that is left out":  {need("right"), found, found},
		"a server that is left out":              {func(tb testing.TB) { testpeer.Postgres(tb) }, skipped, skipped},
		"a program that is not here":             {need("no-such-program"), skipped, failed},
		"one to try that is not here":            {able("no-such-program"), skipped, failed},
		"one of a version that is not here":      {atLeast("no-such-program", "1"), skipped, failed},
		"one that this machine cannot have":      {func(tb testing.TB) { testpeer.Missing(tb, "wget", "wget is not installed") }, skipped, skipped},
		"one whose name is a part of such a one": {func(tb testing.TB) { testpeer.Missing(tb, "get", "get is not installed") }, skipped, failed},
	} {
		for require, want := range map[string]outcome{"": c.want, "all": c.all} {
			t.Setenv("NACRE_REQUIRE", require)
			if have := outcomeOf(t, c.ask); have != want {
				t.Errorf("%s, NACRE_REQUIRE=%q: have %s, want %s", name, require, have, want)
			}
		}
	}
}

// P-12: initdb runs once for a run of the tests, and each server has a copy of what it made then.
func TestServersBeginAsCopiesOfOne(t *testing.T) {
	psql := testpeer.Need(t, "psql")
	t.Setenv("NACRE_BUILT", t.TempDir())
	if err := os.Mkdir(filepath.Join(testpeer.Built(), "test"), 0o700); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for range 2 {
		server := testpeer.Postgres(t)
		testpeer.Database(t, server, "of_its_own")
		id, err := exec.CommandContext(t.Context(), psql, "--no-psqlrc", "-Atc", "SELECT system_identifier FROM pg_control_system()", server).Output()
		if err != nil {
			t.Fatal(err)
		}
		ids[string(id)] = true
	}
	if len(ids) != 1 {
		t.Errorf("the servers call themselves %v", ids)
	}
}
