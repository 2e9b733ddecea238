package main_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// holds is a turn that leaves a line in the group's folder and waits until it is
// let go.
func holds(then string) scriptedmodel.Turn {
	return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{
		Name: "shell", Input: []byte(`{"command":"echo begun >> /workspace/group/log; while [ ! -e /workspace/group/go ]; do sleep 0.1; done; ` + then + `","timeout_s":300}`),
	}}}
}

func (i *installation) logged(group string) string {
	return fileText(i.state("groups", group, "workspace", "log"))
}

// D-33: of one group three agents run at once and 32 messages wait. What is more is refused with a
// record, and so are a stranger's. Another group does not notice. What was taken is kept over the
// end (D-24).
func TestAFloodOfMessages(t *testing.T) {
	t.Parallel()
	i, server := served(t, "[groups.main]\ntools = [\"send_box\"]\n[groups.other]\ntools = [\"send_box\"]\n"+
		"[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"main\"\n[[route]]\nchannel = \"box\"\nsender = \"bob\"\ngroup = \"other\"\n",
		holds("true"), scriptedmodel.Turn{Text: "Done."})
	s := i.serves("serve")
	i.say(strings.Repeat("ada:flood\n", 45) + "mallory:do as I say\nmallory:now\n" + strings.Repeat("bob:hello\n", 2))
	until(t, "those that may run", func() bool {
		return i.logged("main") == strings.Repeat("begun\n", 3) && i.logged("other") == strings.Repeat("begun\n", 2)
	})
	dropped := func(reason string) int {
		return strings.Count(i.nacre("audit", "show", s.session(), "--json").stdout, `"outcome":"dropped","reason":"`+reason)
	}
	if n := dropped("too many of the group"); n != 10 {
		t.Errorf("%d were dropped for the group's limit, want 10", n)
	}
	if n := dropped("unmatched"); n != 2 {
		t.Errorf("%d of the stranger's were dropped, want 2", n)
	}
	s.stop()
	if n := strings.Count(i.nacre("audit", "show", s.session(), "--json").stdout, `"outcome":"kept for the next nacre serve"`); n != 32 {
		t.Errorf("%d waited, want 32", n)
	}
	if n := len(i.taken()); n != 37 {
		t.Errorf("%d are kept, want those that waited and those that were interrupted", n)
	}
	if n := len(server.Requests()); n != 5 {
		t.Errorf("the model was asked %d times, want 5", n)
	}
	if have := i.logged("main"); have != strings.Repeat("begun\n", 3) {
		t.Errorf("more than three ran: %q", have)
	}
	for _, r := range server.Requests() {
		hasNo(t, string(r.Body), "do as I say")
	}
	i.nacre("audit", "verify").want(t, 0)
}

// D-36: what a message goes on with is what its route says: nothing, what its sender said last, or
// the conversation that it names. It does over a restart, until it has rested too long, and never
// in another group.
func TestConversations(t *testing.T) {
	t.Parallel()
	routes := ""
	for sender, route := range map[string]string{"ada": "main\"\nsession = \"resume", "bob": "main", "carol": "main\"\nsession = \"explicit", "dora": "other\"\nsession = \"resume"} {
		routes += "[[route]]\nchannel = \"box\"\nsender = \"" + sender + "\"\ngroup = \"" + route + "\"\n"
	}
	i, server := served(t, "[groups.main]\ntools = [\"send_box\"]\n[groups.other]\ntools = [\"send_box\"]\n"+routes, scriptedmodel.Turn{Text: "heard"})
	s := i.serves("serve")
	told := func(message, earlier string, never ...string) {
		t.Helper()
		n, ended := len(server.Requests()), strings.Count(s.said(), "agent.completed")
		i.say(message)
		until(t, "the turn for "+message, func() bool { return strings.Count(s.said(), "agent.completed") > ended })
		body := string(server.Requests()[n].Body)
		_, said, _ := strings.Cut(message, ":")
		has(t, body, said)
		if earlier == "" {
			hasNo(t, body, append(never, "Earlier in this conversation")...)
			return
		}
		has(t, body, "Earlier in this conversation", earlier)
		hasNo(t, body, never...)
	}
	told("ada:apples", "")
	told("ada:pears", "apples")
	told("bob:plums", "", "apples")
	told("bob:cherries", "", "plums")
	told("carol/x:quinces", "")
	told("carol/x:figs", "quinces", "apples", "plums")
	told("carol/y:dates", "", "quinces")
	told("carol:grapes", "", "quinces", "dates")
	told("dora:lemons", "", "apples", "plums", "quinces")
	s.stop()
	s = i.serves("again")
	told("ada:melons", "pears", "plums", "quinces", "lemons")
	s.stop()
	ended := time.Now()
	config := fileText(i.work + "/home/.config/nacre/config.toml")
	i.config(config + "[serve]\nidle_seconds = 1\n")
	i.nacre("schedule", "add", "--every", "1h", "--session", "resume", "--prompt", "count").want(t, 0)
	s = i.serves("rested")
	rested := func() bool { return time.Since(ended) > 1100*time.Millisecond }
	until(t, "the conversations to rest", rested)
	told("ada:limes", "", "melons")
	tick := func(earlier bool) {
		t.Helper()
		n := strings.Count(s.said(), "agent.completed")
		i.nacre("schedule", "run", i.schedules()[0].ID).want(t, 0)
		until(t, "the tick", func() bool { return strings.Count(s.said(), "agent.completed") > n })
		all := server.Requests()
		if have := strings.Contains(string(all[len(all)-1].Body), "Earlier in this conversation"); have != earlier {
			t.Errorf("goes on with the tick before: have %t, want %t", have, earlier)
		}
	}
	tick(false)
	ended = time.Now()
	until(t, "the conversations to rest", rested)
	tick(true) // however long ago the tick before was
	told("ada:kiwis", "", "limes")
}

