package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

const mintRoot = "hvs.root-of-the-operator"

// mintingVault is a Vault that knows which tokens are good, and waits where a test says.
type mintingVault struct {
	mu   sync.Mutex
	good []string
	made int
	seen []string // tokens that the opened host was shown
	ttls []string // for how long each was asked for
	// reached is told of a place, and the answer there waits for hold.
	at      string
	reached chan struct{}
	hold    chan struct{}
	broken  int // the status of a revocation that fails; 0 where none does
	// streams are the answers of the opened host that have no end.
	streams atomic.Int32
}

func (v *mintingVault) out() []string { v.mu.Lock(); defer v.mu.Unlock(); return slices.Clone(v.good) }

// wasShown tells whether the opened host was shown a token.
func (v *mintingVault) wasShown(token string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Contains(v.seen, token)
}

// stopAt lets the next answer wait at a place, until let is called.
func (v *mintingVault) stopAt(place string) (reached <-chan struct{}, let func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at, v.reached, v.hold = place, make(chan struct{}), make(chan struct{})
	hold := v.hold
	return v.reached, func() { close(hold) }
}

func (v *mintingVault) pass(place string) {
	v.mu.Lock()
	hold, reached := v.hold, v.reached
	stops := v.at == place
	if stops {
		v.at = ""
	}
	v.mu.Unlock()
	if stops {
		close(reached)
		<-hold
	}
}

func (v *mintingVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Policies []string
		Accessor string
		TTL      string
	}
	if r.Header.Get("X-Vault-Token") != mintRoot || json.NewDecoder(r.Body).Decode(&asked) != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	v.mu.Lock()
	broken := v.broken
	v.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/auth/token/create":
		v.mu.Lock()
		v.made, v.ttls = v.made+1, append(v.ttls, asked.TTL)
		token := fmt.Sprintf("hvs.minted-for-a-session-%d", v.made)
		v.good = append(v.good, token)
		v.mu.Unlock()
		v.pass("minted")
		life, _ := time.ParseDuration(asked.TTL)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{"client_token": token, "accessor": "of-" + token, "policies": asked.Policies, "lease_duration": int(life.Seconds())}})
	case r.URL.Path == "/v1/auth/token/revoke-accessor" && broken > 0:
		w.WriteHeader(broken)
	case r.URL.Path == "/v1/auth/token/revoke-accessor":
		v.pass("before the revocation")
		v.mu.Lock()
		v.good = slices.DeleteFunc(v.good, func(token string) bool { return "of-"+token == asked.Accessor })
		v.mu.Unlock()
		v.pass("after the revocation")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// minting is an installation whose sessions get a token of a Vault for example.com.
func minting(t *testing.T) (*installation, *mintingVault) {
	t.Helper()
	i := install(t)
	v, pinned, credential := i.minted()
	i.write("home/.config/nacre/config.toml", "[egress]\nallow = [\"example.com:443\"]\npin = { "+pinned+" }\n\n"+credential)
	return i, v
}

// minted starts a Vault and the host that its tokens open, and says where the host is and what the
// credential's part of a config is.
func (i *installation) minted() (v *mintingVault, pinned, credential string) {
	t := i.t
	t.Helper()
	v = &mintingVault{}
	api := httptest.NewServer(v)
	t.Cleanup(api.Close)
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stream" {
			endless(&v.streams, w, r, "it begins\n")
			return
		}
		v.mu.Lock()
		v.seen = append(v.seen, r.Header.Get("X-Vault-Token"))
		v.mu.Unlock()
		_, _ = io.WriteString(w, "it works\n")
	}))
	t.Cleanup(host.Close)
	ca := i.certificateOf(host)
	root := i.write("root", mintRoot)
	return v, fmt.Sprintf("\"example.com:443\" = %q", host.Listener.Addr().String()), fmt.Sprintf(`[[credential]]
name = "vault"
host = "example.com:443"
paths = ["/v1/"]
groups = ["main"]
scheme = "raw"
header = "X-Vault-Token"
value_file = %q
ca_file = %q
[credential.mint]
kind = "vault"
url = %q
policies = ["deploy"]
`, root, ca, api.URL)
}

