package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/plugin"
	local "github.com/nacre-dev/nacre/plugins/local"
)

func TestManifestParses(t *testing.T) {
	data, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := plugin.ParseManifest(data); err != nil || len(m.Provides.Channels) != 1 {
		t.Fatal(err)
	}
}

// person is one end of a chat.
type person struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Scanner
	ref  string // the message that the line heard last is about
}

func (h *host) connect() *person {
	h.t.Helper()
	conn, err := net.Dial("unix", h.socket())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	p := &person{t: h.t, conn: conn, in: bufio.NewScanner(conn)}
	p.in.Buffer(nil, 1<<20)
	return p
}

func (h *host) join(sender string) *person {
	p := h.connect()
	p.say(fmt.Sprintf(`{"sender":%q}`, sender))
	return p
}

func (p *person) say(line string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(line + "\n")); err != nil {
		p.t.Error(err)
	}
}

// hear reads one line, without its time, which the tests' clock gives, and without
// the name of a message, which is made up.
func (p *person) hear() string {
	if !p.in.Scan() {
		return "closed"
	}
	line := strings.Replace(p.in.Text(), `,"time":"2027-01-15T08:00:00Z"`, "", 1)
	p.ref = ""
	if before, rest, found := strings.Cut(line, `,"for":"`); found {
		ref, after, _ := strings.Cut(rest, `"`)
		p.ref, line = ref, before+after
	}
	return line
}

func (p *person) want(lines ...string) {
	p.t.Helper()
	for _, want := range lines {
		if have := p.hear(); have != want {
			p.t.Errorf("have %s\nwant %s", have, want)
		}
	}
}

func (h *host) tool(group, recipient, body string) string {
	h.t.Helper()
	args, err := json.Marshal(map[string]any{"arguments": map[string]string{"recipient": recipient, "body": body}})
	if err != nil {
		h.t.Fatal(err)
	}
	m := h.Ask(plugin.MethodHandleRequest, plugin.RequestParams{Ticket: "T", TimeoutMS: 30_000, Envelope: plugin.Envelope{
		Topic: "tool.invoke.send_local", Group: nacre.Group(group), Payload: args,
	}})
	if m.Error != nil {
		return m.Error.Message
	}
	return string(m.Result)
}

// withoutRef is a payload without the name of its message.
func withoutRef(payload json.RawMessage) string {
	before, rest, _ := strings.Cut(string(payload), `,"ref":"`)
	_, after, _ := strings.Cut(rest, `"`)
	return before + after
}

const ready = `{"kind":"ready"}`

// D-33: what a person writes becomes a message, and the answer comes back to
// each of their connections, and to nobody else.
func TestAConversation(t *testing.T) {
	h := start(t, folder(t), "C")
	ada, also, bob := h.join("ada"), h.join("ada"), h.join("bob")
	for _, p := range []*person{ada, also, bob} {
		p.want(ready)
	}
	ada.say(`{"sender":"ada","chat":"home","body":"hé\n\u001b[31m"}`)
	ada.want(`{"kind":"sent"}`)
	also.want(`{"kind":"own","from":"ada","chat":"home","body":"hé\n\u001b[31m"}`)
	want := `{"channel":"local","sender":"ada","content_type":"text","body":"hé\n\u001b[31m","metadata":{"chat":"home"}}`
	if have := h.published(); len(have) != 1 || withoutRef(have[0]) != want {
		t.Errorf("have %s", have)
	}
	if have := h.tool("family", "ada", "hello"); have != `{"connections":2,"status":"delivered"}` {
		t.Errorf("have %s", have)
	}
	for _, p := range []*person{ada, also} {
		p.want(`{"kind":"message","from":"family","body":"hello"}`)
	}
	if have := h.tool("family", "bob", "only you"); !strings.Contains(have, "delivered") {
		t.Errorf("have %s", have)
	}
	bob.want(`{"kind":"message","from":"family","body":"only you"}`)
	for _, nobody := range []string{"Ada", "carol", "../history", "a\nb", ""} {
		if have := h.tool("family", nobody, "x"); !strings.Contains(have, "Nobody called") {
			t.Errorf("%q: have %s", nobody, have)
		}
	}
}

