package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// older is where the programs of an earlier commit are.
func older(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NACRE_OLDER")
	if dir == "" {
		t.Skip("NACRE_OLDER does not say where the programs of an earlier commit are: make older builds them, and make ci-full has them")
	}
	return dir
}

// the nacre of an earlier commit made the store, and works on in it beside this one, which brought the tables
// forward. Each carries on what the other was working on when it was killed.
func TestTwoVersionsWorkSideBySide(t *testing.T) {
	t.Parallel()
	older(t)
	c := newCluster(t, "fresh", 2, "older", "newer")
	words := []string{"apples", "pears", "plums", "grapes", "cherries", "quinces"}
	for n, victim := range c.nodes {
		c.fails(victim, "killed", words[3*n:3*n+3], func() { check(t, victim.now.Process.Kill()) }, victim.now.stop)
	}
	c.check(words)
	for _, n := range c.nodes {
		n.now.stop()
		n.nacre("audit", "verify").want(t, 0)
	}
}

// what a person answers at this version counts at a session of an earlier one. What is answered there is not
// signed, and counts at no session of this one, which says what to do and goes on waiting. What either revokes both refuse.
func TestVersionsAnswerEachOther(t *testing.T) {
	t.Parallel()
	dir, address := older(t), testpeer.Postgres(t)
	before, now := sharing(t, address), sharing(t, address)
	before.older = dir
	for _, i := range []*installation{before, now} {
		i.write("home/.config/nacre/config.toml", storeConfig+toolsConfig+"[groups.side]\ntools = [\"create_reminder\"]\n")
	}
	now.admits(t, before)
	asks := func(at *installation) (*running, string) {
		t.Helper()
		r := at.beginAsking()
		return r, at.question().ID
	}
	r, id := asks(now)
	before.nacre("approvals", "show", id).want(t, 0, "R-1")
	before.nacre("approvals", "approve", id).want(t, 1, "no machine signed it: update nacre on the machine where it comes from")
	has(t, now.records("asks"), `"reason":"unsigned"`)
	now.nacre("approvals", "approve", id).want(t, 0, "approved")
	finish(t, r).want(t, 0, "R-1")

	r, id = asks(before)
	now.nacre("approvals", "list").want(t, 1, id, "no machine signed it: update nacre")
	now.nacre("approvals", "approve", id).want(t, 0, "approved")
	finish(t, r).want(t, 0, "R-1")

	for group, c := range map[string]struct{ by, at *installation }{"main": {before, now}, "side": {now, before}} {
		c.by.nacre("grants", "revoke", group, "--for", "8h").want(t, 0, "revoked")
		refused := c.at.nacre("exec", "-q", "--group", group, "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`)
		if refused.code == 0 || !strings.Contains(refused.stdout+refused.stderr, "revoked") {
			t.Errorf("what was revoked at the other version: have %d, %s%s", refused.code, refused.stdout, refused.stderr)
		}
	}
}
