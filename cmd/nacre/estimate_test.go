package main_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// M-54: what tasks like one cost is told before it begins, and bounds what it may cost: 30 %
// more. A budget that is named takes its place.
func TestATaskMayCostWhatTasksLikeItDid(t *testing.T) {
	t.Parallel()
	turns := func(n int) (all []scriptedmodel.Turn) {
		for range n {
			command, _ := json.Marshal(map[string]string{"command": "echo x >>greeting.txt"})
			all = append(all, scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "shell", Input: command}}, Usage: &scriptedmodel.Usage{Input: 300_000, Output: 10}})
		}
		return append(all, scriptedmodel.Turn{Text: "Done.", Usage: &scriptedmodel.Usage{Input: 300_000, Output: 10}})
	}
	_, url := upstreamOf(t, scriptedmodel.Script{Turns: turns(1), Others: []scriptedmodel.Other{{Match: scriptedmodel.Match{Contains: "slowly"}, Turns: turns(4)}}})
	i := install(t)
	i.write("p/.nacre/roles/fixer.toml", wholeRole)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[model]\nname = \"local-1\"\nbudget_usd = \"4\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\ninput = \"1\"\noutput = \"1\"\n")
	run := func(words string, more ...string) result {
		return i.nacre(append([]string{"run", words, "--role", "fixer", "--brain", "anthropic", "--project", "p", "--check", "true"}, more...)...)
	}
	first := run("Greet the world")
	first.want(t, 0, "merged")
	hasNo(t, first.stdout, "like this one")
	run("greet the world").want(t, 0, "1 task like this one cost $0.60, with 0.0 further tries; 0 failed", "merged")
	run("Greeting the world").want(t, 0, "2 tasks like this one", "merged")
	run("Greet the world slowly").want(t, 1, "3 tasks like this one cost on average $0.60", "this one may cost $0.78", "may spend  $0.780026 at", "budget exhausted", "of $0.780026 is left")
	run("Greet the world slowly", "--budget", "9").want(t, 2, "--budget 9 is more than budget_usd")
	run("Greet the world slowly", "--budget", "0").want(t, 2, "write more than 0")
	run("Greet the world", "--budget", "3").want(t, 0, "may spend  $3.00 at", "merged")
}
