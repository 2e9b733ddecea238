package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/chat/chattest"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/plugin"
	slack "github.com/nacre-dev/nacre/plugins/slack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a handler over a data folder. ticket is empty where no channels are served.
func start(t testing.TB, f *fake, dir, ticket string) *chattest.Host {
	t.Helper()
	return chattest.Start(t, func(in io.Reader, out io.Writer, waited func(time.Duration)) error {
		return slack.Serve(in, out, func(string) string { return f.URL }, f.patience, waited)
	}, chattest.Options{Channel: "slack", Config: `{"api":"http://api.test/api"}`, Dir: dir, Ticket: ticket, Secrets: map[string]string{"bot_token": botToken, "app_token": appToken}})
}

// M-48: whatever the service does, each message is taken in the order in which it was written,
// and one that comes again has the same name.
func TestNoMessageIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opens  []fault
		greets []greeting
		waits  time.Duration
	}{
		"is well":                        {},
		"drops before it says hello":     {greets: []greeting{leaves, leaves, leaves}, waits: 4 * time.Second},
		"drops before an answer":         {greets: []greeting{bringsAndDrops, bringsAndDrops}},
		"warns":                          {greets: []greeting{ends("warning"), ends("warning")}},
		"wants a new connection":         {greets: []greeting{ends("refresh_requested")}},
		"switches Socket Mode off":       {greets: []greeting{ends("link_disabled")}, waits: 5 * time.Minute},
		"has too many sockets":           {greets: []greeting{ends("too_many_websockets")}, waits: 30 * time.Second},
		"ends for a reason of tomorrow":  {greets: []greeting{ends("")}, waits: time.Second},
		"ends at once, again and again":  {greets: []greeting{ends("refresh_requested"), ends("refresh_requested"), ends("refresh_requested"), ends("refresh_requested")}, waits: 8 * time.Second},
		"speaks no JSON":                 {greets: []greeting{speaks(websocket.TextMessage, `{"type":"ev`), speaks(websocket.TextMessage, `[]`), speaks(websocket.TextMessage, "")}},
		"speaks bytes":                   {greets: []greeting{speaks(websocket.BinaryMessage, "\x00\x01")}},
		"speaks without end":             {greets: []greeting{speaks(websocket.TextMessage, `"`+strings.Repeat("x", 2<<20)+`"`)}},
		"speaks of what nobody knows":    {greets: []greeting{speaks(websocket.TextMessage, `{"type":"tomorrow","envelope_id":"x1"}`), speaks(websocket.TextMessage, `{"type":"events_api","envelope_id":"x2","payload":[]}`)}},
		"opens nothing":                  {opens: []fault{drop, says(502, "<html>bad gateway</html>"), no("internal_error"), says(200, `{"ok":true`), says(302, ""), says(200, "[]")}, waits: 16 * time.Second},
		"opens too often":                {opens: []fault{limited("77")}, waits: 77 * time.Second},
		"opens too often for years":      {opens: []fault{limited("2147483647")}, waits: time.Hour},
		"opens what is no socket":        {opens: []fault{says(200, `{"ok":true,"url":"http://x.test/"}`), says(200, `{"ok":true,"url":"ws://u:p@socket.test/"}`), says(200, `{"ok":true,"url":7}`), says(200, `{"ok":true}`)}},
		"opens a socket of another host": {opens: []fault{says(200, `{"ok":true,"url":"ws://evil.test/link/1"}`)}},
		"opens what was used":            {opens: []fault{says(200, `{"ok":true,"url":"ws://socket.test/link/0"}`)}},
		"has no such method today":       {opens: []fault{no("missing_scope"), no("<b>" + appToken)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.fails("apps.connections.open", c.opens...)
			f.greetsBy(c.greets...)
			for i := range 3 {
				f.message("U42", "C1", fmt.Sprint("message ", i), nil)
			}
			h := start(t, f, t.TempDir(), "C")
			h.Until("the messages", func() bool { return f.allAcked() })
			refs := map[string]string{}
			for _, m := range h.Taken() {
				if m.Sender != "T1:U42" || m.Metadata.Chat != "C1" || m.Channel != "slack" {
					t.Errorf("have %+v", m)
				}
				if known := refs[m.Metadata.Ref]; known != "" && known != m.Body || known == "" && m.Body != fmt.Sprint("message ", len(refs)) {
					t.Errorf("have %+v after %v", m, refs)
				}
				refs[m.Metadata.Ref] = m.Body
			}
			longest := time.Duration(0)
			for _, w := range h.Waits() {
				longest = max(longest, w)
			}
			if len(refs) != 3 || longest < c.waits {
				t.Errorf("have %d names; it waited %v", len(refs), h.Waits())
			}
		})
	}
}

