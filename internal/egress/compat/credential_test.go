package compat_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// held is the credential of these tests, which nothing inside may see.
const held = "tok_5kJq2Zb8Xw4Rn7Vh1Lm9Pd3"

// spy keeps what a host was sent to say who asks.
type spy struct {
	// site, where it is set, answers in its place.
	site http.Handler

	mu   sync.Mutex
	seen []string
}

// ServeHTTP answers /echo with what it was shown, which a host should not do.
func (s *spy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown := r.Header.Get("Authorization")
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.RequestURI()+" "+shown)
	s.mu.Unlock()
	if s.site != nil {
		s.site.ServeHTTP(w, r)
		return
	}
	switch r.URL.Path {
	case "/v1/echo":
		_, _ = io.WriteString(w, "you are "+shown)
	case "/v1/basic":
		_, _ = io.WriteString(w, base64.StdEncoding.EncodeToString([]byte("as "+shown)))
	default:
		_, _ = io.WriteString(w, "it works\n")
	}
}

func (s *spy) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, "\n")
}

// withCredential gives the operator a credential for a host.
func (b *bench) withCredential(t *testing.T, host, more string) {
	t.Helper()
	config := filepath.Join(filepath.Dir(b.project), ".config", "nacre")
	must(t, os.WriteFile(filepath.Join(config, "token"), []byte(held+"\n"), 0o600))
	authority, err := os.ReadFile(filepath.Join(b.project, "ca.pem"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(config, "hosts.pem"), authority, 0o600))
	file, err := os.OpenFile(filepath.Join(config, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = fmt.Fprintf(file, "\n[[credential]]\nname = %q\nhost = %q\ngroups = [\"main\"]\nstanding_secret = true\nvalue_file = %q\nca_file = %q\n%s\n",
		strings.ReplaceAll(strings.TrimSuffix(host, "."+domain), ".", "-"), host, filepath.Join(config, "token"), filepath.Join(config, "hosts.pem"), more)
	must(t, err)
	must(t, file.Close())
}

// everything prints what an agent can read: its environment, those of others,
// command lines, and the files of every place that could hold something of the
// session.
const everything = `env
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'
find /run /tmp /home /var /etc /dev/shm /workspace -type f -size -512k -exec cat {} + 2>/dev/null
true
`

// M-22: the host is shown the credential, and nothing inside ever sees it.
func TestTheCredentialIsNowhereInside(t *testing.T) {
	watch := &spy{}
	upstream := newServers(t)
	upstream.vault.Store(watch)
	b := newBench(t, upstream)
	b.withCredential(t, "vault."+domain, "methods = [\"GET\", \"POST\"]\npaths = [\"/v1/\"]")
	script := `set -u
ask() { curl -sS -m 20 -w ' [%{http_code} %{http_version}]\n' "$@" 2>&1; }
ask https://vault.compat.test/v1/item?q=1
ask --http1.1 -H 'Authorization: Bearer mine' https://vault.compat.test/v1/item
ask -d body https://vault.compat.test/v1/item
ask https://vault.compat.test/v1/echo
ask https://vault.compat.test/v1/basic
ask https://vault.compat.test/v2/item
ask -X DELETE https://vault.compat.test/v1/item
ask --path-as-is https://vault.compat.test/v1/../v2/item
ask --cacert ca.pem https://www.compat.test/hello
ask https://www.compat.test/hello
` + everything
	out, err := b.exec("exec", "--session", "vault", "--project", b.project, "--", "sh", "-c", script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"vault.compat.test:443 pinned to " + upstream.secure + " opened with vault", "it works\n [200 2]", "it works\n [200 1.1]",
		"path_not_leased", "method_not_leased", "ambiguous_path", "[502 2]", "hello from www.compat.test\n [200 2]", "SSL_CERT_FILE=/run/nacre/ca.pem",
		"nacre session authority", "self-signed certificate",
	} {
		if want != "nacre session authority" && !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%.4000s", want, out)
		}
	}
	want := "GET /v1/item?q=1 Bearer " + held + "\nGET /v1/item Bearer " + held + "\nPOST /v1/item Bearer " + held + "\nGET /v1/echo Bearer " + held + "\nGET /v1/basic Bearer " + held
	if have := watch.all(); have != want {
		t.Errorf("the host saw:\n%s\nwant:\n%s", have, want)
	}
	checkAbsent(t, "what the agent can read", out)
	b.checkState(t)
	records, err := b.exec("audit", "show", "vault", "--json")
	must(t, err)
	for _, want := range []string{`"outcome":"acquired"`, `"outcome":"released"`, `"reason":"credential_in_answer"`, `"outcome":"answered"`, `"path":"/v1/item"`, `"credential":"vault"`} {
		if !strings.Contains(records, want) {
			t.Errorf("no %s in the records", want)
		}
	}
	if out, err := b.exec("audit", "verify"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func checkAbsent(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range []string{held, hex.EncodeToString([]byte(held)), base64.StdEncoding.EncodeToString([]byte(held))[:32]} {
		if strings.Contains(text, form) {
			t.Errorf("%s holds %s", where, form)
		}
	}
}

// checkState looks for the value in all that nacre keeps: chains, sessions, the ledger.
func (b *bench) checkState(t *testing.T) {
	t.Helper()
	home := filepath.Dir(b.project)
	files := 0
	err := filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(home, ".config")) {
			return err
		}
		data, err := os.ReadFile(path)
		files++
		checkAbsent(t, path, string(data))
		return err
	})
	must(t, err)
	if files < 5 {
		t.Errorf("looked at %d files only", files)
	}
	ledger, err := os.ReadFile(filepath.Join(home, ".local/state/nacre/leases.jsonl"))
	must(t, err)
	if text := string(ledger); strings.Count(text, `"acquired"`) != strings.Count(text, `"released"`) || !strings.Contains(text, `"credential":"vault"`) {
		t.Errorf("the ledger:\n%s", text)
	}
}

