package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// recording writes a replay of one shell command after another.
func (i *installation) recording(commands ...string) string {
	i.t.Helper()
	lines := `{"v":1,"name":"r"}` + "\n"
	for _, c := range commands {
		text, err := json.Marshal(map[string]any{"tool": "shell", "input": map[string]any{"command": c}})
		if err != nil {
			i.t.Fatal(err)
		}
		lines += string(text) + "\n"
	}
	return i.write(fmt.Sprintf("rec-%d.jsonl", len(commands)), lines)
}

// marker is an argument that no other process on this machine has.
func marker() string {
	return fmt.Sprintf("%06d%09d", os.Getpid(), time.Now().UnixNano()%1e9)
}

func (i *installation) state(parts ...string) string {
	return filepath.Join(append([]string{i.work, "home/.local/state/nacre"}, parts...)...)
}

// records are those of a session's chains, read from the files: the session
// may be alive, or dead.
func (i *installation) records(session string) string { return i.recordsOf(session + ".*") }

// recordsOf are the records of all chains with such a name.
func (i *installation) recordsOf(pattern string) string {
	paths, _ := filepath.Glob(i.state("audit", pattern, "*.jsonl")) // the pattern is ours
	var all strings.Builder
	for _, path := range paths {
		data, _ := os.ReadFile(path) // it may be new
		all.Write(data)
	}
	return all.String()
}

func (i *installation) status() (state string, resumable bool) {
	i.t.Helper()
	var s struct {
		State     string
		Resumable bool
	}
	r := i.nacre("sessions", "show", "work", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &s); err != nil {
		i.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	return s.State, s.Resumable
}

// gone waits until no process with the mark is left. How long that takes is told by
// BenchmarkStop.
func gone(t *testing.T, mark string) {
	t.Helper()
	eventually(t, "the end of all that was started", func() bool { return len(processes(t, mark)) == 0 })
}

// stage is a moment of a run that a test can see from outside.
type stage struct {
	name string
	// reached tells whether the run is there.
	reached func(i *installation, mark string) bool
}

func seenIn(text string) func(*installation, string) bool {
	return func(i *installation, _ string) bool { return strings.Contains(i.records("work"), text) }
}

func runningWith(prefix string) func(*installation, string) bool {
	return func(i *installation, mark string) bool { return len(processes(i.t, prefix+mark)) > 0 }
}

// stages are in the order in which a run gets to them. Where the run waits for
// a moment, it is caught there; the others are caught soon after.
func stages() []stage {
	return []stage{
		{"opening", seenIn(`"kind":"chain.open"`)},
		{"cloning", seenIn(`"kind":"session.open"`)},
		{"conversing", runningWith("sleep\x001.5")},
		{"conversed", seenIn(`"kind":"brain.event","outcome":"done"`)},
		{"verifying", runningWith("sleep\x001.7")},
		{"verified", seenIn(`"kind":"verify"`)},
		{"landing", seenIn(`"kind":"merge.intent"`)},
		{"landed", seenIn(`"kind":"merge.done"`)},
	}
}

// victim starts a run that takes its time in the conversation and in the check.
func (i *installation) victim(mark string) *running {
	i.project()
	return i.again(mark)
}

func (i *installation) again(mark string) *running {
	i.t.Helper()
	rec := i.recording("echo changed > greeting.txt; echo new > new.txt", "sleep 1.5"+mark)
	return i.begin("run", "change", "--recording", rec, "--project", "p", "--session", "work", "--check", "sleep 1.7"+mark)
}

// whole wants the branch as it was, or with exactly one commit more, and files
// and index that follow it.
func (i *installation) whole() (landed bool) {
	i.t.Helper()
	commits := strings.Split(i.git("log", "--format=%s"), "\n")
	if status := i.git("status", "--porcelain"); status != "" {
		i.t.Fatalf("half-done: %q on %q", status, commits)
	}
	switch {
	case len(commits) == 1:
		return false
	case len(commits) == 2 && commits[0] == "change":
		return true
	}
	i.t.Fatalf("have commits %q", commits)
	return false
}

// goesOn resumes the session until its work is done, and checks everything that
// a run leaves.
func (i *installation) goesOn(mark string) {
	i.t.Helper()
	switch _, resumable := i.status(); {
	case resumable:
		i.nacre("run", "--session", "work").want(i.t, 0, "merged")
	case !i.whole(): // it ended before it had begun
		finish(i.t, i.again(mark)).want(i.t, 0, "merged")
	}
	if !i.whole() {
		i.t.Fatal("the work did not land")
	}
	if data, err := os.ReadFile(filepath.Join(i.work, "p/new.txt")); err != nil || string(data) != "new\n" {
		i.t.Fatalf("have %q %v", data, err)
	}
	gone(i.t, mark)
	i.nacre("audit", "verify").want(i.t, 0)
	i.nacre("audit", "verify", "--receipt", i.state("receipts/work.receipt")).want(i.t, 0, "holds")
	if left, _ := filepath.Glob(i.work + "/p/.git/*.lock"); len(left) > 0 {
		i.t.Fatalf("left behind: %q", left)
	}
	if left, _ := os.ReadDir(i.state("unsettled")); len(left) > 0 {
		i.t.Fatalf("left unsettled: %v", left)
	}
}

// M-16, S-12: kill -9 at any point leaves nothing running and nothing
// half-merged that the next start does not end, and the run goes on.
func TestKilledAtAnyPointARunGoesOn(t *testing.T) {
	t.Parallel()
	for _, at := range stages() {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			i, mark := install(t), marker()
			r := i.victim(mark)
			eventually(t, at.name, func() bool { return at.reached(i, mark) })
			if err := r.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			finish(t, r)
			gone(t, mark)
			if unsealed := i.nacre("audit", "verify"); unsealed.code != 0 {
				unsealed.want(t, 1, "the next nacre run or exec seals")
			}
			// Any next start settles it, not only its own.
			i.nacre("exec", "-q", "--", "true").want(t, 0)
			i.whole()
			i.nacre("audit", "verify").want(t, 0)
			if state, _ := i.status(); state != "interrupted" {
				t.Errorf("it is %s", state)
			}
			i.goesOn(mark)
		})
	}
}

