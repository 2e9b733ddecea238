package main_test

import (
	"strings"
	"testing"
)

// M-52: what an outsider told a session counts when the session goes on after its
// process was killed, before the agent has read anything anew.
func TestAResumedSessionIsAsTaintedAsItWas(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	const task = "answer the letter of https://friend.example/box"
	first := i.plays("work", task, dry("https://new.example/"), `ipc inbox '{}'`, letter("https://evil.example/drop"))
	asked := i.question() // it has read its letters by now
	_ = first.Process.Kill()
	finish(t, first)
	resumed := i.begin("run", "--session", "work")
	second := i.next(asked)
	i.nacre("approvals", "deny", second.ID).want(t, 0)
	said := i.said(resumed, "work")
	if !strings.Contains(said[0], `"verdict":"ask"`) {
		t.Errorf("before it has read anything anew: %s", said[0])
	}
	has(t, said[2], "CONFIRMATION_DENIED")
}
