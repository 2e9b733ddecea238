package main_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // to be in an erasure's way

	"github.com/nacre-dev/nacre/assembly"
)

// holding are the files below nacre's state in which a word is, in any case, or in the
// base64 in which durable work is kept.
func (i *installation) holding(word string) []string {
	i.t.Helper()
	forms := []string{strings.ToLower(word)}
	for at := range 3 {
		form := base64.RawStdEncoding.EncodeToString([]byte("  "[:at] + word))
		forms = append(forms, strings.ToLower(form[(8*at+5)/6:len(form)-1]))
	}
	var found []string
	err := filepath.WalkDir(i.state(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		data = bytes.ToLower(data)
		if slices.ContainsFunc(forms, func(form string) bool { return bytes.Contains(data, []byte(form)) }) {
			short, _ := filepath.Rel(i.state(), path)
			found = append(found, short)
		}
		return err
	})
	if err != nil {
		i.t.Fatal(err)
	}
	return found
}

// unnamed are the files in which a word is, but for those that an erasure has named.
func (i *installation) unnamed(told, word string) []string {
	i.t.Helper()
	return slices.DeleteFunc(i.holding(word), func(path string) bool {
		for dir := i.state(path); dir != i.state(); dir = filepath.Dir(dir) {
			if strings.Contains(told, dir+": ") {
				return true
			}
		}
		return false
	})
}

// canary is a word that is nowhere but where a session has put it.
const canary = "quokkaburra"

// planted is an installation with a task that has landed and whose agent was asked of the canary,
// remembered it and reported it. An auditor has read all of that, and a conversation goes on in
// which it was said.
func planted(t *testing.T) *installation {
	t.Helper()
	i := install(t)
	i.write("home/.config/nacre/config.toml", "[groups.main]\ntools = [\"memory_*\"]\n")
	i.write("p/.nacre/roles/fixer.toml", taskRole)
	i.write("p/pkg/x/x.txt", "broken\n")
	i.project()
	order := i.write("work.toml", "[task]\nrole = \"fixer\"\nagent-id = \"agent-0\"\n[scope]\nfiles-whitelist = [\"pkg/x/**\"]\n[body]\ntext = \"Write to the "+canary+"\"\n")
	line := func(v map[string]any) string {
		data, _ := json.Marshal(v) // it marshals
		return string(data) + "\n"
	}
	shell := line(map[string]any{"tool": "shell", "input": map[string]any{"command": `ipc memory_store '{"type":"fact","content":"the ` + canary + ` lives at the well"}'`}})
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+shell+line(map[string]any{"tool": "write", "input": map[string]any{"path": "pkg/x/x.txt", "content": "fixed\n"}})+
		line(map[string]any{"say": "The " + canary + " told me."}))
	i.nacre("task", "spawn", order, "--recording", rec, "--project", "p", "--session", "work").want(t, 0)
	pass := i.write("pass.jsonl", `{"v":1,"name":"pass"}`+"\n"+line(map[string]any{"tool": "read", "input": map[string]any{"path": "/evidence/report.md"}})+
		line(map[string]any{"say": `{"verdict":"pass","summary":"as the ` + canary + ` said","findings":[]}`}))
	i.nacre("task", "audit", "work", "--recording", pass).want(t, 0, "passed")
	i.nacre("task", "merge", "work").want(t, 0, "merged")
	i.write("home/.local/state/nacre/groups/main/conversations/one/conversation.json",
		`{"key":"one","brain":"b","last":"2026-01-01T00:00:00Z","sessions":["work"],"exchanges":[{"session":"work","said":"the `+canary+`","answered":"yes"}]}`)
	i.write("home/.local/state/nacre/groups/main/conversations/one/brain/log", canary)
	i.write("home/.local/state/nacre/groups/main/workspace/notes.txt", "the "+canary+" lives at the well")
	return i
}

