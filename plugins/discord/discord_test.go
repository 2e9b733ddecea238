package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/nacre-dev/nacre/internal/chat/chattest"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/plugin"
	discord "github.com/nacre-dev/nacre/plugins/discord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a handler over a data folder. ticket is empty where no channels are served.
func start(t testing.TB, f *fake, dir, ticket string) *chattest.Host {
	t.Helper()
	return chattest.Start(t, func(in io.Reader, out io.Writer, waited func(time.Duration)) error {
		return discord.Serve(in, out, func(string) string { return f.URL }, f.patience, waited)
	}, chattest.Options{Channel: "discord", Config: `{"api":"http://api.test/api/v10"}`, Dir: dir, Ticket: ticket, Secrets: map[string]string{"token": token}})
}

// named is a text that names the bot.
func named(text string) string { return "<@" + self + "> " + text }

// listening starts a handler and waits until it hears.
func listening(t testing.TB, f *fake, dir string) *chattest.Host {
	t.Helper()
	h := start(t, f, dir, "C")
	h.Until("a connection", f.connected)
	return h
}

// M-48: whatever the service does, each message is taken, in the order in which it was written,
// and one that comes again has the same name.
func TestNoMessageIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opens   []fault
		greets  []greeting
		forgets bool // Discord does not know the session any more
		waits   time.Duration
		anew    bool // another session has to begin
	}{
		"is well":                        {},
		"drops, and goes on":             {greets: []greeting{leaves, leaves, leaves}, waits: 4 * time.Second},
		"drops, and begins anew":         {forgets: true, anew: true},
		"asks for a new connection":      {greets: []greeting{ends(`{"op":7,"d":null}`), ends(`{"op":7}`)}},
		"says that the session goes on":  {greets: []greeting{ends(`{"op":9,"d":true}`)}},
		"says that the session is over":  {greets: []greeting{ends(`{"op":9,"d":false}`)}, anew: true, waits: time.Second},
		"says something of the session":  {greets: []greeting{ends(`{"op":9}`)}, anew: true},
		"forgot its place":               {greets: []greeting{closes(4007)}, anew: true},
		"was waiting for too long":       {greets: []greeting{closes(4009)}, anew: true},
		"was told too much":              {greets: []greeting{closes(4008)}},
		"does not know why":              {greets: []greeting{closes(4000), closes(1001), closes(1011)}},
		"wants several connections":      {greets: []greeting{closes(4011)}, anew: true, waits: 5 * time.Minute},
		"wants another version":          {greets: []greeting{closes(4012)}, anew: true, waits: 5 * time.Minute},
		"beats":                          {greets: []greeting{speaks(websocket.TextMessage, `{"op":1,"d":null}`)}},
		"speaks no JSON":                 {greets: []greeting{speaks(websocket.TextMessage, `{"op":0,"t":"MES`), speaks(websocket.TextMessage, `[]`), speaks(websocket.TextMessage, "")}},
		"speaks bytes":                   {greets: []greeting{speaks(websocket.BinaryMessage, "\x00\x01")}},
		"speaks without end":             {greets: []greeting{speaks(websocket.TextMessage, `"`+strings.Repeat("x", 2<<20)+`"`)}},
		"speaks of what nobody knows":    {greets: []greeting{speaks(websocket.TextMessage, `{"op":77,"d":{}}`), speaks(websocket.TextMessage, `{"op":0,"t":"TOMORROW","d":[]}`), speaks(websocket.TextMessage, `{"op":0,"t":"MESSAGE_CREATE","d":null}`)}},
		"beats without an interval":      {greets: []greeting{speaks(websocket.TextMessage, `{"op":10}`), speaks(websocket.TextMessage, `{"op":10,"d":{"heartbeat_interval":0}}`)}},
		"is nobody":                      {greets: []greeting{speaks(websocket.TextMessage, `{"op":0,"t":"READY","s":1,"d":{"session_id":"x","user":{"id":"me"}}}`)}},
		"opens nothing":                  {forgets: true, anew: true, opens: []fault{drop, says(502, "<html>bad gateway</html>"), no(500, 0), says(200, `{"url":`), says(302, ""), says(200, "[]")}, waits: 16 * time.Second},
		"opens too often":                {forgets: true, anew: true, opens: []fault{limited("77", "")}, waits: 77 * time.Second},
		"opens too often, in fractions":  {forgets: true, anew: true, opens: []fault{limited("", `,"retry_after":64.57,"global":true`)}, waits: 65 * time.Second},
		"opens too often for years":      {forgets: true, anew: true, opens: []fault{limited("2147483647", "")}, waits: time.Hour},
		"opens too often for ages":       {forgets: true, anew: true, opens: []fault{limited("1e300", "")}, waits: time.Hour},
		"opens none today":               {forgets: true, anew: true, opens: []fault{says(200, `{"url":"ws://gateway.test","session_start_limit":{"remaining":0,"reset_after":77000}}`)}, waits: 77 * time.Second},
		"opens what is no gateway":       {forgets: true, anew: true, opens: []fault{says(200, `{"url":"http://x.test/"}`), says(200, `{"url":"ws://u:p@gateway.test"}`), says(200, `{"url":7}`), says(200, `{}`)}},
		"opens a gateway of another":     {forgets: true, anew: true, opens: []fault{says(200, `{"url":"ws://evil.test"}`)}},
		"opens nothing that it may have": {forgets: true, anew: true, opens: []fault{no(403, 50001)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			h := listening(t, f, t.TempDir())
			f.message("42", room, named("message 0"), nil)
			h.Until("the first message", func() bool { return len(h.Once()) == 1 })
			f.fails("gateway/bot", c.opens...)
			if len(c.opens) > 0 { // else it goes on where it was told to
				f.greetsBy(leaves)
			}
			f.greetsBy(c.greets...)
			f.ends(c.forgets)
			for i := range 2 {
				f.message("42", room, named(fmt.Sprint("message ", i+1)), nil)
			}
			h.Until("the messages", func() bool { return len(h.Once()) == 3 && f.connected() })
			for i, m := range h.Once() {
				if m.Body != fmt.Sprint("message ", i) || m.Sender != "42" || m.Metadata.Chat != room || m.Channel != "discord" {
					t.Errorf("have %+v as number %d", m, i)
				}
			}
			longest := time.Duration(0)
			for _, w := range h.Waits() {
				longest = max(longest, w)
			}
			if longest < c.waits || c.anew != (f.has(&f.ready) > 1) || !c.anew && f.has(&f.resumed) == 0 {
				t.Errorf("it waited %v; %d sessions began, %d went on", h.Waits(), f.has(&f.ready), f.has(&f.resumed))
			}
		})
	}
}

