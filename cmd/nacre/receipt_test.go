package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// account writes the receipt of some work and returns the file's path.
func (i *installation) account(name string) string {
	path := filepath.Join(i.work, name+".receipt.json")
	i.nacre("receipt", name, "-o", path).want(i.t, 0, path)
	return path
}

// M-59, M-68: a run's receipt links what happened to it, holds for whoever has the public key
// and nothing else, and is a page for a person as well. Python finds the same.
func TestAReceiptAccountsForARun(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[groups.main]\ntools = [\"memory_*\"]\n")
	i.project()
	rec := i.recording("echo changed > greeting.txt; curl -s 'http://nope.example/<b>'; echo '<script>alert(1)</script>'",
		`ipc memory_store '{"type":"fact","content":"the walrus is written"}' >/dev/null`)
	i.nacre("run", "change it", "--recording", rec, "--project", "p", "--session", "work", "--check", "true", "--held", "take").want(t, 0)
	path := i.account("work")
	key := i.publicKey()
	stranger := install(t) // who has no installation of theirs
	stranger.nacre("receipt", "verify", path, "--public-key", key).want(t, 0, "run work.1: landed · it holds", "Policy", "sha256:",
		"connect to nope.example:80/http", "nope.example:80: denied", "check ", "passed", "weak", "main: landed", "Remembered", "memory_store: written", "work.1#")
	i.nacre("receipt", "verify", path).want(t, 0, "it holds")
	i.nacre("receipt", "work", "-o", path).want(t, 2, "file exists")
	i.nacre("receipt", "nobody").want(t, 1, "nacre sessions list and nacre ledger list show those there are")
	stranger.nacre("receipt", "verify", path).want(t, 1, "another key")

	// what the run's own end signed is believed while it is as it was signed
	own := i.state("receipts", "work.receipt")
	signed, err := os.ReadFile(own)
	if err != nil || !bytes.Contains(signed, []byte(`"brain":"replay 1"`)) {
		t.Fatalf("%v: %s", err, signed)
	}
	if err := os.WriteFile(own, bytes.Replace(signed, []byte("replay 1"), []byte("forged 1"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if have := i.nacre("receipt", "work", "-o", "-"); have.code != 0 || strings.Contains(have.stdout, "forged") {
		t.Errorf("what was changed is signed again: %d", have.code)
	}

	page := filepath.Join(i.work, "page.html")
	i.nacre("receipt", "work", "--html", "-o", page).want(t, 0)
	text := i.read("page.html")
	for _, want := range []string{"Receipt of work.1: landed", `href="#r-work.1-1"`, `id="r-work.1-1"`, "1 allowed · 1 denied · 1 asked", "default-src &#39;none&#39;"} {
		if !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(text, "<script") || strings.Contains(text, "<b>") {
		t.Error("the page has what an agent wrote as markup")
	}
	var value any
	data := []byte(i.read(filepath.Base(path)))
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	if err := i.receiptSchema().Validate(value); err != nil {
		t.Error(err)
	}
	python := testpeer.Need(t, "python3")
	if out, err := exec.Command(python, "-B", "../../audit/verify_audit.py", "--receipt-file", path, "--public-key", key).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func (i *installation) receiptSchema() *jsonschema.Schema {
	i.t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(i.nacre("receipt", "schema").stdout))
	if err != nil {
		i.t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("receipt.json", parsed); err != nil {
		i.t.Fatal(err)
	}
	schema, err := c.Compile("receipt.json")
	if err != nil {
		i.t.Fatal(err)
	}
	return schema
}

func (i *installation) publicKey() string { return i.state("keys", "audit.pub") }

// altered are a receipt's copies of which one link each says something else, by the kind of that link.
func altered(t *testing.T, receipt string) map[string]string {
	t.Helper()
	var whole struct {
		Chains  json.RawMessage             `json:"chains"`
		Links   map[string][]map[string]any `json:"links"`
		Receipt json.RawMessage             `json:"receipt"`
		V       int                         `json:"v"`
	}
	check(t, json.Unmarshal([]byte(receipt), &whole))
	written := func() string {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		check(t, encoder.Encode(whole))
		return b.String()
	}
	if have := written(); strings.TrimSpace(have) != strings.TrimSpace(receipt) {
		t.Fatalf("a receipt is not as it was once it is written again:\n%.2000s\n%.2000s", have, receipt)
	}
	all := map[string]string{}
	for kind, list := range whole.Links {
		if len(list) == 0 {
			t.Errorf("the receipt has no link of the kind %s", kind)
			continue
		}
		was := list[0]["what"]
		list[0]["what"] = "another"
		all[kind] = written()
		list[0]["what"] = was
	}
	return all
}

// M-59, M-68: each link that is broken is found, by nacre and by Python: what is signed, and what
// the records say, of links of each kind.
func TestABrokenReceiptIsFound(t *testing.T) {
	t.Parallel()
	host := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(host.Close)
	i, _ := thinks(t, "", scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		works(t, `echo changed > greeting.txt; curl -s http://nope.example/; curl -s https://hub.example.com/; ipc memory_store '{"type":"fact","content":"the walrus is written"}'`), {Text: "Done."},
	}})
	i.config(i.configured() + fmt.Sprintf("[groups.main]\ntools = [\"memory_*\"]\n[egress]\nallow = [\"hub.example.com:443\"]\npin = { \"hub.example.com:443\" = %q }\n[[credential]]\nname = \"hub\"\nhost = \"hub.example.com:443\"\npaths = [\"/\"]\ngroups = [\"main\"]\nstanding_secret = true\nvalue_file = %q\nca_file = %q\n",
		host.Listener.Addr(), i.write("value", keptValue), i.certificateOf(host)))
	i.project()
	i.nacre("run", "change it", "--project", "p", "--session", "work", "--check", "true", "--held", "take").want(t, 0)
	good := []byte(i.read(filepath.Base(i.account("work"))))
	python := testpeer.Need(t, "python3")
	broken := filepath.Join(i.work, "broken.json")
	refused := func(name string, bad []byte) {
		i.write("broken.json", string(bad))
		if have := i.nacre("receipt", "verify", broken); have.code != 1 || !strings.Contains(have.stderr, "does not hold") {
			t.Errorf("%s: nacre says %d: %s", name, have.code, have.stderr)
		}
		out, err := exec.Command(python, "-B", "../../audit/verify_audit.py", "--receipt-file", broken, "--public-key", i.publicKey()).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("REFUSED")) {
			t.Errorf("%s: Python says %v: %s", name, err, out)
		}
	}
	for kind, bad := range altered(t, string(good)) {
		refused("a link of "+kind, []byte(bad))
	}
	for name, change := range map[string][2]string{
		"the policy":                  {`"policy_digest":"sha256:`, `"policy_digest":"sha256:0`},
		"a refusal":                   {`"outcome":"denied","records":["work.1#`, `"outcome":"allowed","records":["work.1#`},
		"what was denied":             {`"denied":1`, `"denied":0`},
		"bytes":                       {`"bytes_out":`, `"bytes_out":1`},
		"the price":                   {`"micro_usd":0`, `"micro_usd":7`},
		"a verdict":                   {`"passed":true`, `"passed":false`},
		"what was verified":           {`"strength":"weak","times":1,"tree":"`, `"strength":"strong","times":1,"tree":"`},
		"the merge":                   {`"merge_commit":"`, `"merge_commit":"0`},
		"the outcome":                 {`"outcome":"landed","policy`, `"outcome":"refused","policy`},
		"a record":                    {`\"kind\":\"egress\"`, `\"kind\":\"evress\"`},
		"the end of a chain":          {`"state":"closed"`, `"state":"open"`},
		"which records say so":        {`"records":["work.1#1"]`, `"records":["work.1#2"]`},
		"the chains":                  {`"chains":"work.1"`, `"chains":"work.1 work.2"`},
		"an unknown key":              {`"v":1}`, `"v":1,"w":1}`},
		"a form that is no canonical": {`{"chains":`, `{ "chains":`},
		"half of it":                  {string(good[len(good)/2:]), ""},
	} {
		bad := bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(bad, good) {
			t.Errorf("%s: there is no %q to break in %.3000s", name, change[0], good[bytes.Index(good, []byte(`"links"`)):])
			continue
		}
		refused(name, bad)
	}
	if err := os.Remove(broken); err != nil {
		t.Error(err)
	}
}

// M-68: a command and a task have one as well, by the name of a session or of the ledger's row. What
// goes on has none yet, and what was killed says so.
func TestReceiptsOfOtherWork(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.nacre("exec", "--session", "one", "--project", "p", "--", "true").want(t, 0)
	i.nacre("exec", "--session", "one", "--project", "p", "--", "sh", "-c", "exit 3").want(t, 3)
	i.nacre("receipt", "verify", i.account("one")).want(t, 0, "exec one.2: exit 3 · it holds")
	i.nacre("receipt", "verify", i.account("one.1")).want(t, 0, "exec one.1: exit 0 · it holds")

	// what is not as it was signed is not signed again
	chain := i.state("audit", "one.2", "000001.jsonl")
	records, err := os.ReadFile(chain)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chain, bytes.Replace(records, []byte(`"exit 3"`), []byte(`"exit 0"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	i.nacre("receipt", "one", "-o", filepath.Join(i.work, "forged.json")).want(t, 1, "does not hold")
	if _, err := os.Stat(filepath.Join(i.work, "forged.json")); err == nil {
		t.Error("a receipt of changed records was written")
	}

	r := i.begin("exec", "--session", "live", "--project", "p", "--", "sh", "-c", "until test -e go; do sleep 0.05; done")
	eventually(t, "the command", func() bool { return strings.Contains(i.records("live"), `"kind":"sandbox.start"`) })
	i.nacre("receipt", "live").want(t, 1, "it is not over yet")
	i.write("p/go", "")
	finish(t, r).want(t, 0)
	i.nacre("receipt", "verify", i.account("live")).want(t, 0, "it holds")
}

// M-68: a task's receipt has the name of its agent, and holds what each of its checks found.
func TestATaskHasAReceipt(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	rec := i.recording("echo fixed > pkg/x/x.txt")
	i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--check", "grep -q fixed pkg/x/x.txt").want(t, 0, "merged")
	i.nacre("receipt", "verify", i.account("agent-0")).want(t, 0, ": landed · it holds", "policy::no-git-ops", "Landed")
}

// M-68: a visit has one as well, with what it answered and what the model was asked for.
func TestAVisitHasAReceipt(t *testing.T) {
	t.Parallel()
	i, _ := thinks(t, chatRoute, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{Tools: []scriptedmodel.Tool{{Name: "shell", Input: []byte(`{"command":"ipc tool.invoke.send_local '{\"recipient\":\"ada\",\"body\":\"hello, too\"}'"}`)}}}, {Text: "Done."},
	}})
	i.serve()
	i.nacre("chat", "--as", "ada", "--once", "hello").want(t, 0, "hello, too")
	var rows []struct{ ID, Role, Status string }
	eventually(t, "the visit's end", func() bool {
		r := i.nacre("ledger", "list", "--json")
		return json.Unmarshal([]byte(r.stdout), &rows) == nil && len(rows) == 1 && rows[0].Status == "done"
	})
	path := i.account(rows[0].ID)
	stranger := install(t)
	stranger.nacre("receipt", "verify", path, "--public-key", i.publicKey()).want(t, 0, rows[0].Role+" "+rows[0].ID, "it holds", "send_local", "local-1")
	python := testpeer.Need(t, "python3")
	if out, err := exec.Command(python, "-B", "../../audit/verify_audit.py", "--receipt-file", path, "--public-key", i.publicKey()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
