package issuer_test

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/issuer"
)

const (
	impersonator = "nacre@project.iam.gserviceaccount.com"
	impersonated = "deploy@project.iam.gserviceaccount.com"
	readOnly     = "https://www.googleapis.com/auth/devstorage.read_only"
	personal     = "ya29.a-token-of-the-operator"
)

// gcp speaks Google's API of IAM credentials.
type gcp struct {
	shelf
	key *rsa.PrivateKey
}

func (g *gcp) table(url string) lease.Minting {
	return lease.Minting{Kind: lease.GCP, URL: url, Account: impersonated, Scopes: []string{readOnly}}
}

func (g *gcp) root() string {
	text, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": impersonator, "private_key_id": "1", "token_uri": "https://evil.example/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(g.key)})),
	})
	return string(text)
}

func (g *gcp) revokes() bool { return false }

func (g *gcp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	said, signed := word(r, g.key)
	signed = signed && said.Iss == impersonator && said.Sub == impersonator && said.Aud == "https://iamcredentials.googleapis.com/"
	var asked struct {
		Scope    []string
		Lifetime string
	}
	switch {
	case !signed && r.Header.Get("Authorization") != "Bearer "+personal:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case r.Method != http.MethodPost || r.URL.Path != "/v1/projects/-/serviceAccounts/"+impersonated+":generateAccessToken":
		w.WriteHeader(http.StatusNotFound)
		return
	case json.NewDecoder(r.Body).Decode(&asked) != nil || !slices.Equal(asked.Scope, []string{readOnly}) || asked.Lifetime != "900s":
		w.WriteHeader(http.StatusBadRequest)
		return
	case astray(w, r, g.now()):
		return
	}
	token, how := g.give()
	answer := map[string]any{"accessToken": token, "expireTime": time.Now().Add(15 * time.Minute).UTC()}
	switch how {
	case "no end":
		delete(answer, "expireTime")
	case "a late end", "all that there is", "more than was asked", "a higher level", "another object": // Google's answer says no more
		answer["expireTime"] = time.Now().Add(12 * time.Hour).UTC()
	case "an end that is over":
		answer["expireTime"] = time.Now().Add(-time.Hour).UTC()
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(answer)
}

// M-32: a person's own token impersonates as a key does; what is neither is sent nowhere.
func TestWhatImpersonatesAnAccount(t *testing.T) {
	t.Parallel()
	g := &gcp{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+personal {
			t.Errorf("it was asked with %q", r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"accessToken": "minted-value-1", "expireTime": time.Now().Add(15 * time.Minute).UTC()})
	}))
	t.Cleanup(server.Close)
	for name, c := range map[string]struct {
		root string
		ok   bool
	}{
		"a token": {personal, true}, "an empty object": {"{}", false}, "a key without a key": {`{"type":"service_account","client_email":"` + impersonator + `"}`, false},
		"a person's file": {`{"type":"authorized_user","refresh_token":"1//secret"}`, false}, "two lines": {"ya29.one\nya29.two", false},
	} {
		by, err := issuer.New(g.table(server.URL), issuer.Options{
			Transport: server.Client().Transport, Now: time.Now,
			Root: func(context.Context) (nacre.Secret, error) { return nacre.NewSecret(c.root), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := by.Mint(t.Context(), 15*time.Minute); c.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// M-32: a table for no account, or for no scope, is refused before anybody is asked.
func TestTablesOfGoogleThatNameNothing(t *testing.T) {
	t.Parallel()
	good := (&gcp{}).table("")
	if _, err := issuer.New(good, issuer.Options{}); err != nil || good.Scope() != impersonated+" (devstorage.read_only)" {
		t.Fatal(good.Scope(), err)
	}
	for name, edit := range map[string]func(*lease.Minting){
		"no account":           func(m *lease.Minting) { m.Account = "" },
		"a person":             func(m *lease.Minting) { m.Account = "ada@example.com" },
		"a path":               func(m *lease.Minting) { m.Account = "a/../b@project.iam.gserviceaccount.com" },
		"no scopes":            func(m *lease.Minting) { m.Scopes = nil },
		"a scope of no Google": func(m *lease.Minting) { m.Scopes = []string{"email"} },
		"resources too":        func(m *lease.Minting) { m.Resources = []string{cloudZone} },
	} {
		table := good
		edit(&table)
		if _, err := issuer.New(table, issuer.Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
