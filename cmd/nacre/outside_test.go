package main_test

import (
	"crypto/ed25519"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// M-33, M-36, D-21, M-40: what a session uses outside is nowhere that its agent could look, and in nothing that
// nacre keeps or says. That is the key that logs in over SSH, the tokens of a sign-in at an MCP server, and
// what plugins and chats are given.
func TestWhatIsUsedOutsideIsNowhereInside(t *testing.T) {
	t.Parallel()
	for name, opened := range map[string]func(t *testing.T) (i *installation, script string, used func() []string){
		"a key of SSH": func(t *testing.T) (*installation, string, func() []string) {
			i, h, _ := sshForge(t)
			i.config(strings.Replace(i.configured(), "[[credential]]", "[[credential]]\nconfirm = \"never\"", 1))
			return i, cloneAndPush, func() []string {
				if log := h.log(); len(log) != 2 {
					t.Errorf("the host saw %v", log)
				}
				text := i.read("id")
				key, err := ssh.ParseRawPrivateKey([]byte(text))
				check(t, err)
				return append(strings.Split(strings.TrimSpace(text), "\n")[1:4], string(key.(*ed25519.PrivateKey).Seed()))
			}
		},
		"a sign-in": func(t *testing.T) (*installation, string, func() []string) {
			i, s, web := signingIn(t)
			i.signsIn(web).want(t, 0)
			return i, "ipc remote_say '{}'", func() []string {
				s.mu.Lock()
				defer s.mu.Unlock()
				if !slices.Contains(s.seen, "mcp-access-token-1") {
					t.Errorf("the server was shown %v", s.seen)
				}
				return append(slices.Clone(s.good), s.refresh)
			}
		},
		"a plugin": func(t *testing.T) (*installation, string, func() []string) {
			i := reaching(t, `"install": {"credentials": [{"key": "token", "description": "t", "required": true}]},`, "")
			i.config(i.configured() + "[access.near.credentials]\ntoken = { value_file = \"" + i.write("token", reachSecret) + "\" }\n")
			return i, near("near", "secret", "token") + "; " + near("near", "leak", "token"), func() []string { return []string{reachSecret} }
		},
		"a chat": func(t *testing.T) (*installation, string, func() []string) {
			b := &bot{}
			server := httptest.NewServer(b)
			t.Cleanup(server.Close)
			i := install(t)
			i.config("[groups.main]\ntools = [\"send_telegram\"]\n" + telegramAt(i.write("token", botToken), server))
			i.write("home/.config/nacre/policy.toml", "[[rules]]\naction = \"allow\"\nmatch = { safety_class = [\"READ\", \"WRITE\"] }\n")
			return i, `ipc send_telegram '{"recipient":"42","body":"hello"}'`, func() []string {
				b.mu.Lock()
				defer b.mu.Unlock()
				if !strings.Contains(strings.Join(b.said, " "), "hello") || b.refused > 0 {
					t.Errorf("the chat heard %q, and refused %d calls", b.said, b.refused)
				}
				return []string{botToken, strings.TrimPrefix(botToken, "123456:")}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, script, used := opened(t)
			var secrets []string
			i.searched(script, func() []string { secrets = used(); return secrets }, "--session", "work").want(t, 0)
			for _, secret := range secrets {
				hasNoSecret(t, i.state(), secret)
			}
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}
