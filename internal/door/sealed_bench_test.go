package door_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/pluginhost"
	"github.com/nacre-dev/nacre/internal/posture"
	"github.com/nacre-dev/nacre/internal/process"
	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// sealedTurns is how often floor and ours of P-05 are measured, in turns, so that what
// else the machine does is shared by both.
const sealedTurns = 500

// P-05: a tool call on a kept connection, through the door and the kernel to a sealed
// plugin, with durable records. The floor is the same bytes over a bare socket and back,
// one write and one fsync. Both are medians.
func BenchmarkSealed(b *testing.B) {
	file, err := os.CreateTemp(b.TempDir(), "")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }() // measured already
	line, turn := make([]byte, 1200), echoSocket(b)
	floor := func() error {
		turn()
		_, err := file.Write(line)
		return errors.Join(err, file.Sync())
	}
	c := dial(b, pipelineOf(b, nil, sealedEcho(b)...))
	ours := func() error {
		_, err := c.Call(b.Context(), ipc.NewRequest("echo", "0123456789abcdef", []byte(`{"n":1}`)))
		return err
	}
	took := map[string][]time.Duration{}
	for range sealedTurns {
		for name, do := range map[string]func() error{"floor": floor, "ours": ours} {
			began := time.Now()
			if err := do(); err != nil {
				b.Fatal(err)
			}
			took[name] = append(took[name], time.Since(began))
		}
	}
	for _, name := range []string{"floor", "ours"} {
		b.Run("P-05 tool call to a sealed plugin, at most 450 µs/"+name, func(b *testing.B) {
			for b.Loop() { // it was measured
			}
			slices.Sort(took[name])
			b.ReportMetric(float64(took[name][sealedTurns/2].Nanoseconds()), "ns/op")
		})
	}
}

// sealedEcho is the tool of a plugin that runs in the native sandbox, as sessions start it.
func sealedEcho(b *testing.B) []nacre.Tool {
	b.Helper()
	root := b.TempDir()
	folder := filepath.Join(root, "echo")
	if err := os.Mkdir(folder, 0o755); err != nil {
		b.Fatal(err)
	}
	const manifest = `{"description":"d","version":"1.0.0","provides":{"tools":[{"name":"echo","description":"gives back",
		"safety_class":"READ","rate_limit":{"calls":1000000,"seconds":1},
		"arguments_schema":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"}}}}]}}`
	if err := os.WriteFile(filepath.Join(folder, "manifest.json"), []byte(manifest), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Rename(build(b, "./testdata/echo"), filepath.Join(folder, "handler")); err != nil {
		b.Fatal(err)
	}
	found, err := pluginhost.Discover(root)
	if err != nil {
		b.Fatal(err)
	}
	host, err := pluginhost.Start(b.Context(), found, pluginhost.Options{
		Launch: sealing(b), Recorder: &recorder{}, Now: time.Now, DataRoot: b.TempDir(), Version: "0.1.0",
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = host.Close(context.Background()) }) // measured already
	tools := host.Tools()
	if len(tools) == 0 {
		b.Fatal(host.Health())
	}
	return tools
}

// native is the sandbox of this machine, without a session around it.
type native struct{ *sandbox.Native }

// Wait implements process.Launcher.
func (native) Wait(_ context.Context, p sandbox.Process) (sandbox.Exit, error) { return p.Wait() }

// sealing starts handlers as a session does.
func sealing(b *testing.B) func(context.Context, pluginhost.LaunchSpec) (pluginhost.Process, error) {
	b.Helper()
	o := sandbox.Options{Init: testpeer.Program(b, sandbox.Init), StateDir: b.TempDir()}
	if problem := sandbox.Support(o).Problem; problem != "" {
		testpeer.Missing(b, "sandbox", "no native sandbox: "+problem)
	}
	s, err := sandbox.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
		p, err := posture.Compute(posture.Input{
			Project: spec.Dir, ReadOnlyProject: true, Offline: true, System: sandbox.SystemMounts(), Env: spec.Env,
			Mounts: []nacre.Mount{{Kind: nacre.BindReadWrite, Source: spec.DataDir, Target: "/data"}},
		})
		if err != nil {
			return pluginhost.Process{}, err
		}
		started, err := process.Start(ctx, native{s}, sandbox.Command{Posture: p, Argv: spec.Argv, Label: "plugin"})
		if err != nil {
			return pluginhost.Process{}, err
		}
		return pluginhost.Process{
			Stdin: started.Input, Stdout: started.Out(), Stderr: started.Complaints(), DataDir: "/data", Kill: started.Kill,
			Wait: func() error { _, err := started.Wait(); return err },
		}, nil
	}
}

// echoSocket gives one turn of a request's bytes over a bare unix socket and back.
func echoSocket(b *testing.B) func() {
	b.Helper()
	ln, path := listen(b)
	go func() {
		if nc, err := ln.Accept(); err == nil {
			_, _ = io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc}) // until the client goes
			_ = nc.Close()                                                   // done
		}
	}()
	client, err := ipc.Socket(path)(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = client.Close(), ln.Close() }) // done
	message := []byte(request("echo", "0123456789abcdef"))
	return func() {
		if _, err := client.Write(message); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(client, message); err != nil {
			b.Fatal(err)
		}
	}
}
