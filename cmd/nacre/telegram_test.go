package main_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

const botToken = "123456:Zq8-quiet-harbour-bot"

// bot is a Bot API server that keeps what it was told.
type bot struct {
	mu      sync.Mutex
	updates []map[string]any
	next    int64
	said    []string
	buttons []string      // of the card that was shown last
	bare    []string      // what messages say that were edited to have no buttons
	refused int           // calls with another token
	slow    time.Duration // how long a message that is shown is not confirmed
}

// botCall is what nacre sends with a call.
type botCall struct {
	Limit  int    `json:"limit"`
	Offset int64  `json:"offset"`
	Chat   int64  `json:"chat_id"`
	Text   string `json:"text"`
	Alert  bool   `json:"show_alert"`
	Markup struct {
		Rows [][]struct {
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	} `json:"reply_markup"`
}

func (b *bot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, found := strings.CutPrefix(r.URL.Path, "/file/bot"+botToken+"/"); found {
		_, _ = io.WriteString(w, "what "+name+" holds") // who left hears nothing
		return
	}
	var p botCall
	if r.ParseMultipartForm(1<<20) == nil {
		p = document(r)
	} else {
		_ = json.NewDecoder(r.Body).Decode(&p)
	}
	method, found := strings.CutPrefix(r.URL.Path, "/bot"+botToken+"/")
	result := b.take(method, p, found)
	if !found {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if method == "sendMessage" {
		time.Sleep(b.slow)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result}) // who left hears nothing
}

// document is a call that is given a file: its name and what it holds are the call's text.
func document(r *http.Request) (p botCall) {
	p.Chat, _ = strconv.ParseInt(r.FormValue("chat_id"), 10, 64)
	in, about, err := r.FormFile("document")
	if err != nil {
		return p
	}
	content, _ := io.ReadAll(in) // it is in memory
	p.Text = about.Filename + ": " + string(content)
	if len(content) > 1<<20 {
		p.Text = fmt.Sprintf("%s: %d bytes, sha256 %x", about.Filename, len(content), sha256.Sum256(content))
	}
	return p
}

func (b *bot) take(method string, p botCall, known bool) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !known {
		b.refused++
		return nil
	}
	switch method {
	case "getMe":
		return map[string]any{"id": 123456, "is_bot": true}
	case "getUpdates":
		left := []map[string]any{}
		for _, u := range b.updates {
			if u["update_id"].(int64) >= p.Offset {
				left = append(left, u)
			}
		}
		b.updates = left
		return left[:min(len(left), p.Limit)]
	case "getFile":
		return map[string]any{"file_path": "documents/letter"}
	case "sendMessage", "editMessageText", "sendDocument":
		for _, row := range p.Markup.Rows {
			b.buttons = nil
			for _, button := range row {
				b.buttons = append(b.buttons, button.Data)
			}
		}
		b.said = append(b.said, fmt.Sprintf("%s %d: %s", method, p.Chat, p.Text))
		if method == "editMessageText" && len(p.Markup.Rows) == 0 {
			b.bare = append(b.bare, p.Text)
		}
	case "answerCallbackQuery":
		b.said = append(b.said, fmt.Sprintf("alert %t: %s", p.Alert, p.Text))
		return true
	}
	return map[string]any{"message_id": len(b.said)}
}

func (b *bot) happens(kind string, what map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	b.updates = append(b.updates, map[string]any{"update_id": b.next, kind: what})
}

func (b *bot) presses(user int64, button string) {
	b.mu.Lock()
	id := fmt.Sprint("press", b.next)
	b.mu.Unlock()
	b.happens("callback_query", map[string]any{"id": id, "from": map[string]any{"id": user}, "data": button,
		"message": map[string]any{"message_id": 1, "chat": map[string]any{"id": user, "type": "private"}}})
}

func (b *bot) heard() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.said, "\n")
}

func (b *bot) count(text string) int { return strings.Count(b.heard(), text) }

// telegrams is an installation whose operator ada is reached in a chat of a bot.
func telegrams(t *testing.T, b *bot) *installation {
	t.Helper()
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	i := install(t)
	i.operators("[operators.ada]\nidentities = [\"terminal:UID\", \"telegram:42\"]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\n" +
		"[operators.bob]\nidentities = [\"telegram:43\"]\n" + telegramAt(i.write("token", botToken), server))
	return i
}

func telegramAt(token string, server *httptest.Server) string {
	return fmt.Sprintf("[access.telegram]\nhosts = [\"api.example.com:80/http\"]\n[access.telegram.credentials]\ntoken = { value_file = %q }\n[egress.pin]\n\"api.example.com:80\" = %q\n[plugins.telegram]\napi = \"http://api.example.com\"\n",
		token, server.Listener.Addr().String())
}

