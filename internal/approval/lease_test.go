package approval_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/approval"
	"github.com/nacre-dev/nacre/internal/person"
	cards "github.com/nacre-dev/nacre/internal/question"
)

// M-30, M-47: a credential that is granted in a chat is granted for an hour at most, whatever it
// was asked for. Whoever may not grant credentials grants none.
func TestACredentialIsGrantedByWhoMayAndForAsLong(t *testing.T) {
	t.Parallel()
	arguments, err := json.Marshal(cards.Budget{Credential: "hub", Minted: "vault for policies deploy", Host: "hub.example:443", Methods: []string{"GET"}, Paths: []string{"/v1/"}, Hours: 4, Renewals: 3})
	if err != nil {
		t.Fatal(err)
	}
	upTo := nacre.Destructive
	for name, c := range map[string]struct {
		kinds    []string
		identity string
		said     time.Duration
		want     time.Duration
		ok       bool
	}{
		"in a chat":                    {[]string{"credential"}, "telegram:1", 0, time.Hour, true},
		"in a chat, for less":          {[]string{"credential"}, "telegram:1", time.Minute, time.Minute, true},
		"in a chat, for more":          {[]string{"credential"}, "telegram:1", 2 * time.Hour, 0, false},
		"at a terminal":                {[]string{"credential"}, "terminal:5", 0, 0, true},
		"by who approves tools":        {[]string{"tool", "egress"}, "terminal:5", 0, 0, false},
		"by who approves all of it":    {[]string{"*"}, "terminal:5", 2 * time.Hour, 2 * time.Hour, true},
		"in a chat, by who approves *": {[]string{"*"}, "telegram:1", 0, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk := approval.New(approval.Options{Now: time.Now, Recorder: &ledger{}, Session: "s1", Group: "g1", Directory: func() (person.Directory, error) {
				return person.Directory{Operators: person.Operators{"ada": {Identities: []string{"telegram:1", "terminal:5"}, Approve: c.kinds, UpTo: &upTo}}}, nil
			}})
			granted := make(chan nacre.Ruling, 1)
			if _, err := desk.Propose(context.Background(), nacre.Question{Capability: cards.Lease, Arguments: arguments, Digest: "d", Safety: nacre.Write}, func(_ nacre.Question, r nacre.Ruling, _ error) { granted <- r }); err != nil {
				t.Fatal(err)
			}
			q := desk.List()[0]
			if text := approval.Render(q); !strings.Contains(text, "hub, minted by vault for policies deploy") || !strings.Contains(text, "hub.example:443 GET /v1/") {
				t.Errorf("it shows\n%s", text)
			}
			press := by(c.identity, q, nacre.Allow)
			if c.said > 0 {
				press.Ruling.For, press.Ruling.Scope = c.said, nacre.ScopeExact
			}
			_, err := desk.Press(press)
			if c.ok != (err == nil) {
				t.Fatalf("pressed: %v", err)
			}
			if err := desk.Close(); err != nil {
				t.Error(err)
			}
			if have := <-granted; c.ok != (have.Verdict == nacre.Allow) || c.ok && have.For != c.want {
				t.Errorf("have %v for %v, want %v", have.Verdict, have.For, c.want)
			}
		})
	}
}
