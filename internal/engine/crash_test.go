package engine_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/engine"
	"github.com/nacre-dev/nacre/internal/testwait"
)

var crashSteps = []string{"launch", "run", "verify", "merge", "record"}

// runChild is the process that the crash tests kill: it works through
// crashSteps, noting each in a log, and stops for ever in the one it is told.
func runChild(stopIn string) int {
	dir := os.Getenv("NACRE_ENGINE_DIR")
	e, err := engine.Open(context.Background(), engine.Options{
		Path: filepath.Join(dir, "engine.sqlite"), Executor: "crash", Attempts: 3,
	}, one(func(w *engine.Run, input json.RawMessage) (json.RawMessage, error) {
		return crashWork(w, input, dir, stopIn)
	}))
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	if err := e.Start(context.Background(), "w", "work", text("start")); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	result, err := e.Wait(context.Background(), "w")
	fmt.Printf("result: %s %v\n", result, err)
	if err := e.Close(); err != nil {
		fmt.Println("error:", err)
	}
	return 0
}

func crashWork(w *engine.Run, input json.RawMessage, dir, stopIn string) (json.RawMessage, error) {
	var told string
	if err := json.Unmarshal(input, &told); err != nil {
		return nil, err
	}
	for _, name := range crashSteps {
		output, err := w.Step(name, func(context.Context) (json.RawMessage, error) {
			if err := note(dir, "begin "+name); err != nil {
				return nil, err
			}
			if name == stopIn {
				fmt.Println("stopped")
				select {}
			}
			if stopIn == "held" && name == "run" {
				fmt.Println("stopped")
				await(filepath.Join(dir, "go"))
			}
			return text(told + " " + name), note(dir, "end "+name)
		})
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(output, &told); err != nil {
			return nil, err
		}
		if stopIn == "wait" && name == "verify" {
			if _, err := w.Receive("approve", time.Hour); err != nil {
				return nil, err
			}
		}
	}
	return text(told), nil
}

// await returns once the file is there.
func await(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func note(dir, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// crash runs a child until it has stopped in a step, and kills it.
func crash(t *testing.T, dir, stopIn string) {
	t.Helper()
	cmd, lines := startChild(t, dir, stopIn)
	for lines.Scan() {
		if lines.Text() == "stopped" {
			break
		}
		if !strings.HasPrefix(lines.Text(), "stopped") {
			t.Fatalf("child said %q", lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
}

func startChild(t *testing.T, dir, stopIn string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "NACRE_ENGINE_CHILD="+stopIn, "NACRE_ENGINE_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func finish(t *testing.T, dir string) string {
	t.Helper()
	cmd, lines := startChild(t, dir, "nowhere")
	var last string
	for lines.Scan() {
		last = lines.Text()
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("child: %v: %s", err, last)
	}
	return last
}

// M-16, M-55: killed in any step, only that step runs again.
func TestOnlyTheInterruptedStepRunsAgain(t *testing.T) {
	for i, stopIn := range crashSteps {
		t.Run(stopIn, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			crash(t, dir, stopIn)
			if have, want := finish(t, dir), `result: "start launch run verify merge record" <nil>`; have != want {
				t.Errorf("have %s, want %s", have, want)
			}
			var want []string
			for j, name := range crashSteps {
				if j == i {
					want = append(want, "begin "+name)
				}
				want = append(want, "begin "+name, "end "+name)
			}
			if have := logged(t, dir); !slices.Equal(have, want) {
				t.Errorf("have %q, want %q", have, want)
			}
		})
	}
}

func logged(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// M-16: a workflow that kills its process each time is given up.
func TestPoisonIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		crash(t, dir, "run")
	}
	if have := finish(t, dir); !strings.Contains(have, engine.ErrAttempts.Error()) {
		t.Errorf("have %s", have)
	}
	if have, want := strings.Count(strings.Join(logged(t, dir), "\n"), "begin run"), 3; have != want {
		t.Errorf("the step ran %d times, want %d", have, want)
	}
}

// A signal sent while nobody runs is there when the session comes back.
func TestASignalOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	crash(t, dir, "launch")
	c := client(t, filepath.Join(dir, "engine.sqlite"))
	if err := c.Signal(t.Context(), "w", "approve", json.RawMessage(ok)); err != nil {
		t.Fatal(err)
	}
	cmd, lines := startChild(t, dir, "wait")
	var last string
	for lines.Scan() {
		last = lines.Text()
	}
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(last, `result: "start launch`) {
		t.Errorf("have %s, %v", last, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// the time that a process was stopped for is no time that its file could not be written in.
func TestAStoppedProcessDoesNotBlameItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, lines := startChild(t, dir, "held")
	if !lines.Scan() || lines.Text() != "stopped" {
		t.Fatalf("child said %q", lines.Text())
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "engine.sqlite")+"?_pragma=busy_timeout(20000)") // the child writes there too
	check(t, err)
	defer func() { check(t, db.Close()) }()
	hold, err := db.Conn(t.Context())
	check(t, err)
	_, err = hold.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	testwait.Until(t, "the end of the step", func() bool { return slices.Contains(logged(t, dir), "end run") })
	time.Sleep(time.Second) // its result cannot be kept
	check(t, cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(16 * time.Second) // longer than a result may take to be kept
	_, err = hold.ExecContext(t.Context(), "ROLLBACK")
	check(t, err)
	check(t, hold.Close())
	check(t, cmd.Process.Signal(syscall.SIGCONT))
	var last string
	for lines.Scan() {
		last = lines.Text()
	}
	if want := `result: "start launch run verify merge record" <nil>`; cmd.Wait() != nil || last != want {
		t.Errorf("have %s, want %s", last, want)
	}
}