// M-48: a connection on which nothing comes is given up, though Discord wants to be asked for a
// sign of life only every 41 s.
func TestASilentConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.patience = 2 * time.Second
	f.greetsBy(silent)
	h := start(t, f, t.TempDir(), "C")
	h.Until("a connection", f.connected)
	f.message("42", private, "hello", nil)
	h.Until("the message", func() bool { return len(h.Once()) == 1 })
	h.Until("signs of life", func() bool { return f.has(&f.beats) > 1 })
}

// M-48: what the host does not take is brought again until it is, also over connections, and by
// the next process.
func TestAMessageIsBroughtUntilItIsTaken(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := listening(t, f, dir)
	f.message("42", private, "zero", nil)
	h.Until("it", func() bool { return len(h.Once()) == 1 })
	h.Change(func() { h.Busy = 1 << 30 })
	f.message("42", private, "one", nil)
	h.Until("a refusal", func() bool { return h.Refusals() < 1<<30-2 })
	f.ends(false)
	h.Until("another connection", func() bool { return f.has(&f.resumed) == 1 })
	h.Stop()
	next := start(t, f, dir, "C")
	next.Until("the message in the next process", func() bool { return len(next.Once()) == 1 && next.Once()[0].Body == "one" })
	f.message("42", private, "two", nil)
	next.Until("the next", func() bool { return len(next.Once()) == 2 })
}

// M-48: what was written while nothing ran is asked for, page by page, also in threads, and also
// where Discord refuses that at first. In a channel nothing is but what names the bot.
func TestWhatWasWrittenMeanwhileIsAskedFor(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := listening(t, f, dir)
	f.message("42", private, "first", nil)
	root := f.message("42", room, named("begins"), nil)
	h.Until("them", func() bool { return len(h.Once()) == 2 })
	h.WokenBy(h.Once()[1])
	h.Send(room, "an answer, which begins the thread")
	f.message("42", root, "in the thread", nil)
	h.Until("that", func() bool { return len(h.Once()) == 3 })
	h.Stop()
	f.ends(true)
	want := map[string]bool{"the thread again": true, "once more": true}
	for i := range 120 {
		text := fmt.Sprint("missed ", i)
		want[text] = true
		f.message("42", private, text, nil)
	}
	f.message("42", root, "the thread again", nil)
	f.message("42", room, named("once more"), nil)
	f.message("42", room, "to others", nil)
	f.message("42", private, "a bot's", map[string]any{"author": map[string]any{"id": "42", "bot": true}})
	f.message("42", "501", named("elsewhere"), nil)
	f.message("42", private, "!kill asks", nil)
	f.fails("GET channels/"+private+"/messages", limited("9", ""), drop, no(500, 0))
	f.fails("GET channels/"+root+"/messages", says(502, "x"), says(200, "{}"))
	next := listening(t, f, dir)
	f.message("42", private, "now", nil)
	want["now"] = true
	next.Until("what was missed", func() bool { return len(next.Once()) >= len(want) })
	last := -1
	for _, m := range next.Once() {
		if !want[m.Body] {
			t.Errorf("%q was brought", m.Body)
		}
		if n, found := strings.CutPrefix(m.Body, "missed "); found {
			if at, err := strconv.Atoi(n); err != nil || at != last+1 {
				t.Errorf("%q came after number %d", m.Body, last)
			}
			last++
		}
		if m.Body == "the thread again" && (m.Metadata.Session != "thread-"+root || m.Metadata.Chat != room) {
			t.Errorf("have %+v", m)
		}
	}
}