// M-48: a socket on which nothing comes, not even that it is alive, is given up.
func TestASilentSocketIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.patience = 2 * time.Second
	f.greetsBy(silent)
	f.message("U42", "C1", "hello", nil)
	h := start(t, f, t.TempDir(), "C")
	h.Until("the message", func() bool { return f.allAcked() && len(h.Once()) == 1 })
}

// M-48: what the host does not take is not acknowledged: it is brought again until it is, also
// over sockets, and by the next process.
func TestAMessageIsAcknowledgedWhenItIsTaken(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := start(t, f, dir, "C")
	h.Change(func() { h.Busy = 1 << 30 })
	f.message("U42", "C1", "one", nil)
	h.Until("a refusal", func() bool { return h.Refusals() < 1<<30-2 })
	f.ends()
	h.Until("another socket", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.opened == 2 })
	if f.allAcked() {
		t.Error("what was not taken was acknowledged")
	}
	h.Stop()
	next := start(t, f, dir, "C")
	next.Until("the message in the next process", func() bool { return f.allAcked() && len(next.Once()) == 1 })
	f.message("U42", "C1", "two", nil)
	next.Until("the next", func() bool { return f.allAcked() && len(next.Once()) == 2 })
}

// M-48: Slack brings again for some minutes only what nobody acknowledged. What was written for
// a day meanwhile is asked for, also in threads, and also where Slack refuses that at first. In a
// channel where only what names the bot is heard, nothing else is.
func TestWhatWasWrittenMeanwhileIsAskedFor(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := start(t, f, dir, "C")
	first := f.message("U42", "D42", "first", nil)
	f.message("U42", "D42", "in a thread", map[string]any{"thread_ts": first})
	f.message("U42", "C1", "<@U0BOT> named", map[string]any{"type": "app_mention"})
	f.message("U42", "C2", "heard", nil)
	h.Until("them", func() bool { return len(h.Once()) == 4 && f.allAcked() })
	h.Stop()
	f.mu.Lock()
	f.deaf = true
	f.mu.Unlock()
	want := map[string]bool{}
	for i := range 5 {
		want[fmt.Sprint("missed ", i)] = true
		root := f.message("U42", "D42", fmt.Sprint("missed ", i), nil)
		if i == 3 {
			want["a new thread"] = true
			f.message("U42", "D42", "a new thread", map[string]any{"thread_ts": root})
		}
	}
	for _, c := range []struct {
		to, text string
		more     map[string]any
	}{
		{"D42", "the old thread", map[string]any{"thread_ts": first}}, {"C1", "<@U0BOT> again", nil}, {"C2", "all", nil},
		{"C1", "to others", nil}, {"C3", "elsewhere", nil}, {"D42", "a bot's", map[string]any{"bot_id": "B1"}}, {"D42", "a guest's without a team", map[string]any{"user": "U77", "team": ""}},
	} {
		f.message("U42", c.to, c.text, c.more)
		want[strings.TrimPrefix(c.text, "<@U0BOT> ")] = c.to != "C3" && c.more["bot_id"] == nil && c.more["user"] == nil && c.text != "to others"
	}
	f.fails("conversations.history", limited("9"), drop, no("internal_error"))
	f.fails("conversations.replies", limited("9"), says(502, "x"))
	next := start(t, f, dir, "C")
	f.mu.Lock()
	f.deaf = false
	f.mu.Unlock()
	f.message("U42", "D42", "now", nil)
	want["now"] = true
	count := 0
	for _, heard := range want {
		if heard {
			count++
		}
	}
	bodies := func() map[string]string {
		have := map[string]string{}
		for _, m := range next.Once() {
			have[m.Body] = m.Metadata.Ref
		}
		return have
	}
	next.Until("what was missed", func() bool { return len(bodies()) >= count })
	for body := range bodies() {
		if !want[body] {
			t.Errorf("%q was brought", body)
		}
	}
	if ref := bodies()["the old thread"]; !strings.HasSuffix(ref, strings.Replace(first, ".", "", 1)) {
		t.Errorf("have %s, want one in the thread of %s", ref, first)
	}
}

// M-48: what cannot be asked for stays unasked for: what comes over the socket does not hide it.
func TestWhatCannotBeAskedForIsAskedForLater(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	f.message("U42", "D42", "first", nil)
	h.Until("it", func() bool { return len(h.Once()) == 1 && f.allAcked() })
	f.mu.Lock()
	f.deaf = true
	f.mu.Unlock()
	f.message("U42", "D42", "missed", nil)
	f.mu.Lock()
	f.deaf = false
	f.mu.Unlock()
	for range 6 {
		f.fails("conversations.history", drop)
	}
	f.ends()
	h.Until("the failures", func() bool { return len(f.got("conversations.history")) >= 6 })
	f.message("U42", "D42", "later", nil)
	h.Until("the later one", func() bool { return len(h.Once()) >= 2 && f.allAcked() })
	h.Until("a socket", f.connected)
	f.ends()
	h.Until("the one that was missed", func() bool {
		for _, m := range h.Once() {
			if m.Body == "missed" {
				return true
			}
		}
		return false
	})
}