// What had landed when the run was killed is not landed a second time, even
// where the branch went on meanwhile.
func TestWhatHasLandedIsNotLandedAgain(t *testing.T) {
	t.Parallel()
	i, mark := install(t), marker()
	r := i.victim(mark)
	landed := stages()[7]
	eventually(t, landed.name, func() bool { return landed.reached(i, mark) })
	if err := r.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	finish(t, r)
	i.nacre("exec", "-q", "--", "true").want(t, 0)
	if !i.whole() {
		t.Fatal("it has not landed")
	}
	i.write("p/mine.txt", "mine\n")
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "mine")
	if _, resumable := i.status(); !resumable {
		t.Skip("it was killed after its end")
	}
	i.nacre("run", "--session", "work").want(t, 0, "merged")
	if log := i.git("log", "--format=%s"); log != "mine\nchange\nfirst" {
		t.Errorf("have %q", log)
	}
	if status := i.git("status", "--porcelain"); status != "" {
		t.Errorf("have %q", status)
	}
}

// Ctrl-C at any moment: everything of the run is gone within a second, the
// branch is untouched, and the run can go on.
func TestInterruptedAtAnyPointARunGoesOn(t *testing.T) {
	t.Parallel()
	for _, at := range stages() {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			i, mark := install(t), marker()
			r := i.victim(mark)
			eventually(t, at.name, func() bool { return at.reached(i, mark) })
			if err := r.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			gone(t, mark)
			have := finish(t, r)
			if landed := i.whole(); have.code != 130 && !landed {
				t.Fatalf("exit %d\n%s%s", have.code, have.stdout, have.stderr)
			}
			if _, resumable := i.status(); resumable {
				have.want(t, 130, "nacre run --session work")
			}
			i.nacre("audit", "verify").want(t, 0)
			i.goesOn(mark)
		})
	}
}