// M-48: what cannot be asked for stays unasked for: what comes meanwhile does not hide it, and a
// session that goes on asks for it too.
func TestWhatCannotBeAskedForIsAskedForLater(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := listening(t, f, dir)
	f.message("42", private, "first", nil)
	h.Until("it", func() bool { return len(h.Once()) == 1 })
	h.Stop()
	f.ends(true)
	f.message("42", private, "missed", nil)
	path := "GET channels/" + private + "/messages"
	for range 6 {
		f.fails(path, drop)
	}
	next := listening(t, f, dir)
	next.Until("the failures", func() bool { return len(f.got(path)) >= 6 })
	f.message("42", private, "later", nil)
	next.Until("the later one", func() bool { return len(next.Once()) >= 1 })
	f.ends(false)
	next.Until("the one that was missed", func() bool {
		for _, m := range next.Once() {
			if m.Body == "missed" {
				return true
			}
		}
		return false
	})
}

// A token that was revoked is read anew; no error says it.
func TestARevokedTokenIsReadAnew(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	f.message("42", private, "one", nil)
	h.Until("a message", func() bool { return len(h.Once()) == 1 })
	f.mu.Lock()
	f.token = second
	f.mu.Unlock()
	f.ends(false)
	h.Until("a long pause", func() bool { return h.HasWaited(5 * time.Minute) })
	if have := h.Send(private, "hi"); !strings.Contains(have, "AUTH") || strings.Contains(have, "quiet") {
		t.Errorf("have %s", have)
	}
	h.Change(func() { h.Secrets = map[string]string{"token": second} })
	f.message("42", private, "two", nil)
	h.Until("the next message", func() bool { return len(h.Once()) == 2 })
}

