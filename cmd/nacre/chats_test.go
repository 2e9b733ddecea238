package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
)

// chatFake is a service at which the operator ada writes to the bot alone, and bob does.
type chatFake interface {
	http.Handler
	writes(who, text string)
	taps(who, button string)
	card() []string // the buttons of the card that was shown last
	heard() string
	ended(how string) int // how many cards were edited to say so and to have no buttons
	cuts()                // ends the connections that it has
}

// users are the ids of two persons at a service, and the chats in which they are alone with the bot.
type users struct{ ada, bob, chat string }

func (s *workspace) writes(who, text string) { s.says(who, text) }
func (s *workspace) taps(who, button string) { s.presses(who, button) }

func (s *workspace) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

func (s *workspace) ended(how string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return saying(s.bare, how)
}

func (g *gateway) ended(how string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return saying(g.bare, how)
}

func (b telegramFake) ended(how string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return saying(b.bare, how)
}

// saying is how many texts have a part.
func saying(texts []string, part string) (n int) {
	for _, text := range texts {
		if strings.Contains(text, part) {
			n++
		}
	}
	return n
}

func (s *workspace) cuts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		_ = c.Close()
	}
}

func (g *gateway) cuts() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.socket != nil {
		_ = g.socket.Close()
		g.socket = nil
	}
}

func (g *gateway) writes(who, text string) { g.says(who, text) }
func (g *gateway) taps(who, button string) { g.presses(who, button) }

// telegramFake is a bot's server as a chatFake.
type telegramFake struct{ *bot }

func (b telegramFake) cuts() {} // each of its connections is one call

func (b telegramFake) card() []string { return slices.Clone(b.latest()) }

func (b telegramFake) writes(who, text string) {
	b.happens("message", map[string]any{"message_id": time.Now().UnixNano() % 1_000_000, "date": time.Now().Unix(), "text": text,
		"from": map[string]any{"id": number(who)}, "chat": map[string]any{"id": number(who), "type": "private"}})
}

func (b telegramFake) taps(who, button string) { b.presses(number(who), button) }

func number(text string) (n int64) {
	_, _ = fmt.Sscan(text, &n) // the test's own
	return n
}

// chatService is a service with a config that reaches it at an address.
type chatService struct {
	fake   func() chatFake
	config func(i *installation, address string) string
	users  users
}

func chatServices() map[string]chatService {
	return map[string]chatService{
		"telegram": {
			func() chatFake { return telegramFake{&bot{next: 500}} },
			func(i *installation, address string) string {
				return fmt.Sprintf("[access.telegram]\nhosts = [\"api.example.com:80/http\"]\n[access.telegram.credentials]\ntoken = { value_file = %q }\n[egress.pin]\n\"api.example.com:80\" = %q\n[plugins.telegram]\napi = \"http://api.example.com\"\n", i.write("telegram.token", botToken), address)
			}, users{"42", "43", "42"},
		},
		"slack": {
			func() chatFake {
				return &workspace{at: "socket.example.com:81", sockets: map[*websocket.Conn]bool{}}
			},
			func(i *installation, address string) string {
				return fmt.Sprintf("[access.slack]\nhosts = [\"api.example.com:80/http\", \"socket.example.com:81/tcp\"]\n[access.slack.credentials]\nbot_token = { value_file = %q }\napp_token = { value_file = %q }\n"+
					"[egress.pin]\n\"api.example.com:80\" = %q\n\"socket.example.com:81\" = %q\n[plugins.slack]\napi = \"http://api.example.com/api\"\n", i.write("bot", slackBot), i.write("app", slackApp), address, address)
			}, users{"U42", "U43", "D42"},
		},
		"discord": {
			func() chatFake { return newGateway() },
			func(i *installation, address string) string {
				return discordConfig(address) + fmt.Sprintf("[access.discord.credentials]\ntoken = { value_file = %q }\n", i.write("discord.token", discordBot))
			}, users{"42", "43", "42000"},
		},
	}
}

// identity is a person's at a service.
func (s chatService) identity(name, user string) string {
	if name == "slack" {
		user = "T1:" + user
	}
	return name + ":" + user
}

// senderOf is how routes name a person of a service.
func (s chatService) senderOf(name, user string) string {
	_, sender, _ := strings.Cut(s.identity(name, user), ":")
	return sender
}

// works is a turn of a model that runs a command in the sandbox, for up to ten minutes.
func works(t *testing.T, command string) scriptedmodel.Turn {
	t.Helper()
	input, err := json.Marshal(map[string]any{"command": command, "timeout_s": 600})
	check(t, err)
	return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "shell", Input: input}}}
}

// chatting is an installation whose operator ada gives an agent work at a service.
func chatting(t *testing.T, name string, turns ...scriptedmodel.Turn) (*installation, chatFake, chatService) {
	t.Helper()
	fake := chatServices()[name].fake()
	i, _, s := chattingAt(t, name, fake, turns...)
	return i, fake, s
}

