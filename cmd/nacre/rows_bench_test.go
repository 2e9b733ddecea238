package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nacre-dev/nacre/internal/sandbox"
)

// turns is how often each program of a row is run, all of them in turns.
const turns = 20

// program is one that a row measures.
type program struct {
	name  string
	argv  []string
	env   []string
	stdin string
	// fails says that the program is to refuse what it gets.
	fails bool
	// drawn gives the program a terminal, so that the overlay is in front of what it runs.
	drawn bool
	// until the first byte that it prints, or its end where it prints nothing, and
	// until its end; busy is how long a processor worked for it.
	begin, all, busy []time.Duration
}

func (p *program) run(b *testing.B) {
	b.Helper()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Stdin = p.env, strings.NewReader(p.stdin)
	out, start := io.Reader(nil), cmd.Start
	var err error
	if p.drawn {
		out, start = onTerminal(b, cmd)
	} else {
		out, err = cmd.StdoutPipe()
	}
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := start(); err != nil {
		b.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 1)) // nothing is the end
	p.begin = append(p.begin, time.Since(began))
	if _, err := io.Copy(io.Discard, out); err != nil && !errors.Is(err, unix.EIO) { // a terminal ends so
		b.Fatal(err)
	}
	if err := cmd.Wait(); (err != nil) != p.fails {
		b.Fatalf("%s: %v", p.name, err)
	}
	p.all = append(p.all, time.Since(began))
	p.busy = append(p.busy, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
}

// onTerminal gives a command that was not started a terminal of its own.
func onTerminal(b *testing.B, cmd *exec.Cmd) (out io.Reader, start func() error) {
	b.Helper()
	master, slave, err := sandbox.OpenPty()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = master.Close() })
	cmd.Env = append(slices.Clip(cmd.Env), "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	return master, func() error { return errors.Join(cmd.Start(), slave.Close()) }
}

