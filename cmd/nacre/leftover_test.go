package main_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// refused is a session whose work did not land, since its check failed.
func (i *installation) refused(session string, commands ...string) {
	i.t.Helper()
	i.nacre("run", "change it", "--recording", i.recording(commands...), "--project", "p", "--session", session, "--check", "false").want(i.t, 1, "not merged")
}

// taskRefused is the same in a role, which is laid out as a whole copy.
func (i *installation) taskRefused(session string) {
	i.t.Helper()
	rec := i.write("fix.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"pkg/x/x.txt","content":"fixed\n"}}`+"\n")
	i.nacre("task", "run", i.tasks(1)[0], "--project", "p", "--recording", rec, "--session", session, "--check", "false").want(i.t, 1)
}

// U-22, F-123: what did not land is seen and landed with one command each, by a merge with what the
// branch has by then. The session's copy of it goes.
func TestWhatDidNotLandIsSeenAndApplied(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(i *installation) (path, text string){
		"a layer": func(i *installation) (string, string) {
			i.refused("work", "echo changed > greeting.txt; chmod +x greeting.txt; rm gone.txt; printf 'a\\033[2Jb\\n' > new.txt; ln -s /etc/passwd link; mkdir -p sub/.git; echo x > sub/.git/config")
			r := i.nacre("sessions", "diff", "work")
			r.want(t, 0, "modified greeting.txt   ← look: a program", "deleted  gone.txt", "+changed", "link   ← held: a symbolic link", "left out sub/.git", `\x1b[2J`, "sessions apply work")
			hasNo(t, r.stdout, "\x1b[2J")
			return "greeting.txt", "changed\n"
		},
		"a copy": func(i *installation) (string, string) {
			i.taskRefused("work")
			i.nacre("sessions", "diff", "work").want(t, 0, "modified pkg/x/x.txt", "+fixed")
			return "pkg/x/x.txt", "fixed\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.write("p/gone.txt", "gone\n")
			i.write("p/.nacre/roles/fixer.toml", taskRole)
			i.write("p/pkg/x/x.txt", "broken\n")
			i.project()
			path, text := begin(i)
			i.nacre("sessions", "list").want(t, 0, "not landed")
			i.write("p/mine.txt", "mine\n")
			i.git("add", "mine.txt")
			i.git("commit", "-q", "-m", "mine")
			if name == "a layer" { // M-67: what the host obeys waits for a person
				i.nacre("sessions", "apply", "work").want(t, 1, `"link": a symbolic link out of the project`, "--held leave-out")
				i.nacre("sessions", "apply", "work", "--held", "leave-out").want(t, 0, "applied", "left out link")
				i.nacre("sessions", "diff", "work").want(t, 0, "link")
			}
			i.nacre("sessions", "apply", "work", "--held", "take").want(t, 0, "applied")
			if have := fileText(filepath.Join(i.work, "p", path)); have != text {
				t.Errorf("%s holds %q", path, have)
			}
			if have := i.git("status", "--porcelain") + i.git("log", "--format=%s", "-1"); !strings.Contains(i.git("log", "--format=%s"), "mine") || have == "mine" {
				t.Errorf("have %q", have)
			}
			i.spent(t, "work")
			if isThere(filepath.Join(i.work, "p/sub")) {
				t.Error("a nested git directory landed")
			}
		})
	}
}

// spent holds a session to having nothing left, and its records to being whole.
func (i *installation) spent(t *testing.T, session string) {
	t.Helper()
	hasNo(t, i.nacre("sessions", "list").stdout, "not landed")
	i.nacre("sessions", "diff", session).want(t, 2, "no files of an agent are left to take", "nacre show "+session)
	i.nacre("audit", "verify").want(t, 0)
	if isThere(i.state("sessions", session, "work")) || isThere(i.state("sessions", session, "repo-"+session+".1")) {
		t.Error("its files are left")
	}
	if left, _ := os.ReadDir(i.state("unsettled")); len(left) > 0 {
		t.Errorf("left unsettled: %v", left)
	}
}

