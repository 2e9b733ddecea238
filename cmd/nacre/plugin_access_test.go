package main_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// reachManifest is the manifest of such a plugin, with more keys.
const reachManifest = `{
  "description": "Try what may be reached, for tests", "version": "1.0.0", %s
  "provides": {"tools": [{
    "name": "%s_do", "description": "Try something", "returns": "trusted", "rate_limit": {"calls": 100, "seconds": 60},
    "arguments_schema": {"type": "object", "required": ["what"], "additionalProperties": false, "properties": {
      "what": {"type": "string"}, "a": {"type": "string"}, "b": {"type": "string"}}}
  }]}
}`

const reachSecret = "Zq8-quiet-harbour-55"

// reaching is an installation with the plugins near and far. near wants what
// more says, and far a credential of the same name.
func reaching(t *testing.T, more, config string) *installation {
	t.Helper()
	i := install(t)
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"near_do\", \"far_do\"]\n[groups.other]\ntools = [\"near_do\"]\n"+config)
	for name, keys := range map[string]string{
		"near": more, "far": `"install": {"credentials": [{"key": "token", "description": "t", "required": true}]},`,
	} {
		i.program("plugins/reach", "home/.local/share/nacre/plugins/"+name+"/handler")
		i.write("home/.local/share/nacre/plugins/"+name+"/manifest.json", fmt.Sprintf(reachManifest, keys, name))
	}
	i.project()
	return i
}

// near is a command of the agent that lets a plugin do something.
func near(plugin, what string, values ...string) string {
	call := map[string]string{"what": what}
	for n, v := range values {
		call[string(rune('a'+n))] = v
	}
	raw, _ := json.Marshal(call)
	return "ipc " + plugin + "_do '" + string(raw) + "'"
}

// recorded wants a record of a session that has all the parts.
func (i *installation) recorded(session string, parts ...string) {
	i.t.Helper()
	for line := range strings.Lines(i.records(session)) {
		missing := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		if !missing {
			return
		}
	}
	i.t.Errorf("no record has %q", parts)
}

// D-21: a credential reaches the plugin it is for, is read anew each time, and
// is in no record, environment or other plugin.
func TestACredentialReachesItsPluginAlone(t *testing.T) {
	t.Parallel()
	i := reaching(t, `"install": {"credentials": [{"key": "token", "description": "t", "required": true}, {"key": "other", "description": "t"}]},`,
		"[access.near.credentials]\ntoken = { value_file = \"%FILE\" }\n")
	secret := i.write("token", reachSecret+"\n")
	config := filepath.Join(i.work, "home/.config/nacre/config.toml")
	text, _ := os.ReadFile(config)
	i.write("home/.config/nacre/config.toml", strings.ReplaceAll(string(text), "%FILE", secret))

	said := i.play("a task", near("near", "secret", "token"), near("near", "env"), near("far", "secret", "token"), near("near", "secret", "other"),
		near("near", "secret", "nothing"), near("near", "list", "/data/.."), near("near", "read", secret),
		near("near", "leak", "token"), near("near", "leak", "token", "error"), near("near", "tell", "token")) // a handler that is careless with it
	sum := sha256.Sum256([]byte(reachSecret))
	has(t, said[0], hex.EncodeToString(sum[:]))
	hasNo(t, said[1], reachSecret, "PROXY") // a plugin without hosts has no way out either
	for n, text := range []string{said[2], said[3], said[4]} {
		if !strings.Contains(text, "error: readCredential") {
			t.Errorf("%d: have %s", n, text)
		}
	}
	hasNo(t, said[5], "state", "near", "far") // the data folder of another plugin does not exist
	has(t, said[6], "no such file")
	has(t, said[7], "it is [REDACTED]")
	has(t, said[8], "HANDLER_ERROR", "it is [REDACTED]")
	has(t, said[9], "PLUGIN_")
	chain := i.records("work")
	has(t, chain, `"topic":"plugin.credential"`, `"key":"token","plugin":"near"`, `"outcome":"denied"`, "plugin.crashed", "[REDACTED]")
	hasNo(t, chain, reachSecret)
	hasNoSecret(t, i.state(), reachSecret)

	i.write("token", "Another-value-77\n")
	sum = sha256.Sum256([]byte("Another-value-77"))
	has(t, i.said(i.plays("again", "a task", near("near", "secret", "token")), "again")[0], hex.EncodeToString(sum[:]))
	i.nacre("audit", "verify").want(t, 0)
}

