package issuer_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/lease"
	"github.com/nacre-dev/nacre/internal/lease/issuer"
)

const vaultRoot = "hvs.the-root-of-the-operator"

// fake is a provider that speaks the real API, and misbehaves as a test says.
type fake interface {
	http.Handler
	table(url string) lease.Minting
	root() string
	// answer changes what is answered to the next mints: how is one of the cases below.
	answer(how string)
	// out are the credentials that were given and are good.
	out() []string
	// revokes reports whether the provider has a way to revoke one.
	revokes() bool
	forget()
	now() (how string)
}

// always begins what every request is answered as, also the revocations.
const always = "always "

// shelf is what a fake has given.
type shelf struct {
	mu   sync.Mutex
	how  string
	good []string
	made int
}

func (s *shelf) answer(how string) { s.mu.Lock(); defer s.mu.Unlock(); s.how = how }

func (s *shelf) out() []string { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.good) }

func (s *shelf) forget() { s.mu.Lock(); defer s.mu.Unlock(); s.good = nil }

func (s *shelf) revokes() bool { return true }

func (s *shelf) give() (value, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	value = fmt.Sprintf("minted-value-%d", s.made)
	s.good = append(s.good, value)
	return value, s.how
}

func (s *shelf) end(value string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.good, value)
	if at >= 0 {
		s.good = slices.Delete(s.good, at, at+1)
	}
	return at >= 0
}

func (s *shelf) now() (how string) { s.mu.Lock(); defer s.mu.Unlock(); return s.how }

// astray answers what no provider should, and reports whether it did.
func astray(w http.ResponseWriter, r *http.Request, how string) bool {
	kind, empty := "application/json", "{}"
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		kind, empty = "text/xml", "<AssumeRoleResponse/>"
	}
	var status int
	if text, is := strings.CutPrefix(how, "verbatim "); is {
		if _, err := fmt.Sscan(text, &status); err == nil {
			said(w, status, text[4:])
		}
		return true
	}
	switch how {
	case "a page in HTML":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>sign in with "+vaultRoot+"</html>")
	case "a redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case "an error":
		w.WriteHeader(http.StatusBadGateway)
	case "a refusal":
		w.WriteHeader(http.StatusForbidden)
	case "megabytes":
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, `{"token":"`+strings.Repeat("x", 2<<20)+`"}`)
	case "half an answer":
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"token":"`)
	case "nothing in it":
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, empty)
	case "a clock an hour off":
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusUnauthorized)
	case "silence":
		<-r.Context().Done()
	default:
		return false
	}
	return true
}

// said is an answer in JSON.
func said(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// github speaks GitHub's REST API for Apps.
type github struct {
	shelf
	key *rsa.PrivateKey
}

func (g *github) table(url string) lease.Minting {
	return lease.Minting{Kind: lease.GitHubApp, URL: url, App: "12", Installation: "34", Repositories: []string{"widget"}, Permissions: map[string]string{"contents": "write"}}
}

func (g *github) root() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(g.key)}))
}

// signed reports whether a request carries the App's own word.
func (g *github) signed(r *http.Request) bool {
	claims, ok := word(r, g.key)
	return ok && claims.Iss == "12"
}

// claims are what a word says.
type claims struct {
	Iss, Sub, Aud string
	Iat, Exp      int64
}

