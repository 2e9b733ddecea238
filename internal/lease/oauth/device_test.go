package oauth_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/lease/oauth"
)

// deviceServer is an MCP server and its authorization server, which gives codes (RFC 8628) and answers
// whoever has one as a test says, one answer after the other.
type deviceServer struct {
	url     string
	answers []string
	none    bool // it gives no codes
}

func (s *deviceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	w.Header().Set("Content-Type", "application/json")
	answer := func(v map[string]any) { _ = json.NewEncoder(w).Encode(v) }
	switch r.URL.Path {
	case "/mcp":
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.url+`/about"`)
		w.WriteHeader(http.StatusUnauthorized)
	case "/about":
		answer(map[string]any{"resource": s.url + "/mcp", "authorization_servers": []string{s.url}})
	case "/.well-known/oauth-authorization-server":
		said := map[string]any{"issuer": s.url, "authorization_endpoint": s.url + "/authorize", "token_endpoint": s.url + "/token", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}}
		if !s.none {
			said["device_authorization_endpoint"] = s.url + "/device"
		}
		answer(said)
	case "/device":
		answer(map[string]any{"device_code": "the-device-code", "user_code": "WDJB-MJHT", "verification_uri": s.url + "/type", "expires_in": 60})
	case "/token":
		next := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		switch next {
		case "token":
			answer(map[string]any{"access_token": "access-1", "token_type": "Bearer", "expires_in": 3600})
		case "down":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusBadRequest)
			answer(map[string]any{"error": next, "error_description": "the-device-code"})
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// M-36: whoever has a code asks no more often than the server wants. They ask less often after they
// were told to slow down or heard nothing, and stop at a no and when the code is over.
func TestACodeIsAskedForAsTheServerWants(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		answers []string
		waits   []time.Duration
		err     string
	}{
		"a yes at once":             {[]string{"token"}, []time.Duration{5 * s}, ""},
		"a yes after a while":       {[]string{"authorization_pending", "authorization_pending", "token"}, []time.Duration{5 * s, 5 * s, 5 * s}, ""},
		"slow down, twice":          {[]string{"slow_down", "slow_down", "authorization_pending", "token"}, []time.Duration{5 * s, 10 * s, 15 * s, 15 * s}, ""},
		"a server that is down":     {[]string{"down", "down", "token"}, []time.Duration{5 * s, 10 * s, 20 * s}, ""},
		"a no":                      {[]string{"authorization_pending", "access_denied"}, []time.Duration{5 * s, 5 * s}, "access_denied"},
		"a code that is over":       {[]string{"expired_token"}, []time.Duration{5 * s}, "sign in again"},
		"one that the server keeps": {[]string{"slow_down"}, []time.Duration{5 * s, 10 * s, 15 * s, 20 * s, 25 * s}, "sign in again"},
		"an error of another name":  {[]string{"invalid_grant"}, []time.Duration{5 * s}, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &deviceServer{answers: c.answers}
			web := httptest.NewServer(server)
			t.Cleanup(web.Close)
			server.url = web.URL
			now := time.Now()
			var waits []time.Duration
			store := oauth.Store{
				Path: filepath.Join(t.TempDir(), "notes.oauth"), Now: func() time.Time { return now },
				Wait: func(_ context.Context, d time.Duration) error { waits, now = append(waits, d), now.Add(d); return nil },
			}
			shown := ""
			l, err := store.SignIn(t.Context(), oauth.Request{Server: web.URL + "/mcp", ClientID: "me", Show: func(page, code string) { shown = code + " at " + page }})
			if shown != "WDJB-MJHT at "+web.URL+"/type" || !slices.Equal(waits, c.waits) {
				t.Errorf("%q was shown, and it waited for %v", shown, waits)
			}
			if c.err == "" && (err != nil || l.Access != "access-1" || l.Resource != web.URL+"/mcp") {
				t.Errorf("have %q for %q, %v", l.Access, l.Resource, err)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "the-device-code") || l.Access != "") {
				t.Errorf("have %q, %v", l.Access, err)
			}
		})
	}
}

// M-36: a server that gives no codes is not waited for, and who is told to stop stops.
func TestACodeThatIsNotGiven(t *testing.T) {
	t.Parallel()
	server := &deviceServer{none: true}
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	server.url = web.URL
	store := oauth.Store{Path: filepath.Join(t.TempDir(), "notes.oauth")}
	request := oauth.Request{Server: web.URL + "/mcp", ClientID: "me", Show: func(string, string) {}}
	if _, err := store.SignIn(t.Context(), request); err == nil || !strings.Contains(err.Error(), "no sign-in by a code") {
		t.Errorf("have %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	server.none, request.Show = false, func(string, string) { cancel() }
	if _, err := store.SignIn(ctx, request); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("have %v", err)
	}
}