// Where the application's page does not let the bot read everything, it hears what is written to
// it alone and what names it, and goes on.
func TestWithoutTheRightToReadEverything(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.content = false
	h := listening(t, f, t.TempDir())
	root := f.message("42", room, named("one"), nil)
	h.Until("it", func() bool { return len(h.Once()) == 1 })
	f.message("42", root, "not named", nil)
	f.message("42", root, named("two"), nil)
	f.message("42", private, "three", nil)
	h.Until("the others", func() bool { return len(h.Once()) == 3 })
	for i, want := range []string{"one", "two", "three"} {
		if have := h.Once()[i].Body; have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

// One handler of a data folder listens: Discord would bring everything to both.
func TestOneHandlerListens(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	one := listening(t, f, dir)
	two := start(t, f, dir, "C")
	f.message("42", private, "one", nil)
	one.Until("the message", func() bool { return len(one.Once()) == 1 })
	one.Stop()
	f.message("42", private, "two", nil)
	two.Until("the next message", func() bool { a := two.Once(); return len(a) == 1 && a[0].Body == "two" })
	start(t, f, dir, "").Stop() // that of a session does not listen
}

// M-46, M-48: a sender is the number of one person. What a bot or a webhook writes, what the
// service says, and what does not name the bot is not brought. A stranger is told nothing.
func TestWhoIsHeard(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	h.Change(func() { h.Routed = func(sender string) bool { return sender != "13" } })
	for _, c := range []struct {
		user, to, text string
		more           map[string]any
	}{
		{"13", "13000", "/start", nil}, {"13", "13000", "help", nil}, {"42", room, "to others", nil},
		{"42", room, named("a bot's"), map[string]any{"author": map[string]any{"id": "42", "bot": true}}},
		{"42", room, named("a webhook's"), map[string]any{"webhook_id": "9"}},
		{"42", room, named("joined"), map[string]any{"type": 7}},
		{"", room, named("nobody's"), nil}, {"ada", room, named("a name's"), nil}, {"042", room, named("another's"), nil}, {"42", "../x", named("nowhere"), nil},
		{"42", room, named("never"), map[string]any{"id": "-5"}}, {"42", room, named("in a guild of words"), map[string]any{"guild_id": "x"}}, {"42", room, named(" "), nil},
	} {
		f.message(c.user, c.to, c.text, c.more)
	}
	f.message("42", room, named("look"), map[string]any{"attachments": []any{map[string]any{"filename": "a\nb\"c"}, map[string]any{"filename": "d"}}})
	id := f.message("42", room, "<@!"+self+"> "+strings.Repeat("😀", 9000), map[string]any{"mentions": []any{map[string]any{"id": self}}})
	f.message("42", room, named("the same"), map[string]any{"id": id})
	h.Until("the messages", func() bool { return len(h.Taken()) == 3 })
	have := h.Taken()
	if !strings.HasPrefix(have[0].Body, "look\n[file 1 is called \"a b\\\"c\"; it cannot be read here") || have[1].Body != strings.Repeat("😀", 8092)+"\n[the last 908 characters of the message are left out here]" {
		t.Fatalf("have %.300v", have)
	}
	if have[0].Sender != "42" || have[1].Metadata.Ref != have[2].Metadata.Ref || have[2].Body != "the same" {
		t.Errorf("have %+v", have[2])
	}
	if posts := f.posts(); len(posts) != 0 {
		t.Errorf("strangers were told %v", posts)
	}
}

// M-40: a message begins a conversation, and what is written in its thread goes on with it. The
// answer begins the thread, once. Where the bot may begin none, and where a person and the bot are
// alone, it answers the message.
func TestAThreadIsASession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	f.mu.Lock()
	f.rooms["800"] = map[string]any{"id": "800", "type": 12, "parent_id": "502"} // of somebody else
	f.mu.Unlock()
	root := f.message("42", room, named("what is\ndue?"), nil)
	f.message("43", room, named("two"), nil)
	f.message("43", root, "and then?", nil)
	f.message("43", "800", named("here"), nil)
	f.message("43", "800", "goes on", nil)
	first := f.message("42", private, "alone", nil)
	f.message("42", private, "goes on alone", map[string]any{"type": 19, "message_reference": map[string]any{"message_id": first}})
	f.message("42", private, "anew alone", nil)
	h.Until("all", func() bool { return len(h.Once()) == 8 })
	m := h.Once()
	for _, c := range []struct {
		one, other int
		same       bool
	}{{0, 1, false}, {0, 2, true}, {3, 4, true}, {0, 3, false}, {5, 6, true}, {5, 7, false}} {
		a, b := m[c.one].Metadata, m[c.other].Metadata
		if a.Session == "" || (a.Session == b.Session) != c.same {
			t.Errorf("%q and %q: have %s and %s", m[c.one].Body, m[c.other].Body, a.Session, b.Session)
		}
	}
	if m[2].Metadata.Chat != room || m[3].Metadata.Chat != "502" {
		t.Errorf("have %+v and %+v", m[2], m[3])
	}
	f.fails("POST channels/"+room+"/messages/"+strings.Split(m[1].Metadata.Ref, "-")[1]+"/threads", no(403, 50013))
	for n, c := range []struct {
		about   int
		to      string
		channel string
		answers any
	}{
		{0, room, root, nil}, {0, room, root, nil}, {2, room, root, nil}, {1, room, room, strings.Split(m[1].Metadata.Ref, "-")[1]}, {0, "503", "503", nil},
		{4, "502", "800", nil}, {5, private, private, first}, {5, private, private, first},
	} {
		h.WokenBy(m[c.about])
		if have := h.Send(c.to, "an answer"); !strings.Contains(have, `"sent"`) {
			t.Fatal(have)
		}
		post := f.posts()[n]
		answers, _ := post["message_reference"].(map[string]any)
		if post["channel"] != c.channel || answers["message_id"] != c.answers {
			t.Errorf("to %q: have %v", m[c.about].Body, post)
		}
	}
	if begun := f.got(root + "/threads"); len(begun) != 1 || begun[0]["name"] != "what is" && begun[0]["name"] != "<@900> what is" {
		t.Errorf("have the threads %v", begun)
	}
	f.message("42", private, "to the answer", map[string]any{"message_reference": map[string]any{"message_id": f.lastNumber()}})
	h.Until("it", func() bool { return len(h.Once()) == 9 })
	if have := h.Once()[8].Metadata.Session; have != m[5].Metadata.Session {
		t.Errorf("have %s, want that of what was answered", have)
	}
}

// M-48: how the work goes is one message, which is edited, also where Discord wants that later.
func TestProgressIsOneMessage(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	for n, c := range []struct {
		answer         bool
		topic, outcome string
		want           string
	}{
		{true, "agent.completed", "done", "Done."}, {false, "agent.completed", "done", "The agent ended without an answer."},
		{false, "agent.error", "<@42> no *brain*", "No answer will come: <@42> no *brain*"}, {false, "agent.error", "interrupted twice", "A message of yours was given up"},
	} {
		root := f.message("42", room, named(strconv.Itoa(n)), nil)
		h.Until("the message", func() bool { return len(h.Once()) == n+1 })
		m := h.Once()[n]
		posts := len(f.posts())
		h.Tells("agent.started", m, "")
		h.Tells("agent.started", m, "")
		h.Until("the progress", func() bool { return len(f.posts()) == posts+1 })
		if c.answer {
			h.WokenBy(m)
			h.Until("the answer", func() bool { return strings.Contains(h.Send(room, "yes"), `"sent"`) })
		}
		f.mu.Lock()
		f.faults["PATCH channels/"+root+"/messages/"+strconv.Itoa(f.last)] = nil
		f.mu.Unlock()
		edits := len(f.edits())
		h.Tells(c.topic, m, c.outcome)
		h.Until("the edit", func() bool { return len(f.edits()) == edits+1 })
		begun, last := f.posts()[posts], f.edits()[edits]
		if begun["channel"] != root || !strings.HasPrefix(last["at"].(string), root+"/") || !strings.HasPrefix(shown(last), c.want) {
			t.Errorf("have %v after %v, want %s", last, begun, c.want)
		}
	}
	f.message("42", private, "later", nil)
	h.Until("the message", func() bool { return len(h.Once()) == 5 })
	posts := len(f.posts())
	h.Tells("agent.started", h.Once()[4], "")
	h.Until("the progress", func() bool { return len(f.posts()) == posts+1 })
	edits := len(f.edits())
	f.fails("PATCH channels/"+private+"/messages/"+f.lastNumber(), limited("2", ""))
	h.Tells("agent.completed", h.Once()[4], "done")
	h.Until("the second try", func() bool { return len(f.edits()) == edits+2 })
}

// What cannot be sent says why; what may have been sent is not sent again. Discord's limits are
// kept to before it has to say so. No text calls anybody, and none is markup.
func TestSending(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "")
	marks := strings.Repeat("*_~|<@:[", 400)
	for _, c := range []struct {
		name, recipient, body string
		faults, after         []fault
		want                  string
		calls                 int
	}{
		{name: "one", recipient: room, body: "hello", want: `"messages":1`, calls: 1},
		{name: "long", recipient: room, body: strings.Repeat("word ", 1000), want: `"messages":3`, calls: 3},
		{name: "long, and all of it markup", recipient: room, body: marks, want: `"messages":2`, calls: 2},
		{name: "too often", recipient: room, body: "x", faults: []fault{limited("1", ""), limited("x", ""), limited("", `,"retry_after":0.3`)}, want: `"sent"`, calls: 4},
		{name: "for an hour", recipient: "501", body: "x", faults: []fault{limited("3600", "")}, want: "TOO_OFTEN (retriable true)", calls: 1},
		{name: "within that hour", recipient: "501", body: "x", want: "TOO_OFTEN (retriable true)"},
		{name: "lost", recipient: room, body: "x", after: []fault{drop}, want: "NOT_KNOWN (retriable false)", calls: 1},
		{name: "a failure", recipient: room, body: "x", faults: []fault{no(500, 0)}, want: "NOT_KNOWN (retriable false)", calls: 1},
		{name: "a page", recipient: room, body: "x", faults: []fault{says(502, "<html>")}, want: "NOT_KNOWN (retriable false)", calls: 1},
		{name: "no number", recipient: room, body: "x", after: []fault{says(200, "{}")}, want: "NOT_KNOWN (retriable false)", calls: 1},
		{name: "half", recipient: room, body: strings.Repeat("word ", 600), after: []fault{says(200, `{"id":"7"}`), drop}, want: "1 of 2 parts were sent", calls: 2},
		{name: "no right", recipient: room, body: "x", faults: []fault{no(403, 50013)}, want: "NOT_TAKEN", calls: 1},
		{name: "nowhere", recipient: "404", body: "x", want: "NOT_TAKEN", calls: 1},
		{name: "a name", recipient: "#general", body: "x", want: "UNKNOWN_RECIPIENT"},
		{name: "a path", recipient: "../5", body: "x", want: "UNKNOWN_RECIPIENT"},
		{name: "nothing to see", recipient: room, body: " \n\u202e\x00", want: "EMPTY"},
		{name: "a thousand blocks", recipient: room, body: strings.Repeat("```\na\n```\n", 1000), want: `"sent"`, calls: 1},
		{name: "markup of others", recipient: room, body: "@everyone <@1> [x](https://x.test) *b* `a<b` \n```go\nif a < b && c {}\n```", want: `"sent"`, calls: 1},
	} {
		path := "POST channels/" + c.recipient + "/messages"
		before := len(f.posts())
		f.fails(path, c.faults...)
		f.loses(path, c.after...)
		have := h.Send(c.recipient, c.body)
		if !strings.Contains(have, c.want) || len(f.posts())-before != c.calls || strings.Contains(have, "quiet") {
			t.Errorf("%s: have %s after %d calls", c.name, have, len(f.posts())-before)
		}
	}
	f.mu.Lock()
	f.headers = map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "17.2"}
	f.mu.Unlock()
	h.Send(room, "the last one for now")
	f.mu.Lock()
	f.headers = nil
	f.mu.Unlock()
	h.Send(room, "a `b<` c\n```go\nd & e\n```\nf_")
	all := f.posts()
	if have, want := all[len(all)-1]["content"], "a `b<` c\n```\nd & e\n```f\\_"; have != want {
		t.Errorf("have %q, want %q", have, want)
	}
	if !h.HasWaited(10 * time.Second) {
		t.Errorf("it waited %v", h.Waits())
	}
}

