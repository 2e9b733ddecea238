package issuer_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/issuer"
)

// registry is the token service of a registry of containers.
type registry struct{ shelf }

func (s *registry) table(url string) lease.Minting {
	return lease.Minting{Kind: lease.Registry, URL: url, Account: "ada", Service: "images", Repositories: []string{"acme/app", "library/base"}}
}

func (s *registry) root() string { return vaultRoot }

func (s *registry) revokes() bool { return false }

func (s *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	q := r.URL.Query()
	switch {
	case user != "ada" || password != vaultRoot || q.Get("account") != "ada":
		w.WriteHeader(http.StatusUnauthorized)
		return
	case r.Method != http.MethodGet || q.Get("service") != "images" || !slices.Equal(q["scope"], []string{"repository:acme/app:pull", "repository:library/base:pull"}):
		w.WriteHeader(http.StatusBadRequest)
		return
	case astray(w, r, s.now()):
		return
	}
	value, how := s.give()
	rights := []map[string]any{
		{"type": "repository", "name": "acme/app", "actions": []string{"pull"}},
		{"type": "repository", "name": "library/base", "actions": []string{"pull"}},
	}
	life := 300
	switch how {
	case "all that there is":
		rights = append(rights, map[string]any{"type": "registry", "name": "catalog", "actions": []string{"*"}})
	case "more than was asked":
		rights[0]["actions"] = []string{"pull", "push"}
	case "a higher level":
		rights[1]["actions"] = []string{"*"}
	case "another object":
		rights = append(rights, map[string]any{"type": "repository", "name": "acme/other", "actions": []string{"pull"}})
	case "less than was asked":
		rights[1]["actions"] = []string{}
	case "no end":
		life = 1 << 62
	case "a late end":
		life = 7200
	case "an end that is over":
		life = -300
	}
	payload, _ := json.Marshal(map[string]any{"jti": value, "access": rights})
	word := "e30." + base64.RawURLEncoding.EncodeToString(payload) + ".signature"
	s.mu.Lock()
	s.good[len(s.good)-1] = word
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	answer := map[string]any{"token": word, "expires_in": life}
	if how == "the other spelling, and no end told" {
		answer = map[string]any{"access_token": word}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// M-36: a token service that gives a right less than was asked says why nothing can be fetched, and one that
// tells no end is believed for a minute.
func TestWhatATokenServiceGives(t *testing.T) {
	t.Parallel()
	s := &registry{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	by, err := issuer.New(s.table(server.URL+"/"), issuer.Options{
		Transport: server.Client().Transport, Now: time.Now, Root: func(context.Context) (nacre.Secret, error) { return nacre.NewSecret(vaultRoot), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.answer("less than was asked")
	if _, err := by.Mint(t.Context(), 15*time.Minute); err == nil || !strings.Contains(err.Error(), "no right to fetch") {
		t.Errorf("have %v", err)
	}
	s.answer("the other spelling, and no end told")
	given, err := by.Mint(t.Context(), 15*time.Minute)
	if err != nil || given.Value.Empty() || time.Until(given.Expires) > time.Minute {
		t.Errorf("have %v until %v", err, given.Expires)
	}
}
