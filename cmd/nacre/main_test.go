// These tests run the real binaries, laid out as `make build` lays them out, by
// their faces: arguments, streams, signals and exit codes.
package main_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/testwait"
)

// bin is the folder of the binaries, laid out as `make build` lays them out.
var bin string

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "claude":
		os.Exit(playedClaude())
	case underFilter:
		os.Exit(becomesFiltered(os.Args[1:]))
	}
	os.Exit(testpeer.Main(func() int { bin = testpeer.Built(); return m.Run() }))
}

// What every start would pay for is not in the programs, whichever library it would come with. That
// is Prometheus' own, and what finds methods by name, for which the linker keeps every method of
// every type.
func TestStartsPayForNothingThatTheyDoNotUse(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"nacre", "brain", "ipc", "ipc-mcp", "sandbox-init"} {
		code, err := os.ReadFile(filepath.Join(bin, program))
		if err != nil {
			t.Fatal(err)
		}
		for _, unwanted := range []string{"github.com/prometheus/", "reflect.Value.MethodByName"} {
			if bytes.Contains(code, []byte(unwanted)) {
				t.Errorf("%s holds %s: go tool nm of a build with symbols says what is linked, and -ldflags=-dumpdep why", program, unwanted)
			}
		}
		if !bytes.Contains(code, []byte("reflect.Value.Field")) {
			t.Errorf("%s: names of functions are not where they are looked for", program)
		}
	}
}

// TestScript runs testdata/script/*.txtar. Each has a home and a runtime folder
// of its own; nacre is called with the exit code that is wanted:
//
//	nacre 2 run
func TestScript(t *testing.T) {
	t.Parallel()
	// That of a home of its own would be cold: minutes, on a busy machine. Where there is
	// no Go, the scripts that want one are skipped.
	out, _ := exec.Command("go", "env", "GOCACHE").Output()
	cache := strings.TrimSpace(string(out))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			if cache != "" {
				e.Setenv("GOCACHE", cache)
			}
			return prepare(e.WorkDir, e.Setenv, e.Defer)
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"nacre": nacreCommand, "project": projectCommand, "bytes": bytesCommand},
	})
}

// prepare makes a home, a runtime folder that is short enough for sockets, and
// an identity for git.
func prepare(work string, setenv func(k, v string), after func(func())) error {
	runtime, err := os.MkdirTemp("", "nr")
	if err != nil {
		return err
	}
	after(func() { _ = os.RemoveAll(runtime) }) // the system's temporary folder is emptied anyway
	for k, v := range environment(work, runtime) {
		setenv(k, v)
	}
	// A go that is asked where it lives leaves a process behind, which writes there
	// when the folder is removed already, unless it was told not to.
	telemetry := filepath.Join(work, "home", ".config", "go", "telemetry")
	if err := os.MkdirAll(telemetry, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off"), 0o600)
}

func environment(work, runtime string) map[string]string {
	return map[string]string{
		"HOME": filepath.Join(work, "home"), "XDG_RUNTIME_DIR": runtime, "PATH": bin + ":" + os.Getenv("PATH"), "TMPDIR": runtime,
		"XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "NACRE_CLAUDE": "", "ANTHROPIC_API_KEY": "",
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8",
		"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.invalid", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.invalid",
	}
}

func nacreCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: nacre CODE ARGUMENT…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(filepath.Join(bin, "nacre"), args[1:]...)
	if have := exitCode(err); have != want {
		ts.Fatalf("nacre %s: exit %d, want %d (%v)", strings.Join(args[1:], " "), have, want, err)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// projectCommand makes a git repository with one commit of what is there:
//
//	project DIR
func projectCommand(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	for _, step := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "--allow-empty", "-m", "first"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", dir}, step...)...))
	}
}

// bytesCommand writes a file of so many bytes, no two lines of it alike:
//
//	bytes FILE COUNT
func bytesCommand(ts *testscript.TestScript, _ bool, args []string) {
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	var text bytes.Buffer
	for i := 0; text.Len() < count; i++ {
		fmt.Fprintf(&text, "%d\n", i*2654435761)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes()[:count], 0o600))
}

