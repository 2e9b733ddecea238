package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/scriptedmodel"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// U-20, U-21: what will keep the work from landing is said before the model is asked, and
// nothing begins unless a person says so. An agent that may try again is told what failed,
// and works on what it left.
func TestNothingIsPaidForThatCannotLandUnasked(t *testing.T) {
	t.Parallel()
	edit := func(from, to string) scriptedmodel.Turn {
		return scriptedmodel.Turn{Tools: []scriptedmodel.Tool{{Name: "edit", Input: fmt.Appendf(nil, `{"path":"greeting.txt","old":%q,"new":%q}`, from, to)}}}
	}
	server, url := upstreamOf(t, scriptedmodel.Script{Turns: []scriptedmodel.Turn{
		edit("hello", "hello you"), {Text: "Done."}, // each conversation has these turns
	}})
	i := install(t)
	i.write("p/other.txt", "other\n")
	i.project()
	i.env = append(i.env, "LOCAL_KEY=local-key-of-the-test")
	i.write("home/.config/nacre/config.toml", fmt.Sprintf(
		"[model]\nname = \"local-1\"\n[[model.upstream]]\nurl = %q\nkey_env = \"LOCAL_KEY\"\ndialects = [\"anthropic\"]\nprices = \"local.toml\"\n", url))
	i.write("home/.config/nacre/local.toml", "[models.\"local-1\"]\nfree = true\n")
	i.write("p/other.txt", "mine\n")
	run := []string{"run", "greet the world", "--brain", "anthropic", "--project", "p", "--session", "work"}
	i.nacre(run...).want(t, 2, "no check was named", "uncommitted changes in other.txt", "add --yes")
	i.nacre(append(run, "--check", "true", "--model", "priceless")...).want(t, 2, "the model priceless has no price")
	i.git("checkout", "-q", "--detach")
	i.nacre(append(run, "--check", "true", "--yes")...).want(t, 2, "HEAD is detached: check a branch out")
	i.git("checkout", "-q", "main")
	readOnly := i.command(testpeer.Need(t, "unshare"), append([]string{"-rm", "sh", "-c", `mount --bind p p && mount -o remount,bind,ro p && exec "$0" "$@"`, filepath.Join(bin, "nacre")}, append(run, "--check", "true")...)...)
	out, err := readOnly.CombinedOutput()
	result{code: exitCode(err), stderr: string(out)}.want(t, 2, "p cannot be written (read-only file system): the result cannot land", "add --yes")
	if n := len(server.Requests()); n != 0 {
		t.Fatalf("the model was asked %d times", n)
	}
	i.nacre("sessions", "show", "work").want(t, 1, "no such session")
	i.nacre(append(run, "--check", "cat greeting.txt; grep -q you.you greeting.txt", "--yes", "--tries", "2")...).
		want(t, 0, "uncommitted changes in other.txt", "│ hello you", "merged")
	requests := server.Requests()
	if n := len(requests); n != 4 {
		t.Fatalf("the model was asked %d times, want 4", n)
	}
	if second := string(requests[2].Body); !strings.Contains(second, "another try") || !strings.Contains(second, "hello you") {
		t.Errorf("the agent is not told what failed: %s", second)
	}
	if strings.Contains(string(requests[0].Body), "another try") {
		t.Error("the first try is told of another")
	}
}

// U-21, M-33: a check may hold a secret, which runs as it was written. Nothing that is shown or
// recorded of the check has it: only what the session goes on from, which nobody else reads.
func TestASecretInACheckIsShownNowhere(t *testing.T) {
	t.Parallel()
	const secret = "ghp_Zq8quietharbour0123456789abcdefABCD"
	i := install(t)
	i.project()
	i.write("home/.config/nacre/config.toml", `checks = ["TOKEN=`+secret+`; test ${#TOKEN} = 3"]`)
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"made.txt","content":"made"}}`+"\n")
	for _, args := range [][]string{
		{"run", "make", "--project", "p", "--recording", rec, "--session", "work", "--tries", "2"},
		{"run", "make", "--project", "p", "--recording", rec, "--json"},
	} {
		r := i.nacre(args...)
		r.want(t, 1, "REDACTED", "ended with 1")
		r.hasNoSecret(t, secret)
	}
	for _, args := range [][]string{{"show", "work"}, {"show", "work", "--json"}, {"sessions", "show", "work"}, {"ledger", "list"}, {"logs", "work"}, {"audit", "show", "work", "--json"}} {
		i.nacre(args...).hasNoSecret(t, secret)
	}
	state := filepath.Join(i.work, "home/.local/state/nacre")
	specs, err := filepath.Glob(filepath.Join(state, "sessions/*/run.json"))
	check(t, err)
	for _, spec := range specs {
		check(t, os.Remove(spec))
	}
	hasNoSecret(t, state, secret)
}

// U-21, M-33: of a secret where the tail of a check's output begins nothing is shown, and what is
// left out is told.
func TestATailBeginsWithNoHalfOfASecret(t *testing.T) {
	t.Parallel()
	const secret = "ghp_Zq8quietharbour0123456789abcdefABCD"
	i := install(t)
	i.write("p/token.txt", secret+"\n")
	i.project()
	const tail = 16 << 10
	for half := range 3 { // the rest begins within it
		check := fmt.Sprintf("yes | head -n %d; cat token.txt; yes | head -c %d; false", tail, tail-10*(half+1))
		name := fmt.Sprint("half-", half)
		i.nacre("run", "make", "--project", "p", "--session", name, "--recording", i.recording("echo x >made.txt"), "--check", check).want(t, 1, "not merged")
		shown := i.nacre("sessions", "show", name)
		shown.want(t, 0, "lines before these are not kept")
		hasNo(t, shown.stdout, secret[len(secret)-8:])
	}
}

// M-33: a task's text may hold a secret, which the agent is told. Lists of sessions and the
// message of the commit, which is pushed, do not have it, however the work lands.
func TestASecretInATaskIsInNoTitleAndNoCommit(t *testing.T) {
	t.Parallel()
	const secret = "ghp_Zq8quietharbour0123456789abcdefABCD"
	i := install(t)
	i.project()
	task := "write to ada@example.com, as one who has " + secret // a title would cut it
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"write","input":{"path":"made.txt","content":"made"}}`+"\n")
	i.nacre("run", task, "--project", "p", "--recording", rec, "--session", "bad", "--check", "false").want(t, 1)
	i.nacre("run", task, "--project", "p", "--recording", rec, "--session", "good", "--check", "true", "--record", filepath.Join(i.work, "again.jsonl")).want(t, 0)
	i.nacre("sessions", "branch", "bad").want(t, 0)
	for _, args := range [][]string{{"sessions", "list", "--json"}, {"sessions", "show", "good"}} {
		r := i.nacre(args...)
		r.want(t, 0, "write to ada@example.com")
		hasNo(t, r.stdout, secret[:12])
	}
	commits := i.git("log", "--all", "--format=%B")
	has(t, commits, "write to ada@example.com", "Nacre-Session: good", "Nacre-Session: bad")
	hasNo(t, commits, secret[:12])
	hasNo(t, i.read("again.jsonl"), secret[:12])
}