// A text is shown as it stands, wherever its marks are.
func TestEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a*b_c": `a\*b\_c`, "# x\n#y": "\\# x\n\\#y", "> q": `\> q`, "- a\n  + b": "\\- a\n  \\+ b", "3. c\n4) d\n5 e": "3\\. c\n4\\) d\n5 e", "a - b. c": "a - b. c",
		"https://x.test": `https\://x.test`, "<@1> @here": `\<\@1> \@here`, "-# small": `\-# small`, `\`: `\\`, "": "", "12": "12", "[a](b)": `\[a\](b)`,
	} {
		if have := discord.Escaped(text); have != want || unmarked(have) != text {
			t.Errorf("%q: have %q, want %q", text, have, want)
		}
	}
}

func FuzzEscaped(f *testing.F) {
	for _, seed := range []string{"- a\n1. b", "\\", "> > x", "```", strings.Repeat("#\n", 900)} {
		corpus.Add(f, seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if have := discord.Escaped(text); len(have) > 2*len(text) || unmarked(have) != strings.ToValidUTF8(text, "\uFFFD") && strings.ToValidUTF8(text, "") == text {
			t.Errorf("%q became %q", text, have)
		}
	})
}

func FuzzRef(f *testing.F) {
	f.Add("500", "1000", "", "500-1000")
	f.Add("1", "2", "3", "1-2-3")
	f.Fuzz(func(t *testing.T, channel, message, thread, text string) {
		if c, m, th, ok := discord.PlaceOf(text); ok && discord.Ref(c, m, th) != text {
			t.Errorf("%q is read as %s %s %s", text, c, m, th)
		}
		ref := discord.Ref(channel, message, thread)
		if c, m, th, ok := discord.PlaceOf(ref); ok && (discord.Ref(c, m, th) != ref || len(ref) > 64) {
			t.Errorf("%q is read as %s %s %s", ref, c, m, th)
		}
	})
}

