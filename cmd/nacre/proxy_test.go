package main_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

const proxyPassword = "p4ss-of-the-proxy"

// companyProxy is a proxy as companies have them, with its address.
type companyProxy struct {
	*testpeer.Proxy
	*httptest.Server
}

func newCompanyProxy(t *testing.T, to string) companyProxy {
	t.Helper()
	proxy := &testpeer.Proxy{To: to, Want: "ada:" + proxyPassword, Plain: "through the proxy\n"}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return companyProxy{proxy, server}
}

// U-07, F-22: what a session may reach is reached through the proxy that the environment or the config
// names, whose password is on the host alone. A company's authority is trusted.
func TestSessionsReachTheNetworkThroughACompanysProxy(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "over TLS\n") }))
	t.Cleanup(secure.Close)
	proxy := newCompanyProxy(t, secure.Listener.Addr().String())
	both := []string{
		"exec", "--session", "s", "--egress", "page.test:80/http", "--egress", "example.com", "--",
		"sh", "-c", "curl -s http://page.test/; curl -s https://example.com/; env | grep -c " + proxyPassword + "; cat ~/.bashrc /proc/1/environ 2>/dev/null | grep -c " + proxyPassword + "; true",
	}
	ca := func(i *installation) string {
		return fmt.Sprintf("ca = [%q]\n", i.write("company.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))))
	}
	for name, set := range map[string]func(*installation){
		"of the environment": func(i *installation) {
			i.config("[egress]\n" + ca(i))
			url := strings.Replace(proxy.URL, "//", "//ada:"+proxyPassword+"@", 1)
			i.env = append(i.env, "HTTPS_PROXY="+url, "HTTP_PROXY="+url)
		},
		"of the config": func(i *installation) {
			i.env = append(i.env, "HTTPS_PROXY=http://nowhere.invalid:1", "CORP_PASSWORD="+proxyPassword)
			i.config(fmt.Sprintf("[egress]\n%s[egress.proxy]\nurl = %q\nuser = \"ada\"\npassword_env = \"CORP_PASSWORD\"\n", ca(i), proxy.URL))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			set(i)
			have := i.nacre(both...)
			have.want(t, 0, "through the proxy\n", "over TLS\n0\n0\n")
			has(t, proxy.Log(), "GET http://page.test/", "CONNECT example.com:443")
			records := i.records("s")
			has(t, records, `"upstream":true`)
			hasNo(t, records+have.stdout+have.stderr, proxyPassword)
		})
	}
}

// U-07: a proxy that refuses is told where the operator looks, with why, and nothing is reached without
// it. A config that cannot be meant is refused, as is a password that cannot be read.
func TestAProxyThatRefusesIsTold(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, proxy := install(t), newCompanyProxy(t, "127.0.0.1:1")
	i.config(fmt.Sprintf("[egress.proxy]\nurl = %q\n", proxy.URL))
	i.nacre("exec", "--egress", "page.test:80/http", "--egress", "example.com", "--", "sh", "-c", "curl -s http://page.test/; curl -sk https://example.com/; exit 0").
		want(t, 0, "(upstream_proxy)", "example.com:443: your proxy "+strings.TrimPrefix(proxy.URL, "http://"), "page.test:80: your proxy", "wants other credentials")
	i.env = append(i.env, "SHORT=p4ss", "OTHER=other-password")
	i.config(fmt.Sprintf("[egress.proxy]\nurl = %q\nuser = \"ada\"\npassword_env = \"OTHER\"\n", proxy.URL))
	i.nacre("exec", "--egress", "example.com", "--", "curl", "-sk", "https://example.com/").want(t, 35, "wants other credentials")
	for password, says := range map[string]string{
		`password_env = "NOWHERE"`:           "NOWHERE is empty or missing",
		`password_env = "SHORT"`:             "SHORT: the value is shorter than 8 bytes",
		`password_file = "` + i.work + `/x"`: i.work + "/x: no such file",
	} {
		i.config(fmt.Sprintf("[egress.proxy]\nurl = %q\nuser = \"ada\"\n%s\n", proxy.URL, password))
		i.nacre("exec", "--egress", "example.com", "--", "true").want(t, 125, "[egress.proxy] password: ", says)
	}
	for text, says := range map[string]string{
		"url = \"socks5://proxy.test:1080\"":                         "a proxy is http://HOST:PORT",
		"url = \"http://ada:" + proxyPassword + "@proxy.test:3128\"": "no user and no password here",
		"url = \"http://proxy.test:3128\"\nuser = \"ada\"":           "belong together",
		"no_proxy = \"a.test\"":                                      "url is missing",
	} {
		i.config("[egress.proxy]\n" + text + "\n")
		have := i.nacre("exec", "--", "true")
		have.want(t, 125, says)
		hasNo(t, have.stderr, proxyPassword)
	}
}