// D-33: the sender of a message that was given up is told so, once and nobody else. Other events,
// another channel's and strange ones tell nobody anything.
func TestAMessageThatWasGivenUp(t *testing.T) {
	dir := folder(t)
	h := start(t, dir, "C")
	ada, bob := h.join("ada"), h.join("bob")
	for _, p := range []*person{ada, bob} {
		p.want(ready)
	}
	event := func(topic, payload string) {
		h.Tell(plugin.MethodHandleEvent, plugin.EventParams{Envelope: plugin.Envelope{Version: 1, Type: "event", Topic: topic, Source: "core", Group: "main", Payload: json.RawMessage(payload)}})
	}
	event("agent.error", `{"session":"s-1","for":"m1","outcome":"failed"}`)
	event("agent.error", `{"message":{"channel":"webhook","sender":"ada"}}`)
	event("agent.completed", `{"message":{"channel":"local","sender":"ada"}}`)
	for _, sender := range []string{"", "carol", "../ada", "a\nb"} {
		event("agent.error", `{"message":{"channel":"local","sender":`+strconv.Quote(sender)+`}}`)
	}
	event("agent.error", `{"message":["local"]}`)
	event("agent.error", `{"session":"s-2","message":{"channel":"local","sender":"ada","chat":"den"}}`)
	ada.want(`{"kind":"notice","from":"main","chat":"den","body":"A message of yours was given up: the work on it was interrupted twice. Some of it may be done. Write again if you still want it."}`)
	if have := h.tool("main", "bob", "hello"); !strings.Contains(have, "delivered") {
		t.Errorf("have %s", have)
	}
	bob.want(`{"kind":"message","from":"main","body":"hello"}`)
	if files, err := os.ReadDir(filepath.Join(dir, "history")); err != nil || len(files) != 3 { // theirs, and the lock
		t.Errorf("have %v, %v", files, err)
	}
}

// F-59, F-60: a line says which message it is the answer to, or about. Whose agent ended without an
// answer is told so, and so is the reason of one that failed. Who was answered is told nothing
// more.
func TestWhatALineIsAbout(t *testing.T) {
	h := start(t, folder(t), "C")
	ada := h.join("ada")
	ada.want(ready)
	event := func(topic, ref, outcome string) {
		payload, _ := json.Marshal(map[string]any{"outcome": outcome, "message": map[string]string{"channel": "local", "sender": "ada", "ref": ref}})
		h.Tell(plugin.MethodHandleEvent, plugin.EventParams{Envelope: plugin.Envelope{Version: 1, Type: "event", Topic: topic, Source: "core", Group: "main", Payload: payload}})
	}
	var refs []string
	for _, body := range []string{"first", "second", "third"} {
		ada.say(`{"sender":"ada","body":"` + body + `"}`)
		ada.want(`{"kind":"sent"}`)
		refs = append(refs, ada.ref)
	}
	heard := func(ref, want string) {
		t.Helper()
		ada.want(want)
		if ada.ref != ref {
			t.Errorf("%s: about %q, want %q", want, ada.ref, ref)
		}
	}
	h.woken(refs[1])
	h.tool("main", "ada", "to the second")
	heard(refs[1], `{"kind":"message","from":"main","body":"to the second"}`)
	event("agent.completed", refs[1], "done")
	event("agent.error", refs[0], "no brain is ready")
	heard(refs[0], `{"kind":"notice","from":"main","body":"No answer will come: no brain is ready"}`)
	event("agent.completed", refs[2], "done")
	heard(refs[2], `{"kind":"notice","from":"main","body":"The agent ended without an answer."}`)
	event("agent.completed", refs[2], "done")
	h.wokenOn("webhook", refs[2])
	h.tool("main", "ada", "of another channel's ada")
	heard("", `{"kind":"message","from":"main","body":"of another channel's ada"}`)
	h.woken("")
	h.tool("main", "ada", "by the way")
	heard("", `{"kind":"message","from":"main","body":"by the way"}`)
}

// What was said is there after a reconnection, over restarts too, and another
// session's handler may add to it.
func TestHistory(t *testing.T) {
	dir := folder(t)
	h := start(t, dir, "C")
	p := h.join("ada")
	p.want(ready)
	for i := range 30 {
		p.say(fmt.Sprintf(`{"sender":"ada","body":"%d"}`, i))
		p.want(`{"kind":"sent"}`)
		h.tool("main", "ada", fmt.Sprint("answer ", i))
		p.want(fmt.Sprintf(`{"kind":"message","from":"main","body":"answer %d"}`, i))
	}
	h.stop()
	p.want("closed")
	session := start(t, dir, "")
	if have := session.tool("main", "ada", "kept"); have != `{"connections":0,"status":"kept"}` {
		t.Errorf("have %s", have)
	}
	session.stop()
	again := start(t, dir, "C").join("ada")
	var last string
	for i := range 50 {
		if last = again.hear(); !strings.HasSuffix(last, `,"history":true}`) {
			t.Fatalf("line %d: have %s", i, last)
		}
	}
	if last != `{"kind":"message","from":"main","body":"kept","history":true}` {
		t.Errorf("have %s", last)
	}
	again.want(ready)
}