// M-57: whatever is kept of a task, of who audited it and of what was said goes, or is named with
// what removes it. No file of the state that holds its words is left unnamed.
func TestAllThatHoldsItIsNamed(t *testing.T) {
	t.Parallel()
	i := planted(t)
	before := i.holding(canary)
	for _, place := range []string{"audit/", "engine.sqlite", "ledger.sqlite", "memory/main.sqlite", "sessions/work/run.json", "sessions/work/audit.json", "groups/main/conversations/"} {
		if !slices.ContainsFunc(before, func(path string) bool { return strings.HasPrefix(path, place) }) {
			t.Errorf("proves nothing of %s: it is in %v", place, before)
		}
	}
	look := i.nacre("memory", "forget", "--session", "work", "--dry-run")
	look.want(t, 0, "would go")
	if !slices.Equal(i.holding(canary), before) {
		t.Errorf("a look changed something: it is in %v", i.holding(canary))
	}
	gone := i.nacre("memory", "forget", "--session", "work")
	gone.want(t, 0, "forgotten", "ledger   the texts of agent-0", "the texts of audit-agent-0")
	i.allNamed(gone.stdout)
	if remains := func(r result) string { return r.stdout[strings.Index(r.stdout, "remains"):] }; remains(look) != remains(gone) {
		t.Errorf("a look said %s and then it was %s", remains(look), remains(gone))
	}
	i.nacre("audit", "verify").want(t, 0)
	i.nacre("ledger", "show", "agent-0").want(t, 0, "what was asked was erased", "merged")
	again := i.nacre("memory", "forget", "--session", "work")
	again.want(t, 0, "nothing")
	hasNo(t, i.nacre("sessions", "list").stdout, canary)

	// What was named is there, and goes by what was said to remove it.
	var told struct{ Remains []assembly.MemoryRemain }
	check(t, json.Unmarshal([]byte(i.nacre("memory", "forget", "--match", canary, "--json").stdout), &told))
	if len(told.Remains) < 2 {
		t.Fatalf("have %+v", told.Remains)
	}
	for _, m := range told.Remains {
		if m.What == "audit chain" && !isThere(m.Where) {
			continue // it went with one that is younger
		}
		if _, err := os.Lstat(m.Where); err != nil || m.Next == "" {
			t.Errorf("have %+v, %v", m, err)
		}
		command, _, _ := strings.Cut(m.Next, ", ")
		if args := strings.Fields(command); m.What == "audit chain" {
			eventually(t, "the next second", func() bool { return i.nacre(args[1:]...).code == 0 })
		} else {
			check(t, os.Remove(m.Where))
		}
	}
	if left := i.holding(canary); len(left) != 0 {
		t.Errorf("it is still in %v", left)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// allNamed holds what an erasure has said against the files.
func (i *installation) allNamed(told string) {
	i.t.Helper()
	if left := i.unnamed(told, canary); len(left) != 0 {
		i.t.Errorf("it is still in %v, which nothing names:\n%s", left, told)
	}
	for _, place := range []string{"engine.sqlite", "ledger.sqlite", "memory/main.sqlite", "sessions/", "groups/main/conversations"} {
		for _, path := range i.holding(canary) {
			if strings.HasPrefix(path, place) {
				i.t.Errorf("it is still in %s", path)
			}
		}
	}
}

// holds a database as another process does that writes to it or reads it, until it is let go.
func (i *installation) holds(name string, write bool) (let func()) {
	i.t.Helper()
	db, err := sql.Open("sqlite", "file:"+i.state(name)+"?_pragma=busy_timeout(10000)")
	check(i.t, err)
	db.SetMaxOpenConns(1)
	begin := `BEGIN`
	if write {
		begin = `BEGIN IMMEDIATE`
	}
	_, err = db.ExecContext(i.t.Context(), begin)
	check(i.t, err)
	var n int
	check(i.t, db.QueryRowContext(i.t.Context(), `SELECT count(*) FROM sqlite_schema`).Scan(&n))
	return sync.OnceFunc(func() { _ = db.Close() }) // which ends the transaction
}

// asks a database one number; -1 while it cannot be asked.
func (i *installation) asks(name, query string) int {
	db, err := sql.Open("sqlite", "file:"+i.state(name)+"?mode=ro&_pragma=busy_timeout(1000)")
	check(i.t, err)
	defer func() { _ = db.Close() }() // it was only read
	n := -1
	_ = db.QueryRowContext(i.t.Context(), query).Scan(&n) // it may not be there yet
	return n
}

// converses holds the turn of the conversation that was planted.
func (i *installation) converses() (let func()) {
	i.t.Helper()
	name := sha256.Sum256([]byte("main\x00one"))
	path := i.write("home/.local/state/nacre/talking/"+hex.EncodeToString(name[:16]), "")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(i.t, err)
	check(i.t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return sync.OnceFunc(func() { _ = f.Close() })
}

// M-57: an erasure that is killed with -9 at any of its steps is finished by asking
// again, with nothing left that is not named, and evidence that holds.
func TestAnErasureKilledAtAnyStepIsFinished(t *testing.T) {
	t.Parallel()
	const works = `SELECT count(*) FROM workflow_status WHERE executor_id = 'work'`
	const texts = `SELECT count(*) FROM specs WHERE task != ''`
	const entries = `SELECT count(*) FROM memory_entries`
	gone := func(i *installation, path string) bool { return !isThere(i.state(path)) }
	for name, c := range map[string]struct {
		in    string // which database it is held up by; none is the conversation
		write bool
		when  func(i *installation) bool // how far it is then
	}{
		"recorded, and nothing gone": {"", false, func(i *installation) bool { return !gone(i, "groups/main/conversations/one/brain") }},
		"before the work":            {"engine.sqlite", true, func(i *installation) bool { return gone(i, "sessions/work/run.json") }},
		"before the work's bytes":    {"engine.sqlite", false, func(i *installation) bool { return i.asks("engine.sqlite", works) == 0 }},
		"before the texts":           {"ledger.sqlite", true, func(i *installation) bool { return i.asks("engine.sqlite", works) == 0 }},
		"before the texts' bytes":    {"ledger.sqlite", false, func(i *installation) bool { return i.asks("ledger.sqlite", texts) == 0 }},
		"before the entries":         {"memory/main.sqlite", true, func(i *installation) bool { return i.asks("ledger.sqlite", texts) == 0 }},
		"before the entries' bytes":  {"memory/main.sqlite", false, func(i *installation) bool { return i.asks("memory/main.sqlite", entries) == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := planted(t)
			let := i.converses()
			r := i.begin("memory", "forget", "--session", "work")
			eventually(t, "the record of the erasure", func() bool {
				found, _ := filepath.Glob(i.state("audit/memory-*/*.jsonl"))
				return len(found) > 0
			})
			held := func() {}
			if c.in != "" {
				held = i.holds(c.in, c.write)
				let()
			}
			eventually(t, "the step", func() bool { return c.when(i) })
			check(t, r.Process.Kill())
			if err := r.Wait(); exitCode(err) != -1 {
				t.Fatalf("it ended: %s%s", r.stdout.String(), r.stderr.String())
			}
			if len(i.holding(canary)) == 0 {
				t.Error("proves nothing")
			}
			held()
			let()
			if c.in == "" { // any start closes the chain that the killed one left
				i.nacre("exec", "-q", "--", "true").want(t, 0)
				i.nacre("audit", "verify").want(t, 0)
			}
			told := i.nacre("memory", "forget", "--session", "work")
			told.want(t, 0)
			i.allNamed(told.stdout)
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// M-57: while another process keeps traces in a file, the erasure says in which, does
// not end well, nor does any later one, until the traces are gone: by themselves.
func TestTracesThatLingerAreTold(t *testing.T) {
	t.Parallel()
	i := planted(t)
	work, rows := i.holds("engine.sqlite", false), i.holds("ledger.sqlite", false)
	gone := i.nacre("memory", "forget", "--session", "work")
	gone.want(t, 1, "forgotten", "engine.sqlite", "ledger.sqlite", "another process uses the file")
	rows()
	again := i.nacre("memory", "forget", "--match", "nothing of the kind")
	again.want(t, 1, "nothing", "engine.sqlite", "another process uses the file")
	hasNo(t, again.stderr, "ledger.sqlite")
	work()
	told := i.nacre("memory", "forget", "--session", "work")
	told.want(t, 0)
	i.allNamed(told.stdout)
}

// M-57: what agents make in their workspace neither stops the look, nor leads it
// elsewhere, nor gets into a command that is shown.
func TestAHostileWorkspaceIsLookedThrough(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.nacre("memory", "import", i.write("in.jsonl", exported("the "+canary+" is shy"))).want(t, 0)
	outside := i.write("outside.txt", "the "+canary+" is shy")
	dir := i.state("groups/main/workspace")
	i.write("home/.local/state/nacre/groups/main/workspace/a;touch pwned\n\x1b[2J'.txt", "the "+canary+" is shy")
	for n := range 120 {
		i.write(fmt.Sprintf("home/.local/state/nacre/groups/main/workspace/many/%d", n), "the "+canary+" is shy")
	}
	check(t, errors.Join(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Symlink(outside, filepath.Join(dir, "link")), os.Symlink("/", filepath.Join(dir, "root"))))
	big, err := os.Create(filepath.Join(dir, "big"))
	check(t, errors.Join(err, big.Truncate(1<<30+1), big.Close()))
	gone := i.nacre("memory", "forget", "--match", canary)
	gone.want(t, 0, "forgotten", "/big: file that cannot be looked through", "more than 100 files")
	hasNo(t, gone.stdout, "outside.txt", "/link", "/fifo", "/root", "\x1b", "rm ")
	i.allNamed(gone.stdout + i.state("groups/main") + ": ")
	if n := strings.Count(gone.stdout, "remains"); n > 110 {
		t.Errorf("%d lines", n)
	}
}

// M-57: a schedule that a session made goes on after it: it is named with what ends it.
func TestAScheduleOfASessionIsNamed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[groups.main]\ntools = [\"schedule_*\"]\n")
	r := i.begin("exec", "-q", "--session", "k-one", "--", "ipc", "schedule_add", `{"prompt":"feed the `+canary+`","cron":"0 6 * * *","zone":"UTC"}`)
	i.nacre("approvals", "approve", i.question().ID).want(t, 0)
	finish(t, r).want(t, 0)
	i.nacre("memory", "import", i.write("in.jsonl", exported("something"))).want(t, 0)
	told := i.nacre("memory", "forget", "--session", "k-one")
	told.want(t, 0, "nacre schedule remove "+i.schedules()[0].ID, "schedules.sqlite: schedule")
	i.allNamed(told.stdout)
}

// M-57: a session that can go on keeps what it needs to. It is named with what carries it to its
// end, and what is to be asked then, which erases it.
func TestASessionThatGoesOnIsNamed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.config("[groups.main]\ntools = [\"memory_*\"]\n")
	i.project()
	store := `ipc memory_store '{"type":"fact","content":"the ` + canary + ` is shy"}'`
	r := i.begin("run", "find the "+canary, "--project", "p", "--session", "work", "--recording", i.recording(store, "sleep 60"), "--check", "true")
	eventually(t, "the memory", func() bool { return i.asks("memory/main.sqlite", `SELECT count(*) FROM memory_entries`) == 1 })
	check(t, r.Process.Kill())
	_ = r.Wait() // it was killed
	told := i.nacre("memory", "forget", "--match", canary)
	told.want(t, 0, "session that is not over of session work", "nacre run --session work; then nacre memory forget --group main mem-")
	if left := i.unnamed(told.stdout, canary); len(left) != 0 {
		t.Errorf("it is still in %v, which nothing names:\n%s", left, told.stdout)
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
