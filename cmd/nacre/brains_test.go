package main_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// M-03, M-04: Codex and an agent of the Agent Client Protocol work on a real
// repository, sealed, through the gateway, which refuses them nothing.
func TestOtherPeoplesBrainsWorkThroughTheGateway(t *testing.T) {
	const key = "local-key-of-the-test"
	write := "echo 'hello world' > greeting.txt; ipc get_session_info '{}'"
	for name, c := range map[string]struct {
		peer, dialect, model, config string
		tool                         scriptedmodel.Tool
	}{
		"codex": {"NACRE_CODEX", "openai-responses", "gpt-5.5", "", scriptedmodel.Tool{Name: "exec_command", Input: []byte(`{"cmd":` + fmt.Sprintf("%q", write) + `}`)}},
		"acp":   {"NACRE_ACP", "anthropic", "", acpConfig(os.Getenv("NACRE_ACP")), scriptedmodel.Tool{Name: "Bash", Input: []byte(`{"command":` + fmt.Sprintf("%q", write) + `}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(c.peer) == "" {
				testpeer.Missing(t, name, name+": name it in "+c.peer)
			}
			server, url := upstreamOf(t, scriptedmodel.Script{
				Turns:  []scriptedmodel.Turn{{Text: "I will write.", Tools: []scriptedmodel.Tool{c.tool}}, {Text: "Done."}},
				Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{NoTools: true}, Turns: []scriptedmodel.Turn{{Text: "A title"}}}},
			})
			i := install(t)
			i.project()
			i.env = append(i.env, "LOCAL_KEY="+key, "NACRE_CODEX="+os.Getenv("NACRE_CODEX"))
			i.write("home/.config/nacre/config.toml", c.config+fmt.Sprintf("[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [%q]\n", url, c.dialect))
			have := i.nacre("run", "greet the world", "--brain", name, "--project", "p", "--session", "work", "--check", "grep -q 'hello world' greeting.txt")
			have.want(t, 0, "brain "+name, "merged", "0 denied")
			for _, request := range server.Requests() {
				if strings.Contains(string(request.Body), key) {
					t.Error("the brain knows the key")
				}
			}
			i.nacre("audit", "show", "work", "--json").want(t, 0, `"kind":"model.end"`, "core.get_session_info")
		})
	}
}

// acpConfig is the operator's configuration for an agent whose modules are bound.
func acpConfig(command string) string {
	words := strings.Fields(command)
	var folders []string
	for _, word := range words {
		if dir, _, ok := strings.Cut(word, "/node_modules/"); ok && !slices.Contains(folders, dir+"/node_modules") {
			folders = append(folders, dir+"/node_modules")
		}
	}
	return fmt.Sprintf("[brain.acp]\ncommand = [\"%s\"]\nfolders = [\"%s\"]\n", strings.Join(words, `", "`), strings.Join(folders, `", "`))
}

// A run is recorded without its secrets, and plays again to the same effect.
func TestARunIsRecordedAndPlaysAgain(t *testing.T) {
	t.Parallel()
	const secret = "AKIAQYLPMN5HHHFPZAM2"
	_, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{Text: "The key is " + secret + ".", Tools: []scriptedmodel.Tool{{Name: "shell", Input: []byte(`{"command":"echo one > one.txt; echo ` + secret + ` > /tmp/key"}`)}}},
		{Tools: []scriptedmodel.Tool{{Name: "write", Input: []byte(`{"path":"two.txt","content":"two\n"}`)}}},
		{Text: "Done."},
	}})
	i := install(t)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	rec := i.work + "/run.jsonl"
	run := []string{"run", "count", "--brain", "anthropic", "--project", "p", "--check", "test -f two.txt", "--record", rec}
	i.nacre(run...).want(t, 0, "merged", "recorded", rec)
	data, err := os.ReadFile(rec)
	if err != nil || strings.Contains(string(data), secret) || !strings.Contains(string(data), `"one`) && !strings.Contains(string(data), "one.txt") {
		t.Fatalf("the recording: %s, %v", data, err)
	}
	if info, err := os.Stat(rec); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others can read it", info, err)
	}
	i.nacre(run...).want(t, 2, "is there already")
	i.git("reset", "-q", "--hard", "HEAD~1")
	i.nacre("run", "count", "--recording", rec, "--project", "p", "--check", "test -f two.txt").want(t, 0, "merged")
	if have := i.git("ls-files"); !strings.Contains(have, "one.txt") || !strings.Contains(have, "two.txt") {
		t.Errorf("the replay made %q", have)
	}
	i.nacre("run", "count", "--brain", "anthropic", "--project", "p", "--record", i.work+"/none/run.jsonl").want(t, 2, "there is no folder")
}

// M-60: doctor gives a brain a turn, sealed, whose call must be denied.
func TestDoctorGivesEachBrainATurn(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.env = append(i.env, "PATH=/usr/bin:/bin")
	have := i.nacre("doctor")
	have.want(t, 0, "canary", "anthropic loop 1 asked for a file outside of its sandbox and was denied")
	i.nacre("doctor", "--json").want(t, 0, `"name":"canary","status":"ok"`)
	if have := i.nacre("doctor", "--no-turns"); strings.Contains(have.stdout, "canary") {
		t.Errorf("a brain was started: %s", have.stdout)
	}
}
