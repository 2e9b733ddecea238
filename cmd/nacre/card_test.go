package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/question"
)

// M-47: what does not fit into a message of a service, and what looks like a secret, is approved at none: the card of
// each chat says where the question is read whole, and has a button to deny it. A press that says yes to it, of the
// person who may, decides nothing; a denial counts, once, and ends the cards at the other services. In a terminal, and
// on the web page, the question is shown with all that it asks.
func TestWhatNoChatShowsWholeIsApprovedElsewhere(t *testing.T) {
	t.Parallel()
	i, fakes, chats, pins := inEachChat(t)
	i.config(i.configured() + toolsConfig + chats + "[egress.pin]\n" + pins)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	i.serve()
	send, _ := i.web()
	secret := "ghp_" + "Zq81" + "kD0sWm47Xr2LtVb9" + "Yc6NfHjP3uEaQ5Gx"
	for name, c := range map[string]struct{ asks, says, last string }{
		"long":   {strings.Repeat("R-1 and ", 600) + "the-last", "do not fit here. Open it in a terminal (nacre approvals show ", "the-last"},
		"secret": {secret, "The question holds what looks like a secret, so it is not shown here", ""},
	} {
		arguments, err := json.Marshal(map[string]string{"reminder_id": c.asks})
		check(t, err)
		asking := i.begin("exec", "-q", "--session", name, "--", "ipc", "delete_reminder", string(arguments))
		q := i.question()
		for service, fake := range fakes {
			until(t, name+": the card at "+service, func() bool { return strings.Count(fake.heard(), c.says) > 0 })
			if buttons := fake.card(); len(buttons) != 1 {
				t.Errorf("%s: the card at %s has the buttons %q", name, service, buttons)
			}
			has(t, fake.heard(), "nacre approvals show "+q.ID)
			hasNo(t, fake.heard(), secret)
		}
		if c.last != "" {
			hasNo(t, fakes["slack"].heard()+fakes["telegram"].heard()+fakes["discord"].heard(), c.last)
			has(t, i.nacre("approvals", "show", q.ID).stdout, c.last)
			has(t, send("", nil), q.ID, c.last)
			i.nacre("approvals", "approve", q.ID).want(t, 2, "nothing was approved", "--whole")
		}
		ended := strings.Count(fakes["slack"].heard(), "Denied by ada (telegram).")
		fakes["telegram"].taps(chatServices()["telegram"].users.ada, fakes["telegram"].card()[0])
		finish(t, asking).want(t, 1, "CONFIRMATION_DENIED")
		until(t, name+": the end at Slack", func() bool { return strings.Count(fakes["slack"].heard(), "Denied by ada (telegram).") > ended })
		fakes["slack"].taps(chatServices()["slack"].users.ada, fakes["slack"].card()[0])
		until(t, name+": a late press", func() bool { return strings.Contains(fakes["slack"].heard(), "Nothing was decided: ") })
		has(t, i.records(name), `"outcome":"denied"`, `"face":"telegram"`, `"shown":"`+question.Of(q).Digest())
	}
	hasNoSecret(t, i.state(), secret)
	i.nacre("audit", "verify").want(t, 0)
}
