package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// channelHandler is a channel in Python. Each line of what lies in its data folder's inbox is a
// message, "SENDER:BODY" or "SENDER/CONVERSATION:BODY", and what the agent sends is printed to its
// outbox. When it shuts down, what was not taken from it is left to the one that a reload puts in
// its place.
const channelHandler = `import json, os, sys, threading, time
lock, answered, closing, watching, answer = threading.Lock(), threading.Event(), threading.Event(), None, {}
def say(m):
    with lock:
        print(json.dumps(dict(jsonrpc="2.0", **m)), flush=True)
def watch(ticket, data):
    box, n = os.path.join(data, "inbox"), 0
    mine = box + "-" + os.urandom(4).hex()
    while not closing.wait(0.05):
        if os.path.exists(box):
            try:
                os.rename(box, mine)
            except FileNotFoundError:
                continue # another one of us has taken it
            for line in open(mine).read().splitlines():
                sender, body = line.split(":", 1)
                sender, _, session = sender.partition("/")
                n += 1
                answered.clear(); answer.clear()
                say({"id": "in%d" % n, "method": "publishEvent", "params": {"ticket": ticket, "topic": "message.inbound",
                    "payload": {"channel": "box", "sender": sender, "content_type": "text", "body": body, "metadata": {"session": session} if session else {}}}})
                answered.wait(10)
                if closing.is_set() and "result" not in answer:
                    open(box, "a").write(line + "\n")
def close(m):
    closing.set()
    if watching:
        watching.join()
    say({"id": m["id"], "result": None})
    os._exit(0)
for line in sys.stdin:
    m = json.loads(line)
    p = m.get("params") or {}
    if "method" not in m:
        answer.update(m); answered.set()
    if m.get("method") == "initialize":
        data = p["data_dir"]
        say({"id": m["id"], "result": None})
        if "channel_ticket" in p:
            watching = threading.Thread(target=watch, args=(p["channel_ticket"], data), daemon=True)
            watching.start()
    elif m.get("method") == "handleRequest":
        a = p["envelope"]["payload"]["arguments"]
        open(os.path.join(data, "outbox"), "a").write(p["envelope"]["group"] + " " + a["recipient"] + ": " + a["body"] + "\n")
        say({"id": m["id"], "result": {"status": "sent"}})
    elif m.get("method") == "shutdown":
        threading.Thread(target=close, args=(m,)).start()
`

const channelManifest = `{"description": "A box", "version": "1.0.0", "handler": ["python3", "handler.py"],
"provides": {"channels": ["box"], "tools": [{"name": "send_box", "description": "Send", "arguments_schema": {"type": "object",
"required": ["recipient", "body"], "additionalProperties": false, "properties": {"recipient": {"type": "string"}, "body": {"type": "string"}}}}]}}`

// served is an installation with a channel and a model that plays a script.
func served(t *testing.T, config string, turns ...scriptedmodel.Turn) (*installation, *scriptedmodel.Server) {
	t.Helper()
	return servedBy(t, config, scriptedmodel.Script{Turns: turns})
}

func servedBy(t *testing.T, config string, script scriptedmodel.Script) (*installation, *scriptedmodel.Server) {
	t.Helper()
	testpeer.Need(t, "python3")
	i, server := thinks(t, config, script)
	i.write("home/.local/share/nacre/plugins/box/manifest.json", channelManifest)
	i.write("home/.local/share/nacre/plugins/box/handler.py", channelHandler)
	return i, server
}

// thinks is an installation with a model that plays a script.
func thinks(t *testing.T, config string, script scriptedmodel.Script) (*installation, *scriptedmodel.Server) {
	t.Helper()
	server, url := upstreamOf(t, script)
	i := install(t)
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	i.write("home/.config/nacre/config.toml", "brain = \"anthropic\"\n"+config+fmt.Sprintf(
		"\n[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", url))
	return i, server
}

// serving is a nacre serve that runs.
type serving struct {
	*running
	said func() string
	stop func()
	// code is what it ends with.
	code int
}

// serve starts nacre serve and gives what it has said, and an end to it.
func (i *installation) serve() (said func() string, stop func()) {
	i.t.Helper()
	s := i.serves("serve")
	return s.said, s.stop
}

// serves is serve for one of several, each with a name of its own.
func (i *installation) serves(name string, args ...string) *serving {
	i.t.Helper()
	path := i.write(name+".out", "")
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		i.t.Fatal(err)
	}
	s := &serving{running: &running{Cmd: i.command(i.tested(), append([]string{"serve"}, args...)...)}, said: func() string { return fileText(path) }}
	s.Stdout, s.Stderr = out, out
	if err := errors.Join(s.Start(), out.Close()); err != nil {
		i.t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() {
		_ = s.Process.Signal(os.Interrupt) // it may have ended
		if have := finish(i.t, s.running); have.code != s.code && have.code != -1 {
			i.t.Errorf("exit %d, want 0: %s", have.code, s.said())
		}
	})
	i.t.Cleanup(s.stop)
	until(i.t, "nacre serve", func() bool { return strings.Contains(s.said(), "serving") || s.ProcessState != nil })
	return s
}

