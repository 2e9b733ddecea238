package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/roster"
	"github.com/nacre-dev/nacre/internal/session"
)

// operators writes the persons of an installation, whose sessions go on meanwhile.
func (i *installation) operators(text string) {
	i.t.Helper()
	i.write("home/.config/nacre/config.toml", strings.ReplaceAll(text, "UID", fmt.Sprint(os.Geteuid()))+toolsConfig)
}

// presses brings a press to a session's control socket, as a face of the installation does.
func (i *installation) presses(q nacre.Question, identity string, r nacre.Ruling) (nacre.Pressed, error) {
	i.t.Helper()
	held, err := registry.New(registry.Paths{State: i.state()}).Show(q.Session)
	if err != nil {
		i.t.Fatal(err)
	}
	remote, err := session.Dial(held)
	if err != nil {
		i.t.Fatal(err)
	}
	r.By = "a face"
	return remote.Press(i.t.Context(), nacre.Press{ID: q.ID, Identity: identity, Shown: question.Of(q).Digest(), Ruling: r})
}

// M-41, M-46: only configured persons answer, within their rights as they are at that
// moment, and the record says who, where and what was shown.
func TestOnlyAPersonWithTheRightAnswers(t *testing.T) {
	t.Parallel()
	i, r := asks(t, strings.ReplaceAll("[operators.ada]\nidentities = [\"terminal:UID\"]\napprove = [\"tool\"]\nup_to = \"WRITE\"\n", "UID", fmt.Sprint(os.Geteuid())))
	q := i.question()
	i.nacre("approvals", "approve", q.ID).want(t, 1, "ada does not approve what is DESTRUCTIVE")
	i.operators("[operators.bob]\nidentities = [\"telegram:7\"]\n")
	i.nacre("approvals", "approve", q.ID).want(t, 1, "no [operators.NAME] has terminal:")
	i.operators("[operators.ada]\nidentities = [\"terminal:UID\"]\napprove = [\"tol\"]\nup_to = \"WRITE\"\n")
	i.nacre("approvals", "approve", q.ID).want(t, 2, `"tol" is not a kind of question`)
	i.operators("[operators.ada]\nidentities = [\"terminal:UID\", \"telegram:7\"]\napprove = [\"tool\"]\nup_to = \"DESTRUCTIVE\"\n")
	for identity, want := range map[string]string{"telegram:8": "no [operators.NAME] has telegram:8", "terminal:4242": "cannot answer as"} {
		if _, err := i.presses(q, identity, nacre.Ruling{Verdict: nacre.Allow}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v", identity, err)
		}
	}
	if _, err := i.presses(q, "telegram:7", nacre.Ruling{Verdict: nacre.Allow, For: approval.MaxStanding, Scope: nacre.ScopeSame}); err == nil || !strings.Contains(err.Error(), "an hour at most") {
		t.Errorf("a standing grant from a chat: have %v", err)
	}
	if len(i.questions()) != 1 {
		t.Fatal("a press without the right ended the question")
	}
	export := i.write("export.jsonl", "")
	i.nacre("memory", "import", export).want(t, 1, "ada does not answer questions of the kind memory")
	i.nacre("sessions", "stop", "asks").want(t, 1, "ada may not stop sessions of group main")
	i.nacre("approvals", "approve", q.ID).want(t, 0, "approved")
	finish(t, r).want(t, 0, "R-1")
	has(t, i.records("asks"), `"kind":"approval.refuse"`, `"reason":"right"`, `"reason":"stranger"`, `"reason":"face"`,
		`"person":"ada"`, fmt.Sprintf(`"identity":"terminal:%d"`, os.Geteuid()), `"face":"terminal"`, `"shown":"`+question.Of(q).Digest())
	i.nacre("audit", "verify").want(t, 0)
}