// word reads a word that a key signed, good now and for ten minutes at most.
func word(r *http.Request, key *rsa.PrivateKey) (said claims, ok bool) {
	parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	if len(parts) != 3 {
		return said, false
	}
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	now := time.Now().Unix()
	ok = rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature) == nil && json.Unmarshal(text, &said) == nil &&
		said.Iat <= now && said.Exp > now && said.Exp-said.Iat <= 600
	return said, ok
}

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodDelete && r.URL.Path == "/installation/token":
		if !g.end(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			said(w, http.StatusUnauthorized, `{"message":"Bad credentials","status":"401"}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method != http.MethodPost || r.URL.Path != "/app/installations/34/access_tokens" || !g.signed(r):
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var asked struct {
		Repositories []string
		Permissions  map[string]string
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil || len(asked.Repositories) == 0 || len(asked.Permissions) == 0 {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if astray(w, r, g.now()) {
		return
	}
	token, how := g.give()
	answer := map[string]any{"token": token, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "repository_selection": "selected"}
	permissions := map[string]string{"metadata": "read", "contents": "write"}
	repositories := []map[string]string{{"name": "widget", "full_name": "Acme/widget"}}
	switch how {
	case "all that there is":
		answer["repository_selection"] = "all"
	case "more than was asked":
		permissions["administration"] = "write"
	case "a higher level":
		permissions["contents"] = "admin"
	case "another object":
		repositories = append(repositories, map[string]string{"name": "vaults"})
	case "another owner":
		repositories[0]["full_name"] = "stranger/widget"
	case "no owner":
		delete(repositories[0], "full_name")
	case "no end":
		delete(answer, "expires_at")
	case "a late end":
		answer["expires_at"] = time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	case "an end that is over":
		answer["expires_at"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	}
	answer["permissions"], answer["repositories"] = permissions, repositories
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer)
}

// vault speaks the HTTP API of Vault's tokens.
type vault struct{ shelf }

func (v *vault) table(url string) lease.Minting {
	return lease.Minting{Kind: lease.Vault, URL: url, Policies: []string{"deploy"}}
}

func (v *vault) root() string { return vaultRoot }

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Policies        []string
		Accessor        string
		NoDefaultPolicy bool   `json:"no_default_policy"`
		TTL             string `json:"ttl"`
		Most            string `json:"explicit_max_ttl"`
	}
	switch {
	case r.Header.Get("X-Vault-Token") != vaultRoot || r.Method != http.MethodPost:
		w.WriteHeader(http.StatusForbidden)
		return
	case json.NewDecoder(r.Body).Decode(&asked) != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case r.URL.Path == "/v1/auth/token/revoke-accessor":
		if !v.end(strings.TrimPrefix(asked.Accessor, "accessor-of-")) {
			said(w, http.StatusOK, `{"data":null,"warnings":["No token found with this accessor"],"auth":null}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	case r.URL.Path != "/v1/auth/token/create" || !asked.NoDefaultPolicy || asked.TTL != "900s" || asked.Most != "900s":
		w.WriteHeader(http.StatusBadRequest)
		return
	case astray(w, r, v.now()):
		return
	}
	token, how := v.give()
	auth := map[string]any{"client_token": token, "accessor": "accessor-of-" + token, "policies": asked.Policies, "lease_duration": 900}
	switch how {
	case "all that there is":
		auth["policies"] = []string{"root"}
	case "more than was asked", "a higher level":
		auth["policies"] = []string{"deploy", "admin"}
	case "another object":
		auth["orphan"] = true
	case "no end":
		auth["lease_duration"] = 0
	case "a late end":
		auth["lease_duration"] = 30 * 24 * 3600
	case "an end that is over":
		auth["lease_duration"] = -1
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"auth": auth})
}

// each plays a test against every provider.
func each(t *testing.T, play func(t *testing.T, f fake, by lease.Issuer)) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]fake{lease.GitHubApp: &github{key: key}, lease.Vault: &vault{}, lease.AWSSTS: &sts{}, lease.Cloudflare: &cloudflare{}, lease.GCP: &gcp{key: key}, lease.Registry: &registry{}} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				how, is := strings.CutPrefix(f.now(), always)
				if is {
					_, _ = io.Copy(io.Discard, r.Body) // else nobody hears that the client leaves
				}
				if !is || !astray(w, r, how) {
					f.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(server.Close)
			by, err := issuer.New(f.table(server.URL), issuer.Options{
				Transport: server.Client().Transport, Now: time.Now, Owner: "acme",
				Root: func(context.Context) (nacre.Secret, error) { return nacre.NewSecret(f.root()), nil },
				Key: func(context.Context) (lease.Material, error) {
					return lease.Material{Value: nacre.NewSecret(f.root()), AccessKey: nacre.NewSecret(accessKey)}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			play(t, f, by)
		})
	}
}

// M-32: what is minted is good, narrow and short, and is revoked. A second revocation is no error, since a crash
// may lie between the first and its record.
func TestEveryIssuerMintsAndRevokes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fake, by lease.Issuer) {
		t.Helper()
		first, err := by.Mint(t.Context(), 15*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		second, err := by.Mint(t.Context(), 15*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if have := f.out(); len(have) != 2 || have[0] != first.Value.Reveal() || first.Expires.Before(time.Now()) || first.Expires.After(time.Now().Add(time.Hour+time.Minute)) {
			t.Errorf("have %v until %v", have, first.Expires)
		}
		for range 2 {
			if err := by.Revoke(t.Context(), first.Handle); f.revokes() && err != nil || !f.revokes() && !errors.Is(err, lease.ErrIrrevocable) {
				t.Error(err)
			}
		}
		if !f.revokes() {
			return
		}
		if have := f.out(); len(have) != 1 || have[0] != second.Value.Reveal() {
			t.Errorf("after the revocation: %v", have)
		}
	})
}