// D-36, M-52: after a turn that was cut short a conversation goes on from what was kept of it. It
// does not go on from what the brain wrote into its own folder meanwhile.
func TestAConversationThatWasCutShort(t *testing.T) {
	t.Parallel()
	i, server := answering(t, "resume")
	one := i.serves("one")
	kept, left := i.talks(one)
	if err := os.Remove(i.state("groups/main/workspace/go")); err != nil {
		t.Fatal(err)
	}
	i.say("ada:pears")
	until(t, "the turn to begin", func() bool { return strings.HasSuffix(i.logged("main"), "ended\nbegun\n") })
	has(t, fileText(kept), `"open":true`)
	one.dies(t)
	two := i.serves("two")
	until(t, "the turn to go on", func() bool { return strings.HasSuffix(i.logged("main"), "begun\nbegun\n") })
	if fileText(left) != "" {
		t.Error("the brain goes on from what nobody vouched for")
	}
	all := server.Requests()
	has(t, string(all[len(all)-1].Body), "Earlier in this conversation", "apples", "pears")
	i.release()
	until(t, "its question", func() bool { return strings.Contains(i.nacre("approvals", "list").stdout, "send_box") })
	two.stop()
}

// talks lets ada begin a conversation, and gives what is kept of it and a file that
// the brain left in its own folder.
func (i *installation) talks(s *serving) (kept, left string) {
	i.t.Helper()
	i.say("ada:apples")
	until(i.t, "the first agent", func() bool { return i.logged("main") == "begun\n" })
	i.release()
	until(i.t, "the first turn", func() bool { return strings.Contains(s.said(), "agent.completed") })
	folders, err := filepath.Glob(i.state("groups/main/conversations/*"))
	if err != nil || len(folders) != 1 {
		i.t.Fatalf("have %q, %v", folders, err)
	}
	kept, left = filepath.Join(folders[0], "conversation.json"), filepath.Join(folders[0], "brain", "left")
	hasNo(i.t, fileText(kept), `"open"`)
	if err := os.WriteFile(left, []byte("what the brain keeps"), 0o600); err != nil {
		i.t.Fatal(err)
	}
	return kept, left
}

// D-36: a turn that nobody could take, since its session did not open, leaves the
// conversation as it was, what the brain itself keeps of it included.
func TestATurnThatNobodyCouldTake(t *testing.T) {
	t.Parallel()
	i, server := answering(t, "resume")
	s := i.serves("serve")
	kept, left := i.talks(s)
	before, memory := fileText(kept), i.state("memory/main.sqlite")
	if err := errors.Join(os.Rename(memory, memory+".aside"), os.WriteFile(memory, []byte("no database"), 0o600)); err != nil {
		t.Fatal(err)
	}
	asked := len(server.Requests())
	i.say("ada:pears")
	until(t, "it to fail", func() bool { return strings.Contains(s.said(), "agent.error") })
	if fileText(kept) != before || fileText(left) == "" || len(server.Requests()) != asked {
		t.Errorf("have %s, want it as it was", fileText(kept))
	}
	if err := os.Rename(memory+".aside", memory); err != nil {
		t.Fatal(err)
	}
	i.say("ada:plums")
	until(t, "the turn after it", func() bool { return len(server.Requests()) > asked })
	has(t, string(server.Requests()[asked].Body), "Earlier in this conversation", "apples", "plums")
	if fileText(left) == "" {
		t.Error("what the brain keeps is gone")
	}
	s.stop()
}

// M-40: what strangers write, however much, fills no chain: twenty messages a minute are recorded
// one by one, and the others are counted.
func TestAFloodOfStrangersIsCounted(t *testing.T) {
	t.Parallel()
	const strangers = 60
	i, _ := answering(t, "fresh")
	s := i.serves("serve")
	i.say(strings.Repeat("mallory:let me in\n", strangers) + "ada:apples")
	until(t, "the operator to be heard", func() bool { return i.logged("main") == "begun\n" })
	i.release()
	until(t, "the answer", func() bool { return strings.Contains(i.outbox(), "main ada: an answer\n") })
	s.stop()
	single, counted := 0, 0
	for line := range strings.Lines(i.nacre("audit", "show", s.session(), "--json").stdout) {
		var record struct {
			Outcome, Reason string
			Detail          struct{ Count map[string]int }
		}
		check(t, json.Unmarshal([]byte(line), &record))
		switch {
		case record.Outcome == "dropped" && record.Reason == "unmatched":
			single++
		case record.Outcome == "dropped":
			counted += record.Detail.Count["unmatched"]
		}
	}
	if single+counted != strangers || single < 20 || counted == 0 {
		t.Errorf("%d were recorded and %d counted, of %d", single, counted, strangers)
	}
}
