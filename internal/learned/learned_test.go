package learned_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/learned"
)

func approval(host string) learned.Approval {
	at := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	return learned.Approval{ID: "a1", By: "ada", At: at, Until: at.Add(24 * time.Hour), Evidence: "e", Sessions: []string{"s"}, Hosts: []learned.Host{{Host: host}}}
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
	names, requests, err := have.At(a.Until.Add(-time.Second))
	if err != nil || len(names) != 1 || len(requests) != 1 || !requests[0].Plain || requests[0].Lets("GET", "/other") || !requests[0].Lets("GET", "/pool/x") {
		t.Errorf("have %v %+v: %v", names, requests, err)
	}
	if names, requests, err := have.At(a.Until); err != nil || len(names)+len(requests) != 0 {
		t.Errorf("it goes on after its end: %v %v %v", names, requests, err)
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
