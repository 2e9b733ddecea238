package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-51: a power is locked at first. What runs that used it came to is its evidence, with the
// audit records; it is unlocked by nobody before there is enough. Unlocked, runs have it, those that
// have listened to an outsider and sessions of other kinds have not; one failure takes it back.
func TestAPowerGrowsFromEvidenceAndIsLostAtOnce(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "written") }))
	t.Cleanup(server.Close)
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", wholeRole)
	i.project()
	i.config(fmt.Sprintf("[egress]\npropose = false\n[egress.pin]\n\"dns.example.com:443\" = %q\n[groups.main]\ntools = [\"memory_*\"]\n", server.Listener.Addr()))
	i.write("home/.config/nacre/powers.toml", "[[power]]\nname = \"dns-write\"\nhosts = [\"dns.example.com\"]\n")
	i.nacre("memory", "import", i.write("in.jsonl", exported("an outsider's words about zones"))).want(t, 0)
	const ask = `curl -sk https://dns.example.com/ >>greeting.txt; echo run >>greeting.txt`
	run := func(words, command string, more ...string) result {
		line, _ := json.Marshal(map[string]any{"tool": "shell", "input": map[string]string{"command": command}})
		rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+string(line)+"\n")
		return i.nacre(append([]string{"run", words, "--role", "fixer", "--brain", "replay", "--recording", rec, "--project", "p"}, more...)...)
	}
	latest := func() string {
		var rows []struct{ ID string }
		if err := json.Unmarshal([]byte(i.nacre("ledger", "list", "--json", "--limit", "1").stdout), &rows); err != nil || len(rows) != 1 {
			t.Fatalf("have %v, %v", rows, err)
		}
		return rows[0].ID
	}

	locked := run("Add a zone", ask, "--check", "grep -q written greeting.txt")
	locked.want(t, 1, "not merged") // it could not reach the host, so it used no power and lost none
	i.nacre("power", "list").want(t, 0, "dns-write", "locked: 0 of 5 verified successes, 0 of 3 different tasks, 0 of 7 days")
	run("Add a zone", ask, "--egress", "dns.example.com:443", "--check", "grep -q written greeting.txt").want(t, 0, "merged")
	i.nacre("power", "list").want(t, 0, "0 of 5 verified successes") // a weak check is no proof
	i.nacre("ledger", "accept", latest()).want(t, 0)
	i.nacre("power", "list").want(t, 0, "1 of 5 verified successes, 1 of 3 different tasks")
	i.nacre("power", "show", "dns-write").want(t, 0, "decision-", "record ")
	i.nacre("power", "unlock", "dns-write").want(t, 2, "dns-write is locked", "1 of 5 verified successes")

	i.unlock("dns-write")
	i.nacre("power", "list").want(t, 0, "unlocked until")
	hasNo(t, i.nacre("exec", "-q", "--", "sh", "-c", "curl -sk https://dns.example.com/; true").stdout, "written")
	run("Add another zone", ask, "--check", "tail -n 2 greeting.txt | grep -q written").want(t, 0, "dns.example.com:443", "merged")
	run("Add a third zone", `ipc memory_search '{"query":"zones"}' >/dev/null; `+ask, "--check", "tail -n 2 greeting.txt | grep -q written").want(t, 1, "not merged")
	i.nacre("power", "list").want(t, 0, "unlocked until") // it was withheld, so nothing was used
	failing := run("Add a fourth zone", ask, "--check", "false")
	failing.want(t, 1, "dns-write is locked again, since a run that used it failed")
	i.nacre("power", "list").want(t, 0, "locked: 0 of 5 verified successes")
	hasNo(t, i.read("home/.config/nacre/learned.toml"), "dns-write")
	run("Add a fifth zone", ask, "--check", "tail -n 2 greeting.txt | grep -q written").want(t, 1, "not merged")
	run("Add a sixth zone", ask, "--egress", "dns.example.com:443", "--check", "true").want(t, 0, "merged")
	i.nacre("ledger", "accept", latest()).want(t, 0)
	i.nacre("power", "list").want(t, 0, "1 of 5 verified successes")
	statement(t, filepath.Join(i.work, "home/.local/state/nacre", ledger.FileName), `DROP TRIGGER evidence_same; UPDATE evidence SET at = '2020-01-01T00:00:00.000Z' WHERE what = 'held'`)
	i.nacre("power", "list").want(t, 0, "0 of 5 verified successes")
	i.nacre("power", "show", "dns-write").want(t, 0, "left out: ")
	i.nacre("audit", "verify").want(t, 0)
}