// Tokens that were revoked are read anew; no error says them.
func TestRevokedTokensAreReadAnew(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.message("U42", "C1", "one", nil)
	h := start(t, f, t.TempDir(), "C")
	h.Until("a message", func() bool { return len(h.Once()) == 1 && f.allAcked() })
	f.mu.Lock()
	f.bot, f.app = newBot, newApp
	f.mu.Unlock()
	f.brings("events_api", map[string]any{"team_id": "T1", "event": map[string]any{"type": "tokens_revoked"}})
	f.ends()
	h.Until("a long pause", func() bool {
		for _, w := range h.Waits() {
			if w >= 5*time.Minute {
				return true
			}
		}
		return false
	})
	if have := h.Send("C1", "hi"); !strings.Contains(have, "AUTH") || strings.Contains(have, "quiet") {
		t.Errorf("have %s", have)
	}
	h.Change(func() { h.Secrets = map[string]string{"bot_token": newBot, "app_token": newApp} })
	f.message("U42", "C1", "two", nil)
	h.Until("the next message", func() bool { return len(h.Once()) == 2 })
}

// One handler of a data folder listens: Slack gives each socket a part of the messages.
func TestOneHandlerListens(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	one := start(t, f, dir, "C")
	one.Until("a socket", f.connected)
	two := start(t, f, dir, "C")
	f.message("U42", "C1", "one", nil)
	one.Until("the message", func() bool { return len(one.Once()) == 1 && f.allAcked() })
	one.Stop()
	f.message("U42", "C1", "two", nil)
	two.Until("the next message", func() bool { a := two.Once(); return len(a) == 1 && a[0].Body == "two" })
	start(t, f, dir, "").Stop() // that of a session does not listen
}

// M-46, M-48: a sender is one person of one team. What a bot writes, what the service says, and
// what was edited or deleted is not brought; a stranger is told nothing. What comes by two
// events has one name.
func TestWhoIsHeard(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	h.Change(func() { h.Routed = func(sender string) bool { return sender != "T1:U13" } })
	f.message("U13", "D13", "/start", nil)
	f.message("U13", "D13", "help", nil)
	f.message("U42", "C1", "a bot's", map[string]any{"bot_id": "B1"})
	f.message("U42", "C1", "an edit", map[string]any{"subtype": "message_changed"})
	f.message("U42", "C1", "joined", map[string]any{"subtype": "channel_join"})
	f.message("", "C1", "nobody's", nil)
	f.message("ada", "C1", "a name's", nil)
	f.message("U42", "../x", "nowhere", nil)
	f.message("U42", "C1", "never", map[string]any{"ts": "1.2"})
	f.message("U42", "C1", "in a thread of nothing", map[string]any{"thread_ts": "x"})
	f.message("U42", "C1", " ", nil)
	f.message("U42", "C1", "look", map[string]any{"subtype": "file_share", "files": []any{map[string]any{"name": "a\nb\"c"}, map[string]any{"name": "d"}}})
	ts := f.message("U42", "C1", "<@U0BOT> "+strings.Repeat("😀", 9000), map[string]any{"type": "app_mention", "user_team": "T2"})
	f.message("U42", "C1", "<@U0BOT> the same", map[string]any{"ts": ts})
	h.Until("the messages", f.allAcked)
	have := h.Taken()
	if len(have) != 3 || !strings.HasPrefix(have[0].Body, "look\n[file 1 is called \"a b\\\"c\"; it cannot be read here") || have[1].Body != strings.Repeat("😀", 8092)+"\n[the last 908 characters of the message are left out here]" {
		t.Fatalf("have %.300v", have)
	}
	if have[0].Sender != "T1:U42" || have[1].Sender != "T2:U42" || have[1].Metadata.Ref != have[2].Metadata.Ref || have[2].Body != "the same" {
		t.Errorf("have %+v", have[2])
	}
	if sent := f.got("chat.postMessage"); len(sent) != 0 {
		t.Errorf("strangers were told %v", sent)
	}
}

