package door_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nacre-dev/nacre/internal/ipc"
	"github.com/nacre-dev/nacre/internal/testpeer"
)

// BenchmarkCall is one tool call over a kept connection, against as many bytes
// sent back and forth over a bare unix socket.
func BenchmarkCall(b *testing.B) {
	b.Run("floor", socketFloor)
	b.Run("ours", func(b *testing.B) {
		c := dial(b, serve(b, crew(), config{}))
		for b.Loop() {
			if _, err := c.Call(context.Background(), ipc.NewRequest("echo", "0123456789abcdef", []byte(`{"n":1}`))); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours-64-in-flight", func(b *testing.B) {
		inFlight(b, dial(b, serve(b, crew(), config{})))
	})
}

// socketFloor is a request's bytes back and forth over a bare unix socket.
func socketFloor(b *testing.B) {
	ln, path := listen(b)
	var served sync.WaitGroup
	served.Go(func() {
		nc, err := ln.Accept()
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc}) // until the client goes
		_ = nc.Close()                                                   // done
	})
	client, err := ipc.Socket(path)(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	message := []byte(request("echo", "0123456789abcdef"))
	for b.Loop() {
		if _, err := client.Write(message); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(client, message); err != nil {
			b.Fatal(err)
		}
	}
	_ = client.Close() // done
	served.Wait()
	_ = ln.Close() // done
}

// BenchmarkIPC is one ipc process per call, against a Go program that does nothing.
func BenchmarkIPC(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		empty := build(b, emptyProgram(b))
		for b.Loop() {
			if err := exec.Command(empty).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		program := testpeer.Program(b, "ipc")
		s := serve(b, crew(), config{})
		for b.Loop() {
			cmd := exec.Command(program, "echo", `{"n":1}`)
			cmd.Env = []string{ipc.PathVariable + "=" + s.path}
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("have %v, %s", err, out)
			}
		}
	})
}

func emptyProgram(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "empty.go")
	if err := os.WriteFile(path, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// build makes a program that only benchmarks need, as what ships is made: static and stripped.
func build(b *testing.B, what string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "program")
	cmd := exec.Command(testpeer.Need(b, "go"), "build", "-ldflags=-s -w", "-o", path, what)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v, %s", what, err, out)
	}
	return path
}
