package login_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/login"
)

// vendor refreshes logins: a refresh token is good once.
type vendor struct {
	mu      sync.Mutex
	current string
	asked   int
	status  int // what it answers instead; 0 where it refreshes
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	var question map[string]string
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if v.status == 0 && (question["refresh_token"] != v.current || question["grant_type"] != "refresh_token" || question["client_id"] == "") {
		v.status = http.StatusBadRequest
	}
	if v.status != 0 {
		w.WriteHeader(v.status)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"` + question["refresh_token"] + `"}`))
		return
	}
	v.current += "+"
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "access-of-" + v.current, "refresh_token": v.current, "expires_in": 3600})
}

var now = time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)

// signedIn is a login whose token ends at the time, with a vendor that refreshes it.
func signedIn(t *testing.T, ends time.Time) (login.Source, *vendor) {
	t.Helper()
	v := &vendor{current: "refresh-1"}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	s := login.Source{Store: login.New(t.TempDir() + "/logins"), Vendor: login.Claude, Endpoint: server.URL, Client: server.Client(), Now: func() time.Time { return now }}
	l := login.Login{Access: nacre.NewSecret("access-1"), Refresh: nacre.NewSecret("refresh-1"), Expires: ends, Scopes: []string{"user:inference"}}
	if err := s.Store.Keep(t.Context(), login.Claude, l); err != nil {
		t.Fatal(err)
	}
	return s, v
}

// U-02: sessions that need a new token at once cause one refresh, also where the vendor
// has just rejected the token that all of them used.
func TestALoginIsRefreshedOnceForAllSessions(t *testing.T) {
	for name, c := range map[string]struct {
		ends     time.Time
		rejected string
	}{
		"a token that has ended":          {now.Add(-time.Hour), ""},
		"a token that the vendor rejects": {now.Add(time.Hour), "access-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := signedIn(t, c.ends)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					l, err := s.Token(t.Context(), nacre.NewSecret(c.rejected))
					if err != nil || l.Access.Reveal() != "access-of-refresh-1+" {
						t.Errorf("token %q, %v", l.Access.Reveal(), err)
					}
				})
			}
			all.Wait()
			if v.asked != 1 {
				t.Errorf("the vendor was asked %d times", v.asked)
			}
			l, err := s.Store.Load(login.Claude)
			if err != nil || l.Refresh.Reveal() != "refresh-1+" || !l.Expires.Equal(now.Add(time.Hour)) {
				t.Errorf("the new login is not kept: %v, %v", l.Expires, err)
			}
		})
	}
}

// U-02: a refresh that the vendor refuses is a sentence that says what to do, and repeats nothing
// of what the vendor wrote. It is not tried again, and a new login ends it.
func TestARefusedRefreshSaysWhatToDo(t *testing.T) {
	s, v := signedIn(t, now)
	v.status = http.StatusBadRequest
	for range 3 {
		_, err := s.Token(t.Context(), nacre.Secret{})
		if err == nil || !strings.Contains(err.Error(), "run nacre login claude again") || !strings.Contains(err.Error(), "invalid_grant") || strings.Contains(err.Error(), "refresh-1") {
			t.Fatalf("have %v", err)
		}
	}
	if v.asked != 1 {
		t.Errorf("the vendor was asked %d times", v.asked)
	}
	if err := s.Store.Keep(t.Context(), login.Claude, login.Login{Access: nacre.NewSecret("new")}); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Token(t.Context(), nacre.Secret{}); err != nil || l.Access.Reveal() != "new" {
		t.Errorf("a new login is not used: %v", err)
	}
	if _, err := s.Token(t.Context(), nacre.NewSecret("new")); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a rejected token without a refresh token: %v", err)
	}
}

// ofAccount is a token that names an account, as those of Codex do.
func ofAccount(account string) string {
	claims := `{"exp":1999999999,"https://api.openai.com/auth":{"chatgpt_account_id":"` + account + `"}}`
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// U-02: what a program that signed in left behind when it was killed goes, and two persons do not
// sign in at once.
func TestAFolderToSignInIsEmptyAndOnesOwn(t *testing.T) {
	store := login.New(t.TempDir() + "/logins")
	home, done, err := store.SigningIn(t.Context(), login.Claude)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home+"/.credentials.json", []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.SigningIn(t.Context(), login.Claude); err == nil || !strings.Contains(err.Error(), "another nacre login claude") {
		t.Errorf("a second one: %v", err)
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(home, 0o700), os.WriteFile(home+"/.credentials.json", []byte("left"), 0o600)); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	home, done, err = store.SigningIn(t.Context(), login.Claude)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
}

// U-02: where the vendor is out of order nothing is lost, and the next call tries again.
func TestAVendorOutOfOrderLosesNoLogin(t *testing.T) {
	s, v := signedIn(t, now)
	v.status = http.StatusServiceUnavailable
	if _, err := s.Token(t.Context(), nacre.Secret{}); err == nil || !strings.Contains(err.Error(), "the next call tries again") {
		t.Fatalf("have %v", err)
	}
	v.status = 0
	if l, err := s.Token(t.Context(), nacre.Secret{}); err != nil || l.Access.Reveal() != "access-of-refresh-1+" {
		t.Errorf("the next call: %v", err)
	}
	s, v = signedIn(t, now.Add(time.Minute))
	v.status = http.StatusServiceUnavailable
	if l, err := s.Token(t.Context(), nacre.Secret{}); err != nil || l.Access.Reveal() != "access-1" {
		t.Errorf("a token that is good for a minute yet: %v", err)
	}
}

// U-02: what is missing, damaged or open to others gives no token.
func TestALoginThatIsNotWholeGivesNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		mode os.FileMode
		want string
	}{
		"half a file":      {`{"access_token":"a`, 0o600, "damaged"},
		"no token":         {`{}`, 0o600, "damaged"},
		"a header in it":   {"{\"access_token\":\"a\\r\\nX: y\"}", 0o600, "damaged"},
		"open to others":   {`{"access_token":"a"}`, 0o644, "can be read by others"},
		"no file":          {"", 0, "there is no login of claude"},
		"a file too large": {strings.Repeat(" ", 2<<20), 0o600, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.mode != 0 {
				if err := os.WriteFile(dir+"/claude.json", []byte(c.data), c.mode); err != nil {
					t.Fatal(err)
				}
			}
			s := login.Source{Store: login.New(dir), Vendor: login.Claude, Client: http.DefaultClient, Now: time.Now}
			if l, err := s.Token(t.Context(), nacre.Secret{}); err == nil || !l.Access.Empty() || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), dir) {
				t.Errorf("have %v", err)
			}
		})
	}
}

