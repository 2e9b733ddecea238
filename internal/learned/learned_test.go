package learned_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/egress"
	"github.com/nacre-dev/nacre/internal/learned"
	"github.com/nacre-dev/nacre/internal/posture"
)

func approval(host string) learned.Approval {
	at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	return learned.Approval{ID: "a1", By: "ada", At: at, Until: at.Add(24 * time.Hour), Evidence: "e", Sessions: []string{"s"}, Hosts: []learned.Host{{Host: host}}}
}

func use(credential, host string) learned.Use {
	return learned.Use{Group: "main", Credential: credential, Host: host, Methods: []string{"GET"}, Paths: []string{"/a"}}
}

// U-40: what was approved is kept, stands until its end, and is taken back.
func TestAnApprovalStandsUntilItsEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := approval("a.example.com:443")
	a.Hosts = append(a.Hosts, learned.Host{Host: "b.example.com:80/http", Methods: []string{"GET"}, Paths: []string{"/pool"}})
	add := func(have learned.Approvals) (learned.Approvals, error) { return append(have, a), nil }
	if err := learned.Change(t.Context(), dir, add); err != nil {
		t.Fatal(err)
	}
	have, err := learned.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := have.At(a.Until.Add(-time.Second))
	if err != nil || len(l.Names) != 1 || len(l.Requests) != 1 || !l.Requests[0].Plain || l.Requests[0].Lets("GET", "/other") || !l.Requests[0].Lets("GET", "/pool/x") {
		t.Errorf("have %+v: %v", l, err)
	}
	if l, err := have.At(a.Until); err != nil || len(l.Names)+len(l.Requests) != 0 {
		t.Errorf("it goes on after its end: %+v %v", l, err)
	}
	refused := errors.New("no")
	if err := learned.Change(t.Context(), dir, func(learned.Approvals) (learned.Approvals, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("have %v", err)
	}
	if again, err := learned.Load(dir); err != nil || len(again) != 1 {
		t.Errorf("a change that failed changed it: %v %v", again, err)
	}
}

// U-40: nothing is kept that could not have been learned, and a file that says so is refused.
func TestWhatCannotBeLearnedIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*learned.Approval){
		"a wildcard":           func(a *learned.Approval) { a.Hosts[0].Host = "*.example.com:443" },
		"an address":           func(a *learned.Approval) { a.Hosts[0].Host = "10.0.0.1:443" },
		"a host inside":        func(a *learned.Approval) { a.Hosts[0].Host = "db.internal:443" },
		"this machine":         func(a *learned.Approval) { a.Hosts[0].Host = "localhost:443" },
		"tcp":                  func(a *learned.Approval) { a.Hosts[0].Host = "a.example.com:22/tcp" },
		"http without a path":  func(a *learned.Approval) { a.Hosts[0].Host = "a.example.com:80/http" },
		"paths alone":          func(a *learned.Approval) { a.Hosts[0].Paths = []string{"/"} },
		"a path that may be 2": func(a *learned.Approval) { a.Hosts[0].Methods, a.Hosts[0].Paths = []string{"GET"}, []string{"/a/../b"} },
		"CONNECT":              func(a *learned.Approval) { a.Hosts[0].Methods, a.Hosts[0].Paths = []string{"CONNECT"}, []string{"/"} },
		"no end":               func(a *learned.Approval) { a.Until = time.Time{} },
		"ten years":            func(a *learned.Approval) { a.Until = a.At.AddDate(10, 0, 0) },
		"nobody":               func(a *learned.Approval) { a.By = "" },
		"no host":              func(a *learned.Approval) { a.Hosts = nil },
		"all tools":            func(a *learned.Approval) { a.Tools = []learned.Tool{{Group: "main", Tool: "*", Any: true}} },
		"a tool of nobody":     func(a *learned.Approval) { a.Tools = []learned.Tool{{Tool: "look", Any: true}} },
		"a tool without word":  func(a *learned.Approval) { a.Tools = []learned.Tool{{Group: "main", Tool: "look"}} },
		"a tool with both": func(a *learned.Approval) {
			a.Tools = []learned.Tool{{Group: "main", Tool: "look", Any: true, Arguments: []string{strings.Repeat("ab", 32)}}}
		},
		"no digest": func(a *learned.Approval) {
			a.Tools = []learned.Tool{{Group: "main", Tool: "look", Arguments: []string{"ab"}}}
		},
		"a power with a tool": func(a *learned.Approval) {
			a.Power, a.Tools = "p", []learned.Tool{{Group: "main", Tool: "look", Any: true}}
		},
		"a folder by its name":     func(a *learned.Approval) { a.Folders = []learned.Folder{{Group: "main", Folder: "lib"}} },
		"a folder with a way back": func(a *learned.Approval) { a.Folders = []learned.Folder{{Group: "main", Folder: "/srv/../etc"}} },
		"the whole machine":        func(a *learned.Approval) { a.Folders = []learned.Folder{{Group: "main", Folder: "/"}} },
		"a folder of nobody":       func(a *learned.Approval) { a.Folders = []learned.Folder{{Folder: "/srv/lib"}} },
		"a power with a folder": func(a *learned.Approval) {
			a.Power, a.Folders = "p", []learned.Folder{{Group: "main", Folder: "/srv/lib"}}
		},
		"no credential":         func(a *learned.Approval) { a.Uses = []learned.Use{use("", "a.example.com:443")} },
		"one for a host inside": func(a *learned.Approval) { a.Uses = []learned.Use{use("hub", "db.internal:443")} },
		"one for all methods": func(a *learned.Approval) {
			u := use("hub", "a.example.com:443")
			u.Methods = nil
			a.Uses = []learned.Use{u}
		},
	} {
		a := approval("a.example.com:443")
		spoil(&a)
		dir := t.TempDir()
		if err := learned.Change(t.Context(), dir, func(learned.Approvals) (learned.Approvals, error) { return learned.Approvals{a}, nil }); err == nil {
			t.Errorf("%s: it is kept", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "learned.toml")); !os.IsNotExist(err) {
			t.Errorf("%s: a file is there: %v", name, err)
		}
	}
	dir := t.TempDir()
	for _, text := range []string{"[[learned]]\nid = \"x\"\n", "nonsense", "[[learned]]\nwhatever = 1\n", strings.Repeat("[[learned]]\n", 101)} {
		if err := os.WriteFile(filepath.Join(dir, "learned.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := learned.Load(dir); err == nil || !strings.Contains(err.Error(), "learned.toml") {
			t.Errorf("%.20q: have %v", text, err)
		}
	}
}

