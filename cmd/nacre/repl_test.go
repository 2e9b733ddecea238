package main_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// talking is an installation whose agent is nacre's own loop over a model that answers
// with a text, and otherwise to what was said later: the latest first.
func talking(t *testing.T, first string, later ...scriptedmodel.Other) (*installation, *scriptedmodel.Server) {
	t.Helper()
	server, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Text: first}}, Others: later})
	i := install(t)
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf("[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\n", url)+toolsConfig)
	return i, server
}

func to(said string, turns ...scriptedmodel.Turn) scriptedmodel.Other {
	return scriptedmodel.Other{Match: scriptedmodel.Match{Contains: said}, Turns: turns}
}

// says talks to an agent in lines.
func (i *installation) says(lines string, args ...string) result {
	i.t.Helper()
	r := &running{Cmd: i.command(filepath.Join(bin, "nacre"), append([]string{"repl"}, args...)...)}
	r.Stdin, r.Stdout, r.Stderr = strings.NewReader(lines), &r.stdout, &r.stderr
	if err := r.Start(); err != nil {
		i.t.Fatal(err)
	}
	return finish(i.t, r)
}

// M-01, F-132: each line is a turn of one conversation, which goes on the next time.
func TestAnAgentIsTalkedToWithoutServe(t *testing.T) {
	t.Parallel()
	i, server := talking(t, "Good day, Ada.", to("now the zebra", scriptedmodel.Turn{Text: "Who?"}), to("again the heron", scriptedmodel.Turn{Text: "Still here."}),
		to("tell me what I said", scriptedmodel.Turn{Text: "You said it."}))
	have := i.says("my name is Ada\n\ntell me what I said\n")
	have.want(t, 0, "Good day, Ada.", "You said it.")
	if n := strings.Count(have.stdout, "You said it."); n != 1 {
		t.Errorf("the answer is shown %d times:\n%s", n, have.stdout)
	}
	i.says("again the heron\n", "--json").want(t, 0, `"answer":"Still here."`, `"event":"report"`)
	i.says("now the zebra\n", "--new").want(t, 0, "Who?")
	for n, knows := range []bool{false, true, true, false} {
		if body := string(server.Requests()[n].Body); (n > 0 && strings.Contains(body, "my name is Ada")) != knows {
			t.Errorf("turn %d: knows what was said is %v, want %v", n+1, !knows, knows)
		}
	}
	i.says("", "--group", "../x").want(t, 2)
	i.nacre("audit", "verify").want(t, 0)
}

// M-42: what an agent asks is asked where the person talks to it, and what is typed
// while nothing is asked is said next.
func TestAConversationAsksOnItsTerminal(t *testing.T) {
	t.Parallel()
	removal := []scriptedmodel.Tool{{Name: "delete_reminder", Input: []byte(`{"reminder_id":"R-1"}`)}}
	i, _ := talking(t, "It is noted.", to("bye now", scriptedmodel.Turn{Text: "Bye then."}),
		to("I have paid", scriptedmodel.Turn{Tools: removal}, scriptedmodel.Turn{Text: "It is gone."}))
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0)
	screen, wait := i.terminal("repl")
	screen.until("> ")
	screen.typeIn("note that I pay\r")
	screen.until("It is noted.")
	screen.until("> ")
	screen.typeIn("I have paid\r")
	screen.until("approve? y or n")
	time.Sleep(400 * time.Millisecond) // what is typed at once was meant for something else
	screen.typeIn("y\r")
	screen.until("It is gone.")
	screen.until("> ")
	screen.typeIn("bye now\r")
	screen.until("Bye then.")
	screen.until("> ")
	screen.typeIn("\x04")
	wait().want(t, 0)
}