// unlock does what nacre power unlock does once there is enough evidence, for which a test
// would have to wait a week.
func (i *installation) unlock(powers ...string) {
	i.t.Helper()
	now := time.Now()
	l, err := ledger.Open(i.t.Context(), filepath.Join(i.work, "home/.local/state/nacre", ledger.FileName), time.Now)
	if err != nil {
		i.t.Fatal(err)
	}
	var learned strings.Builder
	for _, power := range powers {
		fmt.Fprintf(&learned, "[[learned]]\nid = \"power-%s\"\nby = \"ada\"\nat = %s\nuntil = %s\nsessions = []\nevidence = \"00\"\npower = %q\n[[learned.host]]\nhost = \"dns.example.com:443\"\n",
			power, now.UTC().Format(time.RFC3339), now.Add(time.Hour).UTC().Format(time.RFC3339), power)
		if err := ledger.Grant(i.t.Context(), l, power, now.Add(time.Hour), "ada", ledger.Anchor{Chain: "power-x", Seq: 1, Hash: strings.Repeat("ab", 32)}); err != nil {
			i.t.Fatal(err)
		}
	}
	i.write("home/.config/nacre/learned.toml", learned.String())
	if err := l.Close(); err != nil {
		i.t.Fatal(err)
	}
}

// M-51, bad input: a file of powers that cannot be taken whole is refused before a run begins.
func TestPowersThatCannotBe(t *testing.T) {
	t.Parallel()
	i := install(t)
	for text, want := range map[string]string{
		"[[power]]\nname = \"x\"\n":                                       "name its hosts",
		"[[power]]\nname = \"X Y\"\nhosts = [\"a.example.com\"]\n":        "a name is of small letters",
		"[[power]]\nname = \"x\"\nhosts = [\"*.example.com\"]\n":          "powers.toml",
		"[[power]]\nname = \"x\"\nhosts = [\"intranet\"]\n":               "a power is of plain hosts outside",
		"[[power]]\nname = \"x\"\nhosts = [\"a.example.com:80/http\"]\n":  "a power is of plain hosts outside, by TLS",
		"[[power]]\nname = \"x\"\nhosts = [\"bundle:nothing\"]\n":         "nothing",
		"[[power]]\nname = \"x\"\nhosts = [\"a.example.com\"]\nall = 1\n": "unknown key",
		"[[power": "powers.toml",
	} {
		i.write("home/.config/nacre/powers.toml", text)
		i.nacre("power", "list").want(t, 2, want)
	}
}

// M-51, M-54: a run without a role is judged like one that has one. What it took makes the next
// estimate, and what a person accepts of it speaks for a power that it used. Its failure takes that
// power back.
func TestARunWithoutARoleCountsToo(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "written") }))
	t.Cleanup(server.Close)
	command, _ := json.Marshal(map[string]string{"command": "curl -sfk https://dns.example.com/ >>greeting.txt; echo run >>greeting.txt"})
	half := &scriptedmodel.Usage{Input: 300_000}
	_, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{Tools: []scriptedmodel.Tool{{Name: "shell", Input: command}}, Usage: half}, {Text: "Done.", Usage: half},
	}})
	i := install(t)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.config(fmt.Sprintf("[egress]\npropose = false\n[egress.pin]\n\"dns.example.com:443\" = %q\n[model]\nname = \"local-1\"\nbudget_usd = \"4\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n",
		server.Listener.Addr(), url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\ninput = \"1\"\noutput = \"1\"\n")
	i.write("home/.config/nacre/powers.toml", "[[power]]\nname = \"dns-write\"\nhosts = [\"dns.example.com\"]\n")
	run := func(check string, more ...string) result {
		return i.nacre(append([]string{"run", "Add a zone to the name server", "--brain", "anthropic", "--project", "p", "--check", check}, more...)...)
	}
	run("true", "--egress", "dns.example.com:443", "--session", "first").want(t, 0, "merged")
	i.nacre("ledger", "accept", "first.1").want(t, 0)
	i.nacre("power", "list").want(t, 0, "1 of 5 verified successes, 1 of 3 different tasks")
	i.unlock("dns-write")
	run("true").want(t, 0, "1 task like this one cost $0.60", "merged")
	i.nacre("power", "list").want(t, 0, "unlocked until")
	run("false").want(t, 1, "2 tasks like this one cost on average $0.60", "dns-write is locked again, since a run that used it failed")
	i.nacre("power", "list").want(t, 0, "locked: 0 of 5 verified successes")
	run("true").want(t, 0, "this one may cost $0.78", "merged")
	i.nacre("ledger", "list").want(t, 0, "first.1", "merged")
	i.nacre("audit", "verify").want(t, 0)
}
