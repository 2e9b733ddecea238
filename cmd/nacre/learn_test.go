package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/assembly"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// learns is an installation in which one host answers that no session may reach yet.
func learns(t *testing.T) *installation {
	t.Helper()
	testpeer.Need(t, "curl")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "served %s\n", r.URL.Path)
		if r.URL.Path == "/held" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	i := install(t)
	i.config(fmt.Sprintf("[egress]\npropose = false\n[egress.pin]\n\"deb.example.com:80\" = %q\n", server.Listener.Addr()))
	return i
}

const (
	fetches     = "curl -sf http://deb.example.com/pool/a; curl -sf http://deb.example.com/pool/b/c; curl -sf -XPOST http://deb.example.com/pool/a; curl -s https://registry.example.com/; true"
	fetchesMore = fetches + "; curl -sf http://deb.example.com/pool/z; true"
)

func (i *installation) proposal(arguments ...string) (p assembly.Proposal) {
	i.t.Helper()
	have := i.nacre(append([]string{"learn", "--json"}, arguments...)...)
	have.want(i.t, 0)
	if err := json.Unmarshal([]byte(have.stdout), &p); err != nil {
		i.t.Fatal(err)
	}
	return p
}

// U-06, U-40: a service of this machine is proposed to nobody; the refusal and learn name what
// lets a session ask for it.
func TestAServiceOfThisMachineIsNotLearned(t *testing.T) {
	t.Parallel()
	i := learns(t)
	i.nacre("exec", "--session", "one", "--", "sh", "-c", "curl -sv --noproxy '' http://localhost:5433/ 2>&1").want(t, 0, "ask for --reach localhost:5433", "nacre exec --reach localhost:5433 --")
	i.nacre("learn", "one").want(t, 0, "localhost:5433: it is a service of this machine: --reach localhost:5433")
	if p := i.proposal("one"); len(p.Lines) != 0 {
		t.Errorf("proposed: %v", p.Lines)
	}
}

// U-40: the first session is refused, a person approves what was asked, the second goes
// through with exactly that, and undone it is refused again.
func TestWhatWasRefusedIsLearned(t *testing.T) {
	t.Parallel()
	i := learns(t)
	first := i.nacre("exec", "--session", "one", "--", "sh", "-c", fetches)
	first.want(t, 0)
	hasNo(t, first.stdout, "served")
	i.nacre("approvals", "waiting").want(t, 0, "learn", "what sessions were refused and could be allowed: 3", "nacre learn")
	i.nacre("learn", "one").want(t, 0, "deb.example.com:80/http GET /pool/a /pool/b/c", "registry.example.com:443 by its name", "sends or changes something", "--wider 1")
	p := i.proposal("one")
	if len(p.Lines) != 3 || p.Lines[0].Wider != "/pool/" || len(p.Lines[0].Evidence) != 2 || p.Looked != 0 {
		t.Fatalf("have %+v", p)
	}
	i.nacre("exec", "--session", "two", "--", "sh", "-c", fetches).want(t, 0)
	if p := i.proposal("one"); p.Looked != 1 || p.Lines[0].Others != 2 {
		t.Errorf("it was not tried on the other session: %+v", p)
	}
	i.nacre("learn", "one", "--approve", "all").want(t, 2, "name the proposal that you saw")
	i.nacre("learn", "one", "--approve", "all", "--proposal", "0123456789ab").want(t, 2, "this is proposal "+p.ID)
	i.nacre("learn", "one", "--approve", "4", "--proposal", p.ID).want(t, 2, "no line 4")
	i.nacre("learn", "one", "--approve", "all", "--for", "900d", "--proposal", p.ID).want(t, 2, "at most 366 days")
	i.nacre("learn", "one", "--approve", "all", "--for", "7d", "--proposal", p.ID).want(t, 0, "approved", "GET /pool/a /pool/b/c", "nacre learn --undo "+p.ID)
	i.nacre("learn", "one", "--approve", "all", "--proposal", p.ID).want(t, 2) // what is allowed is not proposed again
	second := i.nacre("exec", "--session", "three", "--", "sh", "-c", fetchesMore)
	second.want(t, 0)
	if second.stdout != "served /pool/a\nserved /pool/b/c\n" { // neither the POST nor /pool/z
		t.Errorf("have %q", second.stdout)
	}
	has(t, i.records("three"), `"request_not_listed"`)
	i.nacre("learn", "--list").want(t, 0, p.ID, "until", "deb.example.com:80/http GET /pool/a /pool/b/c")
	i.nacre("learn", "--undo").want(t, 0, "taken back")
	i.nacre("learn", "--undo").want(t, 2, "nothing that sessions learned is approved")
	third := i.nacre("exec", "--", "sh", "-c", fetches)
	third.want(t, 0)
	hasNo(t, third.stdout, "served")
	i.nacre("audit", "verify").want(t, 0, "learn-")
}

