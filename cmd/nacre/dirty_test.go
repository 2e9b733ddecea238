package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dirtied is a repository p with a commit of three files and uncommitted edits: one file
// changed, one staged, one new, one gone, and one that is ignored. Its hooks and filters
// leave a mark where they run.
func dirtied(i *installation) {
	i.t.Helper()
	mark := filepath.Join(i.work, "ran")
	i.write("p/a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n")
	i.write("p/b.txt", "b\n")
	i.write("p/gone.txt", "gone\n")
	i.write("p/pkg/x/keep", "x\n")
	i.write("p/.gitignore", "secret.env\n")
	i.write("p/.gitattributes", "*.txt filter=mark\n")
	i.project()
	for _, hook := range []string{"pre-commit", "post-commit", "post-index-change", "reference-transaction"} {
		file := i.write("p/.git/hooks/"+hook, "#!/bin/sh\ntouch "+mark+"\n")
		if err := os.Chmod(file, 0o755); err != nil {
			i.t.Fatal(err)
		}
	}
	i.write("p/a.txt", "1 mine\n2\n3\n4\n5\n6\n7\n8\n")
	i.write("p/b.txt", "b staged\n")
	i.git("add", "b.txt")
	i.write("p/new.txt", "new and mine\n")
	i.write("p/secret.env", "KEY=1\n")
	if err := os.Remove(filepath.Join(i.work, "p/gone.txt")); err != nil {
		i.t.Fatal(err)
	}
	i.git("config", "filter.mark.clean", "touch "+mark+"; cat")
	_ = os.Remove(mark)
	i.t.Cleanup(func() {
		if _, err := os.Stat(mark); err == nil {
			i.t.Error("a hook or a filter of the repository ran")
		}
	})
}

// U-20: with --dirty the agent works on the uncommitted edits too. What lands is its own
// changes on top of the branch; the edits stay where they were, uncommitted.
func TestARunSeesUncommittedEdits(t *testing.T) {
	t.Parallel()
	i := install(t)
	dirtied(i)
	before := i.git("rev-parse", "HEAD")
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
		`{"tool":"shell","input":{"command":"cat a.txt b.txt new.txt; ls; echo theirs >made.txt"}}`+"\n")
	r := i.nacre("run", "look", "--project", "p", "--recording", rec, "--session", "work", "--dirty", "--check", "test -e made.txt", "-v")
	r.want(t, 0, "1 mine", "b staged", "new and mine", "merged")
	hasNo(t, r.stdout, "gone.txt", "secret.env", "uncommitted changes in")
	if have := i.git("show", "--name-only", "--format=%P", "HEAD"); have != before+"\n\nmade.txt" {
		t.Errorf("what landed is %q", have)
	}
	if have := fileText(filepath.Join(i.work, "p/made.txt")); have != "theirs\n" {
		t.Errorf("made.txt is %q", have)
	}
	for file, want := range map[string]string{"a.txt": "1 mine\n2\n3\n4\n5\n6\n7\n8\n", "b.txt": "b staged\n", "new.txt": "new and mine\n"} {
		if have := fileText(filepath.Join(i.work, "p", file)); have != want {
			t.Errorf("%s is %q", file, have)
		}
	}
	if _, err := os.Stat(filepath.Join(i.work, "p/gone.txt")); err == nil {
		t.Error("a file that the user had removed is back")
	}
	if all := i.git("rev-list", "--all", "--objects"); strings.Contains(all, "new.txt") {
		t.Errorf("the edits are in a commit of the user's: %s", all)
	}
}

// U-20: files that git does not track are said before the agent works without them. They keep
// nothing from beginning, unless the task is about them. A lock that a killed git left is asked
// about.
func TestWhatGitDoesNotTrackIsSaid(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	i.write("p/a_test.txt", "new\n")
	i.write("p/sub/x", "new\n")
	i.write("p/z\nnacre: all is well", "new\n")
	rec := i.recording("ls")
	run := []string{"run", "look", "--project", "p", "--recording", rec, "--check", "true"}
	i.nacre(run...).want(t, 1, "! unseen git does not track a_test.txt, sub/", "or add --dirty", "nothing was changed")
	i.nacre(append(run, "--json")...).want(t, 1, `"unseen":"a_test.txt, sub/, \"z\\nnacre: all is well\""`)
	hasNo(t, i.nacre(append(run, "--dirty")...).stdout, "does not track")
	i.nacre("run", "let a_test.txt pass", "--project", "p", "--recording", rec, "--check", "test -e sub/x").want(t, 2,
		"git does not track a_test.txt, sub/, which the task or a check names", "or add --dirty", "nothing was paid for", "add --yes")
	for _, name := range []string{"index", "HEAD", "refs/heads/main"} {
		lock := i.write("p/.git/"+name+".lock", "")
		i.nacre(run...).want(t, 1, "nothing was changed") // git has it for a moment
		old := time.Now().Add(-time.Hour)
		check(t, os.Chtimes(lock, old, old))
		i.nacre(run...).want(t, 2, ".git/"+name+".lock is there", "remove it if no git command runs", "add --yes")
		check(t, os.Remove(lock))
	}
}

// U-20: where the agent changes a file that the user edits too, its change lands on a branch of its
// own, without the user's. Where it is the same line, nothing lands.
func TestAnAgentsChangeToAnEditedFileIsKeptApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line, want string
		code       int
	}{
		"another line":  {"8", "nacre/work", 1},
		"the same line": {"1", "conflict", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			dirtied(i)
			rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
				`{"tool":"shell","input":{"command":"sed -i '`+c.line+`s/$/ theirs/' a.txt"}}`+"\n")
			before := i.git("rev-parse", "HEAD")
			i.nacre("run", "look", "--project", "p", "--recording", rec, "--session", "work", "--dirty", "--check", "grep -q theirs a.txt").want(t, c.code, c.want)
			if have := i.git("rev-parse", "HEAD"); have != before {
				t.Errorf("the branch is at %s", have)
			}
			if have := fileText(filepath.Join(i.work, "p/a.txt")); have != "1 mine\n2\n3\n4\n5\n6\n7\n8\n" {
				t.Errorf("a.txt is %q", have)
			}
			if c.line == "8" {
				if have := i.git("show", "nacre/work:a.txt"); have != "1\n2\n3\n4\n5\n6\n7\n8 theirs" {
					t.Errorf("on the branch a.txt is %q", have)
				}
			}
			i.nacre("sessions", "diff", "work").want(t, 0, "theirs")
		})
	}
}

// U-20: a run with --dirty that was interrupted goes on from the edits that it began with.
func TestARunWithEditsGoesOn(t *testing.T) {
	t.Parallel()
	i := install(t)
	dirtied(i)
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+
		`{"tool":"shell","input":{"command":"touch pkg/x/ready; until test -e pkg/x/go; do sleep 0.02; done; rm pkg/x/ready pkg/x/go; cat a.txt >copy.txt"}}`+"\n")
	r := i.begin("run", "look", "--project", "p", "--recording", rec, "--session", "work", "--dirty", "--tries", "2", "--check", "grep -q mine copy.txt")
	eventually(t, "an agent at work", func() bool { return isThere(filepath.Join(i.workspace("work"), "pkg/x/ready")) })
	_ = r.Process.Kill()
	finish(t, r)
	i.write("p/a.txt", "later\n")
	stop := i.lets(i.events())
	have := i.nacre("run", "--session", "work")
	stop()
	have.want(t, 0, "merged")
	if have := i.git("show", "HEAD:copy.txt"); !strings.HasPrefix(have, "1 mine") {
		t.Errorf("copy.txt is %q", have)
	}
}
