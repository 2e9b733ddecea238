package oauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/lease/oauth"
)

// server refreshes tokens, each refresh token once, and answers as a test says.
type server struct {
	mu      sync.Mutex
	refresh string
	asked   int
	how     string
	revoked []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	_ = r.ParseForm()
	switch {
	case r.URL.Path == "/revoke":
		s.revoked = append(s.revoked, r.Form.Get("token"))
	case s.how == "down":
		w.WriteHeader(http.StatusServiceUnavailable)
	case s.how == "a page":
		_, _ = w.Write([]byte("<html>"))
	case s.how == "a redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case s.how == "another type":
		_, _ = w.Write([]byte(`{"access_token":"a-token-of-another-type","token_type":"mac"}`))
	case s.how == "a token with a line end":
		_, _ = w.Write([]byte(`{"access_token":"a\r\nX: y","token_type":"bearer"}`))
	case r.Form.Get("refresh_token") != s.refresh || r.Form.Get("client_id") != "me" || r.Form.Get("resource") != "https://mcp.example/mcp":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"the-refresh-token"}`))
	default:
		s.refresh = fmt.Sprintf("refresh-%d", s.asked)
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprintf("access-%d", s.asked), "refresh_token": s.refresh, "token_type": "Bearer", "expires_in": 3600})
	}
}

// kept is a sign-in whose token ends after a time.
func kept(t *testing.T, left time.Duration) (oauth.Store, *server) {
	t.Helper()
	s := &server{refresh: "refresh-0"}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	store := oauth.Store{Path: filepath.Join(t.TempDir(), "notes.oauth")}
	now := time.Now()
	err := store.Keep(t.Context(), oauth.Login{
		Server: "https://mcp.example/mcp", Resource: "https://mcp.example/mcp", TokenURL: web.URL + "/token", RevokeURL: web.URL + "/revoke", ClientID: "me",
		Access: "access-0", Refresh: "refresh-0", Issued: now.Add(left - time.Hour), Expires: now.Add(left),
	})
	if err != nil {
		t.Fatal(err)
	}
	return store, s
}

// M-36: a token is used while it is good, and refreshed once however many ask for it. What the
// server gave in place of the refresh token is what is used next.
func TestATokenIsRefreshedOnce(t *testing.T) {
	t.Parallel()
	store, s := kept(t, 30*time.Minute)
	if have, err := store.Token(t.Context()); err != nil || have.Reveal() != "access-0" || s.asked != 0 {
		t.Errorf("have %q, %v after %d requests", have.Reveal(), err, s.asked)
	}
	store, s = kept(t, time.Minute)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if have, err := store.Token(t.Context()); err != nil || have.Reveal() != "access-1" {
				t.Errorf("have %q, %v", have.Reveal(), err)
			}
		})
	}
	all.Wait()
	if s.asked != 1 {
		t.Errorf("the server was asked %d times", s.asked)
	}
	later := store
	later.Now = func() time.Time { return time.Now().Add(59 * time.Minute) }
	if have, err := later.Token(t.Context()); err != nil || have.Reveal() != "access-2" {
		t.Errorf("have %q, %v", have.Reveal(), err)
	}
}

// M-36: a server that refuses is not asked again, and a person is told to sign in.
func TestARefusedRefreshNeedsASignIn(t *testing.T) {
	t.Parallel()
	store, s := kept(t, -time.Minute)
	s.refresh = "another"
	for range 3 {
		if _, err := store.Token(t.Context()); !errors.Is(err, oauth.ErrSignIn) || !strings.Contains(err.Error(), "invalid_grant") || strings.Contains(err.Error(), "refresh-") {
			t.Errorf("have %v", err)
		}
	}
	if s.asked != 1 {
		t.Errorf("the server was asked %d times", s.asked)
	}
}

// M-36: a server that answers wrongly gives no token, and costs none that is good.
func TestAServerThatAnswersWrongly(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"down", "a page", "a redirect", "another type", "a token with a line end"} {
		store, s := kept(t, time.Minute)
		s.how = how
		if have, err := store.Token(t.Context()); err != nil || have.Reveal() != "access-0" {
			t.Errorf("%s: have %q, %v", how, have.Reveal(), err)
		}
		store, s = kept(t, -time.Minute)
		s.how = how
		if have, err := store.Token(t.Context()); err == nil || errors.Is(err, oauth.ErrSignIn) || !have.Empty() {
			t.Errorf("%s, once it has ended: have %q, %v", how, have.Reveal(), err)
		}
		s.mu.Lock()
		s.how = ""
		s.mu.Unlock()
		if have, err := store.Token(t.Context()); err != nil || have.Reveal() != "access-2" {
			t.Errorf("after %s: have %q, %v", how, have.Reveal(), err)
		}
	}
}

// M-36, M-37: a file that others can read, that is damaged or not there, gives nothing.
func TestAFileThatIsNotTheOwners(t *testing.T) {
	t.Parallel()
	store, _ := kept(t, time.Hour)
	if err := os.Chmod(store.Path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Token(t.Context()); err == nil || strings.Contains(err.Error(), store.Path) {
		t.Errorf("have %v", err)
	}
	for _, text := range []string{"", "{}", `{"access_token":"a b"}`, "access-0"} {
		path := filepath.Join(t.TempDir(), "x.oauth")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (oauth.Store{Path: path}).Token(t.Context()); !errors.Is(err, oauth.ErrSignIn) {
			t.Errorf("%q: have %v", text, err)
		}
	}
	if _, err := (oauth.Store{Path: filepath.Join(t.TempDir(), "x.oauth")}).Token(t.Context()); !errors.Is(err, oauth.ErrSignIn) {
		t.Errorf("have %v", err)
	}
}

// M-36: what is signed out of is revoked, both tokens of it.
func TestASignOutRevokes(t *testing.T) {
	t.Parallel()
	store, s := kept(t, time.Hour)
	if left, err := store.Remove(t.Context()); err != nil || left != "" || len(s.revoked) != 2 {
		t.Errorf("have %q, %v, and %v are revoked", left, err, s.revoked)
	}
	if _, err := os.Lstat(store.Path); err == nil {
		t.Error("the file is still there")
	}
}
