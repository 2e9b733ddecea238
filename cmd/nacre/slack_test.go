package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

const (
	slackBot = "xoxb-11-22-Zq8-quiet-harbour-bot"
	slackApp = "xapp-1-A1-Zq8-quiet-harbour-app"
)

// workspace is Slack: its Web API and one socket. It keeps what it was told.
type workspace struct {
	mu      sync.Mutex
	at      string // where its sockets are
	sockets map[*websocket.Conn]bool
	last    int
	said    []string
	buttons []string // of the card that was shown last
	bare    []string // what messages say that were edited to have no buttons
	pending []any
	refused int // calls with another token
}

func (s *workspace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/link" {
		s.socket(w, r)
		return
	}
	var p struct {
		Channel, User, TS string
		Blocks            []struct {
			Type     string
			Elements []struct {
				Value    string
				Elements []struct{ Text string }
			}
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&p)
	s.mu.Lock()
	defer s.mu.Unlock()
	method, token := strings.TrimPrefix(r.URL.Path, "/api/"), slackBot
	if method == "apps.connections.open" {
		token = slackApp
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		s.refused++
		_, _ = fmt.Fprint(w, `{"ok":false,"error":"invalid_auth"}`)
		return
	}
	answer := map[string]any{"ok": true, "team_id": "T1", "user_id": "U0BOT", "url": "ws://" + s.at + "/link"}
	if strings.HasPrefix(method, "chat.") {
		s.last++
		answer["ts"], answer["channel"] = fmt.Sprintf("1700000000.%06d", s.last), strings.Replace(p.Channel, "U", "D", 1)
		text, buttons := "", false
		for _, block := range p.Blocks {
			if block.Type == "actions" {
				s.buttons, buttons = nil, true
			}
			for _, e := range block.Elements {
				if block.Type == "actions" {
					s.buttons = append(s.buttons, e.Value)
				}
				for _, piece := range e.Elements {
					text += piece.Text
				}
			}
		}
		s.said = append(s.said, fmt.Sprintf("%s %s%s%s: %s", method, p.Channel, p.User, p.TS, text))
		if method == "chat.update" && len(p.Blocks) > 0 && !buttons {
			s.bare = append(s.bare, text)
		}
	}
	_ = json.NewEncoder(w).Encode(answer) // who left hears nothing
}

func (s *workspace) socket(w http.ResponseWriter, r *http.Request) {
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	s.mu.Lock()
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello"}`))
	for _, e := range s.pending {
		_ = c.WriteJSON(e)
	}
	s.pending, s.sockets[c] = nil, true
	s.mu.Unlock()
	for err == nil {
		_, _, err = c.ReadMessage() // what it acknowledges, and its pings
	}
	s.mu.Lock()
	delete(s.sockets, c)
	s.mu.Unlock()
}

func (s *workspace) presses(user, button string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	e := map[string]any{"type": "interactive", "envelope_id": fmt.Sprint("e", s.last), "payload": map[string]any{"type": "block_actions", "user": map[string]any{"id": user, "team_id": "T1"},
		"channel": map[string]any{"id": "D" + user[1:]}, "message": map[string]any{"ts": "1700000000.000001"},
		"actions": []any{map[string]any{"type": "button", "block_id": "nacre", "value": button, "action_ts": fmt.Sprint(s.last, ".1")}}}}
	if len(s.sockets) == 0 {
		s.pending = append(s.pending, e)
	}
	for c := range s.sockets {
		_ = c.WriteJSON(e)
	}
}

// says lets a person write to the bot alone.
func (s *workspace) says(user, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	e := map[string]any{"type": "events_api", "envelope_id": fmt.Sprint("e", s.last), "payload": map[string]any{"team_id": "T1", "event": map[string]any{
		"type": "message", "channel": "D" + user[1:], "user": user, "team": "T1", "text": text, "ts": fmt.Sprintf("%d.%06d", time.Now().Unix(), s.last)}}}
	if len(s.sockets) == 0 {
		s.pending = append(s.pending, e)
	}
	for c := range s.sockets {
		_ = c.WriteJSON(e)
	}
}

func (s *workspace) card() (buttons []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(buttons, s.buttons...)
}

func (s *workspace) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(strings.Join(s.said, "\n"), text)
}