// A configuration that cannot work says so, tries the token and the way to the gateway, and
// never shows the token.
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
	for config, want := range map[string]string{`{"api":"http://api.test/api/v10"}`: "", `{"api":"ftp://x"}`: "CONFIG_ERROR", `{"api":"https://u:p@x.test"}`: "CONFIG_ERROR", `{"api":""}`: "CONFIG_ERROR"} {
		have := code(h.Ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "discord", Config: json.RawMessage(config), DataDir: t.TempDir(), Ticket: "T"}))
		if !strings.HasPrefix(have, want) || want == "" && have != "" {
			t.Errorf("%s: have %q, want %q", config, have, want)
		}
	}
	h = start(t, f, t.TempDir(), "")
	for _, c := range []struct {
		token, want string
		me, opens   fault
		where       string
	}{
		{token: token}, {want: "AUTH_ERROR The bot has no token"}, {token: "Bot " + token, want: "AUTH_ERROR The token is not"}, {token: token[:30] + "\r\nx: y-quiet", want: "AUTH_ERROR The token is not"},
		{token: second, want: "AUTH_ERROR Discord does not know the token"}, {token: token, me: drop, want: "NETWORK_ERROR Discord was not reached"}, {token: token, me: no(403, 40001), want: "NETWORK_ERROR The token could not be tried: Discord said 403 (40001)"},
		{token: token, me: says(200, `{"ok":true}`), want: "CONFIG_ERROR"}, {token: token, me: says(200, `{"id":"42"}`), want: "AUTH_ERROR The token is a person's"},
		{token: token, opens: drop, want: "NETWORK_ERROR Discord did not say"}, {token: token, where: "ws://other.test", want: "NETWORK_ERROR Discord's gateway was not reached"}, {token: token, where: "http://gateway.test", want: "NETWORK_ERROR Discord did not say"},
	} {
		f.mu.Lock()
		if f.where = "ws://gateway.test"; c.where != "" {
			f.where = c.where
		}
		f.mu.Unlock()
		for path, todo := range map[string]fault{"users/@me": c.me, "gateway/bot": c.opens} {
			if todo != nil {
				f.fails(path, todo)
			}
		}
		h.Change(func() { h.Secrets = map[string]string{"token": c.token} })
		if have := code(h.Ask(plugin.MethodVerify, plugin.VerifyParams{Ticket: "T"})); !strings.HasPrefix(have, c.want) || c.want == "" && have != "" {
			t.Errorf("have %q, want %q", have, c.want)
		}
	}
}

// M-47: a card is shown once to its person, whole, and its buttons go with its end, over a
// restart too.
func TestACardIsShownOnce(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := start(t, f, dir, "C")
	card := plugin.Card{Channel: "discord", To: "42", ID: "c1", Text: "pay *1* & <@1> `x`\n```\nall of it\n```\n1. " + strings.Repeat("_", 1200), Buttons: []plugin.Button{{ID: "aaaaaaaaaaaaaaaa", Label: "Approve once"}, {ID: "bbbbbbbbbbbbbbbb", Label: "Deny"}}}
	f.fails("POST channels/"+private+"/messages", no(500, 0))
	f.fails("users/@me/channels", drop)
	for _, other := range []plugin.Card{
		{Channel: "telegram", To: "42", ID: "c2", Text: "x", Buttons: card.Buttons}, {Channel: "discord", To: "404", ID: "c3", Text: "x", Buttons: card.Buttons}, {Channel: "discord", To: "ada", ID: "c4", Text: "x", Buttons: card.Buttons},
		{Channel: "discord", To: "42", ID: "c6", Text: strings.Repeat("😀", 1001), Buttons: card.Buttons}, {Channel: "discord", To: "42", ID: "c7", Text: "over before it was shown"},
	} {
		h.Shows(other)
	}
	for range 3 {
		h.Shows(card)
	}
	h.Until("the card", func() bool { return len(f.posts()) == 2 })
	h.Until("it to be kept", func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "kept.json"))
		return err == nil && strings.Contains(string(data), `"card/c1"`)
	})
	at := f.lastNumber()
	post := f.posts()[1]
	raw, _ := json.Marshal(post["components"])
	if shown(post) != card.Text || post["channel"] != private || !strings.Contains(string(raw), `"custom_id":"aaaaaaaaaaaaaaaa"`) {
		t.Errorf("have %v", post)
	}
	h.Stop()
	h = start(t, f, dir, "C")
	card.Buttons, card.Text = nil, "Approved once by ada."
	f.fails("PATCH channels/"+private+"/messages/"+at, drop)
	for range 3 {
		h.Shows(card)
	}
	h.Until("its end", func() bool { return len(f.edits()) == 2 })
	if ended := f.edits()[1]; ended["at"] != private+"/messages/"+at || shown(ended) != card.Text {
		t.Errorf("have %v", ended)
	}
	h.Stop()
	if have := len(f.posts()) + len(f.edits()); have != 4 {
		t.Errorf("have %d messages and edits, want 4", have)
	}
}