// D-21: a plugin reaches the hosts that its manifest lists and the operator
// confirmed, through a proxy of its own that the agent does not have.
func TestAPluginReachesConfirmedHostsOnly(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "from the host") }))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	i := reaching(t, `"hosts": ["good.example", "open.example", "localhost", "inside.example:8443"],`, fmt.Sprintf(
		"[access.near]\nhosts = [\"good.example:443\", \"localhost:443\", \"elsewhere.example:443\"]\n[egress.pin]\n\"good.example:443\" = %q\n\"open.example:443\" = %[1]q\n", address))
	said := i.play("a task", near("near", "get", "https://good.example/"), near("near", "get", "https://open.example/"), near("near", "get", "https://localhost/"),
		near("near", "get", "https://elsewhere.example/"), near("near", "get", "https://169.254.169.254/latest"), near("near", "dial", address),
		near("near", "dial", "169.254.169.254:80"), near("far", "get", "https://good.example/"), "curl -sS -m 5 https://good.example/ || true")
	has(t, said[0], "200 from the host")
	has(t, said[1], "error", "not_listed", "[access.near] hosts", "open.example:443")
	hasNo(t, said[1], "--egress") // that is for its agent
	for _, n := range []int{2, 3, 4, 5, 6, 7} {
		has(t, said[n], "error: ")
		hasNo(t, said[n], "from the host", "connected")
	}
	hasNo(t, said[8], "from the host") // what a plugin may reach its agent may not
	for _, parts := range [][]string{
		{`"host":"good.example"`, `"outcome":"allowed"`, `"reason":"listed"`}, {`"host":"good.example"`, `"outcome":"closed"`, `"bytes_received"`},
		{`"host":"open.example"`, `"outcome":"denied"`, `"reason":"not_listed"`}, {`"outcome":"denied"`, `"reason":"ip_literal"`},
	} {
		i.recorded("work", append(parts, `"source":"near"`)...)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// D-26: what a service answers is the request's own group's.
func TestServicesAnswerWithinTheGroup(t *testing.T) {
	t.Parallel()
	i := reaching(t, "", "")
	i.said(i.playsAs("other", "theirs", "a secret task of others", near("near", "env")), "theirs")
	i.said(i.playsAs("main", "before", "a task", near("near", "env"), `ipc near_do '{}'`), "before")
	said := i.play("a task", near("near", "audit", "{}"), near("near", "audit", `{"outcome":"rejected","last_n":1}`), near("near", "audit", `{"until":"2001-01-01T00:00:00Z"}`),
		near("near", "catalog"), near("near", "info"), near("near", "publish", "near.done"), near("near", "sessions"))
	has(t, said[0], `session.open`)
	for _, text := range said {
		hasNo(t, text, "theirs", `\"group\":\"other\"`, i.work)
	}
	has(t, said[6], `"said":"[main/before main/work]"`)
	has(t, said[1], `\"outcome\":\"rejected\"`, `\"session\":\"before\"`)
	has(t, said[2], `"said":"[]"`)
	has(t, said[3], `near_do`, `far_do`)
	has(t, said[4], `\"group\":\"main\"`, `\"healthy\":[`)
	has(t, said[5], `"said":"published"`) // taken, with nobody to hear it (F-68)
	has(t, i.records("work"), `"topic":"plugin.audit"`)
}

// D-21: the project is the run's private clone, where both sides say so, and
// what runs on the host later stays as it is.
func TestAPluginSeesTheProjectWhereBothSidesSaySo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifest, config, read, write string
	}{
		"nobody":                {"", `project = "write"`, "no such file", "error"},
		"the manifest alone":    {`"project": "write",`, ``, "no such file", "error"},
		"both, to read":         {`"project": "write",`, `project = "read"`, "hello", "read-only"},
		"both, to read, asked":  {`"project": "read",`, `project = "write"`, "hello", "read-only"},
		"both, to write it too": {`"project": "write",`, `project = "write"`, "hello", "written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := reaching(t, c.manifest, "[access.near]\n"+c.config+"\n")
			said := i.play("a task", near("near", "read", "/project/greeting.txt"), near("near", "write", "/project/new.txt", "of the plugin"),
				near("near", "write", "/project/.git/config", "x"), "cat new.txt", "mkdir .vscode; echo '{}' >.vscode/tasks.json; "+near("near", "write", "/project/.vscode/tasks.json", "[]")+"; rm -r .vscode")
			has(t, said[0], c.read)
			has(t, said[1], c.write)
			has(t, said[2], "error")
			if c.write == "written" {
				has(t, said[3], "of the plugin")
				if data, err := os.ReadFile(filepath.Join(i.work, "p/new.txt")); err != nil || string(data) != "of the plugin" {
					t.Errorf("what landed: %q %v", data, err)
				}
			}
		})
	}
}

// A link that the agent plants does not lead a writing plugin out of the project.
func TestAPluginIsNotLedOutOfTheProject(t *testing.T) {
	t.Parallel()
	i := reaching(t, `"project": "write",`, "[access.near]\nproject = \"write\"\n")
	outside := i.write("outside/file", "of the host\n")
	said := i.play("a task", "ln -s "+filepath.Dir(outside)+" .vscode; ln -s "+outside+" link", near("near", "read", "/project/link"), near("near", "read", "/project/.vscode/file"), "rm .vscode link")
	for _, text := range said[1:3] {
		hasNo(t, text, "of the host")
	}
}