// dies kills it as the kernel would.
func (s *serving) dies(t *testing.T) {
	t.Helper()
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.stop()
}

// session is the one that serving itself is.
func (s *serving) session() string {
	_, rest, _ := strings.Cut(s.said(), "serving · session ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// fileText is what is in a file; nothing where there is none.
func fileText(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}

// say puts a message where the channel finds it, and waits until it was taken.
func (i *installation) say(message string) {
	i.t.Helper()
	next := i.write("next", message)
	if err := os.Rename(next, i.state("data", "box", "inbox")); err != nil {
		i.t.Fatal(err)
	}
	until(i.t, "the message to be taken", func() bool { return fileText(i.state("data", "box", "inbox")) == "" })
}

// until waits for what becomes true in another process.
func until(t *testing.T, what string, held func() bool) {
	t.Helper()
	testwait.Until(t, what, held)
}

// D-32, D-33, D-36: a message on a channel wakes an agent of the sender's group, whose answer goes
// out by the same channel. A stranger's wakes nobody.
func TestAMessageIsAnswered(t *testing.T) {
	t.Parallel()
	i, server := served(t, "[groups.family]\ntools = [\"send_box\"]\n[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"family\"\nsession = \"resume\"\noperator = true\n",
		scriptedmodel.Turn{Tools: []scriptedmodel.Tool{
			{Name: "shell", Input: []byte(`{"command":"echo seen >> /workspace/group/notes; ipc tool.invoke.send_box '{\"recipient\":\"ada\",\"body\":\"hello ada\"}'"}`)},
		}},
		scriptedmodel.Turn{Text: "Sent."})
	said, stop := i.serve()
	i.say("mallory:do as I say")
	i.say("ada:what is the time?")
	until(t, "the answer", func() bool { return fileText(i.state("data", "box", "outbox")) == "family ada: hello ada\n" })
	until(t, "the end of the turn", func() bool { return strings.Contains(said(), "agent.completed") })
	if have := fileText(i.state("groups", "family", "workspace", "notes")); have != "seen\n" {
		t.Errorf("the group's workspace: have %q", have)
	}
	asked := string(server.Requests()[0].Body)
	has(t, asked, "what is the time?", "send_box")
	hasNo(t, asked, "do as I say")
	i.say("ada:and now?")
	until(t, "the second turn", func() bool { return len(server.Requests()) > 2 })
	has(t, string(server.Requests()[2].Body), "Earlier in this conversation", "what is the time?", "and now?")
	stop()
	i.nacre("audit", "verify").want(t, 0)
	has(t, i.nacre("sessions", "list").stdout, "message", "serve")
}

// D-34: a schedule that is due wakes an agent once, and a gate that finds
// nothing to do wakes no model.
func TestAScheduleIsKept(t *testing.T) {
	t.Parallel()
	i, server := served(t, "[groups.main]\ntools = [\"send_box\"]\n", scriptedmodel.Turn{Text: "Done."})
	i.nacre("schedule", "add", "--group", "main", "--every", "1h", "--prompt", "look around").want(t, 0)
	i.nacre("schedule", "add", "--group", "main", "--every", "1h", "--prompt", "never asked", "--gate", "exit 1").want(t, 0)
	_, stop := i.serve()
	var schedules []struct{ ID, Prompt string }
	if err := json.Unmarshal([]byte(i.nacre("schedule", "list", "--json").stdout), &schedules); err != nil || len(schedules) != 2 {
		t.Fatalf("have %v, %v", schedules, err)
	}
	asked := map[string]string{}
	for _, s := range schedules {
		var tick struct{ Session string }
		if err := json.Unmarshal([]byte(i.nacre("schedule", "run", s.ID, "--json").stdout), &tick); err != nil {
			t.Fatal(err)
		}
		asked[s.Prompt] = tick.Session
	}
	until(t, "both ticks", func() bool {
		list := i.nacre("schedule", "list", "--json").stdout
		return strings.Contains(list, `"done"`) && strings.Contains(list, `"nothing-to-do"`)
	})
	if n := len(server.Requests()); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
	has(t, string(server.Requests()[0].Body), "look around")
	stop()
	has(t, i.nacre("audit", "show", asked["look around"], "--json").stdout, `"chosen"`, `"brain":"anthropic`, "model.begin")
	idle := i.nacre("audit", "show", asked["never asked"], "--json").stdout
	has(t, idle, `"outcome":"nothing to do"`)
	hasNo(t, idle, "anthropic", "chosen", "model.")
}

// D-34: a gate that finds nothing to do is satisfied where no brain is ready at all. One that finds
// something says then what the brain lacks.
func TestAGateComesBeforeTheBrain(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("brain = \"anthropic\"\n")
	for prompt, gate := range map[string]string{"idle": "exit 1", "awake": "echo red"} {
		i.nacre("schedule", "add", "--every", "1h", "--prompt", prompt, "--gate", gate).want(t, 0)
	}
	_, stop := i.serve()
	for _, s := range i.schedules() {
		i.nacre("schedule", "run", s.ID).want(t, 0)
	}
	want := map[string]string{"idle": "nothing-to-do", "awake": "failed"}
	until(t, "both ticks", func() bool {
		for _, s := range i.schedules() {
			if s.Last == nil || s.Last.State != want[s.Prompt] {
				return false
			}
		}
		return true
	})
	for _, s := range i.schedules() {
		if s.Prompt == "awake" {
			has(t, s.Last.Outcome, "anthropic", "key")
		}
	}
	stop()
}

// D-34: a nacre serve is killed after the session of a tick ended and before its schedule
// was told. The next one finds the end, writes it back, and begins nothing.
func TestATickWhoseSessionHadEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turns          []scriptedmodel.Turn
		state, outcome string
	}{
		"done":   {[]scriptedmodel.Turn{holds("echo ended >> /workspace/group/log"), {Text: "Done."}}, "done", "done"},
		"failed": {[]scriptedmodel.Turn{holds("echo ended >> /workspace/group/log"), {Fault: &scriptedmodel.Fault{Status: 400}}}, "failed", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, server := thinks(t, "", scriptedmodel.Script{Turns: c.turns})
			i.nacre("schedule", "add", "--group", "main", "--every", "1h", "--prompt", "look around", "--session", "resume").want(t, 0)
			one := i.serves("one")
			i.nacre("schedule", "run", i.schedules()[0].ID).want(t, 0)
			until(t, "the agent", func() bool { return i.logged("main") == "begun\n" })
			let := i.holds("schedules.sqlite", true)
			defer let()
			i.release()
			until(t, "the session to end", func() bool {
				return strings.Contains(i.nacre("sessions", "list", "--json").stdout, `"state":"done"`)
			})
			one.dies(t)
			let()
			asked := len(server.Requests())
			two := i.serves("two")
			until(t, "the end to be found", func() bool { return i.schedules()[0].Last.State == c.state })
			two.stop()
			has(t, i.schedules()[0].Last.Outcome, c.outcome)
			if n := len(server.Requests()); n != asked || i.logged("main") != "begun\nended\n" {
				t.Errorf("the model was asked %d times more, and the log is %q", n-asked, i.logged("main"))
			}
			if n := i.countSessions("schedule"); n != 1 {
				t.Errorf("have %d sessions, want one", n)
			}
			has(t, i.nacre("audit", "show", two.session(), "--json").stdout, `"outcome":"ended, written back"`)
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// schedules are those of the installation.
func (i *installation) schedules() (all []assembly.ScheduleStatus) {
	i.t.Helper()
	r := i.nacre("schedule", "list", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil {
		i.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	return all
}

// M-16, M-46: what a person stops while its session is still opening is not begun again: here a
// plugin that is not ready yet.
func TestAMessageThatIsStoppedEarlyIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	i, _ := served(t, "[groups.main]\ntools = [\"wait_long\"]\n[[route]]\nchannel = \"box\"\nsender = \"ada\"\ngroup = \"main\"\n",
		works(t, "sleep 600"))
	i.write("home/.local/share/nacre/plugins/late/manifest.json", `{"description": "d", "version": "1.0.0", "handler": ["sh", "h.sh"], "provides": {"tools": [
		{"name": "wait_long", "description": "d", "arguments_schema": {"type": "object", "additionalProperties": false}}]}}`)
	i.write("home/.local/share/nacre/plugins/late/h.sh", "sleep 600\n")
	said, stop := i.serve()
	i.say("ada:apples")
	var session string
	until(t, "its session", func() bool {
		var list []struct{ ID, Kind, State string }
		check(t, json.Unmarshal([]byte(i.nacre("sessions", "list", "--json").stdout), &list))
		for _, s := range list {
			if s.Kind == "message" && s.State == "running" {
				session = s.ID
			}
		}
		return session != ""
	})
	i.nacre("sessions", "stop", session).want(t, 0)
	until(t, "that it is dealt with", func() bool { return strings.Contains(said(), "agent.error") && len(i.taken()) == 0 })
	if n := strings.Count(said(), "agent.started"); n != 1 {
		t.Errorf("it was begun %d times: %s", n, said())
	}
	stop()
	i.nacre("audit", "verify").want(t, 0)
}
