package plugintest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/plugintest"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

const insideData = "/data"

// sealer starts handlers in the native sandbox, as a session does.
func sealer(t *testing.T) func(context.Context, pluginhost.LaunchSpec) (pluginhost.Process, error) {
	t.Helper()
	o := sandbox.Options{Init: testpeer.Program(t, sandbox.Init), StateDir: t.TempDir()}
	if problem := sandbox.Support(o).Problem; problem != "" {
		testpeer.Missing(t, "sandbox", "no native sandbox: "+problem)
	}
	native, err := sandbox.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = native.Close() })
	return func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
		p, err := posture.Compute(posture.Input{
			Project: spec.Dir, ReadOnlyProject: true, Offline: true, System: sandbox.SystemMounts(), Env: spec.Env,
			Mounts: []nacre.Mount{{Kind: nacre.BindReadWrite, Source: spec.DataDir, Target: insideData}},
		})
		if err != nil {
			return pluginhost.Process{}, err
		}
		return startSealed(ctx, native, sandbox.Command{Posture: p, Argv: spec.Argv, Label: "plugin"})
	}
}

func startSealed(ctx context.Context, native *sandbox.Native, c sandbox.Command) (pluginhost.Process, error) {
	var pipes [3][2]*os.File
	for i := range pipes {
		var err error
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			return pluginhost.Process{}, err
		}
	}
	c.Stdin, c.Stdout, c.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	p, err := native.Start(ctx, c)
	_, _, _ = pipes[0][0].Close(), pipes[1][1].Close(), pipes[2][1].Close()
	if err != nil {
		_, _, _ = pipes[0][1].Close(), pipes[1][0].Close(), pipes[2][0].Close()
		return pluginhost.Process{}, err
	}
	wait := func() error { _, err := p.Wait(); return err }
	return pluginhost.Process{Stdin: pipes[0][1], Stdout: pipes[1][0], Stderr: pipes[2][0], DataDir: insideData, Wait: wait, Kill: p.Kill}, nil
}

// D-22: in the sandbox it is seen what a handler leaves behind.
func TestWhatIsLeftBehind(t *testing.T) {
	testpeer.Need(t, "python3")
	seal := sealer(t)
	for at, c := range []struct{ name, code, want string }{
		{"nothing", "", ""},
		{"a process", "import subprocess; subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)", "process"},
		{"a daemon", "import os\nif os.fork() == 0:\n    os.setsid(); os.closerange(0, 3)\n    import time; time.sleep(60)", "process"},
		{"a file in /tmp", "open('/tmp/left.txt', 'w').close()", "/tmp/left.txt"},
		{"a file at home", "import os; open(os.path.expanduser('~/.cache.db'), 'w').close()", ".cache.db"},
		{"a temporary file that goes again", "import tempfile; tempfile.TemporaryFile().close()", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _, err := plugintest.New(t.Context(), t.TempDir(), nacre.PluginName(fmt.Sprintf("left%d", at)), "python")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "handler.py")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), "\ndef main():\n", "\ndef main():\n    exec("+fmt.Sprintf("%q", c.code)+")\n", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			o := options(t, dir)
			o.Launch, o.Witness, o.Limits, o.Patience = seal, true, pluginhost.Limits{}, 0
			report, err := plugintest.Run(t.Context(), o)
			_, all := failures(report)
			if err != nil || report.Passed != (c.want == "") || !strings.Contains(all, c.want) {
				t.Errorf("passed %t, %v, want %q\n%s", report.Passed, err, c.want, all)
			}
		})
	}
}
