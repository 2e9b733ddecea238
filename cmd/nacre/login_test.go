package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// onLogin is a vendor on which nobody works without a login, and a config that uses it. The tokens of the login
// are access-secret and refresh-secret, and the first one is revoked.
func onLogin(t *testing.T, i *installation, turns ...scriptedmodel.Turn) (*scriptedmodel.Server, string) {
	t.Helper()
	server, url := upstreamOf(t, scriptedmodel.Script{
		Turns:  turns,
		Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{Contains: "title|summar", NoTools: true}, Turns: []scriptedmodel.Turn{{Text: "A title"}}}},
		Login:  &scriptedmodel.Login{Access: "access-secret", Refresh: "refresh-secret", Account: "acct-a"},
	})
	for _, vendor := range []string{"claude", "codex"} {
		kept := i.write("home/.local/state/nacre/logins/"+vendor+".json", fmt.Sprintf(
			`{"access_token":"access-secret-0","refresh_token":"refresh-secret-0","account":"acct-a","expires":%q}`, time.Now().Add(time.Hour).Format(time.RFC3339)))
		check(t, os.Chmod(kept, 0o600))
	}
	return server, fmt.Sprintf("[model]\nlogin_url = %q\n", url)
}

// askModel is a script inside that asks the model, and looks for the login wherever it could be.
const askModel = `curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_API_KEY" -H "anthropic-version: 2023-06-01" -H "content-type: application/json" -d '{"model":"claude-sonnet-5-5","max_tokens":20,"messages":[{"role":"user","content":"hello"}]}'
found=$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c -e 'access-secre[t]' -e 'refresh-secre[t]')
found=$found,$(grep -rl -e 'access-secre[t]' -e 'refresh-secre[t]' /workspace "$HOME" /etc /run /tmp /var 2>/dev/null | wc -l)
python3 - <<'END'
import glob, re
hits, read = 0, 0
for maps in glob.glob("/proc/[0-9]*/maps"):
    try:
        memory = open(maps[:-4] + "mem", "rb", 0)
        for line in open(maps):
            a, b = (int(x, 16) for x in line.split()[0].split("-"))
            if "r" in line.split()[1] and b - a < 64 << 20 and "[v" not in line:
                try:
                    memory.seek(a)
                    data = memory.read(b - a)
                    read += 1
                    hits += len(re.findall(b"(access|refresh)-secret-" + b"[0-9]", data))
                except OSError:
                    pass
    except OSError:
        pass
print("memory", hits, read > 0)
END
echo "found $found"
`

// U-02, F-112: a person's subscription login answers the calls of a session, and a token that was
// revoked is replaced on the host. Neither the login nor the token is inside: in no file, environment,
// argument or memory.
func TestASubscriptionLoginStaysOutside(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	program := i.write("tools/mine", "#!/bin/sh\n"+askModel)
	check(t, os.Chmod(program, 0o755))
	i.nacre("login").want(t, 0, "claude  no login: nacre login claude")
	vendor, login := onLogin(t, i, scriptedmodel.Turn{Text: "Signed in."})
	check(t, os.Remove(filepath.Join(i.work, "home/.local/state/nacre/logins/codex.json")))
	settings := fmt.Sprintf("[agents.mine]\ncommand = [%q]\n", program) + login
	i.write("home/.config/nacre/config.toml", settings)
	i.nacre("login").want(t, 0, "not used", `login = "subscription"`)
	i.nacre("doctor").want(t, 0, "claude: it is kept and not used until", "the vendor's terms say whether", "without a login an API key works: export ANTHROPIC_API_KEY")
	i.nacre("agent", "--project", "p", "mine").want(t, 125, "has no key")
	i.write("home/.config/nacre/config.toml", settings+"login = \"subscription\"\n")
	have := i.nacre("agent", "--project", "p", "--session", "work", "mine")
	have.want(t, 0, "Signed in.", "found 0,0", "memory 0 True")
	if strings.Contains(have.stdout+have.stderr, "-secret-") || vendor.Refreshes() != 1 {
		t.Errorf("the token is inside, or was refreshed %d times\n%s", vendor.Refreshes(), have.stdout)
	}
	audit := i.nacre("audit", "show", "work", "--json")
	if strings.Contains(audit.stdout, "-secret-") {
		t.Errorf("the record holds the token:\n%s", audit.stdout)
	}
	vendor.Revoke()
	i.nacre("agent", "--project", "p", "mine").want(t, 0, "run nacre login claude again", "invalid_grant")
	i.nacre("login").want(t, 0, "the vendor refused to refresh it")
	i.nacre("doctor").want(t, 0, "claude: the vendor refused to refresh it", "codex: none is kept", "export OPENAI_API_KEY")
	i.nacre("logout", "claude").want(t, 0, "gone from this machine")
	i.nacre("logout", "claude").want(t, 2, "there is no login of claude")
	i.nacre("login", "gemini").want(t, 2, "the logins are claude and codex")
	i.write("home/.config/nacre/config.toml", "[model]\nlogin = \"subscription\"\nbase_url = \"https://relay.example\"\n")
	i.nacre("login").want(t, 2, "sent to its vendor only")
	i.write("home/.config/nacre/config.toml", "[model]\nlogin_url = \"http://relay.example\"\n")
	i.nacre("login").want(t, 2, "this machine only")
}

