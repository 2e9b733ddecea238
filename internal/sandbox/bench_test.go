package sandbox_test

import (
	"os/exec"
	"testing"

	"github.com/nacre-dev/nacre/internal/sandbox"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

func BenchmarkStart(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bwrap", func(b *testing.B) {
		bwrap, err := exec.LookPath("bwrap")
		if err != nil {
			b.Skip(err)
		}
		dir := b.TempDir()
		for b.Loop() {
			cmd := exec.Command(bwrap, "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
				"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", dir, "/workspace",
				"--unshare-all", "--die-with-parent", "/bin/true")
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		n, err := sandbox.Open(sandbox.Options{Init: testpeer.Program(b, sandbox.Init), StateDir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = n.Close() }()
		c := project(command("/bin/true"), b.TempDir())
		for b.Loop() {
			p, err := n.Start(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			if exit, err := p.Wait(); err != nil || exit.Code != 0 {
				b.Fatal(exit, err)
			}
		}
	})
}