// installation is a home with a nacre of its own, for tests that watch it run.
type installation struct {
	t    *testing.T
	work string
	env  []string
	// older is where the programs of an earlier commit are; empty means those that are tested.
	older string
}

// tested is the nacre of the installation.
func (i *installation) tested() string { return filepath.Join(cmp.Or(i.older, bin), "nacre") }

func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{t: t, work: t.TempDir()}
	// what a session that was cut short leaves is shut: an ordinary user opens it first
	t.Cleanup(func() { _ = registry.Discard(i.work) }) // what stays, TempDir tells of
	set := map[string]string{}
	if err := prepare(i.work, func(k, v string) { set[k] = v }, t.Cleanup); err != nil {
		t.Fatal(err)
	}
	for _, entry := range os.Environ() {
		if k, _, _ := strings.Cut(entry, "="); set[k] == "" && !strings.HasPrefix(k, "XDG_") && !isOfTheNetwork(k) {
			i.env = append(i.env, entry)
		}
	}
	for k, v := range set {
		i.env = append(i.env, k+"="+v)
	}
	return i
}

// isOfTheNetwork tells variables of the machine's that say how the network is reached: the
// tests bring their own.
func isOfTheNetwork(name string) bool {
	return strings.HasSuffix(strings.ToUpper(name), "_PROXY") || strings.HasPrefix(name, "SSL_CERT_")
}

// result is what a command ended with.
type result struct {
	code           int
	stdout, stderr string
}

func (i *installation) command(name string, args ...string) *exec.Cmd {
	command := exec.Command(name, args...)
	command.Dir, command.Env = i.work, i.env
	return command
}

func (i *installation) nacre(args ...string) result {
	i.t.Helper()
	return finish(i.t, i.begin(args...))
}

// running is a nacre that was started.
type running struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func (i *installation) begin(args ...string) *running {
	i.t.Helper()
	r := &running{Cmd: i.command(i.tested(), args...)}
	r.Stdout, r.Stderr = &r.stdout, &r.stderr
	if err := r.Start(); err != nil {
		i.t.Fatal(err)
	}
	return r
}

// stands stops a program, as a machine that is asleep does, and lets it go on at the test's end
// at the latest: nobody could wait for its end.
func (r *running) stands(t *testing.T) {
	t.Helper()
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Signal(syscall.SIGCONT) }) // it may have ended
}

func finish(t *testing.T, r *running) result {
	t.Helper()
	stuck := time.AfterFunc(2*time.Minute, func() { _ = r.Process.Signal(syscall.SIGQUIT) }) // it says where it hangs
	defer stuck.Stop()
	err := r.Wait()
	if code := exitCode(err); code == -1 && r.ProcessState == nil {
		t.Fatal(err)
	}
	return result{r.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String()}
}

func (r result) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(r.stdout+r.stderr, part) {
			t.Errorf("have no %q in\n%s%s", part, r.stdout, r.stderr)
		}
	}
	if r.code != code {
		t.Fatalf("exit %d, want %d\n%s%s", r.code, code, r.stdout, r.stderr)
	}
}

// write puts a file below the work folder.
func (i *installation) write(name, text string) string {
	i.t.Helper()
	path := filepath.Join(i.work, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		i.t.Fatal(err)
	}
	return path
}

func (i *installation) git(args ...string) string {
	i.t.Helper()
	command := i.command("git", append([]string{"-C", "p"}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		i.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// project makes the repository p with one commit.
func (i *installation) project() {
	i.t.Helper()
	i.write("p/greeting.txt", "hello\n")
	i.git("init", "-q", "-b", "main")
	i.git("add", "-A")
	i.git("commit", "-q", "-m", "first")
}

// patience is how long a loaded machine may take for what takes seconds. It ends
// the wait for what never comes, and measures nothing.
const patience = 3 * time.Minute

// eventually waits for something that another process does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testwait.Until(t, what, holds)
}

// processes are those on this machine whose arguments hold the marker.
func processes(t testing.TB, marker string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range dirs {
		text, err := os.ReadFile(path) // it may have ended meanwhile
		if err == nil && bytes.Contains(text, []byte(marker)) {
			found = append(found, path+": "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}