// U-07: an authority that is named and cannot be trusted is refused before anything begins, by whatever
// would speak TLS. A library that leaves it out trusts whom the operator did not name.
func TestAnAuthorityThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("not.pem", "no certificate\n")
	if err := errors.Join(os.Mkdir(i.work+"/folder", 0o755), syscall.Mkfifo(i.work+"/pipe", 0o644), os.Symlink("nowhere", i.work+"/link")); err != nil {
		t.Fatal(err)
	}
	unset := append(slices.Clone(i.env), "ANTHROPIC_API_KEY=key-of-the-test")
	named := map[string]func(string){
		"[egress] ca": func(name string) { i.env = unset; i.config(fmt.Sprintf("[egress]\nca = [%q]\n", name)) },
		"SSL_CERT_FILE of the environment": func(name string) {
			i.env = append(slices.Clone(unset), "SSL_CERT_FILE="+name)
			i.config("")
		},
	}
	for from, set := range named {
		for name, says := range map[string]string{
			"nowhere": "no such file", "link": "no such file", "folder": "is not a file", "pipe": "is not a file", "not.pem": "holds no certificate in PEM", "not.pem/below": "not a directory",
		} {
			name = i.work + "/" + name
			set(name)
			i.nacre("exec", "--egress", "example.com", "--", "true").want(t, 125, from, name, says, "; name ")
		}
		have := i.nacre("run", "greet", "--yes", "--brain", "anthropic", "--project", "p")
		if have.want(t, have.code, from, "; name "); have.code == 0 {
			t.Errorf("%s: a run began", from)
		}
		hasNo(t, have.stderr, "session ") // nothing has begun
		i.nacre("doctor").want(t, 4, from, "; name ")
	}
	if left := i.nacre("sessions", "list", "--json"); strings.Contains(left.stdout, `"running"`) {
		t.Errorf("left behind: %s", left.stdout)
	}
}

// U-07, F-22: the gateway speaks to the model through the proxy, and trusts the company's authority.
func TestTheModelIsReachedThroughACompanysProxy(t *testing.T) {
	t.Parallel()
	model := scriptedmodel.New(scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		{Tools: []scriptedmodel.Tool{{Name: "edit", Input: []byte(`{"path":"greeting.txt","old":"hello","new":"hello world"}`)}}}, {Text: "Done."},
	}})
	server := httptest.NewTLSServer(model)
	t.Cleanup(server.Close)
	proxy := newCompanyProxy(t, server.Listener.Addr().String())
	i := install(t)
	i.project()
	i.env = append(i.env, "LOCAL_KEY=key-of-the-test")
	authority := i.write("company.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	password := i.write("proxy-password", proxyPassword+"\n")
	if err := os.Chmod(password, 0o600); err != nil {
		t.Fatal(err)
	}
	i.config(fmt.Sprintf("[egress]\nca = [%q]\n[egress.proxy]\nurl = %q\nuser = \"ada\"\npassword_file = %q\n[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = \"https://example.com\"\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", authority, proxy.URL, password))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	i.nacre("run", "greet the world", "--brain", "anthropic", "--project", "p", "--check", "grep -q 'hello world' greeting.txt").want(t, 0, "merged")
	has(t, proxy.Log(), "CONNECT example.com:443")
	for _, failure := range model.Failures() {
		t.Error(failure)
	}
}
