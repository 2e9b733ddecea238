package main_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// imageTokens is the token service of a registry of containers: it signs what a registry that
// knows its certificate believes, for ada alone.
type imageTokens struct {
	key  *rsa.PrivateKey
	cert []byte

	mu     sync.Mutex
	scopes []string
	words  []string
	// opaque has it give, in place of such a word, one that says nothing, and not how long it is good. The
	// last of words is what the registry is then shown.
	opaque string
}

// edge stands before a registry, and knows what an opaque token is worth. It sends whoever wants a layer to
// cdn, with a signature in the address, as registries do that keep layers elsewhere.
func (s *imageTokens) edge(registry http.Handler, cdn string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		opaque, word := s.opaque, s.words[max(0, len(s.words)-1):]
		s.mu.Unlock()
		switch {
		case opaque == "":
		case r.Header.Get("Authorization") == "Bearer "+opaque && strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, cdn+r.URL.Path+"?X-Amz-Signature=of-the-registry", http.StatusTemporaryRedirect)
			return
		case r.Header.Get("Authorization") == "Bearer "+opaque:
			r.Header.Set("Authorization", "Bearer "+word[0])
		}
		registry.ServeHTTP(w, r)
	}
}

func newImageTokens(t *testing.T) *imageTokens {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tokens"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	check(t, err)
	return &imageTokens{key: key, cert: cert}
}

// sign is a token for what was asked.
func (s *imageTokens) sign(scopes []string) (string, error) {
	var rights []map[string]any
	for _, scope := range scopes {
		if parts := strings.Split(scope, ":"); len(parts) == 3 {
			rights = append(rights, map[string]any{"type": parts[0], "name": parts[1], "actions": strings.Split(parts[2], ",")})
		}
	}
	now := time.Now().Unix()
	head, _ := json.Marshal(map[string]any{"typ": "JWT", "alg": "RS256", "x5c": []string{base64.StdEncoding.EncodeToString(s.cert)}})
	body, _ := json.Marshal(map[string]any{"iss": "tokens", "aud": "images", "sub": "ada", "exp": now + 300, "nbf": now - 10, "iat": now, "jti": rand.Text(), "access": rights})
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

func (s *imageTokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if user != "ada" || password != registryPassword || r.URL.Query().Get("service") != "images" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	word, err := s.sign(r.URL.Query()["scope"])
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	s.scopes, s.words = append(s.scopes, r.URL.Query()["scope"]...), append(s.words, word)
	opaque := s.opaque
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if opaque != "" {
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": opaque})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": word, "expires_in": 300})
}