// M-46: what the policy wants two persons for is approved by two, and a press after the
// session's end decides nothing and is recorded.
func TestTwoPersonsApproveWhatThePolicyNames(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.operators("[operators.ada]\nidentities = [\"terminal:UID\"]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\n" +
		"[operators.bob]\nidentities = [\"web:bob\", \"telegram:9\"]\napprove = [\"tool\"]\nup_to = \"DESTRUCTIVE\"\n")
	i.write("home/.config/nacre/policy.toml", "[[rules]]\naction = \"allow\"\nmatch = { safety_class = [\"READ\", \"WRITE\"] }\n[[rules]]\naction = \"ask\"\napprovers = 2\nmatch = { safety_class = [\"DESTRUCTIVE\"] }\n")
	r := i.beginAsking()
	q := i.question()
	i.nacre("approvals", "approve", q.ID, "--for", "15m").want(t, 1, "is approved once")
	i.nacre("approvals", "approve", q.ID).want(t, 0, "1 more person")
	i.nacre("approvals", "approve", q.ID).want(t, 1, "ada approved it already")
	pressed, err := i.presses(q, "telegram:9", nacre.Ruling{Verdict: nacre.Allow})
	if err != nil || pressed.Open != 0 || !strings.Contains(pressed.By, "ada, bob") {
		t.Fatalf("have %+v, %v", pressed, err)
	}
	finish(t, r).want(t, 0, "R-1")
	i.nacre("approvals", "approve", q.ID).want(t, 1, "was answered")
	has(t, i.records("asks"), `"outcome":"approved in part"`, `"person":"bob"`, `"face":"telegram"`, `"approvers":2`)
	i.nacre("audit", "verify").want(t, 0)
}

// M-46: an identity is paired on the host alone, with a code that was shown in the chat.
func TestAnIdentityIsPairedOnTheHost(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("operators", "list").want(t, 0, "owner", fmt.Sprintf("terminal:%d", os.Geteuid()), "approve * up to DESTRUCTIVE")
	i.nacre("operators", "pair", "ada").want(t, 1, `"ada" is not an operator`)
	i.operators("[operators.ada]\nidentities = [\"terminal:UID\"]\nconfig = true\n[operators.bob]\nidentities = [\"terminal:4242\"]\n")
	people := roster.Roster{Config: filepath.Join(i.work, "home/.config/nacre"), State: i.state(), Now: time.Now}
	if _, err := people.Ask(t.Context(), "telegram:7"); !errors.Is(err, person.ErrNoPairing) {
		t.Errorf("a stranger outside of a pairing: have %v", err)
	}
	i.nacre("operators", "pair", "bob").want(t, 0, "nacre operators pair bob CODE")
	var code string
	for n := range 4 { // strangers write at the same time
		shown, err := people.Ask(t.Context(), person.Identity(fmt.Sprintf("telegram:%d", n+7)))
		if (err == nil) != (n < person.MaxPending) {
			t.Errorf("identity %d: have %q, %v", n, shown, err)
		}
		if n == 0 {
			code = shown
		}
	}
	i.nacre("approvals", "waiting").want(t, 0, "pairing", "telegram:7 wants to be bob", "telegram:9")
	i.nacre("operators", "pair", "bob", "AAAAAAAA").want(t, 1, "4 more tries")
	i.nacre("operators", "pair", "ada", code).want(t, 1, "nobody is being paired now with ada")
	i.nacre("operators", "pair", "bob", strings.ToLower(code)).want(t, 0, "telegram:7 is bob from now on")
	i.nacre("operators", "pair", "bob", code).want(t, 1, "nobody is being paired now")
	i.nacre("operators", "list").want(t, 0, "terminal:4242, telegram:7")
	i.nacre("approvals", "waiting").want(t, 0, "nothing is waiting")
	i.operators("[operators.bob]\nidentities = [\"terminal:UID\"]\n")
	i.nacre("operators", "pair", "bob").want(t, 1, "bob does not change the configuration")
	i.nacre("audit", "verify").want(t, 0)
}