// D-23, D-29: what a plugin wants and does not get is told where it is looked for.
func TestPluginsTellWhatTheyWant(t *testing.T) {
	t.Parallel()
	i := reaching(t, `"verify": true, "hosts": ["api.example", "*"], "project": "read",
		"install": {"credentials": [{"key": "token", "description": "A token", "required": true, "obtain_url": "https://example.com/tokens", "format_hint": "tok_…"}]},`,
		"[access.typo]\nhosts = [\"x.example:443\"]\n[access.far]\nhosts = [\"x.example:443\"]\n")
	i.write("home/.local/share/nacre/plugins/broken/manifest.json", `{"description": "x"}`)
	var list []struct {
		Name, State, Category string
		Missing               []string
	}
	r := i.nacre("plugin", "list", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	states := map[string]string{}
	for _, p := range list {
		states[p.Name] = p.State + p.Category
	}
	if states["near"] != "wants" || states["broken"] != "failedCONFIG_ERROR" {
		t.Errorf("have %v", states)
	}
	i.nacre("plugin", "list").want(t, 0, "near", "near_do", "failed CONFIG_ERROR")
	i.nacre("plugin", "show", "near").want(t, 0, "api.example is not confirmed", "https://example.com/tokens", `project = "read"`)
	i.nacre("plugin", "show", "nowhere").want(t, 2, "no plugin nowhere")
	i.nacre("doctor", "--no-turns").want(t, 4, "credential token", "https://example.com/tokens", "[access.typo]: there is no plugin", "[access.far] host x.example:443")
	i.nacre("doctor", "--no-turns", "--live").want(t, 4, "AUTH_ERROR")

	setup := i.command(filepath.Join(bin, "nacre"), "plugin", "setup", "near")
	setup.Stdin = strings.NewReader(reachSecret + "\n")
	out, err := setup.CombinedOutput()
	if err != nil || strings.Contains(string(out), reachSecret) {
		t.Fatalf("%v: %s", err, out)
	}
	has(t, string(out), "A token", "required", "tok_…", "config.toml names the files now")
	kept := filepath.Join(i.work, "home/.config/nacre/credentials/near/token")
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("have %v %v", info, err)
	}
	has(t, i.nacre("doctor", "--no-turns", "--live").stdout, "its credentials and its network are in order")
	for value, why := range map[string]string{"short\n": "shorter", "Zq8 with\tcontrol\n": "visible"} {
		setup := i.command(filepath.Join(bin, "nacre"), "plugin", "setup", "near")
		setup.Stdin = strings.NewReader(value)
		if out, err := setup.CombinedOutput(); err == nil || !strings.Contains(string(out), why) {
			t.Errorf("%q: have %s", value, out)
		}
	}
	if data, _ := os.ReadFile(kept); string(data) != reachSecret {
		t.Error("a value that was refused took the place of the good one")
	}
	hasNoSecret(t, i.state(), reachSecret)
}

// D-27: a plugin starts again in a session that is at work, with the same code and with other code,
// whose tools its kernel knows from then on. What does not start, and a tool that another one has
// the name of, changes nothing.
func TestAPluginIsReloadedWhereItRuns(t *testing.T) {
	t.Parallel()
	i := reaching(t, "", "")
	i.config(strings.Replace(fileText(i.work+"/home/.config/nacre/config.toml"), `"near_do", "far_do"`, `"near_*", "far_do"`, 1))
	i.nacre("plugin", "reload", "near").want(t, 0, "nothing runs now")
	r := i.plays("work", "a task", near("near", "env"), "touch ready; "+untilTold("work", "go"),
		near("near", "env"), "ipc list_tools '{}'", strings.Replace(near("near", "env"), "near_do", "near_more", 1))
	eventually(t, "the agent", func() bool { return isThere(filepath.Join(i.workspace("work"), "ready")) })
	i.nacre("plugin", "reload", "near").want(t, 0, "work", "reloaded")
	i.nacre("plugin", "reload", "nowhere").want(t, 2, "no plugin nowhere")
	path := "home/.local/share/nacre/plugins/near/manifest.json"
	manifest := fileText(filepath.Join(i.work, path))
	i.write(path, strings.Replace(manifest, `"near_do"`, `"far_do"`, 1))
	i.nacre("plugin", "reload", "near").want(t, 1, "far_do")
	i.write(path, strings.Replace(manifest, `"near_do"`, `"list_tools"`, 1))
	i.nacre("plugin", "reload", "near").want(t, 1, "list_tools")
	i.write(path, strings.Replace(strings.Replace(manifest, "Try something", "Try something else", 1), `{"tools": [{`,
		`{"tools": [{"name": "near_more", "description": "More", "returns": "trusted", "arguments_schema": {"type": "object", "required": ["what"], "properties": {"what": {"type": "string"}}, "additionalProperties": false}}, {`, 1))
	i.nacre("plugin", "reload", "near").want(t, 0, "work", "reloaded")
	i.tell("work", "go")
	said := i.said(r, "work")
	has(t, said[2], "NACRE_PLUGIN=near")
	has(t, said[3], "Try something else", "near_more")
	has(t, said[4], "PLUGIN_ERROR") // it is the handler that does not know it
	has(t, i.records("work"), `"topic":"plugin.reloaded"`)
	i.nacre("audit", "verify").want(t, 0)
}