// chattingAt is [chatting] where something stands in front of the service.
func chattingAt(t *testing.T, name string, front http.Handler, turns ...scriptedmodel.Turn) (*installation, *scriptedmodel.Server, chatService) {
	t.Helper()
	s := chatServices()[name]
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	i, model := thinks(t, "", scriptedmodel.Script{Turns: turns})
	i.config(i.configured() + strings.ReplaceAll(fmt.Sprintf("[groups.main]\ntools = [\"*_reminder*\", \"send_%s\"]\n[[route]]\nchannel = %q\nsender = %q\ngroup = \"main\"\noperator = true\n"+
		"[operators.ada]\nidentities = [\"terminal:UID\", %q]\napprove = [\"*\"]\nup_to = \"DESTRUCTIVE\"\nask = true\nstop = true\n[operators.bob]\nidentities = [%q]\n",
		name, name, s.senderOf(name, s.users.ada), s.identity(name, s.users.ada), s.identity(name, s.users.bob)), "UID", fmt.Sprint(os.Geteuid())) +
		s.config(i, server.Listener.Addr().String()))
	return i, model, s
}

// liveBeside asks for the status, one answer after the other, until it names a session that is
// not this one.
func liveBeside(t *testing.T, fake chatFake, who, session string) (other string) {
	t.Helper()
	names := regexp.MustCompile(`([a-z0-9-]+) \([a-z]+, group main\)`)
	asked, answers := 0, func() int {
		return strings.Count(fake.heard(), ", group main)") + strings.Count(fake.heard(), "No session runs")
	}
	before := answers()
	until(t, "another session in the status", func() bool {
		for _, m := range names.FindAllStringSubmatch(fake.heard(), -1) {
			if m[1] != session {
				other = m[1]
			}
		}
		if other == "" && answers() >= before+asked {
			asked = answers() - before + 1
			fake.writes(who, "!status")
		}
		return other != ""
	})
	return other
}

// M-40, M-46, M-47, M-48: the same from each chat. A person gives work to do, and sees in one message
// that it is done and in the status that it waits for them. They approve what it asks, are answered,
// and stop what goes on for too long. Who may not is told so, and nothing happens.
func TestAPersonWorksFromEachChat(t *testing.T) {
	t.Parallel()
	for name := range chatServices() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			users := chatServices()[name].users
			i, fake, service := chatting(t, name,
				works(t, `cd /workspace/group && if test -e gone; then sleep 600; fi; ipc create_reminder '{"title":"pay","list":"Work"}' && ipc delete_reminder '{"reminder_id":"R-1"}' >gone && ipc tool.invoke.send_`+name+` '{"recipient":"`+users.chat+`","body":"it is gone"}'`),
				scriptedmodel.Turn{Text: "Done."})
			with := i.configured()
			i.config(memoryTools)
			i.nacre("exec", "-q", "--", "ipc", "memory_store", `{"type":"fact","content":"a fact"}`).want(t, 0)
			i.config(with)
			_, stop := i.serve()
			sees := func(what, text string) {
				t.Helper()
				until(t, what, func() bool { return strings.Contains(fake.heard(), text) })
			}
			fake.writes(users.ada, "take the reminder away")
			sees("that it is worked on", "Working on it")
			sees("the card", "delete_reminder")
			session := i.question().Session
			fake.writes(users.ada, "!status")
			sees("the status", string(session)+" (")
			has(t, fake.heard(), "1 waiting for a decision", "R-1", "DESTRUCTIVE")
			fake.writes(users.ada, "!waiting")
			sees("what waits", "memory main: memories to review: 1 (without an end, UTC)")
			has(t, fake.heard(), "tool "+i.question().ID+": ", "(since ", ", until ")
			fake.writes(users.bob, "!waiting")
			sees("that nothing waits for bob", "Nothing waits for you.")
			fake.writes(users.bob, "!kill "+string(session))
			sees("that bob stops nothing", "Nothing was stopped: ")
			fake.taps(users.ada, fake.card()[0])
			sees("what was decided", "Approved once by ada ("+name+").")
			sees("the answer", "it is gone")
			sees("the end of it", "Done.")
			fake.writes(users.ada, "do what takes long")
			long := liveBeside(t, fake, users.ada, string(session))
			fake.writes(users.ada, "!kill "+long)
			sees("that it is told to stop", "Session "+long+" was told to stop.")
			sees("that no answer comes", "No answer will come: ")
			stop()
			has(t, i.records(string(session)), `"person":"ada"`, `"identity":"`+service.identity(name, users.ada)+`"`, `"face":"`+name+`"`)
			has(t, i.records(long), `"identity":"`+service.identity(name, users.ada)+`"`)
			hasNoSecret(t, i.state(), "quiet-harbour")
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// M-45: what a model streams reaches each chat as whole messages: one that says how the work goes, and
// is edited at its end, and the answer.
func TestAChatIsWrittenToInWholeMessages(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("many words ", 150))
	for name, service := range chatServices() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			send, err := json.Marshal(map[string]string{"recipient": service.users.chat, "body": long})
			check(t, err)
			i, fake, _ := chatting(t, name, scriptedmodel.Turn{Text: long, Tools: []scriptedmodel.Tool{{Name: "send_" + name, Input: send}}}, scriptedmodel.Turn{Text: long})
			_, stop := i.serve()
			fake.writes(service.users.ada, "hello")
			until(t, "the end", func() bool { return strings.Contains(fake.heard(), "Done.") })
			stop()
			lines := strings.Split(fake.heard(), "\n")
			if len(lines) != 3 || !strings.HasSuffix(lines[0], "Working on it …") || !strings.HasSuffix(lines[1], long) || !strings.HasSuffix(lines[2], "Done.") {
				t.Errorf("have %d messages:\n%s", len(lines), fake.heard())
			}
		})
	}
}
