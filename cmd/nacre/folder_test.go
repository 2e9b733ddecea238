package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/question"
)

// besideProject makes a project p with a folder lib beside it.
func besideProject(t *testing.T) *installation {
	t.Helper()
	i := install(t)
	i.project()
	i.write("lib/a.txt", "of the library\n")
	i.write("lib/.env", "TOKEN=x\n")
	check(t, os.MkdirAll(filepath.Join(i.work, "lib/.git"), 0o755))
	return i
}

// requests asks for a folder until it is told something else than to wait.
func requests(path string) string {
	return `while said=$(` + request(path) + ` 2>&1); printf '%s' "$said" | grep -q '"state":"waiting"'; do :; done; printf '%s\n' "$said"`
}

// request is one call that asks for a folder.
func request(path string) string {
	text, err := json.Marshal(map[string]string{"path": path, "reason": "its \u202etypes"})
	if err != nil {
		panic(err) // a text always marshals
	}
	return "ipc request_folder '" + string(text) + "'"
}

// M-42: an agent asks for a folder outside of its project. The question says what it is, what is in it and where the path
// came from. On a person's yes it is inside, read-only, for that session alone, and all of it is on the chain.
func TestAFolderIsAskedForAndShown(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	r := i.begin("exec", "--session", "asks", "--project", "p", "--", "sh", "-c",
		requests("../lib")+`; cat /folders/lib/a.txt; echo x >/folders/lib/b; echo x >/folders/c; mv /folders/lib /folders/d; `+requests("../lib/."))
	q, lib := i.question(), filepath.Join(i.work, "lib")
	f, ok := question.FolderOf(q)
	if want := (question.Folder{Folder: lib, Asked: "../lib", Inside: "/folders/lib", Access: "read-only", Holds: "a git repository, 2 files, 23 bytes", Keys: "it holds what looks like keys: .env"}); !ok || f != want {
		t.Errorf("have %+v, want %+v", f, want)
	}
	for _, shown := range []string{i.nacre("approvals", "list").stdout, i.nacre("approvals", "show", q.ID).stdout} {
		has(t, shown, "main wants to see a folder", lib, "a git repository", ".env", "read-only", "/folders/lib", "until the session ends", `"its <U+202E>types"`, "(not checked)", "path was seen in the command")
	}
	i.nacre("approvals", "approve", q.ID, "--times", "2", "--for", "1h").want(t, 1, "for a time")
	i.nacre("approvals", "approve", q.ID).want(t, 0)
	done := finish(t, r)
	done.want(t, 0, `"state":"shown"`, `"folder":"/folders/lib"`, "of the library\n")
	if have := strings.Count(done.stdout+done.stderr, "Read-only file system"); have < 2 {
		t.Errorf("have %s%s", done.stdout, done.stderr)
	}
	if _, err := os.Stat(lib + "/b"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
	records := i.records("asks")
	has(t, records, `"kind":"approval.ask"`, `"kind":"approval.claim"`, `"outcome":"approved"`, `"kind":"mount.grant"`, `"by":`, fmt.Sprintf(`"folder":%q`, lib))
	if have := strings.Count(records, `"kind":"approval.ask"`); have != 1 {
		t.Errorf("asked %d times", have)
	}
	i.nacre("audit", "verify").want(t, 0)
	page := i.nacre("show", "asks")
	page.want(t, 0, "see the folder "+lib, " approved by ")
	hasNo(t, page.stdout, "waits")
	i.nacre("exec", "-q", "--session", "asks", "--project", "p", "--", "ls", "/folders").want(t, 2, "No such file")
}

// M-42: what is given for a time is taken away again.
func TestAFolderThatIsShownForATimeGoesAway(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	r := i.begin("exec", "--session", "asks", "--project", "p", "--", "sh", "-c",
		requests("../lib")+`; cat /folders/lib/a.txt; until ! cat /folders/lib/a.txt >/dev/null 2>&1; do sleep 0.05; done; ls /folders`)
	i.nacre("approvals", "approve", i.question().ID, "--for", "2s").want(t, 0)
	finish(t, r).want(t, 0, `"until":`, "of the library\n")
	has(t, i.records("asks"), `"kind":"mount.end"`, "its time is over", `"seconds":2`)
}

// M-42: a denial stands for the session, and nobody is asked again; so does a session that ends.
func TestAFolderThatWasDeniedStaysAway(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	r := i.begin("exec", "--session", "asks", "--project", "p", "--", "sh", "-c", requests("../lib")+"; "+requests("/workspace/../lib")+"; ls /folders; "+requests("."))
	i.nacre("approvals", "deny", i.question().ID).want(t, 0)
	done := finish(t, r)
	has(t, done.stdout+done.stderr, "a person denied this folder", "No such file", "this folder is your project")
	if have := strings.Count(i.records("asks"), `"kind":"approval.ask"`); have != 1 {
		t.Errorf("asked %d times", have)
	}
	r = i.begin("exec", "--session", "ends", "--project", "p", "--", "sh", "-c", request("../lib")+" & until ls gone; do sleep 0.02; done")
	q := i.question()
	i.write("p/gone", "")
	finish(t, r)
	i.nacre("approvals", "approve", q.ID).want(t, 1, "no question")
	hasNo(t, i.records("ends"), "mount.grant")
}

// M-42: what was asked for is what is shown, or nothing is.
func TestAFolderThatChangesBeforeTheAnswerIsNotShown(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(lib string) error{
		"removed":     os.RemoveAll,
		"another one": func(lib string) error { return errors.Join(os.Rename(lib, lib+"-old"), os.Mkdir(lib, 0o755)) },
		"a link":      func(lib string) error { return errors.Join(os.Rename(lib, lib+"-old"), os.Symlink("/etc", lib)) },
		"a link inside": func(lib string) error {
			return errors.Join(os.Remove(lib+"/a.txt"), os.Symlink("/etc/passwd", lib+"/a.txt"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := besideProject(t)
			user := "user-" + marker()
			check(t, os.WriteFile(filepath.Join(i.work, "secret"), []byte(user), 0o600))
			r := i.begin("exec", "--session", "asks", "--project", "p", "--", "sh", "-c", requests("../lib")+"; ls /folders; cat /folders/lib/a.txt; cat /folders/lib/../../secret")
			q := i.question()
			check(t, change(filepath.Join(i.work, "lib")))
			i.nacre("approvals", "approve", q.ID).want(t, 0)
			done := finish(t, r)
			if name == "a link inside" { // which leads where it leads inside
				has(t, done.stdout, `"state":"shown"`)
				hasNo(t, done.stdout, "of the library", user)
				return
			}
			has(t, done.stdout+done.stderr, "it was removed or replaced after it was asked for", "No such file")
			hasNo(t, done.stdout, "of the library", user, i.work)
		})
	}
}

// M-42: places that no agent is shown are refused before anybody is asked, and the agent is not told
// what is there.
func TestPlacesThatNobodyIsAskedAbout(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	home := filepath.Join(i.work, "home")
	i.write("home/.ssh/id", "k")
	i.write("home/.mozilla/firefox/logins.json", "{}")
	i.write("s\u202ebil/x", "")
	i.write("two\nlines/x", "")
	check(t, os.Symlink(filepath.Join(home, ".ssh"), filepath.Join(i.work, "notes")))
	check(t, os.Symlink("/etc", filepath.Join(i.work, "p/etc")))
	paths := []string{
		"~/", "~/.", home, "~/.ssh", "../notes", "../../", "/", "/etc", "etc/..", "/proc/self/root", "/sys", "/dev", "/run", "/root", "~/.config/nacre", "~/.local", "~/.local/state/nacre",
		"~/.local/state/nacre/sessions", "../lib/a.txt", "../none", "../s\u202ebil", "../two\nlines", "../lib\x00", "~/.mozilla", "~/.mozilla/firefox", "~/.claude",
	}
	for some := range slices.Chunk(paths, 10) { // as many as a session may ask for in a minute
		var lines []string
		for _, path := range some {
			lines = append(lines, request(path)+" 2>&1")
		}
		done := i.nacre("exec", "-q", "--session", "asks", "--project", "p", "--", "sh", "-c", strings.Join(lines, "\n")+"\ntrue")
		done.want(t, 0)
		said := strings.Split(strings.TrimSpace(done.stdout), "\n")
		if len(said) != len(some) {
			t.Fatalf("%d answers to %q: %s", len(said), some, done.stdout)
		}
		for n, line := range said {
			if !strings.Contains(line, "no folder at this path can be shown") && !strings.Contains(line, "cannot see for what they are") {
				t.Errorf("%q: have %s", some[n], line)
			}
			hasNo(t, line, i.work)
		}
	}
	hasNo(t, i.records("asks"), `"kind":"approval.ask"`)
	has(t, i.records("asks"), `"kind":"mount.refused"`)
}

// M-12, M-42: nobody is asked to let an agent write outside of its project. There is no such question, whatever the agent
// adds to its call, and a tool's list says so.
func TestNoFolderIsAskedForToBeWritten(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	done := i.nacre("exec", "-q", "--session", "asks", "--project", "p", "--", "sh", "-c",
		`ipc list_tools {} | grep -o 'outside of your project nothing can be written'; for more in '"access":"read-write"' '"write":true' '"mode":"rw"'; do ipc request_folder '{"path":"../lib","reason":"its types",'$more'}' 2>&1; done; ls /folders`)
	done.want(t, 2, "outside of your project nothing can be written", "No such file")
	if have := strings.Count(done.stdout, "VALIDATION_FAILED"); have != 3 {
		t.Errorf("%d calls were refused for what they add: %s", have, done.stdout)
	}
	hasNo(t, i.records("asks"), `"kind":"approval.ask"`, `"kind":"mount.grant"`)
}

// M-42: an agent that asks a thousand times for one folder, or for many, asks a person one question.
func TestABurstOfRequestsIsOneQuestion(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	i.write("more/x", "")
	r := i.begin("exec", "-q", "--session", "asks", "--project", "p", "--", "sh", "-c",
		request("../lib")+" >/dev/null & for n in $(seq 100); do ("+request("../lib")+"; "+request("../more")+") >>said 2>&1 & done; wait; until ls gone; do sleep 0.02; done")
	i.question()
	until(t, "all answers", func() bool { return strings.Count(i.read("p/said"), "\n") >= 200 })
	if all := i.questions(); len(all) != 1 {
		t.Errorf("%d questions", len(all))
	}
	has(t, i.read("p/said"), "RATE_LIMITED")
	i.write("p/gone", "")
	finish(t, r)
	if have := strings.Count(i.records("asks"), `"kind":"approval.ask"`); have != 1 {
		t.Errorf("asked %d times", have)
	}
}

// M-42, S-13: what a run's agent is shown, its checks are not.
func TestAFolderOfARunIsNotThereForItsChecks(t *testing.T) {
	t.Parallel()
	i := besideProject(t)
	r := i.begin("run", "read the library", "--project", "p", "--brain", "replay", "--session", "work", "--check", "! ls /folders",
		"--recording", i.recording(requests("../lib")+"; cp /folders/lib/a.txt copied.txt"))
	i.nacre("approvals", "approve", i.question().ID).want(t, 0)
	finish(t, r).want(t, 0)
	if have := i.gitIn("p", "show", "HEAD:copied.txt"); strings.TrimSpace(have) != "of the library" {
		t.Errorf("have %q", have)
	}
}