// M-48: nacre setup telegram takes the token unseen, keeps it in a file of its own and tries it at once.
// What is wrong, or keeps it from being tried, is said in a sentence.
func TestTelegramIsSetUp(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&bot{})
	t.Cleanup(server.Close)
	away := httptest.NewServer(nil)
	away.Close()
	at := func(server *httptest.Server) string {
		return strings.Replace(telegramAt("x", server), "[access.telegram.credentials]\ntoken = { value_file = \"x\" }\n", "", 1)
	}
	for name, c := range map[string]struct {
		config, token string
		code          int
		want          string
	}{
		"a good token":           {at(server), botToken, 0, "its credentials and its network are in order"},
		"a token of nobody's":    {at(server), botToken + "x", 3, "Telegram does not know the token: ask @BotFather for it again"},
		"words":                  {at(server), "the quiet-harbour", 3, "The token is not one of @BotFather's"},
		"a service that is away": {at(away), botToken, 3, "The Bot API was not reached"},
		"no hosts yet":           {"", botToken, 0, "it was not tried, because it wants hosts of your choice: name them in [access.telegram] hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.config(c.config)
			screen, wait := i.terminal("setup", "telegram")
			screen.until("value: ")
			screen.unseen()
			screen.typeIn(c.token + "\r")
			have := wait()
			if said := strings.Join(strings.Fields(have.stdout), " "); have.code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("exit %d, want %d and %q: %s", have.code, c.code, c.want, have.stdout)
			}
			hasNo(t, have.stdout+i.configured(), c.token)
			hasNoSecret(t, i.state(), c.token)
			if kept := fileText(filepath.Join(i.work, "home/.config/nacre/credentials/telegram/token")); kept != c.token {
				t.Error("the token is not kept")
			}
		})
	}
}

// M-48, M-50b: a file that came with a message is read, kept in the project and sent back, changed, to
// where it came from. Nobody is asked, though whoever wrote is no operator.
func TestFilesComeAndGoInAChat(t *testing.T) {
	t.Parallel()
	b := &bot{next: 500}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte(botToken), 0o600))
	work := `cd /workspace/group && ipc tool.invoke.read_telegram_file '{"chat":"42","file":"42-7/1"}' >got && sed 's/.*"content":"\([^"]*\)".*/changed: \1/' got >back.txt && ` +
		`ipc tool.invoke.send_telegram '{"recipient":"42","body":"here it is","file":"back.txt"}'`
	input, err := json.Marshal(map[string]string{"command": work})
	check(t, err)
	i, _ := thinks(t, "[[route]]\nchannel = \"telegram\"\nsender = \"42\"\ngroup = \"main\"\n[groups.main]\ntools = [\"*_telegram*\"]\n"+telegramAt(token, server),
		scriptedmodel.Script{Turns: []scriptedmodel.Turn{{Tools: []scriptedmodel.Tool{{Name: "shell", Input: input}}}, {Text: "Done."}}})
	_, stop := i.serve()
	b.happens("message", map[string]any{"message_id": 7, "date": time.Now().Unix(), "caption": "change it", "from": map[string]any{"id": 42}, "chat": map[string]any{"id": 42, "type": "private"},
		"document": map[string]any{"file_id": "F1", "file_name": "letter.txt", "file_size": 27}})
	until(t, "the end, or a question", func() bool { return b.count("editMessageText 42: ") == 1 || len(i.questions()) > 0 })
	has(t, b.heard(), "sendMessage 42: here it is", "sendDocument 42: back.txt: changed: what documents/letter holds", "editMessageText 42: Done.")
	if asked := i.questions(); len(asked) != 0 {
		t.Errorf("have %+v", asked)
	}
	stop()
	hasNoSecret(t, i.state(), "quiet-harbour-bot")
	i.nacre("audit", "verify").want(t, 0)
}

