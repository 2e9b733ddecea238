package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// tally counts what a provider was asked for.
type tally struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *tally) of(name string, serve http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		what := " was asked to mint"
		if r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/revoke-accessor") {
			what = " was asked to revoke"
		}
		c.all[name+what]++
		c.mu.Unlock()
		serve.ServeHTTP(w, r)
	})
}

// cloudTokens is Cloudflare's API of tokens, for one that may create some.
func cloudTokens(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Policies []map[string]any
		Expires  time.Time `json:"expires_on"`
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+mintRoot:
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodDelete:
		_, _ = io.WriteString(w, `{"success":true}`)
	case json.NewDecoder(r.Body).Decode(&asked) != nil || time.Until(asked.Expires) > 15*time.Minute:
		w.WriteHeader(http.StatusBadRequest)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "result": map[string]any{
			"id": "of-the-child", "value": "cloud-token-of-the-session", "status": "active", "expires_on": asked.Expires, "policies": asked.Policies,
		}})
	}
}

// impersonation is Google's API of IAM credentials, for one who may impersonate.
func impersonation(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Scope    []string
		Lifetime string
	}
	life := json.NewDecoder(r.Body).Decode(&asked)
	if r.Header.Get("Authorization") != "Bearer "+mintRoot || life != nil || asked.Lifetime != "900s" || len(asked.Scope) != 1 {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"accessToken": "google-token-of-the-session", "expireTime": time.Now().Add(15 * time.Minute).UTC()})
}

// shown is what a host was shown of who asks.
type shown struct {
	mu  sync.Mutex
	all map[string]string
}

func (s *shown) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.all[r.Host] += r.Header.Get("Authorization") + r.Header.Get("X-Vault-Token")
	s.mu.Unlock()
	if r.URL.Path == "/v1/away" {
		http.Redirect(w, r, "https://thief.example.com/v1/x", http.StatusTemporaryRedirect)
	}
}

