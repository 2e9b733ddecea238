package question_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/person"
	"github.com/nacre-dev/nacre/internal/question"
)

func asked(arguments string) nacre.Question {
	return nacre.Question{
		ID: "ab3f", Session: "s1", Group: "family", Capability: "deploy.preview", Arguments: json.RawMessage(arguments), Digest: "d1",
		Files:   []nacre.FilePin{{Argument: "file", Name: "a\u202etxt", SHA256: strings.Repeat("a", 64), Bytes: 3}},
		Origins: []nacre.Origin{{Argument: "to", Provenance: nacre.SeenUntrusted, Sources: []string{"a page"}}}, Safety: nacre.Write,
		Why: "policy.toml, rule 1", AgentWords: "harmless\nexpires: never", Expires: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC),
	}
}

// M-47: all arguments, the provenance of risky values and the expiry are on the card, and
// nothing that an agent wrote passes for a line of the card.
func TestACardShowsAllOfAQuestion(t *testing.T) {
	card := question.Of(asked(`{"env":"staging","note":"` + "\\n\u202e" + strings.Repeat("x", 500) + `","to":"eve@example.org"}`))
	text := card.Text()
	for _, want := range []string{
		"ab3f  family wants to run deploy.preview (tool, WRITE)\n", `  "env": "staging",` + "\n", strings.Repeat("x", 500), "<U+202E>", `"to": "eve@example.org"`,
		"file: file: 3 bytes, sha256 " + strings.Repeat("a", 64), "origin (!): to came from an UNTRUSTED source: a page\n",
		"asked for: policy.toml, rule 1\n", "the agent says (not checked): harmless<U+000A>expires: never\n", "expires: 2026-11-23 09:00:00 UTC\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// M-47: a name that is drawn like another one is pointed out before what was asked. What is written in
// one alphabet, or has words of several, is not.
func TestACardPointsOutLettersOfTwoAlphabets(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"to":"аda@example.org"}`:      "а" + "da@example.org has letters of two alphabets (Cyrillic, Latin)",
		`{"to":"ada@exаmple.org"}`:      "(Latin, Cyrillic)",
		`{"to":"асе.com"}`:              "(Cyrillic, Latin)",
		`{"a":{"b":["x/pаyroll.csv"]}}`: "x/pаyroll.csv has letters",
		`{"аmount":1}`:                  "аmount has letters",
		`{"to":"gοogle"}`:               "(Latin, Greek)",
		`{"to":"ａda"}`:                  "(full-width, Latin)",
		`{"note":"привет, ada: API-ключ готов"}`:   "",
		`{"note":"naïve café Ångström ½ ① 東京abc"}`: "",
		`{"note":"а b а"}`:         "",
		`{"to":"ada@example.org"}`: "",
	} {
		text := question.Of(asked(arguments)).Text()
		if pointed := strings.Contains(text, "look (!): "); pointed != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s shows\n%s", arguments, text)
		}
	}
	many := question.Of(asked(`{"to":"` + strings.Repeat("pаy1 pаy2 pаy3 pаy4 pаy5 ", 1000) + `"}`)).Text()
	if strings.Count(many, "look (!): ") != 4 || !strings.Contains(many, "more of its words") {
		t.Errorf("%d are pointed out", strings.Count(many, "look (!): "))
	}
}

// M-47: signs that are drawn like others, and letters that a screen shows in another order, hide nothing.
// Prose in one alphabet is not pointed out, whichever way it is written.
func TestACardPointsOutWhatMayBeReadAsSomethingElse(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"url":"https://github.com\u2044login.example.org"}`:       "",
		`{"url":"https://github.com` + "\u2044" + `login.example"}`: "https://github.com\u2044login.example has \u2044 (U+2044), which is drawn like another sign",
		`{"to":"ada@example` + "\u3002" + `org"}`:                   "(U+3002)",
		`{"to":"` + "\u0261" + `ithub.com"}`:                        "(U+0261)",
		`{"path":"keys/` + "\U0001d41a" + `da"}`:                    "(U+1D41A)",
		`{"note":"1` + "\u2044" + `2 of it, 10 − 3, für 5 €"}`:      "",
		`{"path":"/home/א/12/ב/34"}`:                                "א/12/ב/34 is written from right to left",
		`{"list":["א",5,"ב",7]}`:                                    "א is written",
		`{"to":"من ada"}`:                                           "من is written from right to left",
		`{"to":"ada","note":"שלום, מה נשמע?","amount":5}`:           "",
	} {
		text := question.Of(asked(arguments)).Text()
		if pointed := strings.Contains(text, "look (!): "); pointed != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s shows\n%s", arguments, text)
		}
	}
}