// M-40: a message begins a conversation, and what is written in its thread goes on with it. The
// answer stands in the thread.
func TestAThreadIsASession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	root := f.message("U42", "C1", "one", nil)
	f.message("U43", "C1", "two", nil)
	f.message("U43", "C1", "and then?", map[string]any{"thread_ts": root})
	f.message("U43", "C1", "for all", map[string]any{"thread_ts": root, "subtype": "thread_broadcast"})
	f.message("U43", "C2", "elsewhere", map[string]any{"thread_ts": root})
	h.Until("all", func() bool { return len(h.Once()) == 5 })
	m := h.Once()
	if s := m[0].Metadata.Session; s == "" || s == m[1].Metadata.Session || s != m[2].Metadata.Session || s != m[3].Metadata.Session || s == m[4].Metadata.Session {
		t.Errorf("have %+v", m)
	}
	for n, c := range []struct {
		about   chattest.Inbound
		to, ask string
		thread  any
	}{{m[0], "C1", "a", root}, {m[2], "C1", "b", root}, {m[0], "C2", "c", nil}} {
		h.WokenBy(c.about)
		if have := h.Send(c.to, "an answer"); !strings.Contains(have, `"sent"`) {
			t.Fatal(have)
		}
		if sent := f.got("chat.postMessage")[n]; sent["thread_ts"] != c.thread || sent["channel"] != c.to {
			t.Errorf("%s: have %v", c.ask, sent)
		}
	}
}

// M-48: how the work goes is one message, which is edited.
func TestProgressIsOneMessage(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	for n, c := range []struct {
		answer         bool
		topic, outcome string
		want           string
	}{
		{true, "agent.completed", "done", "Done."}, {false, "agent.completed", "done", "The agent ended without an answer."},
		{false, "agent.error", "<!channel> no brain", "No answer will come: <!channel> no brain"}, {false, "agent.error", "interrupted twice", "A message of yours was given up"},
	} {
		root := f.message("U42", "C1", fmt.Sprint(n), nil)
		h.Until("the message", func() bool { return len(h.Once()) == n+1 })
		m := h.Once()[n]
		sent := len(f.got("chat.postMessage"))
		h.Tells("agent.started", m, "")
		h.Tells("agent.started", m, "")
		h.Until("the progress", func() bool { return len(f.got("chat.postMessage")) == sent+1 })
		if c.answer {
			h.WokenBy(m)
			h.Until("the answer", func() bool { return strings.Contains(h.Send("C1", "yes"), `"sent"`) })
		}
		h.Tells(c.topic, m, c.outcome)
		h.Until("the edit", func() bool { return len(f.got("chat.update")) == n+1 })
		begun, last := f.got("chat.postMessage")[sent], f.got("chat.update")[n]
		text, _ := shown(last)
		if begun["thread_ts"] != root || last["ts"] == "" || last["channel"] != "C1" || !strings.HasPrefix(text, c.want) {
			t.Errorf("have %v after %v, want %s", last, begun, c.want)
		}
	}
}

// What cannot be sent says why; what may have been sent is not sent again. No text calls
// anybody, and none is markup.
func TestSending(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "")
	for name, c := range map[string]struct {
		recipient, body string
		faults, after   []fault
		want            string
		calls           int
	}{
		"one":              {recipient: "C1", body: "hello", want: `"messages":1`, calls: 1},
		"long":             {recipient: "C1", body: strings.Repeat("word ", 1500), want: `"messages":3`, calls: 3},
		"too often":        {recipient: "C1", body: "x", faults: []fault{limited("1"), limited("x"), no("ratelimited")}, want: `"sent"`, calls: 4},
		"for an hour":      {recipient: "C1", body: "x", faults: []fault{limited("3600")}, want: "TOO_OFTEN (retriable true)", calls: 1},
		"lost":             {recipient: "C1", body: "x", after: []fault{drop}, want: "NOT_KNOWN (retriable false)", calls: 1},
		"a failure":        {recipient: "C1", body: "x", faults: []fault{no("internal_error")}, want: "NOT_KNOWN (retriable false)", calls: 1},
		"a page":           {recipient: "C1", body: "x", faults: []fault{says(502, "<html>")}, want: "NOT_KNOWN (retriable false)", calls: 1},
		"half":             {recipient: "C1", body: strings.Repeat("word ", 1000), after: []fault{says(200, `{"ok":true,"channel":"C1","ts":"1700000000.000001"}`), drop}, want: "1 of 2 parts were sent", calls: 2},
		"archived":         {recipient: "C1", body: "x", faults: []fault{no("is_archived")}, want: "NOT_TAKEN", calls: 1},
		"nobody":           {recipient: "C404", body: "x", want: "NOT_TAKEN", calls: 1},
		"a name":           {recipient: "#general", body: "x", want: "UNKNOWN_RECIPIENT"},
		"a person":         {recipient: "U42", body: "x", want: "UNKNOWN_RECIPIENT"},
		"nothing to see":   {recipient: "C1", body: " \n\u202e\x00", want: "EMPTY"},
		"markup of others": {recipient: "C1", body: "<!channel> <@U1> <https://x.test|x> *b* _i_ ~s~ :smile: &lt; `a<b` \n```go\nif a < b && c {}\n```", want: `"sent"`, calls: 1},
	} {
		before := len(f.got("chat.postMessage"))
		f.fails("chat.postMessage", c.faults...)
		f.loses("chat.postMessage", c.after...)
		have := h.Send(c.recipient, c.body)
		if !strings.Contains(have, c.want) || len(f.got("chat.postMessage"))-before != c.calls || strings.Contains(have, "quiet") {
			t.Errorf("%s: have %s after %d calls", name, have, len(f.got("chat.postMessage"))-before)
		}
	}
	h.Send("C1", "a `b<` c\n```go\nd & e\n```\nf")
	all := f.got("chat.postMessage")
	raw, err := json.Marshal(all[len(all)-1]["blocks"])
	want := `[{"elements":[{"elements":[{"text":"a ","type":"text"},{"style":{"code":true},"text":"b\u003c","type":"text"},{"text":" c\n","type":"text"}],"type":"rich_text_section"},` +
		`{"elements":[{"text":"d \u0026 e","type":"text"}],"type":"rich_text_preformatted"},{"elements":[{"text":"f","type":"text"}],"type":"rich_text_section"}],"type":"rich_text"}]`
	if err != nil || string(raw) != want {
		t.Errorf("have %s", raw)
	}
}