// M-16: stop from another terminal, in less than a second; the run says so and
// ends with 130.
func TestASessionIsStoppedFromOutside(t *testing.T) {
	t.Parallel()
	i, mark := install(t), marker()
	r := i.victim(mark)
	eventually(t, "conversing", func() bool { return runningWith("sleep\x001.5")(i, mark) })
	if state, _ := i.status(); state != "running" {
		t.Errorf("it is %s", state)
	}
	i.nacre("run", "other", "--session", "work", "--project", "p", "--recording", i.recording("true")).
		want(t, 2, "session work has unfinished work")
	i.nacre("run", "--session", "work").want(t, 1, "session is in use", "nacre sessions stop work")
	i.nacre("exec", "--session", "work", "--", "true").want(t, 125, "session is in use")
	i.nacre("sessions", "stop", "work").want(t, 0, "stopped")
	gone(t, mark)
	finish(t, r).want(t, 130, "nacre run --session work")
	i.nacre("audit", "verify", "--receipt", i.state("receipts/work.receipt")).want(t, 0, "holds")
	if receipt, err := os.ReadFile(i.state("receipts/work.receipt")); err != nil || !strings.Contains(string(receipt), `"outcome":"stopped"`) {
		t.Errorf("have %s %v", receipt, err)
	}
	i.nacre("sessions", "stop", "work").want(t, 0, "was not running")
	i.nacre("sessions", "list").want(t, 0, "work", "stopped")
	i.nacre("sessions", "show", "work").want(t, 0, "nacre run --session work")
	i.nacre("run", "--session", "work", "--check", "true").want(t, 2, "leave --check out")
	i.nacre("exec", "--session", "work", "--", "true").want(t, 125, "unfinished work")
	i.goesOn(mark)
}

func TestACommandIsStoppedFromOutside(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*installation, *running){
		"by sessions stop": func(i *installation, _ *running) { i.nacre("sessions", "stop", "work").want(i.t, 0) },
		"by SIGINT":        func(i *installation, r *running) { _ = r.Process.Signal(syscall.SIGINT) },
		"by SIGTERM":       func(i *installation, r *running) { _ = r.Process.Signal(syscall.SIGTERM) },
		"by SIGHUP":        func(i *installation, r *running) { _ = r.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, mark := install(t), marker()
			// It ignores what can be ignored, and has grandchildren.
			r := i.begin("exec", "-q", "--session", "work", "--", "sh", "-c", "trap '' INT TERM HUP; setsid sleep 1000."+mark+" & sleep 1000."+mark)
			eventually(t, "running", func() bool { return len(processes(t, "sleep\x001000."+mark)) == 2 })
			end(i, r)
			gone(t, mark)
			finish(t, r).want(t, 130)
			i.nacre("audit", "verify").want(t, 0)
		})
	}
}

// Two runs at once on one project: both land, one after the other.
func TestTwoRunsAtOnceBothLand(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.project()
	var all []*running
	for n := range 2 {
		rec := i.write(fmt.Sprintf("r%d.jsonl", n), `{"v":1,"name":"r"}`+"\n"+fmt.Sprintf(`{"tool":"write","input":{"path":"file%d","content":"x"}}`, n)+"\n"+
			`{"tool":"shell","input":{"command":"sleep 0.3"}}`+"\n")
		all = append(all, i.begin("run", "change "+strconv.Itoa(n), "--recording", rec, "--project", "p", "--check", "true"))
	}
	for _, r := range all {
		finish(t, r).want(t, 0, "merged")
	}
	if log := i.git("log", "--first-parent", "--format=%s"); len(strings.Split(log, "\n")) != 3 || !strings.Contains(log, "change 0") || !strings.Contains(log, "change 1") {
		t.Fatalf("have %q", log)
	}
	if status := i.git("status", "--porcelain"); status != "" {
		t.Fatalf("have %q", status)
	}
	i.nacre("audit", "verify").want(t, 0)
}