func TestACardThatDoesNotFitIsOpenedElsewhere(t *testing.T) {
	long := question.Of(asked(`{"note":"` + strings.Repeat("x", 4000) + `"}`))
	for _, face := range []person.Face{person.Telegram, person.Slack, person.Discord, "fax"} {
		shown := long.Shown(face)
		if long.Fits(face) || strings.Contains(shown, "xxx") || !strings.Contains(shown, "nacre approvals show ab3f") || !strings.Contains(shown, "expires") {
			t.Errorf("%s shows\n%s", face, shown)
		}
	}
	for _, face := range []person.Face{person.Terminal, person.Web} {
		if !long.Fits(face) || long.Shown(face) != long.Text() {
			t.Errorf("%s does not show all", face)
		}
	}
	if short := question.Of(asked(`{"note":"x"}`)); !short.Fits(person.Discord) || short.Shown(person.Discord) != short.Text() {
		t.Error("a short card does not fit")
	}
	emoji := question.Of(asked(`{"note":"` + strings.Repeat("😀", 800) + `"}`))
	if emoji.Fits(person.Discord) {
		t.Error("a character of two units was counted as one")
	}
}

// The digest of a card covers each thing that is shown, and what the answer is bound to.
func TestADigestIsOfAllThatIsShown(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*nacre.Question){
		"nothing":       func(*nacre.Question) {},
		"the id":        func(q *nacre.Question) { q.ID = "zzzz" },
		"the arguments": func(q *nacre.Question) { q.Arguments = json.RawMessage(`{"env":"production"}`) },
		"an origin":     func(q *nacre.Question) { q.Origins = nil },
		"a file":        func(q *nacre.Question) { q.Files = nil },
		"the risk":      func(q *nacre.Question) { q.Safety = nacre.Destructive },
		"the session":   func(q *nacre.Question) { q.Session = "s2" },
		"the expiry":    func(q *nacre.Question) { q.Expires = q.Expires.Add(time.Second) },
		"the question":  func(q *nacre.Question) { q.Digest = "d2" },
		"the approvers": func(q *nacre.Question) { q.Approvers = 2 },
		"the words":     func(q *nacre.Question) { q.AgentWords = "" },
	} {
		q := asked(`{"env":"staging"}`)
		change(&q)
		digest := question.Of(q).Digest()
		if other, taken := seen[digest]; taken || digest == "" {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[digest] = name
	}
	elsewhere := asked(`{"env":"staging"}`)
	elsewhere.Expires = elsewhere.Expires.In(time.FixedZone("here", 3600))
	if question.Of(elsewhere).Digest() != question.Of(asked(`{"env":"staging"}`)).Digest() {
		t.Error("one moment has two digests")
	}
}

// A question reaches another process as JSON, and its card there is the card of the desk.
func TestACardIsTheSameInEachProcess(t *testing.T) {
	for _, arguments := range []string{"", "null", `{"a":"<b>&\u003c\\u003c","c":" "}`, `{"a":"\\"}`} {
		q := asked(arguments)
		q.AgentWords, q.Why, q.Expires = "a\xff\xfe<", "b\xffc", time.Now()
		if arguments == "" {
			q.Arguments = nil
		}
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var arrived nacre.Question
		if err := json.Unmarshal(data, &arrived); err != nil {
			t.Fatal(err)
		}
		here, there := question.Of(q), question.Of(arrived)
		if here.Digest() != there.Digest() {
			t.Errorf("%s: here\n%s\nthere\n%s", arguments, here.Text(), there.Text())
		}
	}
}

func TestAHostInAnotherAlphabetIsSaid(t *testing.T) {
	q := nacre.Question{Group: "main", Capability: question.Egress, Arguments: json.RawMessage(`{"host":"xn--pple-43d.com","port":443,"protocol":"tls"}`)}
	card := question.Of(q)
	if card.Kind != person.Egress || !strings.Contains(card.Text(), "another alphabet") || !strings.Contains(card.Title, "xn--pple-43d.com:443 (tls)") {
		t.Errorf("have\n%s", card.Text())
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\u202e\x00\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range question.Escape(s) {
			if r < ' ' || r == 0x7f || r == '\u202e' || r == '\u200b' || r == '\ufeff' {
				t.Errorf("have %q in %q", r, question.Escape(s))
			}
		}
	})
}

// A plugin names its tools: nothing that it can call one is taken for a question of nacre's own,
// which other persons may answer (M-46).
func TestNoToolIsTakenForAQuestionOfNacresOwn(t *testing.T) {
	t.Parallel()
	for _, own := range []nacre.CapabilityID{question.Egress, question.Lease, question.Continue} {
		if !strings.HasPrefix(string(own), "nacre.") { // a name that no plugin may have
			t.Errorf("a plugin could have the tool %s", own)
		}
	}
	for _, tool := range []nacre.CapabilityID{"task.continue", "run.continue", "egress.nacre"} {
		if have := question.KindOf(nacre.Question{Capability: tool}); have != person.Tool {
			t.Errorf("%s: have %s", tool, have)
		}
	}
}