// What a person wrote is read from Slack's form of it.
func TestWhatAPersonWrote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a &lt; b &amp;&amp; c &gt; d": "a < b && c > d", "<@U1> and <@U2|ada>": "@U1 and @U2", "<#C1|general> <#C2> <#C3|>": "#general #C2 #C3",
		"<!here> <!subteam^S1|@team>": "@here @team", "<https://x.test/?a=1&amp;b=2|x> <https://y.test>": "x (https://x.test/?a=1&b=2) https://y.test",
		"<mailto:a@x.test|a@x.test>": "a@x.test", "<https://x.test|https://x.test>": "https://x.test", "no end <https://x": "no end <https://x", "&amp;lt;": "&lt;", "": "", "<>": "",
	} {
		if have := slack.Plain(text); have != want {
			t.Errorf("%q: have %q, want %q", text, have, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"<a|b>", "<<@U1>&lt;", "&amp", strings.Repeat("<", 3000)} {
		corpus.Add(f, seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if have := slack.Plain(text); len(have) > 2*len(text) {
			t.Errorf("%q became %d bytes", text, len(have))
		}
	})
}

func FuzzRef(f *testing.F) {
	f.Add("C012AB3CD", "1700000000.000001", "", "c1-1000001")
	f.Add("D1", "1700000000.000001", "1600000000.000009", "c1-1-2-3")
	f.Fuzz(func(t *testing.T, conversation, stamp, thread, text string) {
		if c, s, th, ok := slack.PlaceOf(text); ok && slack.Ref(c, s, th) != text {
			t.Errorf("%q is read as %s %s %s", text, c, s, th)
		}
		ref := slack.Ref(conversation, stamp, thread)
		if c, s, th, ok := slack.PlaceOf(ref); ok && (slack.Ref(c, s, th) != ref || len(ref) > 64) {
			t.Errorf("%q is read as %s %s %s", ref, c, s, th)
		}
	})
}

// A configuration that cannot work says so, tries both tokens and the way to the socket, and
// never shows a token.
func TestStarts(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "")
	code := func(m plugin.Message) string {
		if m.Error == nil {
			return ""
		}
		e, _ := plugin.ParseToolError(m.Error.Data)
		if strings.Contains(m.Error.Message, "quiet") {
			t.Errorf("a token is told: %s", m.Error.Message)
		}
		return e.Code + " " + e.Message
	}
	for config, want := range map[string]string{`{"api":"http://api.test/api"}`: "", `{"api":"ftp://x"}`: "CONFIG_ERROR", `{"api":"https://u:p@x.test"}`: "CONFIG_ERROR", `{"api":""}`: "CONFIG_ERROR"} {
		have := code(h.Ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "slack", Config: json.RawMessage(config), DataDir: t.TempDir(), Ticket: "T"}))
		if !strings.HasPrefix(have, want) || want == "" && have != "" {
			t.Errorf("%s: have %q, want %q", config, have, want)
		}
	}
	h = start(t, f, t.TempDir(), "")
	for _, c := range []struct {
		bot, app, rights, want string
		auth, opens            fault
		where                  string
	}{
		{bot: botToken, app: appToken}, {app: appToken, want: "AUTH_ERROR There is no bot_token"}, {bot: botToken, want: "AUTH_ERROR There is no app_token"},
		{bot: appToken, app: botToken, want: "AUTH_ERROR The bot_token is not one that begins with xoxb-"}, {bot: botToken, app: "xapp-1\r\nx: y-quiet", want: "AUTH_ERROR The app_token is not"},
		{bot: newBot, app: appToken, want: "AUTH_ERROR Slack does not know bot_token"}, {bot: botToken, app: newApp, want: "AUTH_ERROR Slack does not know app_token"},
		{bot: botToken, app: appToken, rights: "im:history", want: "AUTH_ERROR The bot has no right chat:write"},
		{bot: botToken, app: appToken, opens: no("missing_scope"), want: "AUTH_ERROR Slack opens no socket (Slack said missing_scope)"},
		{bot: botToken, app: appToken, auth: drop, want: "NETWORK_ERROR Slack was not reached"}, {bot: botToken, app: appToken, auth: says(200, `{"ok":true}`), want: "CONFIG_ERROR"},
		{bot: botToken, app: appToken, opens: drop, want: "NETWORK_ERROR"}, {bot: botToken, app: appToken, where: "ws://other.test", want: "NETWORK_ERROR Slack's socket was not reached"},
	} {
		f.mu.Lock()
		f.rights, f.where = "chat:write, im:history", "ws://socket.test"
		if c.rights != "" {
			f.rights = c.rights
		}
		if c.where != "" {
			f.where = c.where
		}
		f.mu.Unlock()
		for method, todo := range map[string]fault{"auth.test": c.auth, "apps.connections.open": c.opens} {
			if todo != nil {
				f.fails(method, todo)
			}
		}
		h.Change(func() { h.Secrets = map[string]string{"bot_token": c.bot, "app_token": c.app} })
		if have := code(h.Ask(plugin.MethodVerify, plugin.VerifyParams{Ticket: "T"})); !strings.HasPrefix(have, c.want) || c.want == "" && have != "" {
			t.Errorf("have %q, want %q", have, c.want)
		}
	}
}

