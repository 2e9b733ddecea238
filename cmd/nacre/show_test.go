package main_test

import (
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-24: a run's page says what was asked, changed and found, and what came of it. A run that does
// not land says why, and shows what its check printed. Nothing that an agent wrote acts on a
// terminal.
func TestOnePageTellsOfARun(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	rec := i.recording("echo changed > greeting.txt; printf x > \"$(printf 'a\\033[2Jb')\"")
	i.nacre("run", "change it,\nall of it", "--recording", rec, "--project", "p", "--session", "work", "--check", "true", "--held", "take").want(t, 0)
	r := i.nacre("show", "work")
	r.want(t, 0, "session  work · run · done", "task     change it, all of it", "agent    replay", "modified greeting.txt",
		"✓ check  true · exit 0 · weak", "verdict  landed on main as ", "nacre audit verify --receipt ", "nacre audit show work")
	if strings.Contains(r.stdout, "\x1b") {
		t.Errorf("an escape got through: %q", r.stdout)
	}
	i.refused("bad", "echo bad > greeting.txt")
	i.nacre("show", "bad").want(t, 0, "✕ check  false · exit 1", "verdict  not landed: check \"false\" ended with 1")
	i.nacre("show", "bad", "--json").want(t, 0, `"path":"greeting.txt"`, `"landed":false`)
}

// U-24: of a command the page and the timeline tell which commits it made and where they are,
// and how often it was refused, counted records too.
func TestOnePageTellsOfACommand(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i := install(t)
	i.gitUser()
	i.project()
	i.nacre("exec", "--session", "work", "--project", "p", "--", "sh", "-ec", `echo new >new; git add new; git commit -q -m new
for n in $(seq 40); do curl -s -o /dev/null http://refused.example/ || true; done`).want(t, 0)
	commit := i.git("rev-parse", "--short=7", "nacre/work")
	r := i.nacre("show", "work")
	r.want(t, 0, "changed  1 commit on main, kept as nacre/work", "connect to refused.example:80", "connect to hosts that are not named here", "verdict  exit 0")
	i.nacre("audit", "show", "work").want(t, 0, "refs/heads/nacre/work is about to move from "+i.git("rev-parse", "--short=7", "HEAD")+" to "+commit,
		"refs/heads/nacre/work at "+commit+" is kept on nacre/work.", "more records of egress come to denied for not_listed, until ")
}

// U-24: the page has what was read from whom, called, asked, denied and reached.
func TestOnePageTellsWhomASessionDealtWith(t *testing.T) {
	t.Parallel()
	testpeer.Need(t, "curl")
	i, up := install(t), newUpstream(t, "a.example")
	i.config(toolsConfig + up.pinned)
	i.nacre("exec", "-q", "--session", "work", "--egress", "a.example:80/http", "--", "sh", "-c", `ipc create_reminder '{"title":"pay","list":"Work"}'
ipc list_reminders '{"list":"Work"}'; ipc no_such '{}'; curl -s http://a.example/ http://refused.example/; true`).want(t, 0, "R-1", "it answered")
	i.nacre("show", "work").want(t, 0, "read     reminders.create_reminder · trusted · ", "reminders.list_reminders · untrusted · ", "a.example:80 · untrusted · ",
		"called   create_reminder\n         list_reminders\n", "asked    connect to refused.example:80/http", "denied   ", "connect to refused.example:80 · not_listed", "no_such · ",
		"reached  a.example:80 · 1 connection · ", "spent    $0.00", "verdict  exit 0")
}

// U-24: what is recorded is followed as it is written, until the session is over. One kind is shown
// alone, and a kind that no record is of is told from one that was mistyped.
func TestTheAuditIsFollowed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	r := i.begin("exec", "--session", "live", "--project", "p", "--", "sh", "-c", "until test -e go; do sleep 0.05; done")
	eventually(t, "the command", func() bool { return strings.Contains(i.records("live"), `"kind":"sandbox.start"`) })
	follow := i.begin("audit", "show", "live", "-f")
	eventually(t, "its page", func() bool {
		return strings.Contains(i.nacre("show", "live").stdout, "live · exec · running")
	})
	i.write("p/go", "")
	have := finish(t, follow)
	have.want(t, 0, "The session begins", "sh is started with 2 arguments", "A sealed program has ended: exit 0", "The session ends", "records over")
	finish(t, r).want(t, 0)
	if n := strings.Count(have.stdout, "The session begins"); n != 1 {
		t.Errorf("a record is shown %d times", n)
	}
	have = i.nacre("audit", "show", "live", "--kind", "sandbox")
	have.want(t, 0, "sandbox.start", "sandbox.exit", "2 records over")
	hasNo(t, have.stdout, "session.open")
	i.nacre("audit", "show", "live", "--kind", "sandboxes").want(t, 0, "no record is of the kind sandboxes; there are chain.close, chain.open, sandbox.exit, sandbox.start, session.close, session.open")
	i.nacre("audit", "show", "--kind", "sandboxes").want(t, 0, "no record fits all of that")
}
