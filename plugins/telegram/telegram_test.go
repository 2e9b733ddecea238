package main_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/nacre-dev/nacre/internal/chat/chattest"
	"github.com/nacre-dev/nacre/internal/corpus"
	"github.com/nacre-dev/nacre/plugin"
	telegram "github.com/nacre-dev/nacre/plugins/telegram"
)

// M-48: whatever the service does, each message is taken, in the order in which it was
// written, and a message whose confirmation was lost has the same name again.
func TestNoMessageIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		faults []fault
		after  []fault
		waits  time.Duration
	}{
		"drops":                   {faults: []fault{drop, drop, drop}, waits: 4 * time.Second},
		"says it twice":           {after: []fault{drop, drop}},
		"429":                     {faults: []fault{no(429, 77)}, waits: 77 * time.Second},
		"429 for years":           {faults: []fault{no(429, 1<<31-1)}, waits: time.Hour},
		"409":                     {faults: []fault{no(409, 0)}, waits: 10 * time.Second},
		"500, and a page":         {faults: []fault{no(500, 0), says(502, "<html>bad gateway</html>")}},
		"half an answer":          {faults: []fault{says(200, `{"ok":true,"result":[{"upd`)}},
		"another form":            {faults: []fault{says(200, `{"ok":true,"result":{"a":1}}`), says(200, `[]`), says(200, ``)}},
		"an answer without end":   {faults: []fault{says(200, `{"ok":true,"result":["`+strings.Repeat("x", 5<<20)+`"]}`)}},
		"a redirect":              {faults: []fault{says(302, ``)}},
		"updates without meaning": {faults: []fault{says(200, `{"ok":true,"result":[{"update_id":1},{"update_id":2,"message":[]},{"update_id":3,"message":{"chat":"x"}},{"update_id":4,"message":null,"poll":{}}]}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.fails("getUpdates", c.faults...)
			f.loses("getUpdates", c.after...)
			for i := range 3 {
				f.says(42, 42, fmt.Sprint("message ", i), nil)
			}
			h := start(t, f, t.TempDir(), "C")
			h.Until("the messages", func() bool { return len(h.Taken()) >= 3 && f.confirmed() })
			refs := map[string]bool{}
			for i, m := range h.Taken() {
				if want := fmt.Sprint("message ", i%3); m.Body != want || m.Sender != "42" || m.Metadata.Chat != "42" || m.Channel != "telegram" {
					t.Errorf("have %+v, want %s", m, want)
				}
				refs[m.Metadata.Ref] = true
			}
			if len(refs) != 3 || c.waits > 0 && !h.HasWaited(c.waits) {
				t.Errorf("have %d names; it waited %v", len(refs), h.Waits())
			}
		})
	}
}

// M-48: a connection on which nothing comes is given up, and the next one brings the message.
func TestASilentConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.fails("getUpdates", func(http.ResponseWriter) { <-f.known })
	f.says(42, 42, "hello", nil)
	h := start(t, f, t.TempDir(), "C")
	h.Until("the message", func() bool { return len(h.Taken()) == 1 })
}

// M-48: what the host does not take is not confirmed: it is brought again until it is, also by
// the next process.
func TestAMessageIsConfirmedWhenItIsTaken(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	f.says(42, 42, "hello", nil)
	h := start(t, f, dir, "C")
	h.Until("it", func() bool { return len(h.Taken()) == 1 && f.confirmed() })
	first := h.Taken()[0]
	h.Change(func() { h.Busy = 1 << 30 })
	f.says(42, 42, "again", nil)
	h.Until("a refusal", func() bool { return h.Refusals() < 1<<30-2 })
	if f.confirmed() {
		t.Error("what was not taken was confirmed")
	}
	h.Stop()
	next := start(t, f, dir, "C")
	next.Until("the message in the next process", func() bool { return f.confirmed() })
	all := next.Taken()
	if last := all[len(all)-1]; last.Body != "again" || last.Metadata.Ref == first.Metadata.Ref {
		t.Errorf("have %+v", all)
	}
}

// A token that was revoked is read anew; no error says it.
func TestARevokedTokenIsReadAnew(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.says(42, 42, "one", nil)
	h := start(t, f, t.TempDir(), "C")
	h.Until("a message", func() bool { return len(h.Taken()) == 1 })
	f.mu.Lock()
	f.token = second
	f.mu.Unlock()
	h.Until("a long pause", func() bool { return h.HasWaited(5 * time.Minute) })
	if have := h.Send("42", "hi"); !strings.Contains(have, "AUTH") || strings.Contains(have, "AAbb") {
		t.Errorf("have %s", have)
	}
	h.Change(func() { h.Secrets["token"] = second })
	f.says(42, 42, "two", nil)
	h.Until("the next message", func() bool { return len(h.Taken()) == 2 })
}

// One handler of a data folder polls: Telegram would answer both with 409.
func TestOneHandlerPolls(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	one := start(t, f, dir, "C")
	one.Until("a poll", func() bool { return len(f.got("getUpdates")) > 0 })
	two := start(t, f, dir, "C")
	f.says(42, 42, "one", nil)
	one.Until("the message", func() bool { return len(one.Taken()) == 1 })
	one.Stop()
	f.says(42, 42, "two", nil)
	two.Until("the next message", func() bool { a := two.Taken(); return len(a) > 0 && a[len(a)-1].Body == "two" })
	start(t, f, dir, "").Stop() // that of a session does not poll
}

// M-46, M-48: a sender is the number of one person. Whoever writes as a bot, as a channel or
// as a group, or edits, is not brought; a stranger is told nothing.
func TestWhoIsHeard(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	h.Change(func() { h.Routed = func(sender string) bool { return sender == "42" } })
	f.says(13, 13, "/start", nil)
	f.says(13, 13, "/help", nil)
	f.says(42, 42, "a bot's", map[string]any{"from": map[string]any{"id": 42, "is_bot": true}})
	f.says(42, -100, "a channel's", map[string]any{"sender_chat": map[string]any{"id": -100}})
	f.says(42, 42, "nobody's", map[string]any{"from": nil})
	f.says(42, 42, "", nil)
	f.says(42, 42, "", map[string]any{"document": map[string]any{"file_name": "a\nb\"c"}, "caption": "look"})
	f.says(42, -1001234567890123, strings.Repeat("😀", 9000), map[string]any{"message_thread_id": 5, "is_topic_message": true})
	h.Until("the messages", func() bool { return f.confirmed() })
	have := h.Taken()
	if len(have) != 2 || !strings.HasPrefix(have[0].Body, "look\n[file 1 is called \"a b\\\"c\"; it cannot be read here") || have[1].Body != strings.Repeat("😀", 8092)+"\n[the last 908 characters of the message are left out here]" {
		t.Fatalf("have %.300v", have)
	}
	if m := have[1].Metadata; m.Chat != "-1001234567890123" || !strings.HasPrefix(m.Ref, "n1001234567890123-9") || m.Session != "topic-5" || len(m.Ref) > 64 {
		t.Errorf("have %+v", m)
	}
	if sent := f.got("sendMessage"); len(sent) != 0 {
		t.Errorf("strangers were told %v", sent)
	}
}

// M-40: a message begins a conversation, and a reply to it, or to what was answered, goes on
// with it, over a restart too.
func TestAReplyGoesOn(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := start(t, f, dir, "C")
	first := f.says(42, -7, "one", nil)
	f.says(43, -7, "two", nil)
	h.Until("both", func() bool { return len(h.Taken()) == 2 })
	one, two := h.Taken()[0], h.Taken()[1]
	if one.Metadata.Session == two.Metadata.Session || one.Metadata.Session == "" {
		t.Errorf("have %+v and %+v", one, two)
	}
	h.WokenBy(one)
	if have := h.Send("-7", "an answer"); !strings.Contains(have, `"sent"`) {
		t.Fatal(have)
	}
	sent := f.got("sendMessage")[0]
	if reply := sent["reply_parameters"].(map[string]any); reply["message_id"] != float64(first) {
		t.Errorf("have %v", sent)
	}
	h.Stop()
	answer := f.newest()
	next := start(t, f, dir, "C")
	f.says(43, -7, "and then?", map[string]any{"reply_to_message": map[string]any{"message_id": answer}})
	f.says(43, -8, "elsewhere", map[string]any{"reply_to_message": map[string]any{"message_id": answer}})
	next.Until("the replies", func() bool { n := len(next.Taken()); return n > 1 && next.Taken()[n-1].Body == "elsewhere" })
	all := next.Taken()
	if have := all[len(all)-2].Metadata.Session; have != one.Metadata.Session || all[len(all)-1].Metadata.Session == have {
		t.Errorf("have %+v, want session %s", all, one.Metadata.Session)
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
		{false, "agent.error", "<b>no brain</b>", "No answer will come: &lt;b&gt;no brain&lt;/b&gt;"}, {false, "agent.error", "interrupted twice", "A message of yours was given up"},
	} {
		f.says(42, 42, fmt.Sprint(n), nil)
		h.Until("the message", func() bool { return len(h.Taken()) == n+1 })
		m := h.Taken()[n]
		before := f.newest()
		h.Tells("agent.started", m, "")
		h.Tells("agent.started", m, "")
		h.Until("the progress", func() bool { return f.newest() > before })
		shown := f.newest()
		if c.answer {
			h.WokenBy(m)
			h.Until("the answer", func() bool { return strings.Contains(h.Send("42", "yes"), `"sent"`) })
		}
		h.Tells(c.topic, m, c.outcome)
		h.Until("the edit", func() bool { return len(f.got("editMessageText")) == n+1 })
		last := f.got("editMessageText")[n]
		if last["message_id"] != float64(shown) || !strings.HasPrefix(last["text"].(string), c.want) {
			t.Errorf("have %v, want %s in %d", last, c.want, shown)
		}
	}
}

// What cannot be sent says why; what may have been sent is not sent again.
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
		"one":              {recipient: "42", body: "hello", want: `"messages":1`, calls: 1},
		"long":             {recipient: "42", body: strings.Repeat("word ", 2000), want: `"messages":3`, calls: 3},
		"too often":        {recipient: "42", body: "x", faults: []fault{no(429, 1), no(429, 1)}, want: `"sent"`, calls: 3},
		"for an hour":      {recipient: "42", body: "x", faults: []fault{no(429, 3600)}, want: "TOO_OFTEN (retriable true)", calls: 1},
		"lost":             {recipient: "42", body: "x", after: []fault{drop}, want: "NOT_KNOWN (retriable false)", calls: 1},
		"a failure":        {recipient: "42", body: "x", faults: []fault{no(502, 0)}, want: "NOT_KNOWN (retriable false)", calls: 1},
		"half":             {recipient: "42", body: strings.Repeat("word ", 1500), after: []fault{func(w http.ResponseWriter) { says(200, `{"ok":true,"result":{"message_id":1}}`)(w) }, drop}, want: "1 of 2 parts were sent", calls: 2},
		"blocked":          {recipient: "42", body: "x", faults: []fault{no(403, 0)}, want: "NOT_TAKEN", calls: 1},
		"nobody":           {recipient: "404", body: "x", want: "NOT_TAKEN", calls: 1},
		"a name":           {recipient: "@ada", body: "x", want: "UNKNOWN_RECIPIENT"},
		"another number":   {recipient: "042", body: "x", want: "UNKNOWN_RECIPIENT"},
		"nothing to see":   {recipient: "42", body: " \n\u202e\x00", want: "EMPTY"},
		"markup of others": {recipient: "42", body: "<a href=\"x\">&lt;</a> [x](tg://user?id=1) `a<b` \n```go\nif a < b && c {}\n```", want: `"sent"`, calls: 1},
	} {
		before := len(f.got("sendMessage"))
		f.fails("sendMessage", c.faults...)
		f.loses("sendMessage", c.after...)
		have := h.Send(c.recipient, c.body)
		if !strings.Contains(have, c.want) || len(f.got("sendMessage"))-before != c.calls || strings.Contains(have, token) {
			t.Errorf("%s: have %s after %d calls", name, have, len(f.got("sendMessage"))-before)
		}
	}
}

// A text is cut by Telegram's counting, and all of it arrives.
func TestTextIsCutAndEscaped(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words": strings.Repeat("lorem ipsum ", 2000), "no spaces": strings.Repeat("x", 10000), "wide": strings.Repeat("😀", 8000), "markup": strings.Repeat("<&>", 5000),
		"code over the cut": "before\n```\n" + strings.Repeat("a < b\n", 3000) + "```\nafter", "a fence without an end": "```\n" + strings.Repeat("é", 9000),
		"quotes": strings.Repeat("`a` `` `b\n` ", 1500), "lines": strings.Repeat("\n", 9000) + "x", "odd": "x" + strings.Repeat("😀", 4096),
	} {
		shown := ""
		for i, part := range telegram.Messages(text) {
			if problem := wrongText(map[string]any{"text": part, "parse_mode": "HTML", "link_preview_options": map[string]any{"is_disabled": true}}); problem != "" {
				t.Errorf("%s: part %d: %s", name, i, problem)
			}
			shown += html.UnescapeString(tag.ReplaceAllString(part, ""))
		}
		plain := strings.NewReplacer("\n", "", "`", "", " ", "")
		if plain.Replace(shown) != plain.Replace(text) {
			t.Errorf("%s: have %.100q, want %.100q", name, shown, text)
		}
	}
	if have := telegram.Messages("a `b<` c\n```go\nd & e\n```\nf"); len(have) != 1 || have[0] != "a <code>b&lt;</code> c\n<pre>d &amp; e</pre>f" {
		t.Errorf("have %q", have)
	}
}

func FuzzMessages(f *testing.F) {
	for _, seed := range []string{"a", "```\n`", "`a`", "\xff<", strings.Repeat("😀`", 3000)} {
		corpus.Add(f, seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, part := range telegram.Messages(text) {
			shown := html.UnescapeString(tag.ReplaceAllString(part, ""))
			if n := len(utf16.Encode([]rune(shown))); n > 4096 || strings.TrimSpace(shown) == "" {
				t.Errorf("%d units: %.100q", n, part)
			}
		}
	})
}

func FuzzRef(f *testing.F) {
	f.Add(int64(-100), int64(5), int64(0), "n1-2")
	f.Add(int64(7), int64(-5), int64(3), "n-")
	f.Fuzz(func(t *testing.T, chat, message, topic int64, text string) {
		if c, m, p, ok := telegram.PlaceOf(text); ok && telegram.Ref(c, m, p) != text {
			t.Errorf("%q is read as %d %d %d", text, c, m, p)
		}
		ref := telegram.Ref(chat, message, topic)
		if c, m, p, ok := telegram.PlaceOf(ref); message > 0 && topic >= 0 && (!ok || c != chat || m != message || p != topic) {
			t.Errorf("%q is read as %d %d %d %v", ref, c, m, p, ok)
		}
	})
}

// A configuration that cannot work says so, and never shows the token.
func TestStarts(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "")
	code := func(m plugin.Message) string {
		if m.Error == nil {
			return ""
		}
		e, _ := plugin.ParseToolError(m.Error.Data)
		if strings.Contains(m.Error.Message, "AAbb") {
			t.Errorf("the token is told: %s", m.Error.Message)
		}
		return e.Code
	}
	for config, want := range map[string]string{`{"api":"http://api.test"}`: "", `{"api":"ftp://x"}`: "CONFIG_ERROR", `{"api":"https://u:p@x.test"}`: "CONFIG_ERROR", `{"api":""}`: "CONFIG_ERROR", `{"api":"https://x.test/?a=b"}`: "CONFIG_ERROR"} {
		if have := code(h.Ask(plugin.MethodInitialize, plugin.InitializeParams{Protocol: 1, Plugin: "telegram", Config: json.RawMessage(config), DataDir: t.TempDir(), Ticket: "T"})); have != want {
			t.Errorf("%s: have %q, want %q", config, have, want)
		}
	}
	h = start(t, f, t.TempDir(), "")
	for given, want := range map[string]string{token: "", second: "AUTH_ERROR", "": "AUTH_ERROR", "123:../../x": "AUTH_ERROR", "1:" + strings.Repeat("x", 200): "AUTH_ERROR"} {
		h.Change(func() { h.Secrets["token"] = given })
		if have := code(h.Ask(plugin.MethodVerify, plugin.VerifyParams{Ticket: "T"})); have != want {
			t.Errorf("token %q: have %q, want %q", given, have, want)
		}
	}
	h.Change(func() { h.Secrets["token"] = token })
	f.fails("getMe", drop, says(200, "{}"))
	for range 2 {
		if have := code(h.Ask(plugin.MethodVerify, plugin.VerifyParams{Ticket: "T"})); have != "NETWORK_ERROR" {
			t.Errorf("have %q", have)
		}
	}
}

// What is kept is bounded, and a file that holds something else is begun anew.
func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	path := filepath.Join(dir, "kept.json")
	var many []map[string]string
	for i := range 2000 {
		many = append(many, map[string]string{"Key": fmt.Sprint("k", i), "Value": "v"})
	}
	full, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for n, content := range []string{string(full), "no json", strings.Repeat("x", 2<<20), `{"a":1}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		h := start(t, f, dir, "C")
		f.says(42, 42, "hello", nil)
		h.Until("the message", func() bool { a := h.Taken(); return len(a) > 0 && f.confirmed() })
		h.Stop()
		data, err := os.ReadFile(path)
		if err != nil || len(data) > len(full)+100 || !json.Valid(data) || n == 0 && strings.Contains(string(data), `"k0"`) {
			t.Errorf("have %d bytes: %.80s %v", len(data), data, err)
		}
	}
}

// M-47: a card is shown once to its person, whole, and its buttons go with its end, over a
// restart too. What does not fit is not shown at all, and a card that could not be shown
// comes again.
func TestACardIsShownOnce(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := start(t, f, dir, "C")
	card := plugin.Card{Channel: "telegram", To: "42", ID: "c1", Text: "pay <b>1 & 2</b> `x`\n```\nall of it\n```", Buttons: []plugin.Button{{ID: "aaaaaaaaaaaaaaaa", Label: "Approve once"}, {ID: "bbbbbbbbbbbbbbbb", Label: "Deny"}}}
	f.fails("sendMessage", no(500, 0))
	for _, other := range []plugin.Card{
		{Channel: "slack", To: "42", ID: "c2", Text: "x", Buttons: card.Buttons}, {Channel: "telegram", To: "@ada", ID: "c3", Text: "x", Buttons: card.Buttons},
		{Channel: "telegram", To: "42", ID: "c4", Text: strings.Repeat("😀", 2049), Buttons: card.Buttons}, {Channel: "telegram", To: "42", ID: "c5", Text: "x", Buttons: []plugin.Button{{ID: strings.Repeat("x", 65)}}},
		{Channel: "telegram", To: "42", ID: "c6", Text: "over before it was shown"},
	} {
		h.Shows(other)
	}
	h.Shows(card)
	h.Shows(card)
	h.Shows(card)
	h.Until("the card", func() bool { return len(f.got("sendMessage")) == 2 })
	h.Until("it to be kept", func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "kept.json"))
		return err == nil && strings.Contains(string(data), `"card/c1"`)
	})
	shown := f.got("sendMessage")[1]
	if want := "pay &lt;b&gt;1 &amp; 2&lt;/b&gt; `x`\n```\nall of it\n```"; shown["text"] != want || shown["chat_id"] != float64(42) || !strings.Contains(fmt.Sprint(shown["reply_markup"]), "callback_data:aaaaaaaaaaaaaaaa text:Approve once") {
		t.Errorf("have %v", shown)
	}
	h.Stop()
	h = start(t, f, dir, "C")
	card.Buttons, card.Text = nil, "Approved once by ada."
	f.fails("editMessageText", drop)
	h.Shows(card)
	h.Shows(card)
	h.Shows(card)
	h.Until("its end", func() bool { return len(f.got("editMessageText")) == 2 })
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if ended := f.got("editMessageText")[1]; ended["message_id"] != float64(last) || ended["text"] != card.Text || ended["reply_markup"] != nil {
		t.Errorf("have %v", ended)
	}
	h.Stop()
	if have := len(f.got("sendMessage")) + len(f.got("editMessageText")); have != 4 {
		t.Errorf("have %d messages and edits, want 4", have)
	}
}

// M-47: a press names the number of whoever pressed and the button, once. What became of it is said to
// whoever pressed alone, and to a stranger nothing. It gets through where messages wait.
func TestAPressIsBroughtToTheHost(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
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
	f.says(42, 42, "a message that waits", nil)
	h.Until("its refusal", func() bool { return h.Refusals() < 1<<30 })
	answers := 0
	for n, c := range []struct {
		from         int64
		data, id     string
		said         string // to whoever pressed, who is not answered where it is empty
		alert, edits bool
	}{
		{42, "good", "1", "Approved once by ada.", false, false}, {13, "good", "2", "", false, false}, {42, "old", "3", "Nothing was decided: <it> xxx", true, true},
		{42, "fails", "4", "nacre did not answer", true, false}, {42, strings.Repeat("y", 5000), "5", "Approved", false, false},
	} {
		edits := len(f.got("editMessageText"))
		f.presses(c.from, c.from, 9000, c.data, c.id)
		f.presses(c.from, c.from, 9000, c.data, c.id) // which Telegram brings twice
		h.Until("the press", func() bool { return len(h.Presses()) > n })
		if c.said != "" {
			h.Until("the answer", func() bool { return len(f.got("answerCallbackQuery")) == answers+1 })
			have := f.got("answerCallbackQuery")[answers]
			if text := have["text"].(string); !strings.HasPrefix(text, c.said) || have["show_alert"] != c.alert || have["callback_query_id"] != c.id {
				t.Errorf("%s: have %v", c.data[:3], have)
			}
			answers++
		}
		pressed := h.Presses()
		if p := pressed[n]; p.User != fmt.Sprint(c.from) || p.Channel != "telegram" || p.Button != c.data[:min(len(c.data), 64)] || len(pressed) != n+1 {
			t.Errorf("have %+v", pressed)
		}
		if c.edits {
			h.Until("the old card", func() bool { return len(f.got("editMessageText")) == edits+1 })
		}
	}
	if f.confirmed() || len(h.Taken()) != 0 || len(f.got("sendMessage")) != 0 {
		t.Error("the message that waits was confirmed, or something was sent")
	}
	h.Change(func() { h.Busy = 0 })
	h.Until("the message", func() bool { return len(h.Taken()) == 1 && f.confirmed() })
}

// M-42, M-48: a press that stands behind more messages than Telegram brings at once is heard while the
// host takes none of them. Then each is taken once and in its order, also by the next process.
func TestMessagesThatWaitKeepNobodyFromAPress(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	h := start(t, f, dir, "C")
	h.Change(func() { h.Busy = 1 << 30 })
	for i := range 250 {
		f.says(42, 42, fmt.Sprint("message ", i), nil)
	}
	f.presses(42, 42, 9000, "good", "1")
	h.Until("the press", func() bool { return len(h.Presses()) == 1 })
	if len(h.Taken()) != 0 {
		t.Errorf("%d messages were taken", len(h.Taken()))
	}
	h.Stop()
	next := start(t, f, dir, "C")
	next.Until("the messages", func() bool { return len(next.Taken()) == 250 && f.confirmed() })
	for i, m := range next.Taken() {
		if m.Body != fmt.Sprint("message ", i) {
			t.Fatalf("message %d is %+v", i, m)
		}
	}
	f.says(42, 42, "another", nil)
	next.Until("one more", func() bool { return len(next.Taken()) == 251 && f.confirmed() })
	next.Stop()
	last := start(t, f, dir, "C")
	f.says(42, 42, "the last", nil)
	last.Until("nothing twice", func() bool { return len(last.Taken()) == 1 })
}

// M-40: what a person asks of the host itself gets through where messages wait, once, and is
// answered to them alone. An old one, one in a group, and a stranger's are nothing.
func TestCommands(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	h.Change(func() {
		h.Busy = 1 << 30 // no message is taken
		h.Commanded = func(c plugin.Command) string {
			if c.User == "13" {
				return ""
			}
			return fmt.Sprintf("<%s %s %s>", c.Channel, c.Name, c.Session)
		}
	})
	now := map[string]any{"date": time.Now().Unix()}
	f.says(42, 42, "/kill old", map[string]any{"date": time.Now().Add(-time.Hour).Unix()})
	f.says(42, 42, "/kill tomorrow", map[string]any{"date": time.Now().Add(time.Hour).Unix()})
	f.says(13, 13, "/status", now)
	f.says(42, -5, "/kill of-a-group", now)
	f.says(42, 42, "/kill a b", now)
	f.says(42, 42, "/killer a", now)
	f.says(42, 42, "/status", now)
	f.says(42, 42, " /kill asks", now)
	h.Until("both answers, and another poll", func() bool { return len(f.got("sendMessage")) == 2 && h.Refusals() < 1<<30-3 })
	for n, want := range []string{"&lt;telegram status &gt;", "&lt;telegram kill asks&gt;"} {
		if m := f.got("sendMessage")[n]; m["chat_id"] != float64(42) || m["text"] != want {
			t.Errorf("have %v, want %s", m, want)
		}
	}
	h.Change(func() { h.Busy = 0 })
	h.Until("the messages", func() bool { return f.confirmed() })
	if m := h.Taken(); len(m) != 3 || m[0].Body != "/kill of-a-group" || m[2].Body != "/killer a" || len(f.got("sendMessage")) != 2 {
		t.Errorf("have %+v and %d answers", m, len(f.got("sendMessage")))
	}
}

// M-46: who writes /pair alone to the bot is shown a code while somebody is being paired, and at any
// other time nothing. It never is a message.
func TestPairing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	f.says(13, 13, "/pair", nil)
	f.says(13, -5, "/pair", nil)
	h.Until("the first", func() bool { return f.confirmed() })
	if len(f.got("sendMessage")) != 0 || len(h.Taken()) != 1 { // a group's is a message like others
		t.Errorf("have %v, %v", f.got("sendMessage"), h.Taken())
	}
	h.Change(func() { h.Code = "ABCD2345" })
	f.says(13, 13, " /pair ", nil)
	h.Until("the code", func() bool { return len(f.got("sendMessage")) == 1 })
	if m := f.got("sendMessage")[0]; m["chat_id"] != float64(13) || !strings.Contains(m["text"].(string), "ABCD2345") {
		t.Errorf("have %v", m)
	}
}

// M-48: a file that came with a message is read in parts by whoever answers in that chat, and by
// nobody else. It is fetched once, and what Telegram says of its place leads nowhere else.
func TestFilesComeIn(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	long := strings.Repeat("é", 50<<10)
	f.files = map[string]string{"documents/F1": long, "documents/F2": "\xff\x00", "documents/F3": strings.Repeat("x", 9<<20)}
	dir := t.TempDir()
	h := start(t, f, dir, "C")
	h.Change(func() { h.Routed = func(sender string) bool { return sender != "99" } })
	file := func(id, name string, size int) map[string]any {
		return map[string]any{"document": map[string]any{"file_id": id, "file_name": name, "file_size": size}}
	}
	f.says(99, 99, "", file("F9", "a stranger's", 1))
	f.says(42, 42, "", file("F1", "../a/report.txt", len(long)))
	f.says(42, 42, "look", map[string]any{"photo": []any{map[string]any{"file_id": "F0"}, map[string]any{"file_id": "F2"}}})
	f.says(42, 42, "", file("F3", "much", 0))
	f.says(42, 42, "", file("F4", "much more", 9<<20))
	f.says(13, 13, "", file("F1", "a", 1))
	h.Until("the messages", func() bool { return len(h.Taken()) == 5 })
	have := h.Taken()
	name := chattest.Named(have[0], 1)
	if !strings.HasPrefix(have[0].Body, `[file 1 is called "report.txt" and has 102400 bytes; read_telegram_file reads it as "`) || name == "" {
		t.Fatalf("have %s", have[0].Body)
	}
	none := "NOT_FOUND"
	want := func(said string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("have %.300s, want %s", said, part)
			}
		}
	}
	want(h.ReadFile("42", name, 0, "text"), none) // nobody woke the session
	h.WokenBy(have[4])
	want(h.ReadFile("42", name, 0, "text"), none)
	want(h.ReadFile("13", name, 0, "text"), none)
	h.WokenBy(have[1]) // a later message of the chat
	want(h.ReadFile("42", name, 0, "text"), `"name":"report.txt"`, `"bytes":102400`, `"next_offset":73728`, "éé")
	want(h.ReadFile("42", name, 1, "text"), "not text") // within a character
	want(h.ReadFile("42", name, 73728, "text"), `"offset":73728}`, "éé")
	f.mu.Lock()
	if f.fetched != 1 {
		t.Errorf("it was fetched %d times", f.fetched)
	}
	f.mu.Unlock()
	if kept, err := os.ReadFile(filepath.Join(dir, "kept.json")); err != nil || !strings.Contains(string(kept), "F1") || strings.Contains(string(kept), "F9") {
		t.Errorf("have %s, %v", kept, err)
	}
	want(h.ReadFile("42", name, 102401, "text"), "RANGE")
	want(h.ReadFile("42", chattest.Named(have[1], 1), 0, "text"), `"name":"picture.jpg"`, "not text")
	want(h.ReadFile("42", chattest.Named(have[1], 1), 0, "base64"), `"content_base64":"/wA="`)
	want(h.ReadFile("42", chattest.Named(have[2], 1), 0, "text"), "TOO_LARGE")
	want(have[3].Body, "cannot be read here")
	for _, other := range []string{"", "/", "x/1", strings.TrimSuffix(name, "1") + "2", strings.TrimSuffix(name, "/1")} {
		want(h.ReadFile("42", other, 0, "text"), none)
	}
	for _, place := range []string{"../../bot" + token + "/getMe", "/etc/passwd", "http://other.test/x", "a?b", "a//b", " "} {
		f.mu.Lock()
		f.wrong = place
		f.mu.Unlock()
		want(h.ReadFile("42", name, 0, "text"), "UNREACHED (retriable true)")
	}
}

// M-48: a file of the project goes out after the text, to the topic of the message that is
// answered, under its own name.
func TestFilesGoOut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	h := start(t, f, t.TempDir(), "C")
	f.says(42, -100, "draw", map[string]any{"message_thread_id": 5, "is_topic_message": true})
	h.Until("the message", func() bool { return len(h.Taken()) == 1 })
	h.WokenBy(h.Taken()[0])
	if have := h.SendFile("-100", "here", "out/a \"b\"\n.png", []byte("PNG")); !strings.Contains(have, `"messages":2`) {
		t.Fatalf("have %s", have)
	}
	sent := f.got("sendDocument")
	if len(sent) != 1 || sent[0]["document"] != "a \"b\" .png: PNG" || sent[0]["chat_id"] != "-100" || sent[0]["message_thread_id"] != "5" || len(f.got("sendMessage")) != 1 {
		t.Errorf("have %v", sent)
	}
	f.fails("sendDocument", drop)
	if have := h.SendFile("-100", "here", "a", nil); !strings.Contains(have, "NOT_KNOWN (retriable false)") || !strings.Contains(have, "1 of 2 parts were sent before") {
		t.Errorf("have %s", have)
	}
}
