package main_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/dna"
	"github.com/nacre-dev/nacre/internal/ledger"
	"github.com/nacre-dev/nacre/internal/roster"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// inEachChat is an installation that has a channel of each service at once, and whose operator ada, who may
// decide everything, is reached at each. The pins are for its [egress.pin].
func inEachChat(t *testing.T) (i *installation, fakes map[string]chatFake, config, pins string) {
	t.Helper()
	i, _ = thinks(t, "", scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Text: "Done."}}})
	fakes, pinned := map[string]chatFake{}, regexp.MustCompile(`(?m)^\[egress\.pin\]\n|^"[a-z.]+:\d+" = "[0-9.:]+"\n`)
	ada := []string{fmt.Sprintf("%q", fmt.Sprintf("terminal:%d", os.Geteuid()))}
	for name, service := range chatServices() {
		fakes[name] = service.fake()
		server := httptest.NewServer(fakes[name])
		t.Cleanup(server.Close)
		text := strings.ReplaceAll(service.config(i, server.Listener.Addr().String()), "api.example.com", name+".example.com")
		for _, line := range pinned.FindAllString(text, -1) {
			pins += strings.TrimPrefix(line, "[egress.pin]\n")
		}
		config += fmt.Sprintf("[[route]]\nchannel = %q\nsender = %q\ngroup = \"main\"\noperator = true\n", name, service.senderOf(name, service.users.ada)) + pinned.ReplaceAllString(text, "")
		ada = append(ada, fmt.Sprintf("%q", service.identity(name, service.users.ada)))
	}
	config += "[operators.ada]\nidentities = [" + strings.Join(ada, ", ") + "]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\nask = true\nstop = true\nconfig = true\n" +
		"[operators.bob]\nidentities = [\"terminal:4242\"]\n"
	return i, fakes, config, pins
}

// earns gives a power the evidence of nine days: five verified runs of different tasks, each with its
// record in the audit chain.
func (i *installation) earns(power string) {
	t := i.t
	t.Helper()
	at := time.Now().Add(-9 * 24 * time.Hour).UTC()
	keys, err := audit.LoadKeys(i.state("keys"))
	check(t, err)
	chain, err := audit.Open(t.Context(), audit.Options{Root: i.state("audit"), Chain: "evidence", Keys: keys, Now: func() time.Time { return at }})
	check(t, err)
	l, err := ledger.Open(t.Context(), i.state(ledger.FileName), time.Now)
	check(t, err)
	for n := range byte(5) {
		check(t, chain.Commit(t.Context(), nacre.Record{Time: at, Kind: "task", Source: "core", Outcome: "verified"}))
		head, err := chain.Head(t.Context())
		check(t, err)
		anchor := ledger.Anchor{Chain: head.Chain, Seq: head.Seq, Hash: hex.EncodeToString(head.RecordHash[:])}
		task := atom.Task{Parameters: atom.Parameters{Role: "fixer", AgentID: "agent-1", Whitelist: []string{"a/**"}}, Body: fmt.Sprint("zone ", n, "\n")}
		name := dna.Compose(task, nil, [4]byte{n}).String()
		check(t, errors.Join(
			l.Begin(t.Context(), ledger.Start{ID: "agent-1", Role: "fixer", Task: task.Canonical(), SpecSHA: task.SpecSHA(), DNA: name, Provider: "p", Model: "m", Anchor: anchor, At: at}),
			l.Finish(t.Context(), name, ledger.End{Status: ledger.Done, Outcome: ledger.StrongCheck(true), Uses: ledger.Uses{Powers: []string{power}, Task: task.Body[:6]}, Anchor: anchor, At: at})))
		at = at.Add(2 * 24 * time.Hour)
	}
	check(t, errors.Join(chain.Close(t.Context()), l.Close()))
}