// M-48: a file of many megabytes goes out of a sealed plugin as it is. One that the service would not
// take is refused with a sentence that says how much it takes.
func TestALargeFileGoesOutOfAChat(t *testing.T) {
	t.Parallel()
	const lines, line = 1_500_000, "0123456789\n"
	i, fake, _ := chatting(t, "telegram", works(t, fmt.Sprintf(`cd /workspace/group && yes 0123456789 | head -n %d >large && head -c 50000001 /dev/zero >huge && `, lines)+
		`ipc tool.invoke.send_telegram '{"recipient":"42","body":"large","file":"large"}' && `+
		`said=$(ipc tool.invoke.send_telegram '{"recipient":"42","body":"huge","file":"huge"}' 2>&1 | tr -dc 'a-z0-9_:, ') && `+
		`ipc tool.invoke.send_telegram "{\"recipient\":\"42\",\"body\":\"refused: $said\"}"`), scriptedmodel.Turn{Text: "Done."})
	_, stop := i.serve()
	fake.writes("42", "send it")
	until(t, "the end", func() bool { return strings.Contains(fake.heard(), "editMessageText 42: ") })
	has(t, fake.heard(), fmt.Sprintf("sendDocument 42: large: %d bytes, sha256 %x", lines*len(line), sha256.Sum256([]byte(strings.Repeat(line, lines)))),
		"file: the file has 50000001 bytes, and the files of one call to send_telegram hold at most 50000000 bytes in all: name a smaller one, or a part of it")
	stop()
	i.nacre("audit", "verify").want(t, 0)
}

// M-46, M-47: a card whose question ended while nothing served loses its buttons when nacre serves
// again. One whose question still waits does too, and is shown again with others, which work. The
// buttons of before decide nothing. That holds of a card, too, that the service had not confirmed when
// nacre was stopped.
func TestCardsOfBeforeARestart(t *testing.T) {
	t.Parallel()
	b := &bot{next: 500, slow: time.Second}
	i := telegrams(t, b)
	i.nacre("exec", "-q", "--", "sh", "-c", `for n in 1 2; do ipc create_reminder '{"title":"pay","list":"Work"}'; done`).want(t, 0, "R-2")
	_, stop := i.serve()
	first := i.begin("exec", "-q", "--session", "one", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	until(t, "the first card", func() bool { return b.count("sendMessage 42: ") == 1 })
	one := i.question()
	second := i.begin("exec", "-q", "--session", "two", "--", "ipc", "delete_reminder", `{"reminder_id":"R-2"}`)
	until(t, "the second card", func() bool { return b.count("sendMessage 42: ") == 2 })
	old := b.latest()
	stop()
	i.nacre("approvals", "deny", one.ID).want(t, 0)
	finish(t, first)
	_, stop = i.serve()
	until(t, "the ends of the old cards, and a new one", func() bool {
		return b.count("editMessageText 42: ") == 2 && b.count("It waits no longer") == 1 && b.count("is shown again") == 1 && b.count("sendMessage 42: ") == 3
	})
	b.presses(42, old[0])
	until(t, "the answer to an old button", func() bool { return b.count("alert true: Nothing was decided: ") == 1 })
	if len(i.questions()) != 1 {
		t.Fatal("an old button decided")
	}
	b.presses(42, b.latest()[0])
	finish(t, second).want(t, 0, "R-2")
	stop()
	hasNoSecret(t, i.state(), "quiet-harbour-bot")
	i.nacre("audit", "verify").want(t, 0)
}

// latest are the buttons of the card that was shown last.
func (b *bot) latest() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buttons
}

// M-40, M-46, M-47, M-48: a question of another process is a card in the chat of the person who may
// answer it, and of nobody else. A stranger's press and a forged one decide nothing. The person's own
// does, once, is recorded with person, identity, face and card, and the card says how it ended. The
// token is nowhere but in the requests.
func TestAQuestionIsAnsweredFromAChat(t *testing.T) {
	t.Parallel()
	b := &bot{next: 500}
	i := telegrams(t, b)
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	_, stop := i.serve()
	r := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	until(t, "the card", func() bool { return b.count("sendMessage 42: ") == 1 })
	has(t, b.heard(), "delete_reminder", "R-1", "DESTRUCTIVE", "expires: ")
	b.mu.Lock()
	approve, deny := b.buttons[0], b.buttons[1]
	b.mu.Unlock()
	b.presses(13, approve) // a stranger's, who is told nothing
	for n, c := range []struct {
		user   int64
		button string
		want   string
	}{{43, approve, "alert true: Nothing was decided: "}, {42, "aaaaaaaaaaaaaaaa", "alert true: Nothing was decided: "}, {42, "", "alert true: Nothing was decided: "}} {
		b.presses(c.user, c.button)
		until(t, "the answer to a press", func() bool { return b.count("alert ") == n+1 })
		if alerts := strings.SplitAfter(b.heard()+"\n", "alert "); !strings.HasPrefix("alert "+alerts[n+1], c.want) {
			t.Errorf("%d pressed %q: have %q", c.user, c.button, alerts[n+1])
		}
	}
	if len(i.questions()) != 1 {
		t.Fatal("a press that was refused ended the question")
	}
	b.presses(42, approve)
	finish(t, r).want(t, 0, "R-1")
	until(t, "the end of the card", func() bool {
		return b.count("editMessageText 42: ") > 0 && b.count("Approved once by ada (telegram).") == 2
	})
	b.presses(42, deny)
	until(t, "the answer to a late press", func() bool { return b.count("alert true: Nothing was decided: ") == 4 })
	has(t, i.records("asks"), `"person":"ada"`, `"identity":"telegram:42"`, `"face":"telegram"`, `"reason":"stranger"`, `"reason":"right"`)
	if b.count("sendMessage 43") != 0 || b.count("sendMessage 13") != 0 {
		t.Errorf("others were shown something:\n%s", b.heard())
	}
	stop()
	hasNoSecret(t, i.state(), "quiet-harbour-bot")
	i.nacre("audit", "verify").want(t, 0)
	if b.refused != 0 {
		t.Errorf("%d calls with another token", b.refused)
	}
}

