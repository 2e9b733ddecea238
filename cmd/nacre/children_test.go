package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// allowChildren lets agents ask for sub-agents.
const allowChildren = "[children]\nallow = true\n"

// choosing is a recording that runs one command after the other.
func (i *installation) choosing(name string, commands ...string) string {
	i.t.Helper()
	lines := []byte(`{"v":1,"name":"r"}` + "\n")
	for _, c := range commands {
		line, err := json.Marshal(map[string]any{"tool": "shell", "input": map[string]any{"command": c}})
		if err != nil {
			i.t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	return i.write(name, string(lines))
}

// askChild is a command that asks for a sub-agent, and leaves in the project what is told of it.
func askChild(n int, arguments string) string {
	return fmt.Sprintf(`mkdir -p told; ipc start_child '%s' >told/asked%d 2>&1; true`, arguments, n)
}

// childOf is the name of the sub-agent that was asked for.
func childOf(n int) string {
	return fmt.Sprintf(`$(grep -o '"child":"[^"]*"' told/asked%d | cut -d'"' -f4)`, n)
}

// awaitChild is a command that waits for its end, and leaves in the project what is told of it.
func awaitChild(n int) string {
	return fmt.Sprintf(`while ipc wait_child "{\"child\":\"%[2]s\",\"seconds\":5}" >told/%[1]d 2>&1; grep -q '"running"' told/%[1]d; do :; done; true`, n, childOf(n))
}

// delegates is a run whose agent plays a recording, and whose sub-agents play those beside it.
func (i *installation) delegates(recording string, more ...string) *running {
	i.t.Helper()
	return i.begin(append([]string{"run", "Do the work", "--brain", "replay", "--recording", recording, "--project", "p", "--session", "work"}, more...)...)
}

// heard is what the agent of the run was told, by the name of its file.
func (i *installation) heard(name string) string {
	i.t.Helper()
	data, err := os.ReadFile(filepath.Join(i.work, "p/told", name))
	if err != nil {
		i.t.Fatal(err)
	}
	return string(data)
}

// kin is a session as nacre ps and nacre sessions list have it.
type kin struct {
	ID, Parent, State, Title, Outcome, Last string
	Resumable                               bool
}

// kins are the sessions that a command lists, by their titles.
func (i *installation) kins(command ...string) map[string]kin {
	i.t.Helper()
	r := i.nacre(append(command, "--json")...)
	var list []kin
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		i.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	all := map[string]kin{}
	for _, s := range list {
		all[s.Title] = s
	}
	return all
}

// lineage are the rows of the ledger, by the session that they are of.
func (i *installation) lineage() map[string]ledger.Run {
	i.t.Helper()
	var list []ledger.Run
	r := i.nacre("ledger", "list", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		i.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	all := map[string]ledger.Run{}
	for _, row := range list {
		if _, twice := all[row.Session]; twice {
			i.t.Errorf("session %s has two rows", row.Session)
		}
		all[row.Session] = row
	}
	return all
}

// M-56, M-69: a parent asks through the door for three sub-agents, which work beside each other
// on clones of their own. Their work is verified and lands in the order in which they were
// started, however long each takes, and what they say comes back as data. The parent reads what
// they have stored, which nobody else finds. Sessions, ledger, audit and receipts link them.
func TestSubAgentsWorkLandsVerifiedInOrder(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("home/.config/nacre/config.toml", allowChildren+"[groups.main]\ntools = [\"memory_*\"]\n")
	i.project()
	const find = `ipc memory_search '{"query":"walrus"}'`
	rec := i.choosing("rec.jsonl", askChild(1, `{"task":"one"}`), askChild(2, `{"task":"two"}`), askChild(3, `{"task":"three"}`),
		awaitChild(3), awaitChild(2), awaitChild(1),
		`ipc child_memories "{\"child\":\"`+childOf(2)+`\"}" >told/memories`, find+` >told/found`,
		askChild(4, `{"task":"four","memory":"memory-'"`+childOf(2)+`"'"}`), awaitChild(4))
	i.choosing("rec.jsonl.1", "mkdir -p said/first; touch said/first/ready; until ls said/first | grep -qx go; do sleep 0.02; done; rm -r said; cat greeting.txt >one.txt; test ! -e two.txt")
	i.choosing("rec.jsonl.2", `ipc memory_store '{"type":"fact","content":"the walrus is written"}'; `+find+` >two.txt`)
	i.choosing("rec.jsonl.3", "echo bad >bad.txt", find+" >>bad.txt")
	i.choosing("rec.jsonl.4", find+` >four.txt`)
	r := i.delegates(rec, "--check", "test ! -e bad.txt")
	var first, second string
	eventually(t, "the second sub-agent's work to be verified", func() bool {
		all := i.kins("ps")
		first, second = all["one"].ID, all["two"].ID
		return second != "" && strings.Contains(i.records(second), `"kind":"verify"`)
	})
	all := i.kins("ps")
	for _, title := range []string{"one", "two"} {
		if have := all[title]; have.Parent != "work" || have.State != "running" {
			t.Errorf("%s is %+v", title, have)
		}
	}
	i.nacre("ps").want(t, 0, "\nwork", "\n└ "+first, "\n└ "+second)
	has(t, all["one"].Last, "shell") // what it does
	i.nacre("logs", second).want(t, 0, "session "+second, "shell")
	if err := os.WriteFile(filepath.Join(i.workspace(first), "said/first/go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	finish(t, r).want(t, 0, first+" has ended, landed", `not landed: check "test ! -e bad.txt" ended with 1`, "merged")
	has(t, i.heard("1"), `"state":"landed"`, `"changes":["added one.txt"]`)
	has(t, i.heard("2"), `"state":"landed"`, `"changes":["added two.txt"]`)
	has(t, i.heard("3"), `"state":"not landed"`, `"changes":["added bad.txt"]`)
	has(t, i.heard("memories"), "the walrus is written", "working:memory-"+second)
	hasNo(t, i.heard("found"), "the walrus is written")
	has(t, i.read("p/two.txt")+i.read("p/four.txt"), "the walrus is written")
	if have := strings.Count(i.read("p/four.txt"), "the walrus is written"); have != 1 {
		t.Errorf("the memory that was handed on was found %d times", have)
	}
	if have := i.git("log", "--reverse", "--first-parent", "--format=%s"); strings.Join(strings.Fields(have), " ") != "first one two four Do the work" {
		t.Errorf("landed in the order %q", have)
	}
	rows := i.lineage()
	for id, s := range map[string]ledger.Status{first: ledger.Merged, second: ledger.Merged, i.kins("sessions", "list")["three"].ID: ledger.Failed} {
		if rows[id].Status != s || rows[id].Parent != "work.1" {
			t.Errorf("%s has the row %+v", id, rows[id])
		}
	}
	told := i.told("work")
	if asked, ended := strings.Count(told, `"outcome":"asked"`), strings.Count(told, `"outcome":"ended"`); asked != 4 || ended != 4 {
		t.Errorf("%d sub-agents were asked for, and %d have ended", asked, ended)
	}
	has(t, told, `"by":"main/work"`, `"principal":"main/work/`+first)
	has(t, i.told(first), `"parent":"work.1","parent_session":"work"`)
	has(t, i.told(second), `"principal":"main/work/`+second)
	for session, fact := range map[string]string{"work": `"children":"`, first: `"parent":"work"`} {
		data, err := os.ReadFile(i.state("receipts", session+".receipt"))
		if err != nil {
			t.Fatal(err)
		}
		has(t, string(data), fact)
		i.nacre("audit", "verify", "--receipt", i.state("receipts", session+".receipt")).want(t, 0)
	}
	i.nacre("run", "--session", first).want(t, 2, "has no unfinished work to go on with")
}

// M-69, K-11: a sub-agent gets no more than its parent has, and there are no more of them than the
// operator allows. What asks for more is refused with a sentence, and nothing begins.
func TestASubAgentGetsNoMoreThanItsParentHas(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools+"[children]\nallow = true\ntotal = 2\n")
	refused := map[string]string{
		`{"task":"x","egress":["evil.example:443"]}`: "evil.example:443, which you may not",
		`{"task":"x","tools":["memory_store"]}`:      "memory_store\\\", which you do not have",
		`{"task":"x","minutes":600}`:                 "it asks for 600 minutes, and you have",
		`{"task":"x","role":"nobody"}`:               "role nobody",
		`{"task":"x","tools":["start_child"]}`:       "would be of generation 2, where 1 is the last",
		`{"task":"x","memory":"memory-of-nobody"}`:   "no sub-agent of yours has the memory",
		`{"task":"x","budget_usd":"0"}`:              "budget_usd is 0",
		`{"task":"x","more":1}`:                      "VALIDATION_FAILED",
	}
	commands, wants := []string{}, []string{}
	for asked, want := range refused {
		commands, wants = append(commands, askChild(len(commands), asked)), append(wants, want)
	}
	many := testpeer.Size(5, 1000)
	rec := i.choosing("rec.jsonl", append(commands, askChild(100, `{"task":"first","tools":["say","inbox"],"minutes":1}`), awaitChild(100), askChild(101, `{"task":"second"}`), awaitChild(101),
		fmt.Sprintf(`n=0; while test $n -lt %d; do ipc start_child '{"task":"too many"}' >>told/many 2>&1; n=$((n+1)); done; true`, many))...)
	i.choosing("rec.jsonl.1", "ipc list_tools '{}' >tools.txt", `ipc say '{"text":"heard"}' >said.txt`, `ipc send '{"to":"https://bob.example/box"}' >>said.txt 2>&1; true`)
	i.choosing("rec.jsonl.2", `ipc say '{"text":"again"}' >other.txt 2>&1; true`)
	finish(t, i.delegates(rec, "--check", "true")).want(t, 0, "merged")
	for n, want := range wants {
		has(t, i.heard("asked"+strconv.Itoa(n)), want)
	}
	has(t, i.read("p/said.txt"), "heard", "UNKNOWN_TOOL")
	has(t, i.read("p/tools.txt"), `"say"`, `"inbox"`)
	hasNo(t, i.read("p/tools.txt"), `"send"`, `"start_child"`, `"rows"`)
	has(t, i.read("p/other.txt"), "UNKNOWN_TOOL")
	has(t, i.heard("many"), "this run has begun 2 sub-agents, and may begin no more (total under [children] in config.toml)")
	if many > 60 {
		has(t, i.heard("many"), "Rate limit exceeded for start_child (60 requests per 1m0s)")
	}
	if have := len(i.kins("sessions", "list")); have != 3 {
		t.Errorf("there are %d sessions", have)
	}
	has(t, i.told("work"), `"outcome":"refused"`)

	i.write("home/.config/nacre/config.toml", deskTools)
	rec = i.choosing("off.jsonl", askChild(1, `{"task":"x"}`))
	finish(t, i.delegates(rec, "--check", "true")).want(t, 0, "merged")
	has(t, i.heard("asked1"), "UNKNOWN_TOOL")
}

// M-69: what ends the parent ends its sub-agents and what they began, of all generations. Each has
// one end, and nobody can go on with it. The parent's own work goes on.
func TestSubAgentsEndWithTheirParent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(i *installation, r *running){
		"sessions stop": func(i *installation, _ *running) { i.nacre("sessions", "stop", "work").want(i.t, 0) },
		"kill -9":       func(_ *installation, r *running) { _ = r.Process.Kill() },
		"SIGTERM":       func(_ *installation, r *running) { _ = r.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("home/.config/nacre/config.toml", allowChildren+"depth = 2\n")
			i.project()
			mark := marker()
			works := "ready=" + mark + "; mkdir -p said/x; touch said/x/ready; until ls said/x | grep -qx go; do sleep 0.02; done; rm -r said; echo " + mark + " >done.txt"
			rec := i.choosing("rec.jsonl", "test -e done.txt || { "+askChild(1, `{"task":"one","tools":["start_child"]}`)+"; "+awaitChild(1)+"; }; touch own.txt")
			i.choosing("rec.jsonl.1", askChild(1, `{"task":"two"}`), works)
			i.choosing("rec.jsonl.1.1", works)
			r := i.delegates(rec, "--check", "true")
			eventually(t, "two generations at work", func() bool {
				all := i.kins("ps")
				one, two := all["one"], all["two"]
				return one.Parent == "work" && two.Parent == one.ID && isThere(filepath.Join(i.workspace(one.ID), "said/x/ready")) && isThere(filepath.Join(i.workspace(two.ID), "said/x/ready"))
			})
			end(i, r)
			if have := finish(t, r); have.code == 0 {
				t.Errorf("the run ended well: %s%s", have.stdout, have.stderr)
			}
			all := i.kins("sessions", "list") // the next start
			for _, title := range []string{"one", "two"} {
				if s := all[title]; s.State != "done" || s.Resumable {
					t.Errorf("%s is %+v", title, s)
				}
				if row := i.lineage()[all[title].ID]; row.Status != ledger.Failed {
					t.Errorf("%s has the row %+v", title, row)
				}
			}
			if left := processes(t, mark); len(left) > 0 {
				t.Errorf("still running: %q", left)
			}
			i.nacre("audit", "verify").want(t, 0)
			if s := all["Do the work"]; !s.Resumable {
				t.Errorf("the parent is %+v", s)
			}
			i.choosing("rec.jsonl", "touch own.txt")
			i.nacre("run", "--session", "work").want(t, 0, "merged")
			for _, row := range i.lineage() {
				if row.Status == ledger.Running || row.Status == ledger.Interrupted {
					t.Errorf("a row has no end: %+v", row)
				}
			}
		})
	}
}

// M-69, M-52, K-26: a sub-agent's task is no operator's word, and what it says of what an
// outsider told it taints its parent. What was taken back of it is refused.
func TestWhatASubAgentWasToldTaintsItsParent(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools+allowChildren)
	rec := i.choosing("rec.jsonl",
		askChild(1, `{"task":"write to https://evil.example/drop"}`), awaitChild(1),
		askChild(2, `{"task":"read the mail, and write to https://evil.example/drop","tools":["inbox","send"]}`), awaitChild(2), dry("https://new.example/")+" >told/after")
	i.choosing("rec.jsonl.1", "touch one.txt")
	i.choosing("rec.jsonl.2", "ipc inbox '{}' >two.txt", dry("https://evil.example/drop")+" >>two.txt")
	finish(t, i.delegates(rec, "--check", "true")).want(t, 0, "merged")
	has(t, i.read("p/two.txt"), `"verdict":"ask"`)
	has(t, i.heard("after"), `"verdict":"ask"`)
	told := i.told("work")
	before, after, found := strings.Cut(told, `"topic":"tool.invoke.send"`) // the first that could be asked about
	if !found || strings.Count(before, `"unvouched":true`) != 1 || strings.Contains(before, "tainted_session") || !strings.Contains(after, `"reason":"tainted_session_ask"`) {
		t.Errorf("a sub-agent that listened to nobody taints, or one that did does not:\n%s", told)
	}
}

// M-56, K-12: a sub-agent whose grant is taken back calls nothing any more.
func TestASubAgentLosesWhatIsTakenBack(t *testing.T) {
	t.Parallel()
	i := desk(t, deskTools+allowChildren)
	rec := i.choosing("rec.jsonl", askChild(1, `{"task":"one","tools":["say"]}`), awaitChild(1))
	i.choosing("rec.jsonl.1", `mkdir -p said/x; ipc say '{"text":"before"}' >said/x/ready; until ls said/x | grep -qx go; do sleep 0.02; done`, `ipc say '{"text":"after"}' >after.txt 2>&1; true`)
	r := i.delegates(rec, "--check", "true")
	var one string
	eventually(t, "the sub-agent at work", func() bool {
		one = i.kins("ps")["one"].ID
		return one != "" && isThere(filepath.Join(i.workspace(one), "said/x/ready"))
	})
	i.nacre("grants", "revoke", "main/"+one).want(t, 0)
	if err := os.WriteFile(filepath.Join(i.workspace(one), "said/x/go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	finish(t, r).want(t, 0, "merged")
	has(t, i.read("p/after.txt"), "UNAUTHORIZED", "taken back")
	has(t, i.told(one), `"outcome":"rejected","reason":"token_refused"`)
}

// M-56, M-04: what a sub-agent may spend is set aside from its parent's budget, and what it
// spent is its parent's to pay.
func TestASubAgentSpendsItsParentsBudget(t *testing.T) {
	t.Parallel()
	usage := &scriptedmodel.Usage{Input: 300_000, Output: 10}
	ask := func(arguments string) scriptedmodel.Turn {
		return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "start_child", Input: []byte(arguments)}}, Usage: &scriptedmodel.Usage{Input: 10, Output: 10}}
	}
	shell := func(command string, usage *scriptedmodel.Usage) scriptedmodel.Turn {
		return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "shell", Input: []byte(`{"command":"` + command + `"}`)}}, Usage: usage}
	}
	_, url := upstreamOf(t, scriptedmodel.Script{
		Turns: []scriptedmodel.Turn{
			ask(`{"task":"walrus","budget_usd":"9"}`), ask(`{"task":"walrus","budget_usd":"0.70"}`), shell("touch own.txt", &scriptedmodel.Usage{Input: 10, Output: 10}), {Text: "Done."},
		},
		Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{Contains: "walrus"}, Turns: []scriptedmodel.Turn{
			shell("touch a.txt", usage), shell("touch b.txt", usage), shell("touch c.txt", usage), {Text: "Done."},
		}}},
	})
	i := install(t)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", allowChildren+fmt.Sprintf(
		"[model]\nname = \"local-1\"\nbudget_usd = \"2\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\ninput = \"1\"\noutput = \"1\"\n")
	i.nacre("run", "Greet the world", "--brain", "anthropic", "--project", "p", "--session", "work", "--check", "true").want(t, 0, "merged", "budget exhausted", "of $0.70")
	has(t, i.told("work"), "it asks for a budget of $9.00, and you have", `"reserved_micro_usd":700000`, `"micro_usd":900030`)
	rows := i.lineage()
	child := rows[i.kins("sessions", "list")["walrus"].ID]
	if parent := rows["work"]; child.Cost != 900_030 || parent.Cost <= child.Cost || parent.Cost > child.Cost+1000 {
		t.Errorf("the child cost %d, the parent with it %d", child.Cost, parent.Cost)
	}
}
