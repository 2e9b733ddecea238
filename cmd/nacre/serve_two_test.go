package main_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// byPrompt are the schedules by what they ask for.
func (i *installation) last(prompt string) (state, session string) {
	i.t.Helper()
	for _, s := range i.schedules() {
		if s.Prompt == prompt && s.Last != nil {
			return s.Last.State, string(s.Last.Session)
		}
	}
	return "", ""
}

// D-34: two nacre serve of one installation start each tick once.
func TestTwoServeStartEachTickOnce(t *testing.T) {
	t.Parallel()
	i, server := thinks(t, "", scriptedmodel.Script{Turns: []scriptedmodel.Turn{holds("true"), {Text: "Done."}}})
	i.config(fileText(i.work+"/home/.config/nacre/config.toml") + "[serve]\nsessions = 6\n")
	i.write("home/.local/state/nacre/groups/main/workspace/go", "")
	one, two := i.serves("one"), i.serves("two")
	const ticks = 8
	for n := range ticks {
		i.nacre("schedule", "add", "--every", "1h", "--prompt", fmt.Sprint("task ", n)).want(t, 0)
	}
	for _, s := range i.schedules() {
		i.nacre("schedule", "run", s.ID).want(t, 0)
	}
	until(t, "all ticks", func() bool {
		done := 0
		for _, s := range i.schedules() {
			if s.Last != nil && s.Last.State == "done" {
				done++
			}
		}
		return done == ticks
	})
	one.stop()
	two.stop()
	if have := i.logged("main"); have != strings.Repeat("begun\n", ticks) {
		t.Errorf("%d were started, want %d", strings.Count(have, "begun"), ticks)
	}
	if n := len(server.Requests()); n != 2*ticks {
		t.Errorf("the model was asked %d times, want %d", n, 2*ticks)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// D-34: a nacre serve is killed while its agents run. The other one carries on what missed ticks
// are run of, once and in the same session, and nothing else. Nobody else's tick is begun again,
// and an end that is told does the same.
func TestAServeIsKilledInTheMiddleOfATick(t *testing.T) {
	t.Parallel()
	i, server := thinks(t, "", scriptedmodel.Script{Turns: []scriptedmodel.Turn{holds("echo ended >> /workspace/group/log"), {Text: "Done."}}})
	for prompt, missed := range map[string]string{"again": "run-once", "never": "skip"} {
		i.nacre("schedule", "add", "--every", "1h", "--prompt", prompt, "--missed", missed).want(t, 0)
	}
	one := i.serves("one")
	for _, s := range i.schedules() {
		i.nacre("schedule", "run", s.ID).want(t, 0)
	}
	until(t, "both agents", func() bool { return i.logged("main") == "begun\nbegun\n" && len(server.Requests()) == 2 })
	_, session := i.last("again")
	two := i.serves("two")
	one.dies(t)
	until(t, "one to be carried on", func() bool { return i.logged("main") == "begun\nbegun\nbegun\n" })
	if state, same := i.last("again"); state != "started" || same != session {
		t.Errorf("have %s in %s, want it started in %s", state, same, session)
	}
	if state, _ := i.last("never"); state != "interrupted" {
		t.Errorf("have %s, want interrupted", state)
	}
	all := server.Requests()
	has(t, string(all[len(all)-1].Body), "begun before and interrupted", "again")
	if err := os.WriteFile(i.state("groups/main/workspace/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { state, _ := i.last("again"); return state == "done" })
	two.stop()
	if have := i.logged("main"); have != "begun\nbegun\nbegun\nended\n" {
		t.Errorf("have %q: what was killed went on", have)
	}
	serving := i.nacre("audit", "show", two.session(), "--json").stdout
	has(t, serving, `"outcome":"interrupted, carried on"`, `"outcome":"interrupted","reason"`)
	i.nacre("audit", "verify").want(t, 0)
}

// D-34: killed again and again, a tick is started twice and no more.
func TestATickThatKillsItsServe(t *testing.T) {
	t.Parallel()
	i, _ := thinks(t, "", scriptedmodel.Script{Turns: []scriptedmodel.Turn{holds("true"), {Text: "Done."}}})
	i.nacre("schedule", "add", "--every", "1h", "--prompt", "poison").want(t, 0)
	for n := 1; n <= 2; n++ {
		s := i.serves(fmt.Sprint("serve", n))
		if n == 1 {
			i.nacre("schedule", "run", i.schedules()[0].ID).want(t, 0)
		}
		until(t, "its agent", func() bool { return i.logged("main") == strings.Repeat("begun\n", n) })
		s.dies(t)
	}
	i.serves("serve3")
	until(t, "it to be given up", func() bool { state, _ := i.last("poison"); return state == "interrupted" })
	if have := i.logged("main"); have != "begun\nbegun\n" {
		t.Errorf("have %q", have)
	}
}

// D-33: with two nacre serve a message is answered once, by the one whose chat it came in on. When
// that one is killed the chat is the other's again.
func TestTwoServeAnswerOnce(t *testing.T) {
	t.Parallel()
	i, server := thinks(t, "[groups.main]\ntools = [\"send_local\"]\n[[route]]\nchannel = \"local\"\nsender = \"ada\"\ngroup = \"main\"\noperator = true\n",
		scriptedmodel.Script{Turns: []scriptedmodel.Turn{
			{Tools: []scriptedmodel.Tool{{Name: "send_local", Input: []byte(`{"recipient":"ada","body":"hello ada"}`)}}}, {Text: "Sent."},
		}})
	one, two := i.serves("one"), i.serves("two")
	i.nacre("chat", "--as", "ada", "--once", "hello").want(t, 0, "hello ada")
	until(t, "the end of the turn", func() bool { return strings.Contains(one.said()+two.said(), "agent.completed") })
	if n := len(server.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
	two.dies(t)
	var have result
	until(t, "the chat of the other", func() bool { have = i.nacre("chat", "--as", "ada", "--once", "hello"); return have.code != 3 })
	have.want(t, 0, "hello ada")
	until(t, "the end of the second turn", func() bool { return strings.Count(one.said()+two.said(), "agent.completed") == 2 })
	one.stop()
	if n := len(server.Requests()); n != 4 {
		t.Errorf("the model was asked %d times, want 4", n)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// D-33: the address of a channel is one nacre serve's. The second one says so, goes on
// without, and takes it when the first is killed.
func TestTwoServeAtOneAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.77.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close() // it is free: nobody else takes ports of this address
	i := install(t)
	i.config(fmt.Sprintf("[access.webhook]\nlisten = %q\n[access.webhook.credentials]\nsecret = { value_file = %q }\n[[plugins.webhook.hooks]]\nname = \"ci\"\n",
		at, i.write("secret", "a-secret-of-the-test-hook")))
	status := func() int {
		response, err := http.Post("http://"+at+"/hook/ci", "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0
		}
		_ = response.Body.Close() // it has none
		return response.StatusCode
	}
	one := i.serves("one")
	until(t, "it to take connections", func() bool { return strings.Contains(one.said(), "plugin webhook takes connections at "+at) })
	two := i.serves("two")
	until(t, "it to say so", func() bool { return strings.Contains(two.said(), "plugin webhook is not served here: ") })
	has(t, two.said(), "address already in use")
	if have := status(); have != http.StatusUnauthorized {
		t.Errorf("have %d, want what is not signed refused", have)
	}
	one.dies(t)
	until(t, "the other to take it", func() bool { return status() == http.StatusUnauthorized })
	two.stop()
	has(t, i.nacre("audit", "show", two.session()).stdout, "not served here", "served here from now on")
}
