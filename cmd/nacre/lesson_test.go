package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// M-53: a task that failed is told before the next one like it begins: the first request to the
// model holds the warning. What an agent stored of a fix counts for nothing. Work that a person
// accepted is a verified fix, and the next task like it is told that, too.
func TestATaskIsToldHowTasksLikeItFailed(t *testing.T) {
	t.Parallel()
	says := func(line string) []scriptedmodel.Turn {
		command, _ := json.Marshal(map[string]string{"command": "echo " + line + " >>greeting.txt"})
		return []scriptedmodel.Turn{{Tools: []scriptedmodel.Tool{{Name: "shell", Input: command}}}, {Text: "Done."}}
	}
	server, url := upstreamOf(t, scriptedmodel.Script{Turns: says("you"), Others: []scriptedmodel.Other{
		{Match: scriptedmodel.Match{Contains: "colour of the sky"}, Turns: says("blue")},
	}})
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", wholeRole)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n[groups.main]\ntools = [\"memory_*\"]\n", url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
		`{"tool":"shell","input":{"command":"echo me >>greeting.txt; ipc memory_store '{\"type\":\"correction\",\"content\":\"the greeting was fixed by quokka\",\"tags\":[\"fix\"]}'"}}`+"\n")
	run := func(words string, more ...string) result {
		return i.nacre(append([]string{"run", words, "--role", "fixer", "--project", "p", "--check", "grep -q you greeting.txt"}, more...)...)
	}
	run("Correct the greeting of visitors", "--brain", "replay", "--recording", "rec.jsonl").want(t, 1, "not merged")
	i.nacre("memory", "list").want(t, 0, "fixed by quokka", "Correct the greeting of visitors", "context     trusted")

	i.nacre("run", "Name the colour of the sky", "--brain", "anthropic", "--project", "p", "--check", "true").want(t, 0, "merged")
	other := server.Requests()
	hasNo(t, string(other[0].Body), "Earlier failures", "quokka")

	i.nacre("run", "correcting the visitors' greeting", "--project", "p", "--check", "grep -q you greeting.txt", "--brain", "anthropic").want(t, 0, "told of earlier failures of tasks like this one: 1, with a verified fix: 0", "merged")
	first := string(server.Requests()[len(other)].Body)
	has(t, first, "Earlier failures of tasks like this one", "Correct the greeting of visitors", "the check `grep -q you greeting.txt` ended with 1", "No verified fix is known")
	hasNo(t, first, "quokka")

	var rows []struct{ ID, Role string }
	if err := json.Unmarshal([]byte(i.nacre("ledger", "list", "--json", "--status", "merged").stdout), &rows); err != nil || len(rows) != 2 || rows[0].Role != "run" {
		t.Fatalf("have %v, %v", rows, err) // the latest first; both are of no role
	}
	i.nacre("ledger", "accept", rows[0].ID).want(t, 0)
	before := len(server.Requests())
	run("correct the greeting for visitors", "--brain", "anthropic").want(t, 0, "1, with a verified fix: 1", "merged")
	has(t, string(server.Requests()[before].Body), "The verified fix: ", "changed greeting.txt, and what had failed held")
	i.nacre("audit", "show", "--kind", "memory", "--json").want(t, 0, `"outcome":"learned"`, `"outcome":"warned"`)
}

// wholeRole is the role fixer over the whole project.
var wholeRole = strings.Replace(taskRole, `"scope::files-whitelist", `, "", 1)
