package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

const discordBot = "MTEyMjMzNDQ1NTY2Nzc4ODk5.quietA.Zq8-quiet-harbour-discord-bot"

// gateway is Discord: its HTTP API and one session of its gateway. It keeps what it was told.
type gateway struct {
	mu      sync.Mutex
	at      string // where connections are made
	events  []map[string]any
	socket  *websocket.Conn
	last    int
	said    []string
	buttons []string // of the card that was shown last
	bare    []string // what messages say that were edited to have no buttons
	refused int      // calls with another token
}

func newGateway() *gateway { return &gateway{at: "gateway.example.com:81", last: 1000} }

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		g.connect(w, r)
		return
	}
	var p struct {
		Content    string
		Recipient  string `json:"recipient_id"`
		Flags      int
		Components []struct {
			Components []struct {
				ID string `json:"custom_id"`
			}
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&p)
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("Authorization") != "Bot "+discordBot {
		g.refused++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	path := r.Method + strings.TrimPrefix(r.URL.Path, "/api/v10")
	answer := map[string]any{"id": "900", "bot": true, "url": "ws://" + g.at}
	switch {
	case strings.HasSuffix(path, "/users/@me/channels"):
		answer["id"] = p.Recipient + "000"
	case r.Method == http.MethodGet:
	default:
		g.last++
		answer["id"] = fmt.Sprint(g.last)
		for _, row := range p.Components {
			g.buttons = nil
			for _, b := range row.Components {
				g.buttons = append(g.buttons, b.ID)
			}
		}
		g.said = append(g.said, fmt.Sprintf("%s %d: %s", path, p.Flags, strings.ReplaceAll(p.Content, `\`, "")))
		if r.Method == http.MethodPatch && p.Components != nil && len(p.Components) == 0 { // without a word of them they stay
			g.bare = append(g.bare, strings.ReplaceAll(p.Content, `\`, ""))
		}
	}
	_ = json.NewEncoder(w).Encode(answer) // who left hears nothing
}

func (g *gateway) connect(w http.ResponseWriter, r *http.Request) {
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op":10,"d":{"heartbeat_interval":41250}}`))
	var said struct {
		Op   int
		Data struct {
			Token string
		} `json:"d"`
	}
	if _, data, err := c.ReadMessage(); err != nil || json.Unmarshal(data, &said) != nil || said.Op != 2 && said.Op != 6 || said.Data.Token != discordBot {
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4004, ""), time.Now().Add(time.Minute))
		return
	}
	g.mu.Lock()
	g.socket = c
	begun := `{"op":0,"t":"READY","s":1,"d":{"session_id":"s","resume_gateway_url":"ws://` + g.at + `","user":{"id":"900","bot":true}}}`
	if said.Op == 6 {
		begun = fmt.Sprintf(`{"op":0,"t":"RESUMED","s":%d,"d":{}}`, g.last)
	}
	_ = c.WriteMessage(websocket.TextMessage, []byte(begun))
	for _, e := range g.events {
		_ = c.WriteJSON(e)
	}
	g.events = nil
	g.mu.Unlock()
	for {
		var beat struct{ Op int }
		_, data, err := c.ReadMessage()
		if err != nil {
			break
		}
		if json.Unmarshal(data, &beat) == nil && beat.Op == 1 {
			g.mu.Lock()
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op":11}`))
			g.mu.Unlock()
		}
	}
	g.mu.Lock()
	if g.socket == c {
		g.socket = nil
	}
	g.mu.Unlock()
}

func (g *gateway) happens(kind string, data map[string]any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	data["id"] = fmt.Sprint((time.Now().UnixMilli()-1420070400000)<<22 + int64(g.last))
	e := map[string]any{"op": 0, "t": kind, "s": g.last, "d": data}
	if g.socket == nil {
		g.events = append(g.events, e)
		return
	}
	_ = g.socket.WriteJSON(e)
}

func (g *gateway) presses(user, button string) {
	g.mu.Lock()
	key := fmt.Sprint("key", g.last)
	g.mu.Unlock()
	g.happens("INTERACTION_CREATE", map[string]any{"application_id": "901", "token": key, "type": 3, "channel_id": user + "000", "user": map[string]any{"id": user},
		"message": map[string]any{"id": "7"}, "data": map[string]any{"component_type": 2, "custom_id": button}})
}

// says lets a person write to the bot alone.
func (g *gateway) says(user, text string) {
	g.happens("MESSAGE_CREATE", map[string]any{"channel_id": user + "000", "author": map[string]any{"id": user}, "type": 0, "content": text})
}

func (g *gateway) card() (buttons []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append(buttons, g.buttons...)
}

func (g *gateway) heard() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.said, "\n")
}

func (g *gateway) count(text string) int { return strings.Count(g.heard(), text) }

// discordConfig lets the plugin reach an API and a gateway at an address.
func discordConfig(address string) string {
	return fmt.Sprintf("[egress.pin]\n\"api.example.com:80\" = %q\n\"gateway.example.com:81\" = %q\n[plugins.discord]\napi = \"http://api.example.com/api/v10\"\n"+
		"[access.discord]\nhosts = [\"api.example.com:80/http\", \"gateway.example.com:81/tcp\"]\n", address, address)
}