// Without a credential for a listed host nothing is changed inside.
func TestWithoutACredentialTheEnvironmentIsUnchanged(t *testing.T) {
	b := newBench(t, newServers(t))
	out, err := b.exec("exec", "-q", "--project", b.project, "--", "sh", "-c", "env; ls /run/nacre")
	must(t, err)
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "ca.pem", "GIT_SSL_CAINFO"} {
		if strings.Contains(out, name) {
			t.Errorf("%s is there", name)
		}
	}
}

// M-22, M-33: where it must be inside, everything says so, and no record holds it.
func TestACredentialThatIsDeliveredInsideIsSaidToBe(t *testing.T) {
	b := newBench(t, newServers(t))
	config := filepath.Join(filepath.Dir(b.project), ".config", "nacre")
	must(t, os.WriteFile(filepath.Join(config, "token"), []byte(held), 0o600))
	file, err := os.OpenFile(filepath.Join(config, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	for i, as := range []string{`as_env = "HUB_TOKEN"`, `as_file = "hub"`} {
		_, err = fmt.Fprintf(file, "\n[[credential]]\nname = \"in-%d\"\ngroups = [\"main\"]\nstanding_secret = true\ndelivery = \"inside\"\nvalue_file = %q\n%s\n", i, filepath.Join(config, "token"), as)
		must(t, err)
	}
	must(t, file.Close())
	out, err := b.exec("exec", "--session", "vault", "--project", b.project, "--", "sh", "-c", `test "$HUB_TOKEN" = "$(cat /run/nacre/credentials/hub)" && echo ${#HUB_TOKEN} bytes; cat /proc/*/cmdline`)
	must(t, err)
	if !strings.Contains(out, fmt.Sprintf("%d bytes", len(held))) || !strings.Contains(out, "in-0 as $HUB_TOKEN, in-1 at /run/nacre/credentials/hub") {
		t.Errorf("have:\n%s", out)
	}
	checkAbsent(t, "the output", out)
	for _, args := range [][]string{{"explain", "--project", b.project}, {"--json", "explain", "--project", b.project}, {"doctor"}, {"audit", "show", "vault", "--json"}} {
		out, _ := b.exec(args...)
		checkAbsent(t, strings.Join(args, " "), out)
		if !strings.Contains(out, "in-0") {
			t.Errorf("%v does not name it:\n%s", args, out)
		}
	}
}

// M-32: a credential without a value opens no session, and says what to do.
func TestACredentialWithoutAValueOpensNothing(t *testing.T) {
	for name, breakIt := range map[string]func(t *testing.T, token string){
		"missing":      func(t *testing.T, token string) { must(t, os.Remove(token)) },
		"empty":        func(t *testing.T, token string) { must(t, os.WriteFile(token, nil, 0o600)) },
		"for everyone": func(t *testing.T, token string) { must(t, os.Chmod(token, 0o644)) }, //nolint:gosec // that is the case
		"a folder":     func(t *testing.T, token string) { must(t, os.Remove(token)); must(t, os.Mkdir(token, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newServers(t))
			b.withCredential(t, "www."+domain, "paths = [\"/\"]")
			breakIt(t, filepath.Join(filepath.Dir(b.project), ".config", "nacre", "token"))
			out, err := b.exec("exec", "--project", b.project, "--", "true")
			if err == nil || !strings.Contains(out, "credential www: the file") {
				t.Errorf("%v: %s", err, out)
			}
			if out, err := b.exec("doctor"); err == nil || !strings.Contains(out, "www: the file") {
				t.Errorf("doctor says nothing: %v\n%s", err, out)
			}
			if _, err := b.exec("exec", "--group", "other", "--project", b.project, "--", "true"); err != nil {
				t.Errorf("a group without the credential: %v", err)
			}
		})
	}
}
