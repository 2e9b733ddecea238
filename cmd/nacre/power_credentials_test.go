package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// rewritten is what the agents of the test do: they push a branch, rewrite it, push it anew, and
// ask an API whose credential is minted. What came of it is in a file of the project.
const rewritten = `set -e
export GIT_TERMINAL_PROMPT=0
rm -rf /tmp/widget; git clone -q https://forge.example.com/acme/widget.git /tmp/widget; cd /tmp/widget
git config user.name t; git config user.email t@example.invalid
git switch -q -c "agent/$BRANCH" origin/main
echo one >f; git add f; git commit -qm one; git push -q origin HEAD
echo two >f; git commit -qam two; git push -q origin HEAD
echo three >f; git commit -q --amend -am three
set +e
git push -qf origin HEAD 2>/tmp/said && echo forced >/tmp/said
curl -sf https://api.example.com/repos/acme/widget/pulls -d '{"title":"t","head":"h","base":"b"}' >>/tmp/said || echo kept out >>/tmp/said
cat /tmp/said >/workspace/greeting.txt; echo "$BRANCH" >>/workspace/greeting.txt
`

// M-51: forced pushes and new credentials are powers of their own, and locked at first. A push is forced where its own
// commits do not show that it follows, and goes out with the credential of the power alone. A credential of a power is not
// even minted without it. A person gives them to one run by their names. Once they are unlocked, runs have them, one that has
// listened to an outsider has not, and one failure takes them back.
func TestForcedPushesAndNewCredentialsStartLocked(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "git")
	testpeer.Need(t, "curl")
	_, git := bare(t)
	f := &mintingForge{git: git, good: map[string]map[string]string{}}
	provider := httptest.NewServer(http.HandlerFunc(f.mint))
	t.Cleanup(provider.Close)
	host := httptest.NewTLSServer(f)
	t.Cleanup(host.Close)
	i := install(t)
	i.project()
	ca := i.certificateOf(host)
	app := i.write("app.pem", appKey(t))
	credential := func(name, what, permission string) string {
		return appCredential(name, what, permission, app, ca, provider.URL)
	}
	const forge = "host = \"forge.example.com:443\"\nscheme = \"basic\"\nuser = \"x-access-token\"\nrepositories = [\"/acme/widget.git\"]\npush = "
	i.config(fmt.Sprintf("[groups.main]\ntools = [\"memory_*\"]\n[egress]\npropose = false\nallow = [\"forge.example.com:443\", \"api.example.com:443\"]\npin = { \"forge.example.com:443\" = %q, \"api.example.com:443\" = %q }\n", host.Listener.Addr(), host.Listener.Addr()) +
		credential("code", forge+"[\"refs/heads/agent/*\"]", "contents") + credential("rewrite", forge+"[\"+refs/heads/agent/*\"]", "contents") +
		credential("cloud", "power = \"cloud-credentials\"\nhost = \"api.example.com:443\"\npaths = [\"/repos/acme/widget/pulls\"]\nmethods = [\"POST\"]", "pull_requests"))
	i.nacre("memory", "import", i.write("in.jsonl", exported("an outsider's words about branches"))).want(t, 0)
	run := func(branch, before, check string, more ...string) result {
		line, _ := json.Marshal(map[string]any{"tool": "shell", "input": map[string]string{"command": "BRANCH=" + branch + "\n" + before + rewritten}})
		rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+string(line)+"\n")
		return i.nacre(append([]string{"run", "Rewrite the branch " + branch, "--session", branch, "--brain", "replay", "--recording", rec, "--project", "p", "--check", check}, more...)...)
	}
	const apart, both = `grep -q "is forced, or cannot be told" greeting.txt && grep -qx "kept out" greeting.txt`, `grep -qx forced greeting.txt && grep -q number greeting.txt`

	run("one", "", apart).want(t, 0, "locked credentials: rewrite of force-push, cloud of cloud-credentials", "merged")
	if len(f.made) != 1 || len(f.pulls) != 0 {
		t.Errorf("without its power a credential was minted, or used: %q, %q", f.made, f.pulls)
	}
	hasNo(t, i.records("one"), `"credential":"rewrite"`, `"credential":"cloud"`)
	i.nacre("explain", "task", "--project", "p").want(t, 0, "rewrite of force-push", "credential code for forge.example.com:443")
	list := i.nacre("power", "list")
	list.want(t, 0, "force-push", "credential rewrite", "cloud-credentials", "credential cloud", "locked: 0 of 5 verified successes")
	hasNo(t, list.stdout, "1 of 5")
	i.nacre("power", "unlock", "force-push").want(t, 2, "force-push is locked")

	run("two", "", both, "--power", "force-push", "--power", "cloud-credentials").want(t, 0, "merged")
	i.nacre("ledger", "accept", "two.1").want(t, 0)
	if have := i.nacre("power", "list").stdout; strings.Count(have, "1 of 5 verified successes") != 2 {
		t.Errorf("a run that used both, and was accepted, speaks for both: have %s", have)
	}
	i.nacre("run", "x", "--project", "p", "--power", "nothing").want(t, 2, "there is no power")

	i.unlock("force-push", "cloud-credentials")
	i.nacre("explain", "task", "--project", "p", "--json").want(t, 0, `"rewrite"`, `"cloud"`)
	hasNo(t, i.nacre("exec", "-q", "--", "sh", "-c", "curl -sf https://api.example.com/repos/acme/widget/pulls -d '{}'; true").stdout, "number")
	run("three", "", both).want(t, 0, "merged")
	run("four", "ipc memory_search '{\"query\":\"branches\"}' >/dev/null\n", `! grep -q number greeting.txt && ! grep -qx forced greeting.txt`).want(t, 0, "merged")
	run("five", "", "false").want(t, 1, "force-push", "locked again, since a run that used it failed")
	if have := i.nacre("power", "list").stdout; strings.Count(have, "locked: 0 of 5 verified successes") != 3 {
		t.Errorf("a failure takes both back, and package-installation is locked as ever: have %s", have)
	}
	run("six", "", apart).want(t, 0, "merged")
	if f.out() != 0 {
		t.Errorf("%d tokens are good after the runs", f.out())
	}
	i.nacre("audit", "verify").want(t, 0)
}
