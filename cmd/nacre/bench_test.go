package main_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkExec is all of `nacre exec` with a project and egress, from the first instruction to the
// exit code. Beside it are a plain process, bwrap with a comparable sandbox, and what the binary
// itself takes to print its help. How long it is until the first word is printed is told as well:
// by then a command has begun.
func BenchmarkExec(b *testing.B) {
	project := b.TempDir()
	env, nacre := ownHome(b), filepath.Join(bin, "nacre")
	run := func(name string, argv ...string) {
		b.Run(name, func(b *testing.B) {
			program, err := exec.LookPath(argv[0])
			if err != nil {
				b.Skip(err)
			}
			command := func() *exec.Cmd {
				cmd := exec.Command(program, argv[1:]...)
				cmd.Env = env
				return cmd
			}
			untilItSpeaks(b, command()) // the first run of a home looks for toolchains
			var begin time.Duration
			for b.Loop() {
				begin += untilItSpeaks(b, command())
			}
			b.ReportMetric(float64(begin.Microseconds())/1000/float64(b.N), "ms-to-begin")
		})
	}
	run("floor", "/bin/echo", "begun")
	run("bwrap", "bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", project, "/workspace",
		"--unshare-all", "--die-with-parent", "/bin/echo", "begun")
	run("binary", nacre, "--help")
	run("ours", nacre, "exec", "-q", "--project", project, "--egress", "proxy.example.com:443", "--", "/bin/echo", "begun")
}

// untilItSpeaks runs a command to its end.
func untilItSpeaks(b *testing.B, cmd *exec.Cmd) time.Duration {
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, spoke := out.Read(make([]byte, 1))
	spent := time.Since(began)
	_, drained := io.Copy(io.Discard, out)
	if err := errors.Join(spoke, drained, cmd.Wait()); err != nil {
		b.Fatal(err)
	}
	return spent
}

func ownHome(b *testing.B) []string {
	return append(os.Environ(), "HOME="+b.TempDir(), "XDG_RUNTIME_DIR=", "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=")
}

// BenchmarkStop is `nacre sessions stop` from its first instruction until nothing is left of a
// session (M-16: less than a second). The session ignores signals and has a process outside its
// group. Beside it is killing a plain process.
func BenchmarkStop(b *testing.B) {
	env, nacre, mark := ownHome(b), filepath.Join(bin, "nacre"), marker()
	command := func(program string, argv ...string) *exec.Cmd {
		cmd := exec.Command(program, argv...)
		cmd.Env = env
		return cmd
	}
	sleeping := func() int { return len(processes(b, "sleep\x001000."+mark)) }
	measure := func(name string, processes int, begin, stop func() *exec.Cmd) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				session := begin()
				if err := session.Start(); err != nil {
					b.Fatal(err)
				}
				for sleeping() < processes {
					time.Sleep(time.Millisecond)
				}
				b.StartTimer()
				if out, err := stop().CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				for sleeping() > 0 {
					time.Sleep(time.Millisecond)
				}
				b.StopTimer()
				_ = session.Wait() // it was ended
				b.StartTimer()
			}
		})
	}
	measure("floor", 1,
		func() *exec.Cmd { return command("sleep", "1000."+mark) },
		func() *exec.Cmd { return command("pkill", "-KILL", "-f", "sleep 1000."+mark) })
	measure("ours", 2,
		func() *exec.Cmd {
			return command(nacre, "exec", "-q", "--session", "work", "--", "sh", "-c",
				"trap '' INT TERM HUP; setsid sleep 1000."+mark+" & sleep 1000."+mark)
		},
		func() *exec.Cmd { return command(nacre, "sessions", "stop", "work") })
}