// M-47: a card is shown once to its person, whole, and its buttons go with its end, over a
// restart too. It is shown to nobody of another workspace.
func TestACardIsShownOnce(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := start(t, f, dir, "C")
	card := plugin.Card{Channel: "slack", To: "T1:U42", ID: "c1", Text: "pay *1* & <!here> `x`\n```\nall of it\n```", Buttons: []plugin.Button{{ID: "aaaaaaaaaaaaaaaa", Label: "Approve once"}, {ID: "bbbbbbbbbbbbbbbb", Label: "Deny"}}}
	f.fails("chat.postMessage", no("internal_error"))
	for _, other := range []plugin.Card{
		{Channel: "telegram", To: "T1:U42", ID: "c2", Text: "x", Buttons: card.Buttons}, {Channel: "slack", To: "T2:U42", ID: "c3", Text: "x", Buttons: card.Buttons},
		{Channel: "slack", To: "T1:ada", ID: "c4", Text: "x", Buttons: card.Buttons}, {Channel: "slack", To: ":U42", ID: "c5", Text: "x", Buttons: card.Buttons},
		{Channel: "slack", To: "T1:U42", ID: "c6", Text: strings.Repeat("😀", 1501), Buttons: card.Buttons}, {Channel: "slack", To: "T1:U42", ID: "c7", Text: "over before it was shown"},
	} {
		h.Shows(other)
	}
	for range 3 {
		h.Shows(card)
	}
	h.Until("the card", func() bool { return len(f.got("chat.postMessage")) == 2 })
	h.Until("it to be kept", func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "kept.json"))
		return err == nil && strings.Contains(string(data), `"card/c1"`)
	})
	at := f.lastStamp()
	sent := f.got("chat.postMessage")[1]
	raw, _ := json.Marshal(sent["blocks"])
	if text, _ := shown(sent); text != card.Text || sent["channel"] != "U42" || !strings.Contains(string(raw), `"value":"aaaaaaaaaaaaaaaa"`) {
		t.Errorf("have %v", sent)
	}
	h.Stop()
	h = start(t, f, dir, "C")
	card.Buttons, card.Text = nil, "Approved once by ada."
	f.fails("chat.update", drop)
	for range 3 {
		h.Shows(card)
	}
	h.Until("its end", func() bool { return len(f.got("chat.update")) == 2 })
	ended := f.got("chat.update")[1]
	raw, _ = json.Marshal(ended["blocks"])
	if text, _ := shown(ended); ended["ts"] != at || ended["channel"] != "D42" || text != card.Text || strings.Contains(string(raw), "button") {
		t.Errorf("have %v", ended)
	}
	h.Stop()
	if have := len(f.got("chat.postMessage")) + len(f.got("chat.update")); have != 4 {
		t.Errorf("have %d messages and edits, want 4", have)
	}
}