// M-32, M-34: a provider that gives more, for longer, or something else is refused, and nothing of what it gave
// is left good. No error repeats what it said or was asked with.
func TestEveryIssuerRefusesAHostileProvider(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fake, by lease.Issuer) {
		t.Helper()
		for _, how := range []string{
			"all that there is", "more than was asked", "a higher level", "another object", "no end", "a late end", "an end that is over",
			"a page in HTML", "a redirect", "an error", "a refusal", "megabytes", "half an answer", "nothing in it", "a clock an hour off",
		} {
			f.answer(how)
			given, err := by.Mint(t.Context(), 15*time.Minute)
			if err == nil || !given.Value.Empty() {
				t.Errorf("%s: accepted", how)
				continue
			}
			switch out := f.out(); {
			case len(out) > 0 && f.revokes():
				t.Errorf("%s: %v are still good", how, out)
			case len(out) > 0 && (errors.Is(err, lease.ErrRefused) || errors.Is(err, lease.ErrNothing)):
				t.Errorf("%s: the ledger forgets what nobody can revoke: %v", how, err)
			}
			f.forget()
			if text := err.Error(); strings.Contains(text, "minted-value") || strings.Contains(text, vaultRoot) || strings.Contains(text, "BEGIN") {
				t.Errorf("%s: the error tells too much: %v", how, err)
			}
			if how == "a clock an hour off" && !strings.Contains(err.Error(), "clocks") {
				t.Errorf("%s: %v", how, err)
			}
		}
	})
}

// M-31: only a provider that says so has taken a credential back. Where something else answers, it is
// taken back once the provider does.
func TestEveryIssuerTakesNoOtherAnswerForARevocation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fake, by lease.Issuer) {
		t.Helper()
		if !f.revokes() {
			return
		}
		for _, how := range []string{"a page in HTML", "a redirect", "an error", "a refusal", "megabytes", "half an answer", "nothing in it", "a clock an hour off", "silence"} {
			given, err := by.Mint(t.Context(), 15*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			f.answer(always + how)
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if how == "silence" {
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
			}
			err = by.Revoke(ctx, given.Handle)
			cancel()
			if err == nil || strings.Contains(err.Error(), given.Value.Reveal()) || strings.Contains(err.Error(), vaultRoot) {
				t.Errorf("%s: have %v", how, err)
			}
			f.answer("")
			if err := by.Revoke(t.Context(), given.Handle); err != nil || len(f.out()) > 0 {
				t.Errorf("after %s: %v, and %v are good", how, err, f.out())
			}
		}
	})
}

// M-31: a provider that knows a credential no more says so in its own words. The same status with other words, or
// from something that stands in between, says nothing of the credential, which the sweep keeps.
func TestACredentialIsGoneWhereItsProviderSaysSo(t *testing.T) {
	t.Parallel()
	const unrouted = `{"success":false,"errors":[{"code":7003,"message":"Could not route"}]}`
	answers := map[int][]string{
		http.StatusOK: {`{}`, `null`, `{"warnings":["something else"]}`}, http.StatusNotFound: {`{"errors":[]}`, `{"message":"Not Found"}`, unrouted, "a page"},
		http.StatusBadRequest: {`{"errors":["missing client token"]}`, "a page"}, http.StatusUnauthorized: {`{"message":"Requires authentication"}`, "a page"},
	}
	gone := map[string]map[int][]string{
		lease.GitHubApp:  {http.StatusUnauthorized: {`{"message":"Bad credentials"}`}},
		lease.Vault:      {http.StatusOK: {`{"warnings":["No token found with this accessor"]}`}, http.StatusBadRequest: {`{"errors":["1 error occurred:\n\t* invalid accessor\n\n"]}`, `{"errors":["token not found"]}`}},
		lease.Cloudflare: {http.StatusNotFound: {`{"success":false,"errors":[{"code":1000,"message":"not found"}]}`}},
	}
	each(t, func(t *testing.T, f fake, by lease.Issuer) {
		t.Helper()
		says := func(status int, text string) error {
			f.answer(fmt.Sprintf("%sverbatim %d %s", always, status, text))
			return by.Revoke(t.Context(), nacre.NewSecret("handle"))
		}
		if !f.revokes() {
			return
		}
		kind := f.table("https://provider.example").Kind
		for status, texts := range answers {
			for _, text := range texts {
				if says(status, text) == nil {
					t.Errorf("%s counts %d %s as gone", kind, status, text)
				}
			}
		}
		for status, texts := range gone[kind] {
			for _, text := range texts {
				if err := says(status, text); err != nil {
					t.Errorf("%s: %d %s: %v", kind, status, text, err)
				}
			}
			for other, texts := range gone {
				for _, text := range texts[status] {
					if other != kind && says(status, text) == nil {
						t.Errorf("%s counts the words of %s as its own", kind, other)
					}
				}
			}
		}
	})
}

// M-36: a token for the repository of another owner, which has the same name, is taken back.
func TestATokenForAnotherOwnerIsTakenBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fake, by lease.Issuer) {
		t.Helper()
		if _, ok := f.(*github); !ok {
			return // the others know no owners
		}
		for _, how := range []string{"another owner", "no owner"} {
			f.answer(how)
			if _, err := by.Mint(t.Context(), 15*time.Minute); err == nil || len(f.out()) > 0 {
				t.Errorf("%s: have %v, and %v are good", how, err, f.out())
			}
		}
	})
}