// U-02: sessions of eight processes that work at once on a login whose token was revoked refresh it once, and
// all of them go on.
func TestEightSessionsRefreshALoginOnce(t *testing.T) {
	t.Parallel()
	i := install(t)
	program := i.write("tools/mine", `#!/bin/sh
touch here; until [ -e go ]; do sleep 0.1; done
curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_API_KEY" -H "anthropic-version: 2023-06-01" -H "content-type: application/json" -d '{"model":"claude-sonnet-5-5","max_tokens":20,"messages":[{"role":"user","content":"hello"}]}'
`)
	check(t, os.Chmod(program, 0o755))
	vendor, login := onLogin(t, i, scriptedmodel.Turn{Text: "Signed in."})
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[agents.mine]\ncommand = [%q]\n", program)+login+"login = \"subscription\"\n")
	var sessions []*running
	for n := range 8 {
		project := fmt.Sprintf("p%d", n)
		check(t, os.Mkdir(filepath.Join(i.work, project), 0o755))
		sessions = append(sessions, i.begin("agent", "--project", project, "mine"))
	}
	for n := range sessions {
		eventually(t, "a session", func() bool { return isThere(filepath.Join(i.work, fmt.Sprintf("p%d/here", n))) })
	}
	for n := range sessions {
		i.write(fmt.Sprintf("p%d/go", n), "")
	}
	for _, session := range sessions {
		finish(t, session).want(t, 0, "Signed in.")
	}
	if vendor.Refreshes() != 1 {
		t.Errorf("the login was refreshed %d times", vendor.Refreshes())
	}
}

// U-02: a login that is half-written, that has ended, or that its vendor refreshes with another
// account's is not used. Whoever asks for a model, and whoever asks for the logins, is told what to do.
func TestALoginThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const another = "e30.eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjdC1iIn19.c2ln" // of acct-b
	var mu sync.Mutex
	var answered []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/oauth/token") {
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"refresh-secret-2","expires_in":3600}`, another)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		answered = append(answered, fmt.Sprint(r.URL, r.Header))
	}))
	t.Cleanup(server.Close)
	i := install(t)
	i.project()
	program := i.write("tools/mine", `#!/bin/sh
curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_API_KEY" -H "anthropic-version: 2023-06-01" -H "content-type: application/json" -d '{"model":"claude-sonnet-5-5","max_tokens":20,"messages":[{"role":"user","content":"hello"}]}'
curl -sS "$OPENAI_BASE_URL/responses" -H "authorization: Bearer $OPENAI_API_KEY" -H "content-type: application/json" -d '{"model":"gpt-5.1","input":"hello"}'
`)
	check(t, os.Chmod(program, 0o755))
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[agents.mine]\ncommand = [%q]\n[model]\nlogin = \"subscription\"\nlogin_url = %q\n", program, server.URL))
	for _, c := range []struct{ claude, codex, ofClaude, ofCodex string }{
		{`{"access_token":"access-secret-1","refr`, `{"access_token":"access-secret-1","refresh_token":"refresh-secret-1","account":"acct-a","expires":"2020-01-01T00:00:00Z"}`,
			"the login of claude is damaged: run nacre login claude again", "the vendor refreshed it with a login of another account: run nacre login codex again"},
		{`{"access_token":"access-secret-1","expires":"2020-01-01T00:00:00Z"}`, `{"access_token":"acc`,
			"has ended", "the login of codex is damaged: run nacre login codex again"},
	} {
		for vendor, text := range map[string]string{"claude": c.claude, "codex": c.codex} {
			check(t, os.Chmod(i.write("home/.local/state/nacre/logins/"+vendor+".json", text), 0o600))
		}
		for range 2 { // and it stays so
			i.nacre("agent", "--project", "p", "mine").want(t, 0, c.ofClaude, c.ofCodex)
		}
		i.nacre("login").want(t, 0, c.ofClaude, c.ofCodex)
	}
	if len(answered) > 0 {
		t.Errorf("a model was asked: %q", answered)
	}
}

// U-02: where neither a key nor a login is there, whoever opens an agent, runs a task or asks doctor is
// told of both. They are told, too, what a login that is kept still needs.
func TestAMissingLoginIsNamed(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git") // a native program that says which version it is
	check(t, err)
	i := install(t)
	i.project()
	i.env = append(i.env, "NACRE_CLAUDE="+git, "NACRE_CODEX="+git)
	const claude, codex = "export ANTHROPIC_API_KEY=…", "export OPENAI_API_KEY=…"
	everywhere := func(ofClaude, ofCodex string) {
		t.Helper()
		i.nacre("claude", "--project", "p").want(t, 125, claude, ofClaude)
		i.nacre("codex", "--project", "p").want(t, 125, codex, ofCodex)
		for brain, want := range map[string][]string{"claude": {claude, ofClaude}, "anthropic": {claude, ofClaude}, "codex": {codex, ofCodex}} {
			i.nacre("run", "--project", "p", "--brain", brain, "x").want(t, 3, want...)
		}
		if have := i.nacre("doctor"); !strings.Contains(have.stdout, ofClaude) || !strings.Contains(have.stdout, ofCodex) {
			t.Errorf("doctor does not say %q and %q:\n%s", ofClaude, ofCodex, have.stdout)
		}
	}
	everywhere("nacre login claude signs in with your subscription", "nacre login codex signs in with your subscription")
	for _, vendor := range []string{"claude", "codex"} {
		check(t, os.Chmod(i.write("home/.local/state/nacre/logins/"+vendor+".json", `{"access_token":"access-secret-1"}`), 0o600))
	}
	everywhere(`a login of claude is kept: write login = "subscription" under [model]`, `a login of codex is kept: write login = "subscription" under [model]`)
	check(t, os.RemoveAll(i.work+"/home/.local/state/nacre/logins"))
	i.write("home/.config/nacre/config.toml", "[model]\nlogin = \"subscription\"\n")
	everywhere("nacre login claude signs in; or", "nacre login codex signs in; or")
	i.write("home/.config/nacre/config.toml", "[model]\nkey_file = \"/nowhere/key\"\n")
	i.nacre("run", "--project", "p", "--brain", "claude", "x").want(t, 3, "write the key to /nowhere/key", "nacre login claude")
	i.write("home/.config/nacre/config.toml", "[model]\nbase_url = \"https://relay.example\"\n")
	have := i.nacre("claude", "--project", "p")
	have.want(t, 125, claude)
	if strings.Contains(have.stderr, "nacre login") { // a login is sent to its vendor only
		t.Errorf("a login is offered for another place:\n%s", have.stderr)
	}
}