// U-22: the work is kept on a branch of its own, thrown away, or not removed with its
// session, as a person says.
func TestWhatDidNotLandIsKeptApartOrThrownAway(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	head := i.git("rev-parse", "HEAD")
	i.refused("kept", "echo kept > greeting.txt")
	i.nacre("sessions", "rm", "kept").want(t, 2, "did not land", "nacre sessions discard kept")
	i.nacre("sessions", "branch", "kept").want(t, 0, "nacre/kept")
	if have := i.git("show", "nacre/kept:greeting.txt"); have != "kept" {
		t.Errorf("the branch holds %q", have)
	}
	if i.git("rev-parse", "HEAD") != head || i.git("status", "--porcelain") != "" {
		t.Error("more than a branch of its own changed")
	}
	i.spent(t, "kept")
	i.refused("gone", "echo gone > greeting.txt")
	i.nacre("sessions", "discard", "gone").want(t, 0, "discarded")
	i.spent(t, "gone")
	i.nacre("sessions", "discard", "gone").want(t, 2, "no files")
	i.nacre("sessions", "rm", "gone").want(t, 0, "removed")
	i.nacre("sessions", "apply", "gone").want(t, 2, "removed", "nacre show gone")
	hasNo(t, i.nacre("sessions", "list").stdout, "gone")
	i.nacre("audit", "show", "gone").want(t, 0, "records over")
	i.nacre("show", "gone").want(t, 0, "removed", "its words went with its files", "began    20")
	i.refused("gone", "echo again > greeting.txt") // its name is free, and its chains go on
	i.nacre("audit", "verify").want(t, 0, "gone.1", "gone.2")
	has(t, i.nacre("sessions", "list").stdout, "not landed")
	idle := i.nacre("run", "look", "--recording", i.recording("true"), "--project", "p", "--session", "idle", "--check", "true")
	idle.want(t, 1, "nothing was changed")
	hasNo(t, idle.stdout, "nacre sessions")
	i.nacre("sessions", "rm", "idle").want(t, 0)
	i.nacre("exec", "-q", "--project", "p", "--session", "plain", "--", "true").want(t, 0)
	i.nacre("sessions", "diff", "plain").want(t, 2, "works in the project itself", filepath.Join(i.work, "p"))
	i.nacre("exec", "-q", "--session", "alone", "--", "true").want(t, 0)
	i.nacre("sessions", "diff", "alone").want(t, 2, "session alone is of the kind exec and had no project", "nacre show alone")
	i.nacre("sessions", "diff", "nosuch").want(t, 1, "no such session")
}

// U-22: where an agent was killed before it changed something, there is nothing to land.
func TestWithoutAChangeNothingIsOfferedToLand(t *testing.T) {
	t.Parallel()
	i := install(t)
	r := i.waits()
	_ = r.Process.Kill()
	finish(t, r)
	check(t, os.Remove(filepath.Join(i.workspace("work"), "pkg/x/ready")))
	diff := i.nacre("sessions", "diff", "work")
	diff.want(t, 0, "no file was changed", "nacre sessions discard work", "nacre run --session work")
	hasNo(t, diff.stdout, "sessions apply")
	i.nacre("sessions", "discard", "work").want(t, 0, "discarded")
}

// U-22: what keeps the work from a project is said with what comes next, and the same command works afterwards.
func TestWhatCannotBeTakenSaysWhatComesNext(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.refused("held", "echo held > greeting.txt")
	if os.Geteuid() != 0 { // whom no mode stops
		objects := filepath.Join(i.work, "p/.git/objects")
		for _, mode := range []os.FileMode{0o500, 0o700} {
			check(t, filepath.WalkDir(objects, func(name string, e fs.DirEntry, err error) error {
				if err != nil || !e.IsDir() {
					return err
				}
				return os.Chmod(name, mode)
			}))
			if mode == 0o500 {
				i.nacre("sessions", "apply", "held").want(t, 2, objects+" cannot be written", "make it writable, and the same command works")
			}
		}
	}
	i.write("p/greeting.txt", "of the user\n")
	i.git("commit", "-q", "-a", "-m", "of the user")
	i.nacre("sessions", "apply", "held").want(t, 1, "conflicts with", "nacre sessions branch held keeps the work on a branch")
	i.nacre("sessions", "branch", "held").want(t, 0, "nacre/held")
}