// The branch moved while the agent worked: what does not conflict is verified
// again on top of it, and what does is reported.
func TestABranchThatMovedIsMergedOrReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, check string
		code        int
		want        string
	}{
		"merged and verified again": {"other.txt", "true", 0, "merged"},
		"merged, and does not hold": {"other.txt", "! test -e other.txt", 1, "on top of"},
		"in conflict":               {"greeting.txt", "true", 1, `conflicts with`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, mark := install(t), marker()
			i.project()
			rec := i.recording("echo agent > greeting.txt", "sleep 1.5"+mark)
			r := i.begin("run", "change", "--recording", rec, "--project", "p", "--session", "work", "--check", c.check)
			eventually(t, "conversing", func() bool { return len(processes(t, "sleep\x001.5"+mark)) > 0 })
			i.write("p/"+c.file, "mine\n")
			i.git("add", "-A")
			i.git("commit", "-q", "-m", "mine")
			head := i.git("rev-parse", "HEAD")
			have := finish(t, r)
			have.want(t, c.code, c.want)
			if c.code != 0 && i.git("rev-parse", "HEAD") != head {
				t.Error("the branch moved")
			}
			if status := i.git("status", "--porcelain"); status != "" {
				t.Errorf("have %q", status)
			}
			if branches := i.git("branch", "--list", "nacre/*"); branches != "" {
				t.Errorf("left behind: %q", branches)
			}
		})
	}
}

// A file that cannot be written whole stops the run with what is wrong, leaves
// the project alone, and the run goes on once there is room.
func TestWithoutSpaceNothingIsLost(t *testing.T) {
	t.Parallel()
	i, mark := install(t), marker()
	i.project()
	rec := i.write("rec.jsonl", `{"v":1,"name":"r"}`+"\n"+`{"tool":"shell","input":{"command":": `+mark+`; echo changed > greeting.txt; echo new > new.txt; head -c 12000000 /dev/urandom > big.txt"}}`+"\n")
	args := []string{"run", "change", "--recording", rec, "--project", "p", "--session", "work", "--check", "true"}
	// The host's own files may have 8 MiB; the sandbox sets its own limit.
	limited := &running{Cmd: i.command("sh", append([]string{"-c", `trap '' XFSZ; ulimit -f 16384; exec "$0" "$@"`, filepath.Join(bin, "nacre")}, args...)...)}
	limited.Stdout, limited.Stderr = &limited.stdout, &limited.stderr
	if err := limited.Start(); err != nil {
		t.Fatal(err)
	}
	have := finish(t, limited)
	if have.code == 0 {
		t.Skipf("the limit was not met:\n%s%s", have.stdout, have.stderr)
	}
	have.want(t, 1, "file size limit exceeded", "nacre run --session work")
	if i.whole() {
		t.Fatal("it landed")
	}
	i.goesOn(mark)
}

// The disk that holds nacre's state is full.
func TestOnAFullDiskNothingIsLost(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	i, mark := install(t), marker()
	i.project()
	if err := os.MkdirAll(i.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", i.state(), "tmpfs", 0, "size=8m,mode=0700"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(i.state(), syscall.MNT_DETACH) }) // the folder goes with the test
	rec := i.recording(": " + mark + "; echo changed > greeting.txt; echo new > new.txt; head -c 20000000 /dev/urandom > big.bin; rm big.bin; head -c 20000000 /dev/urandom > left.tmp")
	have := i.nacre("run", "change", "--recording", rec, "--project", "p", "--session", "work", "--check", "true")
	if have.code == 0 || i.whole() {
		t.Fatalf("exit %d\n%s%s", have.code, have.stdout, have.stderr)
	}
	watched := strings.Contains(have.stdout, "✕ limit") // the watch over the disk was fast enough to end the agent
	if watched && have.code == 124 {
		return
	}
	// Which writer meets the full disk first is not ours to say. A store that could not be opened
	// for it ends the run with the code of what is missing.
	if have.code != 1 && have.code != 3 {
		t.Fatalf("exit %d, want 1 or 3\n%s%s", have.code, have.stdout, have.stderr)
	}
	if said := have.stderr + have.stdout; !strings.Contains(said, "space left") && !strings.Contains(said, "Out of diskspace") && !strings.Contains(said, "the disk is full") {
		t.Errorf("it does not say why: %s%s", have.stdout, have.stderr)
	}
	if err := syscall.Mount("tmpfs", i.state(), "tmpfs", syscall.MS_REMOUNT, "size=200m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	if !watched {
		i.goesOn(mark)
		return
	}
	// Whether it could be kept that the agent was ended decides how this goes on.
	have = i.nacre("run", "--session", "work")
	if landed := i.whole(); landed != (have.code == 0) || !landed && !strings.Contains(have.stdout, "not merged") {
		t.Errorf("exit %d, landed %t: %s%s", have.code, landed, have.stdout, have.stderr)
	}
}