// M-31, M-32, M-33, M-35: of every provider a session gets a credential of its own. Its host is shown it, and
// nobody else, where that host redirects to neither. Nothing of it is in the memory, the environment or the
// files of the sandbox, and it ends with the session. The probe mints one of each, revokes it, and says how
// long that took.
func TestEveryProviderMintsForASessionAndForAProbe(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	v, images := &mintingVault{}, newImageTokens(t)
	f := &mintingForge{good: map[string]map[string]string{}}
	counted, mux := &tally{all: map[string]int{}}, http.NewServeMux()
	for name, serve := range map[string]http.Handler{
		"vault": v, "github": http.HandlerFunc(f.mint), "aws": http.HandlerFunc(assumedRole), "cloud": http.HandlerFunc(cloudTokens), "google": http.HandlerFunc(impersonation), "images": images,
	} {
		for _, below := range []string{"", "/"} {
			mux.Handle("/"+name+below, http.StripPrefix("/"+name, counted.of(name, serve)))
		}
	}
	providers := httptest.NewServer(mux)
	t.Cleanup(providers.Close)
	saw := &shown{all: map[string]string{}}
	host := httptest.NewTLSServer(saw)
	t.Cleanup(host.Close)
	i := install(t)
	ca := i.certificateOf(host)
	app := appKey(t)
	var config, allow, pin []string
	for name, c := range map[string]struct{ root, uses, mint string }{
		"vault":  {mintRoot, "paths = [\"/v1/\"]\nscheme = \"raw\"\nheader = \"X-Vault-Token\"", "kind = \"vault\"\npolicies = [\"deploy\"]"},
		"github": {app, "paths = [\"/repos/acme/widget/\"]", "kind = \"github-app\"\napp = \"12\"\ninstallation = \"34\"\nrepositories = [\"widget\"]\npermissions = { contents = \"read\" }"},
		"aws": {"secret-of-the-operator", "paths = [\"/v1/\"]\nscheme = \"sigv4\"\nregion = \"eu-west-1\"\nservice = \"s3\"\naccess_key_file = \"" + i.write("access", "AKIAOFTHEOPERATOR") + "\"",
			"kind = \"aws-sts\"\nregion = \"eu-west-1\"\nrole = \"arn:aws:iam::123456789012:role/deploy\"\npolicy = '''{\"Version\": \"2012-10-17\", \"Statement\": [{\"Effect\": \"Allow\", \"Action\": [\"s3:GetObject\"], \"Resource\": [\"arn:aws:s3:::bucket/*\"]}]}'''"},
		"cloud":  {mintRoot, "paths = [\"/v1/\"]", "kind = \"cloudflare\"\naccount = \"" + strings.Repeat("a1", 16) + "\"\npermission_groups = [\"" + strings.Repeat("b2", 16) + "\"]\nresources = [\"com.cloudflare.api.account.zone." + strings.Repeat("c3", 16) + "\"]"},
		"google": {mintRoot, "paths = [\"/v1/\"]", "kind = \"gcp-impersonation\"\naccount = \"deploy@project.iam.gserviceaccount.com\"\nscopes = [\"https://www.googleapis.com/auth/devstorage.read_only\"]"},
		"images": {registryPassword, "", "kind = \"registry\"\naccount = \"ada\"\nservice = \"images\"\nrepositories = [\"acme/app\"]"},
	} {
		config = append(config, fmt.Sprintf("[[credential]]\nname = %q\nhost = \"%s.example.com:443\"\n%s\ngroups = [\"main\"]\nvalue_file = %q\nca_file = %q\n[credential.mint]\nurl = \"%s/%s/\"\n%s\n", name, name, c.uses, i.write("root-"+name, c.root), ca, providers.URL, name, c.mint))
		allow = append(allow, fmt.Sprintf("\"%s.example.com:443\"", name))
		pin = append(pin, fmt.Sprintf("\"%s.example.com:443\" = %q", name, host.Listener.Addr()))
	}
	i.config(fmt.Sprintf("[egress]\nallow = [\"thief.example.com:443\", %s]\npin = { \"thief.example.com:443\" = %q, %s }\n%s", strings.Join(allow, ", "), host.Listener.Addr(), strings.Join(pin, ", "), strings.Join(config, "")))
	inside := map[string]string{
		"vault": "hvs.minted-for-a-session-1", "github": "ghs_quietharbour1", "aws": "Credential=ASIAOFTHESESSION/", "cloud": "cloud-token-of-the-session", "google": "google-token-of-the-session", "images": "",
	}
	var secrets []string
	i.searched("curl -skL https://vault.example.com/v1/away https://github.example.com/repos/acme/widget/x https://aws.example.com/v1/x https://cloud.example.com/v1/away https://google.example.com/v1/x https://images.example.com/v2/acme/app/tags/list", func() []string {
		images.mu.Lock()
		defer images.mu.Unlock()
		inside["images"] = images.words[0]
		secrets = []string{mintRoot, registryPassword, "secret-of-the-operator", "AKIAOFTHEOPERATOR", "secret-of-the-session", "token-of-the-session", strings.Split(app, "\n")[1]}
		for _, token := range inside {
			secrets = append(secrets, strings.TrimSuffix(strings.TrimPrefix(token, "Credential="), "/"))
		}
		return secrets
	}).want(t, 0)
	for name, token := range inside {
		if have := saw.all[name+".example.com"]; !strings.Contains(have, token) {
			t.Errorf("%s was shown %.80q, want %.40s", name, have, token)
		}
	}
	if have, asked := saw.all["thief.example.com"]; have != "" || !asked {
		t.Errorf("where a host redirected to was asked: %t, and was shown %.80q", asked, have)
	}
	i.nacre("doctor", "--no-turns", "--probe").want(t, 0, "vault · vault minted and revoked one for policies deploy in ", "github · github-app minted and revoked one for widget (contents:read) in ",
		"aws · aws-sts minted one, which nobody can revoke and nobody has, for arn:aws:iam::123456789012:role/deploy (s3:GetObject) in ", "cloud · cloudflare minted and revoked one for com.cloudflare.api.account.zone.",
		"google · gcp-impersonation minted one, which nobody can revoke and nobody has, for deploy@project.iam.gserviceaccount.com (devstorage.read_only) in ", "images · registry minted one, which nobody can revoke and nobody has, for fetching acme/app in ")
	for name := range inside {
		revoked := map[bool]int{true: 2, false: 0}[slices.Contains([]string{"vault", "github", "cloud"}, name)]
		if counted.all[name+" was asked to mint"] != 2 || counted.all[name+" was asked to revoke"] != revoked {
			t.Errorf("of a session and a probe: %v", counted.all)
		}
	}
	if len(v.out())+f.out() > 0 || i.handles() != "0" {
		t.Errorf("%v and %d tokens are good, and %s handles are left", v.out(), f.out(), i.handles())
	}
	for _, secret := range secrets {
		hasNoSecret(t, filepath.Join(i.work, "home"), secret)
	}
}

