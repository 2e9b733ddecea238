package main_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// server is a real MCP server as a plugin, made as its user makes it. It is asked for its tools, put
// into the folder with all that it needs, and changed by edit.
func (i *installation) server(name, variable, argument string, edit func(manifest map[string]any, command []any) []any, flags ...string) {
	i.t.Helper()
	node := testpeer.AtLeast(i.t, "node", "18")
	entry := os.Getenv(variable)
	if entry == "" {
		testpeer.Missing(i.t, variable, variable+" names no MCP server")
	}
	args := append([]string{"plugin", "new", name, "--mcp"}, flags...)
	i.nacre(append(args, "--", node, entry, argument)...).want(i.t, 0, "plugins/"+name, "nacre plugin test")
	dir := filepath.Join(i.work, "home/.local/share/nacre/plugins", name)
	modules, rel, found := strings.Cut(entry, "/node_modules/")
	if !found {
		i.t.Fatalf("%s is in no node_modules", entry)
	}
	copyPlain(i.t, filepath.Join(modules, "node_modules"), filepath.Join(dir, "node_modules"))
	path := filepath.Join(dir, "manifest.json")
	data, err := os.ReadFile(path)
	var manifest map[string]any
	if err := errors.Join(err, json.Unmarshal(data, &manifest)); err != nil {
		i.t.Fatal(err)
	}
	for _, tool := range manifest["provides"].(map[string]any)["tools"].([]any) {
		tool.(map[string]any)["returns"] = "trusted" // what it says here is the test's own
	}
	manifest["mcp"].(map[string]any)["command"] = edit(manifest, []any{node, "node_modules/" + rel})
	if data, err = json.Marshal(manifest); err != nil {
		i.t.Fatal(err)
	}
	i.write("home/.local/share/nacre/plugins/"+name+"/manifest.json", string(data))
	i.nacre("plugin", "validate", dir).want(i.t, 0, "nacre would take it")
}