// M-40, M-46, M-47, M-48: a question is a card in Discord for the person who may answer it, and for
// nobody else, through the plugin's own proxy. A stranger's press, one of another person's, and one on
// a card from before a restart of serve decide nothing. The person's own press does. They are told
// what runs, and stop it; who may not, does not.
func TestAQuestionIsAnsweredFromDiscord(t *testing.T) {
	t.Parallel()
	g := newGateway()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	i := install(t)
	i.operators("[operators.ada]\nidentities = [\"terminal:UID\", \"discord:42\"]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\nstop = true\n" +
		"[operators.bob]\nidentities = [\"discord:43\"]\n" + discordConfig(server.Listener.Addr().String()) +
		fmt.Sprintf("[access.discord.credentials]\ntoken = { value_file = %q }\n", i.write("token", discordBot)))
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	has(t, i.nacre("doctor", "--no-turns", "--live").stdout, "discord its credentials and its network are in order")
	_, stop := i.serve()
	r := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	card := "POST/channels/42000/messages 4: "
	until(t, "the card", func() bool { return g.count(card) == 1 })
	old := g.card()
	stop()
	_, stop = i.serve()
	until(t, "the card of the next serve", func() bool { return g.count(card) == 2 })
	now := g.card()
	if len(now) != 3 || len(old) != 3 || now[0] == old[0] {
		t.Fatalf("have the buttons %v after %v", now, old)
	}
	g.says("13", "!status")
	g.says("43", "!kill asks")
	g.says("42", "!status")
	until(t, "the answers", func() bool {
		return g.count("43000/messages 4: Nothing was stopped: ") == 1 && g.count("42000/messages 4: asks (exec, group main): 1 waiting for a decision") == 1
	})
	g.presses("13", now[0])
	for n, c := range []struct{ user, button string }{{"43", now[0]}, {"42", old[0]}, {"42", "aaaaaaaaaaaaaaaa"}} {
		g.presses(c.user, c.button)
		until(t, "the answer to a press", func() bool { return g.count("Nothing was decided: ") >= n+1 && g.count("POST/webhooks/901/") == n+1 })
	}
	if g.count("channels/13") != 0 || len(i.questions()) != 1 {
		t.Fatal("a stranger was told something, or a press that was refused ended the question")
	}
	g.presses("42", now[0])
	finish(t, r).want(t, 0, "R-1")
	until(t, "the end of the card", func() bool {
		return g.count("PATCH/channels/42000/") > 0 && g.count("Approved once by ada (discord).") == 2
	})
	has(t, g.heard(), "delete_reminder", "R-1", "DESTRUCTIVE", "expires: ")
	has(t, i.records("asks"), `"person":"ada"`, `"identity":"discord:42"`, `"face":"discord"`, `"reason":"stranger"`, `"reason":"right"`)
	killed := i.begin("exec", "-q", "--session", "sleeps", "--", "sleep", "600")
	for g.count("sleeps (exec, group main)") == 0 { // it is asked again only after an answer
		answers := g.count(card)
		g.says("42", "!status")
		until(t, "a status", func() bool { return g.count(card) > answers })
	}
	g.says("42", "!kill sleeps")
	until(t, "its end", func() bool { return g.count("Session sleeps was told to stop.") == 1 })
	if finish(t, killed).code == 0 {
		t.Error("the session that was stopped ended well")
	}
	has(t, i.records("sleeps"), `"identity":"discord:42"`)
	stop()
	if g.refused != 0 {
		t.Errorf("%d calls with another token", g.refused)
	}
	hasNoSecret(t, i.state(), "quiet-harbour")
	i.nacre("audit", "verify").want(t, 0)
}

// M-48: nacre plugin setup discord keeps the token, and tries it at once, with the way to the gateway.
// Whatever a Discord answers, the command ends with a sentence, and the token is not shown.
func TestDiscordIsSetUp(t *testing.T) {
	t.Parallel()
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = fmt.Fprint(w, text) }
	}
	for name, c := range map[string]struct {
		api   http.Handler
		token string
		code  int
		want  string
	}{
		"a good token":           {newGateway(), discordBot, 0, "its credentials and its network are in order"},
		"a token of nobody's":    {newGateway(), strings.Replace(discordBot, "quietA", "quietB", 1), 3, "Discord does not know the token"},
		"a token with its title": {newGateway(), "Bot " + discordBot, 3, "The token is not one of a bot's"},
		"no token":               {newGateway(), "", 0, "still missing"},
		"a person's token":       {says(200, `{"id":"42"}`), discordBot, 3, "The token is a person's"},
		"an API that is none":    {says(200, "<html>quiet</html>"), discordBot, 3, "does not work with"},
		"a gateway elsewhere":    {says(200, `{"id":"900","bot":true,"url":"ws://evil.example"}`), discordBot, 3, "gateway was not reached"},
		"an answer that sends elsewhere": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/?"+r.Header.Get("Authorization"), http.StatusTemporaryRedirect)
		}), discordBot, 3, "does not work with"},
		"a limit of calls": {says(429, `{"message":"`+discordBot+`","retry_after":3600}`), discordBot, 3, "does not work with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.api)
			t.Cleanup(server.Close)
			i := install(t)
			i.config(discordConfig(server.Listener.Addr().String()))
			setup := i.command(filepath.Join(bin, "nacre"), "plugin", "setup", "discord")
			setup.Stdin = strings.NewReader(c.token + "\n")
			out, _ := setup.CombinedOutput() // its code says it
			said := string(out)
			if code := setup.ProcessState.ExitCode(); code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.want, said)
			}
			hasNo(t, said, "quiet-harbour", "ERROR: NETWORK", "ERROR: AUTH")
			hasNoSecret(t, i.state(), "quiet-harbour")
			if info, err := os.Stat(filepath.Join(i.work, "home/.config/nacre/credentials/discord/token")); c.token != "" && (err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("the token is not kept: %v", err)
			}
		})
	}
}