// D-27: a plugin that sees the project, or would from now on, goes on with the files
// that the session began with.
func TestAPluginThatSeesTheProjectWaitsForTheNextSession(t *testing.T) {
	t.Parallel()
	i := reaching(t, `"project": "read",`, "[access.near]\nproject = \"read\"\n")
	r := i.plays("work", "a task", "touch ready; "+untilTold("work", "go"), near("near", "env"))
	eventually(t, "the agent", func() bool { return isThere(filepath.Join(i.workspace("work"), "ready")) })
	i.nacre("plugin", "reload", "near").want(t, 0, "work", "reloaded")
	i.write("home/.local/share/nacre/plugins/near/more", "x")
	i.nacre("plugin", "reload", "near").want(t, 1, "goes on with those it began with")
	i.tell("work", "go")
	i.said(r, "work")
}

// D-21: a plugin can be a server elsewhere. The host speaks to it through the
// plugin's own proxy, and to no other.
func TestAPluginThatIsAServerElsewhereIsReachedWhereConfirmed(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "remote_say", Description: "d", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "from afar"}}}, nil
		})
	remote := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var keys sync.Map
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys.Store(r.Header.Get("Authorization"), true)
		r.Host = "localhost" // its own guard takes another name for an attack on this machine
		remote.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	for confirmed, want := range map[string]string{`"example.com:443"`: "from afar", `"other.example:443"`: "UNKNOWN_TOOL"} {
		i := install(t)
		key := i.write("key", reachSecret)
		bundle := i.certificateOf(web)
		i.env = append(i.env, "SSL_CERT_FILE="+bundle)
		i.write("home/.config/nacre/config.toml", fmt.Sprintf("[groups.main]\ntools = [\"remote_say\"]\n[access.remote]\nhosts = [%s]\n[access.remote.credentials]\nkey = { value_file = %q }\n[egress.pin]\n\"example.com:443\" = %q\n",
			confirmed, key, web.Listener.Addr()))
		i.write("home/.local/share/nacre/plugins/remote/manifest.json", `{"description": "d", "version": "1.0.0", "hosts": ["example.com"],
			"mcp": {"url": "https://example.com/mcp", "credential": "key"}, "install": {"credentials": [{"key": "key", "description": "k", "required": true}]},
			"provides": {"tools": [{"name": "remote_say", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false, "properties": {}}}]}}`)
		i.project()
		has(t, i.play("a task", "ipc remote_say '{}'")[0], want)
		if want == "from afar" {
			i.recorded("work", `"source":"remote"`, `"host":"example.com"`, `"outcome":"allowed"`)
		} else {
			i.recorded("work", `"source":"remote"`, `"reason":"not_listed"`)
		}
		hasNoSecret(t, i.state(), reachSecret)
	}
	if _, given := keys.Load("Bearer " + reachSecret); !given {
		t.Error("the server was not given the credential")
	}
}

// D-21, S-04: where a role keeps parts of the project from the agent, a plugin sees
// none of it: through the plugin the agent would.
func TestAPluginSeesNothingOfAProjectThatARoleConfines(t *testing.T) {
	t.Parallel()
	i := reaching(t, `"project": "read",`, "[access.near]\nproject = \"read\"\n")
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "of the project\n")
	i.project()
	command := near("near", "read", "/project/greeting.txt") + " >pkg/x/said 2>&1; " + near("far", "count") + " >>pkg/x/said 2>&1; true"
	line, err := json.Marshal(map[string]any{"tool": "shell", "input": map[string]any{"command": command}})
	if err != nil {
		t.Fatal(err)
	}
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+string(line)+"\n")
	i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", "work", "--check", "true").want(t, 0, "merged")
	said := fileText(filepath.Join(i.work, "p/pkg/x/said"))
	has(t, said, "PLUGIN_UNAVAILABLE", `"said":"1"`)
	hasNo(t, said, "hello")
	i.recorded("work", "near.near_do", "PLUGIN_UNAVAILABLE")
}
