package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-40: a project's first run is refused five things. A person looks at what is proposed and
// approves four lines, a call of a tool with these arguments among them. The run is given once
// more: on a fresh clone, whole. What was refused for good is refused again, and the tool with
// other arguments is, too.
func TestAProjectsSecondRunIsWhole(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "%s of %s\n", r.URL.Path, r.Host) }))
	t.Cleanup(server.Close)
	i := install(t)
	i.project()
	at := server.Listener.Addr()
	config := fmt.Sprintf("[egress]\npropose = false\n[egress.pin]\n\"deb.example.com:80\" = %q\n\"docs.example.com:80\" = %q\n\"hooks.example.com:80\" = %q\n", at, at, at)
	i.config(config)
	get := "curl -sf --max-time 20 "
	rec := i.recording(strings.Join([]string{
		"rm -f got; " + get + "http://deb.example.com/pool/a >>got", get + "http://docs.example.com/guide >>got", get + "-XPOST http://hooks.example.com/built >>got",
		get + "http://169.254.169.254/latest >>got", `ipc create_reminder '{"title":"release","list":"Work"}' >>got`, "true",
	}, "; "))
	i.nacre("run", "gather", "--project", "p", "--recording", rec, "--check", "test $(wc -l < got) = 4", "--session", "first").want(t, 1)

	p := i.proposal("first")
	var hosts, left []string
	for _, l := range p.Lines {
		hosts = append(hosts, fmt.Sprintf("%s%s%s %s apart=%t", l.Host, l.Tool, l.Methods, l.Paths, len(l.Apart) > 0))
	}
	for _, l := range p.Left {
		left = append(left, l.What+": "+l.Why)
	}
	wantHosts := "deb.example.com:80/http[GET] [/pool/a] apart=false docs.example.com:80/http[GET] [/guide] apart=false hooks.example.com:80/http[POST] [/built] apart=true create_reminder[] [] apart=true"
	if have := strings.Join(hosts, " "); have != wantHosts {
		t.Errorf("proposed are\n%s, want\n%s", have, wantHosts)
	}
	if len(left) != 1 || !strings.Contains(left[0], "ip_literal") {
		t.Errorf("stays refused: %q", left)
	}

	i.nacre("learn", "first", "--again").want(t, 2, "--again wants one SESSION, and what you approve")
	i.nacre("exec", "--session", "other", "--", "true").want(t, 0)
	i.nacre("learn", "other", "--proposal", p.ID, "--approve", "all", "--again").want(t, 2, "session other has no task of nacre run")
	i.nacre("learn", "--list").want(t, 0)
	hasNo(t, i.nacre("learn", "--list").stdout, "deb.example.com")

	again := i.nacre("learn", "first", "--proposal", p.ID, "--approve", "all,3,4", "--again")
	again.want(t, 0, "approved", "hooks.example.com:80/http POST /built", "the tool create_reminder with exactly the arguments that were seen, for the group main", "merged   main")
	got := i.read("p/got")
	for _, want := range []string{"/pool/a of deb.example.com", "/guide of docs.example.com", "/built of hooks.example.com", `"status":"created"`} {
		has(t, got, want)
	}
	hasNo(t, got, "latest")
	if entries, err := filepath.Glob(i.state("sessions/*/session.json")); err != nil || len(entries) != 3 { // first, other, and one of its own
		t.Errorf("have %q, %v", entries, err)
	}
	if next := i.proposal(); len(next.Lines) != 0 {
		t.Errorf("what was approved is proposed again: %+v", next.Lines)
	}
	other := i.nacre("exec", "--session", "third", "--", "ipc", "create_reminder", `{"title":"other","list":"Work"}`)
	other.want(t, 1)
	has(t, other.stdout+other.stderr, "with the arguments alone that a person approved")
	if p = i.proposal("third"); len(p.Lines) != 1 || p.Lines[0].Wider != "any arguments" || len(p.Lines[0].Apart) != 1 {
		t.Fatalf("have %+v", p)
	}
	i.nacre("learn", "third", "--proposal", p.ID, "--wider", "1").want(t, 0, "the tool create_reminder with any arguments, for the group main")
	i.nacre("exec", "--", "ipc", "create_reminder", `{"title":"a third","list":"Work"}`).want(t, 0, `"status":"created"`)
	i.nacre("learn", "--undo").want(t, 0)
	i.nacre("exec", "--", "ipc", "create_reminder", `{"title":"a fourth","list":"Work"}`).want(t, 1)
}