// copyPlain copies files alone: npm's folder of links to programs stays behind, as
// with npm's --no-bin-links.
func copyPlain(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		target := filepath.Join(to, rel)
		return errors.Join(err, os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, data, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// D-21: npm's server-everything runs in the sandbox. It finds its credential in its
// environment, and nobody else does.
func TestMCPServerEverythingSealed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.server("everything", "NACRE_MCP_EVERYTHING", "stdio", func(_ map[string]any, command []any) []any { return append(command, "stdio") }, "--env", "PEER_TOKEN=token")
	const config = "[groups.main]\ntools = [\"echo\", \"get_sum\", \"get_env\"]\n"
	i.write("home/.config/nacre/config.toml", config)
	i.nacre("setup", "everything").want(t, 3, "token: nobody gave it")
	i.nacre("plugin", "show", "everything").want(t, 0, "credential token in the environment as PEER_TOKEN")
	has(t, i.nacre("plugin", "confirm", "everything").stderr, "PEER_TOKEN=token", "finds this credential in its environment")

	said := i.said(i.plays("without", "a task", `ipc get_session_info '{}'`, `ipc echo '{"message":"hello"}'`), "without")
	has(t, said[0], `AUTH_ERROR`)
	has(t, said[1], "UNKNOWN_TOOL")

	setup := i.command(filepath.Join(bin, "nacre"), "setup", "--stdin")
	setup.Stdin = strings.NewReader("everything.token=" + reachSecret + "\n")
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := i.plays("work", "a task", `ipc echo '{"message":"hello"}'`, `ipc get_sum '{"a":2,"b":3}'`, `ipc get_env '{}'`,
		`(env; cat /proc/*/environ /proc/*/cmdline | tr '\0' '\n') | grep -v DEPLOY_TOKEN`, "touch ready; "+untilTold("work", "go"))
	eventually(t, "the agent", func() bool { return isThere(filepath.Join(i.workspace("work"), "ready")) })
	hold := holders(t, reachSecret)
	i.tell("work", "go")
	said = i.said(r, "work")
	for _, command := range hold {
		if !strings.Contains(command, "server-everything") {
			t.Errorf("%q holds the credential too", command)
		}
	}
	if len(hold) == 0 && os.Geteuid() == 0 { // who may look at every process finds it
		t.Error("nobody holds it: the look is blind")
	}
	has(t, said[0], "Echo: hello")
	has(t, said[1], "5")
	has(t, said[2], "PEER_TOKEN", "[REDACTED]") // it has it, and what it says goes on without
	hasNo(t, said[2], reachSecret, i.work, "ANTHROPIC")
	hasNo(t, said[3], "PEER_TOKEN", reachSecret)
	i.recorded("work", `"topic":"plugin.credential"`, `"key":"token"`, `"outcome":"allowed"`)
	hasNoSecret(t, i.state(), reachSecret)
	i.nacre("audit", "verify").want(t, 0)

	// Its get_env answers with its whole environment, which the check finds, and nothing else is wrong.
	report := i.nacre("plugin", "test", filepath.Join(i.work, "home/.local/share/nacre/plugins/everything"))
	report.want(t, 1, "a credential is in what it answered", " 1 failed")
}

// holders are the commands of this machine's processes that have a secret in their
// arguments or their environment.
func holders(t *testing.T, secret string) []string {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range folders {
		command := strings.ReplaceAll(fileText(dir+"/cmdline"), "\x00", " ")
		if strings.Contains(command, secret) || strings.Contains(fileText(dir+"/environ"), secret) {
			found = append(found, command)
		}
	}
	return found
}

// D-21: npm's server-filesystem, told that all of the disk is its own, sees the
// project where both sides say so, and nothing else of the host.
func TestMCPServerFilesystemSealed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	outside := i.write("outside/secret.txt", "of the host\n")
	i.server("disk", "NACRE_MCP_FILESYSTEM", i.work, func(manifest map[string]any, command []any) []any {
		manifest["project"] = "write"
		return append(command, "/")
	})
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"read_text_file\", \"write_file\", \"list_directory\"]\n[access.disk]\nproject = \"write\"\n")
	said := i.play("a task", `ipc read_text_file '{"path":"/project/greeting.txt"}'`, `ipc write_file '{"path":"/project/new.txt","content":"three"}'`, "cat new.txt",
		`ipc read_text_file '{"path":"`+outside+`"}'`, `ipc list_directory '{"path":"/data/.."}'`, `ipc write_file '{"path":"/project/.git/config","content":"x"}'`,
		`ipc write_file '{"path":"/workspace/manifest.json","content":"{}"}'`, `ipc write_file '{"path":"/data/kept","content":"mine"}'`)
	has(t, said[0], "hello")
	has(t, said[2], "three")
	hasNo(t, said[3], "of the host")
	hasNo(t, said[4], "outside", filepath.Base(i.work))
	for _, n := range []int{5, 6} {
		hasNo(t, said[n], "Successfully")
	}
	if have := fileText(i.state("data/disk/kept")); have != "mine" {
		t.Errorf("its data folder: have %q: %s", have, said[7])
	}
	if have := fileText(filepath.Join(i.work, "p/new.txt")); have != "three" {
		t.Errorf("what landed: have %q", have)
	}
}

// An MCP server whose program is nowhere, or is none, is refused with why.
func TestPluginNewOfWhatIsNoMCPServer(t *testing.T) {
	t.Parallel()
	i := install(t)
	for program, want := range map[string]string{"/nowhere/server": "no such file", "true": "the MCP server true", "sh": "the MCP server sh"} {
		args := []string{"plugin", "new", "peer", "--mcp", "--", program}
		if program == "sh" {
			args = append(args, "-c", "echo this is no protocol; exit 3")
		}
		have := i.nacre(args...)
		has(t, have.stderr, want)
		if _, err := os.Stat(filepath.Join(i.work, "home/.local/share/nacre/plugins/peer")); have.code != 1 || !os.IsNotExist(err) {
			t.Errorf("%s: exit %d, %v", program, have.code, err)
		}
	}
	if _, err := exec.LookPath("node"); err == nil {
		i.nacre("plugin", "new", "peer", "--mcp", "--env", "PATH=token", "--", "true").want(t, 1)
	}
	i.nacre("plugin", "new", "peer", "--lang", "python", "--env", "A=b").want(t, 2, "readCredential")
}

// U-32, K-29: what nacre itself ships with gives its authors no advice.
func TestTheShippedPluginsAreValidWithoutAWarning(t *testing.T) {
	t.Parallel()
	i := install(t)
	shipped, err := filepath.Glob(filepath.Join(bin, "plugins", "*"))
	if err != nil || len(shipped) == 0 {
		t.Fatalf("no plugins: %v", err)
	}
	for _, dir := range shipped {
		r := i.nacre("plugin", "validate", dir)
		r.want(t, 0, "nacre would take it")
		if strings.Contains(r.stdout, "!") {
			t.Errorf("%s is warned of:\n%s", dir, r.stdout)
		}
	}
}