// M-42, M-46: whatever waits for a person waits in one list, each with its kind and with how it is seen
// whole. The list is the same on the command line, on the web page and in each chat. What an agent asks is
// a card in each chat besides, and is asked on the terminal before the person.
func TestEverythingWaitsAtEachFace(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	testpeer.Need(t, "ssh")
	i, fakes, chats, pins := inEachChat(t)
	_, vault, minted := i.minted()
	key, private := sshKey(t)
	host := newSSHHost(t, i.work, key.PublicKey())
	i.write("home/.local/share/nacre/plugins/remote/manifest.json", `{"description": "d", "version": "1.0.0", "hosts": ["notes.example"],
		"mcp": {"url": "https://notes.example/mcp", "credential": "key"}, "install": {"credentials": [{"key": "key", "description": "k", "required": true}]},
		"provides": {"tools": [{"name": "remote_say", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false, "properties": {}}}]}}`)
	general := i.configured() + "[groups.main]\ntools = [\"*_reminder*\", \"memory_*\"]\n" + chats + minted + "budget = { hours = 4, renewals = 3 }\n" +
		"[[credential]]\nname = \"forge\"\nhost = \"forge.example\"\nmethods = [\"GET\"]\npaths = [\"/\"]\nstanding_secret = true\ngroups = [\"main\"]\nvalue_oauth = \"" + filepath.Join(i.work, "forge.oauth") + "\"\n" +
		fmt.Sprintf("[[credential]]\nname = \"key\"\nscheme = \"ssh\"\nhost = \"git.example\"\nuser = \"git\"\nstanding_secret = true\ngroups = [\"main\"]\nhost_keys = [%q]\nvalue_file = %q\n",
			strings.TrimSpace(string(ssh.MarshalAuthorizedKey(host.key.PublicKey()))), i.write("id", private)) +
		"[access.remote]\nhosts = [\"notes.example:443\"]\n[access.remote.credentials]\nkey = { value_oauth = \"" + i.signIn() + "\" }\n" +
		"[egress.pin]\n" + fmt.Sprintf("\"git.example:22\" = %q\n", host.at) + pins + vault + "\n"
	i.config(general + "[egress]\npropose = false\nallow = [\"example.com:443\", \"git.example:22/tcp\"]\n")
	i.write("p/.nacre/roles/fixer.toml", taskRole+"[escalation]\npolicy = \"orchestrator-notify\"\n")
	i.project()
	i.write("lib/a.txt", "")
	i.nacre("run", "greet", "--brain", "replay", "--recording", i.writes(map[string]string{".envrc": "touch owned\n"}), "--project", "p", "--session", "work", "--check", "true").want(t, 1, "it waits for a person")
	i.nacre("exec", "-q", "--", "sh", "-c", `ipc create_reminder '{"title":"pay","list":"Work"}'; ipc memory_store '{"type":"fact","content":"a fact"}'; curl -s https://registry.example.com/; true`).want(t, 0, "R-1")
	i.earns("package-installation")
	i.config(general + "[egress]\nallow = [\"example.com:443\", \"git.example:22/tcp\"]\n[approval]\nhold = \"0s\"\n")
	i.nacre("operators", "pair", "bob").want(t, 0)
	people := roster.Roster{Config: filepath.Join(i.work, "home/.config/nacre"), State: i.state(), Now: time.Now}
	if _, err := people.Ask(t.Context(), "discord:7"); err != nil {
		t.Fatal(err)
	}
	i.serve()
	goesOn, ended := i.terminal("task", "run", i.tasks(1)[0], "--project", "p", "--brain", "replay", "--session", "goes-on",
		"--recording", i.write("push.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":"git push"}}`+"\n"))
	screen, wait := i.terminal("run", "ask a lot", "--project", "p", "--brain", "replay", "--session", "asks", "--check", "true", "--recording",
		i.recording(`ipc request_folder '{"path":"../lib","reason":"its types"}' & curl -s https://packages.example.com/; curl -s https://example.com/v1/x; ipc delete_reminder '{"reminder_id":"R-1"}'`)) // which waits
	login := i.begin("exec", "-q", "--session", "logs-in", "--", "sh", "-c", "ssh git.example true; sleep 600") // which does not wait: the session does
	t.Cleanup(func() { _ = login.Process.Signal(os.Interrupt); _ = login.Wait() })
	until(t, "all questions", func() bool { return len(i.questions()) == 6 })

	asked := map[string]string{
		"tool": "R-1", "egress": "packages.example.com:443", "credential": "vault for 4 h and 3 renewals", "SSH": "git@git.example:22", "run": "nacre.continue",
		"mount": filepath.Join(i.work, "lib"),
	}
	waits := [][2]string{
		{"landing", "nacre sessions diff work"}, {"learn", "nacre learn"}, {"memory", "memories to review: 1"}, {"pairing", "discord:7 wants to be bob"},
		{"credential", "forge needs sign-in"}, {"credential", "remote.key needs sign-in"}, {"graduation", "nacre power show package-installation"},
	}
	for _, q := range i.questions() {
		waits = append(waits, [2]string{"", q.ID})
	}
	for kind, what := range asked {
		if kind != "tool" { // whose arguments are on the card alone
			waits = append(waits, [2]string{kind, what})
		}
	}
	send, _ := i.web()
	faces := map[string]func() string{
		"the command line": func() string { return i.nacre("approvals", "waiting").stdout },
		"the web page":     func() string { return send("", nil) },
	}
	for name, service := range chatServices() {
		fake := fakes[name]
		for kind, what := range asked {
			until(t, "a card of the kind "+kind+" at "+name, func() bool { return strings.Contains(fake.heard(), what) })
		}
		faces[name] = func() string {
			if !strings.Contains(fake.heard(), "memories to review") {
				fake.writes(service.users.ada, "!waiting")
			}
			return fake.heard()
		}
	}
	for face, shows := range faces {
		var lacks [][2]string
		t.Cleanup(func() {
			if len(lacks) > 0 {
				t.Errorf("%s has no %q", face, lacks)
			}
		})
		until(t, "all that waits at "+face, func() bool {
			said := shows()
			lacks = slices.DeleteFunc(slices.Clone(waits), func(w [2]string) bool { return strings.Contains(said, w[1]) && strings.Contains(said, w[0]) })
			return len(lacks) == 0
		})
	}
	screen.denies(4)
	has(t, wait().stdout, "R-1", "packages.example.com:443", "wants a credential", "minted by vault for policies deploy")
	goesOn.denies(1)
	has(t, ended().stdout, "nacre.continue")
	i.nacre("audit", "verify").want(t, 0)
}

// denies types no until so many questions were denied on a terminal that asks one after the other.
func (s *terminal) denies(n int) {
	s.t.Helper()
	typed := time.Time{}
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the terminal shows\n%s", s.text.String())
		}
	}()
	until(s.t, fmt.Sprint(n, " denials"), func() bool {
		s.more()
		denied := strings.Count(s.text.String(), "    denied")
		if denied < n && time.Since(typed) > 500*time.Millisecond {
			s.typeIn("n\r")
			typed = time.Now()
		}
		return denied >= n
	})
}