// M-32, M-33: what is minted for a session is shown to its host alone, dies with the session,
// and stands neither inside nor in what nacre keeps.
func TestAMintedCredentialDiesWithItsSession(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, v := minting(t)
	i.nacre("credentials", "list").want(t, 0, "vault for policies deploy")
	i.nacre("explain").want(t, 0, "vault for example.com:443 GET,HEAD /v1/, minted by vault for policies deploy")
	i.nacre("explain", "--json").want(t, 0, `"credentials":[{"name":"vault","host":"example.com","port":443`)
	i.searched("env; curl -sS https://example.com/v1/x", func() []string { return append(v.out(), mintRoot) }).want(t, 0, "it works")
	if len(v.seen) != 1 || v.seen[0] != "hvs.minted-for-a-session-1" {
		t.Errorf("the host was shown %q", v.seen)
	}
	if out := v.out(); len(out) > 0 {
		t.Errorf("after the session %v are good", out)
	}
	i.nacre("doctor", "--no-turns", "--probe").want(t, 0, "vault minted and revoked one for policies deploy")
	if out := v.out(); len(out) > 0 || v.made != 2 {
		t.Errorf("after the probe %v of %d are good", out, v.made)
	}
	for _, secret := range []string{"hvs.minted-for-a-session-", mintRoot} {
		hasNoSecret(t, filepath.Join(i.work, "home"), secret)
	}
}

// M-30, M-31: wherever nacre is killed while it renews, the next sweep takes back what is
// good: the last credential, the next one, or both.
func TestNoRenewalOutlivesACrash(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, v := minting(t)
	i.config(strings.Replace(i.configured(), `name = "vault"`, `name = "vault"`+"\nttl = \"2s\"", 1))
	for place, left := range map[string]int{"minted": 2, "before the revocation": 2, "after the revocation": 1} {
		r := i.begin("exec", "--", "sh", "-c", "while :; do curl -s https://example.com/v1/x >/dev/null; sleep 0.1; done")
		eventually(t, "a credential is kept", func() bool { return i.handles() == "1" })
		reached, let := v.stopAt(place)
		<-reached
		if out := v.out(); len(out) != left {
			t.Errorf("killed %s: %v are good, want %d", place, out, left)
		}
		_ = r.Process.Kill()
		_ = r.Wait()
		let()
		swept := i.nacre("credentials", "sweep")
		if place == "minted" {
			swept.want(t, 3, "is taken back", "does not know it", "good until")
			if out := v.out(); len(out) != 1 {
				t.Errorf("killed %s: %v are good after a sweep", place, out)
			}
			v.mu.Lock()
			v.good = nil // it ends by itself
			v.mu.Unlock()
			continue
		}
		if !strings.Contains(swept.stdout, "is taken back") || len(v.out()) > 0 || i.handles() != "0" {
			t.Errorf("killed %s: %v are good after a sweep\n%s%s", place, v.out(), swept.stdout, swept.stderr)
		}
	}
}

// M-31: wherever nacre is killed, the next sweep takes back what was minted. Where it was
// killed before it knew the credential, the sweep says so, and until when it is good.
func TestNoMintedCredentialOutlivesACrash(t *testing.T) {
	t.Parallel()
	i, v := minting(t)
	for _, place := range []string{"minted", "running", "before the revocation", "after the revocation"} {
		reached, let := v.stopAt(place)
		command := []string{"exec", "--", "true"}
		if place == "running" {
			command = []string{"exec", "--", "sh", "-c", "echo here; exec sleep 3600"}
		}
		r := i.begin(command...)
		if place == "running" {
			eventually(t, "a credential is used", func() bool { return len(v.out()) > 0 && i.nacre("ps").code == 0 && strings.Contains(i.handles(), "1") })
		} else {
			<-reached
		}
		_ = r.Process.Kill()
		_ = r.Wait()
		let()
		swept := i.nacre("credentials", "sweep")
		if place == "minted" {
			swept.want(t, 3, "does not know it", "good until")
			v.mu.Lock()
			v.good = nil // it ends by itself
			v.mu.Unlock()
			continue
		}
		if !strings.Contains(swept.stdout, "is taken back") || len(v.out()) > 0 {
			t.Errorf("killed %s: %v are good after a sweep\n%s%s", place, v.out(), swept.stdout, swept.stderr)
		}
		if left := i.handles(); left != "0" {
			t.Errorf("killed %s: %s handles are left", place, left)
		}
	}
}