// M-47: a press names the person, in their team, and the button, once, and is acknowledged at
// once. What became of it is said to whoever pressed alone, and to a stranger nothing. It gets
// through where messages wait.
func TestAPressIsBroughtToTheHost(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	h.Change(func() {
		h.Busy = 1 << 30 // no message is taken
		h.Decides = func(p plugin.Press) *plugin.Pressed {
			switch {
			case p.User == "T1:U13":
				return &plugin.Pressed{Refused: true}
			case p.Button == "old":
				return &plugin.Pressed{Said: "Nothing was decided: <it> " + strings.Repeat("x", 300), Refused: true, Over: true}
			case p.Button == "fails":
				return nil
			}
			return &plugin.Pressed{Said: "Approved once by ada."}
		}
	})
	f.message("U42", "D42", "a message that waits", nil)
	h.Until("its refusal", func() bool { return h.Refusals() < 1<<30 })
	for _, wrong := range []any{
		nil, []any{}, map[string]any{"type": "view_submission"}, map[string]any{"type": "block_actions", "user": map[string]any{"id": "U42", "team_id": "T1"}, "actions": []any{}},
		map[string]any{"type": "block_actions", "user": map[string]any{"id": "ada", "team_id": "T1"}, "actions": []any{map[string]any{"type": "button", "block_id": "nacre", "value": "good", "action_ts": "1.1"}}},
		map[string]any{"type": "block_actions", "user": map[string]any{"id": "U42"}, "actions": []any{map[string]any{"type": "button", "block_id": "nacre", "value": "good", "action_ts": "1.1"}}},
		map[string]any{"type": "block_actions", "user": map[string]any{"id": "U42", "team_id": "T1"}, "actions": []any{map[string]any{"type": "button", "block_id": "other", "value": "good", "action_ts": "1.1"}}},
	} {
		f.brings("interactive", wrong)
	}
	f.brings("slash_commands", map[string]any{"command": "/kill"})
	told := 0
	for n, c := range []struct {
		user, value, said string
		edits             bool
	}{
		{"U42", "good", "Approved once by ada.", false}, {"U13", "good", "", false}, {"U42", "old", "Nothing was decided: <it> xxx", true},
		{"U42", "fails", "nacre did not answer", false}, {"U42", strings.Repeat("y", 2000), "Approved", false},
	} {
		edits := len(f.got("chat.update"))
		f.press(c.user, c.value, fmt.Sprint(n, ".5"), stamp(7))
		f.press(c.user, c.value, fmt.Sprint(n, ".5"), stamp(7)) // which Slack brings twice
		if c.said != "" {
			told++
		}
		h.Until("the press", func() bool { return len(h.Presses()) == n+1 && len(f.got("chat.postEphemeral")) == told })
		if p := h.Presses()[n]; p.User != "T1:"+c.user || p.Channel != "slack" || p.Button != c.value[:min(len(c.value), 64)] {
			t.Errorf("have %+v", p)
		}
		if c.said != "" {
			have := f.got("chat.postEphemeral")[told-1]
			if text, _ := shown(have); !strings.HasPrefix(text, c.said) || have["user"] != c.user || have["channel"] != "D"+c.user[1:] {
				t.Errorf("have %v, want %s", have, c.said)
			}
		}
		if c.edits {
			h.Until("the old card", func() bool { return len(f.got("chat.update")) == edits+1 })
			if have := f.got("chat.update")[edits]; have["ts"] != stamp(7) {
				t.Errorf("have %v", have)
			}
		}
	}
	h.Until("all presses to be acknowledged", func() bool { return len(f.waiting()) == 1 })
	if len(h.Once()) != 0 || len(f.got("chat.postMessage")) != 0 {
		t.Error("a message was taken, or something was sent")
	}
	h.Change(func() { h.Busy = 0 })
	h.Until("the message", func() bool { return len(h.Once()) == 1 && f.allAcked() })
}

// M-40: what a person asks of the host itself gets through where messages wait, once, and is
// answered to them alone. An old one, one in a channel, and a stranger's are nothing.
func TestCommands(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	h.Change(func() {
		h.Busy = 1 << 30 // no message is taken
		h.Commanded = func(c plugin.Command) string {
			if c.User == "T1:U13" {
				return ""
			}
			return fmt.Sprintf("<%s %s %s>", c.Channel, c.Name, c.Session)
		}
	})
	at := func(age time.Duration, n int) map[string]any {
		return map[string]any{"ts": fmt.Sprintf("%d.%06d", time.Now().Add(-age).Unix(), n)}
	}
	f.message("U42", "D42", "waits", nil)
	f.message("U42", "D42", "!kill old", at(time.Hour, 1))
	f.message("U13", "D13", "!status", at(0, 2))
	f.message("U42", "C1", "!kill of-a-channel", at(0, 3))
	f.message("U42", "D42", "!status", at(0, 4))
	kill := at(0, 5)
	f.message("U42", "D42", " /kill asks", kill)
	f.message("U42", "D42", " /kill asks", kill)
	h.Until("both answers", func() bool { return len(f.got("chat.postMessage")) == 2 && len(f.waiting()) == 2 })
	for n, want := range []string{"<slack status >", "<slack kill asks>"} {
		m := f.got("chat.postMessage")[n]
		if text, _ := shown(m); m["channel"] != "D42" || m["thread_ts"] != nil || text != want {
			t.Errorf("have %v, want %s", m, want)
		}
	}
	h.Change(func() { h.Busy = 0 })
	h.Until("the messages", f.allAcked)
	if m := h.Once(); len(m) != 2 || m[0].Body != "waits" || m[1].Body != "!kill of-a-channel" || len(f.got("chat.postMessage")) != 2 {
		t.Errorf("have %+v and %d answers", m, len(f.got("chat.postMessage")))
	}
}