// U-22: files of the person's own that are in the way keep the work from the branch and
// lose nothing: it is on a branch of its own.
func TestWhatIsAppliedWaitsForFilesOfOnesOwn(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.refused("work", "echo theirs > greeting.txt")
	i.write("p/greeting.txt", "mine\n")
	i.nacre("sessions", "apply", "work").want(t, 0, "kept", "nacre/work", "greeting.txt")
	if have := fileText(filepath.Join(i.work, "p/greeting.txt")); have != "mine\n" {
		t.Errorf("have %q", have)
	}
	has(t, i.git("show", "nacre/work:greeting.txt"), "theirs")
	i.spent(t, "work")
}

// U-22: where the project went, what did not land is kept until it is there again.
func TestWhatDidNotLandWaitsForItsProject(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.refused("work", "echo theirs > greeting.txt")
	at, away := filepath.Join(i.work, "p"), filepath.Join(i.work, "away")
	check(t, os.Rename(at, away))
	for _, verb := range []string{"diff", "apply", "branch"} {
		i.nacre("sessions", verb, "work").want(t, 2, "its project "+at+" is gone: put it there again", i.state("sessions/work/work"))
	}
	i.nacre("sessions", "list").want(t, 0, "not landed")
	i.nacre("sessions", "rm", "work").want(t, 2, "did not land")
	check(t, os.Rename(away, at))
	i.nacre("sessions", "apply", "work").want(t, 0, "applied")
	i.spent(t, "work")
}

// U-22: old sessions go, and none with work that did not land; the records stay. With
// [retention] they go by themselves.
func TestOldSessionsAreRemoved(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.refused("left", "echo changed > greeting.txt")
	for n := range 3 {
		i.nacre("exec", "-q", "--session", fmt.Sprintf("e%d", n), "--", "true").want(t, 0)
	}
	i.nacre("sessions", "prune").want(t, 2, "--older")
	i.nacre("sessions", "prune", "--keep", "0").want(t, 2, "--keep 0: write 1 or more")
	i.nacre("sessions", "prune", "--older", "soon").want(t, 2, "30d")
	i.nacre("sessions", "prune", "--older", "30d").want(t, 0, "0 sessions")
	i.nacre("sessions", "prune", "--keep", "1", "--dry-run").want(t, 0, "2 sessions", "1 old session with work that did not land: left")
	for try := range 3 { // killed a little later each time
		i.endedAfter(syscall.SIGKILL, time.Duration(try)*15*time.Millisecond, "sessions", "prune", "--keep", "1")
	}
	i.nacre("sessions", "prune", "--keep", "1").want(t, 0, "removed")
	list := i.nacre("sessions", "list").stdout
	has(t, list, "e2", "left")
	hasNo(t, list, "e0", "e1")
	i.nacre("sessions", "diff", "left").want(t, 0, "+changed")
	i.nacre("audit", "verify").want(t, 0, "e0.1")
	i.write("home/.config/nacre/config.toml", "[retention]\nkeep = 1\n")
	r := i.nacre("exec", "-q", "--session", "last", "--", "true")
	r.want(t, 0)
	if r.stderr != "" {
		t.Errorf("it says %q", r.stderr)
	}
	list = i.nacre("sessions", "list").stdout
	has(t, list, "last", "left")
	hasNo(t, list, "e2")
	i.write("home/.config/nacre/config.toml", "[retention]\nolder = \"soon\"\n")
	i.nacre("sessions", "list").want(t, 2, "[retention] older")
}

// U-21: what a failing check printed is shown where it failed, without secrets, and kept with the
// session. It is told to the agent where it may try again on what it left.
func TestAFailedCheckIsTriedAgain(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	rec := i.recording("echo more >> greeting.txt")
	const check = "wc -l < greeting.txt; test $(wc -l < greeting.txt) -ge 3"
	r := i.nacre("run", "grow it", "--recording", rec, "--project", "p", "--session", "once", "--check", check)
	r.want(t, 1, "✕ check", "│ 2", "not merged")
	i.nacre("sessions", "show", "once").want(t, 0, "ended with 1", "│ 2")
	i.nacre("run", "grow it", "--recording", rec, "--project", "p", "--session", "twice", "--check", check, "--tries", "2").
		want(t, 0, "│ 2", "! try    2 of 2, since check", "✓ check", "merged")
	if have := fileText(i.work + "/p/greeting.txt"); have != "hello\nmore\nmore\n" {
		t.Errorf("have %q", have)
	}
	i.nacre("run", "x", "--tries", "0").want(t, 2, "--tries")
	i.nacre("audit", "verify").want(t, 0)
}