// handles counts what is kept to revoke credentials.
func (i *installation) handles() string {
	found, err := filepath.Glob(filepath.Join(i.work, "home/.local/state/nacre/leases.jsonl.handles/*"))
	if err != nil {
		i.t.Fatal(err)
	}
	return fmt.Sprint(len(found))
}

// breaks has each revocation answered with a status; 0 mends it.
func (v *mintingVault) breaks(status int) { v.mu.Lock(); defer v.mu.Unlock(); v.broken = status }

// M-31: what a provider would not take back stays in the ledger, and is taken back later: by a sweep, or by
// the next session. A provider that does not answer is told apart from one that answers no.
func TestARevocationThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	i, v := minting(t)
	v.breaks(http.StatusServiceUnavailable)
	i.nacre("exec", "--", "true").want(t, 1, "was not taken back", "the next session, or nacre credentials sweep, tries again")
	if len(v.out()) != 1 {
		t.Fatalf("have %v", v.out())
	}
	i.nacre("credentials", "sweep").want(t, 3, "503", "good until")
	hasNo(t, i.nacre("credentials", "sweep", "--json").stdout, `"refused"`)
	v.breaks(http.StatusForbidden)
	i.nacre("credentials", "sweep").want(t, 3, "403", "does not pass by itself: take it back at the provider", "good until")
	i.nacre("credentials", "sweep", "--json").want(t, 3, `"refused":true`)
	i.nacre("exec", "--", "true").want(t, 1, "was not taken back", "does not pass by itself")
	v.breaks(0)
	i.nacre("exec", "--", "true").want(t, 0)
	if out := v.out(); len(out) > 0 || i.handles() != "0" {
		t.Errorf("after the next session %v are good, and %s handles are left", out, i.handles())
	}
	i.nacre("credentials", "sweep").want(t, 0, "nothing was left")
}

// M-30, M-31: an agent whose client leaves while a provider answers leaves no credential that nacre does
// not know, and none is good after its session.
func TestAClientThatLeavesLeavesNoCredential(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, v := minting(t)
	i.config(strings.Replace(i.configured(), `name = "vault"`, `name = "vault"`+"\nttl = \"2s\"", 1))
	i.write("p/x", "")
	r := i.begin("exec", "--project", "p", "--", "sh", "-c", "until curl -s -m 0.2 https://example.com/v1/x >/dev/null; test $? = 28 -a -e asked; do sleep 0.05; done; touch left")
	eventually(t, "a credential is kept", func() bool { return i.handles() == "1" })
	reached, let := v.stopAt("minted")
	<-reached
	i.write("p/asked", "")
	eventually(t, "the client has left", func() bool { _, err := os.Stat(filepath.Join(i.work, "p/left")); return err == nil })
	let()
	finish(t, r).want(t, 0)
	if out := v.out(); len(out) > 0 || v.made < 2 {
		t.Errorf("of %d that were minted, %v are good", v.made, out)
	}
	i.nacre("credentials", "sweep").want(t, 0, "nothing was left")
}

