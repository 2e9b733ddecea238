package pluginhost_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// BenchmarkStart is reminders from its folder to ready, and its end; the floor is
// its process alone.
func BenchmarkStart(b *testing.B) {
	root := b.TempDir()
	installReminders(b, root)
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command(filepath.Join(root, "reminders", "handler"))
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	startAndEnd := func(b *testing.B, launch func(context.Context, pluginhost.LaunchSpec) (pluginhost.Process, error)) {
		o := options(b)
		o.Launch = launch
		for b.Loop() {
			found, err := pluginhost.Discover(root)
			if err != nil {
				b.Fatal(err)
			}
			h, err := pluginhost.Start(b.Context(), found, o)
			if err != nil || len(h.Tools()) == 0 {
				b.Fatal(err, h.Health())
			}
			if err := h.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("ours", func(b *testing.B) { startAndEnd(b, launch) })
	b.Run("sealed", func(b *testing.B) { startAndEnd(b, sealer(b)) })
}

// BenchmarkCall is one call of a handler and of an MCP server, each as it is and in the sandbox.
// The floor is a line through two pipes and back.
func BenchmarkCall(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		p, err := started(exec.Command("cat"))
		if err != nil {
			b.Fatal(err)
		}
		line := bufio.NewReader(p.Stdout)
		for b.Loop() {
			if _, err := p.Stdin.Write([]byte("{}\n")); err != nil {
				b.Fatal(err)
			}
			if _, err := line.ReadString('\n'); err != nil {
				b.Fatal(err)
			}
		}
		_ = p.Stdin.Close()
		_, _, _ = p.Wait(), p.Stdout.Close(), p.Stderr.Close()
	})
	call := func(b *testing.B, sealed bool, write func(root, program string), tool, args string) {
		root := b.TempDir()
		program := "self"
		o := options(b)
		if sealed {
			seal := sealer(b)
			program, o.Launch = "./self", func(ctx context.Context, spec pluginhost.LaunchSpec) (pluginhost.Process, error) {
				spec.Env = append(spec.Env, modeVariable+"="+spec.Argv[1])
				return seal(ctx, spec)
			}
		}
		write(root, program)
		if sealed { // what runs lies in its folder
			self, err := os.Executable()
			if err != nil {
				b.Fatal(err)
			}
			if out, err := exec.Command("cp", self, filepath.Join(root, "p", "self")).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
		h := start(b, root, o)
		if f := h.Health().Failed; len(f) > 0 {
			b.Fatal(f, h.records.all)
		}
		for b.Loop() {
			if _, err := h.call(b.Context(), tool, args); err != nil {
				b.Fatal(err)
			}
		}
	}
	handler := func(root, program string) {
		writePlugin(b, root, "p", fmt.Sprintf(`"handler":[%q,"sdk"]`, program), "echo")
	}
	server := func(root, program string) {
		writeFile(b, filepath.Join(root, "p", "manifest.json"), fmt.Sprintf(mcpManifest, fmt.Sprintf(`"mcp":{"command":[%q,"mcp-good"]}`, program)), 0o644)
	}
	b.Run("ours", func(b *testing.B) { call(b, false, handler, "echo", `{}`) })
	b.Run("sealed", func(b *testing.B) { call(b, true, handler, "echo", `{}`) })
	b.Run("mcp", func(b *testing.B) { call(b, false, server, "get_text", `{"text":"hi"}`) })
	b.Run("mcp-sealed", func(b *testing.B) { call(b, true, server, "get_text", `{"text":"hi"}`) })
}