// M-47: a press names the person and the button, once, and is acknowledged at once. What became
// of it is said to whoever pressed alone, and to a stranger nothing. It gets through where
// messages wait. One that Discord gave up on decides nothing.
func TestAPressIsBroughtToTheHost(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	h.Change(func() {
		h.Busy = 1 << 30 // no message is taken
		h.Decides = func(p plugin.Press) *plugin.Pressed {
			switch {
			case p.User == "13":
				return &plugin.Pressed{Refused: true}
			case p.Button == "old":
				return &plugin.Pressed{Said: "Nothing was decided: <it> " + strings.Repeat("x", 300), Refused: true, Over: true}
			case p.Button == "fails":
				return nil
			}
			return &plugin.Pressed{Said: "Approved once by ada."}
		}
	})
	f.message("42", private, "a message that waits", nil)
	h.Until("its refusal", func() bool { return h.Refusals() < 1<<30 })
	member := map[string]any{"user": map[string]any{"id": "42"}}
	for _, wrong := range []map[string]any{
		{"type": 2}, {"user": nil}, {"user": map[string]any{"id": "ada"}}, {"user": map[string]any{"id": "42", "bot": true}}, {"member": member}, {"data": map[string]any{"component_type": 3, "custom_id": "good"}},
		{"data": nil}, {"token": "../../x"}, {"token": ".."}, {"token": ""}, {"application_id": "x"}, {"id": "x"},
	} {
		f.press("42", "good", "7", wrong)
	}
	f.happens("INTERACTION_CREATE", nil)
	lost := f.press("42", "good", "7", map[string]any{"token": "that_nobody_knows"})
	f.mu.Lock()
	f.presses[lost] = 0
	f.mu.Unlock()
	told := 0
	for n, c := range []struct {
		user, button, said string
		edits              bool
		more               map[string]any
	}{
		{"42", "good", "Approved once by ada.", false, nil}, {"42", "good", "Approved", false, map[string]any{"user": nil, "member": member, "channel_id": room}}, {"13", "good", "", false, nil},
		{"42", "old", "Nothing was decided: <it> xxx", true, nil}, {"42", "fails", "nacre did not answer", false, nil}, {"42", strings.Repeat("y", 100), "Approved", false, nil},
	} {
		edits := len(f.edits())
		key := f.press(c.user, c.button, "7", c.more)
		said := "webhooks/" + app + "/" + key
		if c.said != "" {
			told++
		}
		h.Until("the press", func() bool { return len(h.Presses()) == n+1 && (c.said == "" || len(f.got(said)) == 1) })
		if p := h.Presses()[n]; p.User != c.user || p.Channel != "discord" || p.Button != c.button[:min(len(c.button), 64)] {
			t.Errorf("have %+v", p)
		}
		if c.said != "" {
			if have := f.got(said)[0]; !strings.HasPrefix(shown(have), c.said) || int(have["flags"].(float64))&64 == 0 {
				t.Errorf("have %v, want %s", have, c.said)
			}
		}
		if c.edits {
			h.Until("the old card", func() bool { return len(f.edits()) == edits+1 })
			if have := f.edits()[edits]; have["at"] != "42000/messages/7" {
				t.Errorf("have %v", have)
			}
		}
	}
	if len(h.Once()) != 0 || len(f.posts()) != 0 {
		t.Error("a message was taken, or something was sent")
	}
	h.Change(func() { h.Busy = 0 })
	h.Until("the message", func() bool { return len(h.Once()) == 1 })
	if len(h.Presses()) != 6 {
		t.Errorf("have %d presses", len(h.Presses()))
	}
}