// U-40: what was approved for a time is proposed again once that is over, and can be approved again. Who
// approves nothing says so in a word.
func TestAnApprovalThatEndedIsGivenAgain(t *testing.T) {
	t.Parallel()
	i := learns(t)
	i.nacre("exec", "--session", "one", "--", "sh", "-c", fetches).want(t, 0)
	p := i.proposal("one")
	i.nacre("learn", "one", "--approve", "none", "--proposal", p.ID).want(t, 0, "nothing is approved")
	i.nacre("learn", "one", "--approve", "1,none", "--proposal", p.ID).want(t, 2, `"none" is no number of a line`)
	i.nacre("learn", "--list").want(t, 0)
	i.nacre("learn", "one", "--approve", "all", "--proposal", p.ID).want(t, 0, "approved")
	file := "home/.config/nacre/learned.toml"
	text := regexp.MustCompile(`(?m)^( +at = ).*$`).ReplaceAllString(i.read(file), "${1}2026-01-01T00:00:00Z")
	i.write(file, regexp.MustCompile(`(?m)^( +until = ).*$`).ReplaceAllString(text, "${1}2026-01-02T00:00:00Z"))
	i.nacre("learn", "--list").want(t, 0, "ended")
	hasNo(t, i.nacre("exec", "--", "sh", "-c", fetches).stdout, "served")
	if again := i.proposal("one"); again.ID != p.ID {
		t.Fatalf("have %+v, want the proposal of before", again)
	}
	i.nacre("learn", "one", "--approve", "all", "--proposal", p.ID).want(t, 0, "approved")
	has(t, i.nacre("exec", "--", "sh", "-c", fetches).stdout, "served /pool/a")
	hasNo(t, i.nacre("learn", "--list").stdout, "ended")
	i.nacre("learn", "--undo").want(t, 0, "taken back")
	hasNo(t, i.nacre("exec", "--", "sh", "-c", fetches).stdout, "served")
}

// U-40: an answer that is still coming has been read as far as it came: what is asked for
// meanwhile stands apart, too.
func TestWhatWasAskedWhileReadingStandsApart(t *testing.T) {
	t.Parallel()
	i := learns(t)
	i.nacre("exec", "--session", "one", "--egress", "deb.example.com:80/http", "--", "sh", "-c",
		"curl -sN http://deb.example.com/held >f & while ! grep -q served f; do sleep 0.1; done; curl -s https://evil.example.com/; kill $!").want(t, 0)
	if p := i.proposal("one"); len(p.Lines) != 1 || len(p.Lines[0].Apart) != 1 {
		t.Fatalf("have %+v", p)
	}
}