// M-31, M-32, M-34, bad input of providers: one that gives more, for longer, or something else gives
// nothing. What it gave is taken back, a person is told what is wrong, no value is said, and no session opens.
func TestAProviderThatAnswersWronglyGivesNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	good, followed := map[string]string{}, 0
	token := func(w http.ResponseWriter, how string, policy string, seconds int) {
		mu.Lock()
		good["of-"+how] = how
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{"client_token": "hvs.minted-" + how, "accessor": "of-" + how, "policies": []string{policy}, "lease_duration": seconds}})
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		how := strings.Split(r.URL.Path, "/")[1]
		if strings.HasSuffix(r.URL.Path, "/revoke-accessor") {
			var asked struct{ Accessor string }
			_ = json.NewDecoder(r.Body).Decode(&asked)
			mu.Lock()
			delete(good, asked.Accessor)
			mu.Unlock()
			w.WriteHeader(http.StatusNoContent)
			return
		}
		switch how {
		case "page":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>sign in with "+mintRoot+"</html>")
		case "redirect":
			http.Redirect(w, r, "/followed", http.StatusTemporaryRedirect)
		case "followed":
			mu.Lock()
			followed++
			mu.Unlock()
		case "clock":
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusUnauthorized)
		case "megabytes":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"auth":"`+strings.Repeat("x", 2<<20)+`"}`)
		case "half":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"auth":`)
		case "wide":
			token(w, how, "root", 900)
		case "never":
			token(w, how, "deploy", 0)
		case "late":
			token(w, how, "deploy", 7200)
		}
	}))
	t.Cleanup(api.Close)
	i := install(t)
	root := i.write("root", mintRoot)
	ways := map[string]string{
		"page": "is not application/json: a page of a proxy or a login may stand in between", "redirect": "a redirect (307), which is not followed with a credential: check url", "clock": "are 1h0m0s apart: set this machine's",
		"megabytes": "too long, or was cut", "half": "too long, or was cut", "wide": "gave more than was asked", "never": "never ends, or ends too late", "late": "never ends, or ends too late",
	}
	var config strings.Builder
	for how := range ways {
		fmt.Fprintf(&config, "[[credential]]\nname = %q\nhost = \"example.com:443\"\npaths = [\"/%s/\"]\ngroups = [%q]\nvalue_file = %q\n[credential.mint]\nkind = \"vault\"\nurl = \"%s/%s\"\npolicies = [\"deploy\"]\n", how, how, how, root, api.URL, how)
	}
	i.config("[egress]\nallow = [\"example.com:443\"]\n" + config.String())
	probed := i.nacre("doctor", "--no-turns", "--probe")
	for how, why := range ways {
		line := ""
		for text := range strings.Lines(probed.stdout) {
			if strings.Contains(text, " "+how+": ") {
				line = text
			}
		}
		if !strings.Contains(line, why) {
			t.Errorf("%s: have %q, want %q", how, line, why)
		}
	}
	i.nacre("exec", "--group", "wide", "--", "true").want(t, 125, "credential wide: the provider gave more than was asked", "nacre doctor")
	probed.hasNoSecret(t, mintRoot, "hvs.minted-")
	mu.Lock()
	defer mu.Unlock()
	if len(good) > 0 || followed > 0 || i.handles() != "0" {
		t.Errorf("%v are good, %d redirects were followed, %s handles are left", good, followed, i.handles())
	}
	swept := i.nacre("credentials", "sweep", "--json")
	swept.want(t, 3, `"credential":"page"`, `"credential":"half"`)
	hasNo(t, swept.stdout, `"credential":"wide"`)
	hasNoSecret(t, filepath.Join(i.work, "home"), mintRoot)
}