// M-36: a remote that is named as ssh names it is asked for over https, where a credential is for that
// repository. Any other one is left as it is.
func TestARemoteOfSSHIsAskedForOverHTTPS(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "git")
	i := install(t)
	i.config(`[egress]
allow = ["forge.example:443"]
[[credential]]
name = "forge"
host = "forge.example"
scheme = "basic"
user = "x"
repositories = ["/acme/app.git"]
groups = ["main"]
value_file = "` + i.write("root", mintRoot) + `"
standing_secret = true
`)
	r := i.nacre("exec", "--", "sh", "-c", `for remote in git@forge.example:acme/app.git ssh://git@forge.example/acme/app.git ssh://git@forge.example:22/acme/app.git git@forge.example:acme/other.git git@hub.example:acme/app.git
do git ls-remote --get-url $remote; done`)
	r.want(t, 0, strings.Repeat("https://forge.example/acme/app.git\n", 3)+"git@forge.example:acme/other.git\ngit@hub.example:acme/app.git\n")
}

// configured is what config.toml holds.
func (i *installation) configured() string {
	text, err := os.ReadFile(filepath.Join(i.work, "home/.config/nacre/config.toml"))
	if err != nil {
		i.t.Fatal(err)
	}
	return string(text)
}

// M-30: nothing is minted before a person granted a budget. What is granted dies with the session, and what
// was denied is not asked again.
func TestAPersonGrantsABudget(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, v := minting(t)
	i.config(i.configured() + "budget = { hours = 4, renewals = 3 }\n")
	i.nacre("explain").want(t, 0, "once a person grants 4h and 3 renewals")
	i.nacre("credentials", "list").want(t, 0, "once a person grants 4h and 3 renewals")
	i.write("p/x", "")
	for answer, command := range map[string]string{
		"approve": "until curl -sf https://example.com/v1/x; do sleep 0.02; done",
		"deny":    "curl -s https://example.com/v1/x; until test -e go; do sleep 0.02; done; curl -s https://example.com/v1/x",
	} {
		r := i.begin("exec", "--project", "p", "--session", answer, "--", "sh", "-c", command)
		q := i.question()
		if q.Capability != "nacre.credential" || !strings.Contains(string(q.Arguments), `"credential":"vault","minted":"vault for policies deploy","host":"example.com:443","methods":["GET","HEAD"],"paths":["/v1/"],"hours":4,"renewals":3`) {
			t.Fatalf("have %s %s", q.Capability, q.Arguments)
		}
		if out := v.out(); len(out) > 0 {
			t.Fatalf("%v were minted before anybody said yes", out)
		}
		i.nacre("approvals", "list").want(t, 0, "main wants a credential", "vault, minted by vault for policies deploy", "4 h from now on, and 3 renewals")
		if answer == "approve" { // for less than any lease lasts: it is used up at once, and asked for again
			i.nacre("approvals", answer, q.ID, "--for", "30s").want(t, 0)
			earlier := q.ID
			eventually(t, "another question", func() bool { q = i.question(); return q.ID != earlier })
			if out := v.out(); len(out) > 0 {
				t.Fatalf("%v were minted with a budget that is used up", out)
			}
		}
		i.nacre(append([]string{"approvals", answer, q.ID}, map[string][]string{"approve": {"--for", "10m"}}[answer]...)...).want(t, 0)
		if answer == "deny" {
			eventually(t, "nothing waits", func() bool { return len(i.questions()) == 0 })
			i.write("p/go", "")
			finish(t, r).want(t, 0, "no value to use now")
			continue
		}
		finish(t, r).want(t, 0, "it works")
		has(t, i.records(answer), `"kind":"approval.ask"`, `"outcome":"granted"`, `"renewals":3`, `"outcome":"acquired"`, `"outcome":"released"`)
		i.nacre("show", answer).want(t, 0, "leased", "acquired", "released") // M-44
	}
	if out := v.out(); v.made != 1 || len(out) > 0 {
		t.Errorf("%d were minted, %v are good", v.made, out)
	}
	if life, err := time.ParseDuration(v.ttls[0]); err != nil || life > 10*time.Minute || life < time.Minute { // of 15 minutes, what remains
		t.Errorf("it was asked for for %s", v.ttls[0])
	}
}

