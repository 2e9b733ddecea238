package task_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre/internal/testpeer"
)

// noteGit puts a git before the machine's that notes what it is asked, and gives
// how often it was asked for something since.
func noteGit(t *testing.T) (asked func(wanted string) int) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>'%s'\nexec '%s' \"$@\"\n", notes, real)
	if err := testpeer.WriteProgram(filepath.Join(dir, "git"), script); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func(wanted string) int {
		text, err := os.ReadFile(notes)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), wanted)
	}
}

// P-03: a run that nothing interrupts makes the agent's clone once.
func TestARunClonesOnce(t *testing.T) {
	asked := noteGit(t)
	b := newBench(t)
	result, err := b.opens(t.Context(), func() {}, nil)
	if err != nil || !result.Landed {
		t.Fatalf("have %v, %+v", err, result)
	}
	if have := asked("/work/.git/objects/pack/pack"); have != 1 {
		t.Errorf("the clone was made %d times, want once", have)
	}
}

// S-19: a conversation that was interrupted begins again on a clone as it was.
func TestAnInterruptedConversationBeginsOnACleanClone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	interrupted := errors.New("the power went")
	b.agent.more = func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half.txt"), nil, 0o600), os.Remove(filepath.Join(dir, "mine1.txt")), interrupted)
	}
	if _, err := b.opens(t.Context(), func() {}, nil); !errors.Is(err, interrupted) && (err == nil || !strings.Contains(err.Error(), interrupted.Error())) {
		t.Fatalf("have %v", err)
	}
	b.agent.more = func(dir string) error {
		_, mine := os.Lstat(filepath.Join(dir, "mine1.txt"))
		if _, half := os.Lstat(filepath.Join(dir, "half.txt")); !errors.Is(half, fs.ErrNotExist) {
			return errors.New("half.txt is still there")
		}
		return mine
	}
	if result, err := b.opens(t.Context(), func() {}, nil); err != nil || !result.Landed || b.agent.starts != 2 {
		t.Fatalf("have %v, %+v after %d starts", err, result, b.agent.starts)
	}
}
