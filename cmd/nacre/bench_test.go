package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkExec is all of `nacre exec` with a project and egress, from the
// first instruction to the exit code, beside a plain process, bwrap with a
// comparable sandbox, and what the binary itself takes to print its help.
func BenchmarkExec(b *testing.B) {
	project := b.TempDir()
	env := append(os.Environ(), "HOME="+b.TempDir(), "XDG_RUNTIME_DIR=", "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=")
	nacre := filepath.Join(bin, "nacre")
	run := func(name string, argv ...string) {
		b.Run(name, func(b *testing.B) {
			program, err := exec.LookPath(argv[0])
			if err != nil {
				b.Skip(err)
			}
			for b.Loop() {
				cmd := exec.Command(program, argv[1:]...)
				cmd.Env = env
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
		})
	}
	run("floor", "/bin/true")
	run("bwrap", "bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", project, "/workspace",
		"--unshare-all", "--die-with-parent", "/bin/true")
	run("binary", nacre, "--help")
	run("ours", nacre, "exec", "-q", "--project", project, "--egress", "proxy.example.com:443", "--", "true")
}
