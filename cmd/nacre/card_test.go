package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-47: what does not fit into a message of a service, and what looks like a secret, is approved at none. The card of each
// chat says where the question is read whole, and has a button to deny it. A press that says yes to it, of the person who
// may, decides nothing. A denial counts, once, and ends the cards at the other services. In a terminal, and on the web page,
// the question is shown with all that it asks.
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

// M-42, M-47: a host, a credential and a run that wants to go on are let through from a chat as a tool is. Each is for as
// long as a chat may: the host for half an hour, the credential for an hour, the run for this once. The record of each has
// the person, the identity and the face. Who is no operator, and a button of before, lets nothing through.
func TestEachKindIsLetThroughFromAChat(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, fakes, chats, pins := inEachChat(t)
	_, vault, minted := i.minted()
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "a package") }))
	t.Cleanup(host.Close)
	i.config(i.configured() + toolsConfig + chats + minted + "budget = { hours = 4, renewals = 3 }\n[egress]\nallow = [\"example.com:443\"]\n[approval]\nhold = \"0s\"\n" +
		"[egress.pin]\n" + pins + vault + fmt.Sprintf("\n\"packages.example.com:80\" = %q\n", host.Listener.Addr()))
	i.write("p/.nacre/roles/fixer.toml", taskRole+"[escalation]\npolicy = \"orchestrator-notify\"\n")
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	i.serve()
	approves := func(service, what string) {
		t.Helper()
		fake, users := fakes[service], chatServices()[service].users
		until(t, "the card at "+service, func() bool { return strings.Contains(fake.heard(), what) && len(fake.card()) > 1 })
		q, button := i.question(), fake.card()[0]
		fake.taps(strange(service, 1), button)
		fake.taps(users.bob, button)
		fake.taps(users.ada, "aaaaaaaaaaaaaaaa")
		until(t, "a refusal at "+service, func() bool { return strings.Contains(fake.heard(), "Nothing was decided: ") })
		if all := i.questions(); len(all) != 1 || all[0].ID != q.ID {
			t.Errorf("a press that decides nothing decided: %+v", all)
		}
		fake.taps(users.ada, button)
		until(t, "what was decided at "+service, func() bool { return strings.Contains(fake.heard(), "Approved once by ada ("+service+").") })
	}
	asking := i.begin("exec", "-q", "--session", "asks", "--", "sh", "-c", "for url in http://packages.example.com/ https://example.com/v1/x; do until curl -sf $url; do sleep 0.1; done; done")
	approves("telegram", "packages.example.com:80")
	approves("slack", "vault for 4 h and 3 renewals")
	finish(t, asking).want(t, 0, "a package", "it works")
	task := i.begin("task", "run", i.tasks(1)[0], "--project", "p", "--brain", "replay", "--session", "goes-on", "--check", "true", "--recording", i.write("push.jsonl",
		`{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"git push"}}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n"))
	approves("discord", "nacre.continue")
	finish(t, task).want(t, 0, "merged")
	has(t, i.records("asks"), `"identity":"telegram:42","person":"ada","shown"`, `"identity":"slack:T1:U42","person":"ada","scope":"exact","seconds":3600,"shown"`, `"kind":"approval.refuse"`)
	has(t, i.records("goes-on"), `"identity":"discord:42","person":"ada","shown"`)
	i.nacre("audit", "verify").want(t, 0)
}

// M-42, M-47: at each service a card is denied, and approved for an hour with exactly its arguments, after which the same
// call is not asked about again. While it is shown, a question may end by a press at one of them or by an answer in a
// terminal. It may end by its time, by the stop of its session or by the death of its nacre. Its card is then edited at each
// service: it has no buttons, and the one that approved decides nothing.
func TestACardIsEditedHoweverItsQuestionEnds(t *testing.T) {
	t.Parallel()
	i, fakes, chats, pins := inEachChat(t)
	with := i.configured() + toolsConfig + chats + "[egress.pin]\n" + pins
	i.config(with)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	i.serve()
	const over = "It waits no longer: it was answered, its time is over, or its session ended."
	type ending struct {
		name, says string
		ends       func(r *running)
	}
	endings := []ending{
		{"answered", over, func(*running) { i.nacre("approvals", "deny", i.question().ID).want(t, 0) }},
		{"expired", over, func(*running) {}},
		{"stopped", over, func(*running) { i.nacre("sessions", "stop", "stopped").want(t, 0) }},
		{"killed", over, func(r *running) { check(t, r.Process.Kill()) }},
	}
	for service, fake := range fakes {
		taps := func(button int) func(*running) {
			return func(*running) { fake.taps(chatServices()[service].users.ada, fake.card()[button]) }
		}
		endings = append(endings, ending{"denied-" + service, "Denied by ada (" + service + ").", taps(1)}, ending{"hour-" + service, "Approved for an hour by ada (" + service + ").", taps(2)})
	}
	for _, c := range endings {
		ended, before := map[string]int{}, map[string]string{}
		for service, fake := range fakes {
			ended[service], before[service] = fake.ended(c.says), strings.Join(fake.card()[:min(1, len(fake.card()))], "")
		}
		if c.name == "expired" { // which is soon, for this session alone
			i.config("ask_seconds = 5\n" + with)
		}
		calls := `ipc delete_reminder '{"reminder_id":"R-1"}'`
		if strings.HasPrefix(c.name, "hour-") {
			calls += "; " + calls
		}
		r := i.begin("exec", "-q", "--session", c.name, "--", "sh", "-c", calls)
		buttons := map[string][]string{}
		for service, fake := range fakes {
			until(t, c.name+": the card at "+service, func() bool {
				buttons[service] = fake.card()
				return len(buttons[service]) == 3 && buttons[service][0] != before[service] || fake.ended(c.says) > ended[service] // a slow machine may see the end alone
			})
		}
		i.config(with)
		c.ends(r)
		for service, fake := range fakes {
			until(t, c.name+": the end of the card at "+service, func() bool { return fake.ended(c.says) > ended[service] })
			for _, button := range buttons[service][:min(1, len(buttons[service]))] {
				refused := strings.Count(fake.heard(), "Nothing was decided: ")
				fake.taps(chatServices()[service].users.ada, button)
				until(t, c.name+": the refusal at "+service, func() bool { return strings.Count(fake.heard(), "Nothing was decided: ") > refused })
			}
		}
		finish(t, r)
		records := i.records(c.name)
		if asked := strings.Count(records, `"kind":"approval.ask"`); asked != 1 {
			t.Errorf("%s: asked %d times", c.name, asked)
		}
		if approved := strings.Contains(records, `"outcome":"approved"`); approved != strings.HasPrefix(c.name, "hour-") {
			t.Errorf("%s: that it was approved is %t", c.name, approved)
		}
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-46, M-47: what the policy wants two persons for is approved by one at Telegram and another at Slack. The first is told
// that it counts and that another one has to, and alone approves nothing, however often. No button is for longer.
func TestTwoPersonsApproveFromTwoChats(t *testing.T) {
	t.Parallel()
	i, fakes, chats, pins := inEachChat(t)
	chats = strings.Replace(chats, `, "slack:T1:U42"`, "", 1)
	chats = strings.Replace(chats, `identities = ["terminal:4242"]`, "identities = [\"slack:T1:U42\"]\napprove = [\"tool\"]\nup_to = \"DESTRUCTIVE\"", 1)
	i.config(i.configured() + toolsConfig + chats + "[egress.pin]\n" + pins)
	i.write("home/.config/nacre/policy.toml", "[[rules]]\naction = \"allow\"\nmatch = { safety_class = [\"READ\", \"WRITE\"] }\n[[rules]]\naction = \"ask\"\napprovers = 2\nmatch = { safety_class = [\"DESTRUCTIVE\"] }\n")
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	i.serve()
	r := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	ada, bob := fakes["telegram"], fakes["slack"]
	for name, fake := range map[string]chatFake{"ada": ada, "bob": bob} {
		until(t, "the card of "+name, func() bool { return len(fake.card()) > 0 })
		if buttons := fake.card(); len(buttons) != 2 {
			t.Errorf("%s has the buttons %q", name, buttons)
		}
	}
	approve := ada.card()[0]
	ada.taps("42", approve)
	until(t, "that it counts", func() bool {
		return strings.Contains(ada.heard(), "Your approval counts; 1 more person has to approve.")
	})
	ada.taps("42", approve)
	until(t, "that it counts once", func() bool { return strings.Contains(ada.heard(), "Nothing was decided: ") })
	if len(i.questions()) != 1 {
		t.Fatal("one person was enough")
	}
	bob.taps("U42", bob.card()[0])
	finish(t, r).want(t, 0, "R-1")
	for name, fake := range map[string]chatFake{"ada": ada, "bob": bob} {
		until(t, "the end for "+name, func() bool {
			return strings.Contains(fake.heard(), "Approved once by ada") && strings.Contains(fake.heard(), "bob")
		})
	}
	has(t, i.records("asks"), `"outcome":"approved in part"`, `"identity":"telegram:42"`, `"identity":"slack:T1:U42"`, `"approvers":2`)
	i.nacre("audit", "verify").want(t, 0)
}