// inTurns runs programs one after the other, again and again, so that what else
// the machine does is shared by all of them. The first turn does not count.
func inTurns(b *testing.B, turns int, programs ...*program) {
	b.Helper()
	for range turns + 1 {
		for _, p := range programs {
			p.run(b)
		}
	}
	for _, p := range programs {
		p.begin, p.all, p.busy = p.begin[1:], p.all[1:], p.busy[1:]
	}
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// tell prints a median as one line of the table.
func tell(b *testing.B, row, name string, have time.Duration) {
	b.Run(row+"/"+name, func(b *testing.B) {
		for b.Loop() { // it was measured
		}
		b.ReportMetric(float64(have.Nanoseconds()), "ns/op")
	})
}

func filled(b *testing.B, files int) string {
	b.Helper()
	dir := b.TempDir()
	for i := range files {
		at := filepath.Join(dir, strconv.Itoa(i%97), strconv.Itoa(i%11))
		if err := os.MkdirAll(at, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, strconv.Itoa(i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// BenchmarkRows prints what a start takes beside its floor, under the row that
// bounds it: medians of twenty, in turns (F-140).
func BenchmarkRows(b *testing.B) {
	env, nacre := ownHome(b), filepath.Join(bin, "nacre")
	for _, size := range []struct {
		row        string
		files      int
		begin, all string
	}{
		{"P-01", 60, "20 ms", "28 ms"}, {"P-02", 20_000, "P-01 and 5 ms", "P-01 and 30 ms"}, {"P-02", 60_000, "P-01 and 5 ms", "P-01 and 90 ms"},
	} {
		project := filled(b, size.files)
		ours := &program{name: "ours", env: env, argv: []string{nacre, "exec", "-q", "--project", project, "--", "/bin/echo", "begun"}}
		programs := []*program{{name: "floor", env: env, argv: []string{"/bin/echo", "begun"}}, ours}
		if bwrap, err := exec.LookPath("bwrap"); err == nil {
			programs[0] = &program{name: "floor", env: env, argv: []string{bwrap, "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
				"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
				"--bind", project, "/workspace", "--unshare-all", "--die-with-parent", "/bin/echo", "begun"}}
		}
		inTurns(b, turns, programs...)
		for _, p := range programs {
			tell(b, fmt.Sprintf("%s exec, %d files, begins, at most %s", size.row, size.files, size.begin), p.name, median(p.begin))
			tell(b, fmt.Sprintf("%s exec, %d files, all of it, at most %s", size.row, size.files, size.all), p.name, median(p.all))
		}
	}
	empty := &program{name: "floor", env: env, argv: []string{emptyProgram(b)}}
	hook := &program{name: "ours", env: env, argv: []string{filepath.Join(bin, "nacre-hook"), "hook"}, stdin: "{}", fails: true}
	inTurns(b, turns, empty, hook)
	for _, p := range []*program{empty, hook} {
		tell(b, "P-06 hook, at most 3 ms", p.name, median(p.all))
	}
	bare := withoutPlugins(b)
	b.Run("P-07 serve, idle, at most 40 MB", func(b *testing.B) { idle(b, env, []string{bare, "serve"}) })
	b.Run("M-49 serve with the web page, idle, at most 60 MB", func(b *testing.B) { idle(b, env, []string{bare, "serve"}, []string{bare, "web"}) })
	b.Run("M-49 serve with the web page and the plugins of a fresh installation, at rest, at most 60 MB", func(b *testing.B) {
		rests(b, env, []string{nacre, "serve"}, []string{nacre, "web"})
	})
}

// runTurns is how often a run is measured: it makes commits, and takes seconds.
const runTurns = 5

// BenchmarkRun prints what a run with one edited file and a check that does nothing
// takes (P-03, F-120), beside another checkout of the same commit. The first turn, which does
// not count, makes the base.
func BenchmarkRun(b *testing.B) {
	for _, files := range []int{1000, 20_000, 60_000} {
		b.Run(strconv.Itoa(files), func(b *testing.B) {
			for b.Loop() { // it is measured by itself
			}
			env := append(ownHome(b), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
			project := committed(b, files, env)
			recording, beside := filepath.Join(b.TempDir(), "edit.jsonl"), filepath.Join(b.TempDir(), "beside")
			written(b, recording, `{"v":1,"name":"edit"}`+"\n"+`{"tool":"shell","input":{"command":"date +%s%N > edited"}}`+"\n")
			floor := &program{name: "floor", env: env, argv: []string{"git", "-C", project, "worktree", "add", "-qfB", "beside", beside}}
			again := &program{name: "removal", env: env, argv: []string{"git", "-C", project, "worktree", "remove", "-f", beside}}
			ours := &program{name: "ours", env: env, argv: []string{
				filepath.Join(bin, "nacre"), "run", "--brain", "replay", "--recording", recording, "--check", "true", "--project", project, "edit",
			}}
			inTurns(b, runTurns, floor, again, ours)
			for _, p := range []*program{floor, ours} {
				tell(b, "P-03 run, one edited file, at most 0.6 s of 1,000 files and 5 s of 60,000", p.name, median(p.all))
			}
		})
	}
}

// BenchmarkVerification prints what a run takes that changes one line of a small Go module,
// beside the check by itself after such a change, with what was built before (P-10). The
// first turn, which does not count, builds it on the host.
func BenchmarkVerification(b *testing.B) {
	for b.Loop() { // it is measured by itself
	}
	env := ownHome(b)
	change := "date '+// %s%N' >> m.go"
	recording := filepath.Join(b.TempDir(), "edit.jsonl")
	written(b, recording, `{"v":1,"name":"edit"}`+"\n"+`{"tool":"shell","input":{"command":"`+change+`"}}`+"\n")
	module := func() string {
		dir := b.TempDir()
		written(b, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.26\n")
		written(b, filepath.Join(dir, "m.go"), "package m\n\nimport \"net/http\"\n\nfunc OK() int { return http.StatusOK }\n")
		written(b, filepath.Join(dir, "m_test.go"), "package m\n\nimport \"testing\"\n\nfunc TestOK(t *testing.T) {\n\tif OK() != 200 {\n\t\tt.Fatal(OK())\n\t}\n}\n")
		return commit(b, dir, env)
	}
	floor := &program{name: "floor", env: env, argv: []string{"sh", "-c", "cd " + module() + " && " + change + " && go test ./..."}}
	ours := &program{name: "ours", env: env, argv: []string{
		filepath.Join(bin, "nacre"), "run", "--brain", "replay", "--recording", recording, "--check", "go test ./...", "--project", module(), "edit",
	}}
	inTurns(b, runTurns, floor, ours)
	for _, p := range []*program{floor, ours} {
		tell(b, "P-10 run with a check, one changed line of a Go module, at most 1.5 × the check and 1 s", p.name, median(p.all))
	}
}

// committed is a repository whose files have all been committed.
func committed(b *testing.B, files int, env []string) string {
	b.Helper()
	return commit(b, filled(b, files), env)
}

// commit makes a repository of a folder.
func commit(b *testing.B, project string, env []string) string {
	b.Helper()
	cmd := exec.Command("sh", "-c", "git init -q && git config user.name a && git config user.email a@b && git add -A && git commit -qm base")
	cmd.Env, cmd.Dir = env, project
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return project
}

func written(b *testing.B, file, text string) {
	b.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLive prints what a command takes that has git in the live files (U-26): until it
// begins, and git status inside beside git status on the host.
func BenchmarkLive(b *testing.B) {
	env := ownHome(b)
	for _, files := range []int{60, 60_000} {
		project := committed(b, files, env)
		sealed := []string{filepath.Join(bin, "nacre"), "exec", "-q", "--project", project, "--"}
		echo := &program{name: "ours", env: env, argv: append(slices.Clip(sealed), "/bin/echo", "begun")}
		outside := &program{name: "floor", env: env, argv: []string{"git", "-C", project, "status", "--short", "--branch"}}
		inside := &program{name: "ours", env: env, argv: append(slices.Clip(sealed), "git", "status", "--short", "--branch")}
		inTurns(b, turns, echo, outside, inside)
		tell(b, fmt.Sprintf("U-26 exec in a repository of %d files, begins", files), echo.name, median(echo.begin))
		tell(b, fmt.Sprintf("U-26 exec in a repository of %d files, all of it", files), echo.name, median(echo.all))
		for _, p := range []*program{outside, inside} {
			tell(b, fmt.Sprintf("U-26 git status of %d files", files), p.name, median(p.begin))
		}
	}
}

// BenchmarkAgent prints what the home, the gateway and the overlay on a terminal add to exec (U-26), with a program
// that ends at once.
func BenchmarkAgent(b *testing.B) {
	env, nacre := ownHome(b), filepath.Join(bin, "nacre")
	home := filepath.Join(b.TempDir(), "home")
	mine := filepath.Join(home, "mine")
	if err := errors.Join(os.MkdirAll(filepath.Join(home, ".config/nacre"), 0o755), os.WriteFile(mine, []byte("#!/bin/sh\necho begun\n"), 0o755)); err != nil {
		b.Fatal(err)
	}
	env = append(env, "HOME="+home)
	written(b, filepath.Join(home, ".config/nacre/config.toml"),
		fmt.Sprintf("[agents.mine]\ncommand = [%q]\nkeep = [\".mine/sessions\"]\n[[model.upstream]]\nurl = \"http://127.0.0.1:9\"\ndialects = [\"anthropic\"]\n", mine))
	project := committed(b, 60, env)
	exec := []string{nacre, "exec", "-q", "--project", project, "--", "sh", "-c", "echo begun"}
	agent := []string{nacre, "agent", "-q", "--project", project, "mine"}
	programs := []*program{
		{name: "exec", env: env, argv: exec}, {name: "exec on a terminal", env: env, argv: exec, drawn: true},
		{name: "agent", env: env, argv: agent}, {name: "agent on a terminal", env: env, argv: agent, drawn: true},
	}
	inTurns(b, turns, programs...)
	for _, p := range programs {
		tell(b, "U-26 a program with its home, begins, at most exec and 5 ms", p.name, median(p.begin))
		tell(b, "U-26 a program with its home, all of it", p.name, median(p.all))
		tell(b, "U-26 a program with its home, of the processor's time", p.name, median(p.busy))
	}
}

// emptyProgram is built of a main that does nothing.
func emptyProgram(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	source, made := filepath.Join(dir, "main.go"), filepath.Join(dir, "empty")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", made, source).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return made
}

// withoutPlugins is nacre with what serves beside it, and no plugin: the same files, since how much of a
// program the kernel maps depends on how its file was written.
func withoutPlugins(b *testing.B) (nacre string) {
	b.Helper()
	dir := b.TempDir()
	for _, name := range []string{"nacre", "nacre-web", "sandbox-init"} {
		if err := os.Link(filepath.Join(bin, name), filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
	}
	return filepath.Join(dir, "nacre")
}

// idle tells what servers keep in memory that have just begun to wait, all of them together.
func idle(b *testing.B, env []string, servers ...[]string) { keeps(b, 0, env, servers...) }

// rests is idle for servers that have waited for a while, and gave back what they had read of their programs.
func rests(b *testing.B, env []string, servers ...[]string) { keeps(b, 8*time.Second, env, servers...) }

func keeps(b *testing.B, after time.Duration, env []string, servers ...[]string) {
	var started []int
	for _, server := range servers {
		cmd := exec.Command(server[0], server[1:]...)
		cmd.Env = env
		said, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_, _ = io.Copy(io.Discard, said)
			_ = cmd.Wait() // it was interrupted
		}()
		if _, err := bufio.NewReader(said).ReadString('\n'); err != nil { // that it serves
			b.Fatal(err)
		}
		started = append(started, cmd.Process.Pid)
	}
	time.Sleep(after)
	var kept int64
	for _, pid := range started {
		kept += residents(b, pid)
	}
	for b.Loop() { // there is nothing to repeat
	}
	b.ReportMetric(float64(kept)/(1<<20), "MB")
}

// residents is what a process and those that it started have in memory, in bytes.
func residents(b testing.TB, pid int) (sum int64) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // it has ended
	}
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum = kib << 10
		}
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for _, child := range strings.Fields(string(children)) {
			if id, err := strconv.Atoi(child); err == nil {
				sum += residents(b, id)
			}
		}
	}
	return sum
}
