package verify_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nacre-dev/nacre/internal/atom"
	"github.com/nacre-dev/nacre/internal/testpeer"
	"github.com/nacre-dev/nacre/internal/verify"
)

// direct runs commands as they are, without a sandbox around them: what the
// sandbox would stop, a verifier must survive all the same.
func direct(limit time.Duration) verify.Runner {
	return func(ctx context.Context, c verify.Command) (verify.Output, error) {
		if limit != 0 {
			c.Limit = min(c.Limit, limit)
		}
		ctx, cancel := context.WithTimeout(ctx, c.Limit)
		defer cancel()
		command := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
		command.Dir, command.Env = c.Dir, append(os.Environ(), c.Env...)
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
		command.WaitDelay = 5 * time.Second
		stdout, stderr := &capped{}, &capped{}
		command.Stdout, command.Stderr = stdout, stderr
		err := command.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
			return verify.Output{ExitCode: 127}, nil
		}
		if command.Process != nil {
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what outlived the run
		}
		return verify.Output{
			ExitCode: command.ProcessState.ExitCode(), TimedOut: ctx.Err() != nil, Stdout: stdout.kept.Bytes(), Stderr: stderr.kept.Bytes(),
			Cut: stdout.cut || stderr.cut,
		}, nil
	}
}

// capped keeps the beginning of a stream.
type capped struct {
	kept bytes.Buffer
	cut  bool
}

func (c *capped) Write(p []byte) (int, error) {
	if room := verify.MaxOutput - c.kept.Len(); len(p) > room {
		c.cut = true
		_, _ = c.kept.Write(p[:room]) // a buffer's write does not fail
		return len(p), nil
	}
	return c.kept.Write(p)
}

// verdictOf judges one edit of a base by one atom.
func verdictOf(t *testing.T, handler string, base, edits files, change func(*verify.Subject), run verify.Runner) verify.Verdict {
	t.Helper()
	tree := edited(base, edits)
	s := verify.Subject{Base: folder(t, base), Tree: folder(t, tree), Changes: changesOf(base, tree), Scratch: t.TempDir()}
	if change != nil {
		change(&s)
	}
	report, err := verify.Judge(t.Context(), s, []atom.Atom{{ID: atom.ID("quality::" + handler), Verify: atom.Verifier{Handler: handler, RunMode: "both"}}}, run)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.Scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if len(report.Verdicts) != 1 {
		t.Fatalf("%+v", report)
	}
	return report.Verdicts[0]
}

// trial is one edit and what its verdict must say; an empty want passes.
type trial struct {
	name  string
	edits files
	want  string
	task  func(*verify.Subject)
	limit time.Duration
}

// needVerifier ends the test where the program that is here is older than what
// the verifier's own scripts are written for (F-142).
func needVerifier(t *testing.T, peer, handler string) {
	t.Helper()
	switch {
	case peer == "cargo":
		testpeer.AtLeast(t, peer, "1.56") // edition 2021
	case peer == "node" && handler == "tests-green":
		testpeer.Able(t, peer, "-e", "process.getBuiltinModule('node:test').test") // 20.16, 22.3
	case peer == "node":
		testpeer.Able(t, peer, "-e", "null ?? 0")
	default:
		testpeer.Need(t, peer)
	}
}

func tryAll(t *testing.T, peer, handler string, base files, trials []trial) {
	t.Helper()
	needVerifier(t, peer, handler)
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			v := verdictOf(t, handler, base, c.edits, c.task, direct(c.limit))
			said := v.Reason + "\n" + v.Detail
			if v.Passed != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("passed %v, want %q, have:\n%s", v.Passed, c.want, said)
			}
			if handler == "tests-green" && v.Strength != verify.Weak {
				t.Errorf("a report of the code under test is %q", v.Strength)
			}
		})
	}
}

// with is a base with more files.
func with(base, more files) files {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}
