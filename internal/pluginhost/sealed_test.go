package pluginhost_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

const insideData = "/data"

// sealer starts handlers in the native sandbox, as a run does.
func sealer(t testing.TB) func(context.Context, pluginhost.LaunchSpec) (pluginhost.Process, error) {
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
	inR, inW, inErr := os.Pipe()
	outR, outW, outErr := os.Pipe()
	errR, errW, errErr := os.Pipe()
	for _, err := range []error{inErr, outErr, errErr} {
		if err != nil {
			return pluginhost.Process{}, err
		}
	}
	c.Stdin, c.Stdout, c.Stderr = inR, outW, errW
	p, err := native.Start(ctx, c)
	_, _, _ = inR.Close(), outW.Close(), errW.Close()
	if err != nil {
		_, _, _ = inW.Close(), outR.Close(), errR.Close()
		return pluginhost.Process{}, err
	}
	wait := func() error { _, err := p.Wait(); return err }
	return pluginhost.Process{Stdin: inW, Stdout: outR, Stderr: errR, DataDir: insideData, Wait: wait, Kill: p.Kill}, nil
}

// D-21: a handler runs in the agents' own sandbox.
func TestSealedReminders(t *testing.T) {
	root := t.TempDir()
	installReminders(t, root)
	o := options(t)
	o.Launch = sealer(t)
	h := start(t, root, o)
	if _, err := h.call(t.Context(), "create_reminder", `{"title":"Buy milk","list":"L"}`); err != nil {
		t.Fatal(err, h.Health(), h.records.all)
	}
	if have := read(t, o.DataRoot+"/reminders/family/L.ics"); !strings.Contains(have, "Buy milk") {
		t.Errorf("on the host: have %s", have)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
