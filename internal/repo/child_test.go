package repo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nacre-dev/nacre/internal/repo"
)

// landing is what a child process is told to do.
type landing struct {
	Dir, State   string
	Base, Commit repo.Commit
	Expect       repo.Commit
	// Kill is the step in which it kills itself, and After how often it passes
	// that step first.
	Kill  string
	After int
	// Recover makes it recover instead of land.
	Recover bool
}

// landChild lands or recovers, and kills itself at the step it is told.
func landChild(text string) int {
	var l landing
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		fmt.Println(err)
		return 1
	}
	p, err := repo.Open(context.Background(), l.Dir, repo.Options{StateDir: l.State, Base: l.Base})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	p.Reached(func(step string) {
		if step != l.Kill {
			return
		}
		if l.After--; l.After < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	if l.Recover {
		_, err = p.Recover(context.Background())
	} else {
		_, err = p.Land(context.Background(), repo.LandRequest{
			Session: session, Branch: "main", Expect: l.Expect, Commit: l.Commit,
			Intent: func(context.Context, repo.Intent) error { return nil },
		})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// child runs a landing in a process of its own and reports whether it killed itself.
func child(t *testing.T, l landing) (killed bool) {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "NACRE_REPO_CHILD="+string(text))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		t.Fatalf("child: %v: %s", err, out)
	}
	return false
}

var landingSteps = []string{"journal", "locked", "intent", "swapped", "deleted", "file", "files", "index", "unlocked"}

// S-12: killed at any step, the next start finds the landing done or undone,
// never half of it, and nothing is left behind.
func TestALandingSurvivesKillAtEveryStep(t *testing.T) {
	for i, step := range landingSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			work := map[string]string{"README.md": "agent\n", "src/added": "a\n", "tool": "#!/bin/sh\n", "deep/er/x": "x", "link": "-> src"}
			r, m := worked(t, project, work, "old", "run.sh")
			u := r.user
			before, want := u.fingerprint(), files(t, r.work)
			l := landing{Dir: u.dir, State: r.state, Base: r.project.Base, Expect: r.project.Base, Commit: m.Commit, Kill: step}
			if step == "file" {
				l.After = 2
			}
			if !child(t, l) {
				t.Fatal("the child was not killed")
			}
			recovered := killRecovery(t, l)
			r.reopen()
			landed, err := r.project.Recover(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			swapped := i >= 3
			if (landed != nil) != swapped && !recovered {
				t.Errorf("recovered %+v", landed)
			}
			leftovers(t, r)
			if !swapped {
				if after := u.fingerprint(); after != before {
					t.Errorf("the repository changed from\n%s\nto\n%s", before, after)
				}
				if _, err := r.land(m.Commit, r.project.Base); err != nil {
					t.Fatal(err)
				}
			}
			sameFiles(t, files(t, u.dir), want)
			if have := u.git("status", "--porcelain"); have != "" || u.head("main") != m.Commit {
				t.Errorf("git status: %s", have)
			}
			leftovers(t, r)
		})
	}
}

// killRecovery kills the recovery too, at each step that it passes, until one
// gets through.
func killRecovery(t *testing.T, l landing) (done bool) {
	t.Helper()
	l.Recover = true
	for _, step := range []string{"deleted", "file", "files", "index"} {
		l.Kill, l.After = step, 0
		if !child(t, l) {
			return true
		}
	}
	return false
}

// A second process that recovers while the user has moved on leaves them alone.
func TestRecoveryLeavesAUserWhoMovedOnAlone(t *testing.T) {
	t.Parallel()
	r, m := worked(t, project, map[string]string{"README.md": "agent\n", "src/added": "a\n"})
	u := r.user
	l := landing{Dir: u.dir, State: r.state, Base: r.project.Base, Expect: r.project.Base, Commit: m.Commit, Kill: "swapped"}
	if !child(t, l) {
		t.Fatal("the child was not killed")
	}
	// The user removes the lock, as git tells them to, and works on.
	if err := os.Remove(u.dir + "/.git/index.lock"); err != nil {
		t.Fatal(err)
	}
	u.write(map[string]string{"mine": "mine\n"})
	u.git("add", "mine")
	before := u.fingerprint()
	r.reopen()
	landed, err := r.project.Recover(context.Background())
	if err != nil || landed == nil || strings.Join(landed.Left, " ") != "README.md src/added" {
		t.Fatalf("%+v, %v", landed, err)
	}
	if u.fingerprint() != before {
		t.Error("recovery changed the user's work")
	}
	leftovers(t, r)
}

func TestADamagedJournalIsAnError(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "cut short": `{"session":"s-1"`, "of another shape": `[]`, "with more in it": `{"x":1}`, "without ids": `{}`,
		"of another project": `{"session":"s-1","ref":"refs/heads/main","new":"` + strings.Repeat("a", 40) + `","git_dir":"/x","top":"/x","files":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			u := withFiles(t, project)
			r := u.session("")
			if err := os.WriteFile(r.state+"/landing.json", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			before := u.fingerprint()
			if landed, err := r.project.Recover(context.Background()); err == nil {
				t.Errorf("recovered %+v", landed)
			}
			if _, err := r.land(r.project.Base, r.project.Base); err == nil {
				t.Error("landed over a damaged journal")
			}
			if u.fingerprint() != before {
				t.Error("the repository changed")
			}
		})
	}
}