// assumedRole is the query API of AWS STS, for one operator's key.
func assumedRole(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Authorization"), "Credential=AKIAOFTHEOPERATOR/") || !strings.Contains(r.FormValue("Policy"), "aws:CurrentTime") {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	_, _ = fmt.Fprintf(w, `<AssumeRoleResponse><AssumeRoleResult><AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/deploy/nacre</Arn></AssumedRoleUser><Credentials>
<AccessKeyId>ASIAOFTHESESSION</AccessKeyId><SecretAccessKey>secret-of-the-session</SecretAccessKey><SessionToken>token-of-the-session</SessionToken><Expiration>%s</Expiration></Credentials>
<PackedPolicySize>6</PackedPolicySize></AssumeRoleResult></AssumeRoleResponse>`, time.Now().Add(15*time.Minute).UTC().Format(time.RFC3339))
}

// M-32: a role that is assumed for a session signs its requests, and the key that it was
// assumed with signs none.
func TestARoleOfAWSSignsForItsSession(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	sts := httptest.NewServer(http.HandlerFunc(assumedRole))
	t.Cleanup(sts.Close)
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, strings.Contains(r.Header.Get("Authorization"), "Credential=ASIAOFTHESESSION/") && r.Header.Get("X-Amz-Security-Token") == "token-of-the-session")
	}))
	t.Cleanup(host.Close)
	i := install(t)
	ca := i.certificateOf(host)
	i.config(fmt.Sprintf(`[egress]
allow = ["example.com:443"]
pin = { "example.com:443" = %q }

[[credential]]
name = "bucket"
host = "example.com:443"
paths = ["/bucket/"]
groups = ["main"]
scheme = "sigv4"
region = "eu-west-1"
service = "s3"
value_file = %q
access_key_file = %q
ca_file = %q
[credential.mint]
kind = "aws-sts"
url = %q
region = "eu-west-1"
role = "arn:aws:iam::123456789012:role/deploy"
policy = '''{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::bucket/*"]}]}'''
`, host.Listener.Addr().String(), i.write("secret", "secret-of-the-operator"), i.write("access", "AKIAOFTHEOPERATOR"), ca, sts.URL))
	i.nacre("explain").want(t, 0, "minted by aws-sts for arn:aws:iam::123456789012:role/deploy (s3:GetObject)")
	i.nacre("exec", "--", "curl", "-sS", "https://example.com/bucket/x").want(t, 0, "true\n")
	i.nacre("doctor", "--no-turns", "--probe").want(t, 0, "bucket · aws-sts minted one, which nobody can revoke and nobody has")
	if left := i.handles(); left != "0" {
		t.Errorf("%s handles are left", left)
	}
}

// M-55: what is left of a granted budget is good in the run that goes on after a kill, and no more than
// that. No credential is kept, and each opening mints its own.
func TestAGrantedBudgetOutlivesAKill(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, v := minting(t)
	i.config(i.configured() + "budget = { hours = 4, renewals = 1 }\n")
	i.project()
	rec := i.recording("until curl -sf https://example.com/v1/x >a.txt; do sleep 0.1; done; curl -sN https://example.com/v1/stream")
	args := []string{"run", "stream", "--project", "p", "--recording", rec, "--session", "work", "--check", "true"}
	for opening, asked := range []bool{true, false, true} {
		r := i.begin(args...)
		args = []string{"run", "--session", "work"}
		eventually(t, "a stream or a question", func() bool { return v.streams.Load() == 1 || len(i.questions()) > 0 })
		if have := len(i.questions()) > 0; have != asked {
			t.Errorf("opening %d: a person is asked: %t", opening, have)
		}
		if asked {
			i.nacre("approvals", "approve", i.question().ID).want(t, 0)
			eventually(t, "a stream", func() bool { return v.streams.Load() == 1 })
		}
		_ = r.Process.Kill()
		finish(t, r)
		eventually(t, "the stream is closed", func() bool { return v.streams.Load() == 0 })
	}
	if v.made != 3 {
		t.Errorf("%d were minted", v.made)
	}
	i.nacre("sessions", "give-up", "work").want(t, 0)
	i.nacre("credentials", "sweep").want(t, 0)
	if out := v.out(); len(out) > 0 {
		t.Errorf("%v are good", out)
	}
}