// M-35, M-36: a registry sends its clients to another host for a token, and images are fetched with a token
// that is minted for the repositories that are named. The password goes to the token service of the
// operator's, and not to the one that the registry names. So are they where tokens say nothing of
// themselves, and layers lie on a host of another name, which is shown none of it.
func TestImagesAreFetchedWithATokenFromAnotherHost(t *testing.T) {
	t.Parallel()
	skopeo := testpeer.Need(t, "skopeo")
	testpeer.Need(t, "curl")
	tokens := newImageTokens(t)
	service := httptest.NewServer(tokens)
	t.Cleanup(service.Close)
	var mu sync.Mutex
	var told []string
	thief := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.Header.Get("Authorization")+" "+r.URL.RawQuery)
	}))
	t.Cleanup(thief.Close)
	var elsewhere []string
	cdn := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		elsewhere = append(elsewhere, fmt.Sprint(r.Header))
		_, _ = io.WriteString(w, imageAbout)
	}))
	t.Cleanup(cdn.Close)
	behind := imageRegistry(t, "{token: {realm: \"https://thief.example.com/token\", service: images, issuer: tokens, rootcertbundle: %s}}",
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tokens.cert})))
	server := httptest.NewTLSServer(tokens.edge(behind.Config.Handler, "https://cdn.example.com"))
	t.Cleanup(server.Close)
	i := install(t)
	i.image()
	for _, name := range []string{"acme/app", "acme/app/vault"} { // one that is named, and one below it that is not
		word, err := tokens.sign([]string{"repository:" + name + ":pull,push"})
		check(t, err)
		filled := i.command(skopeo, "--insecure-policy", "copy", "--dest-tls-verify=false", "--dest-registry-token", word, "dir:p/image", "docker://"+server.Listener.Addr().String()+"/"+name+":1")
		if text, err := filled.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	i.config(fmt.Sprintf("[egress]\nallow = [\"images.example.com:443\", \"thief.example.com:443\", \"cdn.example.com:443\"]\npin = { \"images.example.com:443\" = %q, \"thief.example.com:443\" = %q, \"cdn.example.com:443\" = %q }\n"+
		"[[credential]]\nname = \"images\"\nhost = \"images.example.com:443\"\ngroups = [\"main\"]\nvalue_file = %q\nca_file = %q\n"+
		"[credential.mint]\nkind = \"registry\"\nurl = %q\naccount = \"ada\"\nservice = \"images\"\nrepositories = [\"acme/app\"]\n",
		server.Listener.Addr(), thief.Listener.Addr(), cdn.Listener.Addr(), i.write("password", registryPassword), i.certificateOf(server), service.URL+"/token"))
	i.nacre("explain").want(t, 0, "minted by registry for fetching acme/app")
	r := i.nacre("exec", "--session", "images", "--project", "p", "--", "sh", "-c", `
skopeo --insecure-policy copy docker://images.example.com/acme/app:1 dir:/tmp/got >/dev/null && cat /tmp/got/manifest.json && echo FETCHED
skopeo --insecure-policy copy --dest-creds ada:guess dir:image docker://images.example.com/acme/app:2 2>&1 && echo PUSHED
skopeo --insecure-policy copy docker://images.example.com/acme/app/vault:1 dir:/tmp/other 2>&1 && echo WIDER
curl -sk -H 'Authorization: Bearer of-my-own' https://images.example.com/v2/_catalog
curl -sk https://thief.example.com/token?service=images
env`)
	r.want(t, 0, "FETCHED", "path_not_leased")
	hasNo(t, r.stdout+r.stderr, "PUSHED")
	hasNo(t, r.stdout+r.stderr, "WIDER")
	tokens.mu.Lock()
	tokens.opaque = "a-token-that-says-nothing"
	tokens.mu.Unlock()
	r = i.searched(`
skopeo --insecure-policy copy --src-tls-verify=false docker://images.example.com/acme/app:1 dir:/tmp/got >/dev/null && echo FETCHED
skopeo --insecure-policy copy --src-tls-verify=false docker://images.example.com/acme/app/vault:1 dir:/tmp/other 2>&1 && echo WIDER
true`, func() []string { return append(tokens.words, registryPassword, tokens.opaque) })
	r.want(t, 0, "FETCHED", "images.example.com:443 is denied")
	hasNo(t, r.stdout+r.stderr, "WIDER")
	mu.Lock()
	defer mu.Unlock()
	if len(elsewhere) == 0 || strings.Contains(strings.Join(elsewhere, "\n"), "Authorization") {
		t.Errorf("the host of the layers was asked with %q", elsewhere)
	}
	if len(told) == 0 {
		t.Error("nobody asked whom the registry names, so that nothing was tried")
	}
	for _, secret := range append(tokens.words, registryPassword, tokens.opaque) {
		hasNo(t, strings.Join(elsewhere, "\n"), secret)
		hasNo(t, strings.Join(told, "\n"), secret)
		hasNo(t, strings.Join(told, "\n"), base64.StdEncoding.EncodeToString([]byte("ada:"+secret)))
		r.hasNoSecret(t, secret)
		hasNoSecret(t, filepath.Join(i.work, "home"), secret)
	}
	if have := strings.Join(tokens.scopes, " "); have != "repository:acme/app:pull repository:acme/app:pull" {
		t.Errorf("asked for %q", have)
	}
	i.nacre("doctor", "--no-turns", "--probe").want(t, 0, "registry minted one, which nobody can revoke and nobody has, for fetching acme/app")
}

// M-36: a token of a registry is for the repositories that are named, and a table that says more is refused.
func TestATokenOfARegistryHasNoUsesOfItsOwn(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[[credential]]\nname = \"images\"\nhost = \"images.example.com:443\"\npaths = [\"/v2/\"]\ngroups = [\"main\"]\nvalue_file = \"" + i.write("password", registryPassword) + "\"\n" +
		"[credential.mint]\nkind = \"registry\"\nurl = \"https://tokens.example.com/token\"\naccount = \"ada\"\nservice = \"images\"\nrepositories = [\"acme/app\"]\n")
	i.nacre("explain").want(t, 2, "leave out methods, paths and push")
}