func TestHistoryIsBounded(t *testing.T) {
	dir := folder(t)
	h := start(t, dir, "C")
	for i := range 210 {
		p := h.join(fmt.Sprint("sender ", i))
		p.want(ready)
		p.say(fmt.Sprintf(`{"sender":"sender %d","body":"x"}`, i))
		p.want(`{"kind":"sent"}`)
		_ = p.conn.Close()
	}
	h.stop() // the last one is kept by now
	files, err := os.ReadDir(filepath.Join(dir, "history"))
	if err != nil || len(files) > 201 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	h := start(t, folder(t), "C")
	for _, text := range []string{
		``, `[]`, `"x"`, `{`, `{}`, `{"sender":""}`, `{"sender":"a","sender":"b"}`, `{"Sender":"a"}`, `{"sender":1}`, `{"sender":null}`, `{"sender":"a\u0000"}`, `{"sender":"a\u202e"}`,
		`{"sender":"a"} {}`, `{"sender":"a","x":{}}`, `{"sender":"` + strings.Repeat("a", 257) + `"}`, "{\"sender\":\"\xff\"}", `{"sender":"a","body":"` + strings.Repeat("é", 8193) + `"}`,
		"GET / HTTP/1.1",
	} {
		p := h.connect()
		p.say(text)
		if have := p.hear(); !strings.HasPrefix(have, `{"kind":"error"`) {
			t.Errorf("%.80q: have %s", text, have)
		}
		p.want("closed")
	}
	p := h.join("ada")
	p.want(ready)
	p.say(`{"sender":"bob","body":"x"}`)
	p.want(`{"kind":"error","body":"a connection speaks for one sender"}`)
	p.say(`{"sender":"ada","body":"still here"}`)
	p.want(`{"kind":"sent"}`)
	if have := h.published(); len(have) != 1 {
		t.Errorf("published %s", have)
	}
	p.say(strings.Repeat("x", 200<<10))
	p.want("closed")
}

func TestWhenNobodyTakesTheMessage(t *testing.T) {
	h := start(t, folder(t), "C")
	h.mu.Lock()
	h.full = true
	h.mu.Unlock()
	p := h.join("ada")
	p.want(ready)
	p.say(`{"sender":"ada","body":"x"}`)
	p.want(`{"kind":"error","body":"nacre did not take the message: no"}`)
	h.mu.Lock()
	h.full, h.unrouted = false, true
	h.mu.Unlock()
	p.say(`{"sender":"ada","body":"x"}`)
	p.want(`{"kind":"error","body":"no [[route]] of config.toml takes this: add one for channel \"local\" with this sender or chat, and start nacre serve again"}`)
}

func TestTooManyMessagesAndConnections(t *testing.T) {
	h := start(t, folder(t), "C")
	p := h.join("ada")
	p.want(ready)
	refused := 0
	for i := range 70 {
		p.say(fmt.Sprintf(`{"sender":"ada","body":"%d"}`, i))
		if strings.Contains(p.hear(), "too many messages") {
			refused++
		}
	}
	if refused == 0 || len(h.published()) > 61 {
		t.Errorf("%d refused, %d published", refused, len(h.published()))
	}
	for range 63 {
		h.join("bob").want(ready)
	}
	if have := h.connect().hear(); have != "closed" {
		t.Errorf("the 65th connection: have %s", have)
	}
}

// A client that does not read is dropped, and nobody waits for it.
func TestAClientThatDoesNotRead(t *testing.T) {
	h := start(t, folder(t), "C")
	lazy, ada := h.join("ada"), h.join("ada")
	ada.want(ready)
	for i := range 300 {
		if have := h.tool("main", "ada", strings.Repeat("x", 4096)); !strings.Contains(have, "delivered") {
			t.Fatalf("message %d: have %s", i, have)
		}
		if have := ada.hear(); !strings.Contains(have, "message") {
			t.Fatalf("message %d: have %.80s", i, have)
		}
	}
	_ = lazy.conn.Close()
}

// A session's own handler leaves the socket alone; a reload takes it over.
func TestOnlyTheServingHandlerListens(t *testing.T) {
	dir := folder(t)
	serving := start(t, dir, "C")
	start(t, dir, "").stop()
	serving.join("ada").want(ready)
	next := start(t, dir, "C")
	serving.stop()
	next.join("ada").want(ready)
	if info, err := os.Stat(next.socket()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info.Mode(), err)
	}
}

// Whatever a client says is understood in one way, or refused.
func FuzzSaid(f *testing.F) {
	for _, seed := range []string{`{"sender":"a","chat":"b","body":"c"}`, `{"sender":"a","sender":"b"}`, `{}`, `{"sender":"\ud800"}`} {
		corpus.Add(f, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sender, chat, body, err := local.ParseSaid(data)
		if err != nil {
			return
		}
		var again struct{ Sender, Chat, Body string }
		if json.Unmarshal(data, &again) != nil || again.Sender != sender || again.Chat != chat || again.Body != body || sender == "" {
			t.Errorf("%q: have %q %q %q", data, sender, chat, body)
		}
	})
}