// M-46: in the quiet hours of a person no card is shown to that person, and at a place that a
// person did not name none ever is. The question waits all the same: it is shown to the others at
// once, and to the person when the quiet hours end.
func TestAPersonIsToldWhereAndWhenTheyWantIt(t *testing.T) {
	t.Parallel()
	b := &bot{next: 500}
	i := telegrams(t, b)
	now := time.Now().UTC()
	quiet := fmt.Sprintf("quiet_hours = \"%s-%s\"\nzone = \"UTC\"\n", now.Add(-time.Hour).Format("15:04"), now.Add(2*time.Hour).Format("15:04"))
	with := strings.Replace(i.configured(), "[operators.bob]\n", "[operators.bob]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\n", 1)
	ada := func(more string) { i.config(strings.Replace(with, "[operators.ada]\n", "[operators.ada]\n"+more, 1)) }
	ada(quiet)
	i.nacre("exec", "-q", "--", "sh", "-c", `for n in 1 2; do ipc create_reminder '{"title":"pay","list":"Work"}'; done`).want(t, 0, "R-2")
	_, stop := i.serve()
	first := i.begin("exec", "-q", "--session", "one", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	until(t, "bob's card", func() bool { return b.count("sendMessage 43: ") == 1 })
	i.nacre("operators", "list").want(t, 0, "told", "not "+now.Add(-time.Hour).Format("15:04"))
	if b.count("sendMessage 42: ") != 0 {
		t.Fatalf("ada was rung in quiet hours:\n%s", b.heard())
	}
	ada("")
	until(t, "ada's card", func() bool { return b.count("sendMessage 42: ") == 1 })
	b.presses(42, b.latest()[0])
	finish(t, first).want(t, 0, "R-1")
	ada("notify = [\"desktop\"]\n")
	second := i.begin("exec", "-q", "--session", "two", "--", "ipc", "delete_reminder", `{"reminder_id":"R-2"}`)
	until(t, "bob's second card", func() bool { return b.count("sendMessage 43: ") == 2 })
	b.presses(43, b.latest()[0])
	finish(t, second).want(t, 0, "R-2")
	stop()
	if b.count("sendMessage 42: ") != 1 {
		t.Errorf("ada was told at a place that she did not name:\n%s", b.heard())
	}
	i.nacre("audit", "verify").want(t, 0)
}

// M-46, M-47: whoever loses the right to answer loses the card, with what it asked for and what comes of
// it. Its buttons decide nothing, also after the person is an operator again, who is shown another card
// then.
func TestACardIsTakenFromWhoeverMayNotAnswerAnyMore(t *testing.T) {
	t.Parallel()
	b := &bot{next: 500}
	i := telegrams(t, b)
	with := i.configured()
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	_, stop := i.serve()
	r := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	until(t, "the card", func() bool { return b.count("sendMessage 42: ") == 1 })
	old := b.latest()
	i.config(strings.Replace(with, `, "telegram:42"`, "", 1))
	until(t, "the end of the card", func() bool { return b.count("editMessageText 42: ") == 1 })
	has(t, b.heard(), "editMessageText 42: A question was shown here.\nIt is not yours to answer any more.")
	b.presses(42, old[0])
	until(t, "the press of a stranger to be taken", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.updates) == 0 })
	i.config(with)
	until(t, "another card", func() bool { return b.count("sendMessage 42: ") == 2 })
	b.presses(42, old[0])
	until(t, "the answer to an old button", func() bool { return b.count("alert true: Nothing was decided: ") >= 1 })
	if len(i.questions()) != 1 || b.count("alert false: ") != 0 {
		t.Fatal("an old button decided, or a stranger was told something")
	}
	b.presses(42, b.latest()[0])
	finish(t, r).want(t, 0, "R-1")
	stop()
	i.nacre("audit", "verify").want(t, 0)
}