// M-32: a provider that says nothing is waited for no longer than whoever asks.
func TestEveryIssuerEndsWithWhoeverAsks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fake, by lease.Issuer) {
		t.Helper()
		f.answer("silence")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := by.Mint(ctx, 15*time.Minute); err == nil || errors.Is(err, lease.ErrRefused) || errors.Is(err, lease.ErrNothing) {
			t.Errorf("have %v: something may have been minted", err)
		}
	})
}

// M-31: a provider that cannot be reached minted nothing, and has refused nothing: it may take a credential
// back once it can be.
func TestAProviderThatIsDownRefusesNothing(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(nil)
	down.Close()
	by, err := issuer.New((&vault{}).table(down.URL), issuer.Options{
		Transport: http.DefaultTransport, Now: time.Now, Root: func(context.Context) (nacre.Secret, error) { return nacre.NewSecret(vaultRoot), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := by.Mint(t.Context(), 15*time.Minute); !errors.Is(err, lease.ErrNothing) {
		t.Errorf("minting: %v", err)
	}
	if err := by.Revoke(t.Context(), nacre.NewSecret("accessor")); err == nil || errors.Is(err, lease.ErrRefused) {
		t.Errorf("revoking: %v", err)
	}
}

// M-32, M-34, M-36: a table that asks for everything is refused before anybody is asked.
func TestTablesThatAskForEverything(t *testing.T) {
	t.Parallel()
	good := (&github{}).table("https://api.github.com")
	for name, edit := range map[string]func(*lease.Minting){
		"no repositories":     func(m *lease.Minting) { m.Repositories = nil },
		"no permissions":      func(m *lease.Minting) { m.Permissions = nil },
		"an unknown level":    func(m *lease.Minting) { m.Permissions = map[string]string{"contents": "all"} },
		"a path":              func(m *lease.Minting) { m.Repositories = []string{"acme/widget"} },
		"no app":              func(m *lease.Minting) { m.App = "" },
		"a path as its place": func(m *lease.Minting) { m.Installation = "1/../2" },
		"in the clear":        func(m *lease.Minting) { m.URL = "http://api.github.example" },
		"with a password":     func(m *lease.Minting) { m.URL = "https://a:b@api.github.example" },
		"a role too":          func(m *lease.Minting) { m.Role = "arn:aws:iam::123456789012:role/deploy" },
		"policies too":        func(m *lease.Minting) { m.Policies = []string{"deploy"} },
		"another kind":        func(m *lease.Minting) { m.Kind = "hub" },
		"vault, no policies":  func(m *lease.Minting) { *m = lease.Minting{Kind: lease.Vault, URL: "https://vault.example"} },
		"vault's root": func(m *lease.Minting) {
			*m = lease.Minting{Kind: lease.Vault, URL: "https://vault.example", Policies: []string{"root"}}
		},
		"a registry without a url": func(m *lease.Minting) {
			*m = lease.Minting{Kind: lease.Registry, Account: "ada", Service: "images", Repositories: []string{"acme/app"}}
		},
		"a registry in the clear": func(m *lease.Minting) {
			*m = (&registry{}).table("http://images.example/token")
		},
		"a registry without repositories": func(m *lease.Minting) {
			*m = (&registry{}).table("https://images.example/token")
			m.Repositories = nil
		},
		"a registry, all of an owner": func(m *lease.Minting) {
			*m = (&registry{}).table("https://images.example/token")
			m.Repositories = []string{"acme/*"}
		},
		"a registry, a way up": func(m *lease.Minting) {
			*m = (&registry{}).table("https://images.example/token")
			m.Repositories = []string{"acme/../other"}
		},
		"a registry, a right too": func(m *lease.Minting) {
			*m = (&registry{}).table("https://images.example/token")
			m.Repositories = []string{"acme/app:pull,push"}
		},
		"a registry, permissions too": func(m *lease.Minting) {
			*m = (&registry{}).table("https://images.example/token")
			m.Permissions = map[string]string{"acme/app": "write"}
		},
		"a registry without an account": func(m *lease.Minting) {
			*m = (&registry{}).table("https://images.example/token")
			m.Account = ""
		},
		"a registry, a colon in its account": func(m *lease.Minting) {
			*m = (&registry{}).table("https://images.example/token")
			m.Account = "ada:more"
		},
		"vault without a url": func(m *lease.Minting) { *m = lease.Minting{Kind: lease.Vault, Policies: []string{"deploy"}} },
	} {
		table := good
		edit(&table)
		if _, err := issuer.New(table, issuer.Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := issuer.New(good, issuer.Options{}); err != nil {
		t.Error(err)
	}
}