// U-40: what was approved of tools and credentials stands like a host. A credential that is for
// another host by now, or for git, is used for nothing more.
func TestToolsAndCredentialsStandUntilTheirEnd(t *testing.T) {
	t.Parallel()
	a := approval("a.example.com:443")
	a.Tools = []learned.Tool{{Group: "main", Tool: "look", Any: true}}
	a.Uses = []learned.Use{use("hub", "a.example.com:443")}
	all := learned.Approvals{a}
	now, err := all.At(a.At)
	if tools := all.ToolsAt(a.At); err != nil || len(tools) != 1 || len(now.Uses) != 1 {
		t.Fatalf("have %v %v: %v", tools, now, err)
	}
	for _, at := range []time.Time{a.At.Add(-time.Second), a.Until} {
		if then, err := all.At(at); err != nil || len(all.ToolsAt(at))+len(then.Uses) != 0 {
			t.Errorf("at %v: have %v %v: %v", at, all.ToolsAt(at), then, err)
		}
	}
	c := egress.Credential{Name: "hub", Host: "a.example.com", Port: 443, Methods: []string{"POST"}, Paths: []string{"/b"}, Whole: []string{"/c"}, Scheme: egress.SchemeBearer}
	more := c.Further("main", now.Uses)
	if len(more) != 1 || !more[0].Lets("GET", "/a/x") || more[0].Lets("POST", "/b") || more[0].Lets("GET", "/c") || more[0].Scheme != egress.SchemeBearer {
		t.Errorf("have %+v", more)
	}
	if more := c.Further("second", now.Uses); len(more) != 0 {
		t.Errorf("another group: have %+v", more)
	}
	for name, change := range map[string]func(*egress.Credential){
		"another host": func(c *egress.Credential) { c.Host = "b.example.com" },
		"another name": func(c *egress.Credential) { c.Name = "other" },
		"git":          func(c *egress.Credential) { c.Git = posture.Git{Repositories: []string{"/a/b"}} },
	} {
		other := c
		change(&other)
		if more := other.Further("main", now.Uses); len(more) != 0 {
			t.Errorf("%s: it is used for more", name)
		}
	}
}