// M-46: who writes pair alone to the bot is shown a code while somebody is being paired, and at any
// other time nothing. It never is a message.
func TestPairing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	f.message("U13", "D13", "pair", nil)
	f.message("U13", "C5", "pair", nil)
	h.Until("both", func() bool { return f.allAcked() && len(h.Once()) == 1 })
	if len(f.got("chat.postMessage")) != 0 || h.Once()[0].Metadata.Chat != "C5" { // a channel's is a message like others
		t.Errorf("have %v, %v", f.got("chat.postMessage"), h.Once())
	}
	h.Change(func() { h.Code = "ABCD2345" })
	f.message("U13", "D13", " /pair ", nil)
	h.Until("the code", func() bool { return len(f.got("chat.postMessage")) == 1 })
	m := f.got("chat.postMessage")[0]
	if text, _ := shown(m); m["channel"] != "D13" || m["thread_ts"] != nil || !strings.Contains(text, "ABCD2345") {
		t.Errorf("have %v", m)
	}
}

// M-48: a file that came with a message is read where Slack holds files, and the bot's token goes
// to no other host, whatever Slack or a message says.
func TestFilesComeIn(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.files["F1"] = "the harbour"
	h := start(t, f, t.TempDir(), "C")
	f.message("U42", "C1", "", map[string]any{"subtype": "file_share", "files": []any{
		map[string]any{"id": "F1", "name": "a.txt", "size": 11, "url_private_download": "http://other.test/"}, map[string]any{"id": "../x", "name": "b"}}})
	f.message("U43", "C2", "another conversation", nil)

	h.Until("the messages", func() bool { return len(h.Taken()) == 2 })
	have := h.Taken()
	name := chattest.Named(have[0], 1)
	if name == "" || chattest.Named(have[0], 2) != "" {
		t.Fatalf("have %s", have[0].Body)
	}
	h.WokenBy(have[1])
	for _, chat := range []string{"C1", "C2"} {
		if said := h.ReadFile(chat, name, 0, "text"); !strings.Contains(said, "NOT_FOUND") {
			t.Errorf("have %s", said)
		}
	}
	h.WokenBy(have[0])
	for _, elsewhere := range []string{"http://other.test", "http://files.api.test.other.test", "http://a:b@files.api.test", "https://files.api.test"} {
		f.mu.Lock()
		f.held = elsewhere
		f.mu.Unlock()
		if said := h.ReadFile("C1", name, 0, "text"); !strings.Contains(said, "UNREACHED") {
			t.Errorf("%s: have %s", elsewhere, said)
		}
	}
	f.mu.Lock()
	f.held = "http://files.api.test"
	f.mu.Unlock()
	f.fails("files.info", no("missing_scope"))
	if said := h.ReadFile("C1", name, 0, "text"); !strings.Contains(said, "NOT_TAKEN") || !strings.Contains(said, "missing_scope") {
		t.Errorf("have %s", said)
	}
	if said := h.ReadFile("C1", name, 0, "text"); !strings.Contains(said, `"content":"the harbour"`) {
		t.Errorf("have %s", said)
	}
}

// M-48: a file of the project goes out after the text, into the thread that is answered. Until it
// is shared nobody has seen it, and it may be sent again.
func TestFilesGoOut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	stamp := f.message("U42", "C1", "draw", nil)
	h.Until("the message", func() bool { return len(h.Taken()) == 1 })
	h.WokenBy(h.Taken()[0])
	if have := h.SendFile("C1", "here", "out/a.png", []byte("PNG")); !strings.Contains(have, `"messages":2`) {
		t.Fatalf("have %s", have)
	}
	shared := f.got("files.completeUploadExternal")
	if len(shared) != 1 || shared[0]["channel_id"] != "C1" || shared[0]["thread_ts"] != stamp || fmt.Sprint(shared[0]["files"]) != "[map[id:F900 title:a.png]]" || f.files["F900"] != "PNG" {
		t.Errorf("have %v, %v", shared, f.files)
	}
	f.fails("files.getUploadURLExternal", drop, no("internal_error"))
	if have := h.SendFile("C1", "here", "a.png", []byte("PNG")); !strings.Contains(have, `"messages":2`) {
		t.Errorf("have %s", have)
	}
	f.fails("files.completeUploadExternal", drop)
	if have := h.SendFile("C1", "here", "a.png", []byte("PNG")); !strings.Contains(have, "NOT_KNOWN (retriable false)") {
		t.Errorf("have %s", have)
	}
}