// M-40: what a person asks of the host itself gets through where messages wait, once, and is
// answered to them alone. An old one, one in a channel, and a stranger's are nothing.
func TestCommands(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	h.Change(func() {
		h.Busy = 1 << 30 // no message is taken
		h.Commanded = func(c plugin.Command) string {
			if c.User == "13" {
				return ""
			}
			return fmt.Sprintf("<%s %s %s>", c.Channel, c.Name, c.Session)
		}
	})
	at := func(age time.Duration, n int64) map[string]any {
		return map[string]any{"id": strconv.FormatInt((time.Now().Add(-age).UnixMilli()-1420070400000)<<22+n, 10)}
	}
	f.message("42", private, "waits", nil)
	f.message("42", private, "!kill old", at(time.Hour, 1))
	f.message("13", "13000", "!status", at(0, 2))
	f.message("42", room, named("!kill of-a-channel"), at(0, 3))
	f.message("42", private, "!status", at(0, 4))
	kill := at(0, 5)
	f.message("42", private, " /kill asks", kill)
	f.message("42", private, " /kill asks", kill)
	h.Until("both answers", func() bool { return len(f.posts()) == 2 })
	for n, want := range []string{"<discord status >", "<discord kill asks>"} {
		if p := f.posts()[n]; p["channel"] != private || p["message_reference"] != nil || shown(p) != want {
			t.Errorf("have %v, want %s", p, want)
		}
	}
	h.Change(func() { h.Busy = 0 })
	h.Until("the messages", func() bool { return len(h.Once()) == 2 })
	if m := h.Once(); m[0].Body != "waits" || m[1].Body != "!kill of-a-channel" || len(f.posts()) != 2 {
		t.Errorf("have %+v and %d answers", m, len(f.posts()))
	}
}

// M-46: who writes pair alone to the bot is shown a code while somebody is being paired, and at any
// other time nothing. It never is a message.
func TestPairing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	f.message("13", "13000", "pair", nil)
	f.message("13", room, named("pair"), nil)
	h.Until("the second", func() bool { return len(h.Once()) == 1 })
	if len(f.posts()) != 0 || h.Once()[0].Metadata.Chat != room { // a channel's is a message like others
		t.Errorf("have %v, %v", f.posts(), h.Once())
	}
	h.Change(func() { h.Code = "ABCD2345" })
	f.message("13", "13000", " /pair ", nil)
	h.Until("the code", func() bool { return len(f.posts()) == 1 })
	if p := f.posts()[0]; p["channel"] != "13000" || !strings.Contains(shown(p), "ABCD2345") {
		t.Errorf("have %v", p)
	}
}

// M-48: a file that came with a message is asked for anew, since its address is good for a day,
// also in a thread. The bot's token does not go to where Discord keeps files.
func TestFilesComeIn(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	with := func(id, address string) map[string]any {
		return map[string]any{"attachments": []any{map[string]any{"id": id, "filename": "a.txt", "size": 11, "url": address}, map[string]any{"id": "../x", "filename": "b"}}}
	}
	f.files["/a.txt?ex=1"] = "the harbour"
	first := f.message("42", room, named("look"), with("8001", "http://cdn.test/a.txt?ex=1"))
	f.message("42", private, "", with("8002", "http://cdn.test/a.txt?ex=1"))
	f.message("42", private, "", with("8003", "http://cdn.test/gone"))
	f.message("42", private, "", with("8004", "file:///etc/passwd"))
	h.Until("the messages", func() bool { return len(h.Taken()) == 4 })
	have := h.Taken()
	name := chattest.Named(have[0], 1)
	if name == "" || chattest.Named(have[0], 2) != "" || !strings.HasPrefix(have[1].Body, "[file 1 is called") {
		t.Fatalf("have %s", have[0].Body)
	}
	h.WokenBy(have[1])
	for _, chat := range []string{room, private} {
		if said := h.ReadFile(chat, name, 0, "text"); !strings.Contains(said, "NOT_FOUND") {
			t.Errorf("have %s", said)
		}
	}
	for i, want := range map[int]string{1: `"content":"the harbour"`, 2: "NOT_TAKEN", 3: "UNREACHED"} {
		if said := h.ReadFile(private, chattest.Named(have[i], 1), 0, "text"); !strings.Contains(said, want) {
			t.Errorf("have %s, want %s", said, want)
		}
	}
	h.WokenBy(have[0])
	if said := h.ReadFile(room, name, 0, "text"); !strings.Contains(said, `"content":"the harbour"`) {
		t.Errorf("have %s", said)
	}
	h.Send(room, "the answer begins a thread")
	f.message("42", first, "in the thread", with("8005", "http://cdn.test/a.txt?ex=1"))
	h.Until("the message of the thread", func() bool { return len(h.Taken()) == 5 })
	h.WokenBy(h.Taken()[4])
	if said := h.ReadFile(room, chattest.Named(h.Taken()[4], 1), 0, "text"); !strings.Contains(said, `"content":"the harbour"`) {
		t.Errorf("have %s", said)
	}
}

// M-48: a file of the project goes out after the text, into the thread that is answered.
func TestFilesGoOut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := listening(t, f, t.TempDir())
	first := f.message("42", room, named("draw"), nil)
	h.Until("the message", func() bool { return len(h.Taken()) == 1 })
	h.WokenBy(h.Taken()[0])
	if have := h.SendFile(room, "here", "out/a.png", []byte("PNG")); !strings.Contains(have, `"messages":2`) {
		t.Fatalf("have %s", have)
	}
	posts := f.posts()
	if last := posts[len(posts)-1]; last["file"] != "a.png: PNG" || last["channel"] != first || last["content"] != "" {
		t.Errorf("have %v", posts)
	}
	f.fails("/messages", drop)
	if have := h.SendFile(room, "here", "a.png", nil); !strings.Contains(have, "NOT_KNOWN (retriable false)") {
		t.Errorf("have %s", have)
	}
}
