package main_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// killing ends commands of one installation at random moments.
type killing struct {
	*installation
	random *rand.Rand
	// window is how long such a command takes here: a moment within it is chosen.
	window time.Duration
}

func (k *killing) kill(args ...string) {
	k.t.Helper()
	k.endedAfter(syscall.SIGKILL, time.Duration(k.random.Int64N(int64(k.window))), args...)
}

// tries is how often each command is killed.
func tries() int { return testpeer.Size(3, 60) }

// whole holds the person's repository to be as one of these commits has it, once
// a command has looked at what was left half-done.
func (k *killing) whole(head ...string) {
	k.t.Helper()
	now := k.git("rev-parse", "HEAD")
	if !strings.Contains(strings.Join(head, " "), now) {
		k.t.Errorf("HEAD is %s, and was %q", now, head)
	}
	k.nacre("sessions", "list").want(k.t, 0) // settles what was left
	k.git("fsck", "--strict")
	if left := k.git("status", "--porcelain"); left != "" {
		k.t.Errorf("half-done: %s", left)
	}
	if locks, _ := filepath.Glob(k.work + "/p/.git/*.lock"); len(locks) > 0 {
		k.t.Errorf("left behind: %q", locks)
	}
}

// U-20, U-22, U-23, U-24: a command on sessions is killed at any moment. The work is there whole or
// has arrived whole, and the repository is as it was or as it should be. The same command again
// ends what it began or says why not. NACRE_SEED repeats a run.
func TestWheneverACommandOnSessionsIsKilledNothingIsLost(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	began := time.Now()
	i.nacre("exec", "-q", "--", "true").want(t, 0)
	k := &killing{i, seeded(t), 2 * time.Since(began)}
	t.Run("a run, and what takes its work", k.takes)
	t.Run("what removes sessions", k.removes)
	t.Run("what begins and follows work", k.detaches)
	i.nacre("audit", "verify").want(t, 0)
}

// takes kills a run, and then what looks at its work, takes it and throws it away.
func (k *killing) takes(t *testing.T) {
	for _, verb := range []string{"apply", "branch", "discard"} {
		mark := marker()
		r := k.begin("run", "change it", "--recording", k.recording("echo "+verb+" > "+verb+".txt", "sleep 10"+mark), "--project", "p", "--session", verb, "--check", "false")
		eventually(t, "the agent's change", func() bool { return len(processes(t, "sleep\x0010"+mark)) > 0 })
		_ = r.Process.Kill() // it runs
		_ = r.Wait()         // it was killed
		k.nacre("sessions", "diff", verb).want(t, 0, "+"+verb, "nacre run --session "+verb)
		gone(t, mark)
		head := k.git("rev-parse", "HEAD")
		for n := 0; n < tries() && isThere(k.state("sessions", verb, "work")); n++ {
			k.kill("sessions", "diff", verb)
			k.kill("sessions", "show", verb)
			k.kill("sessions", verb, verb)
			landed := k.git("rev-parse", "HEAD")
			if landed != head && (verb != "apply" || k.git("rev-parse", "HEAD^") != head) {
				t.Errorf("%s: HEAD is %s", verb, k.git("log", "--oneline"))
			}
			k.whole(head, landed)
		}
		if k.nacre("sessions", "diff", verb).code == 0 {
			k.nacre("sessions", verb, verb).want(t, 0)
		}
		k.nacre("sessions", verb, verb).want(t, 2, "no files of an agent are left to take")
		k.whole(k.git("rev-parse", "HEAD"))
		arrived := k.git("log", "--format=%s", "main", "--", verb+".txt") + k.git("for-each-ref", "--format=%(refname:short)", "refs/heads/nacre/")
		if want := map[string]string{"apply": "change it", "branch": "nacre/branch", "discard": "nacre/branch"}[verb]; arrived != want {
			t.Errorf("%s: have %q, want %q", verb, arrived, want)
		}
		k.nacre("run", "--session", verb).want(t, 2, "no unfinished work")
	}
}

// removes kills what removes sessions.
func (k *killing) removes(t *testing.T) {
	for n := range tries() {
		one, other := fmt.Sprint("one-", n), fmt.Sprint("other-", n)
		k.nacre("exec", "-q", "--session", one, "--", "true").want(t, 0)
		k.nacre("exec", "-q", "--session", other, "--", "true").want(t, 0)
		k.kill("sessions", "rm", one)
		if k.nacre("sessions", "rm", one).code != 0 { // it is removed: what a killed one left in its folder goes
			k.write("home/.local/state/nacre/sessions/"+one+"/work/left", "")
			k.nacre("sessions", "rm", one).want(t, 2, "was removed")
		}
		k.kill("sessions", "prune", "--keep", "1")
		k.nacre("sessions", "prune", "--keep", "1").want(t, 0)
		hasNo(t, k.nacre("sessions", "list").stdout, one)
		left, err := os.ReadDir(k.state("sessions", one))
		if left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return registry.IsOwnFile(e.Name()) }); err != nil || len(left) > 0 {
			t.Errorf("%s is removed and has %v: %v", one, left, err)
		}
	}
}

// detaches kills what begins work that outlives its terminal, and who follows it.
func (k *killing) detaches(t *testing.T) {
	for n := range tries() {
		name, mark := fmt.Sprint("away-", n), marker()
		begins := []string{"exec", "--detach", "--session", name, "--project", "p", "--", "sh", "-c", "until test -e go; do sleep 0.05" + mark + "; done; rm go; exit 7"}
		k.kill(begins...)
		if state, _ := k.known(name); state != "running" { // it ended with who began it
			again := k.nacre(begins...)
			if again.code != 0 { // or it began meanwhile
				again.want(t, 125, name)
			}
		}
		k.kill("attach", name)
		k.kill("logs", "-f", name)
		k.kill("ps")
		k.nacre("ps").want(t, 0, name)
		following := k.command(k.tested(), "attach", name)
		out, err := following.StdoutPipe()
		check(t, err)
		check(t, following.Start())
		told := bufio.NewReader(out)
		if line, err := told.ReadString('\n'); !strings.Contains(line, name) {
			t.Errorf("attach shows %q: %v", line, err)
		}
		k.write("p/go", "")
		_, err = io.Copy(io.Discard, told)
		check(t, err)
		if code := exitCode(following.Wait()); code != 7 {
			t.Errorf("attach ends with %d", code)
		}
		gone(t, mark)
	}
}