// M-40, M-46, M-47, M-48: a question is a card in Slack for the person who may answer it, and for
// nobody else, through the plugin's own proxy. A stranger's press, one of another person's, and one
// on a card from before a restart of serve decide nothing. The person's own press does. They are
// told what runs, and stop it; who may not, does not.
func TestAQuestionIsAnsweredFromSlack(t *testing.T) {
	t.Parallel()
	s := &workspace{at: "socket.example.com:81", sockets: map[*websocket.Conn]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	i := install(t)
	i.operators("[operators.ada]\nidentities = [\"terminal:UID\", \"slack:T1:U42\"]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\nstop = true\n" +
		"[operators.bob]\nidentities = [\"slack:T1:U43\"]\n" +
		fmt.Sprintf("[access.slack]\nhosts = [\"api.example.com:80/http\", \"socket.example.com:81/tcp\"]\n[access.slack.credentials]\nbot_token = { value_file = %q }\napp_token = { value_file = %q }\n"+
			"[egress.pin]\n\"api.example.com:80\" = %q\n\"socket.example.com:81\" = %q\n[plugins.slack]\napi = \"http://api.example.com/api\"\n",
			i.write("bot", slackBot), i.write("app", slackApp), server.Listener.Addr().String(), server.Listener.Addr().String()))
	i.nacre("exec", "-q", "--", "ipc", "create_reminder", `{"title":"pay","list":"Work"}`).want(t, 0, "R-1")
	has(t, i.nacre("doctor", "--no-turns", "--live").stdout, "slack its credentials and its network are in order")
	_, stop := i.serve()
	r := i.begin("exec", "-q", "--session", "asks", "--", "ipc", "delete_reminder", `{"reminder_id":"R-1"}`)
	until(t, "the card", func() bool { return s.count("chat.postMessage U42: ") == 1 })
	old := s.card()
	stop()
	_, stop = i.serve()
	until(t, "the card of the next serve", func() bool { return s.count("chat.postMessage U42: ") == 2 })
	now := s.card()
	if len(now) != 3 || len(old) != 3 || now[0] == old[0] {
		t.Fatalf("have the buttons %v after %v", now, old)
	}
	s.says("U13", "!status")
	s.says("U43", "!kill asks")
	s.says("U42", "!status")
	until(t, "the answers", func() bool {
		return s.count("D43: Nothing was stopped: ") == 1 && s.count("D42: asks (exec, group main): 1 waiting for a decision") == 1
	})
	s.presses("U13", now[0])
	for n, c := range []struct{ user, button string }{{"U43", now[0]}, {"U42", old[0]}, {"U42", "aaaaaaaaaaaaaaaa"}} {
		s.presses(c.user, c.button)
		until(t, "the answer to a press", func() bool { return s.count("Nothing was decided: ") >= n+1 && s.count("chat.postEphemeral") == n+1 })
	}
	if s.count("U13") != 0 || len(i.questions()) != 1 {
		t.Fatal("a stranger was told something, or a press that was refused ended the question")
	}
	s.presses("U42", now[0])
	finish(t, r).want(t, 0, "R-1")
	until(t, "the end of the card", func() bool { return s.count("Approved once by ada (slack).") == 2 })
	s.mu.Lock()
	has(t, strings.Join(s.said, "\n"), "delete_reminder", "R-1", "DESTRUCTIVE", "expires: ", "chat.update D42")
	if s.refused != 0 {
		t.Errorf("%d calls with another token", s.refused)
	}
	s.mu.Unlock()
	has(t, i.records("asks"), `"person":"ada"`, `"identity":"slack:T1:U42"`, `"face":"slack"`, `"reason":"stranger"`, `"reason":"right"`)
	killed := i.begin("exec", "-q", "--session", "sleeps", "--", "sleep", "600")
	for s.count("sleeps (exec, group main)") == 0 { // it is asked again only after an answer
		answers := s.count("chat.postMessage D42: ")
		s.says("U42", "!status")
		until(t, "a status", func() bool { return s.count("chat.postMessage D42: ") > answers })
	}
	s.says("U42", "!kill sleeps")
	until(t, "its end", func() bool { return s.count("D42: Session sleeps was told to stop.") == 1 })
	if finish(t, killed).code == 0 {
		t.Error("the session that was stopped ended well")
	}
	has(t, i.records("sleeps"), `"identity":"slack:T1:U42"`)
	stop()
	hasNoSecret(t, i.state(), "quiet-harbour")
	i.nacre("audit", "verify").want(t, 0)
}