// U-02: the files of the two programs' own logins are read in their forms alone.
func TestTheLoginsOfThePrograms(t *testing.T) {
	const jwt = "e30.eyJleHAiOjE5OTk5OTk5OTl9.c2ln"
	for name, c := range map[string]struct {
		vendor login.Vendor
		data   string
		ends   int64 // 0: refused
	}{
		"claude":                {login.Claude, `{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1999999999000,"scopes":["s"]}}`, 1999999999},
		"codex":                 {login.Codex, `{"tokens":{"access_token":"` + jwt + `","refresh_token":"r","account_id":"acc"}}`, 1999999999},
		"claude, half":          {login.Claude, `{"claudeAiOauth":{"accessToken":"a"}}`, 0},
		"codex with a key only": {login.Codex, `{"OPENAI_API_KEY":"sk-x"}`, 0},
		"codex, odd account":    {login.Codex, `{"tokens":{"access_token":"a","refresh_token":"r","account_id":"a\nb"}}`, 0},
		"codex, its account":    {login.Codex, `{"tokens":{"access_token":"` + ofAccount("acc") + `","refresh_token":"r","account_id":"acc"}}`, 1999999999},
		"codex, two accounts":   {login.Codex, `{"tokens":{"access_token":"` + ofAccount("other") + `","refresh_token":"r","account_id":"acc"}}`, 0},
		"no JSON":               {login.Claude, `{`, 0},
		"nobody's":              {"", `{}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := login.Read(c.vendor, []byte(c.data))
			if (err == nil) != (c.ends != 0) || err == nil && l.Expires.Unix() != c.ends {
				t.Errorf("have %v, %v", l.Expires, err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add("claude", []byte(`{"claudeAiOauth":{"accessToken":"a","refreshToken":"r"}}`))
	f.Add("codex", []byte(`{"tokens":{"access_token":"a.b.c","refresh_token":"r"}}`))
	f.Fuzz(func(t *testing.T, vendor string, data []byte) {
		if l, err := login.Read(login.Vendor(vendor), data); err == nil && (l.Access.Empty() || l.Refresh.Empty()) {
			t.Error("a login without tokens")
		}
	})
}