// U-40: what a session asked for only after it had read from the network stands apart, and
// what was approved ends by itself.
func TestWhatWasAskedAfterReadingStandsApart(t *testing.T) {
	t.Parallel()
	i := learns(t)
	i.nacre("exec", "--session", "one", "--egress", "deb.example.com:80/http", "--", "sh", "-c", "curl -sf http://deb.example.com/page; curl -s https://evil.example.com/; true").want(t, 0, "served")
	p := i.proposal("one")
	if len(p.Lines) != 1 || len(p.Lines[0].Apart) != 1 {
		t.Fatalf("have %+v", p)
	}
	i.nacre("learn", "one", "--approve", "all", "--proposal", p.ID).want(t, 2, "by their numbers")
	config, err := os.ReadFile(i.work + "/home/.config/nacre/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	i.config(string(config) + "\n[operators.bob]\nidentities = [\"terminal:4242\"]\n") // M-41: nobody else decides then
	i.nacre("learn", "one", "--approve", "1", "--proposal", p.ID, "--for", "1h").want(t, 1, "no [operators.NAME] has terminal:")
	i.config(string(config))
	i.nacre("learn", "one", "--approve", "1", "--proposal", p.ID, "--for", "1h").want(t, 0, "evil.example.com:443 by its name")
	i.nacre("explain", "task").want(t, 0, "evil.example.com:443")
	file := "home/.config/nacre/learned.toml"
	i.write(file, strings.Replace(i.read(file), "  at = 20", "  at = 19", 1)) // a hand that makes it stand for longer
	i.nacre("explain", "task").want(t, 2, "learned.toml", "366 days")
}

// U-40: what a credential was asked for beyond its scope is a line of its own, approved by its number alone. It
// is then used for exactly that, by the group whose session asked.
func TestWhatACredentialIsForIsLearned(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _ = fmt.Fprintf(w, "served %s, known %t\n", r.URL.Path, r.Header.Get("Authorization") == "Bearer "+registryPassword); r.URL.RawQuery == "held" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	i := install(t)
	i.config(fmt.Sprintf("[egress]\nallow = [\"hub.example.com:443\"]\npin = { \"hub.example.com:443\" = %q }\n[groups.main]\n[groups.second]\n"+
		"[[credential]]\nname = \"hub\"\nhost = \"hub.example.com:443\"\npaths = [\"/repos/one\"]\ngroups = [\"main\", \"second\"]\nstanding_secret = true\nvalue_file = %q\nca_file = %q\n",
		server.Listener.Addr(), i.write("password", registryPassword), i.certificateOf(server)))
	const asks = "for at in repos/two repos/one repos/two/more user; do curl -sf https://hub.example.com/$at; done; curl -sf -XDELETE https://hub.example.com/repos/one; true"
	i.nacre("exec", "--session", "one", "--", "sh", "-c", asks).want(t, 0, "served /repos/one, known true\n")
	p := i.proposal("one")
	if len(p.Lines) != 3 || p.Lines[0].Credential != "hub" || len(p.Lines[0].Apart) == 0 || !slices.Equal(p.Lines[0].Methods, []string{"DELETE"}) || !slices.Equal(p.Lines[1].Paths, []string{"/repos/two"}) || !slices.Equal(p.Lines[2].Paths, []string{"/repos/two/more", "/user"}) {
		t.Fatalf("have %+v", p) // what was asked for after the first answer has a line of its own
	}
	i.nacre("learn", "one").want(t, 0, "hub.example.com:443 GET /repos/two with the credential hub, for the group main", "hub.example.com:443 GET /repos/two/more /user with the credential hub, for the group main", "uses a credential for more")
	i.nacre("learn", "one", "--approve", "all", "--proposal", p.ID).want(t, 2, "by their numbers")
	i.nacre("learn", "one", "--approve", "2,3", "--proposal", p.ID).want(t, 0)
	i.nacre("explain").want(t, 0, "credential hub for hub.example.com:443 GET /repos/two", "credential hub for hub.example.com:443 GET /repos/two/more,/user")
	second := i.nacre("exec", "--session", "two", "--", "sh", "-c", asks)
	second.want(t, 0)
	if want := "served /repos/two, known true\nserved /repos/one, known true\nserved /repos/two/more, known true\nserved /user, known true\n"; second.stdout != want {
		t.Errorf("have %q, want %q", second.stdout, want)
	}
	hasNo(t, i.nacre("exec", "--group", "second", "--", "sh", "-c", asks).stdout, "/repos/two", "/user")
	if p = i.proposal("one"); len(p.Lines) != 1 {
		t.Errorf("what was approved is proposed again: %+v", p.Lines)
	}
	// M-35: what is taken back ends in the sessions that run, and the credential's own scope does not.
	i.write("p/held", "")
	r := i.begin("exec", "--session", "three", "--project", "p", "--", "sh", "-c",
		"curl -sN https://hub.example.com/user?held >held; for at in user repos/one; do curl -s -o /dev/null -w '%{http_code} ' https://hub.example.com/$at; done")
	eventually(t, "an answer", func() bool { return i.read("p/held") != "" })
	i.nacre("learn", "--undo").want(t, 0, "taken back")
	if r := finish(t, r); r.stdout != "503 200 " {
		t.Errorf("after it was taken back: have %q", r.stdout)
	}
	has(t, i.records("three"), `"reason":"revoked"`, "beside config.toml: it was taken back, or is over")
}

// U-40, M-42: a folder that sessions asked for and were not shown is proposed, apart from all. Once approved,
// it is shown as soon as an agent of the group asks, until the approval is taken back. What nobody is shown
// stays so.
func TestAFolderThatWasNotShownIsLearned(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	lib, words := filepath.Join(i.work, "lib"), "read-only, for the group main"
	asks := func(session string) *running {
		return i.begin("exec", "--session", session, "--project", "p", "--", "sh", "-c", requests("../lib")+"; cat /folders/lib/a.txt; "+request("/etc")+"; true")
	}
	first := asks("one")
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	finish(t, first).want(t, 0)
	i.nacre("learn", "one").want(t, 0, "the folder "+lib+", "+words, "shows files of this machine", "--approve 1", "the folder /etc, for the group main: ")
	p := i.proposal("one")
	if len(p.Lines) != 1 || p.Lines[0].Folder != lib || len(p.Left) != 1 {
		t.Fatalf("have %+v", p)
	}
	i.nacre("learn", "one", "--approve", "all", "--proposal", p.ID).want(t, 2, "nothing is approved by that")
	i.nacre("learn", "one", "--approve", "1", "--proposal", p.ID).want(t, 0)
	i.nacre("learn", "--list").want(t, 0, "the folder "+lib+", "+words)
	i.nacre("learn", "one").want(t, 0, "the folder /etc")
	if p := i.proposal("one"); len(p.Lines) != 0 {
		t.Errorf("it is proposed again: %+v", p.Lines)
	}
	i.nacre("explain", "--project", "p").want(t, 0, "folders", lib)
	finish(t, asks("two")).want(t, 0, `"state":"shown"`, `"until":`, "of the library\n")
	has(t, i.records("two"), `"kind":"mount.grant"`, fmt.Sprintf(`"learned":%q`, p.ID))
	hasNo(t, i.records("two"), "approval.ask")
	i.nacre("audit", "show", "two").want(t, 0, "The folder "+lib+" is shown inside")

	third := i.begin("exec", "--session", "three", "--project", "p", "--", "sh", "-c", requests("../lib")+"; touch shown; while cat /folders/lib/a.txt >/dev/null 2>&1; do sleep 0.1; done; "+requests("../lib"))
	eventually(t, "it is shown", func() bool {
		_, err := os.Stat(filepath.Join(i.work, "p/shown"))
		return err == nil
	})
	i.nacre("learn", "--undo").want(t, 0)
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	finish(t, third).want(t, 0, "a person denied this folder")
	has(t, i.records("three"), `"kind":"mount.end"`, "taken back")
}
