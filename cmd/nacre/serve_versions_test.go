package main_test

import (
	"os"
	"testing"
)

// the nacre of an earlier commit made the store, and works on in it beside this one, which brought the tables
// forward. Each carries on what the other was working on when it was killed.
func TestTwoVersionsWorkSideBySide(t *testing.T) {
	t.Parallel()
	if os.Getenv("NACRE_OLDER") == "" {
		t.Skip("NACRE_OLDER does not say where the programs of an earlier commit are: make older builds them, and make ci-full has them")
	}
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
